# SPDX-License-Identifier: MIT
"""``harness baseline``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from harness.errors import UsageProblem


def _reports(function: click.decorators.FC) -> click.decorators.FC:
    return click.option(
        "--reports",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("reports"),
        metavar="FOLDER",
        help="The folder with the runs. [reports]",
    )(function)


@click.group("baseline")
def command() -> None:
    """Name runs to compare others against. Names are kept in REPORTS/baselines.json."""


@command.command("save")
@click.argument("name")
@click.argument("run", required=False, type=click.Path(path_type=Path))
@_reports
def save(name: str, run: Path | None, reports: Path) -> int:
    """Call RUN (default: the newest complete run) NAME. A name that exists moves to RUN."""
    from harness.launch.rundir import list_runs, load_run, read_baselines, write_baselines

    if not re.fullmatch(r"[\w.+-]+", name):
        raise UsageProblem(f"{name!r}: a baseline's name has letters, digits and . + - _ only")
    if run is None:
        complete = [found for found in list_runs(reports) if found.complete]
        if not complete:
            raise UsageProblem(f"{reports}: no complete run here", hint="harness run makes one.")
        folder = complete[-1].folder
    else:
        folder = run if run.is_dir() else reports / run
    if folder.absolute().parent.resolve() != reports.absolute().resolve():
        raise UsageProblem(f"{folder}: not directly under {reports}", hint="Give --reports.")
    if not load_run(folder).complete:
        raise UsageProblem(f"{folder}: this run is incomplete")
    baselines = read_baselines(reports)
    write_baselines(reports, {**baselines, name: folder.name})
    click.echo(f"{name} -> {folder.name}")
    return 0


@command.command("list")
@_reports
@click.option("--format", "style", type=click.Choice(["table", "json"]), default="table")
def list_(reports: Path, style: str) -> int:
    """List the baselines."""
    from harness.launch.rundir import read_baselines

    baselines = read_baselines(reports)
    if style == "json":
        click.echo(json.dumps(baselines, indent=2, sort_keys=True))
        return 0
    for name, run in sorted(baselines.items()):
        gone = "" if (reports / run).is_dir() else "  (gone)"
        click.echo(f"{name}  {run}{gone}")
    return 0


@command.command("show")
@click.argument("name")
@_reports
@click.option("--format", "style", type=click.Choice(["table", "json"]), default="table")
def show(name: str, reports: Path, style: str) -> int:
    """Say which run NAME is, and what it was recorded with."""
    from harness.launch.rundir import baseline_path, load_run

    path = baseline_path(reports, name)
    run = load_run(path)
    if style == "json":
        click.echo(json.dumps({"name": name, "path": str(path), "run": run.as_dict()}, indent=2))
        return 0
    versions = ", ".join(f"{key} {value}" for key, value in run.versions.items() if value)
    for label, value in (
        ("run", str(path)),
        ("created", run.created),
        ("program", " ".join(run.argv)),
        ("GPU", ", ".join(str(gpu.get("name")) for gpu in run.gpu) or "none"),
        ("versions", versions),
        ("captures", str(max((record.capture for record in run.passes), default=0))),
    ):
        click.echo(f"{label:9} {value}")
    return 0
