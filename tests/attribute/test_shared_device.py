# SPDX-License-Identifier: MIT
"""The warning ``shared-device``: two processes that ran on one GPU at the same time."""

from __future__ import annotations

import random
import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from programs import as_trace
from recordings import NAMES, found, sql_work
from reference import Launch, Op, Program, Thread

from harness.attribute.shared_device import SharedDevices
from harness.trace import Trace, Warning_

#: pid and ordinal -> GPU, for processes 0 and 1 of ``trace_of`` (pids 1000 and 1001).
ONE_GPU = {(1000, 0): 7, (1001, 0): 7}


def trace_of(times: list[tuple[int, int, int, int]], gpu_of: dict[tuple[int, int], int]) -> Trace:
    """(process, device, start, end) of each kernel."""
    processes = range(3)
    program = Program(
        [Thread(p, 1, False) for p in processes],
        [],
        [Launch(i, process, 0, 0, i + 1) for i, (process, *_) in enumerate(times)],
        [
            Op(i, "kernel", start, end, process, i + 1, device, "k")
            for i, (process, device, start, end) in enumerate(times)
        ],
    )
    trace = as_trace(program)
    source = replace(trace.source, facts={**trace.source.facts, "gpu_of": gpu_of})
    return replace(trace, source=source)


def figures(one: Warning_) -> tuple[int, int]:
    """(shared, busy) ns that a warning speaks of."""
    shared, busy = re.findall(r"(\d+)(?: of its| busy)", one.message)
    return int(shared), int(busy)


def told(*traces: Trace, later: tuple[int, ...] = ()) -> list[tuple[int, int]]:
    facts = SharedDevices()
    for trace, at in zip(traces, (*later, 1 << 62), strict=True):
        facts.add(trace, at)
    return [figures(one) for one in facts.warnings()]


def brute(times: list[tuple[int, int, int]]) -> tuple[int, int]:
    """(ns with ops of two processes or more, ns with any), between neighbouring moments."""
    moments = sorted({t for _, start, end in times for t in (start, end)})
    shared = busy = 0
    for low, high in pairwise(moments):
        running = {p for p, start, end in times if start <= low and high <= end}
        busy += (high - low) * bool(running)
        shared += (high - low) * (len(running) > 1)
    return shared, busy


def test_overlap_by_hand() -> None:
    #     process 0   |0 ===== 10|      |20 == 25|
    #     process 1         |6 ======= 15|           |25 == 30|
    times = [(0, 0, 0, 10), (1, 0, 6, 15), (0, 0, 20, 25), (1, 0, 25, 30)]
    assert told(trace_of(times, ONE_GPU)) == [(4, 25)]


@pytest.mark.parametrize(
    "gpu_of",
    [
        {(1000, 0): 7, (1001, 0): 8},  # CUDA_VISIBLE_DEVICES: ordinal 0 of both, two GPUs
        {(1000, 0): 7},
        {},
    ],
)
def test_equal_ordinals_of_other_gpus_are_not_one(gpu_of: dict[tuple[int, int], int]) -> None:
    assert told(trace_of([(0, 0, 0, 10), (1, 0, 0, 10)], gpu_of)) == []


def test_different_ordinals_can_be_one_gpu() -> None:
    gpu_of = {(1000, 0): 7, (1001, 1): 7}
    assert told(trace_of([(0, 0, 0, 10), (1, 1, 5, 10)], gpu_of)) == [(5, 10)]


def test_streams_of_one_process_share_nothing() -> None:
    assert told(trace_of([(0, 0, 0, 10), (0, 0, 5, 10), (1, 0, 10, 20)], ONE_GPU)) == []


def test_too_little_to_matter_is_not_told() -> None:
    assert told(trace_of([(0, 0, 0, 10_000), (1, 0, 9_990, 10_000)], ONE_GPU)) == []
    assert told(trace_of([(0, 0, 0, 10_000), (1, 0, 9_989, 10_000)], ONE_GPU)) == [(11, 10_000)]


@pytest.mark.parametrize("seed", range(40))
def test_parts_and_brute_force_agree(seed: int) -> None:
    chance = random.Random(seed)
    starts = [chance.randrange(400) for _ in range(60)]
    times = [(chance.randrange(3), s, s + chance.randrange(1, 40)) for s in sorted(starts)]
    gpu_of = {(1000 + p, 0): 7 for p in range(3)}
    whole = [(p, 0, start, end) for p, start, end in times]
    expected = [brute(times)]
    assert expected[0][0] > 0
    assert told(trace_of(whole, gpu_of)) == expected
    cuts = sorted(chance.sample(range(1, len(whole)), 4))
    parts = [whole[a:b] for a, b in pairwise([0, *cuts, len(whole)])]
    later = tuple(part[0][2] for part in parts[1:])
    assert told(*(trace_of(part, gpu_of) for part in parts), later=later) == expected


def test_ranks_that_share_a_gpu_are_told_of() -> None:
    """ddp-gloo: both ranks' kernels and copies overlap for a third of the time."""
    work = [(w.process, w.start, w.end) for w in sql_work("ddp-gloo")]
    (warning,) = [w for w in found("ddp-gloo").warnings if w.code == "shared-device"]
    assert figures(warning) == brute_sorted(work)


def brute_sorted(times: list[tuple[int, int, int]]) -> tuple[int, int]:
    """As ``brute``, by one walk over the moments."""
    events = sorted([(s, 1, p) for p, s, _ in times] + [(e, -1, p) for p, _, e in times])
    running: dict[int, int] = {}
    shared = busy = before = 0
    for time, step, process in events:
        active = sum(count > 0 for count in running.values())
        busy += (time - before) * (active > 0)
        shared += (time - before) * (active > 1)
        running[process] = running.get(process, 0) + step
        before = time
    return shared, busy


@pytest.mark.parametrize("name", [name for name in NAMES if name != "ddp-gloo"])
def test_no_other_recording_is_told_of(name: str) -> None:
    """two-processes has two of them, one after the other."""
    assert "shared-device" not in {w.code for w in found(name).warnings}
