# SPDX-License-Identifier: MIT
"""How much two samples of times differ, and how sure that is. docs/comparing.md has the reasons.

Everything is done on logarithms: a difference of logs is a ratio, and noise of GPU times is
relative. Fewer than ``ENOUGH`` values a side cannot carry a bootstrap or a rank test (three
against three never get below p = 0.1), so there a t interval takes over whose variance borrows
from the noise within captures and from the other ranges. So it does for captures recorded in turn,
however many: there the drift that neighbours share is taken out first (turns.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from harness.comparison.distributions import (
    benjamini_hochberg,
    chi2_median_ratio,
    rank_test,
    t_quantile,
    t_two_sided,
)
from harness.comparison.turns import InTurn, in_turn

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.95
#: From this many values a side on, the bootstrap of the medians and the rank test decide. Ten
#: captures would get an interval that holds the truth 97 to 98 times in 100.
ENOUGH = {"capture": 20, "instance": 8}
#: The pooled variance counts as this many degrees of freedom, where enough ranges feed it.
_PRIOR_DF = 4
_RESAMPLES = 4000
_SEED = 88


@dataclass(frozen=True)
class Sample:
    """One range on one side. ``values`` are GPU nanoseconds per instance: a median a capture
    (``unit`` "capture") or one an instance (``unit`` "instance").

    ``within`` is the variance of the log of a capture's median that the scatter of its own
    instances explains; NaN where there are too few. ``started`` is when the capture of each value
    began (ns); empty where that is not known of all.
    """

    values: Floats
    unit: str
    captures: int
    instances: int
    within: float = math.nan
    started: tuple[int, ...] = ()

    @property
    def median(self) -> float:
        return float(np.median(self.values))


@dataclass(frozen=True)
class Estimate:
    """``ratio`` is new over base, of the medians or (method "in turn") free of the drift that both
    share; ``low`` and ``high`` its 95 % interval (NaN: none possible).

    ``p`` tests "no change" with the test that decides, ``p_adjusted`` after correction for all
    ranges compared, ``p_rank`` is always the rank test's. ``scatter`` is the standard deviation
    of one value's log.
    """

    ratio: float
    low: float
    high: float
    p: float
    p_adjusted: float
    p_rank: float
    scatter: float
    method: str  # "bootstrap" | "t" | "in turn" | "none"


def estimate(pairs: Sequence[tuple[Sample, Sample]]) -> list[Estimate]:
    """One Estimate a pair (base, new), in order. The pairs are one family: their p-values are
    corrected together, and those with few values share what they show about the noise.

    Medians must be positive.
    """
    few = [i for i, (a, b) in enumerate(pairs) if _few(a, b) or _design(a, b)]
    variances = dict(zip(few, _moderated([pairs[i] for i in few]), strict=True))
    raw = [
        _by_t(a, b, *variances[i]) if i in variances else _by_bootstrap(a, b)
        for i, (a, b) in enumerate(pairs)
    ]
    adjusted = benjamini_hochberg(np.array([found.p for found in raw], dtype=np.float64))
    return [
        Estimate(**{**vars(found), "p_adjusted": float(p)})
        for found, p in zip(raw, adjusted, strict=True)
    ]


def _few(a: Sample, b: Sample) -> bool:
    return min(len(a.values), len(b.values)) < ENOUGH[a.unit]


def _design(a: Sample, b: Sample) -> InTurn | None:
    """For captures recorded in turn."""
    return in_turn(a.started, b.started) if a.unit == b.unit == "capture" else None


def logs(values: Floats) -> Floats:
    """Natural logs; an instance that launched nothing counts as one nanosecond."""
    out: Floats = np.log(np.maximum(values, 1.0))
    return out


def _moderated(pairs: Sequence[tuple[Sample, Sample]]) -> list[tuple[float, int]]:
    """Variance of one value's log, and its degrees of freedom, for each pair.

    A variance from four degrees of freedom is often far too small by luck. The pooled one says
    what to expect: the noise within the captures plus what captures of all ranges show on top.
    Blending may only raise a range's own variance, so that a range noisier than the rest keeps
    its own.
    """
    own = [_own_variance(a, b) for a, b in pairs]
    known = [i for i, (_, df) in enumerate(own) if df > 0]
    within = np.array([_mean_within(*pairs[i]) for i in known])
    seen = np.array([own[i][0] / chi2_median_ratio(own[i][1]) for i in known])
    usable = ~np.isnan(within) & (within > 0)
    # One range tells nothing about the others, and nested ranges say the same thing twice.
    prior_df = min(_PRIOR_DF, int(usable.sum()) - 1)
    if prior_df < 1:
        return own
    share = min(1.0, float(np.median(seen[usable] / within[usable])))
    between = max(0.0, float(np.median(seen[usable] - within[usable])))
    out = list(own)
    for place, i in enumerate(known):
        if usable[place]:
            variance, df = own[i]
            prior = share * within[place] + between
            blend = (prior_df * prior + df * variance) / (prior_df + df)
            out[i] = (max(variance, blend), df + prior_df)
    return out


def _own_variance(a: Sample, b: Sample) -> tuple[float, int]:
    design = _design(a, b)
    return (design.variance(_both(a, b)), design.df) if design else _pooled_variance(a, b)


def _both(a: Sample, b: Sample) -> Floats:
    return logs(np.concatenate([a.values, b.values]))


def _pooled_variance(a: Sample, b: Sample) -> tuple[float, int]:
    df = len(a.values) + len(b.values) - 2
    if df < 1:
        return math.nan, 0
    spread = sum(float(((x - x.mean()) ** 2).sum()) for x in (logs(a.values), logs(b.values)))
    return spread / df, df


def _mean_within(a: Sample, b: Sample) -> float:
    if a.unit != "capture" or b.unit != "capture":
        return math.nan
    return (a.within * a.captures + b.within * b.captures) / (a.captures + b.captures)


def _by_t(a: Sample, b: Sample, variance: float, df: int) -> Estimate:
    ratio = b.median / a.median
    p_rank = rank_test(a.values, b.values)
    if df < 1:
        nan = math.nan
        return Estimate(ratio, nan, nan, nan, nan, p_rank, nan, "none")
    design = _design(a, b)
    if design:
        shift, factor, method = design.shift(_both(a, b)), design.factor, "in turn"
        ratio = math.exp(shift)  # that of the medians has the drift in it
    else:
        # The mean of the logs: a median of three throws away a third of what the three know.
        shift, method = float(logs(b.values).mean() - logs(a.values).mean()), "t"
        factor = 1.0 / len(a.values) + 1.0 / len(b.values)
    error = math.sqrt(variance * factor)
    p = t_two_sided(shift / error, df) if error > 0 else (1.0 if shift == 0 else 0.0)
    half = t_quantile(CONFIDENCE, df) * error
    low, high = _holding(ratio, math.exp(shift - half), math.exp(shift + half))
    return Estimate(ratio, low, high, p, math.nan, p_rank, math.sqrt(variance), method)


def _by_bootstrap(a: Sample, b: Sample) -> Estimate:
    ratio = b.median / a.median
    old, now = logs(a.values), logs(b.values)
    # Half of the resamples with the streams crossed: swapping the sides turns the interval over
    # exactly, so no verdict hangs on which side is called base.
    half = _RESAMPLES // 2
    shifts = np.concatenate(
        [
            resampled_medians(now, 1)[:half] - resampled_medians(old, 0)[:half],
            resampled_medians(now, 0)[:half] - resampled_medians(old, 1)[:half],
        ]
    )
    tail = 50.0 * (1.0 - CONFIDENCE)
    ends = np.exp(np.percentile(shifts, [tail, 100.0 - tail]))
    low, high = _holding(ratio, float(ends[0]), float(ends[1]))
    p = rank_test(a.values, b.values)
    scatter = math.sqrt(_pooled_variance(a, b)[0])
    return Estimate(ratio, low, high, p, math.nan, p, scatter, "bootstrap")


def _holding(ratio: float, low: float, high: float) -> tuple[float, float]:
    """The interval, stretched to hold the ratio of the medians that is printed beside it."""
    return min(low, ratio), max(high, ratio)


def resampled_medians(values: Floats, stream: int) -> Floats:
    """Medians of ``_RESAMPLES`` resamples of ``values``; the same for the same input.

    Resamples of a sorted sample are uniform places in it, and the middle one of n uniform places
    has a Beta distribution: drawing that gives the same medians without drawing n values each.
    """
    lower, upper = _middle_places(len(values), stream)
    ordered = np.sort(values)
    medians: Floats = (ordered[lower] + ordered[upper]) / 2.0
    return medians


@lru_cache(maxsize=512)
def _middle_places(n: int, stream: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Places in the sorted sample of the two middle values (one, for odd n) of each resample."""
    random = np.random.default_rng((_SEED, stream, n))
    if n % 2:
        at = random.beta((n + 1) / 2, (n + 1) / 2, _RESAMPLES)
        upper = at
    else:
        at = random.beta(n / 2, n / 2 + 1, _RESAMPLES)
        # Given the lower one, the n/2 above it are uniform up to 1: the least of those.
        upper = at + (1.0 - at) * random.beta(1.0, n / 2, _RESAMPLES)
    places = (np.minimum((x * n).astype(np.intp), n - 1) for x in (at, upper))
    return next(places), next(places)


def median_variance(values: Floats) -> float:
    """Variance of the log of the median, from the values' own scatter; NaN below four values."""
    if len(values) < 4:
        return math.nan
    return float(np.var(resampled_medians(logs(values), 0)))


def captures_needed(scatter: float, half_width: float, at_most: int) -> int | None:
    """Captures a side until the 95 % interval of log ratio is no wider than ±``half_width``;
    None when even ``at_most`` would not do."""
    for captures in range(3, at_most + 1):
        reach = t_quantile(CONFIDENCE, 2 * (captures - 1)) * scatter * math.sqrt(2.0 / captures)
        if reach <= half_width:
            return captures
    return None
