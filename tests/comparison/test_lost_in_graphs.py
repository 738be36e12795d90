# SPDX-License-Identifier: MIT
"""Kernels of CUDA graphs that were not recorded make no range faster."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from planted import DATA, changed

import harness
from harness.comparison.gate import judge
from harness.comparison.lost import ops_lost
from harness.comparison.lost_in_graphs import silent_nodes
from harness.errors import ExitCode

#: Ten replays of six kernels, and twice as many kernels launched one by one.
NODES = DATA / "h200" / "graph_node.sqlite"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
GEMM = f"(SELECT min(graphNodeId) FROM {KERNELS})"
LATE = f"(SELECT correlationId FROM {KERNELS} WHERE graphNodeId NOT NULL GROUP BY 1 LIMIT 99"
#: All recorded reports with graphs, by node and as wholes: nested, conditional, device-launched, …
RECORDED = [*DATA.glob("recorded/graph-*/report.sqlite"), *DATA.glob("h200/graph_*.sqlite")]


def longer(target: Path) -> Path:
    """Another recording of the same program."""
    return changed(NODES, target, f'UPDATE {KERNELS} SET "end" = "end" + 1 WHERE rowid % 3 = 0')


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        # One kernel of each replay: graph-replay would be 3.7 times faster.
        (f"graphNodeId = {GEMM}", "graph nodes (all ran → some did not run) differs"),
        (
            f"graphNodeId = {GEMM} AND correlationId IN {LATE} OFFSET 3)",
            "GPU ops recorded (all → not all (7 of 60 graph nodes without an op)) differs",
        ),
        (
            f"graphNodeId NOT NULL AND correlationId IN {LATE} OFFSET 3)",
            "GPU ops recorded (all → not all (7 of 10 graph launches without an op)) differs",
        ),
        # Those beside the graph, in a program that has one.
        ("graphNodeId IS NULL AND rowid % 4 = 0", "launches without a kernel)) differs"),
    ],
)
def test_a_lost_kernel_is_no_improvement(tmp_path: Path, lost: str, said: str) -> None:
    whole = longer(tmp_path / "whole.sqlite")
    less = changed(NODES, tmp_path / "less.sqlite", f"DELETE FROM {KERNELS} WHERE {lost}")
    comparison = harness.compare(whole, less)
    assert comparison.summary.endswith(said)
    assert {row.verdict for row in comparison.items} <= {"unsure", "gone"}
    assert judge(comparison, 0.01).code == ExitCode.NO_ANSWER
    assert harness.compare(whole, NODES).blocked == ()


def test_graphs_as_wholes_that_were_lost(tmp_path: Path) -> None:
    whole = DATA / "h200" / "graph_graph.sqlite"
    table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
    less = changed(whole, tmp_path / "less.sqlite", f"DELETE FROM {table} WHERE rowid % 2 = 0")
    assert ops_lost(harness.load(less).attribute()) == "5 of 10 graph launches without an op"


@pytest.mark.parametrize("report", RECORDED, ids=lambda path: str(path.relative_to(DATA)))
def test_whole_recordings_have_lost_nothing(report: Path) -> None:
    found = harness.load(report).attribute()
    assert ops_lost(found) == ""
    with sqlite3.connect(report) as db:
        there = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    # Child graphs are nodes that do not run themselves.
    expected = "some did not run" if "nested" in str(report) else "all ran"
    by_node = "CUDA_GRAPH_NODE_EVENTS" in there and "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" not in there
    assert silent_nodes(found) == (expected if by_node else "")
