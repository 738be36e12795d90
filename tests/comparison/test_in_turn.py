# SPDX-License-Identifier: MIT
"""Captures of two sides recorded in turn: the drift they share is taken out, by design alone."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from planted import AA, DATA, changed, scaled

import harness
from harness.comparison.gate import judge
from harness.comparison.sides import capture
from harness.comparison.statistics import Sample, estimate
from harness.comparison.turns import in_turn
from harness.errors import ExitCode
from harness.readers import load

AA12 = sorted((DATA / "aa12" / "A").glob("*.sqlite"))
SECOND = 1_000_000_000


def regression(
    times: Sequence[float], sides: Sequence[int], blocks: Sequence[Sequence[int]], y: np.ndarray
) -> tuple[float, float, float, int]:
    """Shift, variance of a value, factor and df by ordinary least squares, written out: a column
    for the side, and two a block, its level and its times."""
    columns = [np.array(sides, float)]
    for block in blocks:
        inside = np.isin(np.arange(len(times)), block).astype(float)
        columns += [inside, inside * np.array(times, float)]
    x = np.column_stack(columns)
    beta = np.linalg.lstsq(x, y, rcond=None)[0]
    df = len(y) - x.shape[1]
    left = y - x @ beta
    return beta[0], float(left @ left) / df, float(np.linalg.inv(x.T @ x)[0, 0]), df


@pytest.mark.parametrize(
    ("order", "times", "blocks"),
    [
        ("ABABAB", range(6), [range(6)]),
        ("ABBAAB", range(6), [range(6)]),
        ("ABABABA", [0, 1, 3, 4, 6, 7, 9], [range(7)]),
        ("AB" * 5, range(10), [range(5), range(5, 10)]),
        ("AB" * 8, range(16), [range(6), range(6, 11), range(11, 16)]),
    ],
)
def test_it_is_a_regression_on_side_and_time_in_blocks(
    order: str, times: Sequence[int], blocks: Sequence[Sequence[int]]
) -> None:
    y = np.random.default_rng(3).standard_normal(len(order))
    sides = [int(letter == "B") for letter in order]
    shift, variance, factor, df = regression(times, sides, blocks, y)
    base, new = ([i for i, side in enumerate(sides) if side == wanted] for wanted in (0, 1))
    when = [1_796_142_574 * SECOND + 7 * SECOND * t for t in times]
    design = in_turn(tuple(when[i] for i in base), tuple(when[i] for i in new))
    assert design is not None
    logs = np.concatenate([y[base], y[new]])
    assert design.shift(logs) == pytest.approx(shift, abs=1e-9)
    assert design.variance(logs) == pytest.approx(variance, rel=1e-9)
    assert (design.factor, design.df) == (pytest.approx(factor), df)


@pytest.mark.parametrize("order", ["AAABBB", "AABABB", "BBBAAA", "AAAAABBBBB", "AAABBB" * 2])
def test_sides_that_time_tells_apart_were_not_in_turn(order: str) -> None:
    base, new = (tuple(i for i, x in enumerate(order) if x == side) for side in "AB")
    assert in_turn(base, new) is None


def test_what_is_not_known_or_is_no_time_is_not_used() -> None:
    assert in_turn((), (1, 3, 5)) is None
    assert in_turn((0, 2, 4), (1, 2, 5)) is None  # one GPU cannot begin two captures at once


def test_drift_alone_leaves_no_doubt_and_a_walk_leaves_less() -> None:
    """Each capture 1 % slower than the one before; new 3 % slower besides: exactly that."""
    y = 0.01 * np.arange(6) + 0.03 * (np.arange(6) % 2)
    base, new = (
        Sample(1e6 * np.exp(y[i::2]), "capture", 3, 30, started=tuple(range(i, 6, 2)))
        for i in (0, 1)
    )
    (found,) = estimate([(base, new)])
    assert found.method == "in turn"
    assert np.log([found.low, found.ratio, found.high]) == pytest.approx(0.03, abs=1e-6)
    unknown = [Sample(s.values, "capture", 3, 30) for s in (base, new)]
    (wide,) = estimate([(unknown[0], unknown[1])])
    # By hand: shift 0.04 with the drift, variance 4e-4, error sqrt(2/3) * 0.02, t 2.776.
    assert np.log([wide.low, wide.high]) == pytest.approx(
        [0.04 - 2.7764 * 0.02 * np.sqrt(2 / 3), 0.04 + 2.7764 * 0.02 * np.sqrt(2 / 3)], abs=1e-5
    )


def test_when_a_recording_began(tmp_path: Path) -> None:
    """nsys says when its time 0 was; aa1 was made on 1 December 2026 at 16:29:34 UTC."""
    with sqlite3.connect(AA[0]) as db:
        (zero,) = db.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
        first = min(
            db.execute(f"SELECT min(start) FROM CUPTI_ACTIVITY_KIND_{kind}").fetchone()[0]
            for kind in ("KERNEL", "MEMCPY")
        )
    db.close()
    assert zero == 1_796_142_574_813_424_267
    assert capture(load(AA[0]).attribute()).started == zero + first
    # torch.profiler of the same afternoon: 16:08:53 UTC.
    torch = capture(load(DATA / "h200" / "train.trace.json.gz").attribute())
    assert torch.started is not None
    assert 0 < torch.started - 1_796_141_333 * SECOND < 60 * SECOND
    # An export without that table, and one whose clock began with the machine.
    assert capture(load(AA12[0]).attribute()).started is None
    sql = "UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = 5000000000"
    boot = changed(AA[0], tmp_path / "boot.sqlite", sql)
    assert capture(load(boot).attribute()).started is None


def at(file: Path, target: Path, place: int, chain: float) -> Path:
    """A copy made at ``place`` of a sequence, ten seconds apart, its chain ``chain`` times as
    long."""
    scaled(file, target, "chain", chain)
    with sqlite3.connect(target) as db:
        db.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)")
        when = 1_796_142_574 * SECOND + 10 * place * SECOND
        db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?)", (when,))
    db.close()
    return target


@pytest.mark.parametrize(("change", "verdict"), [(1.0, "same"), (1.01, "slower")])
def test_real_captures_that_drift(tmp_path: Path, change: float, verdict: str) -> None:
    """Eight captures of one program, whose chain gets 0.4 % slower from one to the next."""
    sides: tuple[list[Path], list[Path]] = ([], [])
    for place, file in enumerate(AA12[:8]):
        factor = 1.004**place * (change if place % 2 else 1.0)
        sides[place % 2].append(at(file, tmp_path / f"{place}.sqlite", place, factor))
    comparison = harness.compare(*sides)
    assert comparison.in_turn
    assert comparison.as_dict()["in_turn"] is True
    row = next(row for row in comparison.items if row.name == "chain")
    assert row.verdict == verdict
    # The same without their times: drift is noise.
    lost = [
        [
            changed(f, tmp_path / "lost" / f.name, "DROP TABLE TARGET_INFO_SESSION_START_TIME")
            for f in side
        ]
        for side in sides
    ]
    comparison = harness.compare(*lost)
    assert not comparison.in_turn
    assert next(row for row in comparison.items if row.name == "chain").verdict == "unsure"


def test_the_order_in_which_captures_are_given_does_not_matter(tmp_path: Path) -> None:
    files = [at(f, tmp_path / f.name, place, 1.0) for place, f in enumerate(AA12[:6])]
    one = harness.compare(files[::2], files[1::2])
    other = harness.compare(files[4::-2], files[5::-2])
    assert one.in_turn
    assert one.items == other.items
    back = {row.path: row for row in harness.compare(files[1::2], files[::2]).items}
    for row in one.items:
        assert row.ci_low == pytest.approx(1 / (back[row.path].ci_high or 0), rel=1e-9)


@pytest.mark.parametrize(
    ("order", "told"),
    [("AAABBB", "base before new"), ("BBBAAA", "new before base"), ("AABABB", ""), ("ABABAB", "")],
)
def test_one_side_wholly_before_the_other_is_told(tmp_path: Path, order: str, told: str) -> None:
    sides: dict[str, list[Path]] = {"A": [], "B": []}
    for place, (file, side) in enumerate(zip(AA12, order, strict=False)):
        sides[side].append(at(file, tmp_path / side / file.name, place, 1.0))
    comparison = harness.compare(*sides.values())
    found = [w.message for w in comparison.warnings if w.code == "recorded-apart"]
    assert bool(found) == bool(told)
    if told:
        names = {"base": comparison.base["name"], "new": comparison.new["name"]}
        first, last = (names[word] for word in told.split(" before "))
        assert f"all of {first} was recorded before all of {last}" in found[0]
    assert judge(comparison, 0.01).code == ExitCode.OK
    # Nothing is said where nobody knows.
    undated = [AA12[:3], AA12[3:6]]
    assert "recorded-apart" not in {w.code for w in harness.compare(*undated).warnings}
