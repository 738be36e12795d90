# SPDX-License-Identifier: MIT
"""Checks of one nsys report."""

from __future__ import annotations

from collections.abc import Callable

from harness.doctor.findings import NOTE, OK, PROBLEM, WARNING, Finding
from harness.doctor.traps import nvtx_records_nothing
from harness.readers.inspect_report import ReportFacts
from harness.words import agree, plural


def stale(facts: ReportFacts) -> Finding | None:
    if not facts.older_than_report:
        return None
    return Finding(
        "stale",
        PROBLEM,
        "the .sqlite is older than its .nsys-rep",
        facts.path,
        "Export it again: nsys export -t sqlite --force-overwrite=true REPORT.nsys-rep",
    )


def secrets(facts: ReportFacts) -> Finding:
    """Names only, never values."""
    if facts.secret_names:
        return Finding(
            "secrets",
            WARNING,
            f"{plural(len(facts.secret_names), 'environment variable')} in it "
            f"{agree(len(facts.secret_names), 'looks like a secret', 'look like secrets')}",
            ", ".join(facts.secret_names),
            "Share a scrubbed copy (harness share), not the .nsys-rep; change what has leaked.",
        )
    if facts.environment_count:
        return Finding(
            "secrets",
            NOTE,
            f"it carries {plural(facts.environment_count, 'environment variable')}",
            "none looks like a secret by its name or shape",
            "harness share writes a copy without them.",
        )
    return Finding("secrets", OK, "it carries no environment variables")


def errors(facts: ReportFacts) -> Finding | None:
    if not facts.errors:
        return None
    shown = facts.errors[:3]
    more = f" (and {len(facts.errors) - 3} more)" if len(facts.errors) > 3 else ""
    return Finding(
        "nsys-errors",
        WARNING,
        "nsys itself reported errors",
        "; ".join(shown) + more,
        "Record again with an nsys that knows the driver's CUDA.",
    )


def lost_kernels(facts: ReportFacts) -> Finding | None:
    """Seen: nsys 2023.4 on a CUDA 13 driver kept 2 of hundreds of kernels and exited 0."""
    launches, kernels = facts.launches, facts.kernels
    if launches == 0:
        return None
    evidence = f"{plural(launches, 'kernel launch')}, {plural(kernels, 'kernel')}"
    if kernels * 2 < launches:
        return Finding(
            "lost-kernels",
            PROBLEM,
            "most kernels are missing",
            evidence,
            "Use an nsys at least as new as the driver's CUDA; harness doctor checks.",
        )
    if kernels < launches:
        return Finding(
            "lost-kernels",
            WARNING,
            "some kernels are missing",
            evidence,
            "They may have been cut off at the end of the capture.",
        )
    return Finding("lost-kernels", OK, "every kernel launch has its kernel", evidence)


def no_ranges(facts: ReportFacts) -> Finding | None:
    if facts.ranges:
        return None
    if facts.other_nvtx:
        known = nvtx_records_nothing("0.2.12", facts.nsys_version)
        return Finding(
            "no-ranges",
            PROBLEM,
            "NVTX domains but not one range were recorded",
            f"nsys {facts.nsys_version}",
            'nvtx from 0.2.12 on does this under nsys before 2025: pip install "nvtx<0.2.12"'
            if known
            else "Did the program open a range?",
        )
    return Finding(
        "no-nvtx",
        WARNING,
        "nothing of NVTX was recorded",
        "",
        "Trace NVTX (-t cuda,nvtx) and open ranges: harness.range, torch.cuda.nvtx, nvtx.",
    )


def no_gpu_ops(facts: ReportFacts) -> Finding | None:
    if facts.gpu_ops:
        return None
    if facts.calls:
        return Finding(
            "no-gpu-ops",
            PROBLEM,
            "CUDA calls but no GPU op were recorded",
            plural(facts.calls, "call"),
            "Another CUPTI user (torch.profiler) in the program, or an nsys too old.",
        )
    return Finding("no-gpu-ops", NOTE, "no GPU work and no CUDA call was recorded")


def empty_processes(facts: ReportFacts) -> Finding | None:
    """A rank that recorded nothing looks like a rank that did nothing."""
    busy = [p for p in facts.processes if p.kernels]
    idle = [p for p in facts.processes if not p.kernels and (p.calls or p.ranges)]
    if not busy or not idle:
        return None
    shown = ", ".join(
        f"pid {p.pid} ({plural(p.ranges, 'range')}, {plural(p.calls, 'call')})" for p in idle[:5]
    )
    return Finding(
        "empty-process",
        WARNING,
        f"{len(idle)} of {plural(len(facts.processes), 'process')} "
        f"{agree(len(idle), 'has', 'have')} no kernels",
        shown,
        "Were they stopped before nsys flushed? A rank should end by returning, not be killed.",
    )


CHECKS: tuple[Callable[[ReportFacts], Finding | None], ...] = (
    stale,
    secrets,
    errors,
    lost_kernels,
    no_ranges,
    no_gpu_ops,
    empty_processes,
)


def check_report(facts: ReportFacts) -> list[Finding]:
    """Every check's finding, in the order of CHECKS."""
    return [found for check in CHECKS if (found := check(facts)) is not None]
