# SPDX-License-Identifier: MIT
"""Graphs recorded as wholes in the schemas of several nsys versions.

nsys writes the table only when it has rows, also with ``export -l false`` (2022.4 and 2023.4), so
its older columns are put in by hand, as NVIDIA's reference of the export lists them: without
greenContextId, and before that without graphExecId.
"""

from __future__ import annotations

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
