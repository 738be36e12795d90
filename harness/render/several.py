# SPDX-License-Identifier: MIT
"""Grids of several reports: one under the other, or their spread."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.render.grids import rows_grid, view_grid
from harness.render.page import Grid, Row
from harness.render.range_tree import range_grid
from harness.render.text import plural, printable
from harness.spread import stragglers

if TYPE_CHECKING:
    import pandas as pd

    from harness.report import Report


def stacked_grid(reports: list[Report]) -> Grid:
    """Each report's rows below its name. Reports may differ in columns: the widest set is used."""
    grids = [
        range_grid(report) if report.view == "ranges" else view_grid(report.view, report)
        for report in reports
    ]
    headings = [tuple(column.heading for column in grid.columns) for grid in grids]
    widest = grids[max(range(len(grids)), key=lambda i: len(headings[i]))]
    body: list[Row] = []
    notes: list[str] = []
    for report, grid in zip(reports, grids, strict=True):
        body.append(Row(printable(report.name), ("",) * len(widest.columns), tone="head"))
        have = [column.heading for column in grid.columns]
        for row in grid.rows:
            by_heading = dict(zip(have, row.cells, strict=True))
            cells = tuple(by_heading.get(column.heading, "") for column in widest.columns)
            body.append(replace(row, cells=cells, depth=row.depth + 1))
        notes += [f"{printable(report.name)}: {note}" for note in grid.after]
    return Grid(widest.heading, widest.columns, tuple(body), tuple(notes))


def spread_grid(rows: pd.DataFrame) -> Grid:
    """Smallest, median and largest report of each path, and who stands out."""
    grid = rows_grid("spread", rows)
    notes = [
        f"Straggler: {printable(name)}, slowest by far in {plural(number, 'range')}"
        f" (up to {100 * worst:.1f} % above the median)"
        for name, number, worst in stragglers(rows)
    ]
    if len(rows) and not notes:
        notes.append("No straggler: no report stands out in any range.")
    if len(rows) and (rows["measure"] == "CPU").any():
        notes.append("No GPU op was recorded: CPU time is compared.")
    if len(rows) and (rows["measure"] == "compute").any():
        notes.append(
            "Times are without communication kernels, in which the other ranks wait for the slowest"
            " (--view communication has them)."
        )
    missing = int((rows["missing"] > 0).sum()) if len(rows) else 0
    if missing:
        notes.append(f"{plural(missing, 'range')} not in every report: see Reports.")
    return Grid(grid.heading, grid.columns, grid.rows, (*grid.after, *notes))
