# SPDX-License-Identifier: MIT
"""Small questions to an nsys export that need no Trace: is it one, what does it give away, what is
missing. Tables and columns are probed; none is taken for granted."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UnreadableReport
from harness.readers import is_stale
from harness.readers.paths import check_lfs, check_path

#: Everything that ran on a GPU and has a launch; graph-level replays count as one each.
GPU_TABLES = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)
#: API calls that launch a kernel or replay a graph: to hold against the kernels recorded. Only for
#: this count; attribution never goes by API names.
_LAUNCH_CALLS = re.compile(r"^(cudaLaunch(Cooperative)?Kernel|cuLaunch(Cooperative)?Kernel)")


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection; never creates a file.

    Raises:
        UnreadableReport: the file is not an SQLite database, or is damaged.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            db.text_factory = lambda raw: raw.decode("utf-8", "replace")
            yield db
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise UnreadableReport(f"{path}: not a readable nsys export: {error}") from error


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    """Column names of a table; empty when there is none of that name."""
    return [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]


def is_export(path: Path) -> bool:
    """Whether the file is an nsys export, and not the empty file that a failed export leaves."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    try:
        with opened(path) as db:
            return bool(columns(db, "StringIds"))
    except UnreadableReport:
        return False


def environment(db: sqlite3.Connection) -> dict[str, str]:
    """The environment variables that a report carries. Values are for checks, not for printing."""
    found: dict[str, str] = {}
    if columns(db, "TARGET_INFO_SYSTEM_ENV"):
        for (text,) in db.execute(
            "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment'"
        ):
            found.update(_pairs(_lines(str(text))))
    if columns(db, "META_DATA_CAPTURE"):
        rows = db.execute(
            "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%ENVIRONMENT_VARIABLE%'"
        )
        found.update(_pairs(str(text) for (text,) in rows))
    if columns(db, "StringIds"):
        # Whole environment blocks, NUL between the variables (2022.4, 2023.4).
        rows = db.execute("SELECT value FROM StringIds WHERE instr(CAST(value AS BLOB), x'00') > 0")
        for (text,) in rows:
            found.update(_pairs(_lines(str(text))))
    return found


def _lines(text: str) -> list[str]:
    """Variables are separated by NUL (2022.4, 2023.4) or by line ends."""
    return text.split("\0") if "\0" in text else text.splitlines()


def _pairs(lines: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE lines; nsys puts the value in quotes in one of the two places."""
    found: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.partition("=")
        if separator and name:
            found[name] = value.strip('"')
    return found


@dataclass(frozen=True)
class ProcessCounts:
    """One process of a report that has ranges, API calls or GPU ops."""

    process: int  # globalPid >> 24
    pid: int
    name: str
    ranges: int
    calls: int
    kernels: int


def processes(db: sqlite3.Connection) -> list[ProcessCounts]:
    """Counts of those that did anything: PROCESSES lists every process of the host."""
    ranges = _count_by_process(
        db, "NVTX_EVENTS", "globalTid", "WHERE eventType IN (59, 60, 70, 71)"
    )
    calls = _count_by_process(db, "CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid")
    kernels = _count_by_process(db, "CUPTI_ACTIVITY_KIND_KERNEL", "globalPid")
    names: dict[int, str] = {}
    if {"globalPid", "name"} <= set(columns(db, "PROCESSES")):
        rows = db.execute("SELECT globalPid >> 24, name FROM PROCESSES WHERE globalPid IS NOT NULL")
        names = {process: str(name or "") for process, name in rows}
    return [
        ProcessCounts(
            process,
            process & 0xFFFFFF,
            names.get(process, ""),
            ranges.get(process, 0),
            calls.get(process, 0),
            kernels.get(process, 0),
        )
        for process in sorted(ranges.keys() | calls.keys() | kernels.keys())
    ]


def _count_by_process(
    db: sqlite3.Connection, table: str, column: str, where: str = ""
) -> dict[int, int]:
    if column not in columns(db, table):
        return {}
    rows = db.execute(f"SELECT {column} >> 24, count(*) FROM {table} {where} GROUP BY 1")
    return {process: count for process, count in rows if process is not None}


@dataclass(frozen=True)
class LaunchCounts:
    """Kernel launches called against kernels recorded (those of CUDA graphs left out)."""

    launches: int
    kernels: int


def launch_counts(db: sqlite3.Connection) -> LaunchCounts:
    runtime = set(columns(db, "CUPTI_ACTIVITY_KIND_RUNTIME"))
    launches = 0
    if "nameId" in runtime:
        rows = db.execute(
            "SELECT s.value, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r "
            "JOIN StringIds AS s ON s.id = r.nameId GROUP BY s.value"
        )
        # A runtime call that calls the driver is one row: nsys keeps the outer one only.
        launches = sum(count for name, count in rows if _LAUNCH_CALLS.match(str(name)))
    kernel = set(columns(db, "CUPTI_ACTIVITY_KIND_KERNEL"))
    kernels = 0
    if kernel:
        # A graph's kernels have no launch of their own.
        where = "WHERE graphNodeId IS NULL" if "graphNodeId" in kernel else ""
        (kernels,) = db.execute(
            f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL {where}"
        ).fetchone()
    return LaunchCounts(launches, kernels)


def diagnostics(db: sqlite3.Connection, severity: int = 3) -> list[str]:
    """What nsys itself complained about: 2 warnings, 3 errors and worse; repeated lines once."""
    there = set(columns(db, "DIAGNOSTIC_EVENT"))
    if not {"severity", "text"} <= there:
        return []
    order = "ORDER BY timestamp" if "timestamp" in there else ""
    rows = db.execute(
        f"SELECT DISTINCT text FROM DIAGNOSTIC_EVENT WHERE severity >= ? {order}",
        (severity,),
    )
    return [str(text).strip() for (text,) in rows]


def range_rows(db: sqlite3.Connection) -> tuple[int, int]:
    """(ranges, other NVTX rows). Domain rows without a single range are the nvtx/nsys trap."""
    if "eventType" not in columns(db, "NVTX_EVENTS"):
        return 0, 0
    (ranges,) = db.execute(
        "SELECT count(*) FROM NVTX_EVENTS WHERE eventType IN (59, 60, 70, 71)"
    ).fetchone()
    (rows,) = db.execute("SELECT count(*) FROM NVTX_EVENTS").fetchone()
    return ranges, rows - ranges


def gpu_ops(db: sqlite3.Connection) -> int:
    return sum(
        db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in GPU_TABLES
        if columns(db, table)
    )


@dataclass(frozen=True)
class ReportFacts:
    """What ``harness doctor REPORT`` looks at. Names of variables, never their values."""

    path: str
    nsys_version: str = ""
    older_than_report: bool = False
    environment_count: int = 0
    secret_names: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    launches: int = 0
    kernels: int = 0
    ranges: int = 0
    other_nvtx: int = 0
    gpu_ops: int = 0
    calls: int = 0
    processes: tuple[ProcessCounts, ...] = ()


def report_facts(path: Path, looks_secret: Callable[[str, str], bool]) -> ReportFacts:
    """Ask an export everything at once. ``looks_secret(name, value)`` judges its variables.

    Raises:
        UnreadableReport: the file is not an nsys export.
    """
    check_path(path)
    check_lfs(path)
    if not path.is_file() or path.stat().st_size == 0:
        raise UnreadableReport(
            f"{path}: empty or missing", hint="A failed nsys export leaves an empty file."
        )
    with opened(path) as db:
        if not columns(db, "StringIds"):
            raise UnreadableReport(f"{path}: an SQLite database, but not an nsys export")
        variables = environment(db)
        counts = launch_counts(db)
        ranges, other = range_rows(db)
        found = processes(db)
        return ReportFacts(
            path=str(path),
            nsys_version=_version(db),
            older_than_report=_older_than_report(path),
            environment_count=len(variables),
            secret_names=tuple(sorted(n for n, v in variables.items() if looks_secret(n, v))),
            errors=tuple(diagnostics(db)),
            launches=counts.launches,
            kernels=counts.kernels,
            ranges=ranges,
            other_nvtx=other,
            gpu_ops=gpu_ops(db),
            calls=sum(process.calls for process in found),
            processes=tuple(found),
        )


def _version(db: sqlite3.Connection) -> str:
    # EXPORT_META_DATA (2022) became META_DATA_EXPORT; 2021 has neither.
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if columns(db, table):
            row = db.execute(
                f"SELECT value FROM {table} WHERE name = 'EXPORT_PRODUCT_VERSION'"
            ).fetchone()
            if row:
                return str(row[0])
    return ""


def _older_than_report(path: Path) -> bool:
    report = path.with_suffix(".nsys-rep")
    return report.is_file() and is_stale(path, report)
