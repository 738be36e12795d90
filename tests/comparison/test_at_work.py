# SPDX-License-Identifier: MIT
"""Another GPU of the machine, or fewer processes, explains a difference all by itself."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from planted import AA, changed

import harness
from harness.comparison import Comparison
from harness.comparison.gate import judge
from harness.errors import ExitCode

TIMES = ("KERNEL", "MEMCPY", "MEMSET")
OTHER = "11111111-2222-3333-4444-555555555555"


def blocking(comparison: Comparison) -> dict[str, tuple[str, str]]:
    return {fact.name: (fact.base, fact.new) for fact in comparison.blocked}


def with_rank(source: Path, target: Path, *factors: float) -> Path:
    """A copy with a further process for each factor, which did the same in so many times as
    long."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    with sqlite3.connect(target) as db:
        there = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        ops = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in TIMES]
        for table in (*ops, "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
            if table not in there:
                continue
            column = "globalPid" if table in ops else "globalTid"
            db.execute(f"CREATE TEMP TABLE first AS SELECT * FROM {table}")
            for number, factor in enumerate(factors, start=1000):
                db.execute("CREATE TEMP TABLE t AS SELECT * FROM first")
                db.execute(f"UPDATE t SET {column} = {column} + {number << 24}")
                if table in ops:
                    db.execute('UPDATE t SET "end" = start + round(("end" - start) * ?)', (factor,))
                db.execute(f"INSERT INTO {table} SELECT * FROM t")
                db.execute("DROP TABLE t")
            db.execute("DROP TABLE first")
    db.close()
    return target


def test_a_slow_rank_that_is_gone_is_no_improvement(tmp_path: Path) -> None:
    both = [with_rank(file, tmp_path / file.name, 1.5) for file in AA[:3]]
    comparison = harness.compare(both, AA[1:])
    assert blocking(comparison) == {"processes": ("2", "1")}
    assert {row.verdict for row in comparison.items} == {"unsure"}
    assert judge(comparison, 0.01).code == ExitCode.NO_ANSWER
    # The slower half of the instances is gone: that is what made it look faster.
    forced = harness.compare(both, AA[1:], force=True)
    assert {row.verdict for row in forced.items} == {"faster"}


def test_a_rank_that_one_capture_lacks_blocks_too(tmp_path: Path) -> None:
    some = [with_rank(AA[0], tmp_path / "a.sqlite", 1.0), AA[1], AA[2]]
    assert "processes" in blocking(harness.compare(some, [*AA[1:], AA[0]]))


def test_processes_with_ranges_count_on_the_cpu(tmp_path: Path) -> None:
    both = [with_rank(file, tmp_path / file.name, 1.5) for file in AA[:3]]
    comparison = harness.compare(both, AA[1:], measure="cpu")
    assert blocking(comparison) == {"processes": ("2", "1")}


def on_second_gpu(source: Path, target: Path, *, ordinal: int) -> Path:
    """A copy whose work was on the second of two GPUs, whose ``ordinal`` it was for the process."""
    changed(source, target, "UPDATE TARGET_INFO_GPU SET cuDevice = 0")
    with sqlite3.connect(target) as db:
        db.execute("CREATE TEMP TABLE t AS SELECT * FROM TARGET_INFO_GPU")
        db.execute("UPDATE t SET id = 1, cuDevice = 1, uuid = ?", (OTHER,))
        db.execute("INSERT INTO TARGET_INFO_GPU SELECT * FROM t")
        if ordinal == 0:  # CUDA_VISIBLE_DEVICES=1
            (pid,) = db.execute("SELECT (globalTid >> 24) & 0xFFFFFF FROM NVTX_EVENTS").fetchone()
            db.execute("UPDATE TARGET_INFO_CUDA_DEVICE SET gpuId = 1, pid = ?", (pid,))
        for kind in TIMES:
            if db.execute(
                "SELECT 1 FROM sqlite_master WHERE name = ?", (f"CUPTI_ACTIVITY_KIND_{kind}",)
            ).fetchone():
                db.execute(f"UPDATE CUPTI_ACTIVITY_KIND_{kind} SET deviceId = {ordinal}")
    db.close()
    return target


def test_recordings_of_two_gpus_of_one_machine_are_not_comparable(tmp_path: Path) -> None:
    """Loose recordings: no run.json says which GPU it was, and the list of GPUs is the same."""
    first = [on_second_gpu(f, tmp_path / "a" / f.name, ordinal=1) for f in AA[:3]]
    for file in first:
        with sqlite3.connect(file) as db:
            for kind in TIMES[:2]:
                db.execute(f"UPDATE CUPTI_ACTIVITY_KIND_{kind} SET deviceId = 0")
        db.close()
    second = [on_second_gpu(f, tmp_path / "b" / f.name, ordinal=1) for f in AA[1:]]
    comparison = harness.compare(first, second)
    assert list(blocking(comparison)) == ["GPU at work"]
    assert blocking(comparison)["GPU at work"][1] == OTHER
    assert judge(comparison, 0.01).code == ExitCode.NO_ANSWER
    assert blocking(harness.compare(second[:2], second[2:])) == {}


def test_an_ordinal_is_that_of_its_process(tmp_path: Path) -> None:
    shown = [on_second_gpu(f, tmp_path / "a" / f.name, ordinal=0) for f in AA[:3]]
    whole = [on_second_gpu(f, tmp_path / "b" / f.name, ordinal=1) for f in AA[1:]]
    comparison = harness.compare(shown, whole)
    assert blocking(comparison) == {}
    at_work = {fact.name: fact.base for fact in comparison.facts}["GPU at work"]
    assert at_work == OTHER


@pytest.mark.parametrize("number", [1, 3])
def test_one_slow_rank_of_eight_does_not_pass(tmp_path: Path, number: int) -> None:
    """Seven are as before: the median of all instances too, and the mean is 0.9 % up."""
    files = AA if number == 1 else [*AA, AA[0]]
    base = [with_rank(f, tmp_path / "a" / f.name, *[1.0] * 7) for f in files[:number]]
    slow = [with_rank(f, tmp_path / "b" / f.name, *[1.0] * 6, 1.07) for f in AA[1 : number + 1]]
    alike = [with_rank(f, tmp_path / "c" / f.name, *[1.0] * 7) for f in AA[1 : number + 1]]
    comparison = harness.compare(base, slow)
    assert {row.verdict for row in comparison.items} == {"same"}
    assert "the slowest process changed by +" in told(comparison)["slow-process"]
    outcome = judge(comparison, 0.01)
    assert outcome.code == ExitCode.NO_ANSWER
    # A gate that allows as much is not stopped by it.
    assert judge(comparison, 0.10).code == ExitCode.OK
    assert "slow-process" not in told(harness.compare(base, alike))


def told(comparison: Comparison) -> dict[str, str]:
    return {warning.code: warning.message for warning in comparison.warnings}
