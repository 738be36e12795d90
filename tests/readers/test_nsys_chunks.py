# SPDX-License-Identifier: MIT
"""A report read in parts is the report."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from nsys_files import DATA, Export, global_tid

from harness.attribute import attribute
from harness.readers import columns, nsys_sqlite
from harness.trace import POLICIES, Trace

REPORTS = sorted((DATA / "h200").glob("*.sqlite"))
KEY = ["kind", "start", "end", "process", "correlation", "stream", "name", "demangled", "bytes"]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two processes whose correlation ids collide, rows in random order, small pieces."""
    monkeypatch.setattr(columns.Database.pieces, "__defaults__", (50,))
    export = Export(tmp_path / "report.sqlite")
    rng = random.Random(7)
    rows = []
    for pid in (10, 20):
        main, other = global_tid(pid, pid), global_tid(pid, pid + 1)
        rows.append(("range", 0, 10**6, main, {"text": "whole"}))
        for i in range(400):
            start = 1000 * i
            rows.append(("range", start, start + 900, main, {"text": f"step {i % 5}"}))
            rows.append(("range", start + 400, start + 1500, main, {"eventType": 60, "text": "s"}))
            tid = main if i % 3 else other
            rows.append(("launch", start + 10, start + 20, tid, i, "cudaLaunchKernel"))
            rows.append(("kernel", start + 5000, start + 5000 + i, global_tid(pid), i, "k"))
    rows.append(("kernel", 1, 2, global_tid(10), 10**7, "nobody launched it"))
    rows.append(("kernel", 1, 2, None, 10**7, "nobody's"))
    rng.shuffle(rows)
    for call, *values in rows:
        if call == "range":
            export.range(*values[:-1], **values[-1])
        else:
            getattr(export, call)(*values)
    return export.done()


def gathered(parts: list[Trace], name: str) -> pd.DataFrame:
    frames = [getattr(part, name) for part in parts]
    return pd.concat([frame.astype(dict.fromkeys(frame.select_dtypes("category"), object))
                      for frame in frames])  # fmt: skip


def ordered(frame: pd.DataFrame, by: list[str]) -> list[tuple[object, ...]]:
    return sorted(frame[by].astype(object).itertuples(index=False, name=None), key=repr)


def ruled(trace: Trace, policy: str) -> list[tuple[object, ...]]:
    """Each op with its rule and path."""
    found = attribute(trace, policy=policy)
    from harness import summarise

    ops = summarise.ops(found)
    return ordered(ops, ["kind", "name", "start_ns", "correlation", "pid", "tid", "rule", "path"])


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("rows", [1, 37, 10**9])
def test_parts_of_a_real_report(path: Path, rows: int) -> None:
    whole, parts = nsys_sqlite.read(path), list(nsys_sqlite.iter_chunks(path, max(rows, 10)))
    _same(whole, parts)


@pytest.mark.parametrize("engine", ["adbc", "stdlib"])
@pytest.mark.parametrize("rows", [60, 333, 10**6])
def test_parts_of_two_processes(program: Path, rows: int, engine: str) -> None:
    parts = list(nsys_sqlite.iter_chunks(program, rows, engine=engine))
    assert len(parts) == -(-1602 // rows)
    _same(nsys_sqlite.read(program), parts)


def _same(whole: Trace, parts: list[Trace]) -> None:
    assert ordered(gathered(parts, "gpu_ops"), KEY) == ordered(whole.gpu_ops, KEY)
    columns = ["thread", "start", "end", "correlation", "name"]
    assert ordered(gathered(parts, "launches"), columns) == ordered(whole.launches, columns)
    for part in parts:
        pd.testing.assert_frame_equal(part.threads, whole.threads)
    for policy in POLICIES:
        mine = [row for part in parts for row in ruled(part, policy)]
        assert sorted(mine, key=repr) == ruled(whole, policy)


def test_a_range_in_several_parts_keeps_its_row(program: Path) -> None:
    ranges = gathered(list(nsys_sqlite.iter_chunks(program, 100)), "ranges")
    once = ranges[~ranges.index.duplicated()]
    assert len(once) < len(ranges)
    assert once["name"].value_counts()["whole"] == 2
    again = ranges.groupby(level=0)[["start", "end", "thread"]].nunique()
    assert (again == 1).all(axis=None)


def test_parts_are_small(program: Path) -> None:
    parts = list(nsys_sqlite.iter_chunks(program, 100))
    sizes = np.array([len(part.launches) + len(part.gpu_ops) for part in parts])
    assert sizes.max() < 200
