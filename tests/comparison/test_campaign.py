# SPDX-License-Identifier: MIT
"""The scripts that record and evaluate A/B campaigns."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from evaluate_ab import read, same_side, two_sides, verdicts
from planted import AA, captures
from record_ab import command, sides, slim

import harness
from harness.comparison.build import Options


def test_a_slim_capture_compares_as_the_whole_one(tmp_path: Path) -> None:
    small = tmp_path / "small.sqlite"
    slim(AA[0], small)
    assert small.stat().st_size < AA[0].stat().st_size / 2
    whole, slimmed = harness.compare(AA[1], AA[0]), harness.compare(AA[1], small)
    assert slimmed.items == whole.items
    lost = {fact.name for fact in slimmed.facts if not fact.new}
    assert lost == {"CPU"}
    with sqlite3.connect(small) as db:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        kept = {row[0] for row in db.execute("SELECT name FROM TARGET_INFO_SYSTEM_ENV")}
    db.close()
    assert not tables & {"PROCESSES", "META_DATA_CAPTURE", "ANALYSIS_FILE"}
    assert kept == {"NvDriverVersion", "CudaDriverVersion"}


def test_sides_are_recorded_by_harness_run(tmp_path: Path) -> None:
    assert sides([1, 0.5]) == {
        "A": [],
        "B1": ["--extra-elements", "1"],
        "B0.5": ["--extra-elements", "0.5"],
    }
    argv = command(tmp_path, ["--shape", "8x8"])
    assert argv[1:5] == ["-m", "harness", "run", "--nsys"]
    assert argv[-4:] == ["-m", "workload", "--shape", "8x8"]


def test_every_pair_is_compared_once() -> None:
    # 6 captures: C(6,3)/2 splits into two halves; 4 of each side: 4 x 4.
    letters = list("abcdef")
    pairs = {frozenset((a, b)) for a, b in same_side(letters, 3)}  # type: ignore[arg-type]
    assert len(pairs) == len(list(same_side(letters, 3))) == 10  # type: ignore[arg-type]
    assert all(not set(a) & set(b) for a, b in pairs)
    assert len(list(two_sides(letters[:4], letters[:4], 3))) == 16  # type: ignore[arg-type]


@pytest.mark.parametrize(("factor", "chain"), [(1.0, "same"), (1.01, "slower")])
def test_verdicts_of_a_campaign(tmp_path: Path, factor: float, chain: str) -> None:
    captures(tmp_path / "B", AA, "chain", factor)
    captures(tmp_path / "A", AA, "chain", 1.0)
    pairs = list(two_sides(read(tmp_path / "A"), read(tmp_path / "B"), 3))
    found = verdicts(pairs, Options())
    assert found["eager-block / chain"] == Counter({chain: 16})
    assert found["eager-block / gemm"] == Counter({"same": 16})


def test_evaluation_prints_a_count_for_each_range(tmp_path: Path) -> None:
    captures(tmp_path / "A", AA, "chain", 1.0)
    captures(tmp_path / "B5", AA, "chain", 1.05)
    script = Path(__file__).parents[2] / "benchmarks" / "evaluate_ab.py"
    argv = [sys.executable, str(script), str(tmp_path), "-k", "2", "--most", "3"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "A against A: 3 comparisons, 0.00 % wrong verdicts (0 of 9)" in done.stdout
    # The chain; its parent moves by 1 %, which instances alone do not show.
    assert "A against B5: 3 comparisons, 33.33 %" in done.stdout
