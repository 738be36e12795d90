# SPDX-License-Identifier: MIT
"""``harness run``."""

from __future__ import annotations

import os
import sys
from datetime import datetime
from pathlib import Path

import click

from harness.errors import HarnessError


@click.command("run")
@click.option("--nsys", is_flag=True, help="Add a pass under Nsight Systems.")
@click.option("--torch/--no-torch", default=True, help="The pass under torch.profiler. [on]")
@click.option("--plain/--no-plain", default=True, help="The undisturbed pass. [on]")
@click.option(
    "-o",
    "--output",
    metavar="FOLDER",
    help="The run folder [reports/NAME-DATE-TIME]; %q{VAR} is an environment variable, %p the "
    "process id, %h the host.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 999),
    default=1,
    metavar="K",
    help="Record K captures; the passes are interleaved. [1]",
)
@click.option(
    "--graphs",
    type=click.Choice(["graph", "node"]),
    help="Record CUDA graphs whole, or each of their kernels, which is slower. [nsys's default]",
)
@click.option("--nsys-path", metavar="FILE", help="The nsys to use.")
@click.option(
    "--nsys-arg",
    "nsys_args",
    multiple=True,
    metavar="ARG",
    help="An argument more for nsys profile; repeatable.",
)
@click.option(
    "--env",
    "extra_env",
    multiple=True,
    metavar="NAME",
    help="With --nsys: pass one more environment variable; repeatable.",
)
@click.option("--full-env", is_flag=True, help="With --nsys: pass the whole environment.")
@click.option(
    "--isolate/--no-isolate",
    default=True,
    help="With --nsys: hide other processes from nsys, which writes down the environment of each, "
    "by a process namespace of its own where the system allows it. [on]",
)
@click.option("-q", "--quiet", is_flag=True, help="Do not show what the program prints.")
@click.option("--dry-run", is_flag=True, help="Print the commands; run nothing.")
@click.argument("command", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
def command(quiet: bool, dry_run: bool, **options: object) -> int:
    """Profile the bundled workload, or CMD, in separate passes: plain, torch, nsys.

    \b
    harness run                       the workload: undisturbed, then under torch.profiler
    harness run --nsys                the same, and under Nsight Systems
    harness run --nsys -- python train.py --steps 20
    harness run -- python -m workload --shape 8192x1024

    The exit code is the program's own. With --nsys, every pass gets an allow-list of the
    environment variables, because nsys writes the environment into its report.
    """
    from harness.launch import passes, planning
    from harness.launch.process import Stopped
    from harness.launch.rundir import refuse_existing

    echo = None if quiet else getattr(sys.stderr, "buffer", None)
    request = planning.Request(**options)  # type: ignore[arg-type]
    plan = planning.plan(request, os.environ, echo)
    for skipped in plan.skipped:
        _say(f"no {skipped['pass']} pass: {skipped['reason']}")
    if dry_run:
        for line in passes.dry_run(plan):
            click.echo(line)
        return 0
    refuse_existing(plan.target)
    _say(planning.describe(plan))
    run = passes.new_run(plan, datetime.now().astimezone().isoformat(timespec="seconds"))
    for warning in planning.warnings(run, os.environ):
        _say(f"warning: {warning}")
    try:
        result = passes.execute(plan, run, _say)
    except Stopped as stopped:
        return 128 + stopped.signum
    _show(result.folder)
    _say(f"run folder: {result.folder}")
    return result.exit_code


def _say(line: str) -> None:
    if line:
        click.echo(f"harness: {line}", err=True)


def _show(folder: Path) -> None:
    """The report on stdout; a run that cannot be reported is still a run."""
    try:
        from harness.cli.report import show_run
    except ImportError:
        _say("this installation cannot show reports")
        return
    sys.stderr.flush()
    try:
        show_run(folder)
    except HarnessError as error:
        _say(f"no report: {error.message}" + (f" ({error.hint})" if error.hint else ""))
