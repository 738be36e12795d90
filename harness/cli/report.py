# SPDX-License-Identifier: MIT
"""``harness report``: what each range cost, from run folders, nsys reports or torch traces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.filters import filter_options, selection_from
from harness.cli.given import GivenPath
from harness.cli.output import choose_format, csv_for, say, terminal_style, write
from harness.errors import ExitCode, UsageProblem

if TYPE_CHECKING:
    import pandas as pd

    from harness.gather import Input
    from harness.render.page import Grid
    from harness.report import Failure, Report, Request

VIEWS = (
    "ranges", "names", "kernels", "ops", "instances", "layers", "latency", "communication",
    "torch", "both",
)  # fmt: skip
#: Rows a printed table has without ``--top``; csv and JSON always have all.
TABLE_ROWS = {"ranges": 100, "both": 100, "spread": 100}
OTHER_ROWS = 40

#: No machine has so much memory (bytes): a slip.
_MOST = 2.0**63
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """What the command line said, beside the request itself."""

    format: str
    output: Path | None
    spread: bool
    jobs: int
    dask: str


@click.command("report")
@click.argument("paths", nargs=-1, type=GivenPath(), metavar="PATH...")
@click.option(
    "--view",
    type=click.Choice(VIEWS),
    default="ranges",
    show_default=True,
    help="Rows: ranges (a tree), names (one row a name and thread), kernels (range by "
    "kernel), ops (one row a GPU op), instances (one row a range instance), layers "
    "(forward and backward), latency (launch to start), "
    "communication (NCCL kernels and what nothing hides of them), torch (torch.profiler's own "
    "table), both (the two passes).",
)
@click.option(
    "--policy",
    type=click.Choice(("thread", "autograd", "process")),
    default="autograd",
    show_default=True,
    help="Which ranges may claim a launch.",
)
@click.option(
    "--names",
    type=click.Choice(("short", "demangled", "mangled")),
    default="short",
    show_default=True,
    help="How kernels are named.",
)
@click.option("--by-shape", is_flag=True, help="With --view torch: one row an input shape.")
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
    "--sort",
    default="",
    metavar="COLUMN[:asc|:desc]",
    help="Sort by a column of the view (or self, total, busy, span, cpu, idle).",
)
@click.option(
    "--top",
    "--limit",
    "top",
    type=click.IntRange(min=0),
    default=None,
    metavar="N",
    help="The N largest rows (0: all). Tables stop at 100 ranges or 40 other rows.",
)
@click.option(
    "--spread",
    is_flag=True,
    help="Several inputs: smallest, median, largest and slowest per range.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Several inputs: processes to use, fewer where --memory is too little (default: one a "
    "core).",
)
@click.option(
    "--dask",
    metavar="ADDRESS",
    help="Several inputs: read them on the Dask cluster with this scheduler.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Stay within SIZE (512MiB, 2GiB): a larger recording is read in parts; views ranges, "
    "names and kernels, without filters. Processes share it; with --dask each report has it.",
)
@click.option("--explain", metavar="COLUMN", help="Say what a column means, and exit.")
@click.option("--columns", is_flag=True, help="Say what every column means, and exit.")
@filter_options
def command(paths: tuple[str, ...], explain: str | None, columns: bool, **options: Any) -> int:
    """Show what each NVTX range cost on the GPU.

    PATH is a run folder, a .sqlite or .nsys-rep of Nsight Systems, or a Chrome trace of
    torch.profiler (.json, .json.gz); several make one table with a column `source`.
    """
    if columns or explain is not None:
        return _explain(explain, options["format_"], options["output"])
    if not paths:
        raise UsageProblem(
            "nothing to report", hint="Give a run folder (reports/NAME) or a report file."
        )
    for name, example in ("dask", "tcp://HOST:8786"), ("memory", "512MiB"):
        if options[name] is not None and not options[name].strip():
            raise UsageProblem(
                f"--{name} '' says nothing",
                hint=f"A variable of the shell may be empty. For example --{name} {example}.",
            )
        options[name] = options[name] or ""
    asked = Asked(
        choose_format(options["format_"], options["output"]),
        options["output"],
        options["spread"],
        options["jobs"],
        options["dask"],
    )
    from harness import gather

    sources, again = gather.inputs(list(paths))
    for path in again:
        say(f"{path} is left out: the same recording is among the inputs already")
    if not asked.dask:
        gather.start_early(sources, jobs=asked.jobs, memory=memory_size(options["memory"]))
    return _report(sources, asked, _request(options, asked))


def _explain(column: str | None, style: str | None, output: Path | None) -> int:
    """What one column means, or every one, in a format."""
    from harness import columns
    from harness.render import plain_rows

    meanings = columns.meanings() if column is None else columns.explain(column)
    format_ = choose_format(style, output)
    rows = [[m.column, ", ".join(m.views), m.text.replace("`", "")] for m in meanings]
    if format_ == "json":
        listed = [
            {"column": c, "views": list(m.views), "text": t}
            for m, (c, _, t) in zip(meanings, rows, strict=True)
        ]
        document = {"schema": "harness.columns/1", "columns": listed}
        pieces = [json.dumps(document, indent=2, ensure_ascii=False) + "\n"]
    elif format_ in ("csv", "markdown"):
        render = plain_rows.as_csv if format_ == "csv" else plain_rows.as_markdown
        pieces = [render(["column", "views", "text"], rows)]
    elif column is None:
        pieces = [columns.as_text()]
    else:
        pieces = [f"{name} ({views}): {text}\n" for name, views, text in rows]
    write(pieces, output)
    return 0


def _request(options: dict[str, Any], asked: Asked) -> Request:
    from harness.report import Request

    view, top = options["view"], options["top"]
    printed = asked.format in ("table", "markdown")
    if asked.spread and view != "ranges":
        raise UsageProblem("--spread compares ranges", hint="Leave out --view.")
    if options["by_shape"] and view != "torch":
        raise UsageProblem("--by-shape belongs to --view torch")
    if top is None:
        top = TABLE_ROWS.get(view, OTHER_ROWS) if printed else 0
    return Request(
        # Ranks that wait for a straggler spend the time in communication: it is told apart.
        view="communication" if asked.spread and not options["memory"].strip() else view,
        policy=options["policy"],
        names=options["names"],
        selection=selection_from(options),
        sort="" if asked.spread else options["sort"],
        top=0 if asked.spread else top,
        by_shape=options["by_shape"],
        memory=memory_size(options["memory"]),
        details=not asked.spread and (printed or (view == "ranges" and asked.format == "json")),
    )


def memory_size(text: str) -> int:
    """Bytes of ``SIZE``: a number with an optional unit (kB, MiB, G); 0 for none."""
    match = _SIZE.fullmatch(text.strip())
    if not text.strip():
        return 0
    number, prefix, binary = match.groups() if match else ("0", "", "")
    size = float(number) * (1024 if binary else 1000) ** (" kmgt".index(prefix.lower() or " "))
    if not 1 <= size < _MOST:
        raise UsageProblem(f"--memory {text!r} is not a size", hint="For example 512MiB or 2GB.")
    return int(size)


def _report(sources: list[Input], asked: Asked, request: Request) -> int:
    from harness import gather

    if len(sources) == 1 and not asked.spread and not asked.dask:
        report = gather.read(sources[0], request)
        write(render_one(report, asked.format, asked.output), asked.output)
        if asked.format == "csv":
            for warning in report.warnings:
                say(f"{warning.message} [{warning.code}]", warning.hint)
        return 0
    return _several(sources, asked, request)


def render_one(report: Report, format_: str, output: Path | None) -> Iterator[str]:
    """The report in a format; terminal width and colour are read only for a table."""
    if format_ == "csv":
        from harness.render import as_csv

        yield from csv_for(as_csv.render(report.rows), output)
    elif format_ == "json":
        from harness.render import as_json

        yield from as_json.render(report)
    else:
        from harness.render.layout import page

        yield _page_text(page(report), format_, output)


def _page_text(page: Any, format_: str, output: Path | None) -> str:
    if format_ == "markdown":
        from harness.render import as_markdown

        return as_markdown.render(page)
    from harness.render import terminal

    return terminal.render(page, terminal_style(output))


def _several(sources: list[Input], asked: Asked, request: Request) -> int:
    from harness import gather
    from harness.report import Failure, Report

    if asked.dask:
        from harness import on_dask

        outcomes = on_dask.gather_dask(sources, request, asked.dask)
    else:
        outcomes = gather.gather(sources, request, jobs=asked.jobs)
    reports = [outcome for outcome in outcomes if isinstance(outcome, Report)]
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    for failure in failures:
        say(failure.message, failure.hint)
    if reports:
        write(_render_several(reports, failures, asked, request), asked.output)
    elif failures:
        many = f"none of {len(failures)} inputs could be reported"
        say("the input could not be reported" if len(failures) == 1 else many)
    return _exit_code(failures)


def _exit_code(failures: list[Failure]) -> int:
    codes = {failure.exit_code for failure in failures}
    if int(ExitCode.INTERNAL) in codes:
        return int(ExitCode.INTERNAL)
    return int(ExitCode.NO_ANSWER) if codes else 0


def _render_several(
    reports: list[Report], failures: list[Failure], asked: Asked, request: Request
) -> Iterable[str]:
    from harness.spread import by_process, combine, spread

    rows = combine(reports)
    view = request.view
    if asked.spread:
        rows = by_process(rows) if len(reports) == 1 else rows
        names = rows["source"].unique().tolist() if len(reports) == 1 else [r.name for r in reports]
        view, rows = "spread", spread(rows, names)
    if asked.format == "csv":
        from harness.render import as_csv

        return csv_for(as_csv.render(rows), asked.output)
    if asked.format == "json":
        from harness.render import as_json

        return as_json.render_several(reports, failures, rows, view=view, policy=request.policy)
    from harness.render.layout import several_page

    grid = _several_grid(reports, rows, view)
    page = several_page(reports, failures, grid, request.policy)
    return [_page_text(page, asked.format, asked.output)]


def _several_grid(reports: list[Report], rows: pd.DataFrame, view: str) -> Grid:
    from harness.render import several

    if view == "spread":
        return several.spread_grid(rows)
    return several.stacked_grid(reports)


def show_run(path: Path) -> None:
    """Print the default table of a finished run (what ``harness run`` ends with)."""
    from harness import gather
    from harness.report import Request

    report = gather.read(gather.Input(str(path), path.name), Request(top=TABLE_ROWS["ranges"]))
    write(render_one(report, "table", None), None)
