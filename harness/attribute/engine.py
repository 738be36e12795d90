# SPDX-License-Identifier: MIT
"""The attribution itself: from a Trace to one self row, one path and one rule an op."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.attribute.arrays import Ints, Mask, Positions, numbered, together
from harness.attribute.graph_warnings import GraphFacts, capture_warnings
from harness.attribute.ledger import Ledger
from harness.attribute.link import link
from harness.attribute.naming import CallerFinder, Labels, Nest, name_ranges
from harness.attribute.nesting import Forest, Located, Pairs
from harness.attribute.policy import StartEnd, start_end_claims
from harness.attribute.shared_device import SharedDevices
from harness.errors import UsageProblem
from harness.trace import POLICIES, STYLES, Trace, Warning_
from harness.words import agree, plural

#: Codes of ``Attribution.rule``.
RULES = ("thread", "autograd", "process", "outside", "unlinked")
THREAD, AUTOGRAD, PROCESS, OUTSIDE, UNLINKED = range(5)

Codes = npt.NDArray[Any]


@dataclass(frozen=True)
class Contexts:
    """Distinct (own, inherited) lineages; ``of_op`` is -1 where no push/pop range claims the op."""

    of_op: Ints
    own: Ints
    inherited: Ints


@dataclass(frozen=True)
class Attribution:
    """Where every GPU op of ``trace`` went under ``policy``. Arrays have one entry an op.

    ``own`` and ``inherited`` are lineages (nodes of ``nest.lineages``, -1: none) of the push/pop
    ranges that claim the op on its own thread and on the one that called backward; ``claims``
    pairs ops with the start/end ranges (rows of ``start_end``) that claim them.
    """

    trace: Trace
    policy: str
    labels: Labels
    nest: Nest
    processes: Ints  # process code -> process
    thread_process: Codes  # thread -> process code
    start_end: StartEnd
    start_end_rows: Ints  # row of trace.ranges
    launch: Positions  # row of trace.launches, -1: unlinked
    own: Codes
    own_leaf: Located  # positions, for the ops in order
    inherited: Codes
    inherited_leaf: Located
    claims: Pairs
    last_opened: Codes  # start/end range opened last where no push/pop range claims; -1: none
    rule: npt.NDArray[np.int8]
    ambiguous: Mask
    keep_op: Mask | None = None  # a selection; None keeps all
    keep_range: Mask | None = None  # by row of trace.ranges
    keep_lineage: Mask | None = None  # by node of nest.lineages: rows a selection still shows
    notes: tuple[Warning_, ...] = ()

    @cached_property
    def duration(self) -> Ints:
        """Device time of each op, ns."""
        ops = self.trace.gpu_ops
        return np.asarray(ops["end"].to_numpy() - ops["start"].to_numpy())

    @cached_property
    def ledger(self) -> Ledger:
        """The balanced ledger; raises LedgerBroken if it is not."""
        duration, rule = self.duration, self.rule
        keep = np.ones(len(rule), dtype=bool) if self.keep_op is None else self.keep_op
        ns = [int(duration[keep & (rule == code)].sum()) for code in range(5)]
        ops = [int((keep & (rule == code)).sum()) for code in range(5)]
        unsure = self.ambiguous & keep
        kernel = (self.trace.gpu_ops["kind"] == "kernel").to_numpy()
        outside = keep & (rule == OUTSIDE) & kernel
        return Ledger(
            gpu_ops=len(rule),
            gpu_ns=int(duration.sum()),
            attributed_ns=int(duration[keep & self._has_row].sum()),
            outside_ns=ns[OUTSIDE],
            unlinked_ns=ns[UNLINKED],
            by_rule=dict(zip(RULES[:3], ns[:3], strict=True)),
            attributed_ops=int((keep & self._has_row).sum()),
            outside_ops=ops[OUTSIDE],
            unlinked_ops=ops[UNLINKED],
            hidden_ops=int((~keep).sum()),
            hidden_ns=int(duration[~keep].sum()),
            ops_by_rule=dict(zip(RULES[:3], ops[:3], strict=True)),
            ambiguous_ops=int(unsure.sum()),
            ambiguous_ns=int(duration[unsure].sum()),
            outside_kernels=int(outside.sum()),
            outside_kernel_ns=int(duration[outside].sum()),
        ).check(self.trace.source.path)

    @cached_property
    def contexts(self) -> Contexts:
        """The distinct sets of push/pop ranges around ops."""
        if bool((self.inherited < 0).all()):
            own, of_op = numbered(self.own)
            none = int(len(own) > 0 and own[0] < 0)
            return Contexts(of_op - none, own[none:], np.full(len(own) - none, -1))
        stride = self.nest.lineages.size + 1
        keys = (self.own.astype(np.int64) + 1) * stride + self.inherited + 1
        keys, of_op = numbered(keys)
        none = int(len(keys) > 0 and keys[0] == 0)
        keys = keys[none:]
        return Contexts(of_op - none, keys // stride - 1, keys % stride - 1)

    @cached_property
    def path_node(self) -> Ints:
        """Node of ``nest.paths`` of each op: what it inherits, then its own; -1 for none."""
        process = (
            self.thread_process[self.launching_thread]
            if len(self.thread_process)
            else (self.own_leaf.leaf)
        )
        own = self.nest.path_of(self.own_leaf, process).astype(np.int64)
        inherited = self.nest.path_of(self.inherited_leaf, process).astype(np.int64)
        path = np.where(own >= 0, own, inherited)
        both = np.flatnonzero((own >= 0) & (inherited >= 0))
        path[both] = self.nest.paths.graft(inherited[both], own[both])
        return path

    @property
    def _has_row(self) -> Mask:
        return (self.own >= 0) | (self.inherited >= 0) | (self.last_opened >= 0)

    @property
    def launching_thread(self) -> Ints:
        """Row of ``trace.threads`` for each op, -1: unlinked."""
        thread = self.trace.launches["thread"].to_numpy()
        if not len(thread):
            return np.full(len(self.launch), -1)
        return np.where(self.launch >= 0, thread[self.launch], -1)

    @cached_property
    def warnings(self) -> tuple[Warning_, ...]:
        """What the reader warned of, then what attribution found."""
        found = [
            *self.trace.warnings,
            *self.graph_facts.warnings(),
            *capture_warnings(self.trace),
            *self._shared.warnings(),
            *self.notes,
            *ambiguous_warnings(self.ledger, self.ambiguous_threads),
        ]
        return tuple(found)

    @property
    def _shared(self) -> SharedDevices:
        found = SharedDevices()
        found.add(self.trace)
        return found

    @property
    def graph_facts(self) -> GraphFacts:
        return GraphFacts.of(self.trace, self.rule == UNLINKED)

    @property
    def ambiguous_threads(self) -> set[str]:
        """Names (or ids) of the threads that launched ambiguous ops."""
        threads = self.trace.threads
        rows = np.unique(self.launching_thread[self.ambiguous])
        return {str(threads["name"].iat[r] or threads["tid"].iat[r]) for r in rows}

    def select(self, keep_op: Mask, keep_range: Mask | None, note: Warning_) -> Attribution:
        """The same attribution with only some ops and ranges; the ledger says what is hidden."""
        if self.keep_op is not None:
            keep_op = keep_op & self.keep_op
        if keep_range is None:
            keep_range = self.keep_range
        elif self.keep_range is not None:
            keep_range = keep_range & self.keep_range
        claims = self.claims
        if keep_range is not None and len(claims.query):
            kept = keep_range[self.start_end_rows[claims.position]]
            claims = Pairs(claims.query[kept], claims.position[kept])
        return replace(
            self,
            keep_op=keep_op,
            keep_range=keep_range,
            claims=claims,
            notes=(*self.notes, note),
        )


def ambiguous_warnings(ledger: Ledger, threads: set[str]) -> Iterator[Warning_]:
    """Of backward ops that could belong to several threads; launched by ``threads``."""
    number = ledger.ambiguous_ops
    if number:
        names = sorted(threads)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield Warning_(
            "ambiguous-backward",
            f"{plural(number, 'GPU op')} ({ledger.ambiguous_ns} ns) launched by "
            f"{', '.join(names[:3])}{more} could belong to more than one thread that had a range "
            f"open; {agree(number, 'it inherits', 'they inherit')} nothing",
            "Open ranges on one thread only while backward runs, or read --policy thread.",
        )


def attribute(trace: Trace, policy: str = "autograd") -> Attribution:
    """Attribute every GPU op of ``trace``; ``policy`` is thread, autograd or process."""
    if policy not in POLICIES:
        raise UsageProblem(
            f"unknown policy {policy!r}", hint=f"Choose one of {', '.join(POLICIES)}."
        )
    threads = len(trace.threads)
    codes, processes = pd.factorize(trace.threads["process"].to_numpy())
    labels = Labels.of(trace.ranges)
    push_pop, start_end_rows = _by_style(trace.ranges)
    start_end = _start_end(trace.ranges, start_end_rows, codes)
    forest, (launch, (thread, start, end)) = together(
        lambda: Forest.build(*_columns(trace.ranges, push_pop), threads), lambda: _calls(trace)
    )

    autograd = (
        trace.threads["autograd"].to_numpy() if policy != "thread" else np.zeros(threads, bool)
    )
    finder = CallerFinder(forest, start_end, codes, autograd)
    own_at, nest = together(
        lambda: forest.locate(thread, start, end),
        lambda: name_ranges(forest, push_pop[forest.rows], labels, codes, len(processes), finder),
    )
    callers = finder.find(thread, start, end)
    inherited_at = forest.locate(callers.thread, start, end)
    process = np.where(thread >= 0, codes[thread], -1) if threads else thread
    claims = start_end_claims(start_end, policy, process, thread, callers.thread, start, end)
    last_opened = _last_opened(claims, start_end, len(thread))
    has_own, has_inherited = own_at.leaf >= 0, inherited_at.leaf >= 0
    rule = _rules(has_own, has_inherited, last_opened, start_end, thread, callers.thread)
    rule[thread < 0] = UNLINKED
    last_opened[has_own | has_inherited] = -1
    return Attribution(
        trace=trace,
        policy=policy,
        labels=labels,
        nest=nest,
        processes=np.asarray(processes, dtype=np.int64),
        thread_process=codes,
        start_end=start_end,
        start_end_rows=start_end_rows,
        launch=launch,
        own=nest.lineage_of(own_at, thread),
        own_leaf=own_at,
        inherited=nest.lineage_of(inherited_at, callers.thread),
        inherited_leaf=inherited_at,
        claims=claims,
        last_opened=last_opened,
        rule=rule,
        ambiguous=callers.ambiguous,
    )


def _calls(trace: Trace) -> tuple[Positions, tuple[Codes, Ints, Ints]]:
    """Each op's launch, and that call's thread (-1: unlinked), start and end."""
    launch = link(trace)
    if not len(trace.launches):
        nowhen = np.zeros(len(launch), np.int64)
        return launch, (launch, nowhen, nowhen)
    thread, start, end = (trace.launches[c].to_numpy()[launch] for c in ("thread", "start", "end"))
    thread[launch < 0] = -1
    return launch, (thread, start, end)


def _by_style(ranges: pd.DataFrame) -> tuple[Ints, Ints]:
    style = ranges["style"].cat
    unknown = set(style.categories) - set(STYLES)
    if unknown:
        raise ValueError(f"range styles {sorted(unknown)} are not {STYLES}")
    codes = style.codes.to_numpy()
    code = {name: i for i, name in enumerate(style.categories)}
    push_pop = np.flatnonzero(codes == code.get("push_pop", -2))
    return push_pop, np.flatnonzero(codes == code.get("start_end", -2))


def _columns(frame: pd.DataFrame, rows: Ints) -> tuple[Codes, Ints, Ints]:
    thread, start, end = (frame[c].to_numpy() for c in ("thread", "start", "end"))
    if len(rows) == len(frame):
        return thread, start, end  # rows are always ascending: all of them
    return thread[rows], start[rows], end[rows]


def _start_end(ranges: pd.DataFrame, rows: Ints, codes: Codes) -> StartEnd:
    thread, start, end = _columns(ranges, rows)
    return StartEnd(codes[thread], thread, start, end)


def _last_opened(claims: Pairs, ranges: StartEnd, ops: int) -> Codes:
    """Of each op's start/end ranges the one opened last (of equal starts, the later row)."""
    last = np.full(ops, -1, np.int32)
    order = np.lexsort((claims.position, ranges.start[claims.position]))
    last[claims.query[order]] = claims.position[order]
    return last


def _rules(
    has_own: Mask,
    has_inherited: Mask,
    last_opened: Ints,
    ranges: StartEnd,
    thread: Codes,
    caller: Ints,
) -> npt.NDArray[np.int8]:
    rule = np.full(len(has_own), OUTSIDE, np.int8)
    at = np.flatnonzero(last_opened >= 0)
    opener = ranges.thread[last_opened[at]]
    rule[at] = np.where(
        opener == thread[at], THREAD, np.where(opener == caller[at], AUTOGRAD, PROCESS)
    )
    rule[has_own] = THREAD
    rule[has_inherited] = AUTOGRAD
    return rule
