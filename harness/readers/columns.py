# SPDX-License-Identifier: MIT
"""Columnar reads of a SQLite file: integers become numpy arrays, text becomes codes and labels.

Tables are cut by rowid and the pieces read by several threads (``arrow_sqlite``); where the
driver is missing or refuses, the standard library reads the same columns, slower.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from harness.cores import cores
from harness.errors import UnreadableReport
from harness.readers import arrow_sqlite
from harness.readers.paths import LFS_POINTER, lfs_pointer
from harness.readers.text_codes import TextEncoder

Int64 = npt.NDArray[np.int64]
T = TypeVar("T")
R = TypeVar("R")

_MAGIC = b"SQLite format 3\x00"
#: Stands for NULL in a needed column: no time, thread or type, and not the least integer either,
#: which broken writers leave behind.
NOTHING = -(2**63) + 75_025
#: Rows of one piece of a table: small enough to share among threads, large enough to be worth it.
_PIECE = 200_000
_MOST_PIECES = 256
_EXPORT_AGAIN = (
    "The file is damaged or was edited: export the report again with nsys export --type sqlite "
    "--force-overwrite true."
)


@dataclass(frozen=True)
class Query:
    """Columns to read from one table, in rowid order.

    ``integers`` maps a result's name to a SQL expression that is never NULL (``coalesce``), or to
    a number, which is filled in without asking SQLite;
    ``text`` is an expression for text, never NULL. ``rowids`` limits to a range, both ends
    included. ``needed`` integers hold NOTHING where the file has NULL: such rows are dropped.
    """

    table: str
    integers: Mapping[str, str | int]
    where: str = ""
    text: str = ""
    narrow: frozenset[str] = frozenset()  # integers that fit int32
    rowids: tuple[int, int] | None = None
    needed: frozenset[str] = frozenset()

    def dtypes(self) -> list[type[np.generic]]:
        """The numpy type of each integer column and, last, of the text's codes."""
        out = [np.int32 if name in self.narrow else np.int64 for name in self.integers]
        return [*out, np.int32] if self.text else list(out)

    def selected(self, columns: list[T]) -> list[T]:
        """Those of ``columns`` (one for each dtype) that ``sql`` selects."""
        constant = [isinstance(column, int) for column in self.integers.values()]
        return [column for i, column in enumerate(columns) if not any(constant[i : i + 1])]

    def sql(self) -> str:
        """The SELECT statement: the integer columns that are not constant, then the text."""
        columns = [column for column in self.integers.values() if isinstance(column, str)]
        if self.text:
            # As a blob: to hand over text SQLite copies each value to end it with a zero byte.
            columns.append(f"CAST({self.text} AS BLOB)")
        conditions = [f"({self.where})"] if self.where else []
        if self.rowids is not None:
            conditions.append(f"rowid BETWEEN {self.rowids[0]} AND {self.rowids[1]}")
        sql = f"SELECT {', '.join(columns)} FROM {self.table}"
        return f"{sql} WHERE {' AND '.join(conditions)}" if conditions else sql


#: Queries whose rows go one after another into the same columns; they name the same integers.
Stack = Sequence[Query]


@dataclass
class Columns:
    """What a stack of queries read, and the rows of each. ``codes`` index ``labels``. ``dropped``
    counts the rows of each query that lacked a needed value."""

    integers: dict[str, npt.NDArray[Any]]
    rows: list[int]
    codes: npt.NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    labels: list[str] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)


class Database:
    """A SQLite file opened read-only, with the columns of each table that exists in it.

    Table and column names are matched exactly; a table that is missing has no columns.
    ``engine`` is ``auto``, ``adbc`` (fail without the driver) or ``stdlib``.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, engine: str = "auto") -> None:
        self.path = path
        self.connection = connection
        self.engine = engine
        found = connection.execute("SELECT name, type FROM sqlite_master").fetchall()
        self.nameless = False  # a string was asked for that is not there
        self.views = frozenset(name for name, type_ in found if type_ == "view")
        self.tables: dict[str, frozenset[str]] = {}
        #: The columns of each table that are declared NOT NULL.
        self.required: dict[str, frozenset[str]] = {}
        for name in (name for name, type_ in found if type_ == "table" and name.isidentifier()):
            columns = connection.execute(f'PRAGMA table_xinfo("{name}")').fetchall()
            self.tables[name] = frozenset(column[1] for column in columns)
            self.required[name] = frozenset(column[1] for column in columns if column[3])

    def has(self, table: str, *columns: str) -> bool:
        """Does ``table`` exist and have all ``columns``?"""
        return table in self.tables and self.tables[table].issuperset(columns)

    def rows(self, sql: str, kinds: str) -> list[tuple[Any, ...]]:
        """All rows of a query whose result is known to be small.

        SQLite keeps any value in any column, so ``kinds`` says what each one must be: ``i`` an
        integer or NULL, ``t`` text or NULL (whatever else it is becomes text), ``-`` anything.

        Raises:
            UnreadableReport: a value that is not an integer where one belongs.
        """
        found = self.connection.execute(sql).fetchall()
        for i, kind in enumerate(kinds):
            if kind == "-":
                continue
            fine = (int if kind == "i" else str, type(None))
            odd = [n for n, row in enumerate(found) if not isinstance(row[i], fine)]
            if odd and kind == "i":
                table = sql.partition(" FROM ")[2].split()[0]
                raise UnreadableReport(
                    f"{self.path}: unexpected value in {table} ({found[odd[0]][i]!r:.80})",
                    hint=_EXPORT_AGAIN,
                )
            for n in odd:
                row = found[n]
                found[n] = (*row[:i], _as_text(row[i]), *row[i + 1 :])
        return found

    def read(self, *stacks: Stack) -> list[Columns]:
        """Run the queries, in parallel where that helps; one result for each stack.

        Raises:
            UnreadableReport: a value that is not an integer where one belongs.
            sqlite3.Error: the file is damaged.
        """
        read = self._read_arrow(stacks) if self.engine != "stdlib" else None
        if read is None:
            read = [_read_rows(self, stack) for stack in stacks]
        return [_usable(stack, columns) for stack, columns in zip(stacks, read, strict=True)]

    def pieces(self, query: Query, rows: int = _PIECE) -> list[Query]:
        """``query`` cut by rowid into queries of about ``rows`` rows each, in order."""
        low, high = query.rowids or self.rowids(query.table)
        count = min(max((high - low + 1) // rows, 1), _MOST_PIECES)
        edges = [low + (high - low + 1) * i // count for i in range(count + 1)]
        return [replace(query, rowids=(start, stop - 1)) for start, stop in pairwise(edges)]

    def numbered(self, table: str) -> bool:
        """Has the table SQLite's own numbers of rows?"""
        if "rowid" in map(str.lower, self.tables[table]):
            return False
        try:
            self.connection.execute(f"SELECT rowid FROM {table} LIMIT 0")
        except sqlite3.OperationalError as error:
            if "no such column" in str(error):  # WITHOUT ROWID
                return False
            raise
        return True

    def rowids(self, table: str) -> tuple[int, int]:
        """The first and last rowid of a table; (0, -1) when it is empty."""
        # Two queries: SQLite answers each from one end of the tree, and both at once by a scan.
        low = self.rows(f"SELECT min(rowid) FROM {table}", "i")[0][0]
        high = self.rows(f"SELECT max(rowid) FROM {table}", "i")[0][0]
        return (0, -1) if low is None else (low, high)

    def _read_arrow(self, stacks: Sequence[Stack]) -> list[Columns] | None:
        """None where the driver cannot."""
        try:
            tables = [_Table(self, stack) for stack in stacks]
            pieces = [piece for table in tables for piece in table.pieces]
            where = uri(self.path)
            in_parallel(lambda piece: piece.read(where), pieces)
            return [table.joined() for table in tables]
        except arrow_sqlite.ArrowProblem:
            if self.engine == "adbc":
                raise
            return None


class _Table:
    """A stack in flight: arrays with a slot for every rowid, filled piece by piece in place."""

    def __init__(self, db: Database, stack: Stack) -> None:
        self.stack = stack
        cut = [db.pieces(query) for query in stack]
        slots = [_slots(piece) for pieces in cut for piece in pieces]
        if sum(slots) > db.path.stat().st_size:
            # A row takes more than a byte: most rowids are unused, and the slots would not fit.
            raise arrow_sqlite.ArrowProblem("sparse rowids")
        # Pages of np.empty that are never written cost nothing.
        self.arrays = [
            np.empty(sum(slots), dtype) if value is None else _repeated(value, sum(slots), dtype)
            for dtype, value in zip(stack[0].dtypes(), _constants(stack), strict=True)
        ]
        self.pieces = []
        start = 0
        for number, pieces in enumerate(cut):
            for query in pieces:
                stop = start + _slots(query)
                into = [array[start:stop] for array in self.arrays]
                self.pieces.append(_Piece(query, number, start, into))
                start = stop

    def joined(self) -> Columns:
        """The rows read, moved together where a piece did not fill its slots."""
        codes: dict[str, int] = {}
        rows = [0] * len(self.stack)
        total = 0
        for piece in self.pieces:
            if piece.encoder is not None:
                labels = piece.encoder.labels()
                mapped = [codes.setdefault(label, len(codes)) for label in labels]
                text = piece.into[-1][: piece.rows]
                text[:] = np.array(mapped, np.int32)[text]
            if piece.start != total:
                stop = piece.start + piece.rows
                for array in self.arrays:
                    if array.flags.writeable:
                        array[total : total + piece.rows] = array[piece.start : stop]
            total += piece.rows
            rows[piece.number] += piece.rows
        return _columns(self.stack[0], [array[:total] for array in self.arrays], rows, list(codes))


def _constants(stack: Stack) -> list[int | None]:
    """The number that a column holds in every row of a stack, None where it varies."""
    found: list[int | None] = []
    for name in stack[0].integers:
        values = {query.integers[name] for query in stack}
        value = values.pop()
        found.append(value if isinstance(value, int) and not values else None)
    return [*found, None] if stack[0].text else found


def _repeated(value: int, length: int, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """One value, seen ``length`` times: read-only, and next to no memory."""
    return np.broadcast_to(np.asarray(value, dtype), length)


def _slots(query: Query) -> int:
    return query.rowids[1] - query.rowids[0] + 1 if query.rowids else 0


class _Piece:
    """A range of rowids of one query and the slots its rows go to."""

    def __init__(self, query: Query, number: int, start: int, into: list[npt.NDArray[Any]]) -> None:
        self.query = query
        self.number = number
        self.start = start
        self.into = into
        self.encoder = TextEncoder() if query.text else None
        self.rows = 0

    def read(self, uri: str) -> None:
        into = self.query.selected(self.into)
        self.rows = arrow_sqlite.read(uri, self.query.sql(), into, self.encoder)
        for array, column in zip(self.into, self.query.integers.values(), strict=False):
            if isinstance(column, int) and array.flags.writeable:
                array[: self.rows] = column


def _columns(
    query: Query, arrays: list[npt.NDArray[Any]], rows: list[int], labels: list[str]
) -> Columns:
    out = Columns(dict(zip(query.integers, arrays, strict=False)), rows, labels=labels)
    if query.text:
        out.codes = arrays[-1]
    return out


def _usable(stack: Stack, columns: Columns) -> Columns:
    """``columns`` without the rows that lack a needed value."""
    lacking = np.zeros(0, bool)
    for name in stack[0].needed:
        values = columns.integers[name]
        if values.min(initial=0) <= NOTHING:
            lacking = (values == NOTHING) | (lacking if len(lacking) else np.False_)
    columns.dropped = [0] * len(columns.rows)
    if not len(lacking):
        return columns
    ends = np.cumsum(columns.rows).tolist()
    edges = pairwise([0, *ends])
    columns.dropped = [int(np.count_nonzero(lacking[low:high])) for low, high in edges]
    counts = zip(columns.rows, columns.dropped, strict=True)
    columns.rows = [number - dropped for number, dropped in counts]
    columns.integers = {name: values[~lacking] for name, values in columns.integers.items()}
    if stack[0].text:
        columns.codes = columns.codes[~lacking]
    return columns


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
    # SQLite's message may quote what is garbled, which need not be UTF-8.
    except (sqlite3.Error, UnicodeDecodeError, arrow_sqlite.ArrowProblem) as error:
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


def _as_text(value: object) -> str:
    return _lenient_text(value) if isinstance(value, bytes) else str(value)


def _lenient_text(data: bytes) -> str:
    # Range names are whatever bytes the program passed, not always UTF-8.
    return data.decode("utf-8", "replace")


def in_parallel(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``work`` done on every item, on all cores: for work that lets go of the GIL."""
    threads = min(cores(), len(items))
    if threads < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))


def _read_rows(db: Database, stack: Stack) -> Columns:
    """The same columns through the standard library, some rows of Python objects at a time."""
    encoder = TextEncoder()
    dtypes = stack[0].dtypes()
    chunks: list[list[npt.NDArray[Any]]] = [[np.empty(0, dtype)] for dtype in dtypes]
    counts = []
    for query in stack:
        count = 0
        try:
            for columns in _batches(db, replace(query, text="")):
                count += len(columns[0])
                for chunk, column in zip(chunks, columns, strict=False):
                    chunk.append(column.astype(chunk[0].dtype))
            if query.text:
                texts = db.connection.execute(replace(query, integers={}).sql())
                chunks[-1].append(np.fromiter((encoder.code(text) for (text,) in texts), np.int32))
        except (TypeError, ValueError, OverflowError) as error:
            raise UnreadableReport(
                f"{db.path}: unexpected value in {query.table} ({error})", hint=_EXPORT_AGAIN
            ) from error
        counts.append(count)
    arrays = [np.concatenate(chunk) for chunk in chunks]
    return _columns(stack[0], arrays, counts, encoder.labels())


def _batches(db: Database, query: Query) -> Iterator[list[Int64]]:
    """The query's integer columns, some rows at a time."""
    cursor = db.connection.execute(query.sql())
    width = len(cursor.description)
    while True:
        some = list(chain.from_iterable(islice(cursor, arrow_sqlite.BATCH_ROWS)))
        # numpy would cut 2.7 to 2 and take text for a number; the other engine refuses both.
        if not {int}.issuperset(map(type, some)):
            raise TypeError(f"{next(value for value in some if type(value) is not int)!r:.80}")
        rows = np.fromiter(some, np.int64).reshape(-1, width)
        if not len(rows):
            return
        columns = iter(rows.T)
        yield [
            np.full(len(rows), column) if isinstance(column, int) else next(columns)
            for column in query.integers.values()
        ]


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
    if head.startswith(LFS_POINTER):
        raise lfs_pointer(path)
    if head.startswith(_MAGIC):
        return
    if _MAGIC.startswith(head):
        raise UnreadableReport(f"{path}: damaged SQLite file (cut short)")
    raise UnreadableReport(
        f"{path}: not a SQLite file",
        hint="Expected a run folder, an nsys .sqlite or .nsys-rep, or a torch.profiler trace.",
    )
