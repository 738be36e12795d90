# SPDX-License-Identifier: MIT
"""Nsight Systems' SQLite export as a Trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.errors import UnreadableReport
from harness.readers import names, nsys_schema
from harness.readers.columns import Columns, Database, Int64, in_parallel, open_database
from harness.readers.nsys_facts import read_source
from harness.readers.nsys_warnings import Oddities, read_warnings
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

_PID_BITS = 24  # globalTid: hardware 8, vm 8, pid 24, tid 24
_PID_MASK = (1 << _PID_BITS) - 1
#: Columns of ids with few different values.
_IDS = {
    "ranges": ("tid", "text_id", "domain"),
    "launches": ("tid", "name"),
    "nodes": ("tid",),
    "ops": ("name", "demangled", "mangled"),
}


def read(path: str | Path, *, engine: str = "auto") -> Trace:
    """Read an nsys SQLite export. ``engine``: see ``columns.Database``.

    Raises:
        UnreadableReport: the file is missing, damaged, or not an nsys export.
    """
    path = Path(path)
    with open_database(path, engine) as db:
        if not nsys_schema.is_export(db):
            raise UnreadableReport(
                f"{path}: a SQLite file, but not an nsys export",
                hint="Make one with nsys export --type sqlite REPORT.nsys-rep.",
            )
        return _Reader(db).trace()


class _Reader:
    """Reads every table once, then builds the frames from the columns."""

    def __init__(self, db: Database) -> None:
        self.db = db
        ops = [(kind, nsys_schema.ops_query(db, kind)) for kind in KINDS]
        self.kinds = [kind for kind, query in ops if query is not None]
        stacks = {
            "ranges": [nsys_schema.ranges_query(db)],
            "launches": [nsys_schema.launches_query(db)],
            "nodes": [nsys_schema.nodes_query(db)],
            "ops": [query for _, query in ops],
        }
        wanted = {
            key: stack
            for key, queries in stacks.items()
            if (stack := [query for query in queries if query is not None])
        }
        self.columns: dict[str, Columns] = dict(zip(wanted, db.read(*wanted.values()), strict=True))
        self.bad_times = self._mend_times()
        self.coded = self._coded()

    def trace(self) -> Trace:
        tids = {key: self._codes(key, "tid") for key in ("ranges", "launches", "nodes")}
        seen = np.unique(np.concatenate([unique for _, unique in tids.values()]))
        gpu_ops = self._gpu_ops(seen)
        threads, global_tids = self._threads(seen, gpu_ops)
        rows = {
            key: np.searchsorted(global_tids, unique).astype(np.int32)[codes]
            for key, (codes, unique) in tids.items()
        }
        process = threads["process"].to_numpy()
        trace = Trace(
            source=read_source(self.db),
            threads=threads,
            ranges=self._ranges(rows["ranges"], process),
            launches=self._launches(rows["launches"]),
            gpu_ops=gpu_ops,
            graph_nodes=self._nodes(rows["nodes"], process),
        )
        oddities = Oddities(bad_times=self.bad_times)
        return replace(trace, warnings=read_warnings(self.db, trace, oddities))

    def _take(self, key: str, column: str) -> Any:
        """Hand over a column and forget it, so that it can be freed early."""
        return self.columns[key].integers.pop(column)

    def _coded(self) -> dict[tuple[str, str], tuple[Any, Int64]]:
        """Codes and ids of every column of ids, all cores at work; the columns are let go."""
        ids = {
            (key, column): self._take(key, column)
            for key, columns in _IDS.items()
            if key in self.columns
            for column in columns
        }
        return dict(zip(ids, in_parallel(names.codes_of, list(ids.values())), strict=True))

    def _codes(self, key: str, column: str) -> tuple[Any, Int64]:
        none = np.empty(0, np.int64)
        return self.coded.pop((key, column), (none, none))

    def _mend_times(self) -> dict[str, int]:
        """Make rows that end before they start zero-length; how many there were."""
        found = {}
        for key, columns in self.columns.items():
            if "end" not in columns.integers:
                continue
            start, end = columns.integers["start"], columns.integers["end"]
            if backwards := int(np.count_nonzero(end < start)):
                found[key] = backwards
                np.maximum(start, end, out=end)
        return found

    def _ranges(self, thread: Any, process_of: Int64) -> pd.DataFrame:
        if "ranges" not in self.columns:
            return empty_frame(RANGE_COLUMNS)
        start, end = self._take("ranges", "start"), self._take("ranges", "end")
        is_open = end == nsys_schema.OPEN
        capture_end = nsys_schema.capture_end(self.db)
        if capture_end is not None:
            # nsys writes the capture's end, not NULL: seen in 2022.4, 2023.4, 2025.3.
            is_open |= end == capture_end
        if is_open.any():
            last = self._last_timestamp(end[~is_open]) if capture_end is None else capture_end
            end[is_open] = np.maximum(start[is_open], last)
        style = np.isin(self._take("ranges", "type"), nsys_schema.START_END).astype(np.int8)
        return frame(
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

    def _last_timestamp(self, range_ends: Int64) -> int:
        """Latest time in the report, for exports that do not say when the capture ended."""
        ends = [columns.integers.get("end") for columns in self.columns.values()]
        last = [int(end.max()) for end in [range_ends, *ends] if end is not None and len(end)]
        return max(last, default=0)

    def _range_names(self) -> pd.Categorical:
        """coalesce(StringIds[textId], text, ''): a textId without a string falls back to text."""
        columns = self.columns["ranges"]
        codes, ids = self._codes("ranges", "text_id")
        known = nsys_schema.strings(self.db, ids.tolist())
        if not columns.labels:
            return names.categorical(codes, [known.get(i, "") for i in ids.tolist()])
        if not known:
            return names.categorical(columns.codes, columns.labels)
        by_id = np.array([i in known for i in ids.tolist()], bool)[codes]
        labels = columns.labels + [known.get(i, "") for i in ids.tolist()]
        return names.categorical(
            np.where(by_id, codes.astype(np.int32) + len(columns.labels), columns.codes), labels
        )

    def _domains(self, process: Int64) -> pd.Categorical:
        codes, ids = self._codes("ranges", "domain")
        if not ids.any():
            return names.categorical(codes, [""] * len(ids))
        known = nsys_schema.domain_names(self.db)
        process_codes, processes = names.codes_of(process)
        # NCCL and other libraries may register a domain before the capture starts: no name row.
        labels = [
            known.get((p, d), f"domain {d}") if d else ""
            for p in processes.tolist()
            for d in ids.tolist()
        ]
        return names.categorical(process_codes.astype(np.int64) * len(ids) + codes, labels)

    def _launches(self, thread: Any) -> pd.DataFrame:
        if "launches" not in self.columns:
            return empty_frame(LAUNCH_COLUMNS)
        columns = {name: self._take("launches", name) for name in ("start", "end", "correlation")}
        codes, ids = self._codes("launches", "name")
        known = nsys_schema.strings(self.db, ids.tolist())
        name = names.categorical(codes, [known.get(i, "") for i in ids.tolist()])
        return frame(LAUNCH_COLUMNS, {"thread": thread, "name": name, **columns})

    def _gpu_ops(self, tids: Int64) -> pd.DataFrame:
        """Kernels, copies, sets and whole-graph launches, in that order."""
        if "ops" not in self.columns:
            return empty_frame(GPU_OP_COLUMNS)
        columns = self.columns["ops"]
        process = columns.integers["process"]
        process >>= _PID_BITS
        processes = np.unique(tids >> _PID_BITS)
        if len(processes) == 1:
            # Without a process of its own an op can only come from the one there is.
            process[process < 0] = processes[0]
        kind = np.repeat([KINDS.index(kind) for kind in self.kinds], columns.rows)
        out: dict[str, Any] = {"kind": names.categorical(kind, KINDS), **columns.integers}
        for name in _IDS["ops"]:
            codes, ids = self._codes("ops", name)
            out[name] = names.categorical(codes, nsys_schema.op_labels(self.db, ids.tolist()))
        return frame(GPU_OP_COLUMNS, out)

    def _nodes(self, thread: Any, process_of: Int64) -> pd.DataFrame:
        if "nodes" not in self.columns:
            return empty_frame(GRAPH_NODE_COLUMNS)
        columns = {name: self._take("nodes", name) for name in ("time", "node", "original")}
        return frame(
            GRAPH_NODE_COLUMNS, {"thread": thread, "process": process_of[thread], **columns}
        )

    def _threads(self, seen: Int64, gpu_ops: pd.DataFrame) -> tuple[pd.DataFrame, Int64]:
        """``threads`` in the order of their globalTid, and those."""
        processes = {*(seen >> _PID_BITS).tolist(), *pd.unique(gpu_ops["process"]).tolist()}
        known = nsys_schema.thread_names(self.db, processes)
        tids = np.union1d(seen, np.fromiter(known, np.int64, len(known)))
        labels = [known.get(tid, "") for tid in tids.tolist()]
        process = tids >> _PID_BITS
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
        return threads, tids
