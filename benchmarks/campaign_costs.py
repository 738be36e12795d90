# SPDX-License-Identifier: MIT
"""The section of docs/h200.md on what recording costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

from campaign_evidence import paired, sample
from campaign_markdown import MISSING, TO, duration, table

from harness.comparison.distributions import t_quantile

if TYPE_CHECKING:
    from campaign_evidence import Evidence

WAYS = ("plain", "torch.profiler", "nsys", "harness")


def overhead(evidence: Evidence) -> str:
    """What recording costs, and what harness adds to nsys."""
    data = evidence.overhead
    if data is None:
        return ""
    first = next(
        one[way]["samples"]
        for one in data["rounds"]
        for way in WAYS
        if "samples" in one.get(way, {})
    )
    subjects = {
        "block": f"the eager block, {'x'.join(map(str, first['shape']))}",
        "block in ranges": "the same in its three ranges",
        "launch": f"a 64-element kernel, one of {first['launches']}",
    }
    clocks = {"events": "CUDA events", "host": "host, until done", "enqueue": "host, until queued"}
    rows, added = [], []
    for what, label in subjects.items():
        for clock, how in clocks.items():
            cells = [sample(data, way, what, clock) for way in WAYS]
            if all(cells):
                rows.append((label, how, *map(_spread, cells)))
                pairs = paired(data, ("nsys", "harness"), what, clock)
                added.append(Added(label, how, *map(list, zip(*pairs, strict=True))))
    return "\n\n".join([
        "## What recording costs",
        f"{_rounds(data)}: `python benchmarks/overhead.py docs/notes/data/overhead_h200.json`. The "
        "median of the rounds' medians, and the rounds' smallest and largest.",
        table(("", "clock", "plain", "torch.profiler", "nsys by hand", "harness run --nsys"),
              rows, 2),
        "What harness adds to nsys started by hand with the same options: harness less nsys of the "
        "same round, the mean over the rounds with its 95 % interval (Student's t), beside what "
        "nsys by hand differs from itself between rounds.",
        table(("", "clock", "added", "95 % interval", "in per cent", "nsys's own range"),
              [one.cells for one in added], 2),
        f"{_verdict(added)} {_order(data)}".strip(),
        *_whole(data),
    ])  # fmt: skip


def _rounds(data: dict[str, Any]) -> str:
    """How many rounds there were of which ways, and the options that add those of some."""
    partial = [measured for one in data["rounds"] if (measured := _measured(one)) != WAYS]
    whole = len(data["rounds"]) - len(partial)
    kinds = " or ".join(
        f"`--more {' '.join(f'--way {way}' for way in ways)}`" for ways in dict.fromkeys(partial)
    )
    more = f", and {len(partial)} more of some of them ({kinds})" if partial else ""
    return f"{whole} rounds of the four ways in turn{more}"


def _measured(one: dict[str, Any]) -> tuple[str, ...]:
    return tuple(way for way in WAYS if way in one)


def _order(data: dict[str, Any]) -> str:
    """What comes right after another may find the machine as that left it."""
    orders = [one["order"] for one in data["rounds"] if "order" in one]
    after = sum(("nsys", "harness") in pairwise(order) for order in orders)
    return f"harness came right after nsys by hand in {after} of {len(orders)} rounds." * bool(
        after
    )


def _spread(values: list[float]) -> str:
    return f"{duration(median(values))} ({duration(min(values))}{TO}{duration(max(values))})"


@dataclass(frozen=True)
class Added:
    """What harness adds to nsys, from one median a round of each, in ns."""

    label: str
    how: str
    nsys: list[float]
    harness: list[float]

    @property
    def differences(self) -> list[float]:
        return [ours - theirs for ours, theirs in zip(self.harness, self.nsys, strict=True)]

    @property
    def interval(self) -> tuple[float, float]:
        """Of the mean difference; infinite with one round."""
        number = len(self.differences)
        middle = mean(self.differences)
        if number < 2:
            return -math.inf, math.inf
        half = t_quantile(0.95, number - 1) * stdev(self.differences) / math.sqrt(number)
        return middle - half, middle + half

    @property
    def measurable(self) -> bool:
        low, high = self.interval
        return not low <= 0 <= high

    @property
    def cells(self) -> tuple[str, ...]:
        middle, (low, high) = mean(self.differences), self.interval
        known = math.isfinite(low)
        return (
            self.label,
            self.how,
            f"{middle:+.0f} ns",
            f"{low:+.0f} to {high:+.0f} ns" if known else MISSING,
            f"{100 * middle / mean(self.nsys):+.1f} %",
            f"{max(self.nsys) - min(self.nsys):.0f} ns",
        )


def _verdict(added: list[Added]) -> str:
    """What the intervals allow to say, and no more."""
    clear = [one for one in added if one.measurable]
    positive = sum(mean(one.differences) > 0 for one in added)
    said = f"In {len(added) - len(clear)} of {len(added)} rows the interval holds 0: there these "
    said += "rounds show nothing that harness adds. "
    if clear:
        named = "; ".join(f"{one.label}, {one.how}" for one in clear)
        own = sum(abs(mean(one.differences)) <= max(one.nsys) - min(one.nsys) for one in clear)
        said += f"In {len(clear)} it does not ({named}); of these, {own} are less than nsys's own "
        said += "range between rounds. "
    return said + (
        f"The mean is above 0 in {positive} of {len(added)}; rows of one kind of work are not "
        "independent of each other."
    )


def _whole(data: dict[str, Any]) -> list[str]:
    """Of whole processes: the pass that harness times is what nsys by hand takes."""
    hand, whole, passes = (
        [one[way][key] for one in data["rounds"] if key in one.get(way, {})]
        for way, key in (("nsys", "wall_s"), ("harness", "wall_s"), ("harness", "pass_s"))
    )
    if not (hand and passes):
        return []
    return [
        f"As whole processes: `nsys profile` by hand {median(hand):.1f} s, the same pass under "
        f"harness {median(passes):.1f} s, and `harness run` with its export, its facts and its "
        f"report {median(whole):.1f} s."
    ]
