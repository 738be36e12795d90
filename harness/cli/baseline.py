# SPDX-License-Identifier: MIT
"""``harness baseline``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from harness.cli.given import GivenPath
from harness.cli.output import choose_format, format_options, say, write
from harness.errors import UnreadableReport, UsageProblem
from harness.render.text import printable


def _reports(function: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--reports",
        type=GivenPath(file_okay=False, path_type=Path),
        default=Path("reports"),
        metavar="FOLDER",
        help="The folder with the runs. [reports]",
    )(function)


@click.group("baseline")
def command() -> None:
    """Name runs to compare others against. Names are kept in REPORTS/baselines.json."""


@command.command("save")
@click.argument("name")
@click.argument("run", required=False, type=GivenPath(path_type=Path))
@_reports
def save(name: str, run: Path | None, reports: Path) -> int:
    """Call RUN (default: the newest complete run) NAME. A name that exists moves to RUN."""
    from harness.comparison.inputs import recordings
    from harness.launch.rundir import check_baseline_name, save_baseline

    check_baseline_name(name)
    folder = _newest(reports) if run is None else _named(run, reports)
    recordings(folder)  # refuses a run in which nothing was recorded
    save_baseline(reports, name, folder.name)
    write([f"{name} -> {printable(folder.name)}\n"], None)
    return 0


def _newest(reports: Path) -> Path:
    from harness.launch.rundir import list_runs

    complete = [found for found in list_runs(reports) if found.complete]
    if not complete:
        raise UnreadableReport(f"{reports}: no complete run here", hint="harness run makes one.")
    return complete[-1].folder


def _named(run: Path, reports: Path) -> Path:
    """The folder that a path, or a name under ``reports``, means.

    Raises:
        UnreadableReport: it is not there, or was not completed.
        UsageProblem: it is no folder, or not directly under ``reports``.
    """
    from harness.launch.rundir import list_runs, load_run

    folder = run if os.path.lexists(run) else reports / run
    if not os.path.lexists(folder):
        names = ", ".join(found.folder.name for found in list_runs(reports) if found.complete)
        raise UnreadableReport(
            f"{run}: no such run, here or in {reports}",
            hint=f"There are: {names}" if names else "harness run makes one.",
        )
    if not folder.is_dir():
        raise UsageProblem(f"{folder}: not a folder; a baseline is a run folder")
    parent, own = os.path.split(os.path.abspath(folder))
    if Path(parent).resolve() != reports.absolute().resolve():
        raise UsageProblem(f"{folder}: not directly under {reports}", hint="Give --reports.")
    if not load_run(folder).complete:
        raise UnreadableReport(f"{folder}: this run is incomplete")
    return reports / own


@command.command("list")
@_reports
@format_options
def list_(reports: Path, style: str | None, output: Path | None) -> int:
    """List the baselines."""
    from harness.launch.rundir import read_baselines

    if not reports.is_dir():
        raise UnreadableReport(f"{reports}: no such folder", hint="Give --reports.")
    baselines = read_baselines(reports)
    if not baselines:
        say(f"no baseline is saved in {reports}", "Save one: harness baseline save NAME RUN")
    rows = [
        (name, run, "" if (reports / run).is_dir() else "(gone)")
        for name, run in sorted(baselines.items())
    ]
    table = "".join("  ".join(map(printable, filter(None, row))) + "\n" for row in rows)
    style = choose_format(style, output)
    write([_rendered(style, table, baselines, ("name", "run", "state"), rows)], output)
    return 0


@command.command("show")
@click.argument("name")
@_reports
@format_options
def show(name: str, reports: Path, style: str | None, output: Path | None) -> int:
    """Say which run NAME is, and what it was recorded with."""
    from harness.launch.rundir import baseline_path, load_run

    path = baseline_path(reports, name)
    run = load_run(path)
    versions = ", ".join(f"{key} {value}" for key, value in run.versions.items() if value)
    rows = [
        ("run", str(path)),
        ("created", run.created),
        ("program", " ".join(run.argv)),
        ("GPU", ", ".join(str(gpu.get("name")) for gpu in run.gpu) or "none"),
        ("versions", versions),
        ("captures", str(max((record.capture for record in run.passes), default=0))),
    ]
    table = "".join(f"{label:9} {printable(value) if value else value}\n" for label, value in rows)
    document = {"name": name, "path": str(path), "run": run.as_dict()}
    style = choose_format(style, output)
    write([_rendered(style, table, document, ("fact", "value"), rows)], output)
    return 0


def _rendered(
    style: str,
    table: str,
    document: dict[str, Any],
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> str:
    if style == "table":
        return table
    if style == "json":
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    from harness.render import plain_rows

    render = plain_rows.as_csv if style == "csv" else plain_rows.as_markdown
    return render(columns, rows)
