# SPDX-License-Identifier: MIT
"""Busy time across parts: intervals that a later op may still touch are carried over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.attribute import Attribution
from harness.attribute.arrays import Ints, Mask, batches, expand, grouped, is_new, running_maximum
from harness.measures.rows import Ops, Rows, members, start_end_members
from harness.measures.unions import Merger

#: Pairs of (row, op) held at once.
_BATCH = 500_000


@dataclass(frozen=True)
class _Intervals:
    """Sorted by row, then by device and start; ns."""

    row: Ints
    device: Ints
    start: Ints
    end: Ints

    @classmethod
    def none(cls) -> _Intervals:
        return cls(*(np.empty(0, np.int64),) * 4)


class Busy:
    """Length of the union of the op intervals of each row and device, summed over devices."""

    def __init__(self) -> None:
        self._ns = np.zeros(0, np.int64)
        self._open = _Intervals.none()
        self._devices: dict[tuple[int, int], int] = {}

    def add(self, found: Attribution, rows: Rows, number: Ints, count: int, later: int) -> None:
        """Add a part whose rows have these numbers (of ``count`` so far); no later op begins
        before ``later`` (ns)."""
        self._ns = np.concatenate([self._ns, np.zeros(count - len(self._ns), np.int64)])
        ops = Ops.of(found)
        carried = self._open
        device = np.concatenate([self._device_of(found), carried.device])
        start = np.concatenate([ops.start, carried.start])
        end = np.concatenate([ops.end, carried.end])
        order = np.lexsort((start, device))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        merge = _Carrying(self._ns, device[order], start[order], end[order], later)
        old = (carried.row, place[len(ops.start) :])
        op, claimed = start_end_members(found, rows)
        _merge_rows(number[claimed], place[op], merge, old)
        touched = self._contexts(found, rows, number, place, merge, old)
        rest = ~np.isin(carried.row, np.concatenate([number[claimed], touched]))
        merge.pairs(old[0][rest], old[1][rest])
        self._open = merge.left()

    def ns(self, count: int) -> Ints:
        """Busy time of rows 0..count-1; call it last."""
        out = np.zeros(count, np.int64)
        out[: len(self._ns)] = self._ns
        np.add.at(out, self._open.row, self._open.end - self._open.start)
        return out

    def _device_of(self, found: Attribution) -> Ints:
        frame = found.trace.gpu_ops
        process, device = frame["process"].to_numpy(), frame["device"].to_numpy()
        out = np.empty(len(frame), np.int64)
        for one in np.unique(process).tolist():
            mine = process == one
            for other in np.unique(device[mine]).tolist():
                code = self._devices.setdefault((one, other), len(self._devices))
                out[mine & (device == other)] = code
        return out

    @staticmethod
    def _contexts(
        found: Attribution,
        rows: Rows,
        number: Ints,
        place: Ints,
        merge: _Carrying,
        old: tuple[Ints, Ints],
    ) -> Ints:
        """Merge the push/pop rows, some at a time; returns the rows done."""
        of_op = found.contexts.of_op
        inside = np.flatnonzero(of_op >= 0)
        by_context = inside[grouped(of_op[inside], len(found.contexts.own))]
        context = of_op[by_context]
        owner, row = members(found, rows)
        row = number[row]
        by_row = np.argsort(row, kind="stable")
        owner, row = owner[by_row], row[by_row]
        first = np.searchsorted(context, owner, side="left")
        last = np.searchsorted(context, owner, side="right")
        bounds = np.append(np.flatnonzero(is_new(row)), len(row))
        sizes = np.add.reduceat(last - first, bounds[:-1]) if len(row) else np.empty(0, np.int64)
        for low, high in batches(sizes, _BATCH):
            pick = slice(bounds[low], bounds[high])
            which, at = expand(first[pick], last[pick])
            _merge_rows(row[pick][which], place[by_context[at]], merge, old)
        return row


def _merge_rows(row: Ints, position: Ints, merge: _Carrying, old: tuple[Ints, Ints]) -> None:
    """Merge all ops of some rows with what was carried for those rows."""
    mine = np.isin(old[0], row)
    merge.pairs(np.concatenate([row, old[0][mine]]), np.concatenate([position, old[1][mine]]))


class _Carrying(Merger):
    """Keeps the merged intervals that end at ``later`` or after instead of adding them up."""

    def __init__(self, out: Ints, device: Ints, start: Ints, end: Ints, later: int) -> None:
        super().__init__(out, device, start, end)
        self.device = device
        self.later = later
        self._left: list[_Intervals] = []

    def settle(
        self,
        row: Ints,
        begin: Ints,  # noqa: ARG002
        position: Ints,
        fresh: Mask,
        start: Ints,
        end: Ints,
    ) -> None:
        reach = running_maximum(fresh, end)
        opens = fresh.copy()
        opens[1:] |= start[1:] > reach[:-1]
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(row)) - 1
        begun, ended = start[first], reach[last]
        length = ended - begun
        done = ended < self.later
        np.add.at(self.out, row[first][done], length[done])
        kept = first[~done]
        device = self.device[position[kept]]
        self._left.append(_Intervals(row[kept], device, begun[~done], ended[~done]))

    def left(self) -> _Intervals:
        """What was kept."""
        parts = self._left or [_Intervals.none()]
        return _Intervals(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("row", "device", "start", "end")
            )
        )
