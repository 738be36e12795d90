# SPDX-License-Identifier: MIT
"""Columnar reads from a SQLite file: integer columns become numpy arrays, never row tuples kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from harness.errors import ExitCode, UnreadableReport

Int64 = npt.NDArray[np.int64]

_MAGIC = b"SQLite format 3\x00"
_LFS_POINTER = b"version https://git-lfs.github.com/"
_CHUNK = 65536


class Database:
    """A SQLite file opened read-only, with the columns of each table that exists in it.

    Table and column names are matched exactly; a table that is missing has no columns.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.connection = connection
        self.tables: dict[str, frozenset[str]] = {
            name: frozenset(row[1] for row in connection.execute(f"PRAGMA table_info({name})"))
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            if name.isidentifier()
        }

    def has(self, table: str, *columns: str) -> bool:
        """Does ``table`` exist and have all ``columns``?"""
        return table in self.tables and self.tables[table].issuperset(columns)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """All rows of a query whose result is known to be small."""
        return self.connection.execute(sql, parameters).fetchall()

    def count(self, table: str) -> int:
        """Rows in ``table``; 0 when it does not exist."""
        if table not in self.tables:
            return 0
        return int(self.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def integers(self, table: str, expressions: Sequence[str], where: str = "") -> list[Int64]:
        """One int64 array per SQL expression over ``table``'s rows, in table order.

        The expressions must not yield NULL (wrap them in ``coalesce``).
        """
        sql = f"SELECT {', '.join(expressions)} FROM {table}" + (f" WHERE {where}" if where else "")
        width = len(expressions)
        cursor = self.connection.execute(sql)
        parts: list[Int64] = []
        while rows := cursor.fetchmany(_CHUNK):
            parts.append(np.array(rows, dtype=np.int64).reshape(-1, width))
        if not parts:
            return [np.empty(0, np.int64) for _ in expressions]
        return [np.concatenate([part[:, i] for part in parts]) for i in range(width)]


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Open a SQLite file read-only; say in one line why it cannot be read.

    Raises:
        UnreadableReport: missing, empty, a Git LFS pointer, not SQLite, truncated or corrupt.
    """
    _check_file(path)
    # immutable: a report is finished, and its folder may be read-only or on a file system
    # without locks; SQLite would otherwise want to write a -shm file beside a WAL database.
    uri = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    try:
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        try:
            connection.text_factory = _lenient_text
            yield Database(path, connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise UnreadableReport(
            f"{path}: damaged SQLite file ({error})",
            hint="It was cut short or changed while copied: copy it again, or export the report "
            "again with nsys export --type sqlite --force-overwrite true.",
        ) from error


def _lenient_text(data: bytes) -> str:
    # Range names are whatever bytes the program passed, not always UTF-8.
    return data.decode("utf-8", "replace")


def _check_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except FileNotFoundError:
        raise UnreadableReport(f"{path}: no such file") from None
    except PermissionError:
        raise UnreadableReport(
            f"{path}: permission denied", hint="Ask its owner, or copy it with read permission."
        ) from None
    except IsADirectoryError:
        raise UnreadableReport(f"{path}: a folder, not a SQLite file") from None
    except OSError as error:
        raise UnreadableReport(f"{path}: cannot be read ({error.strerror})") from error
    if not head:
        raise UnreadableReport(
            f"{path}: empty file",
            hint="nsys export leaves an empty file when it fails; look at what it printed.",
        )
    if head.startswith(_LFS_POINTER):
        raise UnreadableReport(
            f"{path}: a Git LFS pointer, not the file itself", hint="Run git lfs pull."
        )
    if head.startswith(_MAGIC):
        return
    if head.startswith(_MAGIC[: len(head)][:8]):
        raise UnreadableReport(f"{path}: damaged SQLite file (cut short)")
    raise UnreadableReport(
        f"{path}: not a SQLite file",
        hint="Expected a run folder, an nsys .sqlite or .nsys-rep, or a torch.profiler trace.",
        exit_code=ExitCode.NO_ANSWER,
    )
