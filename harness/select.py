# SPDX-License-Identifier: MIT
"""Applies a Selection to an attribution: what is kept, and a note of what was left out."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness import summarise
from harness.attribute import RULES, Attribution
from harness.attribute.arrays import Ints, Mask, Positions, is_new
from harness.attribute.nesting import contained_pairs
from harness.errors import UsageProblem
from harness.measures import path_rows
from harness.selection import Selection
from harness.trace import Trace, Warning_
from harness.words import agree, plural

Floats = npt.NDArray[np.float64]

#: A path has settled when its GPU and CPU times stay within this share, or this many robust
#: deviations, above the median of its later half.
_SETTLED_SHARE = 0.10
_SETTLED_DEVIATIONS = 5.0


def apply(found: Attribution, selection: Selection) -> Attribution:
    """``found`` with only what ``selection`` keeps; the ledger counts the rest as hidden.

    Domains are chosen before attribution: ops under a range of another domain go to the nearest
    range that is left, and are hidden where none is. Raises UsageProblem for a bad regular
    expression.
    """
    recording = found.trace
    if selection.domains:
        found = _only_domains(found, selection.domains)
    whole = found
    if selection.pids:
        found = _only_processes(found, selection.pids)
    if selection.time is not None:
        found = _only_time(found, _first_event(recording), *selection.time)
    if selection.devices:
        keep = np.isin(found.trace.gpu_ops["device"].to_numpy(), selection.devices)
        found = _ops(found, keep, f"device {', '.join(map(str, selection.devices))}")
    if selection.kernel is not None:
        found = _ops(found, _kernels(found, selection.kernel), f"kernels ~ {selection.kernel}")
    if selection.range is not None:
        found = _only_ranges(found, selection.range)
    if selection.skip or selection.steady:
        found = _without_warm_up(found, whole, selection)
    return found


def _only_domains(found: Attribution, domains: tuple[str, ...]) -> Attribution:
    ranges = found.trace.ranges
    keep = ranges["domain"].isin(domains).to_numpy()
    trace = replace(found.trace, ranges=ranges[keep].reset_index(drop=True))
    again = replace(trace.attribute(found.policy), notes=found.notes)
    outside = RULES.index("outside")
    lost = (again.rule == outside) & (found.rule != outside)
    what = ", ".join(name or "(default)" for name in domains)
    return _keep(
        again, ~lost, None, f"{int(keep.sum())} of {plural(len(keep), 'range')}, domain {what}"
    )


def _only_processes(found: Attribution, pids: tuple[int, ...]) -> Attribution:
    threads = found.trace.threads
    kept = threads["pid"].isin(pids).to_numpy()
    processes = threads["process"].to_numpy()[kept]
    process = found.trace.gpu_ops["process"].to_numpy()
    # A process of which only GPU ops were recorded has no thread to name it.
    unnamed = ~np.isin(process, threads["process"].to_numpy())
    keep_op = np.isin(process, processes) | (unnamed & np.isin(process & 0xFFFFFF, pids))
    keep_range = kept[found.trace.ranges["thread"].to_numpy()]
    return _keep(found, keep_op, keep_range, f"pid {', '.join(map(str, pids))}")


def _first_event(recording: Trace) -> int:
    """When the first range, launch or GPU op began: of whatever domain, so that a window is the
    same with ``--domain`` and without."""
    frames = (recording.ranges, recording.launches, recording.gpu_ops)
    return int(min((frame["start"].min() for frame in frames if len(frame)), default=0))


def _only_time(found: Attribution, zero: int, low: int | None, high: int | None) -> Attribution:
    """Ops queued in [low, high) ns after ``zero``, and the ranges that overlap it."""
    trace = found.trace
    first = -np.inf if low is None else zero + low
    last = np.inf if high is None else zero + high
    queued = trace.gpu_ops["start"].to_numpy().copy()
    linked = found.launch >= 0
    queued[linked] = trace.launches["start"].to_numpy()[found.launch[linked]]
    start, end = (trace.ranges[c].to_numpy() for c in ("start", "end"))
    span = f"{0 if low is None else low} ns to {'the end' if high is None else f'{high} ns'}"
    return _keep(
        found,
        (queued >= first) & (queued < last),
        (start < last) & (end >= first),
        f"time {span}",
    )


def _kernels(found: Attribution, pattern: str) -> Mask:
    search = _regex(pattern).search
    ops = found.trace.gpu_ops
    keep = np.zeros(len(ops), dtype=bool)
    for column in ("name", "demangled"):
        text = ops[column].cat
        hit = np.array([search(str(name)) is not None for name in text.categories], dtype=bool)
        if len(hit):
            keep |= hit[text.codes.to_numpy()]
    return keep & (ops["kind"] == "kernel").to_numpy()


def _only_ranges(found: Attribution, pattern: str) -> Attribution:
    """Ranges whose name matches, and all that is nested in them or, if start/end, in their time."""
    search = _regex(pattern).search
    hit = np.array([search(str(name)) is not None for name in found.labels.name], dtype=bool)
    hit = np.append(hit, False)  # roots have label -1
    nest = found.nest
    inside = hit[nest.paths.label]
    for node in _by_level(nest.paths.level):
        inside[node] |= inside[np.maximum(nest.paths.parent[node], 0)]
    kept_lineage = np.append(inside, False)[nest.lineages.label]
    for node in _by_level(nest.lineages.level):
        kept_lineage[node] |= kept_lineage[np.maximum(nest.lineages.parent[node], 0)]
    keep_range = np.zeros(len(found.trace.ranges), dtype=bool)
    keep_range[nest.rows] = inside[nest.path] | kept_lineage[nest.lineage]
    keep_range[found.start_end_rows] = hit[found.labels.of_range[found.start_end_rows]]
    lineages = np.append(kept_lineage, False)  # -1: none
    keep_op = lineages[found.own] | lineages[found.inherited]
    claimed = keep_range[found.start_end_rows][found.claims.position]
    claimed = found.claims.query[claimed]
    keep_op[claimed] = True
    keep_range[nest.rows[_within_start_end(found, keep_range[found.start_end_rows])]] = True
    # The range that has an op's self time may lie beside the match: start/end, or crossing it.
    shown = keep_op if found.keep_op is None else keep_op & found.keep_op
    leaf = np.where(found.own_leaf.leaf >= 0, found.own_leaf.leaf, found.inherited_leaf.leaf)[shown]
    keep_range[nest.rows[leaf[leaf >= 0]]] = True
    last = found.last_opened[shown]
    keep_range[found.start_end_rows[last[last >= 0]]] = True
    side = np.where(found.own >= 0, found.own, found.inherited)[shown]
    kept_lineage[side[side >= 0]] = True
    kept_lineage[nest.lineage[keep_range[nest.rows]]] = True
    kept = _keep(found, keep_op, keep_range, f"ranges ~ {pattern}")
    return replace(kept, keep_lineage=kept_lineage)


def _within_start_end(found: Attribution, chosen: Mask) -> Mask:
    """Push/pop ranges (by position) that lie in a chosen start/end range which, by the policy,
    claims what their thread launches."""
    forest, ranges = found.nest.forest, found.start_end
    out = np.zeros(len(forest), dtype=bool)
    at = np.flatnonzero(chosen)
    if not len(at) or not len(forest):
        return out
    scope, own = ranges.thread, forest.thread
    if found.policy == "process":
        scope, own = ranges.process, found.thread_process[forest.thread]
    pairs = contained_pairs(
        scope[at], ranges.start[at], ranges.end[at], own, forest.start, forest.end
    )
    out[pairs.query] = True
    return out


def _by_level(level: Ints | Positions) -> list[Ints]:
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(1, int(level.max(initial=0)) + 2))
    return [order[a:b] for a, b in itertools.pairwise(bounds)]


def _without_warm_up(found: Attribution, whole: Attribution, selection: Selection) -> Attribution:
    """Leaves out the first instances of each path, all nested in them and all they launched.

    Which those are depends on the ``whole`` recording, not on what else was selected.
    """
    table = summarise.instance_table(whole)
    group, rank = _rank_in_path(found, table)
    first = np.full(int(group.max(initial=-1)) + 1, selection.skip)
    if selection.steady:
        first = np.maximum(first, _settled(table, group))
    early = rank < first[group] if len(group) else np.zeros(0, dtype=bool)
    around = _inside(found, early)
    dropped = early.copy()
    dropped[found.nest.rows] = around
    keep_op = ~_touches(found, dropped, around)
    what = f"the first {plural(selection.skip, 'instance')} of each path"
    if selection.steady:
        settled = int((first > selection.skip).sum())
        also = f"{what} and those" if selection.skip else "instances"
        of = f"{settled} of {plural(len(first), 'path')}"
        what = f"{also} before each path settles ({of} had a warm-up)"
    shown = np.ones(len(dropped), dtype=bool) if found.keep_range is None else found.keep_range
    what += f", {int((shown & dropped).sum())} of {plural(int(shown.sum()), 'range')}"
    return _keep(found, keep_op, ~dropped, what, left_out=True)


def _rank_in_path(found: Attribution, table: pd.DataFrame) -> tuple[Ints, Ints]:
    """For each range (by row) its group of same process and path, and its place there in time."""
    group = path_rows(found).of_range
    order = np.lexsort((table["start_ns"].to_numpy(), group))
    ordered = group[order]
    begin = np.flatnonzero(is_new(ordered)) if len(ordered) else np.empty(0, np.int64)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(begin, np.diff(np.append(begin, len(order))))
    return np.asarray(group, dtype=np.int64), rank


def _settled(table: pd.DataFrame, group: Ints) -> Ints:
    """Number of leading instances of each group that stand out above its later half."""
    out = np.zeros(int(group.max(initial=-1)) + 1, np.int64)
    order = np.lexsort((table["start_ns"].to_numpy(), group))
    bounds = np.append(np.flatnonzero(is_new(group[order])), len(order)) if len(order) else [0]
    closed = ~table["open"].to_numpy()
    measured = [table[name].to_numpy().astype(float) for name in ("total_gpu_ns", "cpu_ns")]
    for at in range(len(out)):  # a round a path, not a range
        rows = order[bounds[at] : bounds[at + 1]]
        out[at] = _leading(closed[rows], [values[rows] for values in measured])
    return out


def _leading(closed: Mask, times: list[Floats]) -> int:
    """Instances before the first that is like the later half; open ones have no times."""
    half = len(closed) // 2
    if len(closed) < 4 or not closed[half:].any():
        return 0
    quiet = closed.copy()
    for values in times:
        later = values[half:][closed[half:]]
        middle = np.median(later)
        spread = 1.4826 * np.median(np.abs(later - middle))
        quiet &= values <= middle + max(_SETTLED_SHARE * middle, _SETTLED_DEVIATIONS * spread)
    first = np.flatnonzero(quiet)
    return min(int(first[0]) if len(first) else 0, half)


def _inside(found: Attribution, dropped: Mask) -> Mask:
    """Push/pop ranges (by position) that are dropped, or lie in one that is."""
    forest = found.nest.forest
    gone = dropped[found.nest.rows]
    around = _spread_down(found, gone)
    # An autograd thread's ranges lie in those of the one thread that called backward.
    inherits = (
        found.nest.paths.level[found.nest.path] > found.nest.lineages.level[found.nest.lineage]
    )
    heirs, others = np.flatnonzero(inherits), np.flatnonzero(gone)
    autograd = found.trace.threads["autograd"].to_numpy()
    others = others[~autograd[forest.thread[others]]]
    if len(heirs) and len(others):
        process = found.thread_process[forest.thread]
        pairs = contained_pairs(
            process[others], forest.start[others], forest.end[others],
            process[heirs], forest.start[heirs], forest.end[heirs],
        )  # fmt: skip
        around[heirs[pairs.query]] = True
        around = _spread_down(found, around)
    return around


def _spread_down(found: Attribution, marked: Mask) -> Mask:
    """Marked positions and all that lie in one."""
    forest = found.nest.forest
    out = marked.copy()
    for at in _by_level(forest.depth):
        out[at] |= out[forest.parent[at]]
    np.logical_or.at(out, forest.inner.query, marked[forest.inner.position])
    return out


def _touches(found: Attribution, dropped: Mask, around: Mask) -> Mask:
    """Ops that a dropped push/pop range claims, or that have nothing but a dropped start/end."""
    listed = np.append(around, False)
    out = np.zeros(len(found.launch), dtype=bool)
    for located in (found.own_leaf, found.inherited_leaf):
        out |= listed[located.leaf]
        np.logical_or.at(out, located.pairs.query, around[located.pairs.position])
    last = np.append(dropped[found.start_end_rows], False)
    out |= last[found.last_opened]
    return out


def _ops(found: Attribution, keep: Mask, what: str) -> Attribution:
    return _keep(found, keep, None, what)


def _keep(
    found: Attribution,
    keep_op: Mask,
    keep_range: Mask | None,
    what: str,
    left_out: bool = False,
) -> Attribution:
    hidden = ~keep_op if found.keep_op is None else found.keep_op & ~keep_op
    ns = int(found.duration[hidden].sum())
    verb = "left out" if left_out else "kept only"
    number = int(hidden.sum())
    are = agree(number, "is", "are")
    note = Warning_(
        "selection", f"{verb} {what}: {plural(number, 'GPU op')} ({ns} ns) {are} hidden"
    )
    return found.select(keep_op, keep_range, note)


def _regex(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageProblem(
            f"{pattern!r} is not a regular expression: {error}",
            hint="Escape special characters with a backslash.",
        ) from None
