# SPDX-License-Identifier: MIT
"""What passes, what fails, and what nobody can tell."""

from __future__ import annotations

from typing import Any

import pytest

from harness.comparison.gate import judge, parse
from harness.comparison.result import Comparison, Row
from harness.errors import ExitCode, UsageProblem


def row(
    verdict: str,
    ratio: float | None,
    high: float | None,
    path: tuple[str, ...] = ("a",),
    reason: str = "",
    kernel: str = "",
) -> Row:
    low = None if high is None or ratio is None else 2 * ratio - high
    return Row(
        path, "", path[-1], 1, 1, ratio, low, high, 0.1, 3, 3, verdict, reason, "push_pop", kernel,
        "capture", 0.1, 0.1, 1, 1, 0,
    )  # fmt: skip


def code(limit: float, *rows: Row) -> ExitCode:
    side: dict[str, Any] = {"name": "x", "captures": 3}
    return judge(Comparison(side, side, 0.01, "", rows), limit).code


def test_spellings() -> None:
    assert parse("slower", 0.02) == 0.02
    assert parse("slower:5", 0.01) == 0.05
    assert parse("slower:2.5%", 0.01) == 0.025
    for wrong in ("faster", "slower:", "slower:x", "slower:-1", ""):
        with pytest.raises(UsageProblem):
            parse(wrong, 0.01)


def test_slower_fails_and_the_rest_passes() -> None:
    assert code(0.01, row("slower", 1.008, 1.012)) == ExitCode.FAILED
    assert code(0.01, row("same", 1.0, 1.005), row("faster", 0.9, 0.91)) == ExitCode.OK


def test_limit_above_the_threshold() -> None:
    assert code(0.05, row("slower", 1.03, 1.04)) == ExitCode.OK
    assert code(0.05, row("slower", 1.06, 1.07)) == ExitCode.FAILED
    assert code(0.05, row("slower", 1.04, 1.06)) == ExitCode.NO_ANSWER  # may be above the limit


def test_unsure_does_not_pass_unless_it_stays_below_the_limit() -> None:
    assert code(0.01, row("unsure", 1.0, 1.03)) == ExitCode.NO_ANSWER
    assert code(0.05, row("unsure", 1.0, 1.03)) == ExitCode.OK
    assert code(0.01, row("unsure", 0.97, 1.005)) == ExitCode.OK  # may be faster; is not slower
    assert code(0.05, row("unsure", 1.2, None)) == ExitCode.NO_ANSWER


def test_incomparable_does_not_pass() -> None:
    assert code(0.01, row("unsure", 0.5, 0.51, reason="not comparable: GPU")) == ExitCode.NO_ANSWER


def test_a_regression_outweighs_doubt() -> None:
    assert code(0.01, row("unsure", 1.0, 1.5), row("slower", 1.2, 1.3, ("b",))) == ExitCode.FAILED


def test_new_and_gone_count_where_nothing_around_them_was_compared() -> None:
    parent, inside = row("same", 1.0, 1.001), row("new", None, None, ("a", "b"))
    assert code(0.01, parent, inside) == ExitCode.OK
    assert code(0.01, parent, row("gone", None, None, ("c",))) == ExitCode.NO_ANSWER
    assert code(0.01, inside) == ExitCode.NO_ANSWER
