# SPDX-License-Identifier: MIT
"""Event structs to columns: what a Trace needs of each event, as arrays of integers.

Texts and (pid, tid) pairs become codes into growing indexes, so that a million events cost a
few arrays. Times become integer nanoseconds; ``MISSING`` marks what the event does not have.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import compress, repeat
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.readers.kineto_events import Args, Event

Int64 = npt.NDArray[np.int64]

MISSING = np.iinfo(np.int64).min
_LARGEST_US = 9.2e15  # times beyond do not fit 64-bit nanoseconds

#: Category -> row of ``trace.KINDS``. The capitalised ones are those of 2020 and 2021.
GPU_KINDS = {
    "kernel": 0,
    "Kernel": 0,
    "gpu_memcpy": 1,
    "Memcpy": 1,
    "gpu_memset": 2,
    "Memset": 2,
}
LAUNCH_CATEGORIES = (
    "cuda_runtime",
    "cuda_driver",
    "Runtime",
    "Driver",
    "hip_runtime",
    "xpu_runtime",
    "xpu_driver",
    "mtia_runtime",
    "privateuse1_runtime",
    "privateuse1_driver",
)
#: Never gpu_user_annotation: it mirrors these on the GPU's rows, as a span and not as work.
RANGE_CATEGORIES = ("user_annotation", "User Annotation")
OPERATOR_CATEGORIES = ("cpu_op", "Operator")
LINK_CATEGORIES = ("fwdbwd",)
#: Known, many, and of no use here.
_SKIPPED_CATEGORIES = ("python_function", "ac2g", "async")
#: The operator rows that the autograd engine itself opens, one a node of the graph.
_ENGINE = "autograd::engine::evaluate_function"

_GPU, _LAUNCH, _RANGE, _LINK, _OPERATOR, _SKIP, _OTHER = range(7)
_ROUTES: dict[str | None, int] = {
    **dict.fromkeys(GPU_KINDS, _GPU),
    **dict.fromkeys(LAUNCH_CATEGORIES, _LAUNCH),
    **dict.fromkeys(RANGE_CATEGORIES, _RANGE),
    **dict.fromkeys(LINK_CATEGORIES, _LINK),
    **dict.fromkeys(OPERATOR_CATEGORIES, _OPERATOR),
    **dict.fromkeys(_SKIPPED_CATEGORIES, _SKIP),
}

_COLUMNS: dict[str, tuple[str, ...]] = {
    "gpu": (
        *("row", "start", "length", "name", "correlation", "external", "kind"),
        *("device", "context", "stream", "bytes", "graph_node"),
    ),
    "launches": ("row", "start", "length", "name", "correlation", "external"),
    "ranges": ("row", "start", "length", "name", "external", "finished"),
    "links": ("row", "start", "id", "forward"),
    "operators": ("row", "start", "length"),  # those in which a backward link ends
    "nodes": ("row", "start", "length"),  # the autograd engine's own
}
TABLES = tuple(_COLUMNS)
_CAT, _NAME, _TS = attrgetter("cat"), attrgetter("name"), attrgetter("ts")
_NEIGHBOURS = 100  # operators of one list that links in the next may end in


class Index(dict[Any, int]):
    """Value -> code, in order of first appearance."""

    def __missing__(self, key: Any) -> int:
        self[key] = code = len(self)
        return code

    def codes(self, values: Sequence[Any]) -> Int64:
        try:
            return np.fromiter(map(self.__getitem__, values), np.int64, len(values))
        except TypeError:  # a list or an object where a text belongs
            return np.array([self[_hashable(value)] for value in values], np.int64)


class _EngineNames(dict[Any, bool]):
    """Operator name -> is it one of the autograd engine's own?"""

    def __missing__(self, name: Any) -> bool:
        self[name] = known = str(name).startswith(_ENGINE)
        return known


@dataclass
class Columns:
    """Everything collected from the events of one file.

    ``table(name)`` gives one table's columns; ``row`` codes index ``rows`` ((pid, tid) as written),
    ``name`` codes index ``names``.
    """

    rows: Index = field(default_factory=Index)
    names: Index = field(default_factory=Index)
    row_names: dict[int, str] = field(default_factory=dict)  # from thread_name metadata
    events: int = 0
    known: int = 0  # events of a category torch.profiler writes
    undated: int = 0  # dropped: no usable time
    unmeasured: Counter[str] = field(default_factory=Counter)  # no usable duration, by table
    last: int = MISSING
    _noted: int = 0  # other events, usable ones
    _engine: _EngineNames = field(default_factory=_EngineNames)
    _moments: set[Any] = field(default_factory=set)
    _operators: list[Event] = field(default_factory=list)
    _parts: dict[str, list[dict[str, Int64]]] = field(
        default_factory=lambda: {name: [] for name in _COLUMNS}
    )

    def table(self, name: str) -> dict[str, Int64]:
        parts = self._parts[name]
        empty = [np.empty(0, np.int64)]
        return {
            column: np.concatenate([part[column] for part in parts] or empty)
            for column in _COLUMNS[name]
        }

    def take(self, events: Sequence[Event]) -> None:
        """Add a list of complete events."""
        codes = map(_ROUTES.get, map(_CAT, events), repeat(_OTHER))
        routes = np.fromiter(codes, np.int8, len(events))

        def routed(route: int) -> list[Event]:
            return [events[i] for i in np.flatnonzero(routes == route).tolist()]

        self.events += len(events)
        self.known += int(np.count_nonzero(routes < _OTHER))
        self._add_gpu(routed(_GPU))
        self._add_launches(routed(_LAUNCH))
        self._add_ranges(routed(_RANGE))
        links, operators = routed(_LINK), routed(_OPERATOR)
        self._add_links(links)
        self._add_linked(links, operators)
        self._add_nodes(operators)
        for event in routed(_OTHER):
            self._note(event)

    def _add_gpu(self, events: list[Event]) -> None:
        if not events:
            return
        args = [event.args or _NO_ARGS for event in events]
        part = self._timed(events, args)
        part["kind"] = np.array([GPU_KINDS[e.cat] for e in events], np.int64)  # type: ignore[index]
        for name in ("device", "context", "stream", "bytes", "graph_node"):
            part[name] = to_int64([getattr(a, name) for a in args])
        self._keep("gpu", part)

    def _add_launches(self, events: list[Event]) -> None:
        if events:
            self._keep("launches", self._timed(events, [e.args or _NO_ARGS for e in events]))

    def _add_ranges(self, events: list[Event]) -> None:
        if not events:
            return
        args = [event.args or _NO_ARGS for event in events]
        part = self._timed(events, args)
        part["finished"] = np.array([a.finished is not False for a in args], np.int64)
        self._keep("ranges", part)

    def _add_links(self, events: list[Event]) -> None:
        if events:
            part = {
                "row": self.rows.codes([(e.pid, e.tid) for e in events]),
                "start": to_ns([e.ts for e in events]),
                "id": to_int64([e.id for e in events]),
                "forward": np.array([e.ph == "s" for e in events], np.int64),
            }
            self._keep("links", part)

    def _add_linked(self, links: list[Event], operators: list[Event]) -> None:
        """Keep the operators in which backward links end: they begin at the same moment.

        Kineto writes the link right after its operator, so the two are in one list of events or in
        neighbouring ones.
        """
        moments = {link.ts for link in links if link.ph == "f"}
        wanted = moments | self._moments
        if wanted:
            near = self._operators + operators
            chosen = map(wanted.__contains__, map(_TS, near))
            self._keep_intervals("operators", list(compress(near, chosen)))
        self._moments, self._operators = moments, operators[-_NEIGHBOURS:]

    def _add_nodes(self, operators: list[Event]) -> None:
        """Keep the intervals in which the autograd engine evaluated a node."""
        chosen = map(self._engine.__getitem__, map(_NAME, operators))
        self._keep_intervals("nodes", list(compress(operators, chosen)))

    def _keep_intervals(self, table: str, events: list[Event]) -> None:
        if events:
            part = {
                "row": self.rows.codes([(e.pid, e.tid) for e in events]),
                "start": to_ns([e.ts for e in events]),
                "length": to_ns([e.dur for e in events]),
            }
            self._keep(table, part)

    def _timed(self, events: list[Event], args: list[Args]) -> dict[str, Int64]:
        external = [a.external if a.external_2020 == -1 else a.external_2020 for a in args]
        return {
            "row": self.rows.codes([(e.pid, e.tid) for e in events]),
            "start": to_ns([e.ts for e in events]),
            "length": to_ns([e.dur for e in events]),
            "name": self.names.codes([e.name for e in events]),
            "correlation": to_int64([a.correlation for a in args]),
            "external": to_int64(external),
        }

    def _keep(self, table: str, part: dict[str, Int64]) -> None:
        dated = part["start"] != MISSING
        if not dated.all():
            self.undated += int((~dated).sum())
            part = {name: values[dated] for name, values in part.items()}
        if len(part["start"]):
            if table in ("gpu", "launches", "ranges"):
                unusable = part["length"] < 0
                if table == "ranges":  # without one it never closed
                    unusable &= part["length"] != MISSING
                self.unmeasured[table] += int(unusable.sum())
            ends = part["start"] + np.maximum(part.get("length", np.int64(0)), 0)
            self.last = max(self.last, int(ends.max()))
            self._parts[table].append({name: part[name] for name in _COLUMNS[table]})

    @property
    def usable(self) -> int:
        """Events that are events: of a kind and at a time, or metadata."""
        return self._noted + max(self.known - self.undated, 0)

    def _note(self, event: Event) -> None:
        """Metadata and marks: names of threads, the end of the recording."""
        args = event.args
        self._noted += bool(event.ph and (event.ph == "M" or event.ts is not None))
        if event.ph == "M" and event.name == "thread_name" and args and args.name:
            row, name = self.rows[event.pid, event.tid], str(args.name)
            if "pt_autograd" not in self.row_names.get(row, ""):
                self.row_names[row] = name
        elif event.name == "Record Window End":
            self.last = max(self.last, int(to_ns([event.ts])[0]))


_NO_ARGS = Args()


def _hashable(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_hashable, value))
    return value if isinstance(value, str | int | float | None) else str(value)


def text(value: Any) -> str:
    """A name as text that can be printed and encoded."""
    if value is None:
        return ""
    try:
        return str(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    except UnicodeEncodeError:  # half of a pair, as "\\ud83d" in the file
        return str(value).encode("utf-8", "replace").decode()


def identity(value: Any) -> int:
    """A pid, tid or id as an integer: itself if it is one, else a number made of its text.

    2020 traces write "4093687616"; merged files write things like "rank3". Those get a negative
    number that depends on the text only.
    """
    if isinstance(value, int):
        return _wrapped(int(value))
    try:
        return _wrapped(int(value, 0) if isinstance(value, str) else int(value))
    except (ValueError, TypeError, OverflowError):
        return -1 if value is None else -2 - zlib.crc32(text(value).encode())


def to_int64(values: list[Any]) -> Int64:
    """Ids as int64; those beyond 63 bits keep their low 64."""
    try:
        array = np.array(values)
        if array.dtype == np.int64:
            return array
    except (ValueError, OverflowError):
        pass
    return np.array([identity(value) for value in values], np.int64)


def to_ns(values: list[Any]) -> Int64:
    """Microseconds as whole nanoseconds; MISSING where there is none or it does not fit.

    A double below 2**43 us, where newer traces' times since ``baseTimeNanoseconds`` are, is within
    half a nanosecond of its text: rounding gives the text's value back.
    """
    try:
        array = np.array(values)
    except (ValueError, OverflowError):
        array = np.empty(0, object)
    if array.dtype.kind not in "if":
        return np.array([_ns(value) for value in values], np.int64)
    fits = np.abs(array) < _LARGEST_US  # False for nan
    if array.dtype.kind == "i":
        return np.where(fits, np.where(fits, array, 0) * 1000, MISSING)
    return np.where(fits, np.rint(np.where(fits, array, 0.0) * 1000.0), MISSING).astype(np.int64)


def _ns(value: Any) -> int:
    if value is None or isinstance(value, bool):
        return MISSING
    try:
        us = Decimal(value)
        return int((us * 1000).to_integral_value()) if abs(us) < _LARGEST_US else MISSING
    except (InvalidOperation, TypeError, ValueError):
        return MISSING


def _wrapped(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value
