# SPDX-License-Identifier: MIT
"""Rows of every view but the tree of ranges to a Grid: headings, units, notes."""

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
)

if TYPE_CHECKING:
    import pandas as pd

    from harness.report import Report

Record = dict[str, Any]


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
RANGE_TIMES = (
    Spec("Inst", "instances", count, 5),
    Spec("Kernels", "kernels", count),
    Spec("Self", "self_gpu_ns", duration, 4),
    Spec("Total", "total_gpu_ns", duration),
    Spec("Busy", "busy_ns", duration, 1),
)
SPECS: dict[str, tuple[str, tuple[Spec, ...]]] = {
    "names": ("Range", (*_THREAD, *RANGE_TIMES)),
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
            Spec("Captured in", "captured_path", printable_path, right=False, end=True),
            Spec("Forward in", "forward_path", printable_path, right=False, end=True),
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
    "communication": (
        "Range",
        (
            Spec("Inst", "instances", count, 3),
            Spec("Total", "total_gpu_ns", duration, 4),
            Spec("Compute", "compute_ns", duration),
            Spec("Comm kernels", "comm_kernels", count, 5),
            Spec("Communication", "comm_ns", duration),
            Spec("Exposed", "exposed_ns", duration),
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


#: Paths that an op has beside its own, shown where any op has one.
_SECOND_PATHS = ("captured_path", "forward_path")


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
        empty = {name for name in _SECOND_PATHS if not any(rows[name].unique())}
        specs = tuple(spec for spec in specs if spec.column not in empty)
    specs = tuple(spec for spec in specs if spec.column in rows.columns)
    if view == "torch" and not rows["input_shapes"].notna().any():
        specs = tuple(spec for spec in specs if spec.column != "input_shapes")
    body = tuple(
        Row(
            row_name(view, record),
            tuple(_write(spec, record) for spec in specs),
            tail=tail(record),
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
    return Grid(heading, columns, body, notes)


def _write(spec: Spec, record: Record) -> str:
    value = record[spec.column]
    if value is None or value is not_available() or value != value:
        return MISSING if spec.right else ""
    return spec.write(value)


def not_available() -> Any:
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


def tail(record: Record) -> str:
    opened = record.get("open")
    if record.get("annotation"):
        return " [annotation]"
    return (" [start/end]" if record.get("style") == "start_end" else "") + (
        " [open]" if opened else ""
    )


def cut_note(omitted: int) -> tuple[str, ...]:
    if not omitted:
        return ()
    rows = plural(omitted, "more row")
    return (f"{rows} not shown (--top 0 shows all, --format csv writes all)",)
