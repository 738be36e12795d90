# SPDX-License-Identifier: MIT
"""Columnar reads of a SQLite file: integers become numpy arrays, text becomes codes and labels.

Tables are cut by rowid and the pieces read by several threads (``arrow_sqlite``); where the
driver is missing or refuses, the standard library reads the same columns, slower.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from harness.errors import UnreadableReport
from harness.readers import arrow_sqlite
from harness.readers.text_codes import TextEncoder

Int64 = npt.NDArray[np.int64]

_MAGIC = b"SQLite format 3\x00"
_LFS_POINTER = b"version https://git-lfs.github.com/"
#: Rows of one piece of a table: small enough to share among threads, large enough to be worth it.
_PIECE = 400_000
_MOST_PIECES = 64


@dataclass(frozen=True)
class Query:
    """Columns to read from one table, in rowid order.

    ``integers`` maps a result's name to a SQL expression that is never NULL (``coalesce``);
    ``text`` is an expression for text, never NULL. ``rowids`` limits to a range, both ends
    included.
    """

    table: str
    integers: Mapping[str, str]
    where: str = ""
    text: str = ""
    narrow: frozenset[str] = frozenset()  # integers that fit int32
    rowids: tuple[int, int] | None = None

    def dtypes(self) -> list[type[np.generic]]:
        """The numpy type of each integer column and, last, of the text's codes."""
        out = [np.int32 if name in self.narrow else np.int64 for name in self.integers]
        return [*out, np.int32] if self.text else list(out)

    def sql(self) -> str:
        """The SELECT statement: the integer columns, then the text."""
        columns = [*self.integers.values()]
        if self.text:
            columns.append(f"CAST({self.text} AS TEXT)")
        conditions = [f"({self.where})"] if self.where else []
        if self.rowids is not None:
            conditions.append(f"rowid BETWEEN {self.rowids[0]} AND {self.rowids[1]}")
        sql = f"SELECT {', '.join(columns)} FROM {self.table}"
        return f"{sql} WHERE {' AND '.join(conditions)}" if conditions else sql


@dataclass
class Columns:
    """What a query read. ``codes`` index ``labels``."""

    integers: dict[str, npt.NDArray[Any]]
    codes: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    labels: list[str] = field(default_factory=list)


class Database:
    """A SQLite file opened read-only, with the columns of each table that exists in it.

    Table and column names are matched exactly; a table that is missing has no columns.
    ``engine`` is ``auto``, ``adbc`` (fail without the driver) or ``stdlib``.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, engine: str = "auto") -> None:
        self.path = path
        self.connection = connection
        self.engine = engine
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        self.tables: dict[str, frozenset[str]] = {
            name: frozenset(row[1] for row in connection.execute(f"PRAGMA table_info({name})"))
            for (name,) in names
            if name.isidentifier()
        }

    def has(self, table: str, *columns: str) -> bool:
        """Does ``table`` exist and have all ``columns``?"""
        return table in self.tables and self.tables[table].issuperset(columns)

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query whose result is known to be small."""
        return self.connection.execute(sql, parameters).fetchall()

    def read(self, *queries: Query) -> list[Columns]:
        """Run the queries, in parallel where that helps; one result for each.

        Raises:
            UnreadableReport: a value that is not an integer where one belongs.
            sqlite3.Error: the file is damaged.
        """
        if self.engine != "stdlib":
            try:
                return self._read_arrow(queries)
            except arrow_sqlite.ArrowProblem:
                if self.engine == "adbc":
                    raise
        return [_read_rows(self, query) for query in queries]

    def pieces(self, query: Query, rows: int = _PIECE) -> list[Query]:
        """``query`` cut by rowid into queries of about ``rows`` rows each, in order."""
        low, high = self.rowids(query.table)
        count = min(max((high - low + 1) // rows, 1), _MOST_PIECES)
        edges = [low + (high - low + 1) * i // count for i in range(count + 1)]
        return [replace(query, rowids=(start, stop - 1)) for start, stop in pairwise(edges)]

    def rowids(self, table: str) -> tuple[int, int]:
        """The first and last rowid of a table; (0, -1) when it is empty."""
        # Two queries: SQLite answers each from one end of the tree, and both at once by a scan.
        low = self.rows(f"SELECT min(rowid) FROM {table}")[0][0]
        high = self.rows(f"SELECT max(rowid) FROM {table}")[0][0]
        return (0, -1) if low is None else (low, high)

    def _read_arrow(self, queries: Sequence[Query]) -> list[Columns]:
        tables = [_Table(self, query) for query in queries]
        pieces = [piece for table in tables for piece in table.pieces]
        where = uri(self.path)
        threads = min(_cores(), len(pieces))
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda piece: piece.read(where), pieces))
        else:
            for piece in pieces:
                piece.read(where)
        return [table.joined() for table in tables]


class _Table:
    """A query in flight: arrays with a slot for every rowid, filled piece by piece in place."""

    def __init__(self, db: Database, query: Query) -> None:
        self.query = query
        queries = db.pieces(query)
        low, high = queries[0].rowids[0], queries[-1].rowids[1]  # type: ignore[index]
        if high - low + 1 > db.path.stat().st_size:
            # A row takes more than a byte: most rowids are unused, and the slots would not fit.
            raise arrow_sqlite.ArrowProblem("sparse rowids")
        # Pages of np.empty that are never written cost nothing.
        self.arrays = [np.empty(high - low + 1, dtype) for dtype in query.dtypes()]
        self.pieces = [_Piece(piece, low, self.arrays) for piece in queries]

    def joined(self) -> Columns:
        """The rows read, moved together where a piece did not fill its slots."""
        codes: dict[str, int] = {}
        total = 0
        for piece in self.pieces:
            if piece.encoder is not None:
                labels = piece.encoder.labels()
                mapped = [codes.setdefault(label, len(codes)) for label in labels]
                text = piece.into[-1][: piece.rows]
                text[:] = np.array(mapped, np.int32)[text]
            if piece.start != total:
                for array in self.arrays:
                    array[total : total + piece.rows] = array[
                        piece.start : piece.start + piece.rows
                    ]
            total += piece.rows
        arrays = [array[:total] for array in self.arrays]
        out = Columns(dict(zip(self.query.integers, arrays, strict=False)), labels=list(codes))
        if self.query.text:
            out.codes = arrays[-1]
        return out


class _Piece:
    """A range of rowids of one query and the slots its rows go to."""

    def __init__(self, query: Query, low: int, arrays: list[npt.NDArray[Any]]) -> None:
        first, last = query.rowids or (0, -1)
        self.query = query
        self.start = first - low
        self.into = [array[self.start : last - low + 1] for array in arrays]
        self.encoder = TextEncoder() if query.text else None
        self.rows = 0

    def read(self, uri: str) -> None:
        self.rows = arrow_sqlite.read(uri, self.query.sql(), self.into, self.encoder)


@contextmanager
def open_database(path: Path, engine: str = "auto") -> Iterator[Database]:
    """Open a SQLite file read-only; say in one line why it cannot be read.

    Raises:
        UnreadableReport: missing, empty, a Git LFS pointer, not SQLite, truncated or corrupt.
    """
    _check_file(path)
    try:
        connection = sqlite3.connect(uri(path), uri=True)
        try:
            connection.text_factory = _lenient_text
            yield Database(path, connection, engine)
        finally:
            connection.close()
    except (sqlite3.Error, arrow_sqlite.ArrowProblem) as error:
        raise UnreadableReport(
            f"{path}: damaged SQLite file ({error})",
            hint="It was cut short or changed while copied: copy it again, or export the report "
            "again with nsys export --type sqlite --force-overwrite true.",
        ) from error


def uri(path: Path) -> str:
    """The URI that opens a finished SQLite file, whatever characters its name has."""
    # immutable: a report is finished, and its folder may be read-only or on a file system
    # without locks; SQLite would otherwise want to write a -shm file beside a WAL database.
    return f"file:{quote(os.fspath(path.resolve()))}?mode=ro&immutable=1"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _lenient_text(data: bytes) -> str:
    # Range names are whatever bytes the program passed, not always UTF-8.
    return data.decode("utf-8", "replace")


def _read_rows(db: Database, query: Query) -> Columns:
    """The same columns through the standard library, 8192 rows of Python objects at a time."""
    encoder = TextEncoder()
    chunks: list[list[npt.NDArray[Any]]] = [[] for _ in query.dtypes()]
    cursor = db.connection.cursor()
    db.connection.text_factory = bytes
    try:
        cursor.execute(query.sql())
        while rows := cursor.fetchmany(arrow_sqlite.BATCH_ROWS):
            columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
            if query.text:
                columns[-1] = [encoder.code(text) for text in columns[-1]]
            for chunk, column, dtype in zip(chunks, columns, query.dtypes(), strict=True):
                chunk.append(np.array(column, np.int64).astype(dtype))
    except (TypeError, ValueError, OverflowError) as error:
        raise UnreadableReport(f"{db.path}: unexpected value in {query.table} ({error})") from error
    finally:
        db.connection.text_factory = _lenient_text
    arrays = [
        np.concatenate(chunk) if chunk else np.empty(0, dtype)
        for chunk, dtype in zip(chunks, query.dtypes(), strict=True)
    ]
    out = Columns(dict(zip(query.integers, arrays, strict=False)), labels=encoder.labels())
    if query.text:
        out.codes = arrays[-1]
    return out


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
    if _MAGIC.startswith(head):
        raise UnreadableReport(f"{path}: damaged SQLite file (cut short)")
    raise UnreadableReport(
        f"{path}: not a SQLite file",
        hint="Expected a run folder, an nsys .sqlite or .nsys-rep, or a torch.profiler trace.",
    )
