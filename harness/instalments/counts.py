# SPDX-License-Identifier: MIT
"""Distinct (group, value) and how often each occurred, gathered over many parts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.attribute.arrays import Ints
from harness.measures.distribution import counted

#: Entries of one block, and new ones that wait to be merged.
_BLOCK = 500_000
_WAITING = 2_000_000

Entries = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


class Counts:
    """Sorted blocks that share no group, merged one at a time: what is kept is held once."""

    def __init__(self) -> None:
        self._blocks: list[Entries] = []
        self._new: list[Entries] = []
        self._waiting = 0

    def add(self, group: Ints, value: Ints) -> None:
        """Count these pairs too."""
        entries = _small(counted(group, value))
        self._new.append(entries)
        self._waiting += len(entries[0])
        if self._waiting > _WAITING:
            self._merge()

    def all(self) -> Entries:
        """Group, value and number, sorted by group and value; what was kept is handed over."""
        self._merge()
        blocks, self._blocks = self._blocks, []
        return _joined(blocks)

    def _merge(self) -> None:
        new = _small(counted(*_wide(_joined(self._new))))
        self._new, self._waiting = [], 0
        bounds = [block[0][0] for block in self._blocks[1:]]
        edges = [0, *np.searchsorted(new[0], bounds).tolist(), len(new[0])]
        old = self._blocks or [_joined([])]
        self._blocks = []
        for at in range(len(old)):
            some = tuple(column[edges[at] : edges[at + 1]] for column in new)
            merged = _joined([old[at], (some[0], some[1], some[2])])
            self._blocks += _cut(_small(counted(*_wide(merged))))
            old[at] = _joined([])


def _joined(parts: list[Entries]) -> Entries:
    none = np.empty(0, np.int32)
    group, value, number = (
        np.concatenate([part[i] for part in parts]) if parts else none for i in range(3)
    )
    return group, value, number


def _wide(entries: Entries) -> tuple[Ints, Ints, Ints]:
    group, value, number = (column.astype(np.int64) for column in entries)
    return group, value, number


def _small(entries: Entries) -> Entries:
    """In 32 bits where they fit."""
    group, value, number = (
        column.astype(np.int32)
        if len(column) and column.min() >= 0 and column.max() < 1 << 31
        else column
        for column in entries
    )
    return group, value, number


def _cut(entries: Entries) -> list[Entries]:
    """Blocks of about the wanted size; a group is in one block only."""
    group = entries[0]
    edges = [0]
    while len(group) - edges[-1] > 2 * _BLOCK:
        edge = int(np.searchsorted(group, group[edges[-1] + _BLOCK], side="right"))
        if edge == len(group):
            break
        edges.append(edge)
    edges.append(len(group))
    return [
        (group[a:b].copy(), entries[1][a:b].copy(), entries[2][a:b].copy())
        for a, b in pairwise(edges)
        if b > a
    ]
