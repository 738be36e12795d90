# SPDX-License-Identifier: MIT
"""Rows that exist in the wild and break naive readers."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from nsys_files import DATA, Export, global_tid, loosened

from harness.errors import UnreadableReport
from harness.readers import nsys_sqlite
from harness.trace import Trace

MAIN, PROCESS = global_tid(10, 10), global_tid(10)


@pytest.fixture
def export(tmp_path: Path) -> Export:
    return Export(tmp_path / "report.sqlite")


def codes(trace: Trace) -> list[str]:
    return [warning.code for warning in trace.warnings]


def test_a_domain_id_means_another_domain_in_another_process(export: Export) -> None:
    other = global_tid(20, 20)
    export.range(0, None, MAIN, eventType=75, text="mine", domainId=1)
    export.range(0, None, other, eventType=75, textId=export.string("theirs"), domainId=1)
    export.range(1, 2, MAIN, text="a", domainId=1)
    export.range(1, 2, other, text="a", domainId=1)
    assert nsys_sqlite.read(export.done()).ranges["domain"].tolist() == ["mine", "theirs"]


def test_a_domain_without_a_name_row_gets_its_number(export: Export) -> None:
    export.range(1, 2, MAIN, text="ncclAllReduce", domainId=4)
    assert nsys_sqlite.read(export.done()).ranges["domain"].tolist() == ["domain 4"]


def test_a_domain_registered_twice(export: Export) -> None:
    for time in (-10, 5):
        export.range(time, None, MAIN, eventType=75, text="lib", domainId=1)
    export.range(6, 7, MAIN, text="a", domainId=1)
    assert nsys_sqlite.read(export.done()).ranges["domain"].tolist() == ["lib"]


def test_no_domain_is_the_default_domain(export: Export) -> None:
    export.range(1, 2, MAIN, text="a", domainId=None)
    export.range(1, 2, MAIN, text="a", domainId=0)
    assert nsys_sqlite.read(export.done()).ranges["domain"].tolist() == ["", ""]


def test_nvtxt_ranges_are_ranges(export: Export) -> None:
    export.range(1, 2, MAIN, eventType=70, text="pushed")
    export.range(1, 2, MAIN, eventType=71, text="started")
    ranges = nsys_sqlite.read(export.done()).ranges
    assert list(zip(ranges["name"], ranges["style"], strict=True)) == [
        ("pushed", "push_pop"),
        ("started", "start_end"),
    ]


def test_names_come_from_the_string_then_the_text_then_nothing(export: Export) -> None:
    export.range(1, 2, MAIN, textId=export.string("registered"), text="ignored")
    export.range(1, 2, MAIN, textId=999, text="dangling id")
    export.range(1, 2, MAIN, text="text")
    export.range(1, 2, MAIN, text="registered")
    export.range(1, 2, MAIN)
    export.range(1, 2, MAIN, text="")
    ranges = nsys_sqlite.read(export.done()).ranges
    assert ranges["name"].tolist() == ["registered", "dangling id", "text", "registered", "", ""]


def test_names_are_whatever_bytes_the_program_passed(export: Export) -> None:
    for text in ("é中文🚀", "nul\0inside", "x" * 100_000, "\ttab\n"):
        export.range(1, 2, MAIN, text=text)
    export.db.execute(
        f"INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) "
        f"VALUES (1, 2, 59, CAST(x'ff41' AS TEXT), {MAIN})"
    )
    path = export.done()
    for engine in ("adbc", "stdlib"):
        names = nsys_sqlite.read(path, engine=engine).ranges["name"].tolist()
        assert names == ["é中文🚀", "nul\0inside", "x" * 100_000, "\ttab\n", "\ufffdA"]


def test_an_end_that_is_the_end_of_the_capture_is_open(export: Export) -> None:
    export.add("ANALYSIS_DETAILS", duration=100)
    export.range(1, 100, MAIN, text="written as the end")
    export.range(2, None, MAIN, text="written as NULL")
    export.range(3, 99, MAIN, text="closed")
    ranges = nsys_sqlite.read(export.done()).ranges
    assert ranges["open"].tolist() == [True, True, False]
    assert ranges["end"].tolist() == [100, 100, 99]


def test_without_a_duration_an_open_range_ends_with_the_last_thing_recorded(
    export: Export,
) -> None:
    export.range(1, None, MAIN, text="open")
    export.kernel(50, 77, PROCESS, 1, "k")
    ranges = nsys_sqlite.read(export.done()).ranges
    assert (ranges["end"].tolist(), ranges["open"].tolist()) == ([77], [True])


def test_rows_that_end_before_they_start_count_as_zero(export: Export) -> None:
    export.kernel(50, 40, PROCESS, 1, "k")
    export.kernel(60, 65, PROCESS, 2, "k")
    export.range(9, 8, MAIN, text="a")
    trace = nsys_sqlite.read(export.done())
    assert (trace.gpu_ops["end"] - trace.gpu_ops["start"]).tolist() == [0, 5]
    assert trace.ranges["end"].tolist() == [9]
    [warning] = [w for w in trace.warnings if w.code == "backward-times"]
    assert "1 GPU op, 1 range" in warning.message


def test_negative_times(export: Export) -> None:
    export.range(-100, -10, MAIN, text="before the capture")
    export.launch(-90, -80, MAIN, 1, "cudaLaunchKernel")
    export.kernel(-70, -60, PROCESS, 1, "k")
    trace = nsys_sqlite.read(export.done())
    assert trace.ranges["start"].tolist() == [-100]
    assert trace.launches["start"].tolist() == [-90]
    assert trace.gpu_ops["end"].tolist() == [-60]


def test_marks_and_categories_are_not_ranges(export: Export) -> None:
    for kind in (33, 34, 39, 75, 76):
        export.range(1, None, MAIN, eventType=kind, text="x")
    trace = nsys_sqlite.read(export.done())
    assert trace.ranges.empty
    assert "no-ranges" in codes(trace)


def test_a_copy_without_correlation_is_kept(export: Export) -> None:
    # Pages that unified memory moves have no API call of their own.
    export.launch(1, 2, MAIN, 1, "cudaLaunchKernel")
    export.add(
        "CUPTI_ACTIVITY_KIND_MEMCPY", start=5, end=9, globalPid=PROCESS, correlationId=None,
        copyKind=11, bytes=65536,
    )  # fmt: skip
    [op] = nsys_sqlite.read(export.done()).gpu_ops.to_dict("records")
    assert (op["correlation"], op["name"]) == (-1, "[CUDA memcpy Unified Host-to-Device]")


def test_an_op_without_process_belongs_to_the_only_one(export: Export) -> None:
    export.launch(1, 2, MAIN, 1, "cudaLaunchKernel")
    export.kernel(5, 6, None, 1, "k")
    assert nsys_sqlite.read(export.done()).gpu_ops["process"].tolist() == [1 << 24 | 10]


def test_an_op_without_process_belongs_to_nobody_among_several(export: Export) -> None:
    export.launch(1, 2, MAIN, 1, "cudaLaunchKernel")
    export.launch(1, 2, global_tid(20, 20), 1, "cudaLaunchKernel")
    export.kernel(5, 6, None, 1, "k")
    assert nsys_sqlite.read(export.done()).gpu_ops["process"].tolist() == [-1]


def test_processes_of_two_machines_with_one_pid_stay_apart(export: Export) -> None:
    for vm in (1, 2):
        export.launch(1, 2, global_tid(10, 10, vm), 1, "cudaLaunchKernel")
        export.kernel(5, 6, global_tid(10, 0, vm), 1, "k")
    trace = nsys_sqlite.read(export.done())
    assert trace.gpu_ops["process"].tolist() == [1 << 24 | 10, 2 << 24 | 10]
    assert trace.threads["pid"].tolist() == [10, 10]


def test_an_api_call_without_correlation_is_no_launch(export: Export) -> None:
    export.launch(1, 2, MAIN, 1, "cudaLaunchKernel")
    export.add(
        "CUPTI_ACTIVITY_KIND_RUNTIME", start=3, end=4, globalTid=MAIN, nameId=export.string("x")
    )
    export.kernel(5, 6, PROCESS, -1, "k")
    assert nsys_sqlite.read(export.done()).launches["correlation"].tolist() == [1]


def test_strings_that_repeat_become_one_name(export: Export) -> None:
    export.kernel(5, 6, PROCESS, 1, "k")
    export.kernel(7, 8, PROCESS, 2, "other")
    export.db.execute("UPDATE StringIds SET value = 'k' WHERE value = 'other'")
    names = nsys_sqlite.read(export.done()).gpu_ops["name"]
    assert names.tolist() == ["k", "k"]
    assert names.cat.categories.tolist() == ["k"]


def test_an_unknown_copy_kind_keeps_its_number(export: Export) -> None:
    export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=5, end=9, globalPid=PROCESS, copyKind=99)
    [name] = nsys_sqlite.read(export.done()).gpu_ops["name"]
    assert name == "[CUDA memcpy kind 99]"


def test_tables_that_exist_and_are_empty(export: Export) -> None:
    trace = nsys_sqlite.read(export.done())
    assert (len(trace.ranges), len(trace.launches), len(trace.gpu_ops)) == (0, 0, 0)
    assert codes(trace) == ["no-nvtx", "no-gpu-ops"]


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "correlationId", "text"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "start", b"blob"),
        ("TARGET_INFO_GPU", "id", "text"),
    ],
)
def test_a_value_of_another_type_is_refused_with_what_to_do(
    tmp_path: Path, table: str, column: str, value: object
) -> None:
    path = tmp_path / "report.sqlite"
    shutil.copyfile(DATA / "h200" / "blocks.sqlite", path)
    with sqlite3.connect(path) as db:
        # A copy without declared types keeps any value as it is.
        db.execute(f"CREATE TABLE copied AS SELECT * FROM {table}")
        columns = ", ".join(row[1] for row in db.execute(f"PRAGMA table_info({table})"))
        db.execute(f"DROP TABLE {table}")
        db.execute(f"CREATE TABLE {table} ({columns})")
        db.execute(f"INSERT INTO {table} SELECT * FROM copied")
        db.execute(f"UPDATE {table} SET {column} = ?", (value,))
    with pytest.raises(UnreadableReport, match=f"unexpected value in {table}") as caught:
        nsys_sqlite.read(path)
    assert "nsys export" in caught.value.hint


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "start"),
        ("CUPTI_ACTIVITY_KIND_MEMSET", "end"),
        ("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"),
        ("NVTX_EVENTS", "globalTid"),
    ],
)
def test_rows_that_lack_a_needed_column_are_not_left_out_in_silence(
    tmp_path: Path, table: str, column: str
) -> None:
    path = tmp_path / "report.sqlite"
    shutil.copyfile(DATA / "h200" / "train.sqlite", path)
    assert "missing-columns" not in codes(nsys_sqlite.read(path))
    with sqlite3.connect(path) as db:
        db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
    found = [w for w in nsys_sqlite.read(path).warnings if w.code == "missing-columns"]
    assert [w.message.split(":")[0] for w in found] == [f"{table} has no column {column}"]


def retyped(path: Path, table: str) -> Path:
    """A copy of blocks.sqlite in which ``table`` keeps any value as it is."""
    return loosened(DATA / "h200" / "blocks.sqlite", path, table)


@pytest.mark.parametrize("column", ["start", "end", "correlationId", "deviceId", "shortName"])
@pytest.mark.parametrize("value", [2.7, 2.0, "12", b"12", "", 1e300, float("inf")])
@pytest.mark.parametrize("engine", ["auto", "stdlib"])
def test_neither_engine_takes_another_type_for_a_number(
    tmp_path: Path, engine: str, value: object, column: str
) -> None:
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    path = retyped(tmp_path / "report.sqlite", table)
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = 3", (value,))
    with pytest.raises(UnreadableReport, match=f"unexpected value in {table}"):
        nsys_sqlite.read(path, engine=engine)


def test_ops_without_a_time_are_counted(tmp_path: Path) -> None:
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    path = retyped(tmp_path / "report.sqlite", table)
    before = nsys_sqlite.read(path)
    assert "missing-values" not in codes(before)
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE {table} SET start = NULL WHERE rowid = 3")
        db.execute(f"UPDATE {table} SET end = NULL WHERE rowid IN (3, 5)")
    after = nsys_sqlite.read(path)
    assert len(after.gpu_ops) == len(before.gpu_ops) - 2
    (told,) = [one for one in after.warnings if one.code == "missing-values"]
    assert told.message.startswith(f"{table}: 2 rows without start or end: they are left out")
