# SPDX-License-Identifier: MIT
"""GPU work that a recording should hold and does not: its ranges seem cheaper than they were."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.attribute import Attribution
from harness.attribute.arrays import Mask
from harness.attribute.graph_warnings import calls_of
from harness.comparison.lost_in_graphs import during_capture, losses
from harness.trace import MAKERS, makes

#: Recordings have an op for every such call (all of this project's do); one that was cut off lacks
#: a few at its end, which no median notices.
_TOLERATED = 0.005
_GRAPHS = re.compile("cu(da)?Graph")

_WORDS = {
    "kernel": "launches without a kernel",
    "memcpy": "copying calls without a copy",
    "memset": "setting calls without a set",
}


def ops_lost(found: Attribution) -> str:
    """How many calls that make a GPU op have none, and nodes of replayed CUDA graphs; "" where it
    is none to speak of."""
    trace = found.trace
    if not len(trace.launches):
        return ""
    captured = during_capture(trace)
    told = [*losses(found, captured)]
    # A torch trace need not say when a graph was captured.
    if trace.source.kind == "nsys" or not calls_of(trace, _GRAPHS).any():
        told = [*_calls(found, captured), *told]
    return ", ".join(
        f"{lost} of {number} {what}" for lost, number, what in told if lost > _TOLERATED * number
    )


def _calls(found: Attribution, captured: Mask) -> Iterator[tuple[int, int, str]]:
    for kind in MAKERS:
        called = makes(found.trace.launches, kind) & ~captured
        number = int(called.sum())
        called[found.launch[found.launch >= 0]] = False
        yield int(called.sum()), number, _WORDS[kind]
