# SPDX-License-Identifier: MIT
"""Distributions of kernel durations over (row, kernel)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.attribute.engine import OUTSIDE, Attribution
from harness.attribute.nesting import Ints, expand
from harness.measures.rows import Ops, Rows, members, start_end_members

#: Durations below this many bits (ns) are packed with their group into one sortable integer.
_PACK_BITS = 32


def distribution(found: Attribution, rows: Rows, kernel: Ints) -> dict[str, npt.NDArray[Any]]:
    """Statistics of kernel durations per (row, kernel name code); ns.

    Equal durations in one context are counted together first: device clocks tick coarsely, so
    that leaves far fewer values than kernels.
    """
    ops = Ops.of(found)
    is_kernel = ops.keep & (ops.kind == 0)
    names = int(kernel.max(initial=0)) + 1
    owner, row = members(found, rows)
    bounds = np.searchsorted(owner, np.arange(len(ops.contexts.own) + 1))
    at = np.flatnonzero(is_kernel & (ops.contexts.of_op >= 0))
    group, duration, number = _counted(
        ops.contexts.of_op[at] * names + kernel[at], found.duration[at]
    )
    context = group // names
    origin, place = expand(bounds[context], bounds[context + 1])
    parts = [(row[place] * names + group[origin] % names, duration[origin], number[origin])]
    op, claimed = start_end_members(found, rows)
    chosen = is_kernel[op]
    parts.append(_counted(claimed[chosen] * names + kernel[op[chosen]], found.duration[op[chosen]]))
    if len(rows.outside):
        at = np.flatnonzero(is_kernel & (found.rule == OUTSIDE))
        thread = found.launching_thread[at]
        parts.append(_counted(rows.outside[thread] * names + kernel[at], found.duration[at]))
    out = _statistics(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    key = out.pop("key")
    out["row"], out["kernel"] = key // names, key % names
    out["instances"] = _instances_of(found, rows, kernel, names, key)
    return out


def _counted(group: Ints, value: Ints) -> tuple[Ints, Ints, Ints]:
    """Distinct (group, value) and how often each occurs, sorted."""
    low = int(value.min(initial=0))
    top = int(value.max(initial=0)) - low
    if top < 1 << _PACK_BITS and int(group.max(initial=0)) < 1 << (62 - _PACK_BITS):
        packed = np.sort((group << _PACK_BITS) | (value - low))
        new = np.flatnonzero(np.concatenate([[True], packed[1:] != packed[:-1]])[: len(packed)])
        number = np.diff(np.append(new, len(packed)))
        packed = packed[new]
        return packed >> _PACK_BITS, (packed & ((1 << _PACK_BITS) - 1)) + low, number
    order = np.lexsort((value, group))
    group, value = group[order], value[order]
    new = np.ones(len(group), dtype=bool)
    new[1:] = (group[1:] != group[:-1]) | (value[1:] != value[:-1])
    at = np.flatnonzero(new)
    return group[at], value[at], np.diff(np.append(at, len(group)))


def _statistics(key: Ints, value: Ints, number: Ints) -> dict[str, npt.NDArray[Any]]:
    """Weighted count, sum, mean, median, extremes and sample deviation of each key's values."""
    order = np.lexsort((value, key))
    key, value, number = key[order], value[order], number[order]
    new = np.ones(len(key), dtype=bool)
    new[1:] = key[1:] != key[:-1]
    first = np.flatnonzero(new)
    if not len(first):
        none = np.empty(0, np.int64)
        fields = ("kernels", "total_ns", "avg_ns", "median_ns", "min_ns", "max_ns", "stddev_ns")
        return {"key": none, **dict.fromkeys(fields, none)}
    last = np.append(first[1:], len(key)) - 1
    count = np.add.reduceat(number, first)
    total = np.add.reduceat(value * number, first)
    mean = total / count
    group = np.cumsum(new) - 1
    squares = np.add.reduceat((value - mean[group]) ** 2 * number, first)
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
    forest, ops = found.nest.forest, Ops.of(found)
    is_kernel = ops.keep & (ops.kind == 0)
    found_pairs: list[Ints] = []
    chained: list[Ints] = []
    for located in (found.own_leaf, found.inherited_leaf):
        listed = np.zeros(len(is_kernel), dtype=bool)
        listed[located.pairs.query] = True
        at = np.flatnonzero(is_kernel & ~listed & (located.leaf >= 0))
        chained.append(np.unique(located.leaf[at] * np.int64(names) + kernel[at]))
        pick = is_kernel[located.pairs.query]
        found_pairs.append(located.pairs.position[pick] * names + kernel[located.pairs.query[pick]])
    level = np.unique(np.concatenate(chained))
    while len(level):
        found_pairs.append(level)
        above = forest.parent[level // names].astype(np.int64)
        # Several levels share ancestors; each (range, kernel) is kept once below.
        level = np.unique(np.where(above >= 0, above * names + level % names, -1))
        level = level[level >= 0]
        if len(found_pairs) % 16 == 0:
            found_pairs = [np.unique(np.concatenate(found_pairs))]
    pairs = np.unique(np.concatenate(found_pairs)) if found_pairs else np.empty(0, np.int64)
    row = rows.of_range[found.nest.rows[pairs // names]] if len(pairs) else pairs
    keys = [row * names + pairs % names]
    op, position = found.claims.query, found.claims.position
    pick = is_kernel[op]
    claims = np.unique(position[pick] * names + kernel[op[pick]])
    keys.append(rows.of_start_end[claims // names] * names + claims % names)
    keyed, number = np.unique(np.concatenate(keys), return_counts=True)
    at = np.minimum(np.searchsorted(keyed, key), max(0, len(keyed) - 1))
    return np.where(keyed[at] == key, number[at], 0) if len(keyed) else np.zeros(len(key), int)
