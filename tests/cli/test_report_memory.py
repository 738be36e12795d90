# SPDX-License-Identifier: MIT
"""``harness report --memory``."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from harness import gather
from harness.cli.report import memory_size
from harness.errors import UsageProblem
from harness.instalments import VIEWS

TRAIN = Path(__file__).parents[1] / "data/h200/train.sqlite"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 0),
        ("512MiB", 512 << 20),
        ("2GiB", 2 << 30),
        ("2GB", 2 * 10**9),
        ("1.5k", 1500),
        ("9", 9),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert memory_size(text) == size


@pytest.mark.parametrize(
    "text", ["x", "0", "-1GiB", "1 GiB more", "nan", "0.9", "9" * 400, "99999999999TiB"]
)
def test_no_size(text: str) -> None:
    with pytest.raises(UsageProblem, match="is not a size"):
        memory_size(text)


@pytest.mark.parametrize(("size", "told"), [("1", True), ("200MiB", True), ("3GiB", False)])
def test_a_budget_that_cannot_be_kept_is_told(
    report: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    size: str,
    told: bool,
) -> None:
    monkeypatch.setattr(gather, "EXPORT_MEMORY", 10**9)  # in parts, however small
    code, out, err = report(TRAIN, "--memory", size, "--format", "csv")
    assert code == 0
    assert out == report(TRAIN, "--format", "csv")[1]
    assert "in-parts" in err
    assert ("cannot be kept" in err) == told


@pytest.mark.parametrize("column", ["streamId", "contextId", "mangledName"])
@pytest.mark.parametrize("view", VIEWS)
def test_parts_are_no_stricter_about_columns_that_nobody_asks_for(
    report: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    view: str,
    column: str,
) -> None:
    path = shutil.copyfile(TRAIN, tmp_path / "odd.sqlite")
    with closing(sqlite3.connect(path)) as db, db:
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        db.execute(f"UPDATE {table} SET {column} = 'abc' WHERE rowid = 3")
    whole = report(path, "--view", view, "--format", "csv")
    monkeypatch.setattr(gather, "EXPORT_MEMORY", 10**9)  # in parts, however small
    found = report(path, "--view", view, "--format", "csv", "--memory", "1GiB")
    assert (whole[0], found[0]) == (0, 0)
    assert found[1] == whole[1]


@pytest.mark.parametrize(("jobs", "whole"), [(1, True), (2, False)])
def test_processes_share_the_budget(
    report: Callable[..., tuple[int, str, str]], tmp_path: Path, jobs: int, whole: bool
) -> None:
    files = [shutil.copyfile(TRAIN, tmp_path / f"{rank}.sqlite") for rank in (0, 1)]
    for file in files:
        os.truncate(file, 150_000_000)  # zeros at the end, which SQLite does not look at
    budget = ("--memory", "600MB", "--format", "json")
    code, out, _ = report(*files, *budget, "--jobs", str(jobs))
    assert code == 0
    for one in json.loads(out)["reports"]:
        codes = [warning["code"] for warning in one["warnings"]]
        assert ("in-parts" in codes) != whole
        assert "memory-not-kept" not in codes


def test_no_more_processes_than_the_budget_is_enough_for() -> None:
    sources = [gather.Input(str(TRAIN), f"{rank}") for rank in range(8)]
    for memory, number in ((1, 1), (300_000_000, 1), (600_000_000, 2), (1 << 40, 4), (0, 4)):
        assert gather.worker_count(sources, 4, memory) == number
