# SPDX-License-Identifier: MIT
"""Rows as csv and JSON: values survive the trip, whatever the names are."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.render import as_csv, plain_rows, records

NAMES = ["", 'q"uote', "comma,", "new\nline", "é中文🚀", "\x1b[31m", "a\rb", "'quoted'", "L" * 3000]
#: What a spreadsheet would run, and the same behind apostrophes.
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "'=1", "''-"]


def frame(names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "path": pd.Series([("outer", name) for name in names], dtype=object),
            "name": pd.Categorical(names),
            "total_ns": np.arange(len(names), dtype=np.int64) + 2**53,
            "avg_ns": [None if i == 1 else i / 3 for i in range(len(names))],
            "maybe": pd.array([None, *range(1, len(names))], dtype="Int64"),
        }
    )


def test_csv_reads_back_as_written() -> None:
    out = "".join(as_csv.render(frame(NAMES)))
    rows = read(out)
    assert [row["name"] for row in rows] == NAMES
    assert [row["path"] for row in rows] == [f"outer / {name}" for name in NAMES]
    assert rows[0]["total_ns"] == str(2**53)
    assert rows[3]["total_ns"] == str(2**53 + 3)  # beyond what a float holds
    assert (rows[0]["maybe"], rows[1]["avg_ns"]) == ("", "")


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_a_formula_has_an_apostrophe_before_it_that_can_be_taken_away() -> None:
    out = "".join(as_csv.render(frame(FORMULAS)))
    named = [row["name"] for row in read(out)]
    assert named == [f"'{name}" for name in FORMULAS]
    assert [row["path"] for row in read(out)] == [f"outer / {name}" for name in FORMULAS]
    # As docs/json.md has it.
    table = pd.read_csv(io.StringIO(out), keep_default_na=False)
    back = table["name"].str.replace(r"^'('*[=+\-@\t\r\n])", r"\1", regex=True)
    assert back.tolist() == FORMULAS
    assert table["total_ns"].tolist() == [2**53 + i for i in range(len(FORMULAS))]


def test_negative_numbers_are_no_formulas() -> None:
    assert "".join(as_csv.render(pd.DataFrame({"change_ns": [-5]}))) == "change_ns\n-5\n"


def test_pandas_reads_every_row_whatever_is_in_a_name() -> None:
    table = pd.read_csv(io.StringIO("".join(as_csv.render(frame(NAMES)))), keep_default_na=False)
    assert table["name"].tolist() == NAMES


def test_rows_of_text_keep_the_same_rules() -> None:
    rows = [["a\rb", "=1"], ["plain", "c,d"]]
    assert plain_rows.as_csv(["x", "y"], rows) == 'x,y\n"a\rb","\'=1"\n"plain","c,d"\n'
    assert plain_rows.as_csv(["x", "y"], rows[1:]) == 'x,y\nplain,"c,d"\n'


def test_a_terminal_is_shown_what_would_steer_it() -> None:
    pieces = ["name\n", "\x1b[2J,1\n", "a\rb,2\n", "é µ,3\n"]
    assert "".join(as_csv.shown(pieces)) == "name\n\\x1b[2J,1\na\\rb,2\né µ,3\n"


def test_records_are_json_as_they_are() -> None:
    rows: list[dict[str, Any]] = json.loads(json.dumps(records.records(frame(NAMES))))
    assert [row["path"] for row in rows] == [["outer", name] for name in NAMES]
    assert rows[1] == {
        "path": ["outer", 'q"uote'],
        "name": 'q"uote',
        "total_ns": 2**53 + 1,
        "avg_ns": None,
        "maybe": 1,
    }
    assert rows[0]["maybe"] is None


def test_paths_of_categoricals_are_joined_alike() -> None:
    plain = frame(["a", "b", "a"])
    codes, paths = pd.factorize(plain["path"])
    categories = pd.Index(list(paths), dtype=object, tupleize_cols=False)
    packed = plain.assign(path=pd.Categorical.from_codes(codes, categories=categories))
    assert "".join(as_csv.render(packed)) == "".join(as_csv.render(plain))
    assert records.records(packed) == records.records(plain)


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 20])
def test_pieces_hold_every_row_once(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "CHUNK", 4)
    table = pd.DataFrame({"n": range(rows)})
    out = "".join(as_csv.render(table))
    assert out.splitlines() == ["n", *map(str, range(rows))]
