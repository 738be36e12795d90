# SPDX-License-Identifier: MIT
"""Plan for reading an nsys export in parts that fit in memory.

A part holds the launches and GPU ops of an interval of correlation ids, and every range that is
open while one of those launches runs. Tables have no index, but their rows are roughly in order
of time and so of correlation: a first pass notes what each piece of each table spans, and a part
reads only the pieces that its interval touches. Without that order the parts are the same and
take longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from harness.readers import nsys_schema
from harness.readers.columns import Columns, Database, Int64, Query
from harness.readers.nsys_frames import PID_BITS, Queries, all_queries, whole_of
from harness.trace import KINDS

#: Values kept of each piece, from which the intervals of the parts are chosen.
_SAMPLES = 64
#: Pieces read at once.
_AT_ONCE = 8
_FAR = 2**62
#: Every id that SQLite can hold is at least the first and below the second.
_ALL_IDS = (-(2**63), 2**63)
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Steps:
    """When at the earliest the rows of a piece begin that have a given correlation id or more."""

    correlation: Int64  # ascending, some of the piece's
    start: Int64  # least start (ns) of the rows from each on

    @classmethod
    def of(cls, correlation: Int64, start: Int64) -> Steps:
        order = np.argsort(correlation, kind="stable")
        least = np.minimum.accumulate(start[order][::-1])[::-1]
        step = max(-(-len(order) // _SAMPLES), 1)
        return cls(correlation[order][::step], least[::step].copy())

    def after(self, correlation: int) -> int:
        """At or before the earliest start of the rows from ``correlation`` on."""
        at = int(np.searchsorted(self.correlation, correlation, side="right")) - 1
        return int(self.start[max(at, 0)])


@dataclass(frozen=True)
class _Span:
    """A piece of a table: its rows and the least and greatest of what they are chosen by."""

    query: Query
    low: int
    high: int
    steps: Steps | None = None

    def touches(self, low: int, high: int) -> bool:
        return self.low <= high and low <= self.high


@dataclass(frozen=True)
class Window:
    """From the first to the last time (ns) at which a process launched work of a part."""

    process: int
    first: int
    last: int


@dataclass(frozen=True)
class Slice:
    """The queries of a part; the ops of all later parts begin at ``later`` (ns) or after."""

    queries: Queries
    windows: list[Window]
    later: int


class Plan:
    """The parts of one export, each with about ``rows`` launches and GPU ops.

    ``whole`` is what all parts share; ``parts`` yields the queries of each. ``ranges`` and
    ``open_ranges`` (never closed) are counts, ``ranges_ns`` is how long the others last together,
    ``first_call`` is a time (ns), None without calls, ``bad_times`` counts rows that end before
    they start, and ``dropped`` those that lack a needed value. ``extremes`` are the first and last
    times (ns) of each frame. ``without``: see ``nsys_sqlite.read``.
    """

    def __init__(self, db: Database, rows: int, without: Set[str] = frozenset()) -> None:
        self.db = db
        self.queries = all_queries(db, without)
        self._tids: list[Int64] = []
        self._processes: list[Int64] = []
        self._samples: list[Int64] = []
        self._starts: list[Int64] = []
        self._rows = 0  # launches and GPU ops
        self._last = 0
        self._capture_end = nsys_schema.capture_end(db)
        self.ranges = self.open_ranges = 0
        self.ranges_ns = 0.0
        self.first_call: int | None = None
        self.bad_times: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.extremes: dict[str, tuple[int, int]] = {}
        self._launches = self._spans("launches", "correlation", "correlation")
        self._ops = {kind: self._spans(kind, "correlation", "correlation") for kind in KINDS}
        self._ranges = self._spans("ranges", "start", "end")
        self._made = [*self._spans("nodes", "time", "time"), *self._spans("graphs", "time", "time")]
        self._edges = self._intervals(rows)
        self.whole = whole_of(db, _distinct(self._tids), _distinct(self._processes), self._last)
        if self.open_ranges:
            low, high = self.extremes["ranges"]
            self.extremes["ranges"] = low, max(high, self.whole.end)

    def parts(self) -> Iterator[Slice]:
        """One after another. Graphs and their nodes are few, and in every part."""
        captures = self._windows([span.query for span in self._made], "time", "time")
        for first, stop in pairwise(self._edges):
            part = {key: self._between(key, first, stop - 1) for key in ("launches", *KINDS)}
            windows = self._windows(part["launches"], "start", "end")
            part["ranges"] = self._open_in([*captures, *windows])
            part |= {key: self.queries.get(key, []) for key in ("nodes", "graphs")}
            queries = {key: queries for key, queries in part.items() if queries}
            yield Slice(queries, windows, self._later(stop))

    def stretches(self, rows: int) -> Iterator[tuple[list[Query], int, int]]:
        """The ranges in parts of about ``rows``: those that start in [from, to) ns, and with them
        those that were open then; from and to."""
        starts = np.sort(np.concatenate([*self._starts, _NONE]))
        parts = max(-(-self.ranges // rows), 1)
        inner = [len(starts) * i // parts for i in range(1, parts)] if len(starts) else []
        for low, high in pairwise([-_FAR, *np.unique(starts[inner]).tolist(), nsys_schema.OPEN]):
            condition = (
                f"start < {high} AND (start >= {low} OR coalesce(end, {nsys_schema.OPEN}) >= {low})"
            )
            touched = [span.query for span in self._ranges if span.touches(low, high)]
            yield [_narrowed(query, condition) for query in touched], low, high

    def _later(self, correlation: int) -> int:
        """No op with this correlation id or a higher one begins before this time."""
        return min(
            (
                span.steps.after(correlation)
                for spans in self._ops.values()
                for span in spans
                if span.steps is not None and span.high >= correlation
            ),
            default=_FAR,
        )

    def _spans(self, key: str, low: str, high: str) -> list[_Span]:
        """The pieces of a table and what each spans; notes threads, processes and samples."""
        found = []
        wanted = {"tid", "process", "start", "end", low, high}
        for piece, read in self._read_few(self.queries.get(key, []), wanted):
            self.dropped += Counter({piece.table: read.dropped[0]})
            columns = read.integers
            self._tids.append(np.unique(columns.get("tid", _NONE)))
            self._processes.append(np.unique(columns.get("process", _NONE)) >> PID_BITS)
            self._note(key, columns)
            end = columns.get("end", _NONE)
            self._last = max(self._last, int(end.max(initial=0, where=end != nsys_schema.OPEN)))
            if len(columns[low]):
                steps = Steps.of(columns[low], columns["start"]) if key in KINDS else None
                # Rows that end before they start are taken as zero-length.
                last = max(int(columns[high].max()), int(columns[low].max()))
                span = _Span(piece, int(columns[low].min()), last, steps)
                found.append(span)
            if key == "ranges":
                step = max(-(-len(columns[low]) // _SAMPLES), 1)
                self._starts.append(np.sort(columns[low])[::step])
            if low == "correlation":
                self._rows += len(columns[low])
                step = max(-(-len(columns[low]) // _SAMPLES), 1)
                self._samples.append(np.sort(columns[low])[::step])
        return found

    def _note(self, key: str, columns: dict[str, Int64]) -> None:
        """What warnings say of rows that no part has alone."""
        start, end = columns.get("start", _NONE), columns.get("end", _NONE)
        if len(end):
            kind = "ops" if key in KINDS else key
            self.bad_times += Counter({kind: int(np.count_nonzero(end < start))})
            self._note_extremes(kind, start, end)
        if key == "ranges":
            never = nsys_schema.never_closed(start, end, self._capture_end)
            self.ranges += len(start)
            self.open_ranges += int(np.count_nonzero(never))
            lasted = np.maximum(end.astype(float) - start, 0)
            self.ranges_ns += float(lasted.sum(where=~never))
        if key == "launches" and len(start):
            first = int(start.min())
            self.first_call = first if self.first_call is None else min(first, self.first_call)

    def _note_extremes(self, kind: str, start: Int64, end: Int64) -> None:
        last = np.maximum(start, end)
        if kind == "ranges":
            last = np.where(end == nsys_schema.OPEN, start, last)
        low, high = int(start.min()), int(last.max())
        known = self.extremes.get(kind, (low, high))
        self.extremes[kind] = min(low, known[0]), max(high, known[1])

    def never_closed(self) -> list[Query]:
        """Queries for the ranges that never closed."""
        condition = nsys_schema.never_closed_sql(self._capture_end)
        return [_narrowed(query, condition) for query in self.queries.get("ranges", [])]

    def _read_few(self, queries: list[Query], wanted: set[str]) -> Iterator[tuple[Query, Columns]]:
        """Some columns of the queries, a few pieces at a time."""
        pieces = [piece for query in queries for piece in self.db.pieces(query)]
        for i in range(0, len(pieces), _AT_ONCE):
            some = pieces[i : i + _AT_ONCE]
            read = self.db.read(*[[_only(piece, wanted)] for piece in some])
            yield from zip(some, read, strict=True)

    def _intervals(self, rows: int) -> list[int]:
        """Bounds of the intervals of correlation ids, all of them together."""
        parts = max(-(-self._rows // rows), 1)
        samples = np.sort(np.concatenate([*self._samples, _NONE]))
        inner = [len(samples) * i // parts for i in range(1, parts)] if len(samples) else []
        lowest, beyond = _ALL_IDS
        return [lowest, *np.unique(samples[inner]).tolist(), beyond]

    def _between(self, key: str, low: int, high: int) -> list[Query]:
        """The rows of a table whose correlation id is in an interval."""
        spans = self._launches if key == "launches" else self._ops[key]
        return [
            _narrowed(span.query, f"{span.query.integers['correlation']} BETWEEN {low} AND {high}")
            for span in spans
            if span.touches(low, high)
        ]

    def _windows(self, queries: list[Query], low: str, high: str) -> list[Window]:
        """For each process, from the first to the last time among the rows."""
        times: dict[int, Window] = {}
        for _, read in self._read_few(queries, {"tid", low, high}):
            columns = read.integers
            # Rows that end before they start are taken as zero-length.
            columns[high] = np.maximum(columns[low], columns[high])
            process = columns["tid"] >> PID_BITS
            for one in np.unique(process).tolist():
                mine = process == one
                first, last = int(columns[low][mine].min()), int(columns[high][mine].max())
                known = times.get(one, Window(one, first, last))
                times[one] = Window(one, min(first, known.first), max(last, known.last))
        return list(times.values())

    def _open_in(self, windows: list[Window]) -> list[Query]:
        """Queries for the ranges that are open at some time in a window of their process."""
        condition = " OR ".join(
            f"(globalTid >> {PID_BITS} = {window.process} AND start <= {window.last} "
            f"AND max(start, coalesce(end, {nsys_schema.OPEN})) >= {window.first})"
            for window in windows
        )
        return [
            _narrowed(span.query, condition)
            for span in self._ranges
            if any(span.touches(window.first, window.last) for window in windows)
        ]


def _only(query: Query, columns: set[str]) -> Query:
    wanted = columns | query.needed
    few = {name: sql for name, sql in query.integers.items() if name in wanted}
    return replace(query, integers=few, text="", narrow=frozenset())


def _narrowed(query: Query, condition: str) -> Query:
    return replace(query, where=f"({query.where or 1}) AND ({condition})")


def _distinct(parts: list[Int64]) -> Int64:
    return np.unique(np.concatenate([*parts, _NONE]))
