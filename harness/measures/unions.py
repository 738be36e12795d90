# SPDX-License-Identifier: MIT
"""Busy time: the union of op intervals on each device."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.attribute.arrays import (
    Ints,
    Mask,
    batches,
    blocks,
    expand,
    grouped,
    in_turns,
    is_new,
    numbered,
    running_maximum,
    uniform,
)
from harness.attribute.engine import Attribution
from harness.measures.rows import Ops, Rows, members, start_end_members

Codes = npt.NDArray[Any]
#: Pairs of (row, op) held at once.
_BATCH = 300_000


def busy(found: Attribution, rows: Rows) -> Ints:
    """Union of the op intervals of each row and device, ns; summed over devices.

    Ops that overlap nothing on their device count as they are; only the others are merged.
    """
    ops = Ops.of(found)
    order, group = _by_device(found, ops)
    start, end = (ops.start, ops.end) if order is None else (ops.start[order], ops.end[order])
    context = found.contexts.of_op if order is None else found.contexts.of_op[order]
    alone = _alone(group, start, end)
    inside = context >= 0
    if found.keep_op is not None:
        inside &= ops.keep if order is None else ops.keep[order]
    owner, row = members(found, rows)

    out = np.zeros(rows.count, np.int64)
    simple = np.zeros(len(found.contexts.own), np.int64)
    for block in blocks(len(start)):
        at = np.flatnonzero(inside[block] & alone[block])
        np.add.at(simple, context[block][at], (end[block] - start[block])[at])
    np.add.at(out, row, simple[owner])
    merge = Merger(out, group, start, end)
    crowded = np.flatnonzero(inside & ~alone).astype(np.int32)
    context = context[crowded].astype(np.int32)
    by_context = grouped(context, len(simple))
    context, crowded = context[by_context], crowded[by_context]
    del by_context
    merge.contexts(owner, row, context, crowded)

    op, claimed = start_end_members(found, rows)
    at = op if order is None else _places(order)[op]
    lone = alone[at]
    np.add.at(out, claimed[lone], (end - start)[at[lone]])
    merge.pairs(claimed[~lone], at[~lone])
    return out


def _places(order: Ints) -> Ints:
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place


def _by_device(found: Attribution, ops: Ops) -> tuple[Ints | None, Ints | None]:
    """Order of the ops by (process, device, start), and the device group of each in that order.

    No order where the ops are in it already, no group where there is only one."""
    frame = found.trace.gpu_ops
    process, device = frame["process"].to_numpy(), frame["device"].to_numpy()
    if uniform(process) and uniform(device):
        if bool((ops.start[1:] >= ops.start[:-1]).all()):
            return None, None
        return np.argsort(ops.start, kind="stable"), None
    group = device_groups(process, device)
    order = np.lexsort((ops.start, group))
    return order, group[order]


def device_groups(process: Ints, device: Ints) -> Ints:
    """A number a (process, device); a device of -1 is one of its own."""
    codes = numbered(process)[1]
    return codes * (int(device.max(initial=0)) + 2) + device + 1


def _alone(group: Ints | None, start: Ints, end: Ints) -> Mask:
    """Ops (sorted by group and start) whose interval meets no other of their group."""
    joins = np.zeros(len(start), dtype=bool)
    if group is None:
        np.less(start[1:], np.maximum.accumulate(end)[:-1], out=joins[1:])
    else:
        np.less(start[1:], running_maximum(group, end)[:-1], out=joins[1:])
        joins &= ~is_new(group)
    crowded = joins.copy()
    crowded[:-1] |= joins[1:]
    return ~crowded


class Merger:
    """Adds to each row the length of the union of its ops; ops are named by sorted position."""

    def __init__(self, out: Ints, group: Ints | None, start: Ints, end: Ints) -> None:
        self.out, self.group = out, group
        low = int(start.min()) if len(start) else 0
        self.start, self.end, self.low = start, end, low
        self.span = int(end.max(initial=low)) - low + 1
        self.bits = max(1, len(start)).bit_length()

    def contexts(self, owner: Ints, row: Ints, context: Codes, position: Codes) -> None:
        """Rows of contexts (``owner``, ``row``) over the ops of those contexts (sorted)."""
        by_row = np.argsort(row, kind="stable")
        owner, row = owner[by_row], row[by_row]
        first = np.searchsorted(context, owner, side="left")
        last = np.searchsorted(context, owner, side="right")
        bounds = np.append(np.flatnonzero(is_new(row)), len(row))
        sizes = np.add.reduceat(last - first, bounds[:-1]) if len(row) else np.empty(0, np.int64)

        def work(batch: tuple[int, int]) -> None:
            pick = slice(bounds[batch[0]], bounds[batch[1]])
            which, at = expand(first[pick], last[pick])
            self.pairs(row[pick][which], position[at])

        in_turns(work, batches(sizes, min(_BATCH, 2**62 // self.span)))

    def pairs(self, row: Ints, position: Codes) -> None:
        """All ops of each row present must be in one call."""
        if not len(row):
            return
        keys = row << self.bits
        keys |= position
        keys.sort()
        row, position = keys >> self.bits, keys & ((1 << self.bits) - 1)
        fresh = is_new(row)
        begin = np.flatnonzero(fresh)
        if self.group is not None:
            fresh |= is_new(self.group[position])
        # Each row and device on a stretch of its own of one line: their unions cannot meet.
        shift = np.cumsum(fresh, dtype=np.int64)
        shift *= self.span
        shift -= self.low
        start, end = self.start[position], self.end[position]
        start += shift
        end += shift
        reach = np.maximum.accumulate(end, out=end)
        self.settle(row, begin, position, start, reach)

    def settle(self, row: Ints, begin: Ints, position: Ints, start: Ints, reach: Ints) -> None:  # noqa: ARG002
        """Add up what each op (in order of row, device, start) adds to the ``reach`` so far."""
        np.maximum(start[1:], reach[:-1], out=start[1:])
        reach -= start
        self.out[row[begin]] += np.add.reduceat(reach, begin)
