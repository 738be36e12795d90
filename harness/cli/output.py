# SPDX-License-Identifier: MIT
"""Where results go: stdout or a file, whole or not at all, and quietly into a closed pipe."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.errors import HarnessError

if TYPE_CHECKING:
    from harness.render.terminal import Style

#: Width of a table that goes into a pipe or a file, unless COLUMNS says otherwise.
PIPED_WIDTH = 100
_SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".markdown": "markdown"}


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


def write(pieces: Iterable[str], output: Path | None) -> None:
    """Write the pieces as they come. A file appears only when it is complete.

    Raises:
        HarnessError: the file cannot be written.
    """
    if output is not None:
        _write_file(pieces, output)
        return
    encoding = sys.stdout.encoding or "utf-8"
    stream = sys.stdout.buffer
    try:
        for piece in pieces:
            stream.write(piece.encode(encoding, "backslashreplace"))
        stream.flush()
    except BrokenPipeError:
        # ``| head`` has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_file(pieces: Iterable[str], output: Path) -> None:
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", errors="backslashreplace", newline="") as stream:
            stream.writelines(pieces)
        part.replace(output)
    except OSError as error:
        raise HarnessError(
            f"{output}: cannot be written: {error.strerror or error}",
            hint="Choose another place with -o.",
        ) from error
    finally:
        part.unlink(missing_ok=True)


def say(message: str, hint: str = "") -> None:
    """A line for people, on stderr."""
    click.echo(f"harness: {message}", err=True)
    if hint:
        click.echo(f"  {hint}", err=True)
