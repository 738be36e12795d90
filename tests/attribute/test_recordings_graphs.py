# SPDX-License-Identifier: MIT
"""CUDA graphs captured in several ranges, one instantiated twice: nodes, and graphs as wholes."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from recordings import by_path, found, inside, sql, sql_ranges, sql_work, total

from harness import summarise

#: What the program does: replay range -> replays; capture range -> kernels a replay.
REPLAYS = {"replay": 5, "replay-again": 5, "replay-other": 2, "nested / replay-other": 1}
FIRST = {"capture / scale": 2, "capture / squash / tanh": 1, "capture / squash": 1}
SECOND = {"capture-other / negate": 1}


def captured_in() -> dict[tuple[int, int], str]:
    """Kernel (start, node) -> the path its node was captured in, one lookup at a time."""
    ranges = sql_ranges("graph-ranges")
    events = sql(
        "graph-ranges",
        """SELECT start, globalTid, graphNodeId, originalGraphNodeId
           FROM CUDA_GRAPH_NODE_EVENTS ORDER BY start""",
    )
    first = {}
    original = {}
    for start, tid, node, source in events:
        first.setdefault(node, (start, tid))
        if source is not None:
            original[node] = source
    out = {}
    for start, node in sql(
        "graph-ranges",
        """SELECT start, graphNodeId FROM CUPTI_ACTIVITY_KIND_KERNEL
           WHERE graphNodeId IS NOT NULL AND graphNodeId <> 0""",
    ):
        made = node
        while made in original:
            made = original[made]
        time, tid = first[made]
        around = [r for r in ranges if r.tid == tid and r.start <= time <= r.end]
        out[start, node] = " / ".join(r.name for r in around)
    return out


def test_each_kernel_names_the_range_it_was_captured_in() -> None:
    expected = captured_in()
    ops = summarise.ops(found("graph-ranges"))
    replayed = ops[ops["captured_path"] != ()]
    got = {
        start: " / ".join(path)
        for start, path in zip(replayed["start_ns"], replayed["captured_path"], strict=True)
    }
    assert got == {start: path for (start, _), path in expected.items()}
    assert Counter(got.values()) == {
        **{path: 10 * number for path, number in FIRST.items()},
        **{path: 3 * number for path, number in SECOND.items()},
    }


def test_both_instantiations_lead_back_to_the_capture() -> None:
    ops = summarise.ops(found("graph-ranges"))
    for path, replays in REPLAYS.items():
        mine = ops[ops["path"] == tuple(path.split(" / "))]
        captured = Counter(" / ".join(p) for p in mine["captured_path"])
        once = SECOND if "other" in path else FIRST
        assert captured == {where: replays * number for where, number in once.items()}
    # The second instantiation's kernels carry other node ids than the first's.
    nodes = {}
    work = sql(
        "graph-ranges",
        """SELECT k.graphNodeId, r.start FROM CUPTI_ACTIVITY_KIND_KERNEL k
           JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId)""",
    )
    for name in ("replay", "replay-again"):
        spans = [(r.start, r.end) for r in sql_ranges("graph-ranges") if r.name == name]
        nodes[name] = {n for n, t in work if any(a <= t <= b for a, b in spans)}
        assert len(nodes[name]) == 4
    assert not nodes["replay"] & nodes["replay-again"]


def test_replay_ranges_by_a_loop_over_the_tables() -> None:
    table = by_path(
        summarise.ranges(found("graph-ranges")), "instances", "self_kernels", "self_kernel_ns"
    )
    work, ranges = sql_work("graph-ranges"), sql_ranges("graph-ranges")
    for path, replays in REPLAYS.items():
        outer, _, name = path.rpartition(" / ")
        spans = [r for r in ranges if r.name == (outer or name)]
        around = inside(work, [r for r in ranges if r.name == name])
        if outer:
            around = inside(around, spans)
        elif name == "replay-other":  # but not the instance inside "nested"
            nested = inside(around, [r for r in ranges if r.name == "nested"])
            around = [w for w in around if w not in nested]
        kernels = sum((SECOND if "other" in path else FIRST).values()) * replays
        assert len(around) == kernels
        assert table[path] == (replays, kernels, total(around))


def test_what_was_captured_ran_nothing_while_it_was_captured() -> None:
    table = by_path(summarise.ranges(found("graph-ranges")), "kernels", "total_gpu_ns")
    for path in (*FIRST, *SECOND):
        assert table[path] == (0, 0)


def test_graphs_recorded_as_wholes() -> None:
    one = found("graph-ranges-whole")
    table = by_path(summarise.ranges(one), "graphs", "kernels", "total_gpu_ns")
    rows = sql(
        "graph-ranges-whole",
        """SELECT g.start, g.end, r.start, r.end FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE g
           JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING (correlationId)""",
    )
    assert len(rows) == sum(REPLAYS.values())
    for path, replays in REPLAYS.items():
        outer, _, name = path.rpartition(" / ")
        spans = {(r.start, r.end) for r in sql_ranges("graph-ranges-whole") if r.name == name}
        nested = [r for r in sql_ranges("graph-ranges-whole") if r.name == "nested"]
        spans = {
            (a, b)
            for a, b in spans
            if any(n.start <= a and b <= n.end for n in nested) == bool(outer)
        }
        ns = sum(e - s for s, e, a, b in rows if any(x <= a and b <= y for x, y in spans))
        assert table[path] == (replays, 0, ns)
    # The range that was open where the capture began: what was captured in inner ranges is lost.
    ops = summarise.ops(one)
    graphs = ops[ops["kind"] == "graph"]
    pairs = zip(graphs["path"], graphs["captured_path"], strict=True)
    assert Counter((path[-1], captured) for path, captured in pairs) == {
        ("replay", ("capture",)): 5,
        ("replay-again", ("capture",)): 5,
        ("replay-other", ("capture-other",)): 3,
    }
    assert [w.code for w in one.warnings if "graph" in w.code] == ["graph-level"]
    hint = next(w.hint for w in one.warnings if w.code == "graph-level")
    assert "--cuda-graph-trace=node" in hint
