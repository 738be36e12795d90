# SPDX-License-Identifier: MIT
"""Busy time: the union of op intervals on each device."""

from __future__ import annotations

import numpy as np

from harness.attribute.engine import Attribution
from harness.attribute.nesting import Ints, Mask, expand
from harness.measures.rows import Ops, Rows, members, start_end_members


def busy(found: Attribution, rows: Rows) -> Ints:
    """Union of the op intervals of each row and device, ns; summed over devices.

    Ops that overlap nothing on their device count as they are; only the others are merged.
    """
    frame = found.trace.gpu_ops
    ops = Ops.of(found)
    device = frame["device"].to_numpy().astype(np.int64)
    process = np.unique(frame["process"].to_numpy(), return_inverse=True)[1]
    device = process * (int(device.max(initial=0)) + 2) + device + 1
    alone = _alone(device, ops.start, ops.end)
    out = np.zeros(rows.count, np.int64)
    inside = ops.keep & (ops.contexts.of_op >= 0)
    owner, row = members(found, rows)
    simple = np.zeros(len(ops.contexts.own), np.int64)
    at = np.flatnonzero(inside & alone)
    np.add.at(simple, ops.contexts.of_op[at], found.duration[at])
    np.add.at(out, row, simple[owner])

    crowded = np.flatnonzero(inside & ~alone)
    bounds = np.searchsorted(owner, np.arange(len(ops.contexts.own) + 1))
    first, last = bounds[ops.contexts.of_op[crowded]], bounds[ops.contexts.of_op[crowded] + 1]
    at, place = expand(first, last)
    _add_unions(out, row[place], crowded[at], device, ops)
    op, claimed = start_end_members(found, rows)
    lone = alone[op]
    np.add.at(out, claimed[lone], found.duration[op[lone]])
    _add_unions(out, claimed[~lone], op[~lone], device, ops)
    return out


def _alone(device: Ints, start: Ints, end: Ints) -> Mask:
    """Ops whose interval meets no other on their device."""
    order = np.lexsort((start, device))
    group, begin, finish = device[order], start[order], end[order]
    reach = _running_end(group, finish)
    joins = np.zeros(len(order), dtype=bool)
    joins[1:] = (group[1:] == group[:-1]) & (begin[1:] < reach[:-1])
    crowded = joins.copy()
    crowded[:-1] |= joins[1:]
    alone = np.empty(len(order), dtype=bool)
    alone[order] = ~crowded
    return alone


def _running_end(group: Ints, end: Ints) -> Ints:
    """Largest end so far within each (sorted) group."""
    if not len(end):
        return end
    low = int(end.min())
    span = int(end.max()) - low + 1
    rank = np.concatenate([[0], np.cumsum(group[1:] != group[:-1])])
    return np.asarray(np.maximum.accumulate((end - low) + rank * span) - rank * span + low)


def _add_unions(out: Ints, row: Ints, op: Ints, device: Ints, ops: Ops) -> None:
    """Add to each row the length of the union of its ops' intervals, device by device."""
    if not len(op):
        return
    group = row * (int(device.max()) + 1) + device[op]
    order = np.lexsort((ops.start[op], group))
    group, row, op = group[order], row[order], op[order]
    reach = _running_end(group, ops.end[op])
    before = ops.start[op].copy()
    same = group[1:] == group[:-1]
    before[1:][same] = np.maximum(before[1:][same], reach[:-1][same])
    np.add.at(out, row, np.maximum(ops.end[op] - before, 0))
