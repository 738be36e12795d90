# SPDX-License-Identifier: MIT
"""Comparisons whose answer is known, because we made the noise. benchmarks/ab_simulation.py runs
the same scenarios at length; these are short enough for every run of the suite."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from ab_simulation import SCENARIOS, Tally, rank_test_rate, simulate

from harness.comparison.statistics import (
    Sample,
    captures_needed,
    estimate,
    median_variance,
    resampled_medians,
)

#: Noise whose captures do not depend on the order they are made in.
STEADY = [name for name, noise in SCENARIOS.items() if not noise.walk and not noise.drift]
#: Noise that both sides share where they are recorded in turn.
SHARED = [name for name in SCENARIOS if name not in STEADY]


#: Where 95 % is a floor: t is conservative for long tails, as three captures a side make it, and
#: a walk that steps twice as far as captures differ is no line. docs/comparing.md has both.
FLOOR = ("skewed, spikes", "clocks that walk far")


def covers(name: str, tally: Tally) -> bool:
    return 0.93 <= tally.coverage <= (0.985 if name in FLOOR else 0.97)


@pytest.mark.parametrize("in_turn", [True, False])
@pytest.mark.parametrize("name", STEADY)
def test_interval_covers_the_truth_93_to_97_times_in_100(name: str, in_turn: bool) -> None:
    """Three captures a side: skewed instances, drift within captures, captures apart."""
    tally = simulate(SCENARIOS[name], runs=400, in_turn=in_turn)
    assert covers(name, tally), tally.coverage


@pytest.mark.parametrize("captures", [3, 5, 10])
@pytest.mark.parametrize("name", SHARED)
def test_drift_from_capture_to_capture_is_covered_where_they_are_in_turn(
    name: str, captures: int
) -> None:
    tally = simulate(SCENARIOS[name], runs=400, captures=captures)
    assert covers(name, tally), tally.coverage
    assert tally.call_rate <= 0.05


@pytest.mark.parametrize("captures", [5, 10])
@pytest.mark.parametrize("in_turn", [True, False])
@pytest.mark.parametrize("name", ["normal", "skewed, warming up", "clocks of a capture"])
def test_more_captures_cover_as_often(name: str, in_turn: bool, captures: int) -> None:
    tally = simulate(SCENARIOS[name], runs=400, captures=captures, in_turn=in_turn)
    assert 0.93 <= tally.coverage <= 0.97, tally.coverage


def test_one_side_after_the_other_hides_the_drift_between_them() -> None:
    """No statistics on such captures can see it, and docs/comparing.md says so."""
    for name in ("walking clocks", "steady drift"):
        assert simulate(SCENARIOS[name], runs=400, in_turn=False).coverage < 0.93


def test_steady_drift_costs_nothing_in_turn() -> None:
    """A drift of a tenth of the threshold a capture: as if there were none."""
    still = replace(SCENARIOS["steady drift"], drift=0.0)
    drifting, standing = (simulate(noise, runs=200) for noise in (SCENARIOS["steady drift"], still))
    assert sum(drifting.covered) == pytest.approx(sum(standing.covered), abs=2)  # rounding


def test_a_restless_range_keeps_its_own_variance() -> None:
    """Borrowing from quiet ranges must not make a loud one look certain."""
    tally = simulate(SCENARIOS["one restless range"], runs=400)
    assert tally.worst_coverage >= 0.88
    assert tally.call_rate <= 0.02


def test_bootstrap_of_instances_covers_when_the_run_does_not_drift() -> None:
    from ab_simulation import Noise

    skewed = Noise((0.02,) * 3, (0.0,) * 3, skew=0.8, instances=12)
    tally = simulate(skewed, runs=500, captures=1)
    assert 0.93 <= tally.coverage <= 0.985  # the bootstrap of a median is a little too careful


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_change_is_called_a_change_in_five_of_a_hundred_ranges(name: str) -> None:
    tally = simulate(SCENARIOS[name], runs=120)
    assert tally.call_rate <= 0.05


def test_one_per_cent_is_found_in_nine_of_ten_and_sits_on_the_right_range() -> None:
    tally = simulate(SCENARIOS["normal"], runs=300, planted=0.01)
    assert tally.find_rate >= 0.9
    assert tally.siblings_called == 0


def test_five_per_cent_is_always_found() -> None:
    for name in ("normal", "noise as in the H200 captures", "walking clocks"):
        assert simulate(SCENARIOS[name], runs=150, planted=0.05).find_rate == 1.0


@pytest.mark.parametrize("n", [8, 20, 50])
def test_rank_test_errs_at_its_nominal_rate(n: int) -> None:
    # 4000 tests: 0.05 +- 3 standard errors; discrete ranks may only make it smaller.
    assert 0.035 <= rank_test_rate(n, runs=4000) <= 0.061


def test_rank_test_of_few_values_never_exceeds_its_rate() -> None:
    assert rank_test_rate(3, runs=500) == 0.0
    assert rank_test_rate(5, runs=3000) <= 0.05


def test_same_input_same_interval() -> None:
    values = np.arange(1.0, 21.0)
    assert np.array_equal(resampled_medians(values, 0), resampled_medians(values, 0))
    assert not np.array_equal(resampled_medians(values, 0), resampled_medians(values, 1))


@pytest.mark.parametrize("n", [9, 10])
def test_resampled_medians_are_those_of_plain_resampling(n: int) -> None:
    """The shortcut by Beta draws against the definition, n draws with replacement."""
    random = np.random.default_rng(1)
    values = np.sort(random.standard_normal(n))
    plain = np.median(values[random.integers(0, n, (40_000, n))], axis=1)
    short = resampled_medians(values, 0)
    assert short.mean() == pytest.approx(plain.mean(), abs=0.03)
    assert short.std() == pytest.approx(plain.std(), rel=0.05)
    for q in (5, 50, 95):
        assert np.percentile(short, q) == pytest.approx(np.percentile(plain, q), abs=0.12)


def test_variance_of_a_median_follows_theory() -> None:
    """For n normal values it is close to pi/2 times that of the mean."""
    random = np.random.default_rng(2)
    found = [median_variance(1e6 * np.exp(0.01 * random.standard_normal(51))) for _ in range(200)]
    assert np.mean(found) == pytest.approx(np.pi / 2 * 0.01**2 / 51, rel=0.15)
    assert np.isnan(median_variance(np.array([1.0, 2.0, 3.0])))


def _capture_sample(values: list[float]) -> Sample:
    return Sample(np.array(values), "capture", len(values), 10 * len(values))


def test_interval_by_hand() -> None:
    """Logs of base -1 0 1, of new 1 2 3, in thousandths: shift 2, pooled variance 1, error
    sqrt(2/3), t of 4 df 2.776 (one range: nothing to borrow from)."""
    base = _capture_sample([1e6 * np.exp(x / 1000) for x in (-1, 0, 1)])
    new = _capture_sample([1e6 * np.exp(x / 1000) for x in (1, 2, 3)])
    (found,) = estimate([(base, new)])
    half = 2.7764 * np.sqrt(2 / 3)
    assert found.method == "t"
    assert found.ratio == pytest.approx(np.exp(0.002))
    assert np.log(found.low) * 1000 == pytest.approx(2 - half, abs=1e-3)
    assert np.log(found.high) * 1000 == pytest.approx(2 + half, abs=1e-3)
    assert found.p == pytest.approx(0.0705, abs=2e-4)  # t = 2.449 with 4 df
    assert found.p_rank == pytest.approx(0.2)  # 1 is on both sides: ranks 1 2 3.5 3.5 5 6


def test_one_value_a_side_has_no_interval() -> None:
    (found,) = estimate([(_capture_sample([1e6]), _capture_sample([2e6]))])
    assert found.method == "none"
    assert found.ratio == 2.0
    assert np.isnan(found.low)
    assert np.isnan(found.p)


def test_identical_captures_are_certain() -> None:
    (same,) = estimate([(_capture_sample([1e6] * 3), _capture_sample([1e6] * 3))])
    assert (same.low, same.high, same.p) == (1.0, 1.0, 1.0)
    (twice,) = estimate([(_capture_sample([1e6] * 3), _capture_sample([2e6] * 3))])
    assert (twice.low, twice.high) == (pytest.approx(2.0), pytest.approx(2.0))
    assert twice.p < 1e-6


def test_captures_needed_shrinks_the_interval() -> None:
    # t(0.95, 8) = 2.306: five captures reach 2.306 * sqrt(2/5) = 1.458 scatters, four 1.730.
    assert captures_needed(0.01, 0.0146, 40) == 5
    assert captures_needed(0.01, 0.0145, 40) == 6
    assert captures_needed(0.05, 0.001, 40) is None
