# SPDX-License-Identifier: MIT
"""Applies a Selection to an attribution: what is kept, and a note of what was left out."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pandas as pd

from harness import summarise
from harness.attribute import Attribution
from harness.attribute.arrays import Ints, Mask, is_new
from harness.errors import UsageProblem
from harness.selection import Selection
from harness.trace import Warning_

#: A path has settled when its GPU and CPU times stay within this share, or this many robust
#: deviations, above the median of its later half.
_SETTLED_SHARE = 0.10
_SETTLED_DEVIATIONS = 5.0


def apply(found: Attribution, selection: Selection) -> Attribution:
    """``found`` with only what ``selection`` keeps; the ledger counts the rest as hidden.

    Domains are chosen before attribution: ops under a range of another domain go to the nearest
    range that is left. Raises UsageProblem for a bad regular expression.
    """
    if selection.domains:
        found = _only_domains(found, selection.domains)
    if selection.pids:
        found = _only_processes(found, selection.pids)
    if selection.time is not None:
        found = _only_time(found, *selection.time)
    if selection.devices:
        keep = np.isin(found.trace.gpu_ops["device"].to_numpy(), selection.devices)
        found = _ops(found, keep, f"device {', '.join(map(str, selection.devices))}")
    if selection.kernel is not None:
        found = _ops(found, _kernels(found, selection.kernel), f"kernels ~ {selection.kernel}")
    if selection.range is not None:
        found = _only_ranges(found, selection.range)
    if selection.skip or selection.steady:
        found = _without_warm_up(found, selection)
    return found


def _only_domains(found: Attribution, domains: tuple[str, ...]) -> Attribution:
    ranges = found.trace.ranges
    keep = ranges["domain"].isin(domains).to_numpy()
    note = Warning_(
        "selection",
        f"kept {int(keep.sum())} of {len(keep)} ranges: domain "
        + ", ".join(name or "(default)" for name in domains),
    )
    trace = replace(found.trace, ranges=ranges[keep].reset_index(drop=True))
    again = trace.attribute(found.policy)
    return replace(again, notes=(*found.notes, note))


def _only_processes(found: Attribution, pids: tuple[int, ...]) -> Attribution:
    threads = found.trace.threads
    kept = threads["pid"].isin(pids).to_numpy()
    processes = threads["process"].to_numpy()[kept]
    keep_op = np.isin(found.trace.gpu_ops["process"].to_numpy(), processes)
    keep_range = kept[found.trace.ranges["thread"].to_numpy()]
    return _keep(found, keep_op, keep_range, f"pid {', '.join(map(str, pids))}")


def _only_time(found: Attribution, low: int | None, high: int | None) -> Attribution:
    """Ops queued in [low, high) ns after the first event, and the ranges that overlap it."""
    trace = found.trace
    begins = [f["start"].min() for f in (trace.ranges, trace.launches, trace.gpu_ops) if len(f)]
    zero = int(min(begins, default=0))
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
    """Ranges whose name matches, and all that is nested in them."""
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
    keep_op[found.claims.query] |= keep_range[found.start_end_rows][found.claims.position]
    kept = _keep(found, keep_op, keep_range, f"ranges ~ {pattern}")
    return replace(kept, keep_lineage=kept_lineage)


def _by_level(level: Ints) -> list[Ints]:
    order = np.argsort(level, kind="stable")
    bounds = np.searchsorted(level[order], np.arange(1, int(level.max(initial=0)) + 2))
    return [order[a:b] for a, b in itertools.pairwise(bounds)]


def _without_warm_up(found: Attribution, selection: Selection) -> Attribution:
    table = summarise.instance_table(found)
    group, rank = _rank_in_path(table)
    first = np.full(int(group.max(initial=-1)) + 1, selection.skip)
    if selection.steady:
        first = np.maximum(first, _settled(table, group))
    kept = found.keep_range
    early = rank < first[group] if len(group) else np.zeros(0, dtype=bool)
    keep_range = ~early if kept is None else kept & ~early
    keep_op = ~_touches(found, early)
    what = f"first {selection.skip} instances of each path"
    if selection.steady:
        settled = int((first > selection.skip).sum())
        what = f"instances before each path settles ({settled} paths had a warm-up)"
    return _keep(found, keep_op, keep_range, what, left_out=True)


def _rank_in_path(table: pd.DataFrame) -> tuple[Ints, Ints]:
    """For each range (by row) its group of same process and path, and its place there in time."""
    keys = [table["process"], table["path"].cat.codes, table["domain"].cat.codes]
    group = table.groupby([*keys, table["style"].cat.codes], sort=False).ngroup().to_numpy()
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
    for at in range(len(out)):  # a round a path, not a range
        rows = order[bounds[at] : bounds[at + 1]]
        if len(rows) < 4:
            continue
        high = np.zeros(len(rows), dtype=bool)
        for column in ("total_gpu_ns", "cpu_ns"):
            values = table[column].to_numpy()[rows].astype(float)
            later = values[len(values) // 2 :]
            middle = np.median(later)
            spread = 1.4826 * np.median(np.abs(later - middle))
            bound = middle + max(_SETTLED_SHARE * middle, _SETTLED_DEVIATIONS * spread)
            high |= values > bound
        leading = np.flatnonzero(~high)
        out[at] = min(int(leading[0]) if len(leading) else 0, len(rows) // 2)
    return out


def _touches(found: Attribution, dropped: Mask) -> Mask:
    """Ops that a dropped push/pop range claims, or that have nothing but a dropped start/end."""
    forest = found.nest.forest
    gone = dropped[found.nest.rows]
    order = np.argsort(forest.depth, kind="stable")
    bounds = np.searchsorted(forest.depth[order], np.arange(1, forest.depth.max(initial=0) + 2))
    around = gone.copy()
    for low, high in itertools.pairwise(bounds):
        at = order[low:high]
        around[at] |= around[forest.parent[at]]
    around[forest.inner.query] |= gone[forest.inner.position]
    around = np.append(around, False)
    out = np.zeros(len(found.launch), dtype=bool)
    for located in (found.own_leaf, found.inherited_leaf):
        out |= around[located.leaf]
        np.logical_or.at(out, located.pairs.query, gone[located.pairs.position])
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
    note = Warning_("selection", f"{verb} {what}: {int(hidden.sum())} GPU ops ({ns} ns) are hidden")
    return found.select(keep_op, keep_range, note)


def _regex(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageProblem(
            f"{pattern!r} is not a regular expression: {error}",
            hint="Escape special characters with a backslash.",
        ) from None
