# SPDX-License-Identifier: MIT
"""Counts and sums of rows, added over parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.attribute import Attribution, Ledger
from harness.attribute.arrays import Ints
from harness.instalments.rows import Book
from harness.measures.rows import Rows
from harness.measures.totals import range_totals, totals

OP_SUMS = (
    "kernels", "memcpys", "memsets", "graphs", "self_kernels", "self_kernel_ns",
    "total_kernel_ns", "self_gpu_ns", "total_gpu_ns",
)  # fmt: skip
RANGE_SUMS = ("instances", "open", "cpu_ns")
#: Least and greatest of a row.
LEAST, GREATEST = ("first_ns", "first_op_ns"), ("last_op_ns",)


class Sums:
    """One number a row and column; rows are added as they come."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self._columns: dict[str, Ints] = {}

    def add_ops(self, found: Attribution, rows: Rows, number: Ints) -> None:
        """What the ops of a part add to their rows."""
        part = totals(found, rows)
        for name in (*OP_SUMS, "first_op_ns", "last_op_ns"):
            self._merge(name, part[name], number[: rows.count])

    def add_ranges(self, found: Attribution, rows: Rows, number: Ints) -> None:
        """What the ranges that ``found`` keeps add to their rows."""
        part = range_totals(found, rows)
        for name in (*RANGE_SUMS, "first_ns"):
            self._merge(name, part[name], number[: rows.count])

    def table(self) -> dict[str, Ints]:
        """All columns by row number, with ``span_ns``."""
        names = (*OP_SUMS, *RANGE_SUMS, *LEAST, *GREATEST)
        out = {name: self._column(name) for name in names}
        number = out["kernels"] + out["memcpys"] + out["memsets"] + out["graphs"]
        out["span_ns"] = np.where(number > 0, out["last_op_ns"] - out["first_op_ns"], 0)
        return out

    def _column(self, name: str) -> Ints:
        old = self._columns.get(name, np.empty(0, np.int64))
        limits = np.iinfo(np.int64)
        fill = limits.max if name in LEAST else limits.min if name in GREATEST else 0
        column = np.full(len(self.book), fill, np.int64)
        column[: len(old)] = old
        self._columns[name] = column
        return column

    def _merge(self, name: str, values: Ints, number: Ints) -> None:
        column = self._column(name)
        if name in LEAST:
            column[number] = np.minimum(column[number], values)
        elif name in GREATEST:
            column[number] = np.maximum(column[number], values)
        else:
            column[number] += values


def add_ledgers(one: Ledger | None, other: Ledger) -> Ledger:
    """The ledger of both together."""
    if one is None:
        return other
    sums: dict[str, Any] = {
        name: _both(value, getattr(other, name)) for name, value in vars(one).items()
    }
    return Ledger(**sums)


def _both(one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return {key: value + other[key] for key, value in one.items()}
    return one + other
