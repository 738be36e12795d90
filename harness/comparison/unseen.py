# SPDX-License-Identifier: MIT
"""What the medians of ranges do not show: GPU work outside all ranges, and few slow instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.comparison.kernel_names import short
from harness.comparison.result import FEW_SLOW, OUTSIDE_GREW, Row
from harness.comparison.sides import Capture, Floats, Key, Side, samples
from harness.comparison.statistics import Sample, estimate
from harness.comparison.verdict import decide, signed_percent
from harness.trace import Warning_

#: Without captures enough for a test: a mean that grew by this, in two instances or more.
_CLEARLY = 0.05


def outside_grew(base: Side, new: Side, threshold: float) -> Iterator[Warning_]:
    """GPU work outside all ranges (or unlinked) that every capture of ``new`` has more of than any
    of ``base``, by more than ``threshold`` of all of a capture's GPU time."""
    before, after = (np.array([c.outside_ns for c in side.captures]) for side in (base, new))
    if not len(before) or not len(after):
        return
    whole = float(np.median([c.gpu_ns for c in base.captures]))
    least = (1.0 + threshold) * float(before.max()) + threshold * whole
    if float(after.min()) > least:
        old, now = (float(np.median(each)) / 1e6 for each in (before, after))
        yield Warning_(
            OUTSIDE_GREW,
            f"GPU work outside all ranges grew from {old:.4g} to {now:.4g} ms a capture: no range"
            " shows that",
            "Put a range around it, or compare some ranges only: --range REGEX.",
        )


def few_slow(
    pairs: Mapping[Key, tuple[Sample, Sample]],
    base: Side,
    new: Side,
    rows: Sequence[Row],
    threshold: float,
) -> Iterator[Warning_]:
    """Ranges whose mean grew though no verdict says so: a few instances are slower, which a median
    does not show. A capture's first instance, its warm-up, is left out."""
    quiet = {_key(row): row for row in rows if row.verdict in ("same", "unsure", "faster")}
    keys = [key for key in pairs if key in quiet]
    means = {
        key: pair
        for key in keys
        if (pair := samples(base, new, key, _mean))
        and pair[0].unit == "capture"
        and all((sample.values > 0).all() for sample in pair)
    }
    grown: list[tuple[Key, float]] = []
    for key, found in zip(means, estimate(list(means.values())) if means else [], strict=True):
        medians = quiet[key].ratio or 1.0
        if decide(found, threshold, "capture").word == "slower" and (
            found.ratio > max(medians, 1.0) * (1.0 + threshold)
        ):
            grown.append((key, found.ratio))
    for key in keys:
        if pairs[key][0].unit == "instance" and (ratio := _clearly(key, base, new)):
            grown.append((key, ratio))
    for key, ratio in grown[:1]:
        what = short(key.kernel) if key.kernel else key.path[-1]
        more = f" (and {len(grown) - 1} more)" if len(grown) > 1 else ""
        yield Warning_(
            FEW_SLOW,
            f"{what}{more}: the mean of its instances changed by {signed_percent(ratio - 1.0)},"
            f" their median by {signed_percent((quiet[key].ratio or 1.0) - 1.0)}: some instances"
            " are slower",
            "harness report --view instances shows which.",
        )


def _key(row: Row) -> Key:
    return Key(row.path, row.domain, row.style, row.kernel)


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
