# SPDX-License-Identifier: MIT
"""The attribution itself: from a Trace to one self row, one path and one rule an op."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.attribute.arrays import Ints, Mask, numbered
from harness.attribute.ledger import Ledger
from harness.attribute.link import link
from harness.attribute.nesting import Forest, Located, Pairs
from harness.attribute.paths import PathTree
from harness.attribute.policy import Callers, StartEnd, find_callers, start_end_claims
from harness.errors import UsageProblem
from harness.trace import POLICIES, STYLES, Trace, Warning_

#: Codes of ``Attribution.rule``.
RULES = ("thread", "autograd", "process", "outside", "unlinked")
THREAD, AUTOGRAD, PROCESS, OUTSIDE, UNLINKED = range(5)

Codes = npt.NDArray[Any]


@dataclass(frozen=True)
class Labels:
    """What a range is called: one code a distinct (domain, name, style)."""

    of_range: Codes
    domain: npt.NDArray[np.object_]
    name: npt.NDArray[np.object_]
    style: npt.NDArray[np.object_]

    @classmethod
    def of(cls, ranges: pd.DataFrame) -> Labels:
        domain, name, style = (ranges[c].cat for c in ("domain", "name", "style"))
        names, styles = max(1, len(name.categories)), len(style.categories)
        key = domain.codes.to_numpy().astype(np.int64) * names + name.codes.to_numpy()
        key = key * max(1, styles) + style.codes.to_numpy()
        codes, values = pd.factorize(key)
        values = np.asarray(values, dtype=np.int64)
        style_at, rest = values % max(1, styles), values // max(1, styles)
        return cls(
            codes,
            np.asarray(domain.categories, dtype=object)[rest // names],
            np.asarray(name.categories, dtype=object)[rest % names],
            np.asarray(style.categories, dtype=object)[style_at],
        )

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class Nest:
    """The push/pop ranges, nested and named.

    ``path`` (one a position) is the node in ``paths`` of the range's own path, what it inherits
    included; ``lineage`` the node in ``lineages`` of the sequence of such paths around it.
    """

    forest: Forest
    rows: Ints  # position -> row of trace.ranges
    label: Codes  # by position
    paths: PathTree  # roots: processes; labels: label codes
    path: Ints
    lineages: PathTree  # roots: threads; labels: nodes of ``paths``
    lineage: Ints


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
    launch: Ints  # row of trace.launches, -1: unlinked
    own: Ints
    own_leaf: Located  # positions, for the ops in order
    inherited: Ints
    inherited_leaf: Located
    claims: Pairs
    last_opened: Ints  # start/end range opened last among the claims, -1: none
    path_node: Ints  # node of nest.paths, -1: no push/pop range
    self_node: Ints  # node of nest.paths that takes the self time, -1: not a push/pop range
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
        ).check(self.trace.source.path)

    @cached_property
    def contexts(self) -> Contexts:
        """The distinct sets of push/pop ranges around ops."""
        stride = self.nest.lineages.size + 1
        codes, keys = pd.factorize((self.own + 1) * stride + self.inherited + 1)
        keys = np.asarray(keys, dtype=np.int64)
        none = (self.own < 0) & (self.inherited < 0)
        return Contexts(np.where(none, -1, codes), keys // stride - 1, keys % stride - 1)

    @property
    def _has_row(self) -> Mask:
        return (self.self_node >= 0) | (self.last_opened >= 0)

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
        found = list(self.trace.warnings) + list(self.notes)
        if self.ledger.ambiguous_ops:
            names = _ambiguous_threads(self)
            found.append(
                Warning_(
                    "ambiguous-backward",
                    f"{self.ledger.ambiguous_ops} GPU ops ({self.ledger.ambiguous_ns} ns) launched "
                    f"by {names} could belong to more than one thread that had a range open; "
                    "they inherit nothing",
                    "Open ranges on one thread only while backward runs, or read --policy thread.",
                )
            )
        return tuple(found)

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


def _ambiguous_threads(found: Attribution) -> str:
    threads = found.trace.threads
    rows = np.unique(found.launching_thread[found.ambiguous])
    names = sorted({str(threads["name"].iat[r] or threads["tid"].iat[r]) for r in rows})
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


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
    thread, start, end = _columns(trace.ranges, push_pop)
    forest = Forest.build(thread, start, end, threads)
    rows = push_pop[forest.rows]

    launch = link(trace)
    used, at = _used(launch, len(trace.launches))
    call_thread, call_start, call_end = _columns(trace.launches, used)
    own_at = forest.locate(call_thread, call_start, call_end)

    autograd = (
        trace.threads["autograd"].to_numpy() if policy != "thread" else np.zeros(threads, bool)
    )
    finder = _CallerFinder(trace, forest, start_end, codes, autograd)
    callers = finder.find(call_thread, call_start, call_end)
    inherited_at = forest.locate(callers.thread, call_start, call_end)

    nest, named = _name(forest, rows, labels, codes, len(processes), finder)
    own_path = named.path_of(own_at, codes[call_thread])
    inherited_path = named.path_of(inherited_at, codes[call_thread])
    has_own, has_inherited = own_at.leaf >= 0, inherited_at.leaf >= 0
    path = np.where(has_own, own_path, np.where(has_inherited, inherited_path, -1))
    both = np.flatnonzero(has_own & has_inherited)
    path[both] = nest.paths.graft(inherited_path[both], own_path[both])
    leaf = np.where(has_own, own_at.leaf, inherited_at.leaf)
    self_node = np.where(leaf >= 0, nest.path[leaf] if len(nest.path) else -1, -1)

    claims = start_end_claims(
        start_end, policy, codes[call_thread], call_thread, callers.thread, call_start, call_end
    )
    last_opened = _last_opened(claims, start_end, len(used))
    rule = _rules(has_own, has_inherited, last_opened, start_end, call_thread, callers.thread)
    linked = at >= 0
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
        own=_take(named.lineage_of(own_at, call_thread), at),
        own_leaf=_take_located(own_at, at),
        inherited=_take(named.lineage_of(inherited_at, callers.thread), at),
        inherited_leaf=_take_located(inherited_at, at),
        claims=_take_pairs(claims, at, len(used)),
        last_opened=np.where(_take(self_node, at) >= 0, -1, _take(last_opened, at)),
        path_node=_take(path, at),
        self_node=_take(self_node, at),
        rule=np.where(linked, _take(rule, at), UNLINKED).astype(np.int8),
        ambiguous=np.where(linked, _take(callers.ambiguous, at), False).astype(bool),
    )


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


def _used(launch: Ints, launches: int) -> tuple[Ints, Ints]:
    """The launches that queued an op, ascending, and each op's place among them (-1: unlinked)."""
    mark = np.zeros(launches + 1, dtype=bool)
    mark[launch] = True  # -1 marks the spare last entry
    mark[-1] = False
    place = np.cumsum(mark) - 1
    return np.flatnonzero(mark), np.where(launch >= 0, place[launch], -1)


@dataclass(frozen=True)
class _CallerFinder:
    trace: Trace
    forest: Forest
    start_end: StartEnd
    codes: Codes
    autograd: Mask

    def find(self, thread: Codes, start: Ints, end: Ints) -> Callers:
        """Callers of the queries on autograd threads; all others inherit nothing."""
        out = Callers(np.full(len(thread), -1), np.zeros(len(thread), dtype=bool))
        heirs = np.flatnonzero(self.autograd[thread]) if len(thread) else np.empty(0, np.int64)
        if not len(heirs):
            return out
        # An interval inside a nested range is inside its outermost one too.
        top = np.flatnonzero((self.forest.depth == 0) & ~self.autograd[self.forest.thread])
        other = np.flatnonzero(~self.autograd[self.start_end.thread])
        threads = np.concatenate([self.forest.thread[top], self.start_end.thread[other]])
        found = find_callers(
            self.codes[threads],
            threads,
            np.concatenate([self.forest.start[top], self.start_end.start[other]]),
            np.concatenate([self.forest.end[top], self.start_end.end[other]]),
            self.codes[thread[heirs]],
            start[heirs],
            end[heirs],
        )
        out.thread[heirs] = found.thread
        out.ambiguous[heirs] = found.ambiguous
        return out


@dataclass(frozen=True)
class _Names:
    """Turns located queries into nodes of the two trees."""

    nest: Nest
    plain: Ints  # by position: the path without what an autograd thread's range inherits

    def path_of(self, located: Located, process: Codes) -> Ints:
        """Path node of each query's containers; -1 for none."""
        out = np.where(located.leaf >= 0, self.plain[located.leaf] if len(self.plain) else -1, -1)
        return self._with_pairs(out, located.pairs, self.nest.paths, process, self.nest.label)

    def lineage_of(self, located: Located, thread: Codes) -> Ints:
        """Lineage node of each query's containers; -1 for none."""
        lineage = self.nest.lineage
        out = np.where(located.leaf >= 0, lineage[located.leaf] if len(lineage) else -1, -1)
        return self._with_pairs(out, located.pairs, self.nest.lineages, thread, self.nest.path)

    @staticmethod
    def _with_pairs(out: Ints, pairs: Pairs, tree: PathTree, root: Codes, label: Codes) -> Ints:
        if len(pairs.query):
            asked, owner = numbered(pairs.query)
            out[asked] = tree.add_sequences(
                root[asked].astype(np.int64), owner, label[pairs.position].astype(np.int64)
            )
        return out


def _name(
    forest: Forest, rows: Ints, labels: Labels, codes: Codes, processes: int, finder: _CallerFinder
) -> tuple[Nest, _Names]:
    label = labels.of_range[rows].astype(np.int64)
    paths = PathTree(processes, max(1, len(labels)))
    plain = _nodes(paths, forest, codes[forest.thread].astype(np.int64), label)
    path = plain
    heirs = np.flatnonzero(finder.autograd[forest.thread]) if len(forest) else np.empty(0, int)
    lineages = PathTree(len(codes), 0)
    nest = Nest(forest, rows, label, paths, path, lineages, plain)
    if len(heirs):
        thread, start, end = forest.thread[heirs], forest.start[heirs], forest.end[heirs]
        callers = finder.find(thread, start, end)
        located = forest.locate(callers.thread, start, end)
        prefix = _Names(nest, plain).path_of(located, codes[thread])
        got = np.flatnonzero(prefix >= 0)
        path = plain.copy()
        path[heirs[got]] = paths.graft(prefix[got], plain[heirs[got]])
    # Nodes are added to ``paths`` after this; lineages only ever name nodes of ranges.
    lineages = PathTree(len(codes), max(1, paths.size))
    lineage = _nodes(lineages, forest, forest.thread.astype(np.int64), path)
    nest = Nest(forest, rows, label, paths, path, lineages, lineage)
    return nest, _Names(nest, plain)


def _nodes(tree: PathTree, forest: Forest, root: Ints, label: Ints) -> Ints:
    """Node of each position: by its chain of parents, or container by container if irregular."""
    odd = forest.irregular[forest.thread]
    if not odd.any():
        return tree.add_forest(root, forest.parent, forest.depth, label)
    regular = np.flatnonzero(~odd)
    place = np.full(len(forest) + 1, -1, np.int64)
    place[regular] = np.arange(len(regular))
    nodes = np.empty(len(forest), np.int64)
    nodes[regular] = tree.add_forest(
        root[regular], place[forest.parent[regular]], forest.depth[regular], label[regular]
    )
    at = np.flatnonzero(odd)
    owner = np.concatenate([forest.inner.query, at])
    member = np.concatenate([forest.inner.position, at])
    order = np.lexsort((member, owner))
    owner = np.searchsorted(at, owner[order])
    nodes[at] = tree.add_sequences(root[at], owner, label[member[order]])
    return nodes


def _last_opened(claims: Pairs, ranges: StartEnd, launches: int) -> Ints:
    """Of each launch's start/end ranges the one opened last (of equal starts, the later row)."""
    last = np.full(launches, -1)
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
) -> Ints:
    rule = np.full(len(has_own), OUTSIDE)
    by_start_end = last_opened >= 0
    if by_start_end.any():
        opener = ranges.thread[last_opened]
        kind = np.where(opener == thread, THREAD, np.where(opener == caller, AUTOGRAD, PROCESS))
        rule[by_start_end] = kind[by_start_end]
    rule[has_own] = THREAD
    rule[has_inherited] = AUTOGRAD
    return rule


def _take(values: npt.NDArray[Any], at: Ints) -> npt.NDArray[Any]:
    if not len(values):
        return np.full(len(at), -1)
    return np.where(at >= 0, values[at], -1)


def _take_pairs(pairs: Pairs, at: Ints, launches: int) -> Pairs:
    """Pairs of launches turned into pairs of ops (a graph launch queues many)."""
    if not len(pairs.query):
        return pairs
    by_launch = np.argsort(at, kind="stable")
    bounds = np.searchsorted(at[by_launch], np.arange(launches + 1))
    counts = (bounds[1:] - bounds[:-1])[pairs.query]
    first = bounds[:-1][pairs.query]
    owner = np.repeat(np.arange(len(pairs.query)), counts)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    op = by_launch[first[owner] + offset]
    order = np.lexsort((pairs.position[owner], op))
    return Pairs(op[order], pairs.position[owner][order])


def _take_located(located: Located, at: Ints) -> Located:
    leaf = _take(located.leaf, at).astype(np.int32)
    if not len(located.pairs.query):
        return Located(leaf, located.pairs)
    return Located(leaf, _take_pairs(located.pairs, at, len(located.leaf)))
