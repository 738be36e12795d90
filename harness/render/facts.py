# SPDX-License-Identifier: MIT
"""What was recorded, on what, and how much each profiler slowed it: the lines above the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.render.text import plural, printable

if TYPE_CHECKING:
    from harness.launch.rundir import Run
    from harness.report import Report
    from harness.selection import Selection

_PRODUCERS = {"nsys": "Nsight Systems", "torch": "torch.profiler"}


def title(report: Report) -> str:
    """``NAME · Nsight Systems 2025.3.1 · policy autograd``."""
    source = report.source
    producer = f"{source.producer or _PRODUCERS[source.kind]} {source.version}".strip()
    parts = [printable(report.name), printable(producer)]
    if report.ledger is not None:
        parts.append(f"policy {report.policy}")
    if report.run is not None and report.run.created:
        parts.append(f"recorded {printable(report.run.created[:16].replace('T', ' '))}")
    return " · ".join(parts)


def lines(report: Report) -> tuple[str, ...]:
    """One line each: machine and versions, wall times, what went wrong, what was selected."""
    run = report.run
    found = [_machine(run, report.source.facts), describe(report.selection)]
    if run is not None:
        found += [_wall_times(run), *_trouble(run)]
    return tuple(line for line in found if line)


def _machine(run: Run | None, recorded: Mapping[str, Any]) -> str:
    gpus = run.gpu if run is not None else []
    names = [str(gpu.get("name")) for gpu in gpus if gpu.get("name")] or _recorded_gpus(recorded)
    parts = []
    if names:
        same = len(set(names)) == 1 and len(names) > 1
        parts.append(f"{len(names)} x {names[0]}" if same else ", ".join(names))
    parts += [f"driver {gpu['driver']}" for gpu in gpus[:1] if gpu.get("driver")]
    if run is not None:
        for key, label in (("cuda", "CUDA"), ("torch", "torch"), ("python", "Python")):
            if run.versions.get(key):
                parts.append(f"{label} {run.versions[key]}")
    return printable(" · ".join(parts)) if parts else ""


def _recorded_gpus(recorded: Mapping[str, Any]) -> list[str]:
    gpus = recorded.get("gpus") or []
    names = [gpu.get("name") if isinstance(gpu, Mapping) else gpu for gpu in gpus]
    return [str(name) for name in names if name]


def _wall_times(run: Run) -> str:
    """How long each pass took, start-up included, and how many times the plain one."""
    plain = run.duration_s("plain")
    parts = []
    for name in ("plain", "torch", "nsys"):
        seconds = run.duration_s(name)
        if seconds is None:
            continue
        slower = f" ({seconds / plain:.2f} x)" if plain and name != "plain" else ""
        times = len(run.captures(name))
        median = f", median of {times}" if times > 1 else ""
        parts.append(f"{name} {seconds:.1f} s{slower}{median}")
    return "Wall time of each pass: " + "; ".join(parts) if parts else ""


def _trouble(run: Run) -> list[str]:
    found = []
    if not run.complete:
        found.append("INCOMPLETE: this run was interrupted; what it recorded may be partial.")
    for record in run.passes:
        if record.exit_code:
            found.append(f"The {record.name} pass exited with {record.exit_code}: see {record.log}")
        found += [f"The {record.name} pass: {p.get('message', '')}" for p in record.problems]
    found += [f"No {gap.get('pass', '?')} pass: {gap.get('reason', '')}" for gap in run.skipped]
    return [printable(line) for line in found]


def describe(selection: Selection) -> str:
    """What the filters keep, in words; empty without filters."""
    parts = []
    if selection.skip:
        parts.append(f"without the first {plural(selection.skip, 'instance')} of each path")
    if selection.steady:
        parts.append("steady instances only")
    if selection.time is not None:
        start, end = selection.time
        parts.append(f"from {_ns(start, 'the start')} to {_ns(end, 'the end')}")
    if selection.range is not None:
        parts.append(f"ranges matching {printable(selection.range)}")
    if selection.kernel is not None:
        parts.append(f"kernels matching {printable(selection.kernel)}")
    for label, values in (
        ("domain", selection.domains),
        ("device", selection.devices),
        ("pid", selection.pids),
    ):
        if values:
            shown = (printable(str(value)) if value != "" else "(default)" for value in values)
            parts.append(f"{label} {', '.join(shown)}")
    return "Selected: " + "; ".join(parts) if parts else ""


def _ns(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:,} ns"


def workload_device(run: Run | None) -> str:
    """``cpu``, ``cuda``, or empty when the workload did not say."""
    machine = _part(run, "machine")
    return str(machine.get("device", "")).split(":")[0]


def _part(run: Run | None, key: str) -> Mapping[str, Any]:
    workload = run.workload if run is not None else None
    part = (workload or {}).get(key)
    return part if isinstance(part, Mapping) else {}


def workload_lines(run: Run | None, measured: float | None) -> tuple[str, ...]:
    """PASS or FAIL, the element check, and the byte model's prediction beside what was measured.

    ``measured`` is the eager over the fused chain's device time in the table above.
    """
    workload = run.workload if run is not None else None
    if not workload:
        return ()
    lines = [_verdict(workload)]
    model = _part(run, "byte_model")
    if model.get("predicted_ratio") and model.get("measured_ratio"):
        here = f", {measured:.2f} in the ranges above" if measured else ""
        lines.append(
            f"eager over fused chain: {model['predicted_ratio']:.2f} predicted by the bytes they"
            f" move, {model['measured_ratio']:.2f} measured by the workload{here}"
        )
    return tuple(line for line in lines if line)


def _verdict(workload: Mapping[str, Any]) -> str:
    if "passed" not in workload:
        return ""
    shape = " x ".join(str(size) for size in workload.get("shape") or [])
    tf32 = " with TF32" if workload.get("tf32") else ""
    checks = [
        f"{check.get('name')} outside the tolerance in {check.get('outside')} of"
        f" {check.get('elements')} elements"
        for check in workload.get("checks") or []
    ]
    told = ", ".join([f"{shape} {workload.get('dtype', '')}{tf32}".strip(), *checks])
    return f"{'PASS' if workload['passed'] else 'FAIL'}: {told}"
