# SPDX-License-Identifier: MIT
"""Policy ``thread`` equals NVIDIA's nvtx_kern_sum on our own recordings as well.

``nvtx_kern_sum.csv`` beside a recording is what ``nsys stats -r nvtx_kern_sum`` of 2023.4.4 printed
for it. That version writes ``name`` or ``domain:name``.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from recordings import NAMES, RECORDED, found, sql

from harness import summarise

STYLES = {"PushPop": "push_pop", "StartEnd": "start_end", "": ""}
WITH_ROWS = [name for name in NAMES if (RECORDED / name / "nvtx_kern_sum.csv").exists()]
NOWHERE = ("", "")  # range and style of what no range claims


def nvidia(name: str) -> dict[tuple[Any, ...], tuple[int, ...]]:
    out = {}
    with (RECORDED / name / "nvtx_kern_sum.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            where = (row["NVTX Range"], STYLES[row["Style"]], row["PID"], row["TID"])
            key = (*where, row["Kernel Name"])
            assert key not in out
            out[key] = tuple(
                int(float(row[c]))
                for c in ("NVTX Inst", "Kern Inst", "Total Time (ns)", "Min (ns)", "Max (ns)")
            )
    return out


def ours(name: str) -> dict[tuple[Any, ...], tuple[int, ...]]:
    out = {}
    for row in summarise.kernels(found(name, "thread"), names="demangled").itertuples():
        label = f"{row.domain}:{row.name}" if row.domain else row.name
        key = (label, row.style, str(row.pid), str(row.tid), row.kernel)
        assert key not in out
        out[key] = (row.instances, row.kernels, row.total_ns, row.min_ns, row.max_ns)
    return out


def test_every_recording_with_kernels_is_compared() -> None:
    without = {name for name in NAMES if not len(summarise.kernels(found(name, "thread")))}
    # Its kernels are all unlinked.
    assert set(WITH_ROWS) == (set(NAMES) - without) | {"graph-conditional-node"}


@pytest.mark.parametrize("name", WITH_ROWS)
def test_kernels_view_equals_nvtx_kern_sum(name: str) -> None:
    theirs, mine = nvidia(name), ours(name)
    differ = {key for key in theirs.keys() | mine.keys() if theirs.get(key) != mine.get(key)}
    if name == "threads":  # nsys drops a start/end range that another thread ends
        assert {key[:2] for key in differ} == {NOWHERE, ("handover", "start_end")}
        assert [theirs[k] for k in differ if k in theirs] == [
            (0, *mine[k][1:]) for k in differ if k in mine
        ]
    elif name == "graph-conditional-node":  # unlinked: they have no thread to list them under
        assert mine == {}
        assert {key[:4] for key in theirs} == {("", "", "", "")}
        assert sum(row[2] for row in theirs.values()) == found(name).ledger.unlinked_ns
    else:
        assert not differ


@pytest.mark.parametrize("name", NAMES)
def test_the_captured_range_adds_nothing(name: str) -> None:
    """captured_path is a second name of an op, not a second place to count it."""
    ops = summarise.ops(found(name))
    ((number, ns),) = sql(
        name,
        "SELECT count(*), total(end - start) FROM ("
        + " UNION ALL ".join(
            f"SELECT start, end FROM {table}"
            for (table,) in sql(
                name,
                """SELECT name FROM sqlite_master WHERE name IN ('CUPTI_ACTIVITY_KIND_KERNEL',
                   'CUPTI_ACTIVITY_KIND_MEMCPY', 'CUPTI_ACTIVITY_KIND_MEMSET',
                   'CUPTI_ACTIVITY_KIND_GRAPH_TRACE')""",
            )
        )
        + ")",
    )
    assert (len(ops), int((ops["end_ns"] - ops["start_ns"]).sum())) == (number, ns)
