# SPDX-License-Identifier: MIT
"""Nsight Systems' SQLite export as a Trace, at once or in parts."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import UnreadableReport
from harness.readers import nsys_schema
from harness.readers.columns import Database, open_database
from harness.readers.nsys_chunks import Plan, Window
from harness.readers.nsys_facts import read_source
from harness.readers.nsys_frames import Frames, Queries, all_queries
from harness.readers.nsys_tally import RangeTally, Tally
from harness.readers.nsys_warnings import read_warnings
from harness.readers.plausible import check_extremes, check_lasted, lasted
from harness.trace import Trace, Warning_


def read(path: str | Path, *, engine: str = "auto", without: Set[str] = frozenset()) -> Trace:
    """Read an nsys SQLite export. ``engine``: see ``columns.Database``; ``without`` are columns
    of GPU ops that nobody will ask for: they hold -1, names are empty.

    Raises:
        UnreadableReport: the file is missing, damaged, or not an nsys export.
    """
    with _opened(Path(path), engine) as db:
        frames = Frames(db, all_queries(db, without))
        trace = _trace(db, frames)
        ranges = RangeTally.of(trace.ranges)
        tally = replace(
            Tally.of(trace), ranges=ranges, bad_times=frames.bad_times, dropped=frames.dropped
        )
        return replace(trace, warnings=read_warnings(db, trace.source, tally))


@dataclass(frozen=True)
class Part:
    """A part of a recording; the ops of all later parts begin at ``later`` (ns) or after.

    ``shared`` marks the ranges that may hold launches of other parts too.
    """

    trace: Trace
    shared: npt.NDArray[np.bool_]
    later: int


@dataclass(frozen=True)
class Stretch:
    """The ranges that start in [low, high) ns, and those that were open then; nothing else."""

    trace: Trace
    low: int
    high: int


def iter_chunks(
    path: str | Path, rows: int = 2_000_000, *, engine: str = "auto"
) -> Iterator[Trace]:
    """The same recording in parts of about ``rows`` launches and GPU ops, for files larger than
    memory.

    Every GPU op and every launch is in exactly one part, an op in that of its launch; threads are
    numbered alike in all parts. A range is in every part in which a launch of its process ran while
    it was open, so that each op finds all its ranges; the index of ``ranges`` (``row``, the row of
    NVTX_EVENTS) tells which are the same. A range without launches may be in no part. Graphs,
    their nodes, and the ranges open while they were made are in every part. Parts have no warnings.

    Raises:
        UnreadableReport: as ``read``.
    """
    with in_parts(path, rows, engine=engine) as parts:
        for part in parts.parts():
            yield part.trace


class Parts:
    """A recording to be read in parts. ``source`` is what the export says about itself."""

    def __init__(self, db: Database, rows: int, without: Set[str] = frozenset()) -> None:
        self._db, self._rows = db, rows
        self._plan = Plan(db, rows, without)
        check_extremes(self._plan.extremes, db.path)
        self._tally = Tally()
        self.source = read_source(db)

    def parts(self) -> Iterator[Part]:
        """See ``iter_chunks``."""
        slices = list(self._plan.parts())
        windows = [window for slice_ in slices for window in slice_.windows]
        ns = 0.0
        for slice_ in slices:
            trace = self._trace(slice_.queries)
            check_lasted(self._db.path, ns := ns + lasted(trace.gpu_ops), self._plan.ranges_ns)
            self._tally += Tally.of(trace, self._plan.first_call)
            yield Part(trace, _shared(trace, windows), slice_.later)

    def stretches(self) -> Iterator[Stretch]:
        """All ranges, each in the stretch in which it starts and in those where it is open."""
        for queries, low, high in self._plan.stretches(self._rows):
            yield Stretch(self._trace({"ranges": queries} if queries else {}), low, high)

    def warnings(self) -> tuple[Warning_, ...]:
        """Those of ``read``, once all parts were read."""
        never = RangeTally()
        if self._plan.open_ranges:
            never = RangeTally.of(self._trace({"ranges": self._plan.never_closed()}).ranges)
        tally = replace(
            self._tally,
            ranges=replace(never, ranges=self._plan.ranges),
            bad_times=self._plan.bad_times,
            dropped=self._plan.dropped,
        )
        return read_warnings(self._db, self.source, tally)

    def _trace(self, queries: Queries) -> Trace:
        numbered = [
            replace(query, integers={**query.integers, "row": "rowid"})
            for query in queries.get("ranges", [])
        ]
        frames = Frames(self._db, {**queries, "ranges": numbered}, self._plan.whole)
        return _trace(self._db, frames)


def _shared(trace: Trace, windows: list[Window]) -> npt.NDArray[np.bool_]:
    """Ranges that are open in more than one part's window of their process."""
    start, end = (trace.ranges[column].to_numpy() for column in ("start", "end"))
    process = trace.threads["process"].to_numpy()[trace.ranges["thread"].to_numpy()]
    out = np.zeros(len(start), dtype=bool)
    for one in {window.process for window in windows}:
        mine = process == one
        first = np.sort([window.first for window in windows if window.process == one])
        last = np.sort([window.last for window in windows if window.process == one])
        met = np.searchsorted(first, end[mine], side="right")
        met -= np.searchsorted(last, start[mine], side="left")
        out[mine] = met > 1
    return out


@contextmanager
def in_parts(
    path: str | Path, rows: int, *, engine: str = "auto", without: Set[str] = frozenset()
) -> Iterator[Parts]:
    """Open an export to be read in parts of about ``rows`` launches and GPU ops; ``without`` as
    in ``read``.

    Raises:
        UnreadableReport: as ``read``.
    """
    with _opened(Path(path), engine) as db:
        yield Parts(db, rows, without)


@contextmanager
def _opened(path: Path, engine: str) -> Iterator[Database]:
    with open_database(path, engine) as db:
        if not nsys_schema.is_export(db):
            raise UnreadableReport(
                f"{path}: a SQLite file, but not an nsys export",
                hint="Make one with nsys export --type sqlite REPORT.nsys-rep.",
            )
        if what := nsys_schema.unlike(db):
            raise UnreadableReport(
                f"{path}: not as nsys export writes it: {what}",
                hint="Export the report again with nsys export --type sqlite.",
            )
        yield db


def _trace(db: Database, frames: Frames) -> Trace:
    return Trace(
        source=read_source(db),
        threads=frames.threads,
        ranges=frames.ranges,
        launches=frames.launches,
        gpu_ops=frames.gpu_ops,
        graph_nodes=frames.graph_nodes,
        graphs=frames.graphs,
    )
