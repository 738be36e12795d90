# SPDX-License-Identifier: MIT
"""Student's t for whole degrees of freedom, and what a rank sum can be by chance.

Only these two are needed, and both are finite sums: not worth a dependency of 100 MB.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Up to this many ways to split the values, the rank test looks at every one of them.
_EXACT_SPLITS = 20_000
#: Beyond this many degrees of freedom Student's t is normal to four digits.
_NEARLY_NORMAL = 2_000
#: Smallest p reported: below it the sums are rounding noise, and no model is that good.
SMALLEST_P = 1e-12


def t_two_sided(t: float, df: int) -> float:
    """Probability that |T| exceeds ``|t|`` for Student's T with ``df`` ≥ 1 degrees of freedom."""
    t = abs(t)
    if df > _NEARLY_NORMAL:
        return max(2.0 * NormalDist().cdf(-t), SMALLEST_P)
    # The finite series for whole df, in theta = atan(t / sqrt(df)).
    theta = math.atan2(t, math.sqrt(df))
    sine, cosine = math.sin(theta), math.cos(theta)
    odd = df % 2 == 1
    term, inside = (cosine, cosine) if odd else (1.0, 1.0)
    for k in range(3 if odd else 2, df - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        inside += term
    if odd:
        inside = (theta + sine * (inside if df > 1 else 0.0)) * 2.0 / math.pi
    else:
        inside *= sine
    return max(1.0 - inside, SMALLEST_P)


@lru_cache(maxsize=256)
def t_quantile(confidence: float, df: int) -> float:
    """The t that |T| stays below with probability ``confidence`` (0.95, 4 df: 2.776)."""
    low, high = 0.0, 1.0
    while 1.0 - t_two_sided(high, df) < confidence:
        high *= 2.0
    for _ in range(100):
        middle = (low + high) / 2.0
        if 1.0 - t_two_sided(middle, df) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


@lru_cache(maxsize=256)
def chi2_median_ratio(df: int) -> float:
    """Median of a variance estimate with ``df`` degrees of freedom over the true variance
    (Wilson and Hilferty; within 1 % from 2 df on)."""
    return (1.0 - 2.0 / (9.0 * df)) ** 3


@lru_cache(maxsize=64)
def _splits(small: int, total: int) -> npt.NDArray[np.intp]:
    """Every choice of ``small`` out of ``total`` positions, one a row."""
    return np.array(list(combinations(range(total), small)), dtype=np.intp)


def mid_ranks(values: Floats) -> Floats:
    """Ranks from 1; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    shared: Floats = (last - (counts - 1) / 2.0)[inverse]
    return shared


def rank_test(base: Floats, new: Floats) -> float:
    """Two-sided Mann-Whitney p: exact (ties included) for few values, else the normal
    approximation with corrections for ties and continuity. NaN when a side is empty."""
    n, m = len(base), len(new)
    if not n or not m:
        return math.nan
    ranks = mid_ranks(np.concatenate([base, new]))
    if math.comb(n + m, min(n, m)) <= _EXACT_SPLITS:
        side = ranks[:n] if n <= m else ranks[n:]
        sums = ranks[_splits(min(n, m), n + m)].sum(axis=1)
        middle = min(n, m) * (n + m + 1) / 2.0
        distance = abs(side.sum() - middle)
        return float(np.mean(np.abs(sums - middle) >= distance - 1e-9))
    return _rank_test_normal(ranks, n, m)


def _rank_test_normal(ranks: Floats, n: int, m: int) -> float:
    total = n + m
    counts = np.unique(ranks, return_counts=True)[1].astype(np.float64)
    ties = float((counts**3 - counts).sum()) / (total * (total - 1))
    variance = n * m / 12.0 * (total + 1 - ties)
    if variance <= 0:
        return 1.0
    distance = abs(float(ranks[:n].sum()) - n * (total + 1) / 2.0)
    z = max(distance - 0.5, 0.0) / math.sqrt(variance)
    return max(min(1.0, 2.0 * NormalDist().cdf(-z)), SMALLEST_P)


def benjamini_hochberg(p: Floats) -> Floats:
    """Adjusted p-values, in the order given; NaN stays NaN and does not count as a test."""
    adjusted = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    if not len(tested):
        return adjusted
    order = tested[np.argsort(p[tested], kind="stable")]
    scaled = p[order] * len(order) / np.arange(1, len(order) + 1)
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted
