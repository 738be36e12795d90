# SPDX-License-Identifier: MIT
"""Rows of a view, numbered alike in all parts of a recording."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.attribute import Attribution
from harness.attribute.arrays import Ints, distinct
from harness.measures import Rows, name_rows, path_rows

#: What a view needs of a part: its rows, and a key for each that is the same in every part.
Key = tuple[Any, ...]
Numbering = Callable[[Attribution], tuple[Rows, list[Key]]]


class Book:
    """Gives every distinct row a number, and remembers its columns."""

    def __init__(self, numbering: Numbering) -> None:
        self.numbering = numbering
        self.numbers: dict[Key, int] = {}
        self.columns: dict[str, list[Any]] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def enter(self, found: Attribution) -> tuple[Rows, Ints]:
        """The rows of a part, and the number of each (those of ``rows.outside`` included)."""
        rows, keys = self.numbering(found)
        numbers = np.empty(len(keys), np.int64)
        for at, key in enumerate(keys):
            known = len(self.numbers)
            numbers[at] = self.numbers.setdefault(key, known)
            if numbers[at] == known:
                for name, values in rows.columns.items():
                    self.columns.setdefault(name, []).append(values[at])
        return rows, numbers

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column of all rows, by number."""
        values = self.columns.get(name, [])
        out = np.empty(len(values), dtype=object)
        out[:] = values
        return out if name in ("path", "domain", "name", "style") else out.astype(np.int64)


def paths(found: Attribution) -> tuple[Rows, list[Key]]:
    """Rows of view ``ranges``; the key is (process, the labels along the path)."""
    rows = path_rows(found)
    labels = _labels(found)
    tree = found.nest.paths
    nodes = distinct(found.nest.path)
    owner, member = tree.ancestry(nodes)
    flat = [labels[at] for at in tree.label[member].tolist()]
    bounds = np.searchsorted(owner, np.arange(len(nodes) + 1)).tolist()
    process = found.processes[tree.root_of()[nodes]].tolist()
    keys: list[Key] = [
        (process[i], tuple(flat[a:b])) for i, (a, b) in enumerate(itertools.pairwise(bounds))
    ]
    one_of = np.zeros(rows.count, np.int64)
    one_of[rows.of_start_end] = np.arange(len(rows.of_start_end))
    for one in one_of[len(nodes) :].tolist():
        label = labels[int(found.labels.of_range[found.start_end_rows[one]])]
        keys.append((int(found.processes[found.start_end.process[one]]), (label,)))
    return rows, keys


def names(found: Attribution) -> tuple[Rows, list[Key]]:
    """Rows of views ``names`` and ``kernels``, then one a thread for what is outside."""
    rows = name_rows(found)
    columns = [rows.columns[name].tolist() for name in ("domain", "name", "style", "pid", "tid")]
    process = found.trace.threads["process"].to_numpy()
    thread = np.concatenate([_first_thread(found, rows), np.arange(len(process))])
    keys: list[Key] = [
        (int(process[one]), *key)
        for one, key in zip(thread, zip(*columns, strict=True), strict=True)
    ]
    return rows, keys


def parents(book: Book) -> Ints:
    """For each row of ``paths`` the row of the nearest path above it that is a row, else -1."""
    out = np.full(len(book), -1)
    for key, number in book.numbers.items():
        process, labels = key
        for length in range(len(labels) - 1, 0, -1):
            above = book.numbers.get((process, labels[:length]))
            if above is not None:
                out[number] = above
                break
    return out


def _labels(found: Attribution) -> list[tuple[str, str, str]]:
    labels = found.labels
    return list(zip(labels.domain, labels.name, labels.style, strict=True))


def _first_thread(found: Attribution, rows: Rows) -> Ints:
    """A thread of each row (all its ranges have the same one)."""
    out = np.zeros(rows.count, np.int64)
    out[rows.of_range] = found.trace.ranges["thread"].to_numpy()
    return out
