# SPDX-License-Identifier: MIT
"""What a Selection keeps, by loops over the brute-force attribution; shares no code with select."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

from reference import Launch, Op, Outcome, Program, Range, Reference, contains

from harness.selection import Selection


class Selected:
    """``ops`` and ``ranges`` are the rows kept of the program; ``wanted`` the attribution used."""

    def __init__(self, program: Program, policy: str, selection: Selection) -> None:
        self.program, self.selection, self.whole = program, selection, program
        self.wanted = Reference(program, policy)
        self.ops = {op.row for op in program.ops}
        self.ranges = {r.row for r in program.ranges}
        #: What each part of the selection hid: ops and their time.
        self.hidden: list[tuple[int, int]] = []
        if selection.domains:
            self.step(lambda: self.only_domains(program, policy))
        if selection.pids:
            self.step(self.only_processes)
        if selection.time is not None:
            low, high = selection.time
            self.step(lambda: self.only_time(low, high))
        if selection.devices:
            self.step(lambda: self.keep(lambda op: op.device in selection.devices))
        if (kernel := selection.kernel) is not None:
            self.step(
                lambda: self.keep(
                    lambda op: op.kind == "kernel" and re.search(kernel, op.name) is not None
                )
            )
        if (name := selection.range) is not None:
            self.step(lambda: self.only_ranges(name))
        if selection.skip or selection.steady:
            self.step(lambda: self.warm_up(selection.skip))

    def step(self, part: Callable[[], None]) -> None:
        before = set(self.ops)
        part()
        gone = [op for op in self.program.ops if op.row in before - self.ops]
        self.hidden.append((len(gone), sum(op.end - op.start for op in gone)))

    def keep(self, wanted: Callable[[Op], bool]) -> None:
        self.ops -= {op.row for op in self.program.ops if not wanted(op)}

    def pairs(self) -> list[tuple[Op, Outcome]]:
        return list(zip(self.program.ops, self.wanted.outcomes, strict=True))

    def only_domains(self, program: Program, policy: str) -> None:
        before = self.wanted
        kept = [r for r in program.ranges if r.domain in self.selection.domains]
        self.program = replace(program, ranges=kept)
        self.wanted = Reference(self.program, policy)
        self.ranges = {r.row for r in kept}
        for op, old, new in zip(program.ops, before.outcomes, self.wanted.outcomes, strict=True):
            if new.rule == "outside" and old.rule != "outside":
                self.ops.discard(op.row)

    def only_processes(self) -> None:
        named = {thread.process for thread in self.program.threads}
        processes = {pid - 1000 for pid in self.selection.pids} & named
        self.ops -= {op.row for op in self.program.ops if op.process not in processes}
        self.ranges -= {
            r.row for r in self.program.ranges if self.wanted.process(r.thread) not in processes
        }

    def only_time(self, low: int | None, high: int | None) -> None:
        whole = self.whole  # a window does not move when domains are chosen
        everything: list[Range | Launch | Op] = [*whole.ranges, *whole.launches, *whole.ops]
        zero = min((one.start for one in everything), default=0)
        for op, outcome in self.pairs():
            queued = (outcome.launch or op).start - zero
            if (low is not None and queued < low) or (high is not None and queued >= high):
                self.ops.discard(op.row)
        for r in self.program.ranges:
            ended = low is not None and r.end - zero < low
            if ended or (high is not None and r.start - zero >= high):
                self.ranges.discard(r.row)

    def only_ranges(self, pattern: str) -> None:
        matching = {r.row for r in self.program.ranges if re.search(pattern, r.name)}
        started = [
            r
            for r in self.program.ranges
            if r.style == "start_end" and r.row in matching & self.ranges
        ]
        kept = set()
        for r in self.program.ranges:
            if r.row in matching or any(q.row in matching for q in self.around(r)):
                kept.add(r.row)
            for s in started:
                scope = s.thread == r.thread
                if self.wanted.policy == "process":
                    scope = self.wanted.process(s.thread) == self.wanted.process(r.thread)
                if scope and r.style == "push_pop" and contains(s, r.start, r.end):
                    kept.add(r.row)
        for op, outcome in self.pairs():
            chain = [r for r in outcome.claimed_by if r.style == "push_pop"]
            others = [r for r in outcome.claimed_by if r.style == "start_end"]
            by_start_end = any(r.row in matching & self.ranges for r in others)
            nested = [q for r in chain for q in [r, *self.around(r)]]
            if not by_start_end and not any(r.row in matching for r in nested):
                self.ops.discard(op.row)
            elif op.row in self.ops and outcome.self_range is not None:
                kept.add(outcome.self_range.row)
        self.ranges &= kept

    def around(self, r: Range) -> list[Range]:
        """The push/pop ranges that ``r`` is nested in: its thread's, those it inherits, and those
        that the ranges around it inherit (another thread may have opened one since: then ``r``
        alone could belong to either, and inherits nothing).
        """
        if r.style == "start_end":
            return []
        own = [
            q
            for q in self.wanted.open_on(r.thread, "push_pop", r.start, r.end)
            if (q.start, -q.end, q.row) < (r.start, -r.end, r.row)
        ]
        out = list(own)
        for one in [*own, r]:
            caller, _ = self.wanted.caller(one.thread, one.start, one.end)
            if caller is not None:
                out += self.wanted.open_on(caller, "push_pop", one.start, one.end)
        return out

    def warm_up(self, number: int) -> None:
        groups: dict[Any, list[Range]] = defaultdict(list)
        for r in self.program.ranges:
            groups[self.wanted.path_key(r)].append(r)
        first: set[int] = set()
        for members in groups.values():
            members.sort(key=lambda r: (r.start, r.row))
            early = max(number, self.unsettled(members) if self.selection.steady else 0)
            first |= {r.row for r in members[:early]}
        gone = {
            r.row
            for r in self.program.ranges
            if r.row in first or any(q.row in first for q in self.around(r))
        }
        self.ranges -= gone
        for op, outcome in self.pairs():
            chain = [r for r in outcome.claimed_by if r.style == "push_pop"]
            last = [] if chain or outcome.self_range is None else [outcome.self_range]
            if any(r.row in gone for r in chain + last):
                self.ops.discard(op.row)

    def unsettled(self, members: list[Range]) -> int:
        """How many instances come before the first that is like the later half, in both times.
        Open ones have no times. What other selections hid counts too."""
        half = len(members) // 2
        closed = [place for place, r in enumerate(members) if not r.open]
        if len(members) < 4 or not [place for place in closed if place >= half]:
            return 0
        quiet = set(closed)
        for times in ([self.gpu_ns(r) for r in members], [r.end - r.start for r in members]):
            later = [times[place] for place in closed if place >= half]
            middle = median(later)
            deviation = 1.4826 * median([abs(ns - middle) for ns in later])
            bound = middle + max(0.1 * middle, 5 * deviation)
            quiet -= {place for place, ns in enumerate(times) if ns > bound}
        return min(min(quiet, default=0), half)

    def gpu_ns(self, r: Range) -> int:
        """Of everything the range claims in the whole recording."""
        return sum(
            op.end - op.start
            for op, outcome in self.pairs()
            if r.row in {q.row for q in outcome.claimed_by}
        )

    def self_ns(self) -> dict[Any, int]:
        """(pid, path names, domain, style) -> self time of the ops kept."""
        out: dict[Any, int] = defaultdict(int)
        for op, outcome in self.pairs():
            r = outcome.self_range
            if op.row in self.ops and r is not None:
                path = self.wanted.range_path(r)
                names = tuple(label[1] for label in path)
                key = (1000 + self.wanted.process(r.thread), names, r.domain, r.style)
                out[key] += op.end - op.start
        return {key: ns for key, ns in out.items() if ns}
