# SPDX-License-Identifier: MIT
"""From an estimate to one word, and what would settle it when the word is ``unsure``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.comparison.statistics import Estimate, captures_needed

#: Multiplication sign, en dash.
TIMES, TO = "\u00d7", "\u2013"

VERDICTS = ("faster", "slower", "same", "unsure", "new", "gone")

#: An adjusted p-value above this leaves a change unproven.
ALPHA = 0.05
_MORE_CAPTURES = "3 or more captures a side would tell (--repeat 3)"
#: Nobody records more captures than this to settle one range.
_MOST_CAPTURES = 40


@dataclass(frozen=True)
class Verdict:
    word: str
    reason: str


def decide(found: Estimate, threshold: float, unit: str) -> Verdict:
    """``same``: the interval lies inside 1 ± threshold. ``faster``/``slower``: it does not, it
    excludes 1, and the change stays significant after correction. Else ``unsure``.

    ``unit`` is what one value of the sample is. Where it is the "instance", drift from run to run
    is in no interval, so a change must lie beyond the threshold with all of its interval.
    """
    if found.method == "none":
        return Verdict("unsure", f"one value a side; {_MORE_CAPTURES}")
    change = describe_change(found.ratio)
    margin = threshold if unit == "instance" else 0.0
    significant = found.p_adjusted <= ALPHA
    if found.low >= 1.0 - threshold and found.high <= 1.0 + threshold:
        certain = significant and unit == "capture" and not found.low <= 1.0 <= found.high
        detail = f"; {change} is certain, but within it" if certain else ""
        return Verdict("same", f"within ±{percent(threshold)}{detail}")
    if significant and (found.low > 1.0 + margin or found.high < 1.0 - margin):
        return Verdict("slower" if found.ratio > 1.0 else "faster", change)
    return Verdict("unsure", _unsettled(found, threshold, unit))


def _unsettled(found: Estimate, threshold: float, unit: str) -> str:
    low, high = found.low - 1.0, found.high - 1.0
    between = f"between {signed_percent(low)} and {signed_percent(high)}"
    excludes = low > 0 or high < 0
    if excludes and found.p_adjusted > ALPHA:
        between += ", not significant among so many ranges"
    elif excludes:
        between += ", which drift from run to run could be"
    if unit == "instance":
        return f"{between}; {_MORE_CAPTURES}"
    # Either the interval comes to exclude 1 or it comes to lie inside the threshold.
    shift = abs(math.log(found.ratio))
    reach = max(shift, math.log1p(threshold) - shift)
    needed = captures_needed(found.scatter, reach, _MOST_CAPTURES)
    if needed is None:
        return f"{between}; captures differ by {percent(found.scatter)}: too noisy to settle"
    return f"{between}; about {max(needed, 4)} captures a side would settle it"


def describe_change(ratio: float) -> str:
    """``1.42x faster``, or in per cent when it is less than a tenth: ``1.0% slower``."""
    word = "slower" if ratio > 1.0 else "faster"
    if not ratio:
        return "takes no time any more"
    if 1 / 1.1 < ratio < 1.1:
        return f"{percent(abs(ratio - 1.0))} {word}"
    return f"{factor(max(ratio, 1 / ratio))}{TIMES} {word}"


def describe_interval(ratio: float, low: float, high: float) -> str:
    """The interval in the terms of ``describe_change``: 1.40 to 1.44, or 0.8 to 1.2%."""
    if 1 / 1.1 < ratio < 1.1:
        ends = sorted((low - 1.0, high - 1.0) if ratio > 1.0 else (1.0 - high, 1.0 - low))
        return f"{100 * ends[0]:.1f}{TO}{100 * ends[1]:.1f}%"
    ends = sorted((low, high) if ratio > 1.0 else (1.0 / high, 1.0 / low))
    return f"{factor(ends[0])}{TO}{factor(ends[1])}"


def factor(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def percent(fraction: float) -> str:
    """``0.05%``, ``1%``, ``1.3%``, ``42%``: two digits are what such numbers are good for."""
    value = 100 * abs(fraction)
    if value >= 10:
        return f"{value:.0f}%"
    text = f"{value:.1f}" if value >= 0.1 or value == 0 else f"{value:.2g}"
    return f"{text.removesuffix('.0')}%"


def signed_percent(fraction: float) -> str:
    return ("-" if fraction < 0 else "+") + percent(fraction)
