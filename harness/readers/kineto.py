# SPDX-License-Identifier: MIT
"""Read a torch.profiler (Kineto) Chrome trace.

Ranges are the ``user_annotation`` rows of CPU threads, under the names they were given
(``ProfilerStep#3`` too); their mirrors on the GPU and the profiler's own wrapper rows are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import UnreadableReport
from harness.names import short_kernel_name
from harness.readers import kineto_links as link
from harness.readers.kineto_columns import MISSING, TABLES, Columns, Int64, identity, text
from harness.readers.kineto_events import EventFile
from harness.readers.kineto_facts import Dropped, read_source, read_warnings
from harness.readers.kineto_pairs import Pairs
from harness.trace import (
    FORWARD_LINK_COLUMNS,
    GPU_OP_COLUMNS,
    KINDS,
    LAUNCH_COLUMNS,
    RANGE_COLUMNS,
    STYLES,
    THREAD_COLUMNS,
    Trace,
    frame,
)
from harness.trace_names import decoded

_THREAD_NAME = re.compile(r"^thread \S+ \((.*)\)\s*$")
_COPY = re.compile(r"^(?:Memcpy|CopyDevice\w*|Copy)?\s*(\w)to(\w)\b", re.IGNORECASE)
_PLACES = {"H": "Host", "D": "Device", "A": "Array", "P": "Peer"}


def read(path: str | Path) -> Trace:
    """Read a ``.json`` or ``.json.gz`` that torch.profiler wrote, of any version since 2020.

    Raises:
        UnreadableReport: missing, empty, truncated, not JSON, or without one trace event.
    """
    path = Path(path)
    file, columns = EventFile(path), Columns()
    pairs = Pairs()
    for events in file.chunks():
        columns.take(pairs.sift(events))
        del events
    columns.take(pairs.closed())
    if not columns.usable and "schemaVersion" not in file.header:
        what = "not one usable event" if columns.events else "no events"
        raise UnreadableReport(
            f"{path}: {what} in this trace: nothing was recorded",
            hint="Give what torch.profiler's export_chrome_trace wrote, or a run folder.",
        )
    return _trace(file, columns)


def _trace(file: EventFile, columns: Columns) -> Trace:
    tables = {name: columns.table(name) for name in TABLES}
    unlinked = int((tables["launches"]["correlation"] <= 0).sum())
    doubled = _clean(tables)
    threads, thread_of = _threads(columns, tables)
    launches = _launch_frame(tables["launches"], threads, thread_of)
    ops = _op_frame(columns, tables["gpu"], launches, threads)
    links = _link_frame(tables, threads, thread_of, columns.last)
    engine = thread_of[tables["nodes"]["row"]]
    threads["autograd"] = link.autograd_threads(threads, links, engine)
    trace = Trace(
        source=read_source(file, columns),
        threads=frame(THREAD_COLUMNS, dict(threads)),
        ranges=_range_frame(columns, tables["ranges"], thread_of),
        launches=frame(
            LAUNCH_COLUMNS,
            {**launches, "name": _category(columns, launches["name"].to_numpy(np.int64))},
        ),
        gpu_ops=ops,
        forward_links=frame(FORWARD_LINK_COLUMNS, dict(links)),
    )
    return read_warnings(trace, file, columns, Dropped(doubled, unlinked))


def _clean(tables: dict[str, dict[str, Int64]]) -> int:
    """Drop, in place, what must not count: returns how many rows were there twice.

    Traces of some versions mirror annotations on the GPU's rows under the CPU's category: a row
    (pid, tid) that has GPU ops and no launches is a stream.
    """
    gpu, launches, ranges = tables["gpu"], tables["launches"], tables["ranges"]
    streams = np.setdiff1d(gpu["row"], launches["row"])
    tables["ranges"] = _only(ranges, ~np.isin(ranges["row"], streams))
    tables["launches"] = _only(launches, launches["correlation"] > 0)
    doubled = 0
    for name in ("gpu", "ranges"):
        repeated = pd.DataFrame(tables[name], copy=False).duplicated().to_numpy()
        doubled += int(repeated.sum())
        if repeated.any():
            tables[name] = _only(tables[name], ~repeated)
    return doubled


def _only(table: dict[str, Int64], keep: Any) -> dict[str, Int64]:
    return table if keep.all() else {name: values[keep] for name, values in table.items()}


def _threads(columns: Columns, tables: dict[str, dict[str, Int64]]) -> tuple[pd.DataFrame, Int64]:
    """The frame of CPU threads, and the thread of each row code (-1: not a CPU thread)."""
    used = [tables[n]["row"] for n in ("ranges", "launches", "links", "operators", "nodes")]
    codes = np.unique(np.concatenate(used))
    keys = list(columns.rows)
    rows = [(identity(keys[code][0]), identity(keys[code][1])) for code in codes]
    places = {row: place for place, row in enumerate(sorted(set(rows)))}
    names = [""] * len(places)
    thread_of = np.full(len(keys), -1, np.int64)
    thread_of[codes] = [places[row] for row in rows]
    # Metadata may spell the same thread differently: "7" and 7.
    for code, name in columns.row_names.items():
        place = places.get((identity(keys[code][0]), identity(keys[code][1])), -1)
        if place >= 0 and "pt_autograd" not in names[place]:
            named = _THREAD_NAME.match(name)
            names[place] = text(named[1] if named else name)
    process = np.array([pid for pid, _ in places], np.int64)
    tid = np.array([tid for _, tid in places], np.int64)
    threads = pd.DataFrame(
        {"process": process, "pid": process, "tid": tid, "name": np.array(names, object)}
    )
    return threads, thread_of


def _launch_frame(table: dict[str, Int64], threads: pd.DataFrame, thread_of: Int64) -> pd.DataFrame:
    thread = thread_of[table["row"]]
    process = threads["process"].to_numpy()[thread]
    launches = pd.DataFrame(
        {
            "process": process,
            "thread": thread,
            "start": table["start"],
            "end": table["start"] + _lengths(table),
            "correlation": table["correlation"],
            "external": table["external"],
            "name": table["name"],
        }
    )
    return link.first_launches(launches)


def _op_frame(
    columns: Columns, table: dict[str, Int64], launches: pd.DataFrame, threads: pd.DataFrame
) -> pd.DataFrame:
    keys = list(columns.rows)
    # Without args a GPU row's pid is the device and its tid the stream.
    row_pid = np.array([identity(pid) for pid, _ in keys], np.int64)[table["row"]]
    row_tid = np.array([identity(tid) for _, tid in keys], np.int64)[table["row"]]
    device = np.where(table["device"] == -1, row_pid, table["device"])
    stream = np.where(table["stream"] == -1, row_tid, table["stream"])
    groups = pd.DataFrame({"pid": row_pid, "device": device, "context": table["context"]})
    fallback = threads["process"].unique()
    process = link.owners(
        pd.DataFrame(
            {
                "group": groups.groupby(["pid", "device", "context"]).ngroup(),
                "start": table["start"],
                "correlation": table["correlation"],
                "external": table["external"],
            }
        ),
        launches,
        int(fallback[0]) if len(fallback) == 1 else -1,
    )
    recorded = _category(columns, table["name"])
    kind = _coded(table["kind"].astype(np.int8), KINDS)
    return frame(
        GPU_OP_COLUMNS,
        {
            "kind": kind,
            "start": table["start"],
            "end": table["start"] + _lengths(table),
            "process": process,
            "correlation": np.where(table["correlation"] > 0, table["correlation"], -1),
            "device": device,
            "context": table["context"],
            "stream": stream,
            "name": _op_names(recorded, table["kind"]),
            "demangled": recorded,
            "mangled": recorded,
            "bytes": np.where(table["kind"] == 0, -1, table["bytes"]),
            "graph_node": table["graph_node"],
        },
    )


def _range_frame(columns: Columns, table: dict[str, Int64], thread_of: Int64) -> pd.DataFrame:
    is_open = (table["length"] == MISSING) | (table["finished"] == 0)
    end = np.where(is_open, columns.last, table["start"] + _lengths(table))
    count = len(end)
    return frame(
        RANGE_COLUMNS,
        {
            "thread": thread_of[table["row"]],
            "start": table["start"],
            "end": end,
            "name": _category(columns, table["name"]),
            "domain": _coded(np.zeros(count, np.int8), [""]),
            "style": _coded(np.zeros(count, np.int8), STYLES),
            "open": is_open,
        },
    )


def _link_frame(
    tables: dict[str, dict[str, Int64]], threads: pd.DataFrame, thread_of: Int64, last: int
) -> pd.DataFrame:
    links = tables["links"]
    thread = thread_of[links["row"]]
    process = threads["process"].to_numpy()[thread]
    return link.forward_links(
        pd.DataFrame({**links, "thread": thread, "process": process}),
        _intervals(tables["operators"], thread_of),
        _intervals(tables["nodes"], thread_of),
        last,
    )


def _intervals(table: dict[str, Int64], thread_of: Int64) -> pd.DataFrame:
    start = table["start"]
    return pd.DataFrame(
        {"thread": thread_of[table["row"]], "start": start, "end": start + _lengths(table)}
    )


def _lengths(table: dict[str, Int64]) -> Int64:
    # A negative length is a clock that stepped back: nothing ran for less than no time.
    return np.maximum(table["length"], 0)


def _category(columns: Columns, codes: Int64) -> pd.Categorical:
    """Name codes as a categorical of the names in use."""
    used, compact = np.unique(codes, return_inverse=True)
    keys = list(columns.names)
    return _texts(compact, [decoded(text(keys[code])) for code in used])


def _texts(codes: Int64, texts: list[str]) -> pd.Categorical:
    """``texts[codes]`` as a categorical; texts may repeat."""
    merged, unique = pd.factorize(np.array(texts, object))
    place = merged.astype(np.int32)
    return _coded(place[codes] if len(texts) else [], unique)


def _coded(codes: Any, categories: Iterable[Any]) -> pd.Categorical:
    made: pd.Categorical = pd.Categorical.from_codes(codes, categories=pd.Index(list(categories)))
    return made


def _op_names(recorded: pd.Categorical, kind: Int64) -> pd.Categorical:
    """Short names of kernels; copies and sets by the words of the nsys reader."""
    names = [str(name) for name in recorded.categories]
    codes = recorded.codes.astype(np.int64)
    texts = [*map(short_kernel_name, names), *map(_copy_name, names), "[CUDA memset]"]
    place = np.select([kind == 0, kind == 1], [codes, codes + len(names)], 2 * len(names))
    return _texts(place, texts)


def _copy_name(recorded: str) -> str:
    match = _COPY.match(recorded)
    if not match or not {match[1].upper(), match[2].upper()} <= _PLACES.keys():
        return "[CUDA memcpy]"
    return f"[CUDA memcpy {_PLACES[match[1].upper()]}-to-{_PLACES[match[2].upper()]}]"
