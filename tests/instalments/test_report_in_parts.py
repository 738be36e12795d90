# SPDX-License-Identifier: MIT
"""A report made part by part has the figures of the report made at once."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

from harness import readers
from harness.errors import UsageProblem
from harness.instalments import VIEWS, report_in_parts
from harness.readers.nsys_sqlite import in_parts
from harness.report import Report, Request, build
from harness.selection import Selection
from harness.trace import POLICIES

DATA = Path(__file__).parents[1] / "data"
REPORTS = sorted((DATA / "h200").glob("*.sqlite"))


def in_parts_of(path: Path, rows: int, request: Request) -> Report:
    with in_parts(path, rows) as parts:
        return report_in_parts(parts, request, name="x")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_parts_of_a_real_report_give_the_same_rows(path: Path, view: str, policy: str) -> None:
    request = Request(view=view, policy=policy, details=False)
    whole = build(readers.load(path), request, name="x")
    found = in_parts_of(path, 97, request)
    pd.testing.assert_frame_equal(
        whole.rows, found.rows, check_dtype=False, check_categorical=False, check_exact=True
    )
    assert found.ledger == whole.ledger


def test_a_real_report_has_many_parts() -> None:
    path = DATA / "h200/train.sqlite"
    message = in_parts_of(path, 37, Request()).warnings[-1].message
    assert int(message.split(" parts")[0].split()[-1]) > 10


@pytest.mark.parametrize("correlation", [-(2**63), -(2**62) - 1, 2**62, 2**63 - 1])
@pytest.mark.parametrize("rows", [97, 1_000_000])
def test_no_op_is_lost_whatever_its_correlation_id(
    tmp_path: Path, correlation: int, rows: int
) -> None:
    path = shutil.copyfile(DATA / "h200/train.sqlite", tmp_path / "far.sqlite")
    with closing(sqlite3.connect(path)) as db, db:
        for table, every in (("KERNEL", 3), ("MEMCPY", 2), ("RUNTIME", 5)):
            db.execute(
                f"UPDATE CUPTI_ACTIVITY_KIND_{table} SET correlationId = ? WHERE rowid % ? = 1",
                (correlation, every),
            )
    request = Request(details=False)
    whole = build(readers.load(path), request, name="x")
    found = in_parts_of(path, rows, request)
    pd.testing.assert_frame_equal(
        whole.rows, found.rows, check_dtype=False, check_categorical=False, check_exact=True
    )
    assert found.ledger == whole.ledger


def test_what_parts_cannot_answer_is_refused() -> None:
    path = REPORTS[0]
    for request in (Request(view="ops"), Request(selection=Selection(skip=1))):
        with pytest.raises(UsageProblem, match="whole recording in memory"):
            in_parts_of(path, 100, request)
