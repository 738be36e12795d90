# SPDX-License-Identifier: MIT
"""Growth that no median of a range shows: outside all ranges, and in a few instances."""

from __future__ import annotations

import re
import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from planted import changed

import harness
from harness.comparison import Comparison
from harness.comparison.build import Options, build
from harness.comparison.gate import judge
from harness.comparison.inputs import side
from harness.errors import ExitCode
from harness.selection import Selection

#: Twelve captures of one program, in the order they were made.
AA12 = sorted((Path(__file__).parents[1] / "data" / "aa12" / "A").glob("*.sqlite"))
BASE, NEW = AA12[:3], AA12[3:6]
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
#: Launches in the range, as in planted.py, of its first few instances after the warm-up.
IN_SOME = """
    SELECT r.correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME r, (
        SELECT n.start AS begun, n."end" AS ended, n.globalTid AS tid FROM NVTX_EVENTS n
        LEFT JOIN StringIds s ON s.id = n.textId
        WHERE coalesce(s.value, n.text, '') = ? ORDER BY n.start LIMIT 3 OFFSET 1
    ) WHERE tid = r.globalTid AND begun <= r.start AND r."end" <= ended
"""


def slower_in_some(source: Path, target: Path, factor: float) -> Path:
    return changed(
        source,
        target,
        f'UPDATE {KERNELS} SET "end" = start + round(("end" - start) * ?)'
        f" WHERE correlationId IN ({IN_SOME})",
        (factor, "fused-block"),
    )


#: Kernels launched while no range of their thread was open: by SQL, not by harness.
OUTSIDE = """
    SELECT k.rowid FROM CUPTI_ACTIVITY_KIND_KERNEL k
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId
    WHERE NOT EXISTS (SELECT 1 FROM NVTX_EVENTS n WHERE n.eventType IN (59, 60)
                      AND n.globalTid = r.globalTid AND n.start <= r.start AND r."end" <= n."end")
"""


def longer_outside(source: Path, target: Path, factor: float) -> Path:
    return changed(
        source,
        target,
        f'UPDATE {KERNELS} SET "end" = start + round(("end" - start) * ?)'
        f" WHERE rowid IN ({OUTSIDE})",
        (factor,),
    )


def outside_ms(path: Path) -> float:
    """Of kernels, copies and sets that no range holds."""
    total = 0
    with sqlite3.connect(path) as db:
        for table in (KERNELS, KERNELS.replace("KERNEL", "MEMCPY"), "CUPTI_ACTIVITY_KIND_MEMSET"):
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                query = OUTSIDE.replace(f"{KERNELS} k", f"{table} k")
                sql = (
                    f'SELECT coalesce(sum("end" - start), 0) FROM {table} WHERE rowid IN ({query})'
                )
                total += db.execute(sql).fetchone()[0]
    return total / 1e6


def said(comparison: Comparison, code: str) -> str:
    return next((w.message for w in comparison.warnings if w.code == code), "")


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def test_of_one_program_nothing_is_said() -> None:
    for base, new in ((BASE, NEW), (BASE[:1], NEW[:1]), (AA12[:5], AA12[5:10])):
        for by in ("ranges", "kernels"):
            comparison = harness.compare(base, new, by=by)
            assert not said(comparison, "few-slow")
            assert not said(comparison, "outside-grew")


@pytest.mark.parametrize("number", [3, 1])
def test_work_outside_all_ranges_does_not_grow_unseen(tmp_path: Path, number: int) -> None:
    base, before = BASE[:number], NEW[:number]
    new = [longer_outside(path, tmp_path / path.name, 3.0) for path in before]
    comparison = harness.compare(base, new)
    assert {row.verdict for row in comparison.items} <= {"same", "unsure"}
    wanted = [median([outside_ms(path) for path in files]) for files in (base, new)]
    found = re.findall(r"from ([\d.]+) to ([\d.]+) ms", said(comparison, "outside-grew"))
    assert found == [tuple(f"{value:.4g}" for value in wanted)]
    assert judge(comparison, 0.01).code == ExitCode.NO_ANSWER
    # What a gate allows does not stop it.
    grown = max(map(outside_ms, new)) / min(map(outside_ms, base)) - 1
    assert judge(comparison, grown - 0.01).code == ExitCode.NO_ANSWER
    assert judge(comparison, grown + 0.01).code == ExitCode.OK
    # It is not asked for where some ranges were.
    chain = Options(selection=Selection(range="chain"))
    assert not said(build(side(base, chain), side(new, chain), chain), "outside-grew")
    assert not said(harness.compare(new, base), "outside-grew")


@pytest.mark.parametrize("number", [3, 1])
def test_a_few_slow_instances_do_not_pass(tmp_path: Path, number: int) -> None:
    """Three of ten instances take three times as long: of nine after the first, the mean is
    (6 + 3 * 3) / 9 = 1.67 times what it was, and the median what it was."""
    new = [slower_in_some(path, tmp_path / path.name, 3.0) for path in NEW[:number]]
    comparison = harness.compare(BASE[:number], new)
    assert {row.verdict for row in comparison.items} <= {"same", "unsure"}
    assert "by +67%, their median by" in said(comparison, "few-slow")
    outcome = judge(comparison, 0.01)
    assert outcome.code == ExitCode.NO_ANSWER
    assert "some instances are slower" in outcome.message
    assert judge(comparison, 0.6).code == ExitCode.NO_ANSWER
    # (Of single captures, the interval of the row itself reaches to three times as long.)
    assert judge(comparison, 0.8 if number == 3 else 3.0).code == ExitCode.OK
    assert not said(harness.compare(new, BASE[:number]), "few-slow")


#: The same, of two instances that are not slower.
IN_TWO = IN_SOME.replace("LIMIT 3 OFFSET 1", "LIMIT 2 OFFSET 6")


def without_two(path: Path) -> Path:
    """In place: two instances were never run."""
    assert IN_TWO != IN_SOME
    with sqlite3.connect(path) as db:
        rows = db.execute(
            f"SELECT correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME"
            f" WHERE correlationId IN ({IN_TWO})",
            ("fused-block",),
        ).fetchall()
        assert rows
        spans = db.execute(
            'SELECT n.start, n."end" FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId'
            " WHERE coalesce(s.value, n.text, '') = 'fused-block' ORDER BY n.start LIMIT 2 OFFSET 6"
        ).fetchall()
        for table in (KERNELS, "CUPTI_ACTIVITY_KIND_RUNTIME"):
            db.executemany(f"DELETE FROM {table} WHERE correlationId = ?", rows)
        db.executemany('DELETE FROM NVTX_EVENTS WHERE start >= ? AND "end" <= ?', spans)
    db.close()
    return path


@pytest.mark.parametrize("number", [3, 1])
def test_fewer_instances_are_not_slower_ones(tmp_path: Path, number: int) -> None:
    """Three of nine took three times as long; then of seven: a mean of 13/7 is 11 % over 15/9."""
    base = [slower_in_some(path, tmp_path / path.name, 3.0) for path in BASE[:number]]
    new = [slower_in_some(path, tmp_path / path.name, 3.0) for path in NEW[:number]]
    for path in new:
        without_two(path)
    comparison = harness.compare(base, new)
    row = next(row for row in comparison.items if row.name == "fused-block")
    assert (row.base_instances, row.new_instances) == (10, 8)
    assert row.verdict in ("same", "unsure")
    assert not said(comparison, "few-slow")
    # Slower ones among fewer are told.
    worse = [slower_in_some(path, tmp_path / "worse" / path.name, 2.0) for path in new]
    assert "+" in said(harness.compare(base, worse), "few-slow")


def test_executions_a_gate_allows_do_not_stop_it(tmp_path: Path) -> None:
    """Of the base's GELU one in three is left: the new side runs three times as many, +200 %."""
    gelu = "demangledName IN (SELECT id FROM StringIds WHERE value LIKE '%GeluCUDAKernelImpl%')"
    base = []
    for path in BASE:
        file = changed(
            path,
            tmp_path / path.name,
            "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId IN (SELECT correlationId"
            f" FROM {KERNELS} WHERE {gelu} AND correlationId % 3 > 0)",
        )
        with sqlite3.connect(file) as db:
            db.execute(f"DELETE FROM {KERNELS} WHERE {gelu} AND correlationId % 3 > 0")
        db.close()
        base.append(file)
    comparison = harness.compare(base, NEW, by="kernels")
    assert said(comparison, "more-executions")
    assert judge(comparison, 1.5).code == ExitCode.NO_ANSWER
    assert judge(comparison, 4.0).code == ExitCode.OK
