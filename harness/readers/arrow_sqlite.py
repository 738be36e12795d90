# SPDX-License-Identifier: MIT
"""SQLite rows as numpy columns through the ADBC driver, without pyarrow and without the GIL.

The driver hands over Arrow C streams. Their ``get_next`` is called through ctypes, which lets go
of the GIL for the whole batch: two threads read two partitions of a file in half the time. The
same stream read through pyarrow or nanoarrow does not scale (docs/notes/reading-sqlite.md).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.readers.text_codes import TextEncoder

#: Rows a batch. A column of 8192 int64 stays below malloc's mmap threshold, so its memory is
#: reused; with 65 536 rows two threads wait for each other in the kernel's page-fault path.
BATCH_ROWS = 8192


class ArrowProblem(Exception):
    """The driver is missing or failed, or a column is not of the expected type."""


class _Array(ctypes.Structure):
    pass


_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

# The Arrow C data interface, a frozen ABI: https://arrow.apache.org/docs/format/CDataInterface
_Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class _Schema(ctypes.Structure):
    pass


_Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(_Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class _Stream(ctypes.Structure):
    _fields_ = (
        ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


def available() -> bool:
    """Is the driver installed?"""
    try:
        import adbc_driver_sqlite  # noqa: F401
    except ImportError:
        return False
    return True


def read(uri: str, sql: str, into: Sequence[npt.NDArray[Any]], encoder: TextEncoder | None) -> int:
    """Run a query and write its rows to the start of the arrays ``into``: its integer columns and,
    with an ``encoder``, the codes of its last column, which is text. Returns the number of rows.

    Raises:
        ArrowProblem: no driver, a failed query, NULL, a value of another type, too many rows.
    """
    integers = len(into) - (encoder is not None)
    done = 0
    for batch in _batches(uri, sql, integers, encoder is not None):
        rows = slice(done, done + batch.length)
        done = rows.stop
        if done > len(into[0]):
            raise ArrowProblem("more rows than rowids")
        for i in range(integers):
            into[i][rows] = _integers(batch.children[i].contents)
        if encoder is not None:
            into[integers][rows] = _text(batch.children[integers].contents, encoder)
    return done


def _batches(uri: str, sql: str, integers: int, text: bool) -> Iterator[_Array]:
    """The query's batches; each is valid until the next one is asked for."""
    try:
        import adbc_driver_manager as manager
        import adbc_driver_sqlite as sqlite
    except ImportError as error:
        raise ArrowProblem(str(error)) from error
    try:
        with (
            sqlite.connect(uri) as database,
            manager.AdbcConnection(database) as connection,
            manager.AdbcStatement(connection) as statement,
        ):
            statement.set_options(**{sqlite.StatementOptions.BATCH_ROWS.value: str(BATCH_ROWS)})
            statement.set_sql_query(sql)
            handle, _ = statement.execute_query()
            yield from _stream(handle.address, integers, text)
    except (manager.Error, ImportError, OSError) as error:
        raise ArrowProblem(str(error)) from error


def _stream(address: int, integers: int, text: bool) -> Iterator[_Array]:
    stream = _Stream.from_address(address)
    get_next = stream.get_next
    array = _Array()
    formats: list[bytes] | None = None
    while True:
        if get_next(address, ctypes.addressof(array)):
            message = stream.get_last_error(address) or b"unknown error"
            raise ArrowProblem(message.decode("utf-8", "replace"))
        if not array.release:
            return
        try:
            if array.length:
                if formats is None:
                    formats = _formats(stream, address)
                    if formats != [b"l"] * integers + [b"z"] * text:
                        raise ArrowProblem(f"unexpected column types {formats}")
                yield array
        finally:
            _Release(array.release)(ctypes.addressof(array))


def _formats(stream: _Stream, address: int) -> list[bytes]:
    schema = _Schema()
    if stream.get_schema(address, ctypes.addressof(schema)):
        raise ArrowProblem("no schema")
    try:
        return [bytes(schema.children[i].contents.format) for i in range(schema.n_children)]
    finally:
        _Release(schema.release)(ctypes.addressof(schema))


def _integers(column: _Array) -> npt.NDArray[np.int64]:
    """A view of an int64 column's buffer; it dies with the batch."""
    if column.offset or _has_null(column):
        raise ArrowProblem("NULL in an integer column")
    return _view(column.buffers[1], column.length, ctypes.c_int64)


def _text(column: _Array, encoder: TextEncoder) -> npt.NDArray[np.int32]:
    if column.offset or _has_null(column):
        raise ArrowProblem("NULL in a text column")
    offsets = _view(column.buffers[1], column.length + 1, ctypes.c_int32)
    return encoder.encode(offsets, _view(column.buffers[2], int(offsets[-1]), ctypes.c_uint8))


def _has_null(column: _Array) -> bool:
    # The driver leaves null_count at -1 (not counted) and always sends the validity bitmap:
    # one bit for each row, in order, least significant first.
    if column.null_count >= 0 or not column.buffers[0]:
        return bool(column.null_count > 0)
    whole, rest = divmod(column.length, 8)
    bitmap = _view(column.buffers[0], whole + (rest > 0), ctypes.c_uint8)
    last = (1 << rest) - 1
    return bool((bitmap[:whole] != 255).any() or (rest and int(bitmap[-1]) & last != last))


def _view(address: int | None, length: int, item: type[Any]) -> npt.NDArray[Any]:
    if not address or not length:
        return np.zeros(length, item)
    return np.frombuffer((item * length).from_address(address), item)
