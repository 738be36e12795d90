# SPDX-License-Identifier: MIT
"""Rows of text as csv or markdown, for the commands whose results are not measures."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from harness.render.as_csv import cell
from harness.render.as_markdown import escape

Rows = Iterable[Sequence[str]]


def as_csv(columns: Sequence[str], rows: Rows) -> str:
    """The header line and the rows; what needs quotes has them."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(columns)
    cells = [[cell(text) for text in row] for row in rows]
    broken = any("\r" in text for row in cells for text in row)
    # csv quotes what ends a line, and takes only a newline for that. Readers do not.
    csv.writer(
        out, lineterminator="\n", quoting=csv.QUOTE_ALL if broken else csv.QUOTE_MINIMAL
    ).writerows(cells)
    return out.getvalue()


def as_markdown(columns: Sequence[str], rows: Rows) -> str:
    """A table of GitHub's kind; a cell with several lines stays one row."""
    cells = [[escape(cell).replace("\n", "<br>") for cell in row] for row in rows]
    lines = [list(columns), ["---"] * len(columns), *cells]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
