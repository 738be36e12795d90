# SPDX-License-Identifier: MIT
"""Student's t and the rank test against printed tables and cases counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.comparison.distributions import (
    benjamini_hochberg,
    chi2_median_ratio,
    mid_ranks,
    rank_test,
    t_quantile,
    t_two_sided,
)


# Any printed table of Student's t, two-sided.
@pytest.mark.parametrize(
    ("df", "confidence", "t"),
    [
        (1, 0.95, 12.706),
        (2, 0.95, 4.303),
        (3, 0.99, 5.841),
        (4, 0.95, 2.776),
        (4, 0.90, 2.132),
        (5, 0.99, 4.032),
        (8, 0.95, 2.306),
        (10, 0.999, 4.587),
        (30, 0.95, 2.042),
        (120, 0.95, 1.980),
        (5000, 0.95, 1.960),
    ],
)
def test_t_quantiles_are_those_of_the_tables(df: int, confidence: float, t: float) -> None:
    assert t_quantile(confidence, df) == pytest.approx(t, abs=6e-4)


def test_t_of_one_and_two_degrees_has_a_closed_form() -> None:
    for t in (0.0, 0.3, 1.0, 5.0, 200.0):
        assert t_two_sided(t, 1) == pytest.approx(1 - 2 * math.atan(t) / math.pi, abs=1e-12)
        assert t_two_sided(t, 2) == pytest.approx(1 - t / math.sqrt(2 + t * t), abs=1e-12)
        assert t_two_sided(-t, 2) == t_two_sided(t, 2)


def test_t_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for df in range(1, 60):
        for t in (0.1, 1.0, 2.5, 9.0):
            assert t_two_sided(t, df) == pytest.approx(2 * stats.t.sf(t, df), abs=1e-12)


def test_chi2_median() -> None:
    # Tables: the median of chi-squared with 4 df is 3.357, with 10 df 9.342.
    assert chi2_median_ratio(4) == pytest.approx(3.357 / 4, rel=0.01)
    assert chi2_median_ratio(10) == pytest.approx(9.342 / 10, rel=0.01)


def test_three_against_three_never_gets_below_a_tenth() -> None:
    # 20 ways to choose three of six; the two extreme ones separate the sides completely.
    apart = rank_test(np.array([1.0, 2.0, 3.0]), np.array([7.0, 8.0, 9.0]))
    assert apart == pytest.approx(2 / 20)


def test_rank_test_counts_splits_by_hand() -> None:
    # 1 2 4 against 3 5: rank sum of the smaller side 3 + 5 = 8, the mean is 6. Of the ten pairs
    # of ranks, sums at least 2 from 6 are 1+2, 1+3, 3+5, 4+5.
    assert rank_test(np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0])) == pytest.approx(4 / 10)


def test_rank_test_with_ties() -> None:
    assert mid_ranks(np.array([5.0, 5.0, 1.0, 9.0])).tolist() == [2.5, 2.5, 1.0, 4.0]
    assert rank_test(np.array([4.0, 4.0, 4.0]), np.array([4.0, 4.0, 4.0])) == 1.0
    many = np.full(200, 4.0)
    assert rank_test(many, many) == 1.0


@pytest.mark.parametrize(("n", "m"), [(3, 3), (4, 9), (8, 8), (12, 15), (60, 40)])
def test_rank_test_agrees_with_scipy(n: int, m: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(n * m)
    base, new = random.random(n), random.random(m) + 0.2
    exact = math.comb(n + m, n) <= 20_000
    method = "exact" if exact else "asymptotic"
    wanted = stats.mannwhitneyu(base, new, method=method).pvalue
    assert rank_test(base, new) == pytest.approx(wanted, abs=1e-9)
    assert rank_test(new, base) == pytest.approx(wanted, abs=1e-9)


def test_rank_test_of_nothing_is_no_number() -> None:
    assert math.isnan(rank_test(np.array([]), np.array([1.0])))


def test_benjamini_hochberg_by_hand() -> None:
    # Sorted 0.01 0.02 0.03 0.5 times 4/1 4/2 4/3 4/4 = 0.04 0.04 0.04 0.5; NaN is no test.
    adjusted = benjamini_hochberg(np.array([0.03, math.nan, 0.5, 0.01, 0.02]))
    assert adjusted[[0, 2, 3, 4]].tolist() == pytest.approx([0.04, 0.5, 0.04, 0.04])
    assert math.isnan(adjusted[1])
