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
#: A row of more ops is merged without being sorted, if it has this part of all ops or more.
_LARGE, _PART = 1 << 16, 64


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
    merge.contexts(owner, row, context[crowded].astype(np.int32), crowded)

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
        fresh = is_new(group)
        np.less(start[1:], running_maximum(fresh, end)[:-1], out=joins[1:])
        joins &= ~fresh
    crowded = joins.copy()
    crowded[:-1] |= joins[1:]
    return ~crowded


def _flags(number: int, which: Ints) -> Mask:
    """True for those of 0..number-1."""
    out = np.zeros(number, dtype=bool)
    out[which] = True
    return out


class Merger:
    """Adds to each row the length of the union of its ops; ops are named by sorted position."""

    def __init__(self, out: Ints, group: Ints | None, start: Ints, end: Ints) -> None:
        self.out, self.group = out, group
        self.start, self.end = start, end
        self.bits = max(1, len(start)).bit_length()

    def contexts(self, owner: Ints, row: Ints, context: Codes, position: Codes) -> None:
        """Rows of contexts (``owner``, ``row``; in order of owner) over the ops at ``position``
        (ascending), each of a ``context``."""
        by_row = np.argsort(row, kind="stable")
        owner, row = owner[by_row], row[by_row]
        number = 1 + max(int(owner.max(initial=-1)), int(context.max(initial=-1)))
        ops = np.zeros(number, np.int64)
        np.add.at(ops, context, 1)
        bounds = np.append(np.flatnonzero(is_new(row)), len(row))
        sizes = np.add.reduceat(ops[owner], bounds[:-1]) if len(row) else bounds[:-1]
        large = sizes > max(_LARGE, len(position) // _PART)
        several = [slice(bounds[at], bounds[at + 1]) for at in np.flatnonzero(large)]
        rows = [(int(row[one.start]), owner[one]) for one in several]
        self._large(rows, number, context, position)

        small = np.repeat(~large, np.diff(bounds))
        owner, row, sizes = owner[small], row[small], sizes[~large]
        if len(rows):
            left = _flags(number, owner)[context]
            context, position = context[left], position[left]
        by_context = grouped(context, number)
        context, position = context[by_context], position[by_context]
        del by_context
        first = np.searchsorted(context, owner, side="left")
        last = np.searchsorted(context, owner, side="right")
        bounds = np.append(np.flatnonzero(is_new(row)), len(row))

        def work(batch: tuple[int, int]) -> None:
            pick = slice(bounds[batch[0]], bounds[batch[1]])
            which, at = expand(first[pick], last[pick])
            self.pairs(row[pick][which], position[at])

        in_turns(work, batches(sizes, _BATCH))

    def _large(
        self, rows: list[tuple[int, Ints]], number: int, context: Codes, position: Codes
    ) -> None:
        """Rows of many ops, given with their contexts. Ranges around one another often have the
        same ones, and then the same union."""
        alike = {owner.tobytes(): owner for _, owner in rows}

        def work(owner: Ints) -> int:
            return self._union(_flags(number, owner), context, position)

        length = dict(zip(alike, in_turns(work, alike.values()), strict=True))
        for row, owner in rows:
            self.out[row] += length[owner.tobytes()]

    def _union(self, wanted: Mask, context: Codes, position: Codes) -> int:
        """Length of the union of the ops of the ``wanted`` contexts: they are in order already."""
        group: int | None = None
        total = before = 0
        for block in blocks(len(context)):
            at = position[block][wanted[context[block]]]
            if not len(at):
                continue
            start, end = self.start[at], self.end[at]
            groups = None if self.group is None else self.group[at]
            first = 0 if groups is None else int(groups[0])
            if first == group:  # goes on from the block before
                start[0], end[0] = max(start[0], before), max(end[0], before)
            reach = _reach(None if groups is None else is_new(groups), start, end)
            group, before = first if groups is None else int(groups[-1]), int(reach[-1])
            reach -= start
            total += int(reach.sum())
        return total

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
        start, end = self.start[position], self.end[position]
        self.settle(row, begin, position, fresh, start, end)

    def settle(
        self,
        row: Ints,
        begin: Ints,
        position: Ints,  # noqa: ARG002
        fresh: Mask,
        start: Ints,
        end: Ints,
    ) -> None:
        """Add up what each op (in order of row, device, start) adds to the union so far.

        ``begin`` is where a row begins, ``fresh`` where a row or a device does."""
        reach = _reach(fresh, start, end)
        reach -= start
        self.out[row[begin]] += np.add.reduceat(reach, begin)


def _reach(fresh: Mask | None, start: Ints, end: Ints) -> Ints:
    """How far each op and those before it reach; ``start`` becomes where what it adds begins.

    Both in order of group and start; ``fresh`` says where a group begins, None: there is one."""
    if fresh is None:
        reach = np.maximum.accumulate(end)
        np.maximum(start[1:], reach[:-1], out=start[1:])
    else:
        reach = running_maximum(fresh, end)
        np.maximum(start[1:], reach[:-1], out=start[1:], where=~fresh[1:])
    return reach
