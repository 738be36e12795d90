# SPDX-License-Identifier: MIT
"""Graphs recorded as wholes in the schemas of several nsys versions.

nsys writes the table only when it has rows, also with ``export -l false`` (2022.4 and 2023.4), so
its older columns are put in by hand, as NVIDIA's reference of the export lists them: without
greenContextId, and before that without graphExecId.
"""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "readers"))
from nsys_files import VERSIONS, Export, global_tid

import harness
from harness import summarise

FIRST = """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    graphId INTEGER NOT NULL"""
LAYOUTS = {"first": FIRST, "exec": f"{FIRST}, graphExecId INTEGER NOT NULL"}
PID = 700


def export(path: Path, version: str, layout: str) -> Path:
    """Two processes that both replay graph 5 with correlation 9, and a kernel of their own."""
    made = Export(path, version)
    made.db.execute("DROP TABLE IF EXISTS CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
    made.db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE ({LAYOUTS[layout]})")
    for pid, longer in ((PID, 0), (PID + 1, 1000)):
        main = global_tid(pid, pid)
        made.range(0, 100, main, text=f"replay {pid}")
        made.range(200, 300, main, text="eager")
        made.launch(10, 20, main, 9, "cudaGraphLaunch_v10000")
        made.launch(210, 220, main, 10, "cudaLaunchKernel_v7000")
        made.kernel(230, 240, global_tid(pid), 10, "other")
        made.add(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            start=30, end=430 + longer, globalPid=global_tid(pid), correlationId=9, deviceId=1,
            contextId=2, streamId=7, graphId=5, graphExecId=6,
        )  # fmt: skip
    return made.done()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= "2022"])
def test_each_replay_is_one_op_of_its_range(tmp_path: Path, version: str, layout: str) -> None:
    found = harness.load(export(tmp_path / "report.sqlite", version, layout)).attribute()
    table = summarise.ranges(found)
    columns = ["pid", "name", "graphs", "kernels", "self_gpu_ns"]
    assert set(table[columns].itertuples(index=False, name=None)) == {
        (PID, f"replay {PID}", 1, 0, 400),
        (PID, "eager", 0, 1, 10),
        (PID + 1, f"replay {PID + 1}", 1, 0, 1400),
        (PID + 1, "eager", 0, 1, 10),
    }
    assert (found.ledger.unlinked_ops, found.ledger.outside_ops) == (0, 0)
    ops = summarise.ops(found)
    assert set(ops.loc[ops["kind"] == "graph", "name"]) == {"[CUDA graph 5]"}
    assert "graph-level" in {w.code for w in found.warnings}
    # Nothing tells where the graph was captured: said once.
    assert set(ops["captured_path"]) == {()}
    message = next(w.message for w in found.warnings if w.code == "graph-capture")
    assert "2 whole graph launches" in message


NODES = """start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
    globalTid INTEGER, nameId INTEGER NOT NULL"""
EVENTS = f"{NODES}, graphId INTEGER, originalGraphId INTEGER, graphExecId INTEGER"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("named", ["graph", "exec"])
def test_a_graph_leads_back_to_its_capture(tmp_path: Path, layout: str, named: str) -> None:
    """Graph 7 is captured, cloned as graph 5, and that instantiated as 6, in each process. The
    launch names what was instantiated, or what from where no column has that."""
    path = export(tmp_path / "report.sqlite", "2025.3", layout)
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE IF EXISTS CUDA_GRAPH_EVENTS")
        db.execute(f"CREATE TABLE CUDA_GRAPH_EVENTS ({EVENTS})")
        db.execute(
            "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = 250, end = 260 WHERE correlationId = 9"
        )
        for pid, captured in ((PID, 2), (PID + 1, 50)):
            tid = global_tid(pid, pid)
            for row in (
                (captured, 95, 7, None, None),
                (105, 96, 5, 7, None),  # between the ranges
                (106, 95, 6, None, None),
                (107, 94, 5, None, 6),
            ):
                start, event, graph, original, instance = row
                db.execute(
                    "INSERT INTO CUDA_GRAPH_EVENTS VALUES (?, ?, ?, ?, 1, ?, ?, ?)",
                    (start, start, event, tid, graph, original, instance),
                )
        if named == "exec":
            column = "graphId" if layout == "first" else "graphExecId"
            db.execute(f"UPDATE CUPTI_ACTIVITY_KIND_GRAPH_TRACE SET {column} = 6")
    found = harness.load(path).attribute()
    ops = summarise.ops(found)
    graphs = ops[ops["kind"] == "graph"]
    assert dict(zip(graphs["pid"], graphs["captured_path"], strict=True)) == {
        PID: (f"replay {PID}",),
        PID + 1: (f"replay {PID + 1}",),
    }
    assert "graph-capture" not in {w.code for w in found.warnings}
