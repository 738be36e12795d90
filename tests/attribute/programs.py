# SPDX-License-Identifier: MIT
"""Hypothesis strategies for small, nasty programs, and their translation into a Trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from reference import Launch, Op, Program, Range, Thread

from harness.trace import (
    GPU_OP_COLUMNS,
    LAUNCH_COLUMNS,
    RANGE_COLUMNS,
    THREAD_COLUMNS,
    Source,
    Trace,
    frame,
)

#: A short clock makes equal timestamps, zero lengths and shared edges common.
CLOCK = 24


@st.composite
def nested(draw: st.DrawFn, thread: int) -> list[Range]:
    """Ranges as push and pop make them: a stack a domain, every event at a time of its own or
    shared with its neighbour."""
    stacks: dict[str, list[tuple[int, str]]] = {"": [], "lib": []}
    now = draw(st.integers(0, 4))
    out: list[Range] = []
    for _ in range(draw(st.integers(0, 10))):
        now += draw(st.integers(0, 3))
        domain = draw(st.sampled_from(["", "", "lib"]))
        stack = stacks[domain]
        if stack and draw(st.booleans()):
            start, name = stack.pop()
            out.append(Range(0, thread, start, now, name, domain, "push_pop", False))
        else:
            stack.append((now, draw(st.sampled_from("abc"))))
    for domain, stack in stacks.items():
        end = max(now, CLOCK)
        out += [Range(0, thread, s, end, n, domain, "push_pop", True) for s, n in stack]
    return out


@st.composite
def arbitrary(draw: st.DrawFn, thread: int, style: str) -> Range:
    start = draw(st.integers(0, CLOCK))
    end = draw(st.integers(start, CLOCK))
    name = draw(st.sampled_from("abcx"))
    domain = draw(st.sampled_from(["", "lib"]))
    return Range(0, thread, start, end, name, domain, style, draw(st.booleans()) and end == CLOCK)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    threads = [
        Thread(process, tid, autograd)
        for process in range(draw(st.integers(1, 2)))
        for tid, autograd in enumerate(draw(st.lists(st.booleans(), min_size=1, max_size=3)))
    ]
    ranges: list[Range] = []
    for thread in range(len(threads)):
        ranges += draw(nested(thread))
        for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
            ranges.append(draw(arbitrary(thread, "push_pop")))
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            ranges.append(draw(arbitrary(thread, "start_end")))
    ranges = draw(st.permutations(ranges))
    ranges = [replace(r, row=row) for row, r in enumerate(ranges)]
    launches = []
    for row in range(draw(st.integers(0, 10))):
        start = draw(st.integers(0, CLOCK))
        end = start + draw(st.integers(0, 4))
        thread = draw(st.integers(0, len(threads) - 1))
        launches.append(Launch(row, thread, start, end, draw(st.integers(0, 6))))
    ops = []
    for row in range(draw(st.integers(0, 12))):
        start = draw(st.integers(0, 2 * CLOCK))
        ops.append(
            Op(
                row,
                draw(st.sampled_from(["kernel", "kernel", "kernel", "memcpy", "memset", "graph"])),
                start,
                start + draw(st.integers(0, 5)),
                draw(st.integers(0, 1)),
                draw(st.integers(-1, 6)),
                draw(st.integers(0, 1)),
                draw(st.sampled_from(["k1", "k2"])),
            )
        )
    return Program(threads, ranges, launches, ops)


@st.composite
def crowds(draw: st.DrawFn) -> Program:
    """Many ops at the same time, each launched inside ranges: what busy time has to merge."""
    threads = [Thread(0, 0, False), Thread(0, 1, True)]
    threads += [Thread(1, 0, False)] * draw(st.booleans())
    ranges: list[Range] = []
    for thread in range(len(threads)):
        ranges += draw(nested(thread))
        ranges += [Range(0, thread, 0, 2 * CLOCK, "all", "", "push_pop", False)] * draw(
            st.booleans()
        )
        if draw(st.sampled_from([False, False, True])):
            ranges.append(draw(arbitrary(thread, "start_end")))
    launches: list[Launch] = []
    ops: list[Op] = []
    for row in range(draw(st.integers(4, 16))):
        thread, at = draw(st.integers(0, len(threads) - 1)), draw(st.integers(0, CLOCK))
        launches.append(Launch(row, thread, at, at + draw(st.integers(0, 1)), row))
        begun, took = draw(st.integers(0, CLOCK)), draw(st.sampled_from([0, 1, 2, 3, 9, 30]))
        kind = draw(st.sampled_from(["kernel", "kernel", "memcpy"]))
        device, name = draw(st.sampled_from([0, 0, 1])), draw(st.sampled_from(["k1", "k2"]))
        ops.append(Op(row, kind, begun, begun + took, threads[thread].process, row, device, name))
    return Program(threads, [replace(r, row=row) for row, r in enumerate(ranges)], launches, ops)


@st.composite
def loops(draw: st.DrawFn) -> Program:
    """A few threads that do the same again and again: slow at first or now and then, with an inner
    range, a last step that may be open, and backward on an autograd thread."""
    threads = [Thread(0, 0, False), Thread(0, 1, draw(st.booleans()))]
    ranges: list[Range] = []
    launches: list[Launch] = []
    ops: list[Op] = []
    for thread in range(draw(st.integers(1, 2))):
        now = draw(st.integers(0, 3))
        steps = draw(st.integers(3, 9))
        for step in range(steps):
            length = draw(st.sampled_from([20, 20, 20, 22, 23, 24, 60]))
            style = draw(st.sampled_from(["push_pop"] * 9 + ["start_end"]))
            is_open = step in (0, steps - 1) and draw(st.booleans())
            ranges.append(Range(0, thread, now, now + length, "a", "", style, is_open))
            if draw(st.sampled_from([True, True, False])):
                inner = now + draw(st.integers(0, 4))
                end = draw(st.integers(inner, now + length))
                ranges.append(Range(0, thread, inner, end, "b", "lib", "push_pop", False))
            for _ in range(draw(st.integers(0, 2))):
                at = now + draw(st.integers(0, length))
                row = len(ops)
                worker = draw(st.sampled_from([thread, thread, 1]))
                launches.append(Launch(row, worker, at, at + draw(st.integers(0, 1)), row))
                begun = at + draw(st.integers(0, 3))
                took = draw(st.sampled_from([5, 5, 5, 6, 20]))
                device, name = draw(st.integers(0, 1)), draw(st.sampled_from(["k1", "k2"]))
                ops.append(Op(row, "kernel", begun, begun + took, 0, row, device, name))
            now += length + draw(st.integers(0, 2))
    return Program(threads, [replace(r, row=row) for row, r in enumerate(ranges)], launches, ops)


def as_trace(program: Program) -> Trace:
    """The program as the frames a reader would yield."""

    def column(rows: list[object], name: str) -> list[object]:
        return [getattr(row, name) for row in rows]

    threads, ranges = list[object](program.threads), list[object](program.ranges)
    launches, ops = list[object](program.launches), list[object](program.ops)
    process = column(threads, "process")
    return Trace(
        Source("made.sqlite", "nsys"),
        frame(
            THREAD_COLUMNS,
            {
                "process": process,
                "pid": [1000 + p for p in process],  # type: ignore[operator]
                "tid": column(threads, "tid"),
                "name": np.array([""] * len(threads), dtype=object),
                "autograd": column(threads, "autograd"),
            },
        ),
        frame(
            RANGE_COLUMNS,
            {
                name: _text(column(ranges, name)) if kind == "category" else column(ranges, name)
                for name, kind in RANGE_COLUMNS.items()
            },
        ),
        frame(
            LAUNCH_COLUMNS,
            {
                **{n: column(launches, n) for n in ("thread", "start", "end", "correlation")},
                "name": _text(["cudaLaunchKernel"] * len(launches)),
            },
        ),
        frame(
            GPU_OP_COLUMNS,
            {
                **{n: column(ops, n) for n in ("start", "end", "process", "correlation", "device")},
                "kind": _text(column(ops, "kind")),
                "context": [0] * len(ops),
                "stream": [7] * len(ops),
                **{n: _text(column(ops, "name")) for n in ("name", "demangled", "mangled")},
                "bytes": [-1] * len(ops),
                "graph_node": [-1] * len(ops),
            },
        ),
    )


def _text(values: list[object]) -> pd.Categorical:
    return pd.Categorical(values, categories=sorted({str(v) for v in values}))
