# SPDX-License-Identifier: MIT
"""Rows as csv: the contract's column names, integer nanoseconds, names as recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from harness.render.records import chunks, flat

if TYPE_CHECKING:
    import pandas as pd


def render(frame: pd.DataFrame) -> Iterator[str]:
    """The header line, then the rows in pieces. Newlines in names are quoted, as csv allows."""
    yield frame.head(0).to_csv(index=False, lineterminator="\n")
    for piece in chunks(frame):
        yield flat(piece).to_csv(index=False, header=False, lineterminator="\n")
