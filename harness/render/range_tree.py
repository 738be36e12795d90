# SPDX-License-Identifier: MIT
"""The tree of ranges as a Grid, with the torch pass's columns where a run has both recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.render.grids import (
    RANGE_TIMES,
    Record,
    Spec,
    cut_note,
    not_available,
    records,
    row_name,
    tail,
)
from harness.render.page import Column, Grid, Row
from harness.render.text import (
    MISSING,
    count,
    duration,
    printable,
    printable_path,
    ratio,
    share,
)

if TYPE_CHECKING:
    from harness.report import Report

#: GPU ops that are not kernels: shown where a report has any, since their time counts too.
OTHER_OPS = (
    Spec("Copies", "memcpys", count, 3),
    Spec("Sets", "memsets", count, 2),
    Spec("Graphs", "graphs", count, 8),
)


def range_grid(report: Report) -> Grid:
    """The tree of ranges, with the torch pass's columns where the run has both recordings."""
    return Ranges(report).grid()


class Ranges:
    """Builds the grid of view ``ranges``; numbers the reasons as it meets them."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.rows = records(report.rows)
        self.gpu = report.ledger is None or report.ledger.gpu_ops > 0
        self.specs = _range_specs(report) if self.gpu else ()
        self.joined = report.sides is not None
        self.sides = _by_path(report)
        self.footnotes: dict[str, int] = {}
        self.torch_only = self._torch_only()
        self.depth = {} if report.sort else self._depths()

    def grid(self) -> Grid:
        body: list[Row] = []
        pids = {row["pid"] for row in self.rows}
        process = None
        for record in self.rows:
            if len(pids) > 1 and not self.report.sort and record["pid"] != process:
                process = record["pid"]
                body.append(self._process_row(process))
            body.append(self._row(record, deeper=len(pids) > 1))
        return Grid("Range", self._columns(), tuple(body), self._notes())

    def _columns(self) -> tuple[Column, ...]:
        columns = [Column(s.heading, s.right, s.keep) for s in self.specs]
        if self.gpu:
            columns.append(Column("Share", keep=6))
        else:
            columns += [Column("Inst"), Column("CPU"), Column("CPU/inst")]
        if self.joined:
            columns += [
                Column("torch: kernels" if self.gpu else "torch: inst"),
                Column("torch: total" if self.gpu else "torch: CPU", keep=7),
                Column("Ratio"),
                Column("Why", right=False),
            ]
        return tuple(columns)

    def _process_row(self, pid: int) -> Row:
        return Row(f"process {pid}", ("",) * len(self._columns()), tone="head")

    def _row(self, record: Record, *, deeper: bool) -> Row:
        depth, above = self.depth.get((record["pid"], record["path"]), (0, 0))
        name = row_name("ranges", record | {"path": record["path"][above:]})
        cells = self._gpu_cells(record) if self.gpu else _cpu_cells(record)
        note = ""
        if self.joined:
            torch, note = self._torch_cells(record)
            cells += torch
        tone = "warn" if note else ""
        end = bool(self.report.sort)
        return Row(name, cells, depth + deeper, tail(record), end, tone)

    def _gpu_cells(self, record: Record) -> tuple[str, ...]:
        whole = self.report.ledger.gpu_ns if self.report.ledger else 0
        cells = tuple(spec.write(record[spec.column]) for spec in self.specs)
        return (*cells, share(record["total_gpu_ns"], whole))

    def _torch_cells(self, record: Record) -> tuple[tuple[str, ...], str]:
        # A path of two processes or domains is one row of the join: shown where it comes first.
        row = self.sides.pop(record["path"], None)
        if row is None:
            return ("", "", "", ""), ""
        note = ""
        if row["reason"]:
            note = f"[{self.footnotes.setdefault(row['reason'], len(self.footnotes) + 1)}]"
        missing = row["torch_instances"] is not_available()
        if missing:
            return (MISSING, MISSING, MISSING, note), note
        if self.gpu:
            cells = (
                count(row["torch_kernels"]),
                duration(row["torch_total_ns"]),
                ratio(row["ratio"]),
            )
        else:
            cpu = row["torch_cpu_ns"]
            slower = cpu / row["nsys_cpu_ns"] if row["nsys_cpu_ns"] else None
            cells = (count(row["torch_instances"]), duration(cpu), ratio(slower))
        return (*cells, note), note

    def _depths(self) -> dict[tuple[int, tuple[str, ...]], tuple[int, int]]:
        """Indentation of each row, and how many names of its path the rows above already show.

        A filter or ``--top`` may leave a range without its parent: then its row spells the gap.
        """
        found: dict[tuple[int, tuple[str, ...]], tuple[int, int]] = {}
        shown = {(row["pid"], row["path"]) for row in self.rows}
        for row in self.rows:
            pid, path = row["pid"], row["path"]
            above = len(path) - 1
            while above and (pid, path[:above]) not in shown:
                above -= 1
            parent = found.get((pid, path[:above]), (-1, 0))
            found[pid, path] = (parent[0] + 1 if above else 0, above)
        return found

    def _torch_only(self) -> list[str]:
        return [
            printable_path(path)
            for path, row in self.sides.items()
            if row["nsys_instances"] is not_available() and row["code"] != "torch-own"
        ]

    def _notes(self) -> tuple[str, ...]:
        notes = list(cut_note(self.report.omitted))
        notes += [f"[{number}] {printable(text)}" for text, number in self.footnotes.items()]
        if self.torch_only:
            shown = ", ".join(self.torch_only[:3])
            rest = len(self.torch_only) - 3
            more = f" and {rest} more" if rest > 0 else ""
            notes.append(f"Only torch.profiler has: {shown}{more}")
        if self.joined:
            notes.append(
                "The nsys and torch columns are two executions of the program; Ratio is torch over"
                " nsys."
            )
        return tuple(notes)


def _range_specs(report: Report) -> tuple[Spec, ...]:
    rows = report.rows
    extra = tuple(s for s in OTHER_OPS if s.column in rows.columns and rows[s.column].any())
    return (*RANGE_TIMES[:2], *extra, *RANGE_TIMES[2:])


def _cpu_cells(record: Record) -> tuple[str, ...]:
    each = record["cpu_ns"] / record["instances"] if record["instances"] else None
    return count(record["instances"]), duration(record["cpu_ns"]), duration(each)


def _by_path(report: Report) -> dict[tuple[str, ...], Record]:
    if report.sides is None:
        return {}
    return {row["path"]: row for row in records(report.sides)}
