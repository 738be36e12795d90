# SPDX-License-Identifier: MIT
"""Rows of each view to a Grid: headings, units, indentation, footnotes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.render.page import Column, Grid, Row
from harness.render.text import (
    MISSING,
    count,
    duration,
    plural,
    printable,
    printable_path,
    ratio,
    share,
)

if TYPE_CHECKING:
    import pandas as pd

    from harness.report import Report

Record = dict[str, Any]

NO_BACKWARD = (
    "No backward op could be linked to its forward: record under"
    " torch.autograd.profiler.emit_nvtx(), or with torch.profiler."
)


@dataclass(frozen=True)
class Spec:
    """One printed column of a view: its heading, the frame's column, how to write it."""

    heading: str
    column: str
    write: Callable[[Any], str]
    keep: int = 9
    right: bool = True
    end: bool = False


def _text(value: Any) -> str:
    return printable(str(value)) if value not in (None, "") else ""


def _shapes(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def _percent(value: Any) -> str:
    return MISSING if value is None or value != value else f"{100 * value:+.1f}%"


_THREAD = (
    Spec("PID", "pid", str, 3),
    Spec("TID", "tid", str, 3),
)
_RANGE_TIMES = (
    Spec("Inst", "instances", count, 5),
    Spec("Kernels", "kernels", count),
    Spec("Self", "self_gpu_ns", duration, 4),
    Spec("Total", "total_gpu_ns", duration),
    Spec("Busy", "busy_ns", duration, 1),
)
#: GPU ops that are not kernels: shown where a report has any, since their time counts too.
_OTHER_OPS = (
    Spec("Copies", "memcpys", count, 3),
    Spec("Sets", "memsets", count, 2),
    Spec("Graphs", "graphs", count, 8),
)
SPECS: dict[str, tuple[str, tuple[Spec, ...]]] = {
    "names": ("Range", (*_THREAD, *_RANGE_TIMES)),
    "kernels": (
        "Range > kernel",
        (
            *_THREAD,
            Spec("Kernels", "kernels", count),
            Spec("Total", "total_ns", duration),
            Spec("Median", "median_ns", duration, 7),
            Spec("Min", "min_ns", duration, 5),
            Spec("Max", "max_ns", duration, 5),
        ),
    ),
    "ops": (
        "GPU op",
        (
            Spec("Start", "start_ns", lambda ns: f"{ns:,}", 5),
            Spec("Time", "ns", duration),
            Spec("Dev", "device", str, 4),
            Spec("Stream", "stream", str, 4),
            Spec("Rule", "rule", str, 8, right=False),
            Spec("Path", "path", printable_path, right=False, end=True),
        ),
    ),
    "instances": (
        "Range",
        (
            *_THREAD,
            Spec("Start", "start_ns", lambda ns: f"{ns:,}", 5),
            Spec("CPU", "cpu_ns", duration),
            Spec("Kernels", "kernels", count),
            Spec("Total", "total_gpu_ns", duration),
        ),
    ),
    "torch": (
        "Operator",
        (
            Spec("Input shapes", "input_shapes", _shapes, 4, right=False),
            Spec("Calls", "count", count),
            Spec("Self device", "self_device_ns", duration),
            Spec("Device", "device_ns", duration),
            Spec("Self CPU", "self_cpu_ns", duration, 6),
            Spec("CPU", "cpu_ns", duration, 5),
        ),
    ),
    "both": (
        "Range",
        (
            Spec("nsys: kernels", "nsys_kernels", count),
            Spec("torch: kernels", "torch_kernels", count),
            Spec("nsys: total", "nsys_total_ns", duration),
            Spec("torch: total", "torch_total_ns", duration),
            Spec("Ratio", "ratio", ratio),
            Spec("Why", "code", str, right=False),
        ),
    ),
    "layers": (
        "Range",
        (
            Spec("Forward", "forward_ns", duration),
            Spec("Backward", "backward_ns", duration),
            Spec("Total", "total_ns", duration),
            Spec("Backward ops", "backward_ops", count, 5),
        ),
    ),
    "latency": (
        "Range",
        (
            Spec("Inst", "instances", count, 3),
            Spec("CPU", "cpu_ns", duration, 5),
            Spec("Busy", "busy_ns", duration, 6),
            Spec("Span", "span_ns", duration, 4),
            Spec("Idle", "idle_ns", duration, 6),
            Spec("Launch delay: median", "launch_delay_median_ns", duration),
            Spec("Launch delay: p99", "launch_delay_p99_ns", duration),
        ),
    ),
    "spread": (
        "Range",
        (
            Spec("Reports", "sources", count, 5),
            Spec("Kernels", "kernels_max", count, 4),
            Spec("Min", "min_ns", duration),
            Spec("Median", "median_ns", duration),
            Spec("Max", "max_ns", duration),
            Spec("Excess", "excess", _percent),
            Spec("Slowest", "slowest", _text, right=False),
        ),
    ),
}


def records(frame: pd.DataFrame) -> list[Record]:
    """Rows as dicts, paths kept as tuples."""
    names = [str(name) for name in frame.columns]
    columns = [frame[name].tolist() for name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def view_grid(view: str, report: Report) -> Grid:
    """The grid of any view but ``ranges``."""
    return rows_grid(view, report.rows, report.omitted)


def rows_grid(view: str, rows: pd.DataFrame, omitted: int = 0) -> Grid:
    heading, specs = SPECS[view]
    if view == "ops":
        rows = rows.assign(ns=rows["end_ns"] - rows["start_ns"])
    specs = tuple(spec for spec in specs if spec.column in rows.columns)
    if view == "torch" and not rows["input_shapes"].notna().any():
        specs = tuple(spec for spec in specs if spec.column != "input_shapes")
    body = tuple(
        Row(
            row_name(view, record),
            tuple(_write(spec, record) for spec in specs),
            tail=_tail(record),
            end="path" in record and view != "ops",
            tone="warn" if record.get("straggler") or record.get("code") else "",
        )
        for record in records(rows)
    )
    columns = tuple(Column(spec.heading, spec.right, spec.keep, spec.end) for spec in specs)
    notes = cut_note(omitted)
    if view == "both":
        notes += tuple(
            f"{printable_path(r['path'])}: {printable(r['reason'])}"
            for r in records(rows)
            if r["reason"]
        )
    if view == "layers" and not rows["backward_ops"].any():
        notes += (NO_BACKWARD,)
    return Grid(heading, columns, body, notes)


def _write(spec: Spec, record: Record) -> str:
    value = record[spec.column]
    if value is None or value is _na() or value != value:
        return MISSING if spec.right else ""
    return spec.write(value)


def _na() -> Any:
    import pandas as pd

    return pd.NA


def row_name(view: str, record: Record) -> str:
    """What stands in the first column."""
    if view == "names":
        return qualified(record)
    if view == "kernels":
        known = record["style"] or record["name"]
        name = qualified(record) if known else "(outside)"
        return f"{name} > {printable(record['kernel'])}"
    if view in ("ops", "torch"):
        return printable(record["name"])
    path = printable_path(record["path"])
    return f"{printable(record['domain'])}:{path}" if record.get("domain") else path


def qualified(record: Record) -> str:
    """``domain:name`` as ``nsys stats`` writes it; just the name in the default domain."""
    name = printable(record["name"])
    return f"{printable(record['domain'])}:{name}" if record["domain"] else name


def _tail(record: Record) -> str:
    opened = record.get("open")
    return (" [start/end]" if record.get("style") == "start_end" else "") + (
        " [open]" if opened else ""
    )


def cut_note(omitted: int) -> tuple[str, ...]:
    if not omitted:
        return ()
    rows = plural(omitted, "more row")
    return (f"{rows} not shown (--top 0 shows all, --format csv writes all)",)


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
                Column("torch: kernels"),
                Column("torch: total", keep=7),
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
        return Row(name, cells, depth + deeper, _tail(record), end, tone)

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
        missing = row["torch_instances"] is _na()
        cells = (
            MISSING if missing else count(row["torch_kernels"]),
            MISSING if missing else duration(row["torch_total_ns"]),
            MISSING if missing else ratio(row["ratio"]),
            note,
        )
        return cells, note

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
            if row["nsys_instances"] is _na() and row["code"] != "torch-own"
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
    extra = tuple(s for s in _OTHER_OPS if s.column in rows.columns and rows[s.column].any())
    return (*_RANGE_TIMES[:2], *extra, *_RANGE_TIMES[2:])


def _cpu_cells(record: Record) -> tuple[str, ...]:
    each = record["cpu_ns"] / record["instances"] if record["instances"] else None
    return count(record["instances"]), duration(record["cpu_ns"]), duration(each)


def _by_path(report: Report) -> dict[tuple[str, ...], Record]:
    if report.sides is None:
        return {}
    return {row["path"]: row for row in records(report.sides)}
