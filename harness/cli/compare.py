# SPDX-License-Identifier: MIT
"""``harness compare``: two runs, or all runs of a folder against a baseline, with verdicts."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.filters import filter_options, selection_from
from harness.cli.given import GivenPath
from harness.cli.output import choose_format, say, terminal_style, write
from harness.errors import HarnessError, UnreadableReport, UsageProblem

if TYPE_CHECKING:
    from harness.comparison.build import Options
    from harness.comparison.gate import Outcome
    from harness.comparison.inputs import Named
    from harness.comparison.result import Comparison
    from harness.comparison.sides import Side
    from harness.trace import Warning_


@dataclass(frozen=True)
class Plan:
    """Which runs are compared: ``base`` with each of ``news``, the most important one first."""

    base: Named
    news: tuple[Named, ...]
    notes: tuple[Warning_, ...] = ()
    folder: str = ""  # of runs, where one was given
    named: bool = False  # the baseline was


@click.command("compare")
@click.argument("paths", nargs=-1, type=GivenPath(), metavar="BASE NEW | REPORTS")
@click.option(
    "--baseline",
    metavar="NAME",
    help="With one path: the saved baseline, or the run, to compare against (default: the saved"
    " baseline if there is one only, else the oldest run).",
)
@click.option("--newest", is_flag=True, help="With a folder of runs: only the newest one.")
@click.option(
    "--threshold",
    type=click.FloatRange(min=0, min_open=True),
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
    recordings that are captures of one program. REPORTS is a folder of runs: each is compared with
    the baseline, the newest first.
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
    question = options["newest"] or limit is not None
    plan = make_plan(paths, options["baseline"], options["newest"], question)
    for note in plan.notes:
        say(note.message, note.hint)
    comparisons = _compare_all(plan, asked, options["source"], question)
    outcome = gate.judge(comparisons[0], limit) if limit is not None else None
    format_ = choose_format(options["format_"], options["output"])
    text = _render(comparisons, format_, options["output"], options["top"], outcome)
    write([text], options["output"])
    if summary_file is not None:
        _append(summary_file, _render(comparisons, "markdown", None, options["top"], outcome))
    if outcome is None:
        return 0
    if format_ not in ("table", "markdown") or options["output"] is not None:
        say(outcome.message)
    return int(outcome.code)


def make_plan(
    paths: tuple[str, ...], baseline: str | None, newest: bool, question: bool = False
) -> Plan:
    """What to compare with what. A ``question`` is about the newest run (--newest, --fail-on).

    Raises:
        UsageProblem: not one or two paths.
        HarnessError: a path that is not there.
        UnreadableReport: a folder with fewer than two runs, or a question about the baseline.
    """
    from harness.comparison.inputs import Named
    from harness.readers.paths import check_path

    for path in paths:
        if not Path(path).exists():
            raise HarnessError(f"{path}: no such file or folder", hint=_closest(path))
        check_path(path)
    if len(paths) == 2 and baseline is None:
        if newest:
            raise UsageProblem("--newest belongs to a folder of runs")
        base, new = (Path(path) for path in paths)
        return Plan(Named(base.name, base), (Named(new.name, new),))
    if len(paths) != 1:
        raise UsageProblem(
            f"compare takes a base and a new run, or one folder of runs; got {len(paths)} paths",
            hint="harness compare BASE NEW, or harness compare reports --baseline NAME",
        )
    return _plan_of_one(Path(paths[0]), baseline, newest, question)


def _closest(path: str) -> str:
    import difflib

    parent = Path(path).parent
    names = [child.name for child in parent.iterdir()] if parent.is_dir() else []
    near = difflib.get_close_matches(Path(path).name, {*names} - {Path(path).name}, n=1)
    return f"Did you mean {parent / near[0]}?" if near else ""


def _plan_of_one(path: Path, baseline: str | None, newest: bool, question: bool) -> Plan:
    from harness.comparison import inputs

    if path.is_file() or inputs.is_run(path):
        if baseline is None:
            raise UsageProblem(
                f"{path}: one run; what is it compared with?",
                hint="Give a second one, or --baseline NAME.",
            )
        base = inputs.find_baseline(path.resolve().parent, baseline)
        return Plan(inputs.Named(base.name, base), (inputs.Named(path.name, path),))
    runs, notes = inputs.runs_in(path)
    baseline = baseline or inputs.only_baseline(path)
    if baseline is not None:
        found = inputs.find_baseline(path, baseline)
        base_run = inputs.Named(found.name, found)
    elif runs:
        base_run = runs[0]
    rest = [run for run in runs if run.path.resolve() != base_run.path.resolve()] if runs else []
    if not rest:
        left_out = f" ({'; '.join(note.message for note in notes)})" if notes else ""
        raise UnreadableReport(
            f"{path}: fewer than two complete runs to compare{left_out}",
            hint="Record another one: harness run --nsys",
        )
    if question and runs[-1].path.resolve() == base_run.path.resolve():
        # Judging an older run against it would pass any change that moves the baseline along.
        raise UnreadableReport(
            f"{path}: the newest run, {base_run.name}, is the baseline itself",
            hint="Record a new run, or name both: harness compare BASE NEW",
        )
    news = tuple(reversed(rest))
    named = baseline is not None
    return Plan(base_run, news[:1] if newest else news, notes, str(path), named)


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


def _render(
    comparisons: list[Comparison],
    format_: str,
    output: Path | None,
    top: int | None,
    outcome: Outcome | None,
) -> str:
    from harness.render import compare_formats
    from harness.render.compare_page import TABLE_ROWS, page

    if format_ == "json":
        return compare_formats.as_json(comparisons, outcome)
    if format_ == "csv":
        from harness.render import as_csv

        return "".join(as_csv.render(compare_formats.frame(comparisons)))
    rows = TABLE_ROWS if top is None else top
    pages = [
        page(comparison, top=rows, outcome=None if number else outcome)
        for number, comparison in enumerate(comparisons)
    ]
    if format_ == "markdown":
        from harness.render import as_markdown

        return "\n".join(map(as_markdown.render, pages))
    from harness.render import terminal

    return "\n".join(terminal.render(made, terminal_style(output)) for made in pages)


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
