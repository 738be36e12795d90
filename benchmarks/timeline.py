# SPDX-License-Identifier: MIT
"""A made-up but well-formed program: ranges, API calls and GPU ops of any size, as numpy arrays.

Time is cut into *units* of one launch each. Every thread lives through the same number of units,
so that one array row is a thread and a window of units is built without a loop over threads. The
same ``Spec`` always gives the same timeline. All times are integer nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

WORK_NS = 8_000  # the part of a unit in which API calls run
PUSH_NS = 40  # what opening or closing one range costs
EPOCH_NS = 1_000_000_000
GRAPH_NODES = 10
KERNEL_NAMES = 40
WINDOW_LAUNCHES = 400_000
QUIET_CALLS = (  # (name, event class): API calls that queue nothing
    ("cudaStreamIsCapturing_v10000", 0),
    ("cudaEventRecord_v3020", 0),
    ("cuKernelGetName", 1),
    ("cudaEventQuery_v3020", 0),
)
LAUNCH_CALL = len(QUIET_CALLS)
GRAPH_CALL, MEMCPY_CALL, MEMSET_CALL = LAUNCH_CALL + 1, LAUNCH_CALL + 2, LAUNCH_CALL + 3
CALLS = (
    *QUIET_CALLS,
    ("cudaLaunchKernel_v7000", 0),
    ("cudaGraphLaunch_v10000", 0),
    ("cudaMemcpyAsync_v3020", 0),
    ("cudaMemsetAsync_v3020", 0),
)


@dataclass(frozen=True)
class Spec:
    """The size and shape of a report. Counts are totals over all processes and threads."""

    kernels: int = 1_600_000
    api_per_kernel: int = 2
    ranges: int = 1_200_000
    nesting: int = 4
    branching: int = 3
    processes: int = 1
    threads: int = 2  # per process, each with ranges of its own
    autograd: bool = False  # one more thread per process, without ranges
    names: int = 40
    streams: int = 1  # per thread
    graphs: float = 0.0  # share of the kernels that graph replays launch
    registered: bool = False
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.api_per_kernel <= 8:
            raise ValueError("between 1 and 8 API calls a kernel")
        if min(self.kernels, self.nesting, self.processes, self.threads, self.names) < 1:
            raise ValueError("kernels, nesting, processes, threads and names start at 1")
        if min(self.branching, self.streams) < 1 or min(self.ranges, self.seed) < 0:
            raise ValueError("branching and streams start at 1, ranges and seed at 0")
        if not 0 <= self.graphs <= 1:
            raise ValueError("graphs is a share, between 0 and 1")

    @property
    def threads_per_process(self) -> int:
        return self.threads + self.autograd

    @property
    def rows(self) -> int:
        return self.processes * self.threads_per_process

    def launches(self) -> tuple[int, int]:
        """(launches per thread, of which graph replays)."""
        kernels = max(1, round(self.kernels / self.rows))
        replays = int(kernels * self.graphs / GRAPH_NODES)
        return kernels - replays * (GRAPH_NODES - 1), replays

    def levels(self) -> list[int]:
        """Ranges per thread at each nesting level, outermost first."""
        per_thread = self.ranges / (self.processes * self.threads)
        weights = [self.branching**level for level in range(self.nesting)]
        top = round(per_thread / sum(weights))
        if top == 0 and self.ranges:  # too few for the full depth: a flat list
            return [max(1, round(per_thread))]
        return [top * weight for weight in weights] if top else []


@dataclass(frozen=True)
class Threads:
    """One entry per thread (array row)."""

    process: Ints
    pid: Ints
    tid: Ints
    index: Ints  # within the process

    @property
    def global_tid(self) -> Ints:
        # Layout seen in every export: hardware 8, VM 8, pid 24, tid 24 bits; the VM is 1.
        return (1 << 48) | (self.pid << 24) | self.tid

    @property
    def global_pid(self) -> Ints:
        return (1 << 48) | (self.pid << 24)


def threads(spec: Spec) -> Threads:
    row = np.arange(spec.rows, dtype=np.int64)
    process, index = np.divmod(row, spec.threads_per_process)
    pid = 5_000 + process * 10_000
    return Threads(process, pid, pid + index, index)


def name_counts(spec: Spec, levels: int) -> list[int]:
    """Distinct names per level: a child's name settles its parent's, as in a real program."""
    counts: list[int] = []
    left = spec.names
    for level in range(levels):
        last = level == levels - 1
        above = counts[-1] if counts else 1
        wanted = left // above * above if last else (above * spec.branching if level else 1)
        counts.append(max(1, min(wanted, left)))
        left = max(0, left - counts[-1])
    return counts


Window = dict[str, dict[str, Any]]


class Timeline:
    """``windows()`` yields columns for ``ranges``, ``api``, ``kernels``, ``copies``, ``sets``."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.threads = threads(spec)
        self.levels = spec.levels()
        self.name_counts = name_counts(spec, len(self.levels))
        self.launches, self.replays = spec.launches()
        self.body = max(self.launches, self.levels[-1] if self.levels else 1)
        self.lead = max(1, self.body // 100)  # launches before the first range: outside
        self.units = self.body + self.lead
        self.inset = PUSH_NS * (len(self.levels) + 1)
        self.slot = WORK_NS + 2 * self.inset
        self.origin = EPOCH_NS + 137 * np.arange(spec.rows, dtype=np.int64)[:, None]
        self.gpu_free = np.zeros((spec.rows, spec.streams), dtype=np.int64)

    @property
    def end(self) -> int:
        host_end = EPOCH_NS + 137 * self.spec.rows + self.units * self.slot
        return int(max(host_end, self.gpu_free.max())) + 1_000_000

    def windows(self) -> Iterator[Window]:
        step = max(1, WINDOW_LAUNCHES // self.spec.rows)
        for number, first in enumerate(range(0, self.units, step)):
            last = min(first + step, self.units)
            rng = np.random.default_rng([self.spec.seed, number])
            yield {"ranges": self._ranges(first, last), **self._work(first, last, rng)}

    def _ranges(self, first: int, last: int) -> dict[str, Any]:
        owners = np.flatnonzero(self.threads.index < self.spec.threads)
        parts, offset = [], 0
        for level, count in enumerate(self.levels):
            lo, hi = (
                min(count, max(0, -((self.lead - unit) * count // self.body)))
                for unit in (first, last)
            )
            j = np.arange(lo, hi, dtype=np.int64)
            begin, end = j * self.body // count, (j + 1) * self.body // count
            if level and level == len(self.levels) - 1:  # leave the parent some time of its own
                end -= (j % 8 == 7) & (end - begin > 1)
            edge = PUSH_NS * (level + 1)
            name = (offset + j % self.name_counts[level]) % self.spec.names
            parts.append(((begin + self.lead) * self.slot + edge,
                          (end + self.lead) * self.slot - edge, name))  # fmt: skip
            offset += self.name_counts[level]
        if not parts:
            return {}
        starts, ends, names = (np.concatenate(column) for column in zip(*parts, strict=True))
        origin = self.origin[owners]
        columns = {
            "start": origin + starts,
            "end": origin + ends,
            "name": np.broadcast_to(names, (len(owners), len(names))),
            "thread": np.broadcast_to(owners[:, None], (len(owners), len(names))),
        }
        return _sorted(columns)

    def _work(self, first: int, last: int, rng: np.random.Generator) -> Window:
        spec = self.spec
        lo, hi = (-(-unit * self.launches // self.units) for unit in (first, last))
        i = np.arange(lo, hi, dtype=np.int64)
        unit = i * self.units // self.launches
        calls = spec.api_per_kernel
        width = WORK_NS // calls
        shape = (spec.rows, len(i), calls)
        begin = (self.origin + unit * self.slot + self.inset)[:, :, None]
        begin = begin + width * np.arange(calls) + rng.integers(0, width // 3, shape)
        end = begin + rng.integers(width // 10, width // 2, shape)
        order = i[:, None] * calls + np.arange(calls)
        index = self.threads.index[:, None, None]
        correlation = 1 + order * spec.threads_per_process + index
        call, replay = self._calls(i)
        row = np.arange(spec.rows)[:, None, None]
        api = {
            "start": begin,
            "end": end,
            "correlation": correlation,
            "call": np.broadcast_to(call, shape),
            "thread": np.broadcast_to(row, shape),
        }
        ready, launch_id = end[:, :, -1], correlation[:, :, -1]
        out: Window = {"api": _sorted(api)}
        out["kernels"] = self._kernels(i, unit, replay, ready, launch_id, rng)
        for kind, code in (("copies", MEMCPY_CALL), ("sets", MEMSET_CALL)):
            at = np.flatnonzero(call[:, 0] == code)
            start = end[:, at, 0] + 2_000
            thread = np.broadcast_to(np.arange(spec.rows)[:, None], start.shape)
            out[kind] = _sorted({
                "start": start, "end": start + 1_000, "thread": thread,
                "correlation": correlation[:, at, 0],
            })  # fmt: skip
        return out

    def _calls(self, i: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The call in each launch's API slots (index into CALLS), and which replay a graph."""
        calls = self.spec.api_per_kernel
        call = np.empty((len(i), calls), dtype=np.int64)
        for k in range(calls - 1):
            call[:, k] = (i + k) % len(QUIET_CALLS)
        if calls > 1:
            call[i % 100 == 50, 0] = MEMCPY_CALL
            call[i % 100 == 75, 0] = MEMSET_CALL
        replay = np.zeros(len(i), dtype=bool)
        if self.replays:
            replay = (i + 1) * self.replays // self.launches > i * self.replays // self.launches
        call[:, -1] = np.where(replay, GRAPH_CALL, LAUNCH_CALL)
        return call, replay

    def _kernels(
        self,
        i: Ints,
        unit: Ints,
        replay: NDArray[np.bool_],
        ready: Ints,
        launch_id: Ints,
        rng: np.random.Generator,
    ) -> dict[str, Any]:
        """Each launch's kernels, in order on their stream, none before its launch returned."""
        spec = self.spec
        repeat = np.where(replay, GRAPH_NODES, 1)
        column = np.repeat(np.arange(len(i)), repeat)
        node = np.arange(len(column)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
        shape = (spec.rows, len(column))
        busy = rng.integers(1_500, 9_000, shape) * spec.streams
        busy = np.where(replay[column], busy // GRAPH_NODES, busy)
        after = ready[:, column] + 1_500
        start = np.empty(shape, dtype=np.int64)
        stream = i[column] % spec.streams
        for s in range(spec.streams):
            on = stream == s
            if not on.any():
                continue
            length = busy[:, on] + 96  # the gap between two kernels of a stream
            passed = np.cumsum(length, axis=1)
            wait = np.maximum(after[:, on] - (passed - length), self.gpu_free[:, s, None])
            start[:, on] = np.maximum.accumulate(wait, axis=1) + passed - length
            self.gpu_free[:, s] = start[:, on][:, -1] + length[:, -1]
        leaf = (unit[column] - self.lead) * (self.levels[-1] if self.levels else 1) // self.body
        kernel = leaf % (KERNEL_NAMES // 2) * 2 + rng.integers(0, 2, shape)
        thread = np.broadcast_to(np.arange(spec.rows)[:, None], shape)
        columns = {
            "start": start,
            "end": start + busy,
            "correlation": launch_id[:, column],
            "stream": 7 + 2 * (self.threads.index[:, None] * spec.streams + stream),
            "kernel": kernel,
            "thread": thread,
            "node": np.broadcast_to(np.where(replay[column], node, -1), shape),
        }
        return _sorted(columns)


def _sorted(columns: dict[str, Any]) -> dict[str, Any]:
    """Flatten to one row per event, in order of start, as nsys writes its tables."""
    order = np.argsort(columns["start"], axis=None, kind="stable")
    return {name: values.reshape(-1)[order] for name, values in columns.items()}
