# SPDX-License-Identifier: MIT
"""What was recorded, on what, and how much each profiler slowed it: the lines above the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.render.text import printable

if TYPE_CHECKING:
    from harness.report import Report
    from harness.selection import Selection

Run = Mapping[str, Any]


def title(report: Report) -> str:
    """``NAME · Nsight Systems 2025.3.1 · policy autograd``."""
    source = report.source
    producer = source.producer or {"nsys": "Nsight Systems", "torch": "torch.profiler"}[source.kind]
    parts = [printable(report.name), f"{printable(producer)} {printable(source.version or '')}"]
    if report.ledger is not None:
        parts.append(f"policy {report.policy}")
    return " · ".join(part.replace(UNNAMED_VERSION, "").strip() for part in parts)


UNNAMED_VERSION = "(unnamed)"


def lines(report: Report) -> tuple[str, ...]:
    """One line each: machine, versions, wall times, what was selected."""
    run = report.run or {}
    found = [
        "" if run.get("complete", True) else "INCOMPLETE RUN: it was interrupted; figures are partial",
        _machine(run, report.source.facts),
        _wall_times(run),
        describe(report.selection),
    ]
    return tuple(line for line in found if line)


def _machine(run: Run, recorded: Mapping[str, Any]) -> str:
    versions = run.get("versions") or {}
    gpus = run.get("gpu") or []
    parts = []
    names = [str(gpu.get("name", "")) for gpu in gpus if isinstance(gpu, Mapping)]
    if not names:
        names = [str(gpu) for gpu in recorded.get("gpus", []) if isinstance(gpu, str)]
    if names:
        same = len(set(names)) == 1 and len(names) > 1
        parts.append(f"{len(names)} × {names[0]}" if same else ", ".join(names))
    drivers = [gpu.get("driver") for gpu in gpus if isinstance(gpu, Mapping) and gpu.get("driver")]
    if drivers:
        parts.append(f"driver {drivers[0]}")
    for key, label in (("cuda", "CUDA"), ("torch", "torch"), ("nsys", "nsys")):
        if versions.get(key):
            parts.append(f"{label} {versions[key]}")
    if run.get("created"):
        parts.append(f"recorded {str(run['created'])[:16].replace('T', ' ')}")
    return printable(" · ".join(parts)) if parts else ""


def _wall_times(run: Run) -> str:
    """How long each pass took, start-up included, and how much longer than the plain one."""
    passes = {p["name"]: p for p in reversed(run.get("passes") or []) if p.get("duration_s")}
    if not passes:
        return ""
    plain = passes.get("plain", {}).get("duration_s")
    parts = []
    for name in ("plain", "torch", "nsys"):
        if name in passes:
            seconds = passes[name]["duration_s"]
            slower = f" ({seconds / plain:.2f}×)" if plain and name != "plain" else ""
            parts.append(f"{name} {seconds:.1f} s{slower}")
    return "Wall time of each pass: " + ", ".join(parts)


def describe(selection: Selection) -> str:
    """What the filters keep, in words; empty without filters."""
    parts = []
    if selection.skip:
        parts.append(f"without the first {selection.skip} of each path")
    if selection.steady:
        parts.append("steady instances only")
    if selection.time is not None:
        start, end = selection.time
        parts.append(f"from {_ns(start, 'the start')} to {_ns(end, 'the end')}")
    for label, value in (("ranges matching", selection.range), ("kernels matching", selection.kernel)):
        if value is not None:
            parts.append(f"{label} {printable(value)}")
    for label, values in (
        ("domain", selection.domains),
        ("device", selection.devices),
        ("pid", selection.pids),
    ):
        if values:
            parts.append(f"{label} {', '.join(printable(str(v)) for v in values)}")
    return "Selected: " + "; ".join(parts) if parts else ""


def _ns(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:,} ns"


def workload_device(run: Run | None) -> str:
    """``cpu``, ``cuda``, or empty when the workload did not say."""
    workload = (run or {}).get("workload")
    device = workload.get("device", "") if isinstance(workload, Mapping) else ""
    if isinstance(device, Mapping):
        device = device.get("type", "")
    return str(device).split(":")[0]


def workload_lines(run: Run | None) -> tuple[str, ...]:
    """PASS or FAIL, the element check, and prediction beside measurement."""
    workload = (run or {}).get("workload")
    if not isinstance(workload, Mapping):
        return ()
    return ()
