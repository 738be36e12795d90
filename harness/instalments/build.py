# SPDX-License-Identifier: MIT
"""A Report of a recording that is read in parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from harness.attribute import Attribution, Ledger, attribute
from harness.attribute.engine import ambiguous_warnings
from harness.attribute.graph_warnings import GraphFacts
from harness.attribute.shared_device import SharedDevices
from harness.errors import UsageProblem
from harness.instalments import rows as numbering
from harness.instalments.kernels import Kernels
from harness.instalments.rows import Book
from harness.instalments.sums import Sums, add_ledgers
from harness.instalments.unions import Busy
from harness.memory import BASE_BYTES, FEWEST_ROWS, LEAST_BYTES, ROW_BYTES
from harness.report import Report, Request, arrange
from harness.summarise import EXTRA_COLUMNS, NAME_COLUMNS, RANGE_COLUMNS, in_tree_order
from harness.trace import Warning_
from harness.words import plural

if TYPE_CHECKING:
    from harness.readers.nsys_sqlite import Parts

VIEWS = ("ranges", "names", "kernels")


def rows_within(budget: int) -> int:
    """How many launches and GPU ops a part may have under a memory budget (bytes)."""
    return max((budget - BASE_BYTES) // ROW_BYTES, FEWEST_ROWS)


def report_in_parts(parts: Parts, request: Request, *, name: str) -> Report:
    """As ``harness.report.build``, without ever holding the whole recording.

    Raises:
        UsageProblem: the view or a filter needs the whole recording at once.
    """
    _check(request)
    view = _View(request)
    rows, ledger, number = view.read(parts)
    rows, omitted = arrange(rows, request)
    note = Warning_(
        "in-parts",
        f"read in {plural(number, 'part')} to stay within --memory: figures and warnings are the "
        "same, but warm-up, work under no range and the torch pass are left out",
        "Leave out --memory where there is memory enough.",
    )
    found = (
        *parts.warnings(),
        *view.graphs.warnings(),
        *view.shared.warnings(),
        *ambiguous_warnings(ledger, view.unsure),
        *([_too_little(request.memory)] if 0 < request.memory < LEAST_BYTES else []),
    )
    return Report(
        name=name,
        source=parts.source,
        view=request.view,
        policy=request.policy,
        rows=rows,
        ledger=ledger.check(parts.source.path),
        warnings=(*dict.fromkeys(found), note),
        sort=request.sort,
        omitted=omitted,
        selection=request.selection,
    )


def _too_little(budget: int) -> Warning_:
    least = LEAST_BYTES // 10**6
    return Warning_(
        "memory-not-kept",
        f"--memory of {budget} bytes cannot be kept: reading takes about {least} MB"
        " however small the parts are",
        f"--memory {least}MB is the least that can be.",
    )


def _check(request: Request) -> None:
    if request.view not in VIEWS:
        raise UsageProblem(
            f"--view {request.view} needs the whole recording in memory",
            hint=f"Leave out --memory, or choose {', '.join(VIEWS)}.",
        )
    if request.selection:
        raise UsageProblem(
            "filters need the whole recording in memory", hint="Leave out --memory, or the filters."
        )


class _View:
    """The rows of one view, from parts of the ops and then from stretches of the ranges."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.book = Book(numbering.paths if request.view == "ranges" else numbering.names)
        self.sums = Sums(self.book)
        self.busy = Busy()
        self.kernels = Kernels(self.book, request.names)
        self.ledger: Ledger | None = None
        self.graphs = GraphFacts()
        self.shared = SharedDevices()
        self.unsure: set[str] = set()

    def read(self, parts: Parts) -> tuple[pd.DataFrame, Ledger, int]:
        """The rows, the ledger and how many parts there were."""
        count = 0
        for count, part in enumerate(parts.parts(), 1):  # noqa: B007
            found = attribute(part.trace, self.request.policy)
            self._add(found, part.shared, part.later)
            del part, found
        if self.request.view != "kernels":
            for stretch in parts.stretches():
                found = attribute(stretch.trace, self.request.policy)
                start = stretch.trace.ranges["start"].to_numpy()
                kept = replace(found, keep_range=(start >= stretch.low) & (start < stretch.high))
                self.sums.add_ranges(kept, *self.book.enter(kept))
        ledger = self.ledger or Ledger(0, 0, 0, 0, 0, {})
        return self._tables()[self.request.view](), ledger, count

    def _add(self, found: Attribution, shared: np.ndarray[tuple[int], np.dtype[np.bool_]],
             later: int) -> None:  # fmt: skip
        rows, number = self.book.enter(found)
        if self.request.view == "kernels":
            self.kernels.add(found, rows, number, shared)
        else:
            self.sums.add_ops(found, rows, number)
            self.busy.add(found, rows, number, len(self.book), later)
        self.ledger = add_ledgers(self.ledger, found.ledger)
        self.graphs += found.graph_facts
        self.shared.add(found.trace, later)
        self.unsure |= found.ambiguous_threads

    def _tables(self) -> dict[str, Callable[[], pd.DataFrame]]:
        return {"ranges": self._ranges, "names": self._names, "kernels": self.kernels.table}

    def _ranges(self) -> pd.DataFrame:
        out = self._measured(("pid", "path", "domain", "name", "style"))
        parent = numbering.parents(self.book)
        return in_tree_order(out, parent, [*RANGE_COLUMNS, *EXTRA_COLUMNS])

    def _names(self) -> pd.DataFrame:
        out = self._measured(("domain", "name", "style", "pid", "tid"))
        by = out[out["instances"] > 0].sort_values(["pid", "tid", "first_ns"], kind="stable")
        return by[[*NAME_COLUMNS, *EXTRA_COLUMNS]].reset_index(drop=True)

    def _measured(self, columns: tuple[str, ...]) -> pd.DataFrame:
        out = {name: self.book.column(name) for name in columns}
        out.update(self.sums.table())
        out["busy_ns"] = self.busy.ns(len(self.book))
        out["idle_ns"] = out["span_ns"] - np.minimum(out["busy_ns"], out["span_ns"])
        return pd.DataFrame(out)
