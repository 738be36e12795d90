# SPDX-License-Identifier: MIT
"""Kernels that a recording should hold and does not: its ranges seem cheaper than they were."""

from __future__ import annotations

import numpy as np

from harness.attribute import Attribution
from harness.trace import is_kernel_launch

#: Recordings of programs without graphs have a kernel for every launch (all of this project's do);
#: one that was cut off lacks a few at its end, which no median notices.
_TOLERATED = 0.005


def kernels_lost(found: Attribution) -> str:
    """How many kernel launches have no kernel, "" where it is none to speak of.

    Not told of programs with CUDA graphs, where a launch during capture makes a node instead.
    """
    launches = found.trace.launches
    names = launches["name"].cat
    categories = [str(name) for name in names.categories]
    if not len(launches) or any("Graph" in name for name in categories):
        return ""
    wanted = [i for i, name in enumerate(categories) if is_kernel_launch(name)]
    called = np.isin(names.codes.to_numpy(), wanted)
    called[found.launch[found.launch >= 0]] = False
    lost = int(called.sum())
    calls = int(np.isin(names.codes.to_numpy(), wanted).sum())
    return f"{lost} of {calls} launches without a kernel" if lost > _TOLERATED * calls else ""
