# SPDX-License-Identifier: MIT
"""Several processes on one GPU at once: their ops' times hold each other's turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from harness.attribute.arrays import Ints
from harness.trace import Trace, Warning_

#: Later than any time.
_NEVER = np.iinfo(np.int64).max
#: A smaller share of the busy time is not told: a monitor's kernel changes no figure.
_LEAST = 0.001


@dataclass
class SharedDevices:
    """Per GPU, how long it was busy, and how long with ops of more than one process; ns.

    Ops come in parts by time. What of them reaches beyond a part's end waits for the next.
    """

    busy: dict[int, int] = field(default_factory=dict)
    shared: dict[int, int] = field(default_factory=dict)
    pids: dict[int, set[int]] = field(default_factory=dict)
    _open: dict[tuple[int, int], tuple[Ints, Ints]] = field(default_factory=dict)

    def add(self, trace: Trace, later: int = _NEVER) -> None:
        """Add the ops of ``trace``; no op of a later part begins before ``later`` (ns)."""
        gpu_of = trace.source.facts.get("gpu_of")
        if not gpu_of or trace.threads["process"].nunique() < 2:
            return
        found = dict(self._open)
        for key, start, end in _by_process(trace, gpu_of):
            if key in found:
                before = found[key]
                start, end = np.concatenate([before[0], start]), np.concatenate([before[1], end])
            found[key] = start, end
        self._count(found, later)

    def _count(self, found: Mapping[tuple[int, int], tuple[Ints, Ints]], later: int) -> None:
        """Settle the time before ``later`` and keep what lies beyond."""
        self._open = {}
        settled: dict[int, list[tuple[Ints, Ints]]] = {}
        for (gpu, pid), (start, end) in found.items():
            start, end = _union(start, end)
            kept, rest = start < later, end > later
            settled.setdefault(gpu, []).append((start[kept], np.minimum(end[kept], later)))
            self._open[gpu, pid] = np.maximum(start[rest], later), end[rest]
            self.pids.setdefault(gpu, set()).add(pid)
        for gpu, intervals in settled.items():
            any_, several = _depths(intervals)
            self.busy[gpu] = self.busy.get(gpu, 0) + any_
            self.shared[gpu] = self.shared.get(gpu, 0) + several

    def warnings(self) -> Iterator[Warning_]:
        """After the last part."""
        if self._open:
            self._count(self._open, _NEVER)
        for gpu, ns in sorted(self.shared.items()):
            busy = self.busy[gpu]
            if ns <= _LEAST * busy:
                continue
            pids = ", ".join(map(str, sorted(self.pids[gpu])))
            yield Warning_(
                "shared-device",
                f"processes {pids} shared a GPU: more than one had an op on it for {ns} of its "
                f"{busy} busy ns, and the time of an op holds the turns of the others",
                "Give each process a GPU of its own, or compare only with recordings that share "
                "theirs in the same way.",
            )


def _by_process(
    trace: Trace, gpu_of: Mapping[tuple[int, int], int]
) -> Iterator[tuple[tuple[int, int], Ints, Ints]]:
    """((GPU, pid), starts, ends) for each process and device whose GPU is known."""
    ops = trace.gpu_ops
    threads = trace.threads.drop_duplicates("process")
    pids = dict(zip(threads["process"].tolist(), threads["pid"].tolist(), strict=True))
    process, device = ops["process"].to_numpy(), ops["device"].to_numpy()
    start, end = ops["start"].to_numpy(), ops["end"].to_numpy()
    for one in pd.unique(process).tolist():
        mine = process == one
        for ordinal in pd.unique(device[mine]).tolist():
            gpu = gpu_of.get((pids.get(one, -1), ordinal))
            if gpu is not None:
                here: Any = mine & (device == ordinal)
                yield (gpu, pids[one]), start[here], end[here]


def _union(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The intervals merged: sorted and apart."""
    if not len(start):
        return start, end
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    opens = np.append(True, start[1:] > reach[:-1])
    first = np.flatnonzero(opens)
    return start[first], reach[np.append(first[1:], len(start)) - 1]


def _depths(intervals: list[tuple[Ints, Ints]]) -> tuple[int, int]:
    """(time in at least one, time in at least two) of sets of intervals, each set merged."""
    starts = np.concatenate([start for start, _ in intervals])
    ends = np.concatenate([end for _, end in intervals])
    time = np.concatenate([starts, ends])
    step = np.repeat([1, -1], len(starts))
    order = np.argsort(time, kind="stable")
    depth = np.cumsum(step[order])[:-1]
    length = np.diff(time[order])
    return int(length[depth >= 1].sum()), int(length[depth >= 2].sum())
