# SPDX-License-Identifier: MIT
"""A Report to a Page: which figures are shown, in what words. No widths, no colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.render import facts
from harness.render.grids import view_grid
from harness.render.page import Column, Grid, Page, Row, Section
from harness.render.range_tree import range_grid
from harness.render.text import count, duration, exact, plural, printable, printable_path, share
from harness.selection import available

if TYPE_CHECKING:
    from harness.attribute import Ledger
    from harness.report import Failure, Report
    from harness.trace import Warning_

#: The page names this many paths whose first instance stands out.
MAX_WARM_UP = 3
#: Code of the notes by which ``harness.select`` says what it left out.
SELECTION = "selection"


def page(report: Report) -> Page:
    """The page of one report."""
    grid: Grid | None = None
    if len(report.rows):
        ranges = report.view == "ranges"
        grid = range_grid(report) if ranges else view_grid(report.view, report)
    return Page(
        title=facts.title(report),
        facts=facts.lines(report),
        grid=grid,
        sections=tuple(
            section
            for section in (
                _no_rows(report),
                _left_out(report),
                _no_gpu(report),
                _workload(report),
                _ledger_section(report.ledger),
                _outside(report),
                _warm_up(report),
                warnings_section(report.warnings),
            )
            if section is not None
        ),
    )


def several_page(reports: list[Report], failures: list[Failure], grid: Grid, policy: str) -> Page:
    """The page of several reports: one table, then a ledger line for each report."""
    sections = [_ledgers(reports)] if reports else []
    if failures:
        lines = tuple(f"{printable(f.name)}: {printable(f.message)}" for f in failures)
        sections.append(Section("Not reported", lines, tone="bad"))
    sections += [
        found
        for report in reports
        if (found := warnings_section(report.warnings, of=report.name)) is not None
    ]
    known = plural(len(reports), "report")
    failed = f", {plural(len(failures), 'failure')}" if failures else ""
    return Page(f"{known}{failed} · policy {policy}", (), grid, tuple(sections))


def _no_rows(report: Report) -> Section | None:
    if len(report.rows):
        return None
    selected = " is left by the filter" if report.selection else " was recorded"
    row = {"ops": "GPU op", "torch": "operator"}.get(report.view, "range")
    return Section(f"No {row}{selected}.")


def _left_out(report: Report) -> Section | None:
    lines = tuple(printable(w.message) for w in report.warnings if w.code == SELECTION)
    return Section("Selection", lines) if lines else None


def _no_gpu(report: Report) -> Section | None:
    if report.ledger is None or report.ledger.gpu_ops or report.view == "torch":
        return None
    if not len(report.rows):
        return Section("No GPU op was recorded either.")
    why = {w.code: w for w in report.warnings}
    known = next((why[code] for code in ("no-gpu-ops", "no-kernels") if code in why), None)
    lines = ["The table shows CPU time instead."]
    device = facts.workload_device(report.run)
    if device == "cpu":
        lines.append("The workload ran on the CPU: there was no GPU work to record.")
    elif known is None:
        lines.append("The program launched none while recorded, or the recording left CUDA out.")
    return Section("No GPU op was recorded.", tuple(lines))


def _workload(report: Report) -> Section | None:
    if report.view == "torch":
        return None
    lines = facts.workload_lines(report.run, _chain_ratio(report))
    return Section("The workload's own results", lines) if lines else None


def _chain_ratio(report: Report) -> float | None:
    """Device time of the bundled workload's eager chain over the fused one's."""
    if report.view != "ranges":
        return None
    times = dict(zip(report.rows["path"], report.rows["total_gpu_ns"], strict=True))
    eager, fused = (times.get((f"{kind}-block", "chain")) for kind in ("eager", "fused"))
    return eager / fused if eager and fused else None


def _ledger_section(ledger: Ledger | None) -> Section | None:
    if ledger is None or not ledger.gpu_ops:
        return None
    entries = [
        ("attributed", ledger.attributed_ns, ledger.attributed_ops, _by_rule(ledger)),
        ("outside", ledger.outside_ns, ledger.outside_ops, "launched with no range open"),
        ("unlinked", ledger.unlinked_ns, ledger.unlinked_ops, "no launch record"),
    ]
    if ledger.hidden_ops:
        entries.append(("hidden", ledger.hidden_ns, ledger.hidden_ops, "left out by the filter"))
    total = sum(ns for _, ns, _, _ in entries)
    entries.append(("all GPU ops", total, ledger.gpu_ops, "the lines above, to the nanosecond"))
    ns_width = max(len(exact(ns)) for _, ns, _, _ in entries)
    ops_width = max(len(count(ops)) for _, _, ops, _ in entries)
    lines = tuple(
        f"{title:<11} {exact(ns):>{ns_width}}  {share(ns, ledger.gpu_ns):>6}"
        f"  {count(ops):>{ops_width}} {'op ' if ops == 1 else 'ops'}  {note}"
        for title, ns, ops, note in entries
    )
    return Section("Ledger: where the GPU time went", lines)


def _by_rule(ledger: Ledger) -> str:
    used = [(rule, ns) for rule, ns in ledger.by_rule.items() if ns]
    return "by rule " + ", ".join(f"{rule} {exact(ns)}" for rule, ns in used) if used else ""


def _outside(report: Report) -> Section | None:
    if not report.outside:
        return None
    rows = tuple(
        Row(
            printable(work.name),
            (
                count(work.ops),
                duration(work.total_ns),
                work.rule,
                printable(_threads(work.threads)) if work.threads else "",
            ),
        )
        for work in report.outside
    )
    columns = (
        Column("Ops"),
        Column("Time"),
        Column("Rule", right=False),
        Column("Thread", right=False, keep=1),
    )
    return Section("Work under no range, largest first", grid=Grid("GPU op", columns, rows))


def _threads(threads: tuple[str, ...]) -> str:
    return threads[0] + (f" +{len(threads) - 1}" if len(threads) > 1 else "")


def _warm_up(report: Report) -> Section | None:
    if not report.warm_up:
        return None
    lines = [
        f"{printable_path(warm.path)}: first {duration(warm.first_ns).strip()} of {warm.measure}"
        f" time, then {duration(warm.median_ns).strip()} (median)"
        for warm in report.warm_up[:MAX_WARM_UP]
    ]
    rest = len(report.warm_up) - MAX_WARM_UP
    if rest > 0:
        lines.append(f"and {plural(rest, 'more path')}")
    hint = " (--skip 1 leaves it out)" if available() else ""
    lines.append(f"Totals include it{hint}.")
    return Section("Warm-up: first instances stand out", tuple(lines))


def warnings_section(warnings: tuple[Warning_, ...], *, of: str = "") -> Section | None:
    """Each warning with its hint below."""
    lines: list[str] = []
    for warning in warnings:
        if warning.code == SELECTION:
            continue
        lines.append(f"{printable(warning.message)} [{warning.code}]")
        if warning.hint:
            lines.append(f"  {printable(warning.hint)}")
    title = f"Warnings of {printable(of)}" if of else "Warnings"
    return Section(title, tuple(lines), tone="warn") if lines else None


def _ledgers(reports: list[Report]) -> Section:
    rows = tuple(_ledger_row(report.name, report.ledger) for report in reports)
    columns = (
        Column("Ops"),
        Column("GPU time"),
        Column("Attributed"),
        Column("Outside"),
        Column("Unlinked"),
    )
    return Section("Ledgers, each balanced to the nanosecond", grid=Grid("Report", columns, rows))


def _ledger_row(name: str, ledger: Ledger | None) -> Row:
    if ledger is None:
        return Row(printable(name), ("-",) * 5)
    parts = (ledger.attributed_ns, ledger.outside_ns, ledger.unlinked_ns)
    cells = (count(ledger.gpu_ops), duration(ledger.gpu_ns), *map(duration, parts))
    return Row(printable(name), cells)
