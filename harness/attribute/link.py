# SPDX-License-Identifier: MIT
"""Links each GPU op to the launch that queued it, by (process, correlation)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.attribute.arrays import Ints, Positions, uniform
from harness.trace import Trace

#: A direct table is used while it is at most this many times longer than what it indexes.
_TABLE_FACTOR = 8


def link(trace: Trace) -> Positions:
    """Row of ``trace.launches`` for each GPU op, -1 where the report holds no launch for it.

    Correlation ids repeat across processes, and after 2^32 calls within one: of several launches
    with the op's key, the last that began before the op ran is its launch.
    """
    ops, launches = trace.gpu_ops, trace.launches
    if not len(ops) or not len(launches):
        return np.full(len(ops), -1, np.int32)
    launch_key, op_key, slots = _keys(trace)
    rows = np.arange(len(launches), dtype=np.int32)
    table = np.full(slots + 1, -1, np.int32)  # the last slot stays empty
    table[launch_key] = rows
    found = table[op_key]
    if np.count_nonzero(table >= 0) < len(launches):
        again = np.zeros(len(table), dtype=bool)
        again[launch_key[table[launch_key] != rows]] = True
        at = np.flatnonzero((found >= 0) & again[op_key])
        found[at] = _last_before(
            launch_key,
            launches["start"].to_numpy(),
            np.flatnonzero(again[launch_key]),
            op_key[at],
            ops["start"].to_numpy()[at],
        )
    return found


def _keys(trace: Trace) -> tuple[Ints, Ints, int]:
    """Slots of launches and of ops (the spare one where none can fit), and how many there are."""
    ops, launches = trace.gpu_ops, trace.launches
    correlation = launches["correlation"].to_numpy()
    wanted = ops["correlation"].to_numpy()
    process, op_process, processes = _processes(trace)
    low = int(correlation.min())
    span = int(correlation.max()) - low + 1
    possible = (wanted >= max(low, 0)) & (wanted < low + span)
    if op_process is None:
        possible &= ops["process"].to_numpy() == processes[0]
    else:
        possible &= op_process >= 0
    if span * len(processes) > max(_TABLE_FACTOR * len(launches), 1 << 16):
        values = np.unique(correlation)
        span, low = len(values), 0
        at = np.searchsorted(values, wanted)
        possible &= values[np.minimum(at, span - 1)] == wanted
        correlation, wanted = np.searchsorted(values, correlation), at
    launch_key, op_key = correlation - low, wanted - low
    if process is not None and op_process is not None:
        launch_key += process * span
        op_key += op_process * span
    slots = span * len(processes)
    if not possible.all():
        op_key[~possible] = slots
    return launch_key, op_key, slots


def _processes(trace: Trace) -> tuple[Ints | None, Ints | None, npt.NDArray[Any]]:
    """Process codes of launches and ops (-1: launched nothing) and the processes; no codes where
    there is only one process."""
    of_thread = trace.threads["process"].to_numpy()
    if uniform(of_thread):
        return None, None, of_thread[:1]
    codes, processes = pd.factorize(of_thread)
    of_op = pd.Index(processes).get_indexer(pd.Index(trace.gpu_ops["process"].to_numpy()))
    of_launch = np.asarray(codes, np.int64)[trace.launches["thread"].to_numpy()]
    return of_launch, np.asarray(of_op, np.int64), processes


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
