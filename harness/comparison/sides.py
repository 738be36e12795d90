# SPDX-License-Identifier: MIT
"""One side of a comparison: what each capture says, reduced to what is compared."""

from __future__ import annotations

import hashlib
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness import summarise
from harness.comparison import at_work
from harness.comparison.idle import idle_of_instances
from harness.comparison.lost import ops_lost
from harness.comparison.lost_in_graphs import silent_nodes
from harness.comparison.statistics import Sample, median_variance
from harness.measures import path_rows

if TYPE_CHECKING:
    from harness.attribute import Attribution
    from harness.trace import Source, Trace, Warning_

Floats = npt.NDArray[np.float64]

#: ``aten::add, seq = 7, op_id = 42``: names under torch's emit_nvtx count calls, so that no two
#: are alike. Sizes, which come after, tell calls apart that cost different times: they stay.
_CALL_ID = re.compile(r", (?:seq|op_id) = \d+")

#: Fewer ranges and GPU ops than this could be alike by chance.
_TELLING_ROWS = 4
#: ns since 1970 in 2001: a smaller time counts from elsewhere (the machine's start, the trace's).
_A_DATE = 10**18
#: From this many captures a side on, the capture is the unit.
CAPTURES_AS_UNIT = 3
#: Measure -> column of the instances frame.
MEASURES = {"gpu": "total_gpu_ns", "cpu": "cpu_ns"}
#: What tells ranges apart, in frames of instances and of path rows.
KEY_COLUMNS = ("path", "domain", "style")


class Key(NamedTuple):
    """What is compared with what. ``kernel`` is empty for a range."""

    path: tuple[str, ...]
    domain: str
    style: str
    kernel: str = ""

    @property
    def parent(self) -> tuple[str, ...]:
        return self.path[:-1]


@dataclass(frozen=True)
class KernelUse:
    """A kernel under one range, nested ranges included: per instance of the range."""

    count: float
    ns: float


@dataclass(frozen=True)
class Capture:
    """One recording: ``values`` in order of time, ns, one entry a closed range instance (or a
    kernel execution); ``instances`` counts them per range; ``idle`` is idle ns an instance."""

    values: Mapping[Key, Floats]
    kernels: Mapping[Key, Mapping[str, KernelUse]]
    idle: Mapping[Key, float]
    source: Source
    warnings: tuple[Warning_, ...] = ()
    gpu_ops: int = 0
    gpus: tuple[int, ...] = ()  # that ran its GPU ops: places in ``source.facts["gpus"]``
    #: Of ranges of several processes: the median of the slowest one's instances, ns.
    slowest: Mapping[Key, float] = field(default_factory=dict)
    processes: int = 0  # with GPU ops; for ``measure`` cpu: with ranges
    graphs: str = ""  # how CUDA graphs were recorded: "whole", "by node", "" for none
    nodes: str = ""  # whether each node of the graphs that were replayed ran
    fingerprint: str = ""  # of its times: two recordings have one only if one is a copy
    lost: str = ""  # kernels that were launched and not recorded
    started: int | None = None  # ns since 1970; None where the recording does not say
    outside_ns: int = 0  # GPU time outside all ranges, or unlinked
    gpu_ns: int = 0  # of all GPU ops


@dataclass(frozen=True)
class Side:
    """A run, or a recording, with all its captures. ``run`` is its run.json, if it has one;
    ``asked`` is how many captures there should be (0: as many as there are)."""

    name: str
    path: str
    captures: tuple[Capture, ...]
    run: Mapping[str, Any] | None = None
    notes: tuple[Warning_, ...] = field(default=())
    asked: int = 0

    def keys(self) -> list[Key]:
        """Every range seen in any capture, in order of first appearance."""
        return list(dict.fromkeys(key for capture in self.captures for key in capture.values))

    def having(self, key: Key) -> list[Capture]:
        """The captures that have values of ``key``."""
        found = ((capture, capture.values.get(key)) for capture in self.captures)
        return [capture for capture, values in found if values is not None and len(values)]

    def instances(self, key: Key) -> float:
        """Mean number of values a capture."""
        found = (len(capture.values[key]) for capture in self.having(key))
        return sum(found) / max(1, len(self.captures))

    def idle(self, key: Key) -> float:
        """Median over captures of the idle ns an instance; NaN when unknown."""
        found = [c.idle[key] for c in self.captures if key in c.idle]
        return float(np.median(found)) if found else float("nan")

    def kernel_use(self, key: Key) -> dict[str, KernelUse]:
        """Kernels under ``key`` by demangled name, averaged over the captures that have it."""
        sums: dict[str, list[float]] = {}
        having = [capture for capture in self.captures if key in capture.values]
        for capture in having:
            for name, use in capture.kernels.get(key, {}).items():
                entry = sums.setdefault(name, [0.0, 0.0])
                entry[0] += use.count
                entry[1] += use.ns
        n = max(1, len(having))
        return {name: KernelUse(count / n, ns / n) for name, (count, ns) in sums.items()}


def capture(found: Attribution, *, measure: str = "gpu", by: str = "ranges") -> Capture:
    """Reduce one attributed trace."""
    instances = _without_call_ids(summarise.instances(found))
    closed = instances[~instances["open"].astype(bool)]
    of_kernels = by == "kernels"
    values = _kernel_values(found) if of_kernels else _range_values(closed, MEASURES[measure])
    return Capture(
        values=values,
        kernels=_kernel_use(found, instances),
        idle=_idle(found),
        source=found.trace.source,
        warnings=found.warnings,
        gpu_ops=len(found.trace.gpu_ops),
        gpus=at_work.gpus(found.trace),
        processes=at_work.processes(found, measure),
        slowest={} if of_kernels else _slowest(closed, MEASURES[measure]),
        graphs=_graphs(found.trace.gpu_ops),
        nodes=silent_nodes(found),
        fingerprint=_fingerprint(found.trace),
        lost=ops_lost(found),
        started=_started(found.trace),
        outside_ns=found.ledger.outside_ns + found.ledger.unlinked_ns,
        gpu_ns=found.ledger.gpu_ns,
    )


def _started(trace: Trace) -> int | None:
    """When the first GPU op (or else range) of the recording began, if its clock is known."""
    zero = trace.source.facts.get("base_time_ns", 0)
    times = trace.gpu_ops["start"] if len(trace.gpu_ops) else trace.ranges["start"]
    if not isinstance(zero, int) or not len(times):
        return None
    first = zero + int(times.min())
    return first if first >= _A_DATE else None


def _graphs(ops: pd.DataFrame) -> str:
    if (ops["kind"] == "graph").any():
        return "whole"
    return "by node" if (ops["graph_node"] >= 0).any() else ""


def _fingerprint(trace: Trace) -> str:
    """Of every name, start and end (from the first start: exports may count from elsewhere); ""
    for a recording of too few to tell two apart."""
    frames = (trace.ranges, trace.gpu_ops)
    if sum(map(len, frames)) < _TELLING_ROWS:
        return ""
    first = min(int(frame["start"].min()) for frame in frames if len(frame))
    digest = hashlib.sha256()
    for frame in frames:
        for side in ("start", "end"):
            times = frame[side].to_numpy(dtype=np.int64) - first
            digest.update(np.ascontiguousarray(times).tobytes())
        names = frame["name"].cat
        digest.update(repr(names.categories.tolist()).encode("utf-8", "backslashreplace"))
        digest.update(names.codes.to_numpy().tobytes())
    return digest.hexdigest()


def _without_call_ids(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the counters that emit_nvtx puts into every name taken out of its paths."""
    codes, paths = pd.factorize(frame["path"])
    plain = [tuple(_CALL_ID.sub("", name) for name in path) for path in paths]
    if all(map(operator.eq, plain, map(tuple, paths))):
        return frame
    places = {path: place for place, path in enumerate(dict.fromkeys(plain))}
    column = np.empty(len(places), dtype=object)
    column[:] = list(places)
    return frame.assign(path=column[np.array([places[path] for path in plain])[codes]])


def _groups(frame: pd.DataFrame, columns: Sequence[str]) -> tuple[npt.NDArray[Any], list[int]]:
    """Group number of each row, and the first row of each group, numbered by appearance."""
    codes = np.zeros(len(frame), dtype=np.int64)
    for name in columns:
        part, values = pd.factorize(frame[name])
        codes = pd.factorize(codes * max(1, len(values)) + part)[0]
    _, first = np.unique(codes, return_index=True)
    return codes, first.tolist()


def _keys(frame: pd.DataFrame, columns: Sequence[str], rows: list[int]) -> list[Key]:
    picked = (frame[name].iloc[rows].tolist() for name in columns)
    return [Key(tuple(path), *map(str, rest)) for path, *rest in zip(*picked, strict=True)]


def _split(values: Floats, codes: npt.NDArray[Any], groups: int) -> list[Floats]:
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(1, groups))
    return np.split(values[order], bounds) if groups else []


def _range_values(closed: pd.DataFrame, column: str) -> dict[Key, Floats]:
    codes, first = _groups(closed, KEY_COLUMNS)
    values = closed[column].to_numpy().astype(np.float64)
    parts = _split(values, codes, len(first))
    return dict(zip(_keys(closed, KEY_COLUMNS, first), parts, strict=True))


def _slowest(closed: pd.DataFrame, column: str) -> dict[Key, float]:
    if closed["process"].nunique() < 2:
        return {}
    codes, first = _groups(closed, KEY_COLUMNS)
    medians = closed[column].groupby([codes, closed["process"].to_numpy()]).median()
    by_key = medians.groupby(level=0)
    several = by_key.max()[by_key.size() > 1]
    keys = _keys(closed, KEY_COLUMNS, first)
    named = zip(several.index.tolist(), several.tolist(), strict=True)
    return {keys[code]: float(value) for code, value in named}


def _kernel_values(found: Attribution) -> dict[Key, Floats]:
    ops = _without_call_ids(summarise.ops(found, names="demangled"))
    ops = ops[(ops["kind"] == "kernel") & ops["rule"].isin(["thread", "autograd", "process"])]
    # An op knows its innermost path but not that path's domain or style.
    frame = ops.assign(domain="", style="")
    columns = ("path", "domain", "style", "name")
    codes, first = _groups(frame, columns)
    values = (frame["end_ns"] - frame["start_ns"]).to_numpy().astype(np.float64)
    parts = _split(values, codes, len(first))
    return dict(zip(_keys(frame, columns, first), parts, strict=True))


def _kernel_use(found: Attribution, instances: pd.DataFrame) -> dict[Key, dict[str, KernelUse]]:
    codes, first = _groups(instances, KEY_COLUMNS)
    counts = dict(zip(_keys(instances, KEY_COLUMNS, first), np.bincount(codes), strict=True))
    out: dict[Key, dict[str, KernelUse]] = {}
    table = _without_call_ids(summarise.path_kernels(found, names="demangled"))
    wanted = (table[name].tolist() for name in (*KEY_COLUMNS, "kernel", "kernels", "total_ns"))
    for path, domain, style, kernel, number, ns in zip(*wanted, strict=True):
        key = Key(tuple(path), str(domain), str(style))
        n = max(1, int(counts.get(key, 1)))
        uses = out.setdefault(key, {})
        before = uses.get(str(kernel), KernelUse(0.0, 0.0))  # another process with the same path
        uses[str(kernel)] = KernelUse(before.count + number / n, before.ns + ns / n)
    return out


def _idle(found: Attribution) -> dict[Key, float]:
    """Median idle ns of a closed instance of each range that launched GPU work."""
    ranges, idle, rows = found.trace.ranges, idle_of_instances(found), path_rows(found)
    used = (idle >= 0) & ~ranges["open"].to_numpy().astype(bool)
    if found.keep_range is not None:
        used &= found.keep_range
    described = {name: rows.columns[name] for name in ("path", "domain", "style")}
    frame = _without_call_ids(pd.DataFrame(described).iloc[rows.of_range[used]])
    codes, first = _groups(frame, KEY_COLUMNS)
    parts = _split(idle[used].astype(np.float64), codes, len(first))
    medians = (float(np.median(part)) for part in parts)
    return dict(zip(_keys(frame, KEY_COLUMNS, first), medians, strict=True))


def samples(
    base: Side, new: Side, key: Key, middle: Callable[[Floats], Any] = np.median
) -> tuple[Sample, Sample] | None:
    """The two samples of ``key``; None where a side has none. The unit is the capture where both
    sides have enough captures of it, else the instance. ``middle`` of its instances stands for a
    capture."""
    a, b = base.having(key), new.having(key)
    if not a or not b:
        return None
    as_capture = min(len(a), len(b)) >= CAPTURES_AS_UNIT
    return _sample(key, a, as_capture, middle), _sample(key, b, as_capture, middle)


def _sample(
    key: Key, captures: list[Capture], as_capture: bool, middle: Callable[[Floats], Any]
) -> Sample:
    parts = [capture.values[key] for capture in captures]
    total = sum(map(len, parts))
    if not as_capture:
        return Sample(np.concatenate(parts), "instance", len(parts), total)
    middles, started = _in_order(captures, [middle(part) for part in parts])
    # How a median scatters is known; of another middle it is not.
    variances = [median_variance(part) for part in parts] if middle is np.median else [math.nan]
    within = float(np.mean(np.sort(variances)))
    return Sample(middles, "capture", len(parts), total, within, started)


def _in_order(
    captures: Sequence[Capture], values: Sequence[float]
) -> tuple[Floats, tuple[int, ...]]:
    """One value a capture in order of time or else of size, so that sums round alike however the
    captures are given; and when each began, where that is known of all."""
    known = [capture.started for capture in captures if capture.started is not None]
    started = tuple(sorted(known)) if len(known) == len(captures) else ()
    found = np.array(values, dtype=np.float64)
    return (found[np.argsort(known)] if started else np.sort(found)), started


def slowest_samples(base: Side, new: Side, key: Key) -> tuple[Sample, Sample] | None:
    """The slowest process of each capture, where every capture has several with that range."""
    both = []
    for side in (base, new):
        values = [c.slowest[key] for c in side.captures if c.slowest.get(key)]
        if not values or len(values) < len(side.captures):
            return None
        ordered, started = _in_order(side.captures, values)
        both.append(Sample(ordered, "capture", len(ordered), len(ordered), math.nan, started))
    return both[0], both[1]
