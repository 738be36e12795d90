# SPDX-License-Identifier: MIT
"""Refuses recordings whose times no clock can show: sums of them would overflow unnoticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import UnreadableReport

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd

    from harness.trace import Trace

#: 73 years on either side, in ns: Unix time fits, the difference of any two fits int64 as well.
LIMIT = 1 << 61


def check_times(trace: Trace, path: Path) -> Trace:
    """``trace`` itself.

    Raises:
        UnreadableReport: a time is beyond LIMIT, or durations add up beyond ``check_lasted``.
    """
    frames = {"ranges": trace.ranges, "launches": trace.launches, "ops": trace.gpu_ops}
    extremes = {
        name: (int(frame["start"].min()), int(frame["end"].max()))
        for name, frame in frames.items()
        if len(frame)
    }
    check_extremes(extremes, path)
    check_lasted(path, lasted(trace.gpu_ops), lasted(trace.ranges))
    return trace


def check_extremes(extremes: Mapping[str, tuple[int, int]], path: Path) -> None:
    """Refuse times, ns, beyond LIMIT, from the first and the last of each frame.

    Raises:
        UnreadableReport: there is one.
    """
    for name, words in ("ranges", "ranges"), ("launches", "launches"), ("ops", "GPU ops"):
        low, high = extremes.get(name, (0, 0))
        if low < -LIMIT or high > LIMIT:
            raise _damaged(path, f"{words} at {low if -low > high else high} ns")


def lasted(frame: pd.DataFrame) -> float:
    """Durations of GPU ops or ranges together, ns; ranges that never closed left out. As a float:
    the sum is what may overflow."""
    closed = ~frame["open"].to_numpy() if "open" in frame else True
    return float((frame["end"] - frame["start"]).to_numpy().sum(dtype=float, where=closed))


def check_lasted(path: Path, ops: float, ranges: float = 0.0) -> None:
    """Refuse durations whose sums, ns, would overflow; those of closed ranges make ``cpu_ns``.

    Raises:
        UnreadableReport: GPU ops last longer than LIMIT together, or ranges than twice that.
    """
    for name, ns, most in ("GPU ops", ops, LIMIT), ("ranges", ranges, 2 * LIMIT):
        if ns > most:
            raise _damaged(path, f"{name} that last centuries together")


def _damaged(path: Path, what: str) -> UnreadableReport:
    return UnreadableReport(
        f"{path}: {what}: no clock shows such times, the file is damaged",
        hint="Export the report again, or record again.",
    )
