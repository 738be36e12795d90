# SPDX-License-Identifier: MIT
"""``harness compare``: two runs, or all runs of a folder against a baseline, with verdicts."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.compare_plan import Plan, Plans, make_plans
from harness.cli.filters import filter_options, selection_from
from harness.cli.given import GivenPath
from harness.cli.output import choose_format, csv_for, say, terminal_style, write
from harness.errors import HarnessError, UnreadableReport, UsageProblem

if TYPE_CHECKING:
    from harness.comparison.build import Options
    from harness.comparison.gate import Outcome
    from harness.comparison.groups import Group
    from harness.comparison.inputs import Named
    from harness.comparison.result import Comparison
    from harness.comparison.sides import Side
    from harness.render.page import Page


@click.command("compare")
@click.argument("paths", nargs=-1, type=GivenPath(), metavar="BASE NEW | REPORTS")
@click.option(
    "--baseline",
    metavar="NAME",
    help="With one path: the saved baseline, or the run, that all runs are compared with (default:"
    " of the runs of one program, shape and GPU the saved baseline, else the oldest).",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="With a folder of runs: range by range for every comparison, not for the newest alone.",
)
@click.option("--newest", is_flag=True, help="With a folder of runs: only the newest one.")
@click.option(
    "--threshold",
    type=click.FloatRange(min=0, min_open=True, max=100, max_open=True),
    default=1.0,
    show_default=True,
    metavar="PCT",
    help="Changes within ±PCT per cent do not matter.",
)
@click.option(
    "--fail-on",
    metavar="slower[:PCT]",
    help="Exit 1 if a range is slower (by PCT per cent or more), 3 if the data cannot tell.",
)
@click.option("--force", is_flag=True, help="Give verdicts although the runs are not comparable.")
@click.option(
    "--by",
    type=click.Choice(("ranges", "kernels")),
    default="ranges",
    show_default=True,
    help="One row a range, or one a kernel under its innermost range.",
)
@click.option(
    "--measure",
    type=click.Choice(("gpu", "cpu")),
    default="gpu",
    show_default=True,
    help="GPU time of what a range launched, or the range's own time on the CPU.",
)
@click.option(
    "--policy",
    type=click.Choice(("thread", "autograd", "process")),
    default="autograd",
    show_default=True,
    help="Which ranges may claim a launch.",
)
@click.option(
    "--source",
    type=click.Choice(("auto", "nsys", "torch")),
    default="auto",
    show_default=True,
    help="Which recordings of run folders to compare.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(("table", "json", "csv", "markdown")),
    help="Default: what -o's suffix says, else table.",
)
@click.option(
    "-o",
    "--output",
    type=GivenPath(dir_okay=False, path_type=Path),
    help="Write to FILE instead of stdout.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=None,
    metavar="N",
    help="Rows of a table (0: all; default 60). csv and JSON always have all.",
)
@click.option(
    "--github", is_flag=True, help="Also append the result to $GITHUB_STEP_SUMMARY, as markdown."
)
@filter_options
def command(paths: tuple[str, ...], **options: Any) -> int:
    """Did a change make it cheaper, where, and how sure is that?

    BASE and NEW are run folders, recordings (.sqlite, .nsys-rep, torch traces), or folders of
    recordings that are captures of one program. REPORTS is a folder of runs: runs of one program,
    shape and kind of GPU are compared with one of them, the newest first.
    """
    from harness.comparison import gate
    from harness.comparison.build import Options

    threshold = options["threshold"] / 100
    if not math.isfinite(threshold):
        raise UsageProblem(f"--threshold {options['threshold']}: not a percentage")
    limit = gate.parse(options["fail_on"], threshold) if options["fail_on"] is not None else None
    summary_file = _summary_file() if options["github"] else None
    asked = Options(
        policy=options["policy"],
        threshold=threshold,
        selection=selection_from(options),
        measure=options["measure"],
        by=options["by"],
        force=options["force"],
    )
    if options["every"]:
        for other in ("newest", "fail_on"):
            if options[other]:
                option = "--" + other.replace("_", "-")
                raise UsageProblem(f"{option} is about the newest run, and --all about every one")
    question = options["newest"] or limit is not None
    plans = make_plans(paths, options["baseline"], options["newest"], question, limit is not None)
    if options["every"] and not plans.folder:
        raise UsageProblem("--all belongs to a folder of runs")
    for note in plans.notes:
        say(note.message, note.hint)
    groups = _compare_groups(plans, asked, options["source"], question)
    outcome = gate.judge(groups[0].compared[0], limit) if limit is not None else None
    format_ = choose_format(options["format_"], options["output"])
    if plans.alone and format_ == "csv":
        say(f"alone: {', '.join(plans.alone)}")
    shown = Shown(plans, groups, outcome, options["top"], question, options["every"])
    write([_render(shown, format_, options["output"])], options["output"])
    if summary_file is not None:
        try:
            _append(summary_file, _render(shown, "markdown", None))
        except HarnessError as error:
            if outcome is None:
                raise
            say(error.message, error.hint)  # the gate's answer stands all the same
    if outcome is None:
        return 0
    if format_ not in ("table", "markdown") or options["output"] is not None:
        say(outcome.message)
    return int(outcome.code)


def _compare_all(plan: Plan, asked: Options, source: str, question: bool) -> list[Comparison]:
    """One comparison a new run; with a ``question``, the first must be of the newest run.

    In a folder, runs that cannot be read or compared are told and left out: also the oldest, where
    nobody named the baseline, and the newest, where nobody asked about that one.
    """
    from harness.comparison import inputs
    from harness.comparison.build import build

    if source == "auto":
        source = inputs.common_source([plan.base.path, *(new.path for new in plan.news)])
    base, news = _readable_base(plan, asked, source)
    found: list[Comparison] = []
    failed: HarnessError | None = None
    for new in news:
        try:
            side = inputs.side(new.path, asked, source=source, name=new.name)
            found.append(build(base, side, asked))
        except HarnessError as error:
            if not plan.folder or (question and not found):
                raise
            failed = failed or error
            say(f"{new.name} is left out: {error.message}", error.hint)
    if not found and failed is not None:
        what = f"{plan.folder}: no two runs in it can be compared"
        raise UnreadableReport(what, hint=failed.hint)
    return found


def _readable_base(plan: Plan, asked: Options, source: str) -> tuple[Side, tuple[Named, ...]]:
    """The base and the runs to compare with it: without a named baseline, the oldest that can be
    read."""
    from harness.comparison import inputs

    base, news = plan.base, plan.news
    while True:
        try:
            side = inputs.side(base.path, asked, source=source, name=base.name)
            return inputs.with_notes(side, plan.notes), news
        except HarnessError as error:
            if not plan.folder or plan.named or len(news) < 2:
                raise
            say(f"{base.name} is left out: {error.message}", error.hint)
            base, news = news[-1], news[:-1]


def _compare_groups(plans: Plans, asked: Options, source: str, question: bool) -> list[Group]:
    """The comparisons of each group; a group without any is told and left out."""
    from harness.comparison.groups import Group, changed_options

    found: list[Group] = []
    failed: HarnessError | None = None
    for plan in plans.groups:
        try:
            made = _compare_all(plan, asked, source, question and not found)
        except HarnessError as error:
            if len(plans.groups) == 1 or (question and not found):
                raise
            failed = failed or error
            say(f"left out, {plan.base.kind}: {error.message}", error.hint)
            continue
        given = {run.name: run.options for run in (plan.base, *plan.news)}
        options = [changed_options(given[c.base["name"]], given[c.new["name"]]) for c in made]
        found.append(Group(plan.base.kind, tuple(made), tuple(options)))
    if not found and failed is not None:
        raise failed
    return found


@dataclass(frozen=True)
class Shown:
    """What to print: all comparisons, the one that answers a question first."""

    plans: Plans
    groups: list[Group]
    outcome: Outcome | None
    top: int | None
    question: bool
    every: bool = False

    @property
    def comparisons(self) -> list[Comparison]:
        return [comparison for group in self.groups for comparison in group.compared]


def _render(shown: Shown, format_: str, output: Path | None) -> str:
    from harness.render import compare_formats

    if format_ == "json":
        return compare_formats.as_json(shown.comparisons, shown.outcome, shown.plans.alone)
    if format_ == "csv":
        from harness.render import as_csv

        return "".join(csv_for(as_csv.render(compare_formats.frame(shown.comparisons)), output))
    if format_ == "markdown":
        from harness.render import as_markdown

        return "\n".join(map(as_markdown.render, _pages(shown)))
    from harness.render import terminal

    return "\n".join(terminal.render(made, terminal_style(output)) for made in _pages(shown))


def _pages(shown: Shown) -> list[Page]:
    """One page a comparison; of a folder nobody asked a question about, an overview and then brief
    ones."""
    from harness.render import compare_folder, compare_page

    several = shown.comparisons
    if shown.question or not shown.plans.grouped or len(several) + len(shown.plans.alone) < 2:
        rows = compare_page.TABLE_ROWS if shown.top is None else shown.top
        return [
            compare_page.page(comparison, top=rows, outcome=None if number else shown.outcome)
            for number, comparison in enumerate(several)
        ]
    return compare_folder.pages(
        shown.plans.folder, shown.groups, shown.plans.alone, shown.top, shown.every
    )


def _summary_file() -> Path:
    name = os.environ.get("GITHUB_STEP_SUMMARY", "")
    if not name:
        raise UsageProblem(
            "--github: GITHUB_STEP_SUMMARY is not set",
            hint="It is for use in a GitHub Actions step.",
        )
    return Path(name)


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text + "\n")
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written: {error.strerror or error}") from error
