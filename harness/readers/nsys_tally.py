# SPDX-License-Identifier: MIT
"""What the warnings about an export are made of: counts that add up over its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.readers.columns import Int64
from harness.trace import KINDS, Trace, makes


@dataclass(frozen=True)
class RangeTally:
    """Ranges in all, those that never closed, and the names of these as they come."""

    ranges: int = 0
    open: int = 0
    open_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, ranges: pd.DataFrame) -> RangeTally:
        never = ranges["open"].to_numpy()
        names = ranges["name"][never].unique().tolist()
        return cls(len(ranges), int(never.sum()), tuple(map(str, names)))


@dataclass(frozen=True)
class Tally:
    """Launches and GPU ops, by process where the name says ``_of``.

    ``unlinked`` ops have no launch with their process and correlation id; ``early`` of them began
    before the first call of the recording. ``bad_times`` counts rows that end before they start.
    ``copy_calls_of`` and ``set_calls_of`` count API calls, each of which makes one op.
    ``dropped`` counts rows that lack a needed value, by table.
    ``nodes_of`` counts graph nodes made; these are the same in every part. ``launchers`` are the
    (process, thread) that launched.
    """

    launches: int = 0
    ops: int = 0
    graphs: int = 0
    unlinked: int = 0
    early: int = 0
    kernel_launches_of: Mapping[int, int] = field(default_factory=Counter)
    ops_of: Mapping[int, int] = field(default_factory=Counter)
    kernels_of: Mapping[int, int] = field(default_factory=Counter)
    copy_calls_of: Mapping[int, int] = field(default_factory=Counter)
    copies_of: Mapping[int, int] = field(default_factory=Counter)
    set_calls_of: Mapping[int, int] = field(default_factory=Counter)
    sets_of: Mapping[int, int] = field(default_factory=Counter)
    graphs_of: Mapping[int, int] = field(default_factory=Counter)
    nodes_of: Mapping[int, int] = field(default_factory=Counter)
    bad_times: Mapping[str, int] = field(default_factory=Counter)
    dropped: Mapping[str, int] = field(default_factory=Counter)
    launchers: frozenset[tuple[int, int]] = frozenset()
    ranges: RangeTally = field(default_factory=RangeTally)

    @classmethod
    def of(cls, trace: Trace, first_call: int | None = None) -> Tally:
        """``first_call`` (ns) is that of the whole recording, of which ``trace`` is a part."""
        ops, nodes = trace.gpu_ops, trace.graph_nodes
        process = ops["process"]
        of_kind = {kind: (ops["kind"] == kind).to_numpy() for kind in KINDS}
        unlinked, early = _unlinked(trace, first_call)
        return cls(
            launches=len(trace.launches),
            ops=len(ops),
            graphs=int(of_kind["graph"].sum()),
            unlinked=unlinked,
            early=early,
            kernel_launches_of=_calls(trace, "kernel"),
            ops_of=_by_value(process),
            kernels_of=_by_value(process[of_kind["kernel"]]),
            copy_calls_of=_calls(trace, "memcpy"),
            copies_of=_by_value(process[of_kind["memcpy"]]),
            set_calls_of=_calls(trace, "memset"),
            sets_of=_by_value(process[of_kind["memset"]]),
            graphs_of=_by_value(process[of_kind["graph"]]),
            nodes_of=_by_value(nodes["process"]),
            launchers=_launchers(trace),
        )

    def __add__(self, other: Tally) -> Tally:
        """Of two parts; ``ranges``, ``bad_times`` and ``dropped``, shared, are the first's."""
        counts = ("launches", "ops", "graphs", "unlinked", "early")
        mappings = (
            "kernel_launches_of", "ops_of", "kernels_of", "copy_calls_of", "copies_of",
            "set_calls_of", "sets_of", "graphs_of",
        )  # fmt: skip
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in counts}
        for name in mappings:
            sums[name] = Counter(getattr(self, name)) + Counter(getattr(other, name))
        sums["launchers"] = self.launchers | other.launchers
        return replace(self, **sums, nodes_of=self.nodes_of or other.nodes_of)


def _by_value(column: pd.Series[int]) -> Counter[int]:
    return Counter({int(value): int(n) for value, n in column.value_counts().items()})  # type: ignore[call-overload]


def _calls(trace: Trace, kind: str) -> Counter[int]:
    """API calls a process that make one op of that kind each."""
    thread = trace.launches["thread"].to_numpy()[makes(trace.launches, kind)]
    counts = np.bincount(thread, minlength=len(trace.threads)).tolist()
    found: Counter[int] = Counter()
    for process, number in zip(trace.threads["process"].tolist(), counts, strict=True):
        found[process] += number
    return +found


def _launchers(trace: Trace) -> frozenset[tuple[int, int]]:
    counts = np.bincount(trace.launches["thread"].to_numpy(), minlength=len(trace.threads))
    threads = np.flatnonzero(counts)
    process = trace.threads["process"].to_numpy()[threads]
    return frozenset(zip(process.tolist(), threads.tolist(), strict=True))


def _unlinked(trace: Trace, first_call: int | None) -> tuple[int, int]:
    if not len(trace.gpu_ops) or not (len(trace.launches) or first_call is not None):
        return 0, 0
    missing = ~_has_launch(trace)
    count = int(missing.sum())
    if not count:
        return 0, 0
    if first_call is None:
        first_call = int(trace.launches["start"].min())
    return count, int((missing & (trace.gpu_ops["start"].to_numpy() < first_call)).sum())


def _has_launch(trace: Trace) -> npt.NDArray[np.bool_]:
    """For each op: is there a launch with its process and correlation?"""
    known = trace.launches["correlation"].to_numpy()
    wanted = trace.gpu_ops["correlation"].to_numpy()
    op_process: Int64 = trace.gpu_ops["process"].to_numpy()
    if trace.threads["process"].nunique() == 1:
        only = int(trace.threads["process"].iloc[0])
        mine: npt.NDArray[np.bool_] = op_process == only
        return mine & _found(wanted, known)
    process = trace.threads["process"].to_numpy()[trace.launches["thread"].to_numpy()]
    out = np.zeros(len(wanted), bool)
    for one in pd.unique(op_process).tolist():
        mine = op_process == one
        out[mine] = _found(wanted[mine], known[process == one])
    return out


def _found(wanted: Int64, known: Int64) -> npt.NDArray[np.bool_]:
    """Which of ``wanted`` are among ``known``; by a table where the numbers lie close."""
    if not len(known):
        return np.zeros(len(wanted), bool)
    low, high = int(known.min()), int(known.max())
    if high - low > 16 * len(known) + 1024:
        return np.isin(wanted, known)
    present = np.zeros(high - low + 1, bool)
    present[known - low] = True
    inside: npt.NDArray[np.bool_] = (wanted >= low) & (wanted <= high)
    return inside & present[np.clip(wanted, low, high) - low]
