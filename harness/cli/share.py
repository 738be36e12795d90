# SPDX-License-Identifier: MIT
"""``harness share``."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.given import GivenPath


@click.command("share")
@click.argument("run", type=GivenPath(path_type=Path))
@click.option(
    "-o", "--output", type=GivenPath(path_type=Path), metavar="FOLDER", help="[RUN-shared]"
)
def command(run: Path, output: Path | None) -> int:
    """Write a copy of RUN (a run folder or a .sqlite) that can be handed on.

    An nsys report carries the program's environment, command line, working folder, host and process
    names. The copy has none of them, and a pseudonym for the UUID of a GPU, by which harness
    compare still tells one from another; ranges, launches and GPU ops stay, so harness report and
    harness compare read it like the original. A .nsys-rep cannot be scrubbed and is not copied,
    nor are logs.
    """
    from harness.launch.share import share
    from harness.readers.paths import check_path

    check_path(run)
    stem = run.name if run.is_dir() else run.stem
    target = output if output is not None else run.absolute().with_name(f"{stem}-shared")
    shared = share(run, target)
    for name, why in shared.left_out:
        click.echo(f"harness: not copied: {name}: {why}", err=True)
    click.echo(str(shared.folder))
    return 0
