# SPDX-License-Identifier: MIT
"""Refuses recordings whose times no clock can show: sums of them would overflow unnoticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import UnreadableReport

if TYPE_CHECKING:
    from pathlib import Path

    from harness.trace import Trace

#: 73 years on either side, in ns: Unix time fits, the difference of any two fits int64 as well.
LIMIT = 1 << 61


def check_times(trace: Trace, path: Path) -> Trace:
    """``trace`` itself.

    Raises:
        UnreadableReport: a time is beyond LIMIT, or the GPU ops' durations add up beyond it.
    """
    for name in ("ranges", "launches", "gpu_ops"):
        frame = getattr(trace, name)
        if len(frame) and (frame["start"].min() < -LIMIT or frame["end"].max() > LIMIT):
            raise _damaged(path, f"{name.replace('_', ' ')} at {_worst(frame)} ns")
    ops = trace.gpu_ops
    # As floats: the sum is what may overflow.
    if len(ops) and float((ops["end"] - ops["start"]).to_numpy().sum(dtype=float)) > LIMIT:
        raise _damaged(path, "GPU ops that last centuries together")
    return trace


def _worst(frame: object) -> int:
    low, high = int(frame["start"].min()), int(frame["end"].max())  # type: ignore[index]
    return low if -low > high else high


def _damaged(path: Path, what: str) -> UnreadableReport:
    return UnreadableReport(
        f"{path}: {what}: no clock shows such times, the file is damaged",
        hint="Export the report again, or record again.",
    )
