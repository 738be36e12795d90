# SPDX-License-Identifier: MIT
"""GPU work that a recording should hold and does not: its ranges seem cheaper than they were."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from harness.attribute import Attribution
from harness.attribute.arrays import Mask
from harness.comparison.lost_in_graphs import during_capture, losses
from harness.trace import MAKERS, calls_of, makes

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
    """How many calls that make a GPU op have none, nodes of replayed CUDA graphs too, and how many
    ops no call; "" where it is none to speak of."""
    trace = found.trace
    if not len(trace.launches):
        return ""
    captured = during_capture(trace)
    told = [*losses(found, captured)]
    # A torch trace need not say when a graph was captured.
    if trace.source.kind == "nsys" or not calls_of(trace.launches, _GRAPHS).any():
        told = [*_calls(found, captured), *told]
    told.append((_without_call(found), len(trace.gpu_ops), "GPU ops without their call"))
    return ", ".join(
        f"{lost} of {number} {what}" for lost, number, what in told if lost > _TOLERATED * number
    )


def _calls(found: Attribution, captured: Mask) -> Iterator[tuple[int, int, str]]:
    for kind in MAKERS:
        called = makes(found.trace.launches, kind) & ~captured
        number = int(called.sum())
        called[found.launch[found.launch >= 0]] = False
        yield int(called.sum()), number, _WORDS[kind]


def _without_call(found: Attribution) -> int:
    """Ops whose call was made while calls were recorded, and is not there: their range lacks them.
    What was queued before has a smaller id than any recorded call of its process; ops that no call
    of the host made have none."""
    trace = found.trace
    process = trace.threads["process"].to_numpy()[trace.launches["thread"].to_numpy()]
    first = pd.Series(trace.launches["correlation"].to_numpy()).groupby(process).min()
    ops = trace.gpu_ops[found.launch < 0]
    earliest = first.reindex(ops["process"]).fillna(0).to_numpy()
    return int((ops["correlation"].to_numpy() > earliest).sum())
