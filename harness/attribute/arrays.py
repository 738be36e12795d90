# SPDX-License-Identifier: MIT
"""The few array operations that everything here is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.cores import cores

Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
T = TypeVar("T")
R = TypeVar("R")

#: Keys whose span is at most this much more than their number get a table instead of a sort.
_SMALL_SPAN = 1 << 16
#: Items of a block: 2 MB of int64.
_BLOCK = 1 << 18


def distinct(keys: Ints) -> Ints:
    """Sorted distinct values. ``np.unique`` hashes integers, which is many times slower than a
    sort once most of them differ (seen in numpy 2.4).
    """
    found = _present(keys)
    if found is not None:
        low, present = found
        return np.flatnonzero(present) + low
    keys = np.sort(keys)
    new = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys[new]


def numbered(
    keys: npt.NDArray[Any], dtype: type[np.signedinteger[Any]] = np.int64
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Sorted distinct values and the index of each key among them, as ``dtype``."""
    found = _present(keys)
    if found is not None:
        low, present = found
        slots = np.flatnonzero(present)
        rank = np.zeros(len(present), dtype)
        rank[slots] = np.arange(len(slots))
        out = np.empty(len(keys), dtype)
        for block in blocks(len(keys)):
            out[block] = rank[keys[block].astype(np.int64) - low]
        return (slots + low).astype(keys.dtype, copy=False), out
    codes, values = pd.factorize(keys)
    values = np.asarray(values, dtype=keys.dtype)
    order = np.argsort(values)
    rank = np.empty(len(order), dtype)
    rank[order] = np.arange(len(order))
    return values[order], rank[codes] if len(rank) else np.asarray(codes, dtype=dtype)


def _present(keys: npt.NDArray[Any]) -> tuple[int, Mask] | None:
    """The lowest key, and which of it and those above occur; None unless they lie close."""
    if not len(keys):
        return None
    low, high = int(keys.min()), int(keys.max())
    if high - low >= len(keys) + _SMALL_SPAN:
        return None
    present = np.zeros(high - low + 1, dtype=bool)
    for block in blocks(len(keys)):
        present[keys[block].astype(np.int64) - low] = True
    return low, present


def blocks(count: int) -> Iterator[slice]:
    """Consecutive slices of ``count`` items. What is computed in one stays in the cache, and no
    array of full length is made for it: new memory is the dearest part of a large report."""
    return (slice(low, low + _BLOCK) for low in range(0, count, _BLOCK))


def uniform(values: npt.NDArray[Any]) -> bool:
    """Are all values the same? True for none."""
    return bool((values == values[:1]).all())


def together(*tasks: Callable[[], Any]) -> list[Any]:
    """Results of the tasks, run at the same time where this process has more cores than one: numpy
    lets go of the GIL in long operations."""
    if cores() < 2:
        return [task() for task in tasks]
    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result() for future in [pool.submit(task) for task in tasks]]


def in_turns(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """``work`` done on the items, two at a time; few at once, so that memory stays low."""
    items = list(items)
    if len(items) < 2 or cores() < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, items))


def grouped(group: npt.NDArray[Any], groups: int) -> Ints:
    """Stable order by group, where groups are 0..groups-1."""
    # numpy sorts 16-bit integers by counting, others by comparing.
    small = group.astype(np.int16) if groups < 1 << 15 else group
    return np.argsort(small, kind="stable")


def is_new(*sorted_keys: npt.NDArray[Any]) -> Mask:
    """Where a run of equal keys begins."""
    new = np.zeros(len(sorted_keys[0]), dtype=bool)
    new[:1] = True
    for keys in sorted_keys:
        new[1:] |= keys[1:] != keys[:-1]
    return new


def expand(first: npt.NDArray[Any], last: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Flatten the windows ``first[i] .. last[i]-1``: (i repeated, the values)."""
    lengths = np.maximum(last - first, 0)
    owner = np.repeat(np.arange(len(first)), lengths)
    shift = first - (np.cumsum(lengths) - lengths)
    values = np.arange(len(owner))
    values += np.repeat(shift, lengths)
    return owner, values


def batches(sizes: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Consecutive slices whose sizes add up to about ``most`` each (one item may exceed it)."""
    ends = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        done = ends[low - 1] if low else 0
        high = max(low + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield low, high
        low = high


def running_maximum(fresh: Mask, value: Ints) -> Ints:
    """Largest value so far within each group; ``fresh`` says where a group begins."""
    if not len(value):
        return value
    low = int(value.min())
    span = int(value.max()) - low + 1
    # Each group on a stretch of its own of one line.
    shift = np.cumsum(fresh, dtype=np.int64)
    if (int(shift[-1]) + 1) * span >= 2**63:
        # One time far from the others, as in a damaged file, and the line is longer than int64.
        known, rank = numbered(value)
        return np.asarray(known[running_maximum(fresh, rank)])
    shift *= span
    shift -= low
    out = value + shift
    np.maximum.accumulate(out, out=out)
    out -= shift
    return out
