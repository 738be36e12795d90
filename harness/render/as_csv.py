# SPDX-License-Identifier: MIT
"""Rows as csv: the contract's column names, integer nanoseconds, names as recorded.

One thing is added to a name: an apostrophe before what a spreadsheet would run as a formula.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from harness.render.records import chunks, flat
from harness.render.text import printable

if TYPE_CHECKING:
    import pandas as pd

#: With apostrophes before it too: taking one away always gives the name back.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def render(frame: pd.DataFrame) -> Iterator[str]:
    """The header line, then the rows in pieces. Newlines in names are quoted, as csv allows."""
    yield frame.head(0).to_csv(index=False, lineterminator="\n")
    for piece in chunks(frame):
        safe, quoting = _safe(flat(piece))
        yield safe.to_csv(index=False, header=False, lineterminator="\n", quoting=quoting)


def cell(text: str) -> str:
    """The text; with an apostrophe before it where a spreadsheet would take it for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def shown(pieces: Iterable[str]) -> Iterator[str]:
    """The pieces for a terminal, which must not obey what a name says."""
    for piece in pieces:
        lines = piece.split("\n")
        yield "\n".join(line if line.isprintable() else printable(line) for line in lines)


def _safe(piece: pd.DataFrame) -> tuple[pd.DataFrame, Any]:
    """The piece (a copy already) as it can be written, and how csv has to quote it. Each distinct
    text of a column is looked at once."""
    quoting = csv.QUOTE_MINIMAL
    for name in piece.columns:
        column = piece[name]
        if column.dtype.kind != "O":
            continue
        texts = [text for text in column.unique().tolist() if isinstance(text, str)]
        # csv quotes what ends a line, and takes only a newline for that. Readers do not.
        if any("\r" in text for text in texts):
            quoting = csv.QUOTE_NONNUMERIC
        changed = {text: cell(text) for text in texts if cell(text) != text}
        if changed:
            piece[name] = [changed.get(text, text) for text in column.tolist()]
    return piece, quoting
