# SPDX-License-Identifier: MIT
"""Small questions to an nsys export that need no Trace: is it one, what does it give away, what is
missing. Tables are probed; none is taken for granted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection; never creates a file."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
        yield db


def columns(db: sqlite3.Connection, table: str) -> list[str]:
    """Column names of a table; empty when there is none of that name."""
    return [row[1] for row in db.execute(f'PRAGMA table_info("{table}")')]


def is_export(path: Path) -> bool:
    """Whether the file is an nsys export, and not the empty file that a failed export leaves."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    try:
        with opened(path) as db:
            return bool(columns(db, "StringIds"))
    except sqlite3.Error:
        return False
