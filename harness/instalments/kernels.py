# SPDX-License-Identifier: MIT
"""Kernels by range name over parts: every duration is kept, equal ones counted."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.attribute import Attribution
from harness.attribute.arrays import Ints, batches, distinct, expand, is_new
from harness.attribute.engine import OUTSIDE
from harness.instalments.counts import Counts
from harness.instalments.rows import Book
from harness.measures.distribution import counted, counted_keys, instance_kernels, statistics
from harness.measures.rows import Ops, Rows, members, start_end_members
from harness.summarise import KERNEL_COLUMNS, NAME_KINDS

#: Values held at once while they are spread over rows.
_BATCH = 500_000
#: Kernel names and rows are packed into one integer: room for this many bits of names.
_BITS = 24
_MASK = (1 << _BITS) - 1


class Kernels:
    """Durations by (set of rows, kernel): ops under the same rows share a *set*, so that a
    duration is kept once however deep the ranges nest."""

    def __init__(self, book: Book, names: str) -> None:
        self.book = book
        self.column = NAME_KINDS[names]
        self._names: dict[str, int] = {}
        self._sets: dict[tuple[int, ...], int] = {}
        self._durations = Counts()
        self._instances = counted_keys(np.empty(0, np.int64))
        self._shared: list[Ints] = []  # (row of the file, key) of ranges that other parts have too

    def add(
        self, found: Attribution, rows: Rows, number: Ints, shared: npt.NDArray[np.bool_]
    ) -> None:
        """Add a part; ``shared`` marks the ranges that may occur in other parts."""
        kernel = self._codes(found)
        ops = Ops.of(found)
        self._add_durations(found, rows, number, kernel, ops.is_kernel)
        self._add_instances(found, rows, number, kernel, shared)

    def table(self) -> pd.DataFrame:
        """As ``summarise.kernels``."""
        parts = self._spread()
        out = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        key = out.pop("key")
        row = key >> _BITS
        columns = {c: self.book.column(c)[row] for c in KERNEL_COLUMNS[:5]}
        labels = np.array([*self._names, ""], dtype=object)
        frame = pd.DataFrame({**columns, "kernel": labels[key & _MASK], **out})
        frame["instances"] = self._instances_of(key)
        by = frame.sort_values(
            ["domain", "name", "style", "pid", "tid", "total_ns", "kernel"],
            ascending=[True, True, True, True, True, False, True],
        )
        return by[KERNEL_COLUMNS].reset_index(drop=True)

    def _codes(self, found: Attribution) -> Ints:
        names = found.trace.gpu_ops[self.column].cat
        code = [self._names.setdefault(name, len(self._names)) for name in names.categories]
        return np.array([*code, 0], np.int64)[names.codes.to_numpy()]

    def _set(self, rows: list[int]) -> int:
        return self._sets.setdefault(tuple(rows), len(self._sets))

    def _add_durations(
        self,
        found: Attribution,
        rows: Rows,
        number: Ints,
        kernel: Ints,
        is_kernel: npt.NDArray[np.bool_],
    ) -> None:
        context = found.contexts.of_op
        at = np.flatnonzero(is_kernel & (context >= 0))
        self._keep(self._sets_of(found, rows, number)[context[at]], kernel[at], found.duration[at])
        single = np.array([self._set([one]) for one in number.tolist()], np.int64)
        op, claimed = start_end_members(found, rows)
        chosen = is_kernel[op]
        op, claimed = op[chosen], claimed[chosen]
        self._keep(single[claimed], kernel[op], found.duration[op])
        at = np.flatnonzero(is_kernel & (found.rule == OUTSIDE))
        outside = rows.outside[found.launching_thread[at]]
        self._keep(single[outside], kernel[at], found.duration[at])

    def _sets_of(self, found: Attribution, rows: Rows, number: Ints) -> Ints:
        """The set of rows of each context."""
        owner, row = members(found, rows)
        bounds = np.searchsorted(owner, np.arange(len(found.contexts.own) + 1)).tolist()
        of_all = number[row].tolist()
        sets = [self._set(sorted(of_all[low:high])) for low, high in itertools.pairwise(bounds)]
        return np.array(sets, np.int64)

    def _keep(self, group: Ints, kernel: Ints, duration: Ints) -> None:
        self._durations.add((group << _BITS) | kernel, duration)

    def _spread(self) -> list[dict[str, npt.NDArray[Any]]]:
        """Statistics of each (row, kernel), some rows at a time."""
        group, value, number = self._durations.all()
        owner = np.repeat(np.arange(len(self._sets)), [len(rows) for rows in self._sets])
        row = np.array([row for rows in self._sets for row in rows], np.int64)
        by_row = np.argsort(row, kind="stable")
        owner, row = owner[by_row], row[by_row]
        first = np.searchsorted(group, owner << _BITS, side="left")
        last = np.searchsorted(group, (owner + 1) << _BITS, side="left")
        bounds = np.append(np.flatnonzero(is_new(row)), len(row))
        sizes = np.add.reduceat(last - first, bounds[:-1]) if len(row) else row
        out = [statistics(*(np.empty(0, np.int64),) * 3)]
        for low, high in batches(sizes, _BATCH):
            pick = slice(bounds[low], bounds[high])
            which, at = expand(first[pick], last[pick])
            key = (row[pick][which] << _BITS) | (group[at] & _MASK)
            some = (column[at].astype(np.int64) for column in (value, number))
            out.append(statistics(*counted(key, *some)))
        return out

    def _add_instances(
        self,
        found: Attribution,
        rows: Rows,
        number: Ints,
        kernel: Ints,
        shared: npt.NDArray[np.bool_],
    ) -> None:
        id_of = found.trace.ranges.index.to_numpy()
        row_of = number[rows.of_range]
        found_here = [self._instances]
        for pairs in instance_kernels(found, kernel, _BITS):
            self._split(found.nest.rows[pairs >> _BITS], pairs & _MASK, row_of, id_of, shared,
                        found_here)  # fmt: skip
        op, position = found.claims.query, found.claims.position
        pick = Ops.of(found).is_kernel[op]
        claims = distinct((position[pick] << _BITS) | kernel[op[pick]])
        self._split(found.start_end_rows[claims >> _BITS], claims & _MASK, row_of, id_of, shared,
                    found_here)  # fmt: skip
        self._instances = _added(found_here)

    def _split(
        self,
        at: Ints,
        kernel: Ints,
        row_of: Ints,
        id_of: Ints,
        shared: npt.NDArray[np.bool_],
        found_here: list[tuple[Ints, Ints]],
    ) -> None:
        """Count what no other part can have; keep the rest until all parts are read."""
        key = (row_of[at] << _BITS) | kernel
        later = shared[at]
        found_here.append(counted_keys(key[~later]))
        if later.any():
            pairs = np.stack([id_of[at[later]], key[later]])
            self._shared.append(np.unique(np.concatenate([*self._shared, pairs], axis=1), axis=1))
            self._shared = self._shared[-1:]

    def _instances_of(self, key: Ints) -> Ints:
        shared = [counted_keys(pairs[1]) for pairs in self._shared]
        keys, number = _added([self._instances, *shared])
        out = np.zeros(len(key), np.int64)
        if len(keys):
            at = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            out = np.where(keys[at] == key, number[at], 0)
        return out


def _added(parts: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Counts of equal keys added up."""
    key, number = (np.concatenate(part) for part in zip(*parts, strict=True))
    keys, at = np.unique(key, return_inverse=True)
    out = np.zeros(len(keys), np.int64)
    np.add.at(out, at, number)
    return keys, out
