# SPDX-License-Identifier: MIT
"""The section of docs/h200.md on the training loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from campaign_markdown import (
    MISSING,
    duration,
    in_its_words,
    percent,
    recorded,
    rows_of,
    table,
)

from harness import summarise

if TYPE_CHECKING:
    from campaign_evidence import Evidence, Recorded, Timing


def trainings(evidence: Evidence) -> str:
    """The transformer's ranges, spelt plainly, compiled, and as a CUDA graph."""
    runs = [one for one in evidence.runs if _trains(one)]
    if not runs:
        return ""
    rows = []
    for one in runs:
        for row in rows_of(summarise.ranges(one.captures[0])):
            if len(row.path) <= 2:
                each = row.total_gpu_ns / row.instances
                rows.append((f"`{one.name}`", _indented(row.path), str(row.instances),
                             f"{row.kernels / row.instances:.1f}", duration(each)))  # fmt: skip
    return "\n\n".join([
        "## A training loop",
        "`examples/train_transformer.py`: per instance of a range, kernels launched and GPU time, "
        "nested ranges included. A captured step's ranges are passed once, while it is captured.",
        table(("run", "range", "instances", "kernels", "GPU time"), rows, 2),
        recorded(runs, "`harness report reports/NAME`"),
        *_trainings_compared([one for one in evidence.extracts if _trains(one)]),
    ])  # fmt: skip


def _trains(one: Recorded) -> bool:
    return one.program.startswith("train_")


def _indented(path: tuple[str, ...]) -> str:
    return "&emsp;" * (len(path) - 1) + f"`{path[-1]}`"


def _trainings_compared(runs: list[Recorded]) -> list[str]:
    """Recorded several times: each range's time, and compare's words on each against the plain."""
    if not runs:
        return []
    runs = sorted(runs, key=lambda one: (bool(one.stored), one.name))
    # What comes before the steps, such as a graph's capture, has no counterpart.
    paths = dict.fromkeys(
        path for one in runs for path in one.timings if len(path) <= 2 and path[0] == "step"
    )
    rows = [
        (_indented(path), *(cell for one in runs for cell in _timed(one.timings.get(path))))
        for path in paths
    ]
    headings = (text for one in runs for text in (f"`{one.name}`", "spread"))
    sentences = [
        in_its_words(base, one.name, found) for one in runs for base, found in one.stored.items()
    ]
    return [
        f"### {_counts(runs)} captures each",
        "GPU time of one instance: the median of the captures' medians, and the spread of these as "
        "a share of it.",
        table(("range", *headings), rows),
        *sentences,
        recorded(runs, "kept as extracts in `docs/notes/data/extracts/`"),
    ]


def _counts(runs: list[Recorded]) -> str:
    """How many captures they have: ``5``, or ``3 to 5``."""
    counts = [len(one.samples) for one in runs]
    return " to ".join(str(n) for n in sorted({min(counts), max(counts)}))


def _timed(timing: Timing | None) -> tuple[str, str]:
    if timing is None:
        return MISSING, MISSING
    return duration(timing.ns), percent(timing.spread, 2) if timing.ns else MISSING
