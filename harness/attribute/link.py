# SPDX-License-Identifier: MIT
"""Links each GPU op to the launch that queued it, by (process, correlation)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.attribute.arrays import Ints
from harness.trace import Trace

#: A direct table is used while it is at most this many times longer than what it indexes.
_TABLE_FACTOR = 8


def link(trace: Trace) -> npt.NDArray[np.int64]:
    """Row of ``trace.launches`` for each GPU op, -1 where the report holds no launch for it.

    Correlation ids repeat across processes, and after 2^32 calls within one: of several launches
    with the op's key, the last that began before the op ran is its launch.
    """
    ops, launches = trace.gpu_ops, trace.launches
    if not len(ops) or not len(launches):
        return np.full(len(ops), -1, np.int64)
    thread_process = trace.threads["process"].to_numpy()
    codes, processes = pd.factorize(thread_process)
    launch_process = codes[launches["thread"].to_numpy()]
    op_process = pd.Index(processes).get_indexer(pd.Index(ops["process"].to_numpy()))
    correlation = launches["correlation"].to_numpy()
    wanted = ops["correlation"].to_numpy()
    possible = (op_process >= 0) & (wanted >= 0)
    low = int(correlation.min())
    span = int(correlation.max()) - low + 1
    possible &= (wanted >= low) & (wanted < low + span)
    if span * len(processes) > max(_TABLE_FACTOR * len(launches), 1 << 16):
        values = np.unique(correlation)
        span, low = len(values), 0
        at = np.searchsorted(values, wanted)
        possible &= values[np.minimum(at, span - 1)] == wanted
        correlation, wanted = np.searchsorted(values, correlation), at
    launch_key = launch_process * span + (correlation - low)
    op_key = np.where(possible, op_process * span + (wanted - low), 0)
    table = np.full(span * len(processes), -1, np.int32)
    table[launch_key] = np.arange(len(launches), dtype=np.int32)
    found = np.where(possible, table[op_key], -1).astype(np.int64)
    repeated = table[launch_key] != np.arange(len(launches))
    if repeated.any():
        again = np.zeros(len(table), dtype=bool)
        again[launch_key[repeated]] = True
        at = np.flatnonzero((found >= 0) & again[op_key])
        found[at] = _last_before(
            launch_key,
            launches["start"].to_numpy(),
            np.flatnonzero(again[launch_key]),
            op_key[at],
            ops["start"].to_numpy()[at],
        )
    return found


def _last_before(
    launch_key: Ints, launch_start: Ints, among: Ints, op_key: Ints, op_start: Ints
) -> Ints:
    """Per op the last launch of its key that began at or before it, else the first of that key."""
    order = among[np.lexsort((launch_start[among], launch_key[among]))]
    keys = launch_key[order]
    starts = launch_start[order]
    first = np.searchsorted(keys, op_key, side="left")
    last = np.searchsorted(keys, op_key, side="right") - 1
    # Rank (key, start) once so that a single search answers "last start <= op_start in this key".
    times = np.unique(np.concatenate([starts, op_start]))
    rank = keys * (len(times) + 1) + np.searchsorted(times, starts)
    at = np.searchsorted(
        rank, op_key * (len(times) + 1) + np.searchsorted(times, op_start), "right"
    )
    return order[np.clip(at - 1, first, last)]
