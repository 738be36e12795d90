# SPDX-License-Identifier: MIT
"""Times of callables: CUDA events on a GPU, a host clock on the CPU. Nanoseconds throughout."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """One callable's times in ns, in the order they were measured."""

    samples: tuple[int, ...]

    @property
    def median(self) -> int:
        return round(statistics.median(self.samples))

    def as_dict(self) -> dict[str, Any]:
        return {"median_ns": self.median, "samples_ns": list(self.samples)}


def measure(
    works: Mapping[str, Work], device: torch.device, *, warmups: int, runs: int
) -> dict[str, Timing]:
    """Time each of ``works`` ``runs`` times after ``warmups`` untimed ones.

    They alternate, so that a drifting clock is shared by all and not charged to the last.
    """
    for work in works.values():
        for _ in range(warmups):
            work()
    once = _time_on_gpu if device.type == "cuda" else _time_on_host
    rounds = [[once(work) for work in works.values()] for _ in range(runs)]
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    columns = zip(*rounds, strict=True)
    return {
        name: Timing(tuple(read() for read in column))
        for name, column in zip(works, columns, strict=True)
    }


def _time_on_gpu(work: Work) -> Callable[[], int]:
    """Queue the work between two events; the result reads them, after a synchronisation."""
    make: Any = torch.cuda.Event
    start, end = make(enable_timing=True), make(enable_timing=True)
    start.record()
    work()
    end.record()
    return lambda: round(start.elapsed_time(end) * 1e6)  # ms


def _time_on_host(work: Work) -> Callable[[], int]:
    start = time.perf_counter_ns()
    work()
    duration = time.perf_counter_ns() - start
    return lambda: duration
