# SPDX-License-Identifier: MIT
"""One recording in the schemas of five nsys versions gives one Trace."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from nsys_files import VERSIONS, Export, global_tid

from harness.readers import nsys_sqlite
from harness.trace import Trace

PID, OTHER = 4242, 4343
MAIN, WORKER = global_tid(PID, PID), global_tid(PID, PID + 9)
PROCESS = global_tid(PID)


def record(path: Path, version: str) -> Trace:
    """outer(100..900) > inner(200..300, a domain) and an open range; two kernels, a copy, a set."""
    export = Export(path, version)
    export.range(-5, None, MAIN, eventType=75, text="lib", domainId=3)
    export.range(100, 900, MAIN, text="outer")
    export.range(200, 300, MAIN, textId=export.string("inner"), domainId=3)
    export.range(250, None, MAIN, eventType=34, text="a mark")
    export.range(260, 700, MAIN, eventType=60, rangeId=1, endGlobalTid=WORKER, text="handed over")
    if "ANALYSIS_DETAILS" in nsys_tables(export):
        export.add("ANALYSIS_DETAILS", duration=2000)
        export.range(400, 2000, WORKER, text="open")  # nsys writes the capture's end
    else:
        export.range(400, None, WORKER, text="open")
        export.launch(1900, 2000, WORKER, 77, "cudaDeviceSynchronize")
    export.launch(210, 220, MAIN, 11, "cudaLaunchKernel")
    export.launch(500, 510, WORKER, 12, "cudaLaunchKernel")
    export.kernel(230, 330, PROCESS, 11, "first")
    export.kernel(520, 525, PROCESS, 12, "second")
    export.add(
        "CUPTI_ACTIVITY_KIND_MEMCPY", start=600, end=640, globalPid=PROCESS, correlationId=13,
        deviceId=1, contextId=2, streamId=7, bytes=4096, copyKind=1,
    )  # fmt: skip
    export.add(
        "CUPTI_ACTIVITY_KIND_MEMSET", start=650, end=660, globalPid=PROCESS, correlationId=14,
        deviceId=1, contextId=2, streamId=7, bytes=512, value=0,
    )  # fmt: skip
    if "ENUM_CUDA_MEMCPY_OPER" in nsys_tables(export):
        export.add("ENUM_CUDA_MEMCPY_OPER", id=1, label="Host-to-Device")
    export.add("ThreadNames", nameId=export.string("[NSys]"), priority=10, globalTid=WORKER)
    export.add("ThreadNames", nameId=export.string("pt_autograd_0"), priority=20, globalTid=WORKER)
    stranger = global_tid(OTHER, OTHER)
    export.add("ThreadNames", nameId=export.string("bash"), priority=20, globalTid=stranger)
    return nsys_sqlite.read(export.done())


def nsys_tables(export: Export) -> set[str]:
    rows = export.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return {name for (name,) in rows}


@pytest.fixture(params=VERSIONS)
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> Trace:
    return record(tmp_path / "report.sqlite", request.param)


def test_versions_are_there() -> None:
    assert VERSIONS == ("2021.2", "2022.4", "2023.4", "2025.3")


def test_ranges(trace: Trace) -> None:
    columns = ["start", "end", "name", "domain", "style", "open"]
    assert list(trace.ranges[columns].itertuples(index=False, name=None)) == [
        (100, 900, "outer", "", "push_pop", False),
        (200, 300, "inner", "lib", "push_pop", False),
        (260, 700, "handed over", "", "start_end", False),
        (400, 2000, "open", "", "push_pop", True),
    ]
    tids = trace.threads["tid"].iloc[trace.ranges["thread"]].tolist()
    assert tids == [PID, PID, PID, PID + 9]


def test_gpu_ops(trace: Trace) -> None:
    columns = ["kind", "start", "end", "process", "correlation", "device", "context", "stream"]
    columns += ["name", "bytes", "graph_node"]
    process = 1 << 24 | PID
    assert list(trace.gpu_ops[columns].itertuples(index=False, name=None)) == [
        ("kernel", 230, 330, process, 11, 1, 2, 7, "first", -1, -1),
        ("kernel", 520, 525, process, 12, 1, 2, 7, "second", -1, -1),
        ("memcpy", 600, 640, process, 13, 1, 2, 7, "[CUDA memcpy Host-to-Device]", 4096, -1),
        ("memset", 650, 660, process, 14, 1, 2, 7, "[CUDA memset]", 512, -1),
    ]
    assert trace.gpu_ops["demangled"].tolist()[:2] == ["void first(int)", "void second(int)"]


def test_threads(trace: Trace) -> None:
    columns = ["process", "pid", "tid", "name", "autograd"]
    process = 1 << 24 | PID
    assert list(trace.threads[columns].itertuples(index=False, name=None)) == [
        (process, PID, PID, "", False),
        (process, PID, PID + 9, "pt_autograd_0", True),
    ]


def test_a_missing_mangled_name_falls_back_to_the_demangled_one(tmp_path: Path) -> None:
    ops = record(tmp_path / "old.sqlite", "2021.2").gpu_ops
    assert ops["mangled"].tolist()[:2] == ["void first(int)", "void second(int)"]
    ops = record(tmp_path / "new.sqlite", "2023.4").gpu_ops
    assert ops["mangled"].tolist()[:2] == ["_Zfirsti", "_Zsecondi"]


@pytest.mark.parametrize("version", ["2022.4", "2023.4"])
def test_node_rows_in_cuda_graph_events(tmp_path: Path, version: str) -> None:
    export = Export(tmp_path / "report.sqlite", version)
    export.add("CUDA_GRAPH_EVENTS", start=5, end=5, globalTid=MAIN, graphNodeId=100)
    export.add(
        "CUDA_GRAPH_EVENTS",
        start=9,
        end=9,
        globalTid=MAIN,
        graphNodeId=200,
        originalGraphNodeId=100,
    )
    nodes = nsys_sqlite.read(export.done()).graph_nodes
    columns = ["process", "node", "original", "time"]
    process = 1 << 24 | PID
    assert nodes[columns].to_numpy().tolist() == [[process, 100, -1, 5], [process, 200, 100, 9]]


def test_graph_rows_in_cuda_graph_events_are_not_nodes(tmp_path: Path) -> None:
    export = Export(tmp_path / "report.sqlite", "2025.3")
    export.add("CUDA_GRAPH_EVENTS", start=5, end=5, globalTid=MAIN, graphId=1)
    export.add("CUDA_GRAPH_NODE_EVENTS", start=6, end=6, globalTid=MAIN, graphNodeId=100)
    assert nsys_sqlite.read(export.done()).graph_nodes["time"].tolist() == [6]


def test_versions_are_read_under_both_names_of_the_metadata_table(tmp_path: Path) -> None:
    for version, table in (("2022.4", "EXPORT_META_DATA"), ("2023.4", "META_DATA_EXPORT")):
        export = Export(tmp_path / f"{version}.sqlite", version)
        export.add(table, name="EXPORT_PRODUCT_VERSION", value=f"{version}.2.1")
        export.add(table, name="EXPORT_SCHEMA_VERSION", value="3.0.0")
        source = nsys_sqlite.read(export.done()).source
        assert (source.version, source.facts["schema"]) == (f"{version}.2.1", "3.0.0")
