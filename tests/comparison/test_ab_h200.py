# SPDX-License-Identifier: MIT
"""The recorded campaign: captures of the workload on one H200, with and without a planted change.

``benchmarks/record_ab.py`` made them (A: 6; B1, B5: 5 each, the fused chain with 1 % and
5 % more elements). Every choice of three captures a side is compared: 10 of A against A, 200 of A
against each B.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CAMPAIGN = ROOT / "tests" / "data" / "ab"
PLANTED = "fused-block / chain"


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("ab") / "verdicts.json"
    script = ROOT / "benchmarks" / "evaluate_ab.py"
    command = [sys.executable, str(script), str(CAMPAIGN), "--json", str(file)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return json.loads(file.read_text())


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
