# SPDX-License-Identifier: MIT
"""The few array operations that everything here is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


def distinct(keys: Ints) -> Ints:
    """Sorted distinct values. ``np.unique`` hashes integers, which is many times slower than a
    sort once most of them differ (seen in numpy 2.4).
    """
    keys = np.sort(keys)
    new = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys[new]


def numbered(keys: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Ints]:
    """Sorted distinct values and the index of each key among them."""
    codes, values = pd.factorize(keys)
    values = np.asarray(values, dtype=keys.dtype)
    order = np.argsort(values)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return values[order], rank[codes] if len(rank) else np.asarray(codes, dtype=np.int64)


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


def running_maximum(group: npt.NDArray[Any], value: Ints) -> Ints:
    """Largest value so far within each group; ``group`` is sorted."""
    if not len(value):
        return value
    low = int(value.min())
    rank = np.cumsum(is_new(group)) * (int(value.max()) - low + 1)
    return np.asarray(np.maximum.accumulate((value - low) + rank) - rank + low)
