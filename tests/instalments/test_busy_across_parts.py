# SPDX-License-Identifier: MIT
"""Intervals, kernels and ranges that cross the border between two parts."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "readers"))
from nsys_files import Export, global_tid

from harness import readers
from harness.instalments import VIEWS, report_in_parts
from harness.readers import columns
from harness.readers.nsys_sqlite import in_parts
from harness.report import Request, build


@pytest.fixture(params=[1, 2, 3])
def program(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Long kernels that overlap later ones; ranges without launches; three processes."""
    monkeypatch.setattr(columns.Database.pieces, "__defaults__", (40,))
    export = Export(tmp_path / "report.sqlite")
    rng = random.Random(request.param)
    rows = []
    for pid in (10, 20, 30):
        main, other = global_tid(pid, pid), global_tid(pid, pid + 1)
        rows.append(("range", 0, 10**6, main, {"text": "whole"}))
        for i in range(150):
            at = 1000 * i
            rows.append(("range", at, at + 950, main, {"text": f"step {i % 3}"}))
            rows.append(("range", at + 500, at + 600, other, {"text": "idle"}))
            rows.append(("range", at + 400, at + 2500, main, {"eventType": 60, "text": "s"}))
            rows.append(
                ("launch", at + 10, at + 20, rng.choice((main, other)), i, "cudaLaunchKernel")
            )
            begin = at + rng.choice((0, 300, 9000))
            length = rng.choice((1, 700, 1000, 30_000))
            rows.append(("kernel", begin, begin + length, global_tid(pid), i, rng.choice("kl")))
    rng.shuffle(rows)
    for call, *values in rows:
        if call == "range":
            export.range(*values[:-1], **values[-1])
        else:
            getattr(export, call)(*values)
    return export.done()


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("size", [25, 90, 10**6])
def test_parts_equal_the_whole(program: Path, view: str, size: int) -> None:
    for policy in ("thread", "process"):
        request = Request(view=view, policy=policy, details=False)
        whole = build(readers.load(program), request, name="x")
        with in_parts(program, size) as parts:
            found = report_in_parts(parts, request, name="x")
        pd.testing.assert_frame_equal(
            whole.rows, found.rows, check_dtype=False, check_categorical=False, check_exact=True
        )
        assert found.ledger == whole.ledger
