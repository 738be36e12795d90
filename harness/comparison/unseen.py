# SPDX-License-Identifier: MIT
"""What the rows do not show: GPU work outside all ranges, few slow instances, one slow process,
more executions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.comparison.kernel_names import short
from harness.comparison.result import (
    FEW_SLOW,
    MORE_EXECUTIONS,
    OUTSIDE_GREW,
    SLOW_PROCESS,
    Growth,
    Row,
)
from harness.comparison.sides import (
    CAPTURES_AS_UNIT,
    Capture,
    Floats,
    Key,
    Side,
    samples,
    slowest_samples,
)
from harness.comparison.statistics import Sample, estimate
from harness.comparison.verdict import decide, signed_percent
from harness.trace import Warning_

#: Executions a capture further apart than this are more work.
_MORE_OFTEN = 1.05
#: Without captures enough for a test: a mean that grew by this, in two instances or more.
_CLEARLY = 0.05


def more_executions(rows: Sequence[Row]) -> Iterator[Growth]:
    """Kernels are compared one execution at a time: twice as many of them cost twice the time."""
    more = [r for r in rows if r.kernel and 0 < r.base_instances * _MORE_OFTEN < r.new_instances]
    if not more:
        return
    first = more[0]
    rest = f" and {len(more) - 1} more" if len(more) > 1 else ""
    warning = Warning_(
        MORE_EXECUTIONS,
        f"{short(first.kernel)} in {first.name}{rest} ran more often: {first.new_instances:.4g}"
        f" executions instead of {first.base_instances:.4g}; times of one execution do not"
        " show that",
        "Without --by kernels, all that a range launched is compared.",
    )
    yield Growth(warning, max(map(_most_of_all_executions, more)))


def _most_of_all_executions(row: Row) -> float:
    """Of the time of all of a kernel's executions. Without an interval, nothing bounds it."""
    if row.ci_high is None:
        return math.inf
    return row.new_instances / row.base_instances * row.ci_high - 1.0


def outside_grew(base: Side, new: Side, threshold: float) -> Iterator[Growth]:
    """GPU work outside all ranges (or unlinked) that every capture of ``new`` has more of than any
    of ``base``, by more than ``threshold`` of all of a capture's GPU time."""
    before, after = (np.array([c.outside_ns for c in side.captures]) for side in (base, new))
    if not len(before) or not len(after):
        return
    whole = float(np.median([c.gpu_ns for c in base.captures]))
    least = (1.0 + threshold) * float(before.max()) + threshold * whole
    if float(after.min()) > least:
        old, now = (float(np.median(each)) / 1e6 for each in (before, after))
        warning = Warning_(
            OUTSIDE_GREW,
            f"GPU work outside all ranges grew from {old:.4g} to {now:.4g} ms a capture: no range"
            " shows that",
            "Put a range around it, or compare some ranges only: --range REGEX.",
        )
        least_before = float(before.min())
        yield Growth(warning, float(after.max()) / least_before - 1.0 if least_before else math.inf)


def few_slow(
    pairs: Mapping[Key, tuple[Sample, Sample]],
    base: Side,
    new: Side,
    rows: Sequence[Row],
    threshold: float,
) -> Iterator[Growth]:
    """Ranges whose mean grew though no verdict says so: a few instances are slower, which a median
    does not show. A capture's first instance, its warm-up, is left out. That fast instances are
    gone raises a mean too, and costs nothing."""
    quiet = _not_slower(rows)
    keys = [key for key in pairs if key in quiet and not _only_fewer(key, base, new, threshold)]
    means = {
        key: pair
        for key in keys
        if (pair := samples(base, new, key, _mean))
        and pair[0].unit == "capture"
        and all((sample.values > 0).all() for sample in pair)
    }
    grown: list[tuple[Key, float, float]] = []  # how much, and how much at most
    for key, found in zip(means, estimate(list(means.values())) if means else [], strict=True):
        medians = quiet[key].ratio or 1.0
        if decide(found, threshold, "capture").word == "slower" and (
            found.ratio > max(medians, 1.0) * (1.0 + threshold)
        ):
            grown.append((key, found.ratio, found.high))
    for key in keys:
        if pairs[key][0].unit == "instance" and (ratio := _clearly(key, base, new)):
            grown.append((key, ratio, ratio))
    for key, ratio, _ in grown[:1]:
        what = short(key.kernel) if key.kernel else key.path[-1]
        more = _and_more(grown)
        warning = Warning_(
            FEW_SLOW,
            f"{what}{more}: the mean of its instances changed by {signed_percent(ratio - 1.0)},"
            f" their median by {signed_percent((quiet[key].ratio or 1.0) - 1.0)}: some instances"
            " are slower, or the slow ones are a larger part",
            "harness report --view instances shows which.",
        )
        yield Growth(warning, max(most for _, _, most in grown) - 1.0)


def slow_process(base: Side, new: Side, rows: Sequence[Row], threshold: float) -> Iterator[Growth]:
    """Ranges whose slowest process got slower though no verdict says so: the others wait for it.
    Of eight processes, one does not move the median of all instances."""
    quiet = _not_slower(rows)
    pairs = {key: pair for key in quiet if (pair := slowest_samples(base, new, key))}
    enough = min(len(base.captures), len(new.captures)) >= CAPTURES_AS_UNIT
    grown: list[tuple[Key, float, float]] = []
    for key, found in zip(pairs, estimate(list(pairs.values())) if pairs else [], strict=True):
        if found.ratio <= max(quiet[key].ratio or 1.0, 1.0) * (1.0 + threshold):
            continue
        # Without captures enough for a test: as for few slow instances.
        if enough and decide(found, threshold, "capture").word == "slower":
            grown.append((key, found.ratio, found.high))
        elif not enough and found.ratio > 1.0 + _CLEARLY:
            grown.append((key, found.ratio, found.ratio))
    for key, ratio, _ in grown[:1]:
        more = _and_more(grown)
        warning = Warning_(
            SLOW_PROCESS,
            f"{key.path[-1]}{more}: the slowest process changed by {signed_percent(ratio - 1.0)},"
            f" the median of all by {signed_percent((quiet[key].ratio or 1.0) - 1.0)}",
            "harness report --spread shows which process.",
        )
        yield Growth(warning, max(most for _, _, most in grown) - 1.0)


def _not_slower(rows: Sequence[Row]) -> dict[Key, Row]:
    """The rows whose verdict does not say already that they are slower."""
    return {_key(row): row for row in rows if row.verdict in ("same", "unsure", "faster")}


def _and_more(found: Sequence[object]) -> str:
    return f" (and {len(found) - 1} more)" if len(found) > 1 else ""


def _key(row: Row) -> Key:
    return Key(row.path, row.domain, row.style, row.kernel)


def _only_fewer(key: Key, base: Side, new: Side, threshold: float) -> bool:
    """Instances are gone and none is slower: from the slowest on, each has one of ``base`` that
    took as long (the mean over captures of the slowest, of the next, ...)."""
    before, after = (
        [np.sort(_later(capture.values[key]))[::-1] for capture in side.having(key)]
        for side in (base, new)
    )
    most, least = max(map(len, after), default=0), min(map(len, before), default=0)
    if not 0 < most < least or min(map(len, after)) < most:
        return False
    old, now = (np.mean([values[:most] for values in each], axis=0) for each in (before, after))
    return bool((now <= (1.0 + threshold) * old).all())


def _later(values: Floats) -> Floats:
    return values[1:] if len(values) > 1 else values


def _mean(values: Floats) -> float:
    return float(_later(values).mean())


def _clearly(key: Key, base: Side, new: Side) -> float:
    """The ratio of the means if it is more than a scatter of instances; else 0."""
    before, after = (_together(key, side.having(key)) for side in (base, new))
    mean = float(before.mean())
    if mean <= 0:
        return 0.0
    ratio = float(after.mean()) / mean
    slow = int((after > (1.0 + _CLEARLY) * before.max()).sum())
    return ratio if ratio > 1.0 + _CLEARLY and slow > 1 else 0.0


def _together(key: Key, captures: Sequence[Capture]) -> Floats:
    return np.concatenate([_later(capture.values[key]) for capture in captures])
