# SPDX-License-Identifier: MIT
"""The tables of an nsys SQLite export: which exist, what to select, what their codes mean.

Tables are lazy (absent when empty) and columns come and go between versions, so everything is
probed; nothing depends on a version number. Seen: 2021.2, 2022.4, 2023.4, 2024.x, 2025.x, 2026.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

import numpy as np
from numpy.typing import NDArray

from harness.names import WRAPPED, short_kernel_name
from harness.readers.columns import NOTHING, Database, Int64, Query

NVTX = "NVTX_EVENTS"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
GRAPH_EVENTS = "CUDA_GRAPH_EVENTS"
GRAPH_NODES = "CUDA_GRAPH_NODE_EVENTS"

#: Table of each kind of GPU op, in the order of ``trace.KINDS``.
OP_TABLES = {"kernel": KERNEL, "memcpy": MEMCPY, "memset": MEMSET, "graph": GRAPH}
# Ids of names that are no strings, negated: sets, copies from here on by kind, graphs by id.
_SET, _COPIES, _GRAPHS = 2, 1000, 1_000_000
#: At least one of these is in every export, whatever was recorded.
_MARKS = ("StringIds", NVTX, RUNTIME, KERNEL, "ANALYSIS_DETAILS", "META_DATA_EXPORT")

#: eventType of NVTX_EVENTS: ranges, and the same as imported from NVTXT files.
PUSH_POP, START_END = (59, 70), (60, 71)
DOMAIN = 75
#: Stands for an end that is NULL; later than any.
OPEN = 2**63 - 1

# What ENUM_CUDA_MEMCPY_OPER says; the 2021.2 export has no such table.
_COPY_LABELS = {
    0: "Unknown",
    1: "Host-to-Device",
    2: "Device-to-Host",
    3: "Host-to-Array",
    4: "Array-to-Host",
    5: "Array-to-Array",
    6: "Array-to-Device",
    7: "Device-to-Array",
    8: "Device-to-Device",
    9: "Host-to-Host",
    10: "Peer-to-Peer",
    11: "Unified Host-to-Device",
    12: "Unified Device-to-Host",
    13: "Unified Device-to-Device",
}


def is_export(db: Database) -> bool:
    """Does the file look like an nsys export?"""
    return any(mark in db.tables for mark in _MARKS)


def unlike(db: Database) -> str:
    """Which table that is read is not as nsys makes them, and why; "" where all are."""
    events = (NVTX, RUNTIME, *OP_TABLES.values(), GRAPH_NODES, GRAPH_EVENTS)
    for table in (*events, "StringIds", "ThreadNames", "ANALYSIS_DETAILS"):
        if table in db.views:
            return f"{table} is a view, not a table"
        if table in events and table in db.tables and not db.numbered(table):
            return f"the rows of {table} have no number (rowid) of SQLite's"
    return ""


def lacking(db: Database) -> dict[str, list[str]]:
    """Table -> columns without which none of its rows can be read; only tables that have rows."""
    needed = {
        NVTX: ("start", "end", "eventType", "globalTid"),
        RUNTIME: ("start", "end", "globalTid", "correlationId", "nameId"),
        **dict.fromkeys(OP_TABLES.values(), ("start", "end")),
    }
    return {
        table: missing
        for table, columns in needed.items()
        if table in db.tables
        and (missing := [column for column in columns if not db.has(table, column)])
        and db.rows(f"SELECT 1 FROM {table} LIMIT 1", "i")
    }


def ranges_query(db: Database) -> Query | None:
    """start, end (OPEN where NULL), type, tid, text_id, domain and the text of every range."""
    if not db.has(NVTX, "start", "end", "eventType", "globalTid"):
        return None
    types = ", ".join(map(str, PUSH_POP + START_END))
    return Query(
        NVTX,
        {
            "start": _needed(db, NVTX, "start"),
            "end": f"coalesce(end, {OPEN})",
            "type": _needed(db, NVTX, "eventType"),
            "tid": _needed(db, NVTX, "globalTid"),
            "text_id": _optional(db, NVTX, "textId", -1),
            "domain": _optional(db, NVTX, "domainId", 0),
        },
        # The type only: `end` is NULL in marks, categories and domains as well. A type that is no
        # number is no reason to leave a range out in silence.
        where=f"eventType IN ({types}) OR typeof(eventType) <> 'integer'",
        text="coalesce(text, '')" if db.has(NVTX, "text") else "",
        narrow=frozenset({"type"} if "eventType" in db.required[NVTX] else ()),
        needed=frozenset({"start", "type", "tid"}),
    )


def launches_query(db: Database) -> Query | None:
    """start, end, tid, correlation and name of every CUDA API call that could own GPU work."""
    if not db.has(RUNTIME, "start", "end", "globalTid", "correlationId", "nameId"):
        return None
    return Query(
        RUNTIME,
        {
            "start": _needed(db, RUNTIME, "start"),
            "end": _needed(db, RUNTIME, "end"),
            "tid": _needed(db, RUNTIME, "globalTid"),
            "correlation": "correlationId",
            "name": _optional(db, RUNTIME, "nameId", -1),
        },
        # A call without correlation launched nothing that was recorded.
        where="correlationId IS NOT NULL",
        needed=frozenset({"start", "end", "tid"}),
    )


def ops_query(db: Database, kind: str, without: Set[str] = frozenset()) -> Query | None:
    """The GPU ops of one kind; -1 stands for NULL, for columns that this export lacks, and for
    those in ``without``, which are not read.

    ``name``, ``demangled`` and ``mangled`` are ids of strings or, below zero, what
    ``op_labels`` explains.
    """
    table = OP_TABLES[kind]
    if not db.has(table, "start", "end"):
        return None
    columns: dict[str, str | int] = {
        "start": _needed(db, table, "start"),
        "end": _needed(db, table, "end"),
        "process": _optional(db, table, "globalPid", -1),
        "correlation": _optional(db, table, "correlationId", -1),
        "device": _optional(db, table, "deviceId", -1),
        "context": _optional(db, table, "contextId", -1),
        "stream": _optional(db, table, "streamId", -1),
        "bytes": _optional(db, table, "bytes", -1) if kind in ("memcpy", "memset") else -1,
        "graph_node": _graph_number(db)
        if kind == "graph"
        else _optional(db, table, "graphNodeId", -1),
    }
    columns |= _name_ids(db, kind)
    return Query(
        table,
        columns | dict.fromkeys(columns.keys() & without, -1),
        narrow=frozenset({"device", "context"}),
        needed=frozenset({"start", "end"}),
    )


def _name_ids(db: Database, kind: str) -> dict[str, str | int]:
    if kind == "kernel":
        # mangledName is absent in 2021.2, and NULL for some kernels everywhere.
        return {
            "name": _short_name(db),
            "demangled": _first(db, KERNEL, "demangledName", "shortName"),
            "mangled": _first(db, KERNEL, "mangledName", "demangledName", "shortName"),
        }
    name: str | int
    if kind == "memcpy":
        name = f"-({_COPIES} + {_optional(db, MEMCPY, 'copyKind', 0)})"
    elif kind == "memset":
        name = -_SET
    else:
        name = f"-({_GRAPHS} + {_optional(db, GRAPH, 'graphId', -1)})"
    return dict.fromkeys(("name", "demangled", "mangled"), name)


def _short_name(db: Database) -> str | int:
    """SQL for the id of the short name: of the signature where that says more (``short_label``)."""
    name = _first(db, KERNEL, "shortName", "demangledName")
    if not (db.has(KERNEL, "demangledName") and db.has("StringIds", "id", "value")):
        return name
    wrapped = db.rows(
        f"SELECT id FROM StringIds WHERE id IS NOT NULL AND value GLOB '{WRAPPED}*'", "i"
    )
    ids = ", ".join(str(one) for (one,) in wrapped)
    return f"CASE WHEN demangledName IN ({ids}) THEN demangledName ELSE {name} END" if ids else name


def short_label(label: str) -> str:
    """nsys calls every kernel that CUTLASS wraps ``Kernel2``: read its signature instead."""
    return short_kernel_name(label) if label.startswith(WRAPPED) else label


def op_labels(db: Database, ids: list[int]) -> list[str]:
    """The name behind each id of an op's name, "" where the export has none."""
    known = strings(db, [i for i in ids if i >= 0])
    copies = copy_labels(db) if any(-_GRAPHS + 1 < i <= -_COPIES for i in ids) else {}
    return [known.get(i, "") if i >= -1 else _memory_label(-i, copies) for i in ids]


def _memory_label(number: int, copies: dict[int, str]) -> str:
    """As nsys stats prints them; it has no name for a graph."""
    if number == _SET:
        return "[CUDA memset]"
    if number >= _GRAPHS - 1:
        graph = number - _GRAPHS
        return f"[CUDA graph {graph}]" if graph >= 0 else "[CUDA graph]"
    kind = number - _COPIES
    return f"[CUDA memcpy {copies.get(kind, f'kind {kind}')}]"


def nodes_query(db: Database) -> Query | None:
    """time, tid, node and original of every graph node made.

    Until 2023.4 node rows are in CUDA_GRAPH_EVENTS; from 2024.2 that name holds graphs.
    """
    for table in (GRAPH_NODES, GRAPH_EVENTS):
        if db.has(table, "start", "globalTid", "graphNodeId"):
            return Query(
                table,
                {
                    "time": _needed(db, table, "start"),
                    "tid": _needed(db, table, "globalTid"),
                    "node": _needed(db, table, "graphNodeId"),
                    "original": _optional(db, table, "originalGraphNodeId", -1),
                },
                needed=frozenset({"time", "tid", "node"}),
            )
    return None


def graphs_query(db: Database) -> Query | None:
    """time, tid, node and original of every graph made, instantiated or cloned.

    From 2024.2. An instantiated graph has two rows: one as any graph, and one with its number as
    graphExecId and that of the graph it was instantiated from as graphId.
    """
    if not db.has(GRAPH_EVENTS, "start", "globalTid", "graphId", "graphExecId"):
        return None
    original = _optional(db, GRAPH_EVENTS, "originalGraphId", -1)
    return Query(
        GRAPH_EVENTS,
        {
            "time": _needed(db, GRAPH_EVENTS, "start"),
            "tid": _needed(db, GRAPH_EVENTS, "globalTid"),
            "node": f"coalesce(graphExecId, graphId, {NOTHING})",
            "original": "CASE WHEN graphExecId IS NULL "
            f"THEN {original} ELSE coalesce(graphId, -1) END",
        },
        needed=frozenset({"time", "tid", "node"}),
    )


def _graph_number(db: Database) -> str | int:
    """Number of the graph that was launched; graphId is that of the graph it came from."""
    number = _optional(db, GRAPH, "graphId", -1)
    return f"coalesce(graphExecId, {number})" if db.has(GRAPH, "graphExecId") else number


def strings(db: Database, ids: Iterable[int]) -> dict[int, str]:
    """The strings of these ids; an id without a string is left out, and noted in ``nameless``."""
    found: dict[int, str] = {}
    wanted = [i for i in ids if i >= 0]
    for i in range(0, len(wanted) if db.has("StringIds", "id", "value") else 0, 500):
        some = ", ".join(str(int(j)) for j in wanted[i : i + 500])
        sql = f"SELECT id, value FROM StringIds WHERE id IN ({some}) AND value IS NOT NULL"
        found.update(db.rows(sql, "it"))
    db.nameless |= len(found) < len(set(wanted))
    return found


def copy_labels(db: Database) -> dict[int, str]:
    """What each copyKind is called."""
    labels = dict(_COPY_LABELS)
    if db.has("ENUM_CUDA_MEMCPY_OPER", "id", "label"):
        labels.update(
            db.rows("SELECT id, label FROM ENUM_CUDA_MEMCPY_OPER WHERE label IS NOT NULL", "it")
        )
    return labels


def domain_names(db: Database) -> dict[tuple[int, int], str]:
    """(process, domainId) -> name. Ids repeat across processes and mean other domains there."""
    if not db.has(NVTX, "eventType", "globalTid", "domainId"):
        return {}
    text_id = "textId" if db.has(NVTX, "textId") else "NULL"
    text = "text" if db.has(NVTX, "text") else "NULL"
    value = (
        f"(SELECT value FROM StringIds WHERE id = {text_id})" if "StringIds" in db.tables else text
    )
    return {
        (tid >> 24, domain): name
        for tid, domain, name in db.rows(
            f"SELECT globalTid, domainId, coalesce({value}, {text}, '') FROM {NVTX} "
            f"WHERE eventType = {DOMAIN} AND globalTid IS NOT NULL AND domainId IS NOT NULL",
            "iit",
        )
        if name
    }


def thread_names(db: Database, processes: set[int]) -> dict[int, str]:
    """globalTid -> name of the named threads of ``processes`` (the table lists the whole host)."""
    if not db.has("ThreadNames", "nameId", "globalTid"):
        return {}
    order = "priority, rowid" if db.has("ThreadNames", "priority") else "rowid"
    rows = [
        (tid, name)
        for tid, name in db.rows(
            "SELECT globalTid, nameId FROM ThreadNames "
            f"WHERE globalTid IS NOT NULL AND nameId IS NOT NULL ORDER BY {order}",
            "ii",
        )
        if tid >> 24 in processes
    ]
    text = strings(db, {name for _, name in rows})
    return {tid: text.get(name, "") for tid, name in rows}


def capture_end(db: Database) -> int | None:
    """The capture's duration, which nsys writes as the end of ranges that never closed."""
    if not db.has("ANALYSIS_DETAILS", "duration"):
        return None
    value: int | None = db.rows("SELECT max(duration) FROM ANALYSIS_DETAILS", "i")[0][0]
    return value


def never_closed(start: Int64, end: Int64, capture_end: int | None) -> NDArray[np.bool_]:
    """Which ranges never closed: no end, or the capture's end in its place (2022.4 to 2025.3).

    2023.4 now and then gives a duration that is too short; the process's end is then that place,
    so a range that reaches over the capture's end counts as never closed, too.
    """
    never: NDArray[np.bool_] = end == OPEN
    if capture_end is not None:
        never |= (start <= capture_end) & (end >= capture_end)
    return never


def never_closed_sql(capture_end: int | None) -> str:
    """The condition of ``never_closed``."""
    if capture_end is None:
        return f"end IS NULL OR end = {OPEN}"
    return f"end IS NULL OR end = {OPEN} OR (start <= {capture_end} AND end >= {capture_end})"


def _needed(db: Database, table: str, column: str) -> str:
    """SQL for a column of ``Query.needed``."""
    return column if column in db.required[table] else f"coalesce({column}, {NOTHING})"


def _optional(db: Database, table: str, column: str, otherwise: int) -> str | int:
    """SQL for a column that may be missing or NULL; the constant itself where it is missing."""
    if not db.has(table, column):
        return otherwise
    return column if column in db.required[table] else f"coalesce({column}, {otherwise})"


def _first(db: Database, table: str, *columns: str) -> str | int:
    """The first of the columns that exists and is not NULL, else -1."""
    present = [column for column in columns if db.has(table, column)]
    if not present or present[0] in db.required[table]:
        return present[0] if present else -1
    return f"coalesce({', '.join([*present, '-1'])})"
