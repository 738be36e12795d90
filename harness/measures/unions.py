# SPDX-License-Identifier: MIT
"""Busy time: the union of op intervals on each device."""

from __future__ import annotations

import numpy as np

from harness.attribute.arrays import (
    Ints,
    Mask,
    batches,
    distinct,
    expand,
    is_new,
    numbered,
    running_maximum,
)
from harness.attribute.engine import Attribution
from harness.measures.rows import Ops, Rows, members, start_end_members

#: Pairs of (row, op) held at once.
_BATCH = 2_000_000


def busy(found: Attribution, rows: Rows) -> Ints:
    """Union of the op intervals of each row and device, ns; summed over devices.

    Ops that overlap nothing on their device count as they are; only the others are merged.
    """
    ops = Ops.of(found)
    order, group = _by_device(found, ops)
    start, end = ops.start[order], ops.end[order]
    alone = _alone(group, start, end)
    context = found.contexts.of_op[order]
    inside = ops.keep[order] & (context >= 0)
    owner, row = members(found, rows)

    out = np.zeros(rows.count, np.int64)
    simple = np.zeros(len(found.contexts.own), np.int64)
    at = np.flatnonzero(inside & alone)
    np.add.at(simple, context[at], end[at] - start[at])
    np.add.at(out, row, simple[owner])
    merge = _Merger(out, group, start, end)
    crowded = np.flatnonzero(inside & ~alone)
    by_context = crowded[np.argsort(context[crowded], kind="stable")]
    merge.contexts(owner, row, context[by_context], by_context)

    op, claimed = start_end_members(found, rows)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    at = place[op]
    lone = alone[at]
    np.add.at(out, claimed[lone], (end - start)[at[lone]])
    merge.pairs(claimed[~lone], at[~lone])
    return out


def _by_device(found: Attribution, ops: Ops) -> tuple[Ints, Ints]:
    """Order of the ops by (process, device, start), and the device group of each in that order."""
    frame = found.trace.gpu_ops
    process = numbered(frame["process"].to_numpy())[1]
    device = frame["device"].to_numpy().astype(np.int64)
    group = process * (int(device.max(initial=0)) + 2) + device + 1
    if len(distinct(group)) > 1:
        order = np.lexsort((ops.start, group))
    else:
        order = np.argsort(ops.start, kind="stable")
    return order, group[order]


def _alone(group: Ints, start: Ints, end: Ints) -> Mask:
    """Ops (sorted by group and start) whose interval meets no other of their group."""
    reach = running_maximum(group, end)
    joins = np.zeros(len(group), dtype=bool)
    joins[1:] = ~is_new(group)[1:] & (start[1:] < reach[:-1])
    crowded = joins.copy()
    crowded[:-1] |= joins[1:]
    return ~crowded


class _Merger:
    """Adds to each row the length of the union of its ops; ops are named by sorted position."""

    def __init__(self, out: Ints, group: Ints, start: Ints, end: Ints) -> None:
        self.out, self.group, self.start, self.end = out, group, start, end

    def contexts(self, owner: Ints, row: Ints, context: Ints, position: Ints) -> None:
        """Rows of contexts (``owner``, ``row``) over the ops of those contexts (sorted)."""
        by_row = np.argsort(row, kind="stable")
        owner, row = owner[by_row], row[by_row]
        first = np.searchsorted(context, owner, side="left")
        last = np.searchsorted(context, owner, side="right")
        bounds = np.append(np.flatnonzero(is_new(row)), len(row))
        sizes = np.add.reduceat(last - first, bounds[:-1]) if len(row) else np.empty(0, np.int64)
        for low, high in batches(sizes, _BATCH):
            pick = slice(bounds[low], bounds[high])
            which, at = expand(first[pick], last[pick])
            self.pairs(row[pick][which], position[at])

    def pairs(self, row: Ints, position: Ints) -> None:
        """All ops of each row present must be in one call."""
        if not len(row):
            return
        count = len(self.start)
        keys = np.sort(row * count + position)
        row, position = keys // count, keys % count
        fresh = is_new(row, self.group[position])
        run = np.cumsum(fresh)
        start, end = self.start[position], self.end[position]
        reach = running_maximum(run, end)
        start[1:] = np.where(fresh[1:], start[1:], np.maximum(start[1:], reach[:-1]))
        np.add.at(self.out, row, np.maximum(end - start, 0))
