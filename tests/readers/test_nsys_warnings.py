# SPDX-License-Identifier: MIT
"""What spoils a report is said, and what does not is not."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from nsys_files import DATA, Export, global_tid

from harness.readers import nsys_lost_names, nsys_schema, nsys_sqlite, nsys_warnings
from harness.trace import Trace

MAIN, PROCESS = global_tid(10, 10), global_tid(10)
PUBLIC = Path(
    os.environ.get("HARNESS_PUBLIC_DATA", Path(__file__).parents[3] / "shared/data/public")
)


@pytest.fixture
def export(tmp_path: Path) -> Export:
    return Export(tmp_path / "report.sqlite")


def told(trace: Trace) -> dict[str, str]:
    return {warning.code: warning.message for warning in trace.warnings}


def program(export: Export, tid: int, launches: int, kernels: int, api: str) -> None:
    """A range, that many launches in it, and only so many kernels recorded."""
    export.range(0, 10_000, tid, text="all")
    for i in range(launches):
        export.launch(10 * i, 10 * i + 5, tid, i, api)
    for i in range(kernels):
        export.kernel(10 * i + 6, 10 * i + 8, tid >> 24 << 24, i, "k")


def test_codes_are_in_the_table() -> None:
    source = Path(nsys_warnings.__file__).read_text()
    sources = source + Path(nsys_lost_names.__file__).read_text()
    used = set(re.findall(r'(?:Warning_|_too_few)\(\s*"([a-z-]+)"', sources))
    assert used == set(re.findall(r"^([a-z]+(?:-[a-z]+)+|clipped)  ", source, re.MULTILINE))


@pytest.mark.parametrize("name", ["blocks", "train", "memops", "graph_node"])
def test_a_good_report_has_none(name: str) -> None:
    assert nsys_sqlite.read(DATA / f"h200/{name}.sqlite").warnings == ()


def test_a_graph_recorded_whole() -> None:
    message = told(nsys_sqlite.read(DATA / "h200/graph_graph.sqlite"))["graph-level"]
    assert message.startswith("10 CUDA graph launches were recorded as wholes")


def test_ranges_that_never_closed_are_named() -> None:
    message = told(nsys_sqlite.read(DATA / "h200/nested.sqlite"))["open-ranges"]
    assert message.startswith("1 of 78 ranges never closed ('never-popped')")


def test_a_range_that_reaches_over_the_capture_never_closed(export: Export) -> None:
    """As a 2023.4.4 wrote it once: the duration too short, the range's end the process's end."""
    export.range(10, 80, MAIN, text="closed before")
    export.range(79, 166, MAIN, text="never popped")
    export.range(90, 95, MAIN, text="closed after")
    export.add("ANALYSIS_DETAILS", globalVid=1, duration=84, startTime=0, stopTime=84)
    ranges = nsys_sqlite.read(export.done()).ranges
    assert dict(
        zip(ranges["name"], zip(ranges["open"], ranges["end"], strict=True), strict=True)
    ) == {
        "closed before": (False, 80),
        "never popped": (True, 166),
        "closed after": (False, 95),
    }


@pytest.mark.parametrize("capture_end", [None, 0, 84])
def test_never_closed_in_sql_and_in_columns(capture_end: int | None) -> None:
    times = [(0, None), (0, 83), (0, 84), (0, 90), (84, 84), (84, 85), (85, 90), (-5, 0), (-5, -1)]
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE r (start, end)")
        db.executemany("INSERT INTO r VALUES (?, ?)", times)
        condition = nsys_schema.never_closed_sql(capture_end)
        by_sql = db.execute(f"SELECT start, end FROM r WHERE {condition} ORDER BY rowid").fetchall()
    start = np.array([low for low, _ in times])
    end = np.array([nsys_schema.OPEN if high is None else high for _, high in times])
    never = nsys_schema.never_closed(start, end, capture_end)
    assert by_sql == [pair for pair, at in zip(times, never, strict=True) if at]
    expected = {
        None: [(0, None)],
        0: [(0, None), (0, 83), (0, 84), (0, 90), (-5, 0)],
        84: [(0, None), (0, 84), (0, 90), (84, 84), (84, 85)],
    }
    assert by_sql == expected[capture_end]


@pytest.mark.parametrize(
    ("name", "table", "code", "said"),
    [
        ("memops", "MEMCPY", "few-copies", "20 API calls for a copy, but no copies were recorded"),
        ("train", "MEMSET", "few-sets", "32 API calls for a set, but no sets were recorded"),
    ],
)
@pytest.mark.parametrize("how", ["DROP TABLE", "DELETE FROM"])
def test_lost_copies_and_sets(
    tmp_path: Path, name: str, table: str, code: str, said: str, how: str
) -> None:
    path = Path(shutil.copy(DATA / f"h200/{name}.sqlite", tmp_path))
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"{how} CUPTI_ACTIVITY_KIND_{table}")
        db.commit()
    warnings = told(nsys_sqlite.read(path))
    assert list(warnings) == [code]
    assert warnings[code].startswith(said)


@pytest.mark.parametrize(("left", "is_told"), [(10, False), (9, True)])
def test_half_of_many_copies_are_few(tmp_path: Path, left: int, is_told: bool) -> None:
    path = Path(shutil.copy(DATA / "h200/memops.sqlite", tmp_path))
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE rowid NOT IN "
            "(SELECT rowid FROM CUPTI_ACTIVITY_KIND_MEMCPY LIMIT ?)",
            (left,),
        )
        db.commit()
    assert ("few-copies" in told(nsys_sqlite.read(path))) is is_told


@pytest.mark.parametrize(
    "api", ["cudaLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernelExC_v11060"]
)
def test_nsys_older_than_the_driver(export: Export, api: str) -> None:
    program(export, MAIN, launches=300, kernels=2, api=api)
    export.add("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2023.4.4.54")
    message = told(nsys_sqlite.read(export.done()))["few-kernels"]
    assert message.startswith(
        "300 kernel launches, but only 2 kernels were recorded (nsys 2023.4.4.54)"
    )


def test_calls_that_launch_no_kernel_are_not_missed(export: Export) -> None:
    program(export, MAIN, launches=300, kernels=2, api="cudaEventRecord")
    assert told(nsys_sqlite.read(export.done())) == {}


def test_launches_during_capture_make_nodes_and_not_kernels(export: Export) -> None:
    program(export, MAIN, launches=300, kernels=2, api="cudaLaunchKernel")
    for i in range(298):
        export.add("CUDA_GRAPH_NODE_EVENTS", start=i, end=i, globalTid=MAIN, graphNodeId=i + 1)
    assert told(nsys_sqlite.read(export.done())) == {}


def test_a_process_whose_kernels_are_all_missing(export: Export) -> None:
    program(export, MAIN, launches=30, kernels=30, api="cudaLaunchKernel")
    program(export, global_tid(20, 20), launches=40, kernels=0, api="cudaLaunchKernel")
    found = told(nsys_sqlite.read(export.done()))
    assert found["process-without-ops"].startswith("process 20 launched 40 kernels and none")
    assert "few-kernels" not in found


def test_no_gpu_ops_although_there_were_calls(export: Export) -> None:
    program(export, MAIN, launches=5, kernels=0, api="cudaLaunchKernel")
    message = told(nsys_sqlite.read(export.done()))["no-gpu-ops"]
    assert message.startswith("5 CUDA API calls were recorded, but no GPU work")


def test_no_launches(export: Export) -> None:
    export.range(0, 10, MAIN, text="a")
    export.kernel(1, 2, PROCESS, 1, "k")
    assert "CUPTI_ACTIVITY_KIND_RUNTIME" in told(nsys_sqlite.read(export.done()))["no-launches"]


def test_nvtx_package_that_this_nsys_does_not_understand(export: Export) -> None:
    program(export, MAIN, launches=1, kernels=1, api="cudaLaunchKernel")
    export.db.execute("DELETE FROM NVTX_EVENTS")
    export.range(0, None, MAIN, eventType=75, text="lib", domainId=1)
    trace = nsys_sqlite.read(export.done())
    [warning] = trace.warnings
    assert warning.code == "no-ranges"
    assert "0.2.12" in warning.hint


def test_no_nvtx_table_at_all(export: Export) -> None:
    export.db.execute("DROP TABLE NVTX_EVENTS")
    export.launch(1, 2, MAIN, 1, "cudaLaunchKernel")
    export.kernel(3, 4, PROCESS, 1, "k")
    [warning] = nsys_sqlite.read(export.done()).warnings
    assert (warning.code, "no table NVTX_EVENTS" in warning.message) == ("no-nvtx", True)


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="no public reports here")
def test_a_capture_cut_in_time() -> None:
    # By SQL: 2276 of 4368 kernels, copies and sets have no launch in their own process.
    message = told(nsys_sqlite.read(PUBLIC / "clipped_2026.2.sqlite"))["clipped"]
    assert message.startswith("2276 of 4368 GPU ops have no launch record")


def test_one_op_without_a_launch_is_not_worth_a_warning(export: Export) -> None:
    program(export, MAIN, launches=30, kernels=30, api="cudaLaunchKernel")
    export.kernel(500, 501, PROCESS, 10**12, "k")
    assert told(nsys_sqlite.read(export.done())) == {}


@pytest.mark.parametrize("spread", [1, 10**9])
def test_ops_are_linked_within_their_process_only(export: Export, spread: int) -> None:
    other = global_tid(20, 20)
    export.range(0, 10, MAIN, text="a")
    for i in range(40):
        export.launch(i, i + 1, MAIN, i * spread, "cudaLaunchKernel")
        export.launch(i, i + 1, other, (i + 100) * spread, "cudaLaunchKernel")
        export.kernel(i + 1, i + 2, PROCESS, i * spread, "k")
        export.kernel(i + 1, i + 2, other >> 24 << 24, i * spread, "k")
    assert told(nsys_sqlite.read(export.done()))["clipped"].startswith("40 of 80 GPU ops")


def test_an_export_older_than_its_report(tmp_path: Path) -> None:
    path = Path(shutil.copy(DATA / "h200/blocks.sqlite", tmp_path))
    report = tmp_path / "blocks.nsys-rep"
    report.touch()
    now = report.stat().st_mtime_ns
    os.utime(path, ns=(now, now - 60_000_000_000))
    assert "60 s newer" in told(nsys_sqlite.read(path))["stale-export"]
    os.utime(path, ns=(now, now - 1_000_000_000))  # as a checkout may leave the two
    assert nsys_sqlite.read(path).warnings == ()


def test_what_nsys_complained_about(export: Export) -> None:
    program(export, MAIN, launches=1, kernels=1, api="cudaLaunchKernel")
    for severity, text in (
        (1, "CUDA injection initialized successfully."),
        (2, "Unable to collect CPU kernel IP/backtrace samples. perf event paranoid level is 2."),
        (2, "No OpenGL events collected. Does the process use OpenGL?"),
        (3, "Failed to process\n CUPTI buffers: 3 dropped."),
        (2, "CUDA tracing: timestamps out of order"),
    ):
        export.add("DIAGNOSTIC_EVENT", severity=severity, text=text)
    warnings = nsys_sqlite.read(export.done()).warnings
    assert [(w.code, w.message) for w in warnings] == [
        ("nsys-diagnostic", "nsys: Failed to process CUPTI buffers: 3 dropped."),
        ("nsys-diagnostic", "nsys: CUDA tracing: timestamps out of order"),
    ]


NOT_STARTED = "CUDA profiling might have not been started correctly."


def test_that_profiling_did_not_start_is_put_down_to_processes_that_launched_nothing(
    export: Export,
) -> None:
    """As the compiler's workers of a torch.compile program have it: nsys 2025.3."""
    program(export, MAIN, launches=1, kernels=1, api="cudaLaunchKernel")
    for other in (11, 12):
        export.add("DIAGNOSTIC_EVENT", severity=2, text=NOT_STARTED, globalPid=global_tid(other))
    (warning,) = nsys_sqlite.read(export.done()).warnings
    assert warning.message == f"nsys: {NOT_STARTED} (of processes that launched nothing)"
    assert warning.hint.startswith("Nothing is missing if these use no GPU")


@pytest.mark.parametrize("launches", [0, 1])
def test_that_profiling_did_not_start_stands_as_it_is_where_it_may_be_so(
    export: Export, launches: int
) -> None:
    """Said of a process that launched, or where no process did."""
    program(export, MAIN, launches=launches, kernels=launches, api="cudaLaunchKernel")
    for one in (10, 11):
        export.add("DIAGNOSTIC_EVENT", severity=2, text=NOT_STARTED, globalPid=global_tid(one))
    assert told(nsys_sqlite.read(export.done()))["nsys-diagnostic"] == f"nsys: {NOT_STARTED}"


def test_two_profilers_in_one_process(export: Export) -> None:
    program(export, MAIN, launches=1, kernels=1, api="cudaLaunchKernel")
    export.add(
        "DIAGNOSTIC_EVENT", severity=3, text="CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
    )
    assert "two-profilers" in told(nsys_sqlite.read(export.done()))


def test_no_value_of_the_environment_is_kept(export: Export) -> None:
    export.db.execute("CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT)")
    export.db.execute(
        "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT, devStateName TEXT)"
    )
    export.add("META_DATA_CAPTURE", name="PROCESS_0:ENVIRONMENT_VARIABLE", value="TOKEN=hunter2")
    export.add("META_DATA_CAPTURE", name="PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", value="Graph")
    export.add("TARGET_INFO_SYSTEM_ENV", name="DeviceEnvironment", value="TOKEN=hunter2")
    trace = nsys_sqlite.read(export.done())
    assert trace.source.facts["environment_recorded"] is True
    assert trace.source.facts["graph_trace"] == "graph"
    assert "hunter2" not in repr(trace)
