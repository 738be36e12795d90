# SPDX-License-Identifier: MIT
"""``scripts/bench``: its exit codes, and what it says where it cannot go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
BENCH = [sys.executable, str(FOLDER / "bench.py")]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nothing"], 2, "no such case: nothing"),
        (["startup", "--runs", "0"], 2, "start at 1"),
        (["same", "--nsys", "/nowhere"], 2, "--nsys /nowhere: no program there"),
        (["same", "--no-nsys", "--dir", "/dev/null/x"], 1, "Not a directory: '/dev/null/x'"),
        (["same", "--no-nsys", "--dir", ".", "--json", "no/x.json"], 1, "directory: 'no/x.json'"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    done = subprocess.run([*BENCH, *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_stopped_while_it_makes_a_report(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*BENCH, "sizes", "--no-nsys", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as bench:
        assert bench.stderr is not None
        said = ""
        while "making" not in said:
            said = bench.stderr.readline()
        os.killpg(bench.pid, signal.SIGINT)
        said = bench.stderr.read()
    assert bench.returncode == 130
    assert said.splitlines()[-1] == "bench: stopped"
    assert "Traceback" not in said


@pytest.mark.parametrize(("value", "code"), [(1.0, 0), (3.0, 1), (float("nan"), 1)])
def test_a_missed_promise_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float, code: int
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import bench

    case = bench.Case("mine", {}, [bench.Claim("at most two", value, 2)])
    monkeypatch.setitem(bench.CASES, "mine", lambda _: case)
    written = tmp_path / "found.json"
    given = ["bench", "mine", "--no-nsys", "--dir", str(tmp_path), "--json", str(written)]
    monkeypatch.setattr(sys, "argv", given)
    assert bench.main() == code
    assert json.loads(written.read_text())["cases"][0]["claims"][0]["holds"] == (not code)
