# SPDX-License-Identifier: MIT
"""Which push/pop ranges contain an interval, for every thread at once.

A thread's push/pop ranges nearly always form a forest: any two are disjoint or one holds the
other. There a containment query is a binary search and a short climb. Threads where they do not
(domains popped out of order, zero-length ranges) are *irregular*; their containers are listed
pair by pair, which costs no more than the size of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.attribute.arrays import Ints, Mask, Positions, distinct, expand, grouped

#: Steps taken up the parent chain before switching to a search by depth.
_CLIMB_STEPS = 8


@dataclass(frozen=True)
class Axis:
    """Puts (scope, time) on one integer line, so that one sorted array serves every thread."""

    low: int
    high: int
    ranks: Ints | None = None  # set when the plain product would overflow int64

    @classmethod
    def covering(cls, scopes: int, *times: Ints) -> Axis:
        """An axis on which all of ``times`` (ns) of scopes 0..scopes-1 keep their order."""
        filled = [t for t in times if len(t)]
        low = min((int(t.min()) for t in filled), default=0)
        high = max((int(t.max()) for t in filled), default=0)
        if (scopes + 2) * (high - low + 3) < 2**62:
            return cls(low - 1, high + 1)
        ranks = distinct(np.concatenate(filled))
        return cls(-1, 2 * len(ranks), ranks)

    def key(self, scope: npt.NDArray[Any], time: Ints) -> Ints:
        """One key each; times outside the covered span land just before or after it."""
        if self.ranks is not None:
            # Times between two known ones take the even number between their odd ones.
            at = np.searchsorted(self.ranks, time)
            known = self.ranks[np.minimum(at, len(self.ranks) - 1)] == time
            time = 2 * at + known
        out = np.clip(time, self.low, self.high)
        out -= self.low
        out += scope.astype(np.int64) * (self.high - self.low + 1)
        return out


@dataclass(frozen=True)
class Pairs:
    """``position[i]`` contains ``query[i]``; sorted by query, outermost first."""

    query: Ints
    position: Ints

    @classmethod
    def none(cls) -> Pairs:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class Located:
    """Answer of ``Forest.locate``: one entry a query.

    ``leaf`` is the position of the innermost container, -1 for none. For the queries in
    ``pairs`` the containers are those listed; for all others, the leaf's chain of parents.
    """

    leaf: Positions
    pairs: Pairs


@dataclass(frozen=True)
class Forest:
    """Push/pop ranges sorted by (thread, start, longest first, row). A *position* is a place in
    that order, so a container always stands before what it contains.
    """

    rows: Ints  # position -> row of the frame it was built from
    thread: npt.NDArray[Any]
    start: Ints
    end: Ints
    parent: Positions  # position of the innermost container, -1 at the top
    depth: Positions
    irregular: Mask  # by thread
    inner: Pairs  # containers of the ranges of irregular threads (query = position)
    axis: Axis
    start_keys: Ints
    end_keys: Ints  # sorted on their own

    @classmethod
    def build(cls, thread: npt.NDArray[Any], start: Ints, end: Ints, threads: int) -> Forest:
        """Nest ranges of threads 0..threads-1; one array entry a range, times in ns."""
        axis = Axis.covering(threads, start, end)
        rows = _sort_order(axis, thread, start, end, threads)
        if len(rows) < 2 or not bool((np.diff(rows) == 1).all()):
            thread, start, end = thread[rows], start[rows], end[rows]
        keys = axis.key(thread, start)
        end_keys = np.sort(axis.key(thread, end))
        depth = np.arange(len(rows), dtype=np.int32)
        depth -= np.searchsorted(end_keys, keys, side="right")
        parent = _last_above(depth)
        nested = depth > 0
        astray = (parent < 0) | (end[parent] < end) | (thread[parent] != thread)
        irregular = np.zeros(threads, dtype=bool)
        irregular[thread[(depth < 0) | (nested & astray) | (end <= start)]] = True
        parent[~nested] = -1
        inner = Pairs.none()
        if irregular.any():
            odd = np.flatnonzero(irregular[thread])
            found = contained_pairs(
                thread[odd], start[odd], end[odd], thread[odd], start[odd], end[odd]
            )
            # A container stands before what it contains; of equal intervals the earlier row.
            before = found.position < found.query
            inner = Pairs(odd[found.query[before]], odd[found.position[before]])
            depth[odd] = np.bincount(inner.query, minlength=len(rows))[odd]
            parent[odd] = -1
            parent[inner.query] = inner.position  # the last one written is the innermost
        return cls(
            rows=rows,
            thread=thread,
            start=start,
            end=end,
            parent=parent,
            depth=depth,
            irregular=irregular,
            inner=inner,
            axis=axis,
            start_keys=keys,
            end_keys=end_keys,
        )

    def __len__(self) -> int:
        return len(self.rows)

    def locate(self, thread: npt.NDArray[Any], start: Ints, end: Ints) -> Located:
        """Containers of each query ``[start, end]`` (ns) among the ranges of ``thread``.

        ``thread`` may hold -1 (no thread: contained in nothing).
        """
        if not len(self) or not len(thread):
            return Located(np.full(len(thread), -1, np.int32), Pairs.none())
        keys = self.axis.key(thread, start)
        leaf = np.searchsorted(self.start_keys, keys, side="right").astype(np.int32)
        leaf -= 1
        leaf[self.thread[leaf] != thread] = -1
        # A zero-length call where one range ends and the next begins lies in both.
        odd = (start == end) & (leaf >= 0)
        instant = np.flatnonzero(odd)
        odd[instant] = _isin_sorted(self.end_keys, keys[instant])
        if self.irregular.any():
            odd |= self.irregular[thread] & (thread >= 0)
        self._climb(keys, leaf, end, odd)
        odd_at = np.flatnonzero(odd)
        if not len(odd_at):
            return Located(leaf, Pairs.none())
        asked = np.zeros(len(self.irregular), dtype=bool)
        asked[thread[odd_at]] = True
        among = np.flatnonzero(asked[self.thread])
        found = contained_pairs(
            self.thread[among],
            self.start[among],
            self.end[among],
            thread[odd_at],
            start[odd_at],
            end[odd_at],
        )
        pairs = Pairs(odd_at[found.query], among[found.position])
        leaf[odd_at] = -1
        leaf[pairs.query] = pairs.position
        return Located(leaf, pairs)

    def _climb(self, keys: Ints, leaf: Positions, end: Ints, odd: Mask) -> None:
        """Move each leaf up to the first range that also ends late enough (in place)."""
        todo = np.flatnonzero((leaf >= 0) & ~odd & (self.end[leaf] < end))
        steps = 0
        while len(todo):
            if steps == _CLIMB_STEPS:
                # Far below the answer (a deep nest has just closed): jump to what is open now.
                begun = np.searchsorted(self.start_keys, keys[todo], side="right")
                opened = begun - np.searchsorted(self.end_keys, keys[todo], side="left")
                leaf[todo] = _last_at_depth(self.depth, begun - 1, opened - 1)
            else:
                leaf[todo] = self.parent[leaf[todo]]
            steps += 1
            at = leaf[todo]
            todo = todo[(at >= 0) & (self.end[at] < end[todo])]


def _sort_order(axis: Axis, thread: npt.NDArray[Any], start: Ints, end: Ints, threads: int) -> Ints:
    """Stable order by thread, start, then longest first; cheap when rows are in order of time."""
    if bool((start[1:] >= start[:-1]).all()):
        order = grouped(thread, threads)
    else:
        order = np.argsort(axis.key(thread, start), kind="stable")
    if not bool((np.diff(order) == 1).all()):
        thread, start = thread[order], start[order]
    same = (start[1:] == start[:-1]) & (thread[1:] == thread[:-1])
    if bool(same.any()):
        order = order[np.lexsort((-end[order], start, thread))]
    return order


def _last_above(depth: Positions) -> Positions:
    """For each position the last one before it that is one less deep, -1 if none is."""
    out = np.full(len(depth), -1, np.int32)
    levels = int(depth.max(initial=-1)) + 1
    level = np.maximum(depth, -1)
    level += 1
    by_level = grouped(level, levels + 1)
    bounds = np.searchsorted(level[by_level], np.arange(levels + 2))
    for at in range(2, levels + 1):
        above = by_level[bounds[at - 1] : bounds[at]]
        here = by_level[bounds[at] : bounds[at + 1]]
        if len(above) and len(here):
            place = np.searchsorted(above, here) - 1
            out[here] = np.where(place >= 0, above[place], -1)
    return out


def _last_at_depth(
    depth: npt.NDArray[Any], upto: npt.NDArray[Any], wanted: npt.NDArray[Any]
) -> Ints:
    """For each query, the last position <= ``upto`` whose depth is ``wanted``; -1 if none."""
    stride = len(depth) + 1
    keys = (depth.astype(np.int64) + 1) * stride + np.arange(len(depth))
    keys.sort()
    found = np.searchsorted(keys, (wanted.astype(np.int64) + 1) * stride + upto, side="right") - 1
    value = keys[np.maximum(found, 0)]
    ok = (found >= 0) & (value // stride - 1 == wanted) & (wanted >= 0)
    return np.where(ok, value % stride, -1)


def _isin_sorted(sorted_values: Ints, values: Ints) -> Mask:
    at = np.minimum(np.searchsorted(sorted_values, values), len(sorted_values) - 1)
    return np.asarray(sorted_values[at] == values)


def contained_pairs(
    scope: npt.NDArray[Any],
    start: Ints,
    end: Ints,
    query_scope: npt.NDArray[Any],
    query_start: Ints,
    query_end: Ints,
) -> Pairs:
    """All (query, range) of one scope with ``start <= query_start`` and ``query_end <= end``.

    ``position`` indexes the given ranges; the result is sorted by (query, position).
    """
    scopes = 1 + int(max(scope.max(initial=0), query_scope.max(initial=0)))
    axis = Axis.covering(scopes, start, end)
    keys = axis.key(query_scope, query_start)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.searchsorted(keys, axis.key(scope, start), side="left")
    last = np.searchsorted(keys, axis.key(scope, end), side="right")
    position, at = expand(first, last)
    query = order[at]
    inside = query_end[query] <= end[position]
    query, position = query[inside], position[inside]
    by = np.argsort(query * (len(start) + 1) + position, kind="stable")
    return Pairs(query[by], position[by])
