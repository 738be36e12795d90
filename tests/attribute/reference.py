# SPDX-License-Identifier: MIT
"""Attribution by brute force, written from the specification and sharing no code with the engine.

Everything is a loop over Python objects; it is meant to be read beside "Attribution, exactly".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

Label = tuple[str, str, str]  # domain, name, style


@dataclass(frozen=True)
class Thread:
    process: int
    tid: int
    autograd: bool


@dataclass(frozen=True)
class Range:
    row: int
    thread: int
    start: int
    end: int
    name: str
    domain: str
    style: str
    open: bool

    @property
    def label(self) -> Label:
        return (self.domain, self.name, self.style)


@dataclass(frozen=True)
class Launch:
    row: int
    thread: int
    start: int
    end: int
    correlation: int


@dataclass(frozen=True)
class Op:
    row: int
    kind: str
    start: int
    end: int
    process: int
    correlation: int
    device: int
    name: str


@dataclass(frozen=True)
class Program:
    threads: list[Thread]
    ranges: list[Range]
    launches: list[Launch]
    ops: list[Op]


@dataclass(frozen=True)
class Outcome:
    rule: str
    ambiguous: bool
    path: tuple[str, ...]
    self_range: Range | None
    claimed_by: tuple[Range, ...]
    launch: Launch | None


def contains(outer: Range, start: int, end: int) -> bool:
    return outer.start <= start and end <= outer.end


def outermost_first(ranges: Iterable[Range]) -> list[Range]:
    return sorted(ranges, key=lambda r: (r.start, -r.end, r.row))


class Reference:
    """The answers for one program and policy."""

    def __init__(self, program: Program, policy: str) -> None:
        self.program = program
        self.policy = policy
        self.outcomes = [self.attribute(op) for op in program.ops]

    def process(self, thread: int) -> int:
        return self.program.threads[thread].process

    def launch_of(self, op: Op) -> Launch | None:
        same = [
            launch
            for launch in self.program.launches
            if launch.correlation == op.correlation
            and op.correlation >= 0
            and self.process(launch.thread) == op.process
        ]
        if not same:
            return None
        same.sort(key=lambda launch: (launch.start, launch.row))
        before = [launch for launch in same if launch.start <= op.start]
        return before[-1] if before else same[0]

    def open_on(self, thread: int, style: str, start: int, end: int) -> list[Range]:
        return outermost_first(
            r
            for r in self.program.ranges
            if r.thread == thread and r.style == style and contains(r, start, end)
        )

    def caller(self, thread: int, start: int, end: int) -> tuple[int | None, bool]:
        """The thread that called backward, if that is certain; and whether it is ambiguous."""
        if self.policy == "thread" or not self.program.threads[thread].autograd:
            return None, False
        candidates = {
            r.thread
            for r in self.program.ranges
            if not self.program.threads[r.thread].autograd
            and self.process(r.thread) == self.process(thread)
            and contains(r, start, end)
        }
        if len(candidates) == 1:
            return candidates.pop(), False
        return None, len(candidates) > 1

    def attribute(self, op: Op) -> Outcome:
        launch = self.launch_of(op)
        if launch is None:
            return Outcome("unlinked", False, (), None, (), None)
        start, end = launch.start, launch.end
        own = self.open_on(launch.thread, "push_pop", start, end)
        caller, ambiguous = self.caller(launch.thread, start, end)
        lent = [] if caller is None else self.open_on(caller, "push_pop", start, end)
        start_end = [
            r
            for r in self.program.ranges
            if r.style == "start_end"
            and contains(r, start, end)
            and (
                r.thread == launch.thread
                or (caller is not None and r.thread == caller)
                or (
                    self.policy == "process"
                    and self.process(r.thread) == self.process(launch.thread)
                )
            )
        ]
        chain = lent + own
        claimed = (*chain, *start_end)
        if chain:
            rule = "autograd" if lent else "thread"
            path = tuple(r.name for r in chain)
            return Outcome(rule, ambiguous, path, chain[-1], claimed, launch)
        if start_end:
            last = max(start_end, key=lambda r: (r.start, r.row))
            rule = "process"
            if last.thread == launch.thread:
                rule = "thread"
            elif last.thread == caller:
                rule = "autograd"
            return Outcome(rule, ambiguous, (last.name,), last, claimed, launch)
        return Outcome("outside", ambiguous, (), None, (), launch)

    def range_path(self, r: Range) -> tuple[Label, ...]:
        if r.style == "start_end":
            return (r.label,)
        own = [
            q
            for q in self.open_on(r.thread, "push_pop", r.start, r.end)
            if (q.start, -q.end, q.row) < (r.start, -r.end, r.row)
        ]
        caller, _ = self.caller(r.thread, r.start, r.end)
        lent = [] if caller is None else self.open_on(caller, "push_pop", r.start, r.end)
        return tuple(q.label for q in [*lent, *own, r])

    def ledger(self) -> dict[str, int]:
        out: dict[str, int] = defaultdict(int)
        for op, outcome in zip(self.program.ops, self.outcomes, strict=True):
            out[outcome.rule] += op.end - op.start
        return dict(out)

    def rows(self, key_of: Any) -> dict[Any, dict[str, Any]]:
        """Measures of each row, where ``key_of(range)`` says which row a range is in."""
        out: dict[Any, dict[str, Any]] = {}
        for r in self.program.ranges:
            row = out.setdefault(key_of(r), defaultdict(int))
            row["instances"] += 1
            row["open"] += r.open
        for r in self.program.ranges:
            around = [
                q
                for q in self.open_on(r.thread, "push_pop", r.start, r.end)
                if r.style == "push_pop" and (q.start, -q.end, q.row) < (r.start, -r.end, r.row)
            ]
            again = any(key_of(q) == key_of(r) for q in around)
            if not r.open and not again:
                out[key_of(r)]["cpu_ns"] += r.end - r.start
        moments: dict[Any, set[tuple[int, int, int]]] = defaultdict(set)
        spans: dict[Any, list[tuple[int, int]]] = defaultdict(list)
        for op, outcome in zip(self.program.ops, self.outcomes, strict=True):
            ns = op.end - op.start
            for key in {key_of(r) for r in outcome.claimed_by}:
                row = out[key]
                row[op.kind] += 1
                row["total_gpu_ns"] += ns
                row["total_kernel_ns"] += ns if op.kind == "kernel" else 0
                moments[key] |= {(op.process, op.device, t) for t in range(op.start, op.end)}
                spans[key].append((op.start, op.end))
            if outcome.self_range is not None:
                row = out[key_of(outcome.self_range)]
                row["self_gpu_ns"] += ns
                row["self_kernel_ns"] += ns if op.kind == "kernel" else 0
                row["self_kernels"] += op.kind == "kernel"
        for key, row in out.items():
            row["busy_ns"] = len(moments[key])
            if spans[key]:
                row["span_ns"] = max(e for _, e in spans[key]) - min(s for s, _ in spans[key])
        return out

    def path_key(self, r: Range) -> Any:
        return (self.process(r.thread), self.range_path(r))

    def name_key(self, r: Range) -> Any:
        return (r.thread, r.label)

    def kernels(self) -> dict[Any, tuple[Any, ...]]:
        """(thread, label, kernel) -> (instances, kernels, total, median, min, max)."""
        durations: dict[Any, list[int]] = defaultdict(list)
        instances: dict[Any, set[int]] = defaultdict(set)
        for op, outcome in zip(self.program.ops, self.outcomes, strict=True):
            if op.kind != "kernel":
                continue
            for key in {self.name_key(r) for r in outcome.claimed_by}:
                durations[(*key, op.name)].append(op.end - op.start)
            for r in outcome.claimed_by:
                instances[(*self.name_key(r), op.name)].add(r.row)
            if outcome.rule == "outside":
                assert outcome.launch is not None
                key = (outcome.launch.thread, ("", "", ""), op.name)
                durations[key].append(op.end - op.start)
        return {
            key: (len(instances[key]), len(d), sum(d), median(d), min(d), max(d))
            for key, d in durations.items()
        }

    def instance_totals(self) -> dict[int, tuple[int, int]]:
        """Row of a range -> (kernels, GPU ns) of everything it claims."""
        out = {r.row: (0, 0) for r in self.program.ranges}
        for op, outcome in zip(self.program.ops, self.outcomes, strict=True):
            for r in set(outcome.claimed_by):
                number, ns = out[r.row]
                out[r.row] = (number + (op.kind == "kernel"), ns + op.end - op.start)
        return out
