# SPDX-License-Identifier: MIT
"""The recorded campaign: captures of the workload on one H200, with and without a planted change.

``benchmarks/record_ab.py`` made them. In ``ab``: A 6; B1, B5 5 each, the fused chain with 1 % and
5 % more elements; every choice of three captures a side is compared: 10 of A against A, 200 of A
against each B. In ``aa12``: 12 of A alone, on another H200; of their 9240 choices of three against
three, a fixed sample of 2000.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
PLANTED = "fused-block / chain"


def evaluated(campaign: str, file: Path) -> Any:
    script = ROOT / "benchmarks" / "evaluate_ab.py"
    command = [sys.executable, str(script), str(DATA / campaign), "--most", "2000"]
    command += ["--json", str(file)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return json.loads(file.read_text())


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return evaluated("ab", tmp_path_factory.mktemp("ab") / "verdicts.json")


def test_twelve_captures_of_one_program_are_the_same(tmp_path: Path) -> None:
    assert len(list((DATA / "aa12" / "A").glob("*.sqlite"))) == 12
    found = evaluated("aa12", tmp_path / "verdicts.json")["A"]
    assert found["comparisons"] == 2000
    assert len(found["verdicts"]) == 6
    assert all(verdict == {"same": 2000} for verdict in found["verdicts"].values())


def test_captures_of_one_program_are_the_same(counts: Any) -> None:
    assert counts["A"]["comparisons"] == 10
    assert len(counts["A"]["verdicts"]) == 6
    assert all(verdict == {"same": 10} for verdict in counts["A"]["verdicts"].values())


@pytest.mark.parametrize("side", ["B1", "B5"])
def test_a_planted_change_is_found_where_it_is(counts: Any, side: str) -> None:
    # 1 % and 5 % more elements, so that much more time by the bytes they move. As a share of the
    # block around it (0.06 of it is the chain) even 5 % stays inside the threshold.
    found = dict(counts[side]["verdicts"])
    assert counts[side]["comparisons"] == 200
    assert found.pop(PLANTED) == {"slower": 200}
    assert len(found) == 5
    assert all(verdict == {"same": 200} for verdict in found.values())


def test_captures_of_one_program_in_a_folder_of_their_own() -> None:
    """Four captures hold no two disjoint threes: each of the four choices with each of the others,
    three ranges each."""
    script = ROOT / "benchmarks" / "evaluate_ab.py"
    folders = [str(DATA / "aa"), str(DATA / "aa12" / "A")]
    command = [sys.executable, str(script), *folders, "--most", "50"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert "12 comparisons, 0.00 % wrong verdicts (0 of 36)" in done.stdout
    assert "50 comparisons, 0.00 % wrong verdicts (0 of 300)" in done.stdout


def test_a_folder_with_too_few_captures_is_one_line(tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "evaluate_ab.py"
    for folder in (tmp_path, tmp_path / "nowhere"):
        command = [sys.executable, str(script), str(folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
