# SPDX-License-Identifier: MIT
"""Nsight Systems' SQLite export as a Trace.

Tables are lazy (absent when empty) and columns come and go between versions, so everything is
probed; nothing depends on a version number.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.errors import UnreadableReport
from harness.readers.columns import Database, Int64, open_database
from harness.readers.nsys_facts import read_source, read_warnings
from harness.trace import (
    GPU_OP_COLUMNS,
    GRAPH_NODE_COLUMNS,
    KINDS,
    LAUNCH_COLUMNS,
    RANGE_COLUMNS,
    STYLES,
    THREAD_COLUMNS,
    Trace,
    empty_frame,
    frame,
)

RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"

#: At least one of these is in every export, whatever was recorded.
_MARKS = ("StringIds", "NVTX_EVENTS", RUNTIME, KERNEL, "ANALYSIS_DETAILS", "META_DATA_EXPORT")

#: Event types of NVTX_EVENTS: push/pop, start/end, and their NVTXT twins.
_PUSH_POP, _START_END = (59, 70), (60, 71)
_DOMAIN = 75

#: What ENUM_CUDA_MEMCPY_OPER says; the 2021 and 2022 exports have no such table.
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


def read(path: str | Path) -> Trace:
    """Read an nsys SQLite export.

    Raises:
        UnreadableReport: the file is missing, damaged, or not an nsys export.
    """
    path = Path(path)
    with open_database(path) as db:
        if not any(db.has(mark) for mark in _MARKS):
            raise UnreadableReport(
                f"{path}: a SQLite file, but not an nsys export",
                hint="Make one with nsys export --type sqlite REPORT.nsys-rep.",
            )
        strings = _strings(db)
        ranges, range_tids = _ranges(db, strings)
        launches, launch_tids = _launches(db, strings)
        nodes, node_tids = _graph_nodes(db)
        gpu_ops = _gpu_ops(db, strings)
        threads = _threads(db, strings, range_tids, launch_tids, node_tids, gpu_ops["process"])
        tids = threads.pop("global").to_numpy()
        ranges["thread"] = np.searchsorted(tids, range_tids).astype(np.int32)
        launches["thread"] = np.searchsorted(tids, launch_tids).astype(np.int32)
        nodes["thread"] = np.searchsorted(tids, node_tids).astype(np.int32)
        trace = Trace(
            source=read_source(db),
            threads=threads,
            ranges=frame(RANGE_COLUMNS, ranges),
            launches=frame(LAUNCH_COLUMNS, launches),
            gpu_ops=frame(GPU_OP_COLUMNS, gpu_ops) if len(gpu_ops["start"]) else empty_ops(),
            graph_nodes=frame(GRAPH_NODE_COLUMNS, nodes),
        )
        return read_warnings(db, trace)


def empty_ops() -> pd.DataFrame:
    return empty_frame(GPU_OP_COLUMNS)


def _strings(db: Database) -> dict[int, str]:
    if not db.has("StringIds", "id", "value"):
        return {}
    return dict(db.rows("SELECT id, value FROM StringIds"))  # type: ignore[arg-type]


def _names(ids: Int64, strings: dict[int, str], otherwise: str = "") -> pd.Categorical:
    """StringIds ids as a categorical; an id without a string becomes ``otherwise``."""
    codes, unique = pd.factorize(ids)
    return _categorical(codes, [strings.get(int(i), otherwise) for i in unique])


def _categorical(codes: npt.NDArray[Any], labels: list[str]) -> pd.Categorical:
    """A categorical from codes into ``labels``, which may repeat."""
    distinct = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    if len(distinct) < len(labels):
        codes = np.array([distinct[label] for label in labels], np.int64)[codes]
    return pd.Categorical.from_codes(codes, categories=pd.Index(list(distinct), dtype=object))


def _optional(db: Database, table: str, column: str, otherwise: int) -> str:
    return f"coalesce({column}, {otherwise})" if db.has(table, column) else str(otherwise)


def _capture_end(db: Database) -> int | None:
    """The capture's duration, which nsys writes as the end of ranges that never closed."""
    if not db.has("ANALYSIS_DETAILS", "duration"):
        return None
    value = db.rows("SELECT max(duration) FROM ANALYSIS_DETAILS")[0][0]
    return int(value) if isinstance(value, int) else None


def _last_timestamp(db: Database) -> int:
    tables = ("NVTX_EVENTS", RUNTIME, KERNEL, MEMCPY, MEMSET, GRAPH)
    ends = [
        db.rows(f"SELECT max(max(start), coalesce(max(end), max(start))) FROM {table}")[0][0]
        for table in tables
        if db.has(table, "start", "end")
    ]
    return max((end for end in ends if isinstance(end, int)), default=0)


def _ranges(db: Database, strings: dict[int, str]) -> tuple[dict[str, Any], Int64]:
    """Columns of ``ranges`` without ``thread``, and the globalTid of each row."""
    table = "NVTX_EVENTS"
    if not db.has(table, "start", "end", "eventType", "globalTid"):
        empty = empty_frame(RANGE_COLUMNS)
        return {name: empty[name].array for name in RANGE_COLUMNS}, np.empty(0, np.int64)
    where = f"eventType IN {_PUSH_POP + _START_END} AND globalTid IS NOT NULL AND start IS NOT NULL"
    start, end, closed, kind, tid, text_id, domain = db.integers(
        table,
        [
            "start",
            "coalesce(end, 0)",
            "end IS NOT NULL",
            "eventType",
            "globalTid",
            _optional(db, table, "textId", -1),
            _optional(db, table, "domainId", 0),
        ],
        where,
    )
    capture_end = _capture_end(db)
    is_open = closed == 0
    if capture_end is not None:
        is_open |= end == capture_end
    if is_open.any():
        last = _last_timestamp(db) if capture_end is None else capture_end
        end = np.where(is_open, np.maximum(last, start), end)
    codes = np.isin(kind, _START_END).astype(np.int8)
    return {
        "start": start,
        "end": end,
        "name": _range_names(db, strings, text_id, where),
        "domain": _domains(db, strings, tid >> 24, domain),
        "style": pd.Categorical.from_codes(codes, categories=list(STYLES)),
        "open": is_open,
    }, tid


def _range_names(db: Database, strings: dict[int, str], ids: Int64, where: str) -> pd.Categorical:
    """coalesce(StringIds[textId], text, ''): a textId without a string falls back to text."""
    if not db.has("NVTX_EVENTS", "text"):
        return _names(ids, strings)
    codes, unique = pd.factorize(ids)
    known = np.array([int(i) in strings for i in unique], bool)
    labels = [strings.get(int(i), "") for i in unique]
    by_text = ~known[codes] if len(unique) else np.empty(0, bool)
    if by_text.any():
        cursor = db.connection.execute(f"SELECT coalesce(text, '') FROM NVTX_EVENTS WHERE {where}")
        texts = np.array([row[0] for row in cursor], object)[by_text]
        text_codes, text_labels = pd.factorize(texts)
        codes = codes.astype(np.int64)
        codes[by_text] = text_codes + len(labels)
        labels = labels + list(text_labels)
    return _categorical(codes, labels)


def _domains(
    db: Database, strings: dict[int, str], process: Int64, domain: Int64
) -> pd.Categorical:
    """Domain names, matched per process: ids repeat across processes and mean other things."""
    names = _domain_names(db, strings)
    keys = pd.MultiIndex.from_arrays([process, domain])
    codes, unique = keys.factorize()
    labels = [names.get((int(p), int(d)), f"domain {d}") if d else "" for p, d in unique.tolist()]
    return _categorical(codes, labels)


def _domain_names(db: Database, strings: dict[int, str]) -> dict[tuple[int, int], str]:
    table = "NVTX_EVENTS"
    if not db.has(table, "domainId"):
        return {}
    text_id = "textId" if db.has(table, "textId") else "NULL"
    text = "text" if db.has(table, "text") else "NULL"
    names: dict[tuple[int, int], str] = {}
    for tid, domain, i, literal in db.rows(
        f"SELECT globalTid, domainId, {text_id}, {text} FROM {table} "
        f"WHERE eventType = {_DOMAIN} AND globalTid IS NOT NULL AND domainId IS NOT NULL"
    ):
        name = strings.get(i) if isinstance(i, int) else None  # type: ignore[call-overload]
        if name is None:
            name = literal if isinstance(literal, str) else None
        if name is not None:
            names[int(tid) >> 24, int(domain)] = name  # type: ignore[call-overload]
    return names


def _launches(db: Database, strings: dict[int, str]) -> tuple[dict[str, Any], Int64]:
    """Columns of ``launches`` without ``thread``, and the globalTid of each row."""
    if not db.has(RUNTIME, "start", "end", "globalTid", "correlationId", "nameId"):
        empty = empty_frame(LAUNCH_COLUMNS)
        return {name: empty[name].array for name in LAUNCH_COLUMNS}, np.empty(0, np.int64)
    start, end, tid, correlation, name = db.integers(
        RUNTIME,
        ["start", "end", "globalTid", "correlationId", "nameId"],
        # A call without thread or correlation can claim nothing.
        "globalTid IS NOT NULL AND correlationId IS NOT NULL AND end IS NOT NULL",
    )
    return {
        "start": start,
        "end": end,
        "correlation": correlation,
        "name": _names(name, strings),
    }, tid


def _gpu_ops(db: Database, strings: dict[int, str]) -> dict[str, Any]:
    """Columns of ``gpu_ops``: kernels, copies, sets and whole-graph launches, in that order."""
    parts: list[dict[str, Any]] = []
    for kind, table in zip(KINDS, (KERNEL, MEMCPY, MEMSET, GRAPH), strict=True):
        if db.has(table, "start", "end", "globalPid"):
            part = _op_table(db, strings, kind, table)
            if len(part["start"]):
                parts.append(part)
    if not parts:
        empty = empty_frame(GPU_OP_COLUMNS)
        return {name: empty[name].to_numpy() for name in GPU_OP_COLUMNS}
    out: dict[str, Any] = {}
    for name, dtype in GPU_OP_COLUMNS.items():
        values = [part[name] for part in parts]
        if dtype == "category":
            out[name] = pd.api.types.union_categoricals(values) if len(values) > 1 else values[0]
        else:
            out[name] = np.concatenate(values).astype(dtype, copy=False)
    return out


def _op_table(db: Database, strings: dict[int, str], kind: str, table: str) -> dict[str, Any]:
    names = {
        "kernel": ["demangledName", "shortName", "mangledName"],
        "memcpy": ["copyKind"],
        "memset": [],
        "graph": ["graphId"],
    }[kind]
    start, end, pid, correlation, device, context, stream, size, node, *labels = db.integers(
        table,
        [
            "start",
            "end",
            "coalesce(globalPid, 0)",
            _optional(db, table, "correlationId", -1),
            _optional(db, table, "deviceId", -1),
            _optional(db, table, "contextId", -1),
            _optional(db, table, "streamId", -1),
            _optional(db, table, "bytes", -1),
            _optional(db, table, "graphNodeId", -1),
            *(_optional(db, table, name, -1) for name in names),
        ],
        "start IS NOT NULL AND end IS NOT NULL",
    )
    part: dict[str, Any] = {
        "kind": pd.Categorical.from_codes(
            np.full(len(start), KINDS.index(kind), np.int8), categories=list(KINDS)
        ),
        "start": start,
        "end": end,
        "process": pid >> 24,
        "correlation": correlation,
        "device": device,
        "context": context,
        "stream": stream,
        "bytes": size,
        "graph_node": node,
    }
    if kind == "kernel":
        demangled, short, mangled = labels
        part["demangled"] = _names(np.where(demangled < 0, short, demangled), strings)
        part["name"] = _names(np.where(short < 0, demangled, short), strings)
        # mangledName is absent before 2022 and may be NULL.
        part["mangled"] = _names(np.where(mangled < 0, demangled, mangled), strings)
    else:
        if kind == "memcpy":
            part["name"] = _copy_names(db, labels[0])
        elif kind == "memset":
            part["name"] = _categorical(np.zeros(len(start), np.int64), ["[CUDA memset]"])
        else:
            codes, unique = pd.factorize(labels[0])
            texts = [f"[CUDA graph {i}]" if i >= 0 else "[CUDA graph]" for i in unique]
            part["name"] = _categorical(codes, texts)
        part["demangled"] = part["mangled"] = part["name"]
    return part


def _copy_names(db: Database, copy_kind: Int64) -> pd.Categorical:
    labels = dict(_COPY_LABELS)
    if db.has("ENUM_CUDA_MEMCPY_OPER", "id", "label"):
        labels.update(db.rows("SELECT id, label FROM ENUM_CUDA_MEMCPY_OPER"))  # type: ignore[arg-type]
    codes, unique = pd.factorize(copy_kind)
    return _categorical(
        codes, [f"[CUDA memcpy {labels.get(int(i)) or f'kind {i}'}]" for i in unique]
    )


def _graph_nodes(db: Database) -> tuple[dict[str, Any], Int64]:
    """Columns of ``graph_nodes`` without ``thread``, and the globalTid of each row.

    Until 2023.4 node rows are in CUDA_GRAPH_EVENTS; from 2024.2 that name holds graphs.
    """
    for table in ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS"):
        if db.has(table, "start", "globalTid", "graphNodeId"):
            time, tid, node, original = db.integers(
                table,
                [
                    "start",
                    "globalTid",
                    "graphNodeId",
                    _optional(db, table, "originalGraphNodeId", -1),
                ],
                "graphNodeId IS NOT NULL AND globalTid IS NOT NULL",
            )
            return {
                "process": tid >> 24,
                "node": node,
                "original": original,
                "time": time,
            }, tid
    empty = empty_frame(GRAPH_NODE_COLUMNS)
    return {name: empty[name].to_numpy() for name in GRAPH_NODE_COLUMNS}, np.empty(0, np.int64)


def _threads(
    db: Database,
    strings: dict[int, str],
    range_tids: Int64,
    launch_tids: Int64,
    node_tids: Int64,
    op_processes: Int64,
) -> pd.DataFrame:
    """``threads`` in the order of their globalTid, kept for the caller in column ``global``."""
    seen = [pd.unique(tids) for tids in (range_tids, launch_tids, node_tids)]
    tids = np.unique(np.concatenate(seen))
    processes = {*(tids >> 24).tolist(), *pd.unique(op_processes).tolist()}
    names: dict[int, str] = {}
    if db.has("ThreadNames", "nameId", "globalTid"):
        order = "priority" if db.has("ThreadNames", "priority") else "rowid"
        for tid, name in db.rows(
            f"SELECT globalTid, nameId FROM ThreadNames "
            f"WHERE globalTid IS NOT NULL ORDER BY {order}"
        ):
            # ThreadNames lists every thread of the host.
            if int(tid) >> 24 in processes:  # type: ignore[call-overload]
                names[int(tid)] = strings.get(name, "")  # type: ignore[call-overload]
    tids = np.unique(np.concatenate([tids, np.fromiter(names, np.int64, len(names))]))
    labels = [names.get(tid, "") for tid in tids.tolist()]
    out = frame(
        THREAD_COLUMNS,
        {
            "process": tids >> 24,
            "pid": (tids >> 24) & 0xFFFFFF,
            "tid": tids & 0xFFFFFF,
            "name": np.array(labels, object),
            "autograd": np.array([label.startswith("pt_autograd_") for label in labels], bool),
        },
    )
    out["global"] = tids
    return out
