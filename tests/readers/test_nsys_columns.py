# SPDX-License-Identifier: MIT
"""The columnar layer: both engines give the same arrays, however a table is cut."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import HarnessError
from harness.readers import columns, names, text_codes
from harness.readers.arrow_sqlite import BATCH_ROWS, ArrowProblem
from harness.readers.columns import Query, open_database
from harness.readers.text_codes import TextEncoder

QUERY = Query("t", {"a": "a", "b": "coalesce(b, -1)"}, text="coalesce(s, '')")


def make(path: Path, rows: list[tuple[int, int | None, str | None]], first: int = 1) -> Path:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (a INTEGER NOT NULL, b INTEGER, s TEXT)")
        db.executemany(
            "INSERT INTO t (rowid, a, b, s) VALUES (?, ?, ?, ?)",
            [(first + i, *row) for i, row in enumerate(rows)],
        )
    return path


def read(path: Path, query: Query = QUERY, engine: str = "adbc") -> list[tuple[int, int, str]]:
    with open_database(path, engine) as db:
        [out] = db.read([query])
    texts = [out.labels[code] for code in out.codes]
    return list(zip(out.integers["a"].tolist(), out.integers["b"].tolist(), texts, strict=True))


@pytest.mark.parametrize("engine", ["adbc", "stdlib"])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, BATCH_ROWS - 1, BATCH_ROWS, 3 * BATCH_ROWS + 5])
def test_batches_of_every_size(tmp_path: Path, engine: str, count: int) -> None:
    rows = [(i * i, None if i % 3 else -i, None if i % 5 else f"n{i % 11}") for i in range(count)]
    path = make(tmp_path / "t.sqlite", rows)
    expected = [(a, -1 if b is None else b, s or "") for a, b, s in rows]
    assert read(path, engine=engine) == expected


def test_pieces_come_back_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_PIECE", 100)
    monkeypatch.setattr(columns.Database.pieces, "__defaults__", (100,))
    monkeypatch.setattr(columns, "cores", lambda: 4)
    rows = [(i, i % 7, f"name {i % 300}") for i in range(2345)]
    path = make(tmp_path / "t.sqlite", rows, first=500)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM t WHERE a BETWEEN 150 AND 420 OR a % 13 = 0")
    kept = [row for row in rows if not (150 <= row[0] <= 420 or row[0] % 13 == 0)]
    with open_database(path) as db:
        assert len(db.pieces(QUERY)) == 23
    assert read(path) == kept
    some = Query("t", QUERY.integers, where="b = 3 OR b = 5", text=QUERY.text)
    assert read(path, some) == [row for row in kept if row[1] in (3, 5)]


def test_extreme_integers(tmp_path: Path) -> None:
    rows = [(-(2**63), 2**63 - 1, "x"), (0, -1, "y")]
    for engine in ("adbc", "stdlib"):
        assert read(make(tmp_path / f"{engine}.sqlite", rows), engine=engine) == rows


def test_narrow_columns_are_int32(tmp_path: Path) -> None:
    path = make(tmp_path / "t.sqlite", [(1, 2, "")])
    query = Query("t", {"a": "a", "b": "b"}, narrow=frozenset({"b"}))
    for engine in ("adbc", "stdlib"):
        with open_database(path, engine) as db:
            [out] = db.read([query])
        assert [array.dtype for array in out.integers.values()] == [np.int64, np.int32]


def test_null_is_refused_by_both_engines(tmp_path: Path) -> None:
    path = make(tmp_path / "t.sqlite", [(i, None if i == 10 else i, "") for i in range(20)])
    query = Query("t", {"b": "b"})
    for engine in ("adbc", "auto", "stdlib"):
        with pytest.raises(HarnessError), open_database(path, engine) as db:
            db.read([query])


def test_what_the_driver_refuses_the_standard_library_reads(tmp_path: Path) -> None:
    # Rowids far apart: a slot for each would need terabytes.
    path = make(tmp_path / "t.sqlite", [(1, 2, "x")])
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO t (rowid, a, b, s) VALUES (1000000000000, 3, 4, 'y')")
    with open_database(path, "adbc") as db, pytest.raises(ArrowProblem):
        db.read([QUERY])
    assert read(path, engine="auto") == [(1, 2, "x"), (3, 4, "y")]


def test_several_queries_at_once(tmp_path: Path) -> None:
    path = make(tmp_path / "t.sqlite", [(i, i, str(i)) for i in range(5)])
    with open_database(path) as db:
        low, all_ = db.read([Query("t", {"a": "a"}, where="a < 2")], [QUERY])
    assert low.integers["a"].tolist() == [0, 1]
    assert all_.labels == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("engine", ["adbc", "stdlib"])
def test_stacked_queries_share_their_columns(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns.Database.pieces, "__defaults__", (10,))
    path = make(tmp_path / "t.sqlite", [(i, i, str(i % 3)) for i in range(35)])
    some = Query("t", {"a": "a", "b": "-7"}, where="a % 2", text="'x'")
    none = Query("t", {"a": "a", "b": "b"}, where="a > 99", text="s")
    with open_database(path, engine) as db:
        [out] = db.read([some, none, QUERY])
    assert out.rows == [17, 0, 35]
    assert out.integers["a"].tolist() == [*range(1, 35, 2), *range(35)]
    assert out.integers["b"].tolist() == [-7] * 17 + list(range(35))
    texts = [out.labels[code] for code in out.codes]
    assert texts == ["x"] * 17 + [str(i % 3) for i in range(35)]


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"", b"a", b"a\0", b"\0a", b"step"])))
@settings(max_examples=300, deadline=None)
def test_text_codes(texts: list[bytes]) -> None:
    encoder = TextEncoder()
    data = np.frombuffer(b"".join(texts), np.uint8)
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    codes = encoder.encode(offsets, data)
    labels = encoder.labels()
    assert [labels[code] for code in codes] == [t.decode("utf-8", "replace") for t in texts]
    assert len(labels) == len(set(texts))
    again = encoder.encode(offsets, data)
    assert again.tolist() == codes.tolist()


def test_texts_whose_hashes_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_codes, "_MULTIPLIERS", np.zeros(64, np.uint64))
    texts = [b"forward", b"another", b"forward", b"gemm", b"relu"]
    encoder = TextEncoder()
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
    codes = encoder.encode(offsets, np.frombuffer(b"".join(texts), np.uint8))
    assert [encoder.labels()[code].encode() for code in codes] == texts


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 50)))
@settings(max_examples=300, deadline=None)
def test_codes_of(ids: list[int]) -> None:
    codes, unique = names.codes_of(np.array(ids, np.int64))
    assert unique.tolist() == sorted(set(ids))
    assert unique[codes].tolist() == ids


def test_labels_that_repeat_are_merged() -> None:
    merged = names.categorical(np.array([0, 1, 2, 1]), ["a", "b", "a"])
    assert merged.tolist() == ["a", "b", "a", "b"]
    assert merged.categories.tolist() == ["a", "b"]
