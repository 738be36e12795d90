# SPDX-License-Identifier: MIT
"""The H200 recordings, and their tables read by plain SQL: the tests' independent side."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

import harness
from harness.attribute import Attribution

RECORDED = Path(__file__).parent.parent / "data" / "recorded"
NAMES = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())
#: Recorded by torch.profiler as well (the C++ programs are not).
BOTH = [name for name in NAMES if (RECORDED / name / "torch_trace.json.gz").exists()]
POLICIES = ("thread", "autograd", "process")
GPU_TABLES = ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")


class Range(NamedTuple):
    name: str
    tid: int  # globalTid
    start: int
    end: int
    style: int  # 59 push/pop, 60 start/end


class Work(NamedTuple):
    """A GPU op and the API call that launched it, joined on process and correlation id."""

    table: str
    start: int
    end: int
    stream: int
    name: str
    process: int
    tid: int  # globalTid of the call; None where there is none
    call_start: int
    call_end: int
    correlation: int


def report(name: str) -> Path:
    return RECORDED / name / "report.sqlite"


def found(name: str, policy: str = "autograd") -> Attribution:
    return harness.load(report(name)).attribute(policy)


def torch_found(name: str, policy: str = "autograd") -> Attribution:
    return harness.load(RECORDED / name / "torch_trace.json.gz").attribute(policy)


def sql(name: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{report(name)}?mode=ro", uri=True) as db:
        return db.execute(query, values).fetchall()


def tables(name: str) -> set[str]:
    return {row[0] for row in sql(name, "SELECT name FROM sqlite_master WHERE type = 'table'")}


def sql_ranges(name: str) -> list[Range]:
    rows = sql(
        name,
        """SELECT coalesce(s.value, n.text), n.globalTid, n.start, n.end, n.eventType
           FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId
           WHERE n.eventType IN (59, 60) ORDER BY n.start, n.end DESC""",
    )
    return [Range(*row) for row in rows]


def sql_work(name: str) -> list[Work]:
    out: list[Work] = []
    for table in GPU_TABLES:
        if f"CUPTI_ACTIVITY_KIND_{table}" not in tables(name):
            continue
        label = "(SELECT value FROM StringIds WHERE id = shortName)" if table == "KERNEL" else "''"
        rows = sql(
            name,
            f"""SELECT '{table}', k.start, k.end, k.streamId, {label}, k.globalPid >> 24,
                       r.globalTid, r.start, r.end, k.correlationId
                FROM CUPTI_ACTIVITY_KIND_{table} k LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
                ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24""",
        )
        out += [Work(*row) for row in rows]
    return out


def inside(work: Iterable[Work], ranges: Iterable[Range]) -> list[Work]:
    """Work whose call lies in one of ``ranges``, on the thread that opened it; each once."""
    ranges = list(ranges)
    return [
        w
        for w in work
        if any(r.tid == w.tid and r.start <= w.call_start and w.call_end <= r.end for r in ranges)
    ]


def total(work: Iterable[Work]) -> int:
    return sum(w.end - w.start for w in work)


def union(work: Iterable[Work]) -> int:
    """Length of the union of the intervals, by sorting and merging."""
    length, reach = 0, None
    for start, end in sorted((w.start, w.end) for w in work):
        if reach is None or start > reach:
            length, reach = length + end - start, end
        elif end > reach:
            length, reach = length + end - reach, end
    return length


def by_path(table: pd.DataFrame, *columns: str) -> dict[str, Any]:
    """Path -> row; a path that occurs twice (two processes) is a mistake of the test."""
    out: dict[str, Any] = {}
    for row in table[["path", *columns]].itertuples(index=False, name=None):
        assert " / ".join(row[0]) not in out
        out[" / ".join(row[0])] = row[1:] if len(columns) > 1 else row[1]
    return out
