# SPDX-License-Identifier: MIT
"""Who called backward, and which start/end ranges a policy lets claim a launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.attribute.arrays import Ints, Mask, expand
from harness.attribute.nesting import Axis, Pairs, contained_pairs

Codes = npt.NDArray[Any]


@dataclass(frozen=True)
class Callers:
    """Per query the thread whose range it inherits, -1: none; ``ambiguous``: several could be."""

    thread: Ints
    ambiguous: Mask


def find_callers(
    range_process: Codes,
    range_thread: Codes,
    range_start: Ints,
    range_end: Ints,
    process: Codes,
    start: Ints,
    end: Ints,
) -> Callers:
    """The one thread of the query's process that has a range open all through [start, end].

    Counting, not enumerating: ranges begun by ``start`` less those ended before it are the open
    ones, and those that end inside the query are taken off one by one. With the number, sum and
    sum of squares of their thread codes known, they are one thread exactly when
    ``number * squares == sum ** 2``.
    """
    if not len(start) or not len(range_start):
        return Callers(np.full(len(start), -1), np.zeros(len(start), dtype=bool))
    processes = 1 + int(max(range_process.max(), process.max()))
    axis = Axis.covering(processes, range_start, range_end)
    start_keys, end_keys = axis.key(range_process, range_start), axis.key(range_process, range_end)
    by_start, by_end = np.argsort(start_keys, kind="stable"), np.argsort(end_keys, kind="stable")
    query_start, query_end = axis.key(process, start), axis.key(process, end)
    begun = np.searchsorted(start_keys[by_start], query_start, side="right")
    ended = np.searchsorted(end_keys[by_end], query_start, side="left")
    ending = np.searchsorted(end_keys[by_end], query_end, side="left")
    query, at = expand(ended, ending)
    leaver = by_end[at]
    straddles = range_start[leaver] <= start[query]
    query, leaver = query[straddles], leaver[straddles]
    thread = range_thread.astype(np.int64)
    sums = []
    for weight in (np.ones_like(thread), thread, thread**2):
        total = _prefix(weight[by_start])[begun] - _prefix(weight[by_end])[ended]
        np.subtract.at(total, query, weight[leaver])
        sums.append(total)
    number, total, squares = sums
    single = (number > 0) & (number * squares == total**2)
    caller = np.where(single, total // np.maximum(number, 1), -1)
    return Callers(caller, (number > 0) & ~single)


def _prefix(values: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(values)])


@dataclass(frozen=True)
class StartEnd:
    """The start/end ranges of a trace: codes of process, thread and label, times in ns."""

    process: Codes
    thread: Codes
    start: Ints
    end: Ints


def start_end_claims(
    ranges: StartEnd,
    policy: str,
    process: Codes,
    thread: Codes,
    caller: Ints,
    start: Ints,
    end: Ints,
) -> Pairs:
    """(launch, start/end range) for every range that may claim the launch under ``policy``."""
    if not len(ranges.start) or not len(start):
        return Pairs.none()
    if policy == "process":
        return contained_pairs(ranges.process, ranges.start, ranges.end, process, start, end)
    own = contained_pairs(ranges.thread, ranges.start, ranges.end, thread, start, end)
    heirs = np.flatnonzero(caller >= 0)
    if not len(heirs):
        return own
    lent = contained_pairs(
        ranges.thread, ranges.start, ranges.end, caller[heirs], start[heirs], end[heirs]
    )
    query = np.concatenate([own.query, heirs[lent.query]])
    position = np.concatenate([own.position, lent.position])
    order = np.lexsort((position, query))
    return Pairs(query[order], position[order])
