# SPDX-License-Identifier: MIT
"""Distributions of kernel durations over (row, kernel)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.attribute.arrays import Ints, batches, distinct, expand, grouped, in_turns, is_new
from harness.attribute.engine import OUTSIDE, Attribution
from harness.measures.rows import Ops, Rows, members, start_end_members

#: Values held at once while they are spread over rows.
_BATCH = 1_000_000

Columns = dict[str, npt.NDArray[Any]]


def distribution(found: Attribution, rows: Rows, kernel: Ints) -> Columns:
    """Statistics of kernel durations per (row, kernel name code); ns.

    Columns: row, kernel, instances (range instances in which that kernel was launched), kernels,
    total_ns, avg_ns, median_ns, min_ns, max_ns, stddev_ns (of a sample).
    """
    ops = Ops.of(found)
    is_kernel = ops.keep & (ops.kind == 0)
    names = int(kernel.max(initial=0)) + 1
    parts = _of_push_pop(found, rows, kernel, names, is_kernel)
    op, claimed = start_end_members(found, rows)
    chosen = is_kernel[op]
    op, claimed = op[chosen], claimed[chosen]
    parts.append(statistics(*counted(claimed * names + kernel[op], found.duration[op])))
    if len(rows.outside):
        at = np.flatnonzero(is_kernel & (found.rule == OUTSIDE))
        outside = rows.outside[found.launching_thread[at]]
        parts.append(statistics(*counted(outside * names + kernel[at], found.duration[at])))
    out = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    key = out.pop("key")
    out["row"], out["kernel"] = key // names, key % names
    out["instances"] = _instances_of(found, rows, kernel, names, key)
    return out


def quantiles(found: Attribution, rows: Rows, delay: Ints) -> Columns:
    """Median and 99th percentile (nearest rank, from below) of ``delay`` (ns, one an op) over the
    linked ops of each row; 0 for a row with none."""
    linked = Ops.of(found).keep & (found.launch >= 0)
    parts = [_spread(found, rows, delay, linked & (found.contexts.of_op >= 0))]
    op, claimed = start_end_members(found, rows)
    parts.append(counted(claimed, delay[op]))
    key, value, number = (np.concatenate(part) for part in zip(*parts, strict=True))
    key, value, number = counted(key, value, number)
    out = {}
    first = np.flatnonzero(is_new(key)) if len(key) else key
    count = np.add.reduceat(number, first) if len(key) else key
    seen = np.cumsum(number)
    before = seen[first] - number[first]
    for name, share in (("launch_delay_median_ns", 0.5), ("launch_delay_p99_ns", 0.99)):
        rank = np.ceil(count * share).astype(np.int64) - 1
        column = np.zeros(rows.count, np.int64)
        column[key[first]] = value[np.searchsorted(seen, before + rank, side="right")]
        out[name] = column
    return out


def _spread(
    found: Attribution, rows: Rows, delay: Ints, chosen: npt.NDArray[np.bool_]
) -> tuple[Ints, Ints, Ints]:
    """Counted delays of each push/pop row."""
    at = np.flatnonzero(chosen)
    context, value, number = counted(found.contexts.of_op[at], delay[at])
    owner, row = members(found, rows)
    first = np.searchsorted(context, owner, side="left")
    last = np.searchsorted(context, owner, side="right")
    which, at = expand(first, last)
    return counted(row[which], value[at], number[at])


def _of_push_pop(
    found: Attribution, rows: Rows, kernel: Ints, names: int, is_kernel: npt.NDArray[np.bool_]
) -> list[Columns]:
    """Equal durations in one context are counted together first where that saves much (device
    clocks tick coarsely), then spread over the rows of the context, some rows at a time."""
    at = np.flatnonzero(is_kernel & (found.contexts.of_op >= 0))
    group, duration, number = _sorted(
        found.contexts.of_op[at] * names + kernel[at], found.duration[at]
    )
    context = group // names
    name = group - context * names
    owner, row = members(found, rows)
    by_row = np.argsort(row, kind="stable")
    owner, row = owner[by_row], row[by_row]
    first = np.searchsorted(context, owner, side="left")
    last = np.searchsorted(context, owner, side="right")
    bounds = np.append(np.flatnonzero(is_new(row)), len(row))
    sizes = np.add.reduceat(last - first, bounds[:-1]) if len(row) else np.empty(0, np.int64)

    def work(batch: tuple[int, int]) -> Columns:
        pick = slice(bounds[batch[0]], bounds[batch[1]])
        which, at = expand(first[pick], last[pick])
        key = (row[pick] * names)[which]
        key += name[at]
        return statistics(*counted(key, duration[at], number if number is None else number[at]))

    none = statistics(*(np.empty(0, np.int64),) * 3)
    return [none, *in_turns(work, batches(sizes, _BATCH))]


def _sorted(group: Ints, value: Ints) -> tuple[Ints, Ints, Ints | None]:
    """(group, value) sorted; counted where at most half of them are distinct."""
    groups, values, number = counted(group, value)
    if 2 * len(groups) <= len(group):
        return groups, values, number
    return np.repeat(groups, number), np.repeat(values, number), None


def counted(group: Ints, value: Ints, number: Ints | None = None) -> tuple[Ints, Ints, Ints]:
    """Distinct (group, value), sorted, and how often each occurs (weighted by ``number``)."""
    # Where both fit, group and value are packed into one integer, which sorts fastest.
    if not len(group):
        return group, value, np.empty(0, np.int64)
    low = int(value.min())
    bits = (int(value.max()) - low).bit_length()
    packs = bits + int(group.max()).bit_length() <= 62
    packed = (group << bits) | (value - low) if packs else group
    if packs and number is None:
        packed.sort()
        at = np.flatnonzero(is_new(packed))
        number = np.diff(np.append(at, len(packed)))
        packed = packed[at]
        return packed >> bits, (packed & ((1 << bits) - 1)) + low, number
    order = np.argsort(packed) if packs else np.lexsort((value, group))
    group, value = group[order], value[order]
    at = np.flatnonzero(is_new(group, value))
    weights = np.ones(len(group), np.int64) if number is None else number[order]
    return group[at], value[at], np.add.reduceat(weights, at)


def statistics(key: Ints, value: Ints, number: Ints) -> Columns:
    """Weighted count, sum, mean, median, extremes and sample deviation of each key's values;
    the rows are sorted by (key, value)."""
    new = is_new(key)
    first = np.flatnonzero(new)
    if not len(first):
        none, reals = np.empty(0, np.int64), np.empty(0, np.float64)
        whole = dict.fromkeys(("key", "kernels", "total_ns", "min_ns", "max_ns"), none)
        return {**whole, **dict.fromkeys(("avg_ns", "median_ns", "stddev_ns"), reals)}
    last = np.append(first[1:], len(key)) - 1
    count = np.add.reduceat(number, first)
    total = np.add.reduceat(value * number, first)
    mean = total / count
    squares = np.add.reduceat((value - mean[np.cumsum(new) - 1]) ** 2 * number, first)
    seen = np.cumsum(number)
    before = seen[first] - number[first]
    lower = value[np.searchsorted(seen, before + (count - 1) // 2, side="right")]
    upper = value[np.searchsorted(seen, before + count // 2, side="right")]
    return {
        "key": key[first],
        "kernels": count,
        "total_ns": total,
        "avg_ns": mean,
        "median_ns": (lower + upper) / 2,
        "min_ns": value[first],
        "max_ns": value[last],
        "stddev_ns": np.sqrt(squares / np.maximum(count - 1, 1)),
    }


def _instances_of(found: Attribution, rows: Rows, kernel: Ints, names: int, key: Ints) -> Ints:
    """For each (row, kernel) key: in how many range instances that kernel was launched."""
    bits = names.bit_length()
    mask = (1 << bits) - 1
    row_of = rows.of_range[found.nest.rows]
    shown = None if found.keep_range is None else found.keep_range[found.nest.rows]
    parts = [counted_keys(_claimed_kernels(found, rows, kernel, names))]
    for pairs in instance_kernels(found, kernel, bits):
        kept = pairs if shown is None else pairs[shown[pairs >> bits]]
        parts.append(counted_keys(row_of[kept >> bits] * names + (kept & mask)))
    order = np.argsort(key)
    out = np.zeros(len(key) + 1, np.int64)
    for keys, number in parts if len(key) else []:
        at = np.minimum(np.searchsorted(key, keys, sorter=order), len(key) - 1)
        place = order[at]
        out[np.where(key[place] == keys, place, -1)] += number
    return out[:-1]


def _claimed_kernels(found: Attribution, rows: Rows, kernel: Ints, names: int) -> Ints:
    """The (row, kernel) key of every start/end range and kernel launched in it."""
    op, position = found.claims.query, found.claims.position
    pick = Ops.of(found).is_kernel[op]
    claims = distinct(position[pick] * names + kernel[op[pick]])
    return rows.of_start_end[claims // names] * names + claims % names


def counted_keys(keys: Ints) -> tuple[Ints, Ints]:
    """Distinct keys, sorted, and how often each occurs."""
    keys = np.sort(keys)
    first = np.flatnonzero(is_new(keys))
    return keys[first], np.diff(np.append(first, len(keys)))


def instance_kernels(found: Attribution, kernel: Ints, bits: int) -> Iterator[Ints]:
    """Distinct (push/pop range << bits | kernel) with the kernel launched anywhere inside the
    range; from the deepest ranges up, those of one depth at a time."""
    forest, is_kernel = found.nest.forest, Ops.of(found).is_kernel
    pairs: list[Ints] = []
    for located in (found.own_leaf, found.inherited_leaf):
        chained = is_kernel & (located.leaf >= 0)
        chained[located.pairs.query] = False
        at = np.flatnonzero(chained)
        pairs.append((located.leaf[at].astype(np.int64) << bits) | kernel[at])
        pick = is_kernel[located.pairs.query]
        position, query = located.pairs.position[pick], located.pairs.query[pick]
        pairs.append((position << bits) | kernel[query])
    given = distinct(np.concatenate(pairs))
    depth = forest.depth[given >> bits]
    levels = int(depth.max(initial=-1)) + 1
    by_depth = grouped(depth, levels)
    bounds = np.searchsorted(depth[by_depth], np.arange(levels + 1))
    above = np.empty(0, np.int64)
    for level in range(levels - 1, -1, -1):
        here = given[by_depth[bounds[level] : bounds[level + 1]]]
        here = distinct(np.concatenate([here, above])) if len(above) else here
        yield here
        # Where ranges do not nest, all that hold a launch are given; elsewhere, the innermost.
        position = here >> bits
        climbs = ~forest.irregular[forest.thread[position]]
        parent = forest.parent[position[climbs]].astype(np.int64)
        above = (parent << bits) | (here[climbs] & ((1 << bits) - 1))
        above = above[:0] if level == 0 else distinct(above)
