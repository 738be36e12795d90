# SPDX-License-Identifier: MIT
"""What spoils an nsys report."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.readers.columns import Database
from harness.trace import Trace, Warning_


@dataclass(frozen=True)
class Oddities:
    """What the reader had to mend."""

    bad_times: dict[str, int] = field(default_factory=dict)


def read_warnings(db: Database, trace: Trace, oddities: Oddities) -> tuple[Warning_, ...]:
    found: list[Warning_] = []
    if not len(trace.ranges):
        found.append(
            Warning_("no-nvtx", "no NVTX ranges were recorded", "nsys profile -t cuda,nvtx")
        )
    if not len(trace.gpu_ops):
        found.append(
            Warning_("no-gpu-ops", "no GPU work was recorded", "nsys profile -t cuda,nvtx")
        )
    return tuple(found)
