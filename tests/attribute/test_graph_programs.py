# SPDX-License-Identifier: MIT
"""examples/graphs.cu on an H200, nodes recorded and graphs as wholes.

The counts are those the comments of the program give; times are read by SQL.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from recordings import by_path, found, inside, sql, sql_ranges, sql_work, total

from harness import summarise

#: case -> (replay range, kernel, captured in): kernels in all replays.
KERNELS: dict[str, dict[tuple[str, str, str], int]] = {
    "nested": {
        ("replay-nested", "outer_kernel", "capture-outer"): 4,
        ("replay-nested", "middle_kernel", "capture-middle"): 4,
        ("replay-nested", "inner_kernel", "capture-inner"): 8,
    },
    # Where an update's kernels were captured is not recorded.
    "reinstantiated": {
        ("replay-first", "inner_kernel", "capture"): 4,
        ("replay-first", "middle_kernel", "capture"): 4,
        ("replay-second", "inner_kernel", "capture"): 4,
        ("replay-second", "middle_kernel", "capture"): 4,
        ("replay-updated", "other_kernel", ""): 4,
        ("replay-updated", "outer_kernel", ""): 4,
    },
    "several": {
        ("replay-one", "inner_kernel", "capture-one"): 12,
        ("replay-two", "other_kernel", "capture-two"): 4,
        ("eager", "outer_kernel", ""): 4,
    },
    # No correlation id for what runs in the body of a conditional node: unlinked.
    "conditional": {
        ("", "inner_kernel", "capture-body"): 3,
        ("", "count_down", "capture-body"): 3,
    },
    # nsys records no node of what was launched from the device.
    "device-launch": {("replay-launcher", "launches", "capture-launcher"): 4},
}
#: case -> replay range: graph launches, with graphs recorded as wholes.
GRAPHS = {
    "nested": {"replay-nested": 4},
    "reinstantiated": {"replay-first": 4, "replay-second": 4, "replay-updated": 4},
    "several": {"replay-one": 4, "replay-two": 4},
    "conditional": {"replay-conditional": 1},
    "device-launch": {"replay-launcher": 4},
}


#: case -> (replay range, captured in): graphs as wholes. What is launched from the device has no
#: replay range; conditional's graph was made by hand, outside of every range.
CAPTURED: dict[str, dict[tuple[str, str], int]] = {
    "nested": {("replay-nested", "capture-outer"): 4},
    "reinstantiated": {
        ("replay-first", "capture"): 4,
        ("replay-second", "capture"): 4,
        ("replay-updated", ""): 4,
    },
    "several": {("replay-one", "capture-one"): 4, ("replay-two", "capture-two"): 4},
    "conditional": {("replay-conditional", ""): 1},
    "device-launch": {
        ("replay-launcher", "capture-launcher"): 4,
        ("", "capture-payload"): 4,
    },
}


def codes(report: str, view: str = "ops") -> dict[str, str]:
    getattr(summarise, view)(found(report))
    return {w.code: w.message for w in found(report).warnings}


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@pytest.mark.parametrize("case", KERNELS)
def test_kernels_by_replay_and_capture(case: str, policy: str) -> None:
    ops = summarise.ops(found(f"graph-{case}-node", policy))
    got: Counter[Any] = Counter(
        (" / ".join(path), name, " / ".join(captured))
        for kind, path, name, captured in ops[["kind", "path", "name", "captured_path"]].itertuples(
            index=False, name=None
        )
        if kind == "kernel"
    )
    assert got == KERNELS[case]


@pytest.mark.parametrize("case", KERNELS)
def test_replay_ranges_by_a_loop_over_the_tables(case: str) -> None:
    report = f"graph-{case}-node"
    work, ranges = sql_work(report), sql_ranges(report)
    table = by_path(summarise.ranges(found(report)), "kernels", "self_gpu_ns")
    for name in {r.name for r in ranges}:
        mine = inside(work, [r for r in ranges if r.name == name])
        expected = sum(n for (path, _, _), n in KERNELS[case].items() if path == name)
        assert table[name] == (len(mine), total(mine))
        assert len(mine) == expected


@pytest.mark.parametrize("case", GRAPHS)
def test_graphs_as_wholes_by_replay(case: str) -> None:
    report = f"graph-{case}-graph"
    work, ranges = sql_work(report), sql_ranges(report)
    table = by_path(summarise.ranges(found(report)), "graphs", "self_gpu_ns")
    assert {path: n for path, (n, _) in table.items() if n} == GRAPHS[case]
    for name in GRAPHS[case]:
        assert table[name][1] == total(inside(work, [r for r in ranges if r.name == name]))


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@pytest.mark.parametrize("case", CAPTURED)
def test_graphs_as_wholes_by_capture(case: str, policy: str) -> None:
    ops = summarise.ops(found(f"graph-{case}-graph", policy))
    ops = ops[ops["kind"] == "graph"]
    got = Counter(
        (" / ".join(path), " / ".join(captured))
        for path, captured in zip(ops["path"], ops["captured_path"], strict=True)
    )
    assert got == CAPTURED[case]


@pytest.mark.parametrize("case", CAPTURED)
def test_captures_of_whole_graphs_by_a_loop_over_the_tables(case: str) -> None:
    """From the row of the graph a launch names to the ranges around it, without clones."""
    report = f"graph-{case}-graph"
    ranges = sql_ranges(report)
    made = {
        graph: (start, tid)
        for start, tid, graph in sql(
            report,
            "SELECT start, globalTid, graphId FROM CUDA_GRAPH_EVENTS WHERE graphExecId IS NULL",
        )
    }
    updated = sql(
        report,
        """SELECT min(r.start) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds ON id = nameId
           WHERE value LIKE 'cudaGraphExecUpdate%'""",
    )[0][0]
    expected = {}
    for start, graph, call in sql(
        report,
        """SELECT g.start, g.graphId, r.start FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE g
           LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = g.correlationId
               AND g.correlationId <> 0""",
    ):
        when, tid = made[graph]
        around = [r.name for r in ranges if r.tid == tid and r.start <= when <= r.end]
        late = updated is not None and updated <= (call or start)
        expected[start] = () if late else tuple(around)
    ops = summarise.ops(found(report))
    ops = ops[ops["kind"] == "graph"]
    assert dict(zip(ops["start_ns"], ops["captured_path"], strict=True)) == expected


def test_conditional_bodies_are_named_as_unlinked() -> None:
    ledger = found("graph-conditional-node").ledger
    ((number, ns),) = sql(
        "graph-conditional-node",
        "SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId = 0",
    )
    assert (ledger.unlinked_ops, ledger.unlinked_ns) == (number, ns) == (6, ns)
    message = codes("graph-conditional-node", "ranges")["no-correlation"]
    assert message.startswith(f"6 GPU ops were launched by no call of the host ({ns} ns)")
    # As a whole the same program's graph is under its replay.
    assert found("graph-conditional-graph").ledger.unlinked_ops == 0


def test_device_launched_graphs_are_named_as_unlinked() -> None:
    ledger = found("graph-device-launch-graph").ledger
    rows = sql(
        "graph-device-launch-graph",
        """SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE
           WHERE correlationId = 0""",
    )
    assert rows == [(ledger.unlinked_ops, ledger.unlinked_ns)] == [(4, ledger.unlinked_ns)]
    message = codes("graph-device-launch-graph")["no-correlation"]
    assert message.startswith("4 CUDA graphs were launched from the device")
    # With nodes their kernels are lost: 4 kernels of 12.
    assert "device-graphs" in codes("graph-device-launch-node", "ranges")


def test_an_update_is_named() -> None:
    assert codes("graph-reinstantiated-node")["graph-updated"].startswith("8 GPU ops")
    message = codes("graph-reinstantiated-graph")["graph-updated"]
    assert message.startswith("4 whole CUDA graphs ran after a graph was updated")


def test_graphs_without_such_trouble_are_not_warned_of() -> None:
    for case in ("nested", "several"):
        assert codes(f"graph-{case}-node") == {}
        assert set(codes(f"graph-{case}-graph")) == {"graph-level"}
    for report in ("graph-ranges", "train", "two-streams"):
        assert not codes(report).keys() & {"no-correlation", "device-graphs", "graph-updated"}
