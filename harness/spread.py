# SPDX-License-Identifier: MIT
"""Many reports in one frame, and how far they are apart: one report a rank, say. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from harness.report import Report

#: A straggler takes at least this much longer than the median report …
EXCESS = 0.05
#: … and lies this many median distances above it (asked from FEW reports on).
DISTANCES = 5.0
FEW = 4

KEY = ["path", "domain", "name", "style"]
COLUMNS = (
    *KEY,
    "measure",
    "sources",
    "missing",
    "kernels_min",
    "kernels_max",
    "min_ns",
    "median_ns",
    "max_ns",
    "slowest",
    "excess",
    "straggler",
)


def combine(reports: Iterable[Report]) -> pd.DataFrame:
    """All rows, each report's in its own order, under a first column ``source``."""
    frames = []
    for report in reports:
        rows = report.rows.copy(deep=False)
        rows.insert(0, "source", report.name)
        # Concatenating differing categories would fall back to objects row by row.
        frames.append(rows.astype({c: object for c in rows if rows[c].dtype == "category"}))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame({"source": []})


def by_process(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of one report as if each of its processes had a report of its own."""
    if rows["pid"].nunique() < 2:
        return rows
    return rows.assign(source="pid " + rows["pid"].astype(str))


def spread(rows: pd.DataFrame, sources: list[str]) -> pd.DataFrame:
    """One row a path: smallest, median and largest total time over the reports that have it.

    ``rows`` is the combined frame of view ``communication`` (or ``ranges``); processes of one
    report are summed. Communication is left out where there is any: the ranks that wait for a
    straggler wait in it, so that theirs is the longest. Where no report has GPU time, CPU time is
    compared (``measure`` says which). Order: first seen.
    """
    measure = "cpu_ns"
    if len(rows) and rows["total_gpu_ns"].any():
        moves = "comm_ns" in rows and rows["comm_ns"].any()
        measure = "compute_ns" if moves else "total_gpu_ns"
    summed = (
        rows.groupby(["source", *KEY], sort=False, observed=True)[[measure, "kernels"]]
        .sum()
        .reset_index()
    )
    title = {"total_gpu_ns": "GPU", "compute_ns": "compute", "cpu_ns": "CPU"}[measure]
    out = [
        _row(key, group, measure, title, len(sources))
        for key, group in summed.groupby(KEY, sort=False, observed=True)
    ]
    return pd.DataFrame(out, columns=list(COLUMNS))


def _row(key: Any, group: pd.DataFrame, measure: str, title: str, sources: int) -> tuple[Any, ...]:
    times = group[measure].to_numpy()
    middle = float(np.median(times))
    slowest = int(times.argmax())
    most = int(times[slowest])
    excess = most / middle - 1 if middle else 0.0
    return (
        *key,
        title,
        len(times),
        sources - len(times),
        int(group["kernels"].min()),
        int(group["kernels"].max()),
        int(times.min()),
        int(middle),
        most,
        str(group["source"].iloc[slowest]),
        excess,
        _stands_out(times, middle, excess),
    )


def _stands_out(times: np.ndarray[Any, Any], middle: float, excess: float) -> bool:
    if len(times) < 2 or excess <= EXCESS:
        return False
    distance = float(np.median(np.abs(times - middle)))
    return len(times) < FEW or float(times.max()) - middle > DISTANCES * distance


def stragglers(table: pd.DataFrame) -> list[tuple[str, int, float]]:
    """(report, in how many paths it stands out, its largest excess), most often first."""
    marked = table[table["straggler"].astype(bool)]
    often = Counter(marked["slowest"])
    worst = marked.groupby("slowest")["excess"].max()
    return [(name, number, float(worst[name])) for name, number in often.most_common()]
