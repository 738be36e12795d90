# SPDX-License-Identifier: MIT
"""Where results go: stdout or a file, whole or not at all, and quietly into a closed pipe."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.given import GivenPath
from harness.errors import HarnessError
from harness.render.text import printable_lines

if TYPE_CHECKING:
    from harness.render.terminal import Style

#: Width of a table that goes into a pipe or a file, unless COLUMNS says otherwise.
PIPED_WIDTH = 100
_SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown"}


def format_options(function: click.decorators.FC) -> click.decorators.FC:
    """``--format`` and ``-o`` as every command that prints a result has them."""
    choice = click.Choice(["table", "json", "csv", "markdown"])
    said = "Default: what -o's suffix says, else table."
    function = click.option(
        "-o",
        "--output",
        type=GivenPath(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write to FILE instead of stdout.",
    )(function)
    return click.option("--format", "style", type=choice, help=said)(function)


def choose_format(given: str | None, output: Path | None) -> str:
    """``--format``, else what the file's suffix says, else a table."""
    if given:
        return given
    return _SUFFIXES.get(output.suffix.lower(), "table") if output else "table"


def terminal_style(output: Path | None) -> Style:
    """Width, colour and encoding of where the table goes. NO_COLOR and COLUMNS are honoured."""
    from harness.render.terminal import Style

    tty = output is None and sys.stdout.isatty()
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    width = shutil.get_terminal_size((PIPED_WIDTH, 24)).columns
    if not tty and not os.environ.get("COLUMNS", "").isdigit():
        width = PIPED_WIDTH
    return Style(width, color=tty and not plain, unicode=output is not None or _knows_unicode())


def _knows_unicode() -> bool:
    try:
        "µ…·".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def csv_for(pieces: Iterable[str], output: Path | None) -> Iterable[str]:
    """The csv as it is for a file or a pipe; for a terminal without what would steer it."""
    from harness.render import as_csv

    to_terminal = output is None and sys.stdout is not None and sys.stdout.isatty()
    return as_csv.shown(pieces) if to_terminal else pieces


def write(pieces: Iterable[str], output: Path | None) -> None:
    """Write the pieces as they come. A file appears only when it is complete.

    Raises:
        HarnessError: the file cannot be written.
    """
    if output is not None:
        _write_file(pieces, output)
        return
    if sys.stdout is None:
        raise HarnessError("stdout is closed: nowhere to write the result", hint="Use -o FILE.")
    encoding = sys.stdout.encoding or "utf-8"
    stream = sys.stdout.buffer
    try:
        for piece in pieces:
            stream.write(piece.encode(encoding, "backslashreplace"))
        stream.flush()
    except BrokenPipeError:
        # ``| head`` has seen enough. Python would complain once more when it flushes at exit.
        _drop_stdout()
    except OSError as error:
        _drop_stdout()
        raise HarnessError(f"stdout: cannot be written: {error.strerror or error}") from error


def _drop_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_file(pieces: Iterable[str], output: Path) -> None:
    # A renamed file would take the place of a device, a pipe or a link; those are written through.
    through = output.exists() and not output.is_file()
    target = output if through else Path(os.path.realpath(output))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with (target if through else part).open(
            "w", encoding="utf-8", errors="backslashreplace", newline=""
        ) as stream:
            stream.writelines(pieces)
        if not through:
            part.replace(target)
    except OSError as error:
        raise HarnessError(
            f"{output}: cannot be written: {error.strerror or error}",
            hint="Choose another place with -o.",
        ) from error
    finally:
        with contextlib.suppress(OSError):  # what stopped the write may stop this too
            part.unlink(missing_ok=True)


def say(message: str, hint: str = "") -> None:
    """A line for people, on stderr."""
    click.echo(printable_lines(f"harness: {message}"), err=True)
    if hint:
        click.echo(printable_lines(f"  {hint}"), err=True)
