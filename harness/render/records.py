# SPDX-License-Identifier: MIT
"""Frames in pieces: what csv and JSON need to write millions of rows without holding them twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harness.render.text import joined

if TYPE_CHECKING:
    import pandas as pd

#: Rows formatted at a time: enough to be fast, few enough that ``| head`` ends at once.
CHUNK = 50_000
PATH_COLUMNS = ("path", "captured_path", "forward_path")


def chunks(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The frame in row order, at most CHUNK rows at a time; nothing for an empty frame."""
    for start in range(0, len(frame), CHUNK):
        yield frame.iloc[start : start + CHUNK]


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """One dict a row: Python scalars, paths as lists, missing values as None."""
    names = [str(name) for name in frame.columns]
    columns = [_values(frame[name]) for name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pd.Series[Any]) -> list[Any]:
    values: list[Any] = column.tolist()
    if column.name in PATH_COLUMNS:
        return [list(value) if isinstance(value, tuple) else [] for value in values]
    if not column.isna().any():
        return values
    missing = column.isna().tolist()
    return [None if gone else value for value, gone in zip(values, missing, strict=True)]


def flat(frame: pd.DataFrame) -> pd.DataFrame:
    """A copy for csv: each path one string, its elements joined with `` / ``."""
    out = frame.copy(deep=False)
    for name in PATH_COLUMNS:
        if name in out.columns:
            out[name] = _joined(out[name])
    return out


def _joined(column: pd.Series[Any]) -> list[str]:
    """A path repeats for every op in it: each distinct one is joined once."""
    cache: dict[Any, str] = {}
    for path in column.unique():
        cache[path] = joined(path) if isinstance(path, tuple) else ""
    return [cache[path] for path in column.tolist()]
