# SPDX-License-Identifier: MIT
"""The columns of an nsys export as the frames of a Trace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.readers import names, nsys_schema
from harness.readers.columns import Database, Int64, Query, in_parallel
from harness.trace import (
    GPU_OP_COLUMNS,
    GRAPH_NODE_COLUMNS,
    KINDS,
    LAUNCH_COLUMNS,
    RANGE_COLUMNS,
    STYLES,
    THREAD_COLUMNS,
    empty_frame,
    frame,
)

PID_BITS = 24  # globalTid: hardware 8, vm 8, pid 24, tid 24
_PID_MASK = (1 << PID_BITS) - 1
#: Columns of ids with few different values.
_IDS = {
    "ranges": ("tid", "text_id", "domain"),
    "launches": ("tid", "name"),
    "nodes": ("tid",),
    "graphs": ("tid",),
    "ops": ("name", "demangled", "mangled"),
}

_EVENTS = ("ranges", "launches", "nodes", "graphs")

#: Table key (one of _EVENTS, or a kind of GPU op) -> its queries, in order.
Queries = Mapping[str, list[Query]]


def all_queries(db: Database, without: Set[str] = frozenset()) -> dict[str, list[Query]]:
    """What to read for a whole Trace; tables that the export lacks are left out. Columns of GPU
    ops in ``without`` are not read: they hold -1, names are empty."""
    found = {
        "ranges": nsys_schema.ranges_query(db),
        "launches": nsys_schema.launches_query(db),
        "nodes": nsys_schema.nodes_query(db),
        "graphs": nsys_schema.graphs_query(db),
        **{kind: nsys_schema.ops_query(db, kind, without) for kind in KINDS},
    }
    return {key: [query] for key, query in found.items() if query is not None}


@dataclass(frozen=True)
class Whole:
    """What all parts of one report share."""

    threads: pd.DataFrame
    tids: Int64  # the globalTid of each thread
    end: int  # of ranges that never closed


class Frames:
    """Reads every table once, then builds the frames from the columns.

    ``threads``, ``ranges``, ``launches``, ``gpu_ops``, ``graph_nodes`` and ``graphs`` are as in a
    Trace.
    ``bad_times`` counts rows that end before they start, by frame; they become zero-length.
    ``dropped`` counts rows that lack a needed value, by table.
    """

    def __init__(self, db: Database, queries: Queries, whole: Whole | None = None) -> None:
        self.db = db
        kinds = [kind for kind in KINDS for _ in queries.get(kind, [])]
        stacks = {key: queries[key] for key in _EVENTS if queries.get(key)}
        if kinds:
            stacks["ops"] = [query for kind in KINDS for query in queries.get(kind, [])]
        self._columns = dict(zip(stacks, db.read(*stacks.values()), strict=True))
        self.dropped: Counter[str] = Counter()
        for key, read in self._columns.items():
            for query, number in zip(stacks[key], read.dropped, strict=True):
                self.dropped[query.table] += number
        self.bad_times = self._mend_times()
        self._coded = self._code_ids()
        tids = {key: self._codes(key, "tid") for key in _EVENTS}
        seen = np.unique(np.concatenate([unique for _, unique in tids.values()]))
        self._all_tids = seen if whole is None else whole.tids
        self.gpu_ops = self._gpu_ops(kinds)
        if whole is None:
            processes = np.unique(self.gpu_ops["process"].to_numpy())
            whole = whole_of(db, seen, processes, self._last_timestamp())
        self.threads = whole.threads
        rows = {
            key: np.searchsorted(whole.tids, unique).astype(np.int32)[codes]
            for key, (codes, unique) in tids.items()
        }
        process = whole.threads["process"].to_numpy()
        self.ranges = self._ranges(rows["ranges"], process, whole.end)
        self.launches = self._launches(rows["launches"])
        self.graph_nodes = self._made("nodes", rows["nodes"], process)
        self.graphs = self._made("graphs", rows["graphs"], process)

    def _take(self, key: str, column: str) -> Any:
        """Hand over a column and forget it, so that it can be freed early."""
        return self._columns[key].integers.pop(column)

    def _code_ids(self) -> dict[tuple[str, str], tuple[Any, Int64]]:
        """Codes and ids of every column of ids, all cores at work; the columns are let go."""
        ids = {
            (key, column): self._take(key, column)
            for key, columns in _IDS.items()
            if key in self._columns
            for column in columns
        }
        return dict(zip(ids, in_parallel(names.codes_of, list(ids.values())), strict=True))

    def _codes(self, key: str, column: str) -> tuple[Any, Int64]:
        none = np.empty(0, np.int64)
        return self._coded.pop((key, column), (none, none))

    def _mend_times(self) -> dict[str, int]:
        """Make rows that end before they start zero-length; how many there were."""
        found = {}
        for key, columns in self._columns.items():
            if "end" not in columns.integers:
                continue
            start, end = columns.integers["start"], columns.integers["end"]
            if backwards := int(np.count_nonzero(end < start)):
                found[key] = backwards
                np.maximum(start, end, out=end)
        return found

    def _ranges(self, thread: Any, process_of: Int64, whole_end: int) -> pd.DataFrame:
        if "ranges" not in self._columns:
            return empty_frame(RANGE_COLUMNS)
        start, end = self._take("ranges", "start"), self._take("ranges", "end")
        is_open = nsys_schema.never_closed(start, end, nsys_schema.capture_end(self.db))
        endless = end == nsys_schema.OPEN
        if endless.any():
            end[endless] = np.maximum(start[endless], whole_end)
        row = self._columns["ranges"].integers.pop("row", None)
        style = np.isin(self._take("ranges", "type"), nsys_schema.START_END).astype(np.int8)
        out = frame(
            RANGE_COLUMNS,
            {
                "thread": thread,
                "start": start,
                "end": end,
                "name": self._range_names(),
                "domain": self._domains(process_of[thread]),
                "style": names.categorical(style, STYLES),
                "open": is_open,
            },
        )
        return out if row is None else out.set_index(pd.Index(row, name="row"))

    def _last_timestamp(self) -> int:
        """Latest time among the rows read."""
        last = [0]
        for columns in self._columns.values():
            end = columns.integers.get("end", np.empty(0, np.int64))
            last.append(int(end.max(initial=0, where=end != nsys_schema.OPEN)))
        return max(last)

    def _range_names(self) -> pd.Categorical:
        """coalesce(StringIds[textId], text, ''): a textId without a string falls back to text."""
        columns = self._columns["ranges"]
        codes, ids = self._codes("ranges", "text_id")
        known = nsys_schema.strings(self.db, ids.tolist())
        if not columns.labels:
            return names.categorical(codes, [known.get(i, "") for i in ids.tolist()])
        if not known:
            return names.categorical(columns.codes, columns.labels)
        by_id = np.array([i in known for i in ids.tolist()], bool)[codes]
        labels = columns.labels + [known.get(i, "") for i in ids.tolist()]
        mixed = np.where(by_id, codes.astype(np.int32) + len(columns.labels), columns.codes)
        codes, used = names.codes_of(mixed)
        return names.categorical(codes, [labels[i] for i in used.tolist()])

    def _domains(self, process: Int64) -> pd.Categorical:
        codes, ids = self._codes("ranges", "domain")
        if not ids.any():
            return names.categorical(codes, [""] * len(ids))
        known = nsys_schema.domain_names(self.db)
        process_codes, processes = names.codes_of(process)
        codes, used = names.codes_of(process_codes.astype(np.int64) * len(ids) + codes)
        pairs = [(int(processes[i // len(ids)]), int(ids[i % len(ids)])) for i in used.tolist()]
        # NCCL and other libraries may register a domain before the capture starts: no name row.
        labels = [known.get((p, d), f"domain {d}") if d else "" for p, d in pairs]
        return names.categorical(codes, labels)

    def _launches(self, thread: Any) -> pd.DataFrame:
        if "launches" not in self._columns:
            return empty_frame(LAUNCH_COLUMNS)
        columns = {name: self._take("launches", name) for name in ("start", "end", "correlation")}
        codes, ids = self._codes("launches", "name")
        known = nsys_schema.strings(self.db, ids.tolist())
        name = names.categorical(codes, [known.get(i, "") for i in ids.tolist()])
        return frame(LAUNCH_COLUMNS, {"thread": thread, "name": name, **columns})

    def _gpu_ops(self, kinds: list[str]) -> pd.DataFrame:
        """Kernels, copies, sets and whole-graph launches, in that order."""
        if "ops" not in self._columns:
            return empty_frame(GPU_OP_COLUMNS)
        columns = self._columns["ops"]
        process = columns.integers["process"] >> PID_BITS
        columns.integers["process"] = process
        processes = np.unique(self._all_tids >> PID_BITS)
        if len(processes) == 1:
            # Without a process of its own an op can only come from the one there is.
            process[process < 0] = processes[0]
        kind = np.repeat([KINDS.index(kind) for kind in kinds], columns.rows)
        out: dict[str, Any] = {"kind": names.categorical(kind, KINDS), **columns.integers}
        for name in _IDS["ops"]:
            codes, ids = self._codes("ops", name)
            labels = nsys_schema.op_labels(self.db, ids.tolist())
            if name == "name":
                labels = [nsys_schema.short_label(label) for label in labels]
            out[name] = names.categorical(codes, labels)
        return frame(GPU_OP_COLUMNS, out)

    def _made(self, key: str, thread: Any, process_of: Int64) -> pd.DataFrame:
        """Graph nodes, or whole graphs, as they were made."""
        if key not in self._columns:
            return empty_frame(GRAPH_NODE_COLUMNS)
        columns = {name: self._take(key, name) for name in ("time", "node", "original")}
        return frame(
            GRAPH_NODE_COLUMNS, {"thread": thread, "process": process_of[thread], **columns}
        )


def whole_of(db: Database, seen: Int64, processes: Int64, last: int) -> Whole:
    """The threads ``seen`` and the named ones of their processes and of ``processes``, ordered by
    globalTid. ``last`` is the latest time in the report, for exports that do not say when the
    capture ended."""
    known = nsys_schema.thread_names(db, {*(seen >> PID_BITS).tolist(), *processes.tolist()})
    tids = np.union1d(seen, np.fromiter(known, np.int64, len(known)))
    labels = [known.get(tid, "") for tid in tids.tolist()]
    process = tids >> PID_BITS
    threads = frame(
        THREAD_COLUMNS,
        {
            "process": process,
            "pid": process & _PID_MASK,
            "tid": tids & _PID_MASK,
            "name": np.array(labels, object),
            "autograd": np.array([name.startswith("pt_autograd_") for name in labels], bool),
        },
    )
    capture_end = nsys_schema.capture_end(db)
    return Whole(threads, tids, last if capture_end is None else capture_end)
