# SPDX-License-Identifier: MIT
"""The section of docs/h200.md on what recording costs."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from campaign_evidence import sample
from campaign_markdown import TO, duration, table

if TYPE_CHECKING:
    from campaign_evidence import Evidence

WAYS = ("plain", "torch.profiler", "nsys", "harness")


def overhead(evidence: Evidence) -> str:
    """What recording costs, and what harness adds to nsys."""
    data = evidence.overhead
    if data is None:
        return ""
    first = next(one["plain"]["samples"] for one in data["rounds"] if "samples" in one["plain"])
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
                added.append((label, how, *_added(cells[2], cells[3])))
    return "\n\n".join([
        "## What recording costs",
        f"{len(data['rounds'])} rounds of the four ways in turn: `python benchmarks/overhead.py "
        "docs/notes/data/overhead_h200.json`. The median of the rounds' medians, and the rounds' "
        "smallest and largest.",
        table(("", "clock", "plain", "torch.profiler", "nsys by hand", "harness run --nsys"),
              rows, 2),
        "What harness adds to nsys started by hand with the same options: the difference of the "
        "medians, beside what nsys by hand differs from itself between rounds.",
        table(("", "clock", "added", "in per cent", "nsys's own range"), added, 2),
        *_whole(data),
    ])  # fmt: skip


def _spread(values: list[float]) -> str:
    return f"{duration(median(values))} ({duration(min(values))}{TO}{duration(max(values))})"


def _added(nsys: list[float], ours: list[float]) -> tuple[str, str, str]:
    difference = median(ours) - median(nsys)
    return (
        f"{difference:+.0f} ns",
        f"{100 * difference / median(nsys):+.1f} %",
        f"{max(nsys) - min(nsys):.0f} ns",
    )


def _whole(data: dict[str, Any]) -> list[str]:
    """Of whole processes: the pass that harness times is what nsys by hand takes."""
    hand = [one["nsys"]["wall_s"] for one in data["rounds"]]
    passes = [one["harness"]["pass_s"] for one in data["rounds"] if "pass_s" in one["harness"]]
    whole = [one["harness"]["wall_s"] for one in data["rounds"]]
    if not passes:
        return []
    return [
        f"As whole processes: `nsys profile` by hand {median(hand):.1f} s, the same pass under "
        f"harness {median(passes):.1f} s, and `harness run` with its export, its facts and its "
        f"report {median(whole):.1f} s."
    ]
