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

from harness.render import as_csv, records

NAMES = ["", 'q"uote', "comma,", "new\nline", "é中文🚀", "\x1b[31m", "=1+1", "L" * 3000]


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
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["name"] for row in rows] == NAMES
    assert [row["path"] for row in rows] == [f"outer / {name}" for name in NAMES]
    assert rows[0]["total_ns"] == str(2**53)
    assert rows[3]["total_ns"] == str(2**53 + 3)  # beyond what a float holds
    assert (rows[0]["maybe"], rows[1]["avg_ns"]) == ("", "")


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
