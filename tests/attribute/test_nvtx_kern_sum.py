# SPDX-License-Identifier: MIT
"""Policy ``thread`` equals NVIDIA's own nvtx_kern_sum, row for row, on every recorded report."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import harness
from harness import summarise

H200 = Path(__file__).parent.parent / "data" / "h200"
REPORTS = ["blocks", "train", "nested", "graph_graph", "graph_node", "memops", "crash"]
STYLES = {"PushPop": "push_pop", "StartEnd": "start_end", "": ""}

Row = tuple[str, str, str, int, int, str]
Figures = tuple[int, int, int, int, int]

#: Rows in which we mean to differ (design: recursion counted once, start/end ranges that end on
#: another thread kept), as (report, domain, name) -> reason.
DIFFERENT = {
    ("nested", "", "recurse"): "nsys counts a kernel once for each level of a recursive range",
    ("nested", "", "start-end"): "nsys drops start/end ranges that end on another thread",
}


def nvidia(report: str) -> dict[Row, Figures]:
    """The CSV as {row key: (range instances, kernels, total, min, max)}."""
    out: dict[Row, Figures] = {}
    path = H200 / "nsys_stats" / f"{report}.nvtx_kern_sum.csv"
    # nsys 2025.3 writes a quotation mark inside a quoted field as it is.
    text = path.read_text(encoding="utf-8").replace('quote " comma', 'quote "" comma')
    for row in csv.DictReader(io.StringIO(text, newline="")):
        domain, _, name = row["NVTX Range"].partition(":")
        pid, tid, kernel = int(row["PID"]), int(row["TID"]), row["Kernel Name"]
        key = (domain, name, STYLES[row["Style"]], pid, tid, kernel)
        assert key not in out
        out[key] = tuple(  # type: ignore[assignment]
            int(float(row[c]))
            for c in ("NVTX Inst", "Kern Inst", "Total Time (ns)", "Min (ns)", "Max (ns)")
        )
    return out


def ours(report: str, policy: str = "thread") -> dict[Row, Figures]:
    found = harness.load(H200 / f"{report}.sqlite").attribute(policy)
    table = summarise.kernels(found, names="demangled")
    out: dict[Row, Figures] = {}
    for row in table.itertuples(index=False):
        key = (row.domain, row.name, row.style, row.pid, row.tid, row.kernel)
        assert key not in out
        out[key] = (row.instances, row.kernels, row.total_ns, row.min_ns, row.max_ns)
    return out


@pytest.mark.parametrize("report", REPORTS)
def test_kernels_view_equals_nvtx_kern_sum(report: str) -> None:
    theirs, mine = nvidia(report), ours(report)
    changed = {key[:2] for key in theirs.keys() | mine.keys() if theirs.get(key) != mine.get(key)}
    named = {(domain, name) for where, domain, name in DIFFERENT if where == report}
    if report == "nested":
        # What nsys files under no range because the start/end range was dropped moves with it.
        named.add(("", ""))
    assert changed == named


def test_recursion_counts_each_kernel_once() -> None:
    # Five levels, one sin kernel a level; nsys sums 5+4+3+2+1 = 15 of them to 37 952 ns.
    theirs = [v for k, v in nvidia("nested").items() if k[1] == "recurse"]
    mine = [v for k, v in ours("nested").items() if k[1] == "recurse"]
    assert [row[0] for row in theirs] == [5]
    assert [row[2] for row in theirs] == [37952]
    assert [(row[0], row[1], row[3], row[4]) for row in mine] == [(5, 5, *theirs[0][3:])]


def test_a_range_ended_on_another_thread_keeps_its_kernel() -> None:
    cosh = {k: v for k, v in ours("nested").items() if "::cosh_kernel_cuda" in k[5]}
    assert {(k[1], k[2]): v[2] for k, v in cosh.items()} == {("start-end", "start_end"): 2496}
    # The same 2 496 ns stand in NVIDIA's table, under no range.
    theirs = {k: v for k, v in nvidia("nested").items() if "::cosh_kernel_cuda" in k[5]}
    assert {(k[1], k[2]): v[2] for k, v in theirs.items()} == {("", ""): 2496}
