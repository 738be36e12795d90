# SPDX-License-Identifier: MIT
"""Values that an export lacks: nothing is left out in silence, whichever way it is read."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from nsys_files import loosened

from harness import readers
from harness.errors import UnreadableReport
from harness.instalments import report_in_parts
from harness.readers import nsys_sqlite
from harness.readers.inspect_report import diagnostics, opened
from harness.report import Report, Request, build, unread
from harness.trace import Trace

DATA = Path(__file__).parents[1] / "data"
NVTX, RUNTIME = "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME"
NODES, GRAPHS = "CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS"


def mutated(path: Path, report: str, table: str, *statements: str) -> Path:
    """A copy of a recorded report with ``table`` changed; its columns keep any value."""
    loosened(DATA / report, path, table)
    with closing(sqlite3.connect(path)) as db, db:
        for statement in statements:
            db.execute(statement)
    return path


def both_ways(path: Path, request: Request) -> tuple[Report, Report]:
    whole = build(readers.load(path, without=unread(request)), request, name="x")
    with nsys_sqlite.in_parts(path, 40, without=unread(request)) as parts:
        return whole, report_in_parts(parts, request, name="x")


def missing(trace: Trace | Report) -> list[str]:
    return [one.message for one in trace.warnings if one.code == "missing-values"]


@pytest.mark.parametrize("engine", ["adbc", "stdlib"])
@pytest.mark.parametrize(
    ("report", "table", "column"),
    [
        ("h200/train.sqlite", NVTX, "start"),
        ("h200/train.sqlite", NVTX, "globalTid"),
        ("h200/train.sqlite", NVTX, "eventType"),
        ("h200/train.sqlite", RUNTIME, "start"),
        ("h200/train.sqlite", RUNTIME, "end"),
        ("h200/train.sqlite", RUNTIME, "globalTid"),
        ("h200/train.sqlite", "CUPTI_ACTIVITY_KIND_MEMSET", "end"),
        ("h200/graph_graph.sqlite", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "start"),
        ("h200/graph_node.sqlite", NODES, "start"),
        ("h200/graph_node.sqlite", NODES, "graphNodeId"),
        ("h200/graph_graph.sqlite", GRAPHS, "globalTid"),
    ],
)
def test_rows_without_a_needed_value_are_counted(
    tmp_path: Path, report: str, table: str, column: str, engine: str
) -> None:
    lacking = f"UPDATE {table} SET {column} = NULL WHERE rowid IN (2, 3)"
    path = mutated(tmp_path / "report.sqlite", report, table, lacking)
    (told,) = missing(nsys_sqlite.read(path, engine=engine))
    assert told.startswith(f"{table}: 2 rows without ")
    assert column in told
    whole, parts = both_ways(path, Request(details=False))
    assert missing(whole) == missing(parts) == [told]


def test_what_is_left_is_reported_alike(tmp_path: Path) -> None:
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/train.sqlite",
        RUNTIME,
        f"UPDATE {RUNTIME} SET globalTid = NULL WHERE rowid % 5 = 1",
        f"UPDATE {RUNTIME} SET end = NULL WHERE rowid % 7 = 1",
    )
    with closing(sqlite3.connect(path)) as db:
        (left,) = db.execute(
            f"SELECT count(*) FROM {RUNTIME} WHERE end IS NOT NULL AND globalTid IS NOT NULL"
        ).fetchone()
    assert len(nsys_sqlite.read(path).launches) == left
    whole, parts = both_ways(path, Request(details=False))
    pd.testing.assert_frame_equal(whole.rows, parts.rows, check_dtype=False, check_exact=True)
    assert whole.ledger == parts.ledger
    assert whole.ledger is not None
    assert whole.ledger.unlinked_ops > 0


def test_a_table_all_of_whose_rows_lack_something(tmp_path: Path) -> None:
    path = mutated(
        tmp_path / "report.sqlite", "h200/train.sqlite", NVTX, f"UPDATE {NVTX} SET globalTid = NULL"
    )
    for report in both_ways(path, Request(details=False)):
        # As many as the instances that NVIDIA's nvtx_sum counts.
        assert "NVTX_EVENTS: 32 rows without" in missing(report)[0]
        assert len(report.rows) == 0


def test_marks_need_no_thread(tmp_path: Path) -> None:
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/nested.sqlite",
        NVTX,
        f"UPDATE {NVTX} SET globalTid = NULL WHERE eventType NOT IN (59, 60)",
    )
    assert not missing(nsys_sqlite.read(path))


def test_a_call_without_a_name_still_launches(tmp_path: Path) -> None:
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/train.sqlite",
        RUNTIME,
        f"UPDATE {RUNTIME} SET nameId = NULL",
    )
    before = readers.load(DATA / "h200/train.sqlite").attribute("thread").ledger
    assert readers.load(path).attribute("thread").ledger.attributed_ns == before.attributed_ns


def test_strings_without_text_are_empty_names(tmp_path: Path) -> None:
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/train.sqlite",
        "StringIds",
        "UPDATE StringIds SET value = NULL",
    )
    trace = nsys_sqlite.read(path)
    assert set(trace.launches["name"]) == set(trace.threads["name"]) == {""}


@pytest.mark.parametrize("value", ["'soon'", "x'00ff'", "59.5"])
def test_a_range_whose_type_is_no_number_is_refused(tmp_path: Path, value: str) -> None:
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/train.sqlite",
        NVTX,
        f"UPDATE {NVTX} SET eventType = {value} WHERE rowid = 3",
    )
    with pytest.raises(UnreadableReport, match="unexpected value in NVTX_EVENTS"):
        nsys_sqlite.read(path)


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("CUPTI_ACTIVITY_KIND_KERNEL", "mangledName", "x'00ff'"),  # nobody asks for it
        ("CUPTI_ACTIVITY_KIND_KERNEL", "streamId", "'soon'"),
        (NVTX, "start", str(2**63 - 1)),  # begins after all parts end
        (RUNTIME, "start", str(-(2**62))),
        (RUNTIME, "start", str(-(2**63))),
        (RUNTIME, "end", str(2**63 - 1)),
    ],
)
def test_parts_accept_and_refuse_what_the_whole_does(
    tmp_path: Path, table: str, column: str, value: str
) -> None:
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/train.sqlite",
        table,
        f"UPDATE {table} SET {column} = {value} WHERE rowid = 3",
    )
    request = Request(details=False)

    def refused(one: str) -> str:
        try:
            if one == "whole":
                readers.load(path, without=unread(request))
            else:
                with nsys_sqlite.in_parts(path, 40, without=unread(request)) as parts:
                    report_in_parts(parts, request, name="x")
        except UnreadableReport as error:
            return error.message
        return ""

    assert refused("whole") == refused("parts")
    assert bool(refused("whole")) is (column in ("start", "end"))


@pytest.mark.parametrize("table", [NVTX, RUNTIME])
def test_rows_that_end_before_all_parts_are_in_them(tmp_path: Path, table: str) -> None:
    path = mutated(
        tmp_path / "report.sqlite", "h200/train.sqlite", table, f"UPDATE {table} SET end = -5"
    )
    for view in ("ranges", "names"):
        whole, parts = both_ways(path, Request(view=view, details=False))
        assert whole.rows["instances"].sum() == 32
        pd.testing.assert_frame_equal(whole.rows, parts.rows, check_dtype=False, check_exact=True)
        assert whole.ledger == parts.ledger


@pytest.mark.parametrize("engine", ["adbc", "stdlib"])
@pytest.mark.parametrize("correlation", [-(2**63), 2**63 - 1])
def test_every_call_with_one_extreme_correlation(
    tmp_path: Path, correlation: int, engine: str
) -> None:
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/train.sqlite",
        RUNTIME,
        f"UPDATE {RUNTIME} SET correlationId = {correlation}",
    )
    trace = nsys_sqlite.read(path, engine=engine)
    assert [one.message[:20] for one in trace.warnings] == ["308 of 308 GPU ops h"]


def names_lost(report: Trace | Report) -> list[str]:
    return [one.message for one in report.warnings if one.code == "missing-names"]


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM StringIds", "UPDATE StringIds SET value = NULL", "DROP TABLE StringIds"],
)
def test_names_that_are_gone_are_told(tmp_path: Path, statement: str) -> None:
    path = mutated(tmp_path / "report.sqlite", "h200/nested.sqlite", "StringIds", statement)
    whole, parts = both_ways(path, Request(details=False))
    assert names_lost(whole) == names_lost(parts)
    # Of 83 rows of NVTX_EVENTS, 200 calls and 82 kernels; SQL on the recorded file.
    assert (
        "CUPTI_ACTIVITY_KIND_RUNTIME.nameId: 200, CUPTI_ACTIVITY_KIND_KERNEL.shortName: 82"
        in (names_lost(whole)[0])
    )


def test_a_text_in_the_row_itself_is_a_name(tmp_path: Path) -> None:
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/nested.sqlite",
        NVTX,
        f"UPDATE {NVTX} SET text = 'here', textId = 999999",
    )
    assert not names_lost(nsys_sqlite.read(path))


@pytest.mark.parametrize("statement", ["DELETE FROM ThreadNames", "DROP TABLE ThreadNames"])
def test_threads_without_names_are_told(tmp_path: Path, statement: str) -> None:
    path = mutated(tmp_path / "report.sqlite", "h200/train.sqlite", "ThreadNames", statement)
    for report in both_ways(path, Request(details=False)):
        assert names_lost(report)[0].startswith("no thread has a name")


@pytest.mark.parametrize("table", [NVTX, RUNTIME, "StringIds", "CUPTI_ACTIVITY_KIND_MEMSET"])
def test_a_view_in_place_of_a_table_is_refused(tmp_path: Path, table: str) -> None:
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/train.sqlite",
        table,
        f"ALTER TABLE {table} RENAME TO kept",
        f"CREATE VIEW {table} AS SELECT * FROM kept",
    )
    for read in (nsys_sqlite.read, lambda path: next(nsys_sqlite.iter_chunks(path))):
        with pytest.raises(UnreadableReport, match=f"not as nsys export writes it: {table} is a v"):
            read(path)


@pytest.mark.parametrize("made", ["(start, end, rowid)", "(start PRIMARY KEY, end) WITHOUT ROWID"])
def test_rows_without_a_number_are_refused(tmp_path: Path, made: str) -> None:
    table = "CUPTI_ACTIVITY_KIND_MEMSET"
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/train.sqlite",
        table,
        f"DROP TABLE {table}",
        f"CREATE TABLE {table} {made}",
    )
    with pytest.raises(UnreadableReport, match=f"the rows of {table} have no number"):
        nsys_sqlite.read(path)


def test_names_of_other_tables_and_computed_columns(tmp_path: Path) -> None:
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    with closing(sqlite3.connect(DATA / "h200/train.sqlite")) as db:
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    rest = ", ".join(columns[1:])
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/train.sqlite",
        table,
        f"ALTER TABLE {table} RENAME TO kept",
        f"CREATE TABLE {table} (begun, start AS (begun), {rest})",
        f"INSERT INTO {table} (begun, {rest}) SELECT start, {rest} FROM kept",
        'CREATE TABLE "select" (a)',
        'CREATE TABLE "order" ("from")',
    )
    assert len(nsys_sqlite.read(path).gpu_ops) == 308


@pytest.mark.parametrize("table", [NVTX, RUNTIME, "CUPTI_ACTIVITY_KIND_MEMSET"])
def test_row_numbers_far_apart_cost_no_more(tmp_path: Path, table: str) -> None:
    path = mutated(
        tmp_path / "report.sqlite",
        "h200/train.sqlite",
        table,
        f"UPDATE {table} SET rowid = {2**63 - 1} WHERE rowid = (SELECT max(rowid) FROM {table})",
        f"UPDATE {table} SET rowid = {-(2**63)} WHERE rowid = (SELECT min(rowid) FROM {table})",
    )
    whole, parts = both_ways(path, Request(details=False))
    assert whole.rows["instances"].sum() == 32
    pd.testing.assert_frame_equal(whole.rows, parts.rows, check_dtype=False, check_exact=True)


@pytest.mark.parametrize(
    ("report", "table", "column"),
    [
        ("h200/train.sqlite", "ThreadNames", "priority"),
        ("recorded/two-processes/report.sqlite", "DIAGNOSTIC_EVENT", "timestamp"),
    ],
)
def test_a_column_that_only_orders_is_not_needed(
    tmp_path: Path, report: str, table: str, column: str
) -> None:
    path = mutated(
        tmp_path / "report.sqlite", report, table, f"ALTER TABLE {table} DROP COLUMN {column}"
    )
    before, after = readers.load(DATA / report), readers.load(path)
    assert after.threads["name"].tolist() == before.threads["name"].tolist()
    assert after.warnings == before.warnings
    with opened(DATA / report) as one, opened(path) as other:
        assert set(diagnostics(one, 1)) == set(diagnostics(other, 1))
