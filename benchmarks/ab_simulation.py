# SPDX-License-Identifier: MIT
"""Simulated comparisons with a known answer: does the interval cover it, are the verdicts right?

    python benchmarks/ab_simulation.py --runs 2000

Prints, for each kind of noise, and for captures recorded in turn (base, new, base, new, …) and one
side after the other: how often the 95 % interval holds the true ratio (over all ranges,
and for the worst range), how often the rank test says p <= 0.05 without a change, how many ranges
of an A/A comparison are called faster or slower, and how often a change of 1 % and of 5 % in one
range is found. The tests run some of these for fewer runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.comparison.distributions import rank_test
from harness.comparison.statistics import Sample, estimate, median_variance
from harness.comparison.verdict import decide

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Noise:
    """Relative noise of times. ``within`` is an instance's (one entry a range), ``between`` a
    capture's, ``shared`` a capture's in all its ranges at once (clocks).

    ``skew`` > 0 makes instances lognormal with that shape; ``spikes`` adds rare slow ones.
    ``warm_up`` is a trend over the instances of a capture, of a different size in each;
    ``walk`` is the step of a random walk from capture to capture in order of time, and ``drift``
    what each capture is slower than the one before it.
    """

    within: Sequence[float] = (0.003,) * 6
    between: Sequence[float] = (0.0015,) * 6
    shared: float = 0.0
    skew: float = 0.0
    spikes: float = 0.0
    warm_up: float = 0.0
    walk: float = 0.0
    drift: float = 0.0
    instances: int = 10


@dataclass
class Tally:
    """Counts over simulated comparisons; the lists have an entry a range."""

    runs: int = 0
    covered: list[int] = field(default_factory=list)
    rank_positives: int = 0
    called: int = 0
    ranges: int = 0
    found: int = 0
    siblings_called: int = 0

    @property
    def coverage(self) -> float:
        return sum(self.covered) / self.ranges

    @property
    def worst_coverage(self) -> float:
        return min(self.covered) / self.runs

    @property
    def rank_rate(self) -> float:
        return self.rank_positives / self.ranges

    @property
    def call_rate(self) -> float:
        return self.called / self.ranges

    @property
    def find_rate(self) -> float:
        return self.found / self.runs


SCENARIOS = {
    "normal": Noise(),
    "noise as in the H200 captures": Noise((0.002, 0.002, 0.006), (0.0005,) * 3),
    "skewed": Noise((0.02,) * 6, (0.005,) * 6, skew=0.8),
    "skewed, spikes": Noise((0.02,) * 6, (0.005,) * 6, skew=0.8, spikes=0.1),
    "warming up": Noise((0.01,) * 6, (0.002,) * 6, warm_up=0.03),
    "skewed, warming up": Noise((0.02,) * 6, (0.005,) * 6, skew=0.8, warm_up=0.04),
    "walking clocks": Noise((0.003,) * 6, (0.001,) * 6, walk=0.001),
    "clocks that walk far": Noise((0.003,) * 6, (0.001,) * 6, walk=0.003),
    "steady drift": Noise((0.003,) * 6, (0.001,) * 6, drift=0.001),
    "skewed, walking and drifting": Noise(
        (0.02,) * 6, (0.005,) * 6, skew=0.8, walk=0.003, drift=0.003
    ),
    "clocks of a capture": Noise((0.003,) * 6, (0.001,) * 6, shared=0.003),
    "ranges of all sizes": Noise((0.001, 0.002, 0.004, 0.01, 0.05, 0.2), (0.0005,) * 6, skew=0.8),
    "one restless range": Noise((0.002,) * 6, (0, 0, 0, 0, 0, 0.03), skew=0.8),
    "loud": Noise((0.03,) * 6, (0.03,) * 6),
    "one range": Noise((0.003,), (0.0015,)),
}


def order(captures: int, in_turn: bool) -> npt.NDArray[np.int64]:
    """When each capture is made: a row a side. In turn: base, new, base, new, …"""
    places = np.arange(2 * captures)
    return places.reshape(captures, 2).T if in_turn else places.reshape(2, captures)


def draw(
    random: np.random.Generator,
    noise: Noise,
    when: npt.NDArray[np.int64],
    shifts: Sequence[float],
) -> tuple[list[Floats], list[Floats]]:
    """Instance times (ns) of base and new: an array (captures, instances) a range. ``shifts`` are
    the true logs of new over base."""
    captures = when.shape[1]
    ranges, n = len(noise.within), noise.instances
    common = noise.shared * random.standard_normal((2, captures))
    walk = np.cumsum(noise.walk * random.standard_normal(2 * captures))
    common += walk[when] + noise.drift * when
    slope = noise.warm_up * random.random((2, captures, 1)) * np.linspace(1, 0, n)
    sides: tuple[list[Floats], list[Floats]] = ([], [])
    for i in range(ranges):
        z = random.standard_normal((2, captures, n))
        e = np.exp(noise.skew * z) - 1 if noise.skew else z
        e = e + 5.0 * (random.random(e.shape) < noise.spikes)
        own = noise.between[i] * random.standard_normal((2, captures))
        logs = noise.within[i] * e + slope + (own + common)[..., None]
        logs[1] += shifts[i]
        times = 1e5 * (i + 1) * np.exp(logs)
        sides[0].append(times[0])
        sides[1].append(times[1])
    return sides


def sample(times: Floats, as_capture: bool, when: npt.NDArray[np.int64]) -> Sample:
    """What ``harness.comparison.sides`` makes of the same captures, made at ``when``."""
    if not as_capture:
        return Sample(times.ravel(), "instance", len(times), times.size)
    within = float(np.mean([median_variance(capture) for capture in times]))
    started = tuple(when.tolist())
    return Sample(np.median(times, axis=1), "capture", len(times), times.size, within, started)


def simulate(
    noise: Noise,
    *,
    runs: int,
    captures: int = 3,
    planted: float = 0.0,
    threshold: float = 0.01,
    in_turn: bool = True,
    seed: int = 88,
) -> Tally:
    """Compare ``runs`` times; ``planted`` is the true change of the first range (0.01: slower by
    1 %), all others do not change. One capture a side compares instances."""
    when = order(captures, in_turn)
    random = np.random.default_rng(seed)
    ranges = len(noise.within)
    shifts = [np.log1p(planted)] + [0.0] * (ranges - 1)
    tally = Tally(runs, [0] * ranges)
    for _ in range(runs):
        base, new = draw(random, noise, when, shifts)
        pairs = [
            (sample(a, captures >= 3, when[0]), sample(b, captures >= 3, when[1]))
            for a, b in zip(base, new, strict=True)
        ]
        for i, (found, (a, _)) in enumerate(zip(estimate(pairs), pairs, strict=True)):
            word = decide(found, threshold, a.unit).word
            tally.covered[i] += found.low <= np.exp(shifts[i]) <= found.high
            tally.rank_positives += found.p_rank <= 0.05
            called = word in ("faster", "slower")
            tally.called += called
            tally.found += i == 0 and word == "slower"
            tally.siblings_called += i > 0 and called
            tally.ranges += 1
    return tally


def rank_test_rate(n: int, *, runs: int, skew: float = 0.8, seed: int = 88) -> float:
    """How often the rank test of two samples of ``n`` from one distribution says p <= 0.05."""
    random = np.random.default_rng(seed)
    values = np.exp(skew * random.standard_normal((runs, 2, n)))
    return float(np.mean([rank_test(base, new) <= 0.05 for base, new in values]))


def show(captures: int, in_turn: bool, runs: int, seed: int) -> None:
    """Print a line a scenario."""
    unit = f"{captures} against {captures}, {'in turn' if in_turn else 'one after the other'}"
    title = unit if captures > 1 else "instances of one capture"
    print(f"{title:32} cover  worst   rank  wrong   1 %    5 %")
    for name, noise in SCENARIOS.items():
        same, one, five = (
            simulate(
                noise, runs=runs, captures=captures, planted=planted, in_turn=in_turn, seed=seed
            )
            for planted in (0.0, 0.01, 0.05)
        )
        print(
            f"  {name:30} {same.coverage:.3f}  {same.worst_coverage:.3f}  {same.rank_rate:.3f}"
            f"  {same.call_rate:.3f}  {one.find_rate:.3f}  {five.find_rate:.3f}"
        )
    print()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="comparisons a scenario")
    parser.add_argument("--seed", type=int, default=88)
    parser.add_argument("--captures", type=int, nargs="+", default=[3, 5, 10, 1], metavar="K")
    given = parser.parse_args()
    print(f"{given.runs} comparisons each, true changes in the first range only\n")
    for captures in given.captures:
        for in_turn in (True, False) if captures > 1 else (False,):
            show(captures, in_turn, given.runs, given.seed)
    for n in (3, 5, 8, 10, 20, 50):
        rate = rank_test_rate(n, runs=10 * given.runs)
        print(f"rank test, {n:2} against {n:2}: p <= 0.05 without a change in {rate:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
