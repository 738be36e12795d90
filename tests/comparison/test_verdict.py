# SPDX-License-Identifier: MIT
"""The decision rule, case by case. docs/comparing.md states it."""

from __future__ import annotations

import math

import pytest

from harness.comparison.statistics import Estimate
from harness.comparison.verdict import (
    decide,
    describe_change,
    describe_interval,
    percent,
)


def found(low: float, high: float, p: float = 0.001, scatter: float = 0.002) -> Estimate:
    ratio = math.sqrt(low * high)
    return Estimate(ratio, low, high, p, p, p, scatter, "t")


@pytest.mark.parametrize(
    ("low", "high", "p", "word"),
    [
        (0.995, 1.005, 0.9, "same"),
        (1.002, 1.008, 0.001, "same"),  # certain, but smaller than what matters
        (0.990, 1.010, 0.9, "same"),  # the ends belong to it
        (1.006, 1.014, 0.001, "slower"),  # could be as large as the threshold, and is not 0
        (1.2, 1.3, 0.001, "slower"),
        (0.7, 0.8, 0.001, "faster"),
        (0.986, 0.994, 0.001, "faster"),
        (0.98, 1.001, 0.1, "unsure"),
        (0.9, 1.1, 0.9, "unsure"),
        (1.006, 1.014, 0.08, "unsure"),  # not after correction for the other ranges
    ],
)
def test_rule_for_captures(low: float, high: float, p: float, word: str) -> None:
    assert decide(found(low, high, p), 0.01, "capture").word == word


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(1.006, 1.014, "unsure"), (1.011, 1.014, "slower"), (0.97, 0.985, "faster")],
)
def test_instances_must_clear_the_threshold(low: float, high: float, word: str) -> None:
    """Without captures nothing says how far runs drift apart."""
    assert decide(found(low, high), 0.01, "instance").word == word


def test_threshold_is_the_callers() -> None:
    assert decide(found(1.02, 1.04), 0.01, "capture").word == "slower"
    assert decide(found(1.02, 1.04), 0.05, "capture").word == "same"


def test_unsure_says_what_would_settle_it() -> None:
    # Estimate 0, scatter 0.6 %: to lie within 1 %, t * 0.6 % * sqrt(2/K) must be below 0.995 %;
    # K = 4 gives 2.447 * 0.6 * 0.707 = 1.04, K = 5 gives 2.306 * 0.6 * 0.632 = 0.87.
    verdict = decide(found(0.985, 1 / 0.985, 0.9, scatter=0.006), 0.01, "capture")
    assert "about 5 captures a side would settle it" in verdict.reason
    hopeless = decide(found(0.7, 1 / 0.7, 0.9, scatter=0.2), 0.01, "capture")
    assert "captures differ by 20%: too noisy to settle" in hopeless.reason
    single = decide(found(0.98, 1.02, 0.5), 0.01, "instance")
    assert "--repeat 3" in single.reason


def test_no_interval_is_unsure() -> None:
    nan = math.nan
    verdict = decide(Estimate(1.4, nan, nan, nan, nan, nan, nan, "none"), 0.01, "instance")
    assert verdict.word == "unsure"
    assert "one value a side" in verdict.reason


def test_a_certain_small_change_is_told() -> None:
    assert decide(found(1.004, 1.006), 0.01, "capture").reason == (
        "within ±1%; 0.5% slower is certain, but within it"
    )


def test_changes_in_words() -> None:
    assert describe_change(0.704) == "1.42\u00d7 faster"
    assert describe_change(0.0) == "takes no time any more"
    assert describe_change(2.0) == "2.00\u00d7 slower"
    assert describe_change(1.0101) == "1% slower"
    assert describe_change(0.95) == "5% faster"
    assert describe_interval(0.704, 1 / 1.44, 1 / 1.40) == "1.40\u20131.44"
    assert describe_interval(1.01, 1.007, 1.013) == "0.7\u20131.3%"
    assert describe_interval(0.95, 0.94, 0.96) == "4.0\u20136.0%"
    assert percent(0.0004) == "0.04%"
    assert percent(0.42) == "42%"
