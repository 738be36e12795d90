# SPDX-License-Identifier: MIT
"""GPU work that a recording should hold and does not: its ranges seem cheaper than they were."""

from __future__ import annotations

from harness.attribute import Attribution
from harness.trace import MAKERS, makes

#: Recordings of programs without graphs have an op for every such call (all of this project's do);
#: one that was cut off lacks a few at its end, which no median notices.
_TOLERATED = 0.005


_WORDS = {
    "kernel": "launches without a kernel",
    "memcpy": "copying calls without a copy",
    "memset": "setting calls without a set",
}


def ops_lost(found: Attribution) -> str:
    """How many calls that make a GPU op have none, "" where it is none to speak of.

    Not told of programs with CUDA graphs, where a call during capture makes a node instead.
    """
    launches = found.trace.launches
    names = launches["name"].cat.categories
    if not len(launches) or any("Graph" in str(name) for name in names):
        return ""
    told = []
    for kind in MAKERS:
        called = makes(launches, kind)
        calls = int(called.sum())
        called[found.launch[found.launch >= 0]] = False
        lost = int(called.sum())
        if lost > _TOLERATED * calls:
            told.append(f"{lost} of {calls} {_WORDS[kind]}")
    return ", ".join(told)
