# SPDX-License-Identifier: MIT
"""Refuses recordings whose times no clock can show: sums of them would overflow unnoticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import UnreadableReport

if TYPE_CHECKING:
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
    for name in ("ranges", "launches", "gpu_ops"):
        frame = getattr(trace, name)
        if len(frame) and (frame["start"].min() < -LIMIT or frame["end"].max() > LIMIT):
            raise _damaged(path, f"{name.replace('_', ' ')} at {_worst(frame)} ns")
    check_lasted(path, lasted(trace.gpu_ops), lasted(trace.ranges))
    return trace


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


def _worst(frame: object) -> int:
    low, high = int(frame["start"].min()), int(frame["end"].max())  # type: ignore[index]
    return low if -low > high else high


def _damaged(path: Path, what: str) -> UnreadableReport:
    return UnreadableReport(
        f"{path}: {what}: no clock shows such times, the file is damaged",
        hint="Export the report again, or record again.",
    )
