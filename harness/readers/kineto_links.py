# SPDX-License-Identifier: MIT
"""Who belongs to whom in a torch trace: GPU ops to processes, backward to forward threads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.readers.kineto_columns import Int64

Bools = npt.NDArray[np.bool_]


def owners(ops: pd.DataFrame, launches: pd.DataFrame, fallback: int) -> Int64:
    """The process of each GPU op.

    A GPU row carries the device where the process should be, so the process is the one that
    launched it. With one process in the file that is it. In files merged of several ranks the
    correlation ids repeat: a device then belongs to the process whose launches explain most of
    its ops (same correlation, not later than the op, same External id where both have one), and
    an op whose owner has no such launch goes to the process that launched it last.

    Args:
        ops: columns group (ops of one group share a device), start, correlation, external.
        launches: columns process, start, correlation, external.
        fallback: the process of ops in a file without launches.
    """
    processes = launches["process"].unique()
    if len(processes) <= 1:
        return np.full(len(ops), processes[0] if len(processes) else fallback, np.int64)
    pairs = ops.assign(op=np.arange(len(ops))).merge(
        launches, on="correlation", suffixes=("", "_launch")
    )
    pairs = pairs[pairs["correlation"] > 0].copy()
    if pairs.empty:
        return np.full(len(ops), fallback, np.int64)
    external, launched = pairs["external"], pairs["external_launch"]
    pairs["fits"] = (pairs["start_launch"] <= pairs["start"]) & (
        (external == launched) | (external <= 0) | (launched <= 0)
    )
    best = _device_owners(pairs.groupby(["group", "process"])["fits"].sum().unstack(fill_value=0))
    owner = np.array(ops["group"].map(best).fillna(fallback), np.int64)
    pairs["owned"] = pairs["process"].to_numpy() == owner[pairs["op"].to_numpy()]
    chosen = (
        pairs.sort_values(["fits", "owned", "start_launch"], kind="stable")
        .groupby("op")["process"]
        .last()
    )
    owner[chosen.index.to_numpy()] = chosen.to_numpy()
    return owner


def _device_owners(scores: pd.DataFrame) -> dict[int, int]:
    """Group -> process, from how many of a group's ops (row) each process (column) explains.

    Ranks in lockstep explain each other's ops as well as their own. The clearest groups choose
    first, and among equals a group takes the process that owns the fewest.
    """
    ranked = np.sort(scores.to_numpy(), axis=1)
    margin = ranked[:, -1] - ranked[:, -2] if ranked.shape[1] > 1 else ranked[:, -1]
    owned = dict.fromkeys(scores.columns, 0)
    best: dict[int, int] = {}
    for place in np.argsort(-margin, kind="stable"):
        row = scores.iloc[place]
        equals = [process for process in scores.columns if row[process] == ranked[place, -1]]
        chosen = min(equals, key=lambda process: (owned[process], process))
        owned[chosen] += 1
        best[int(scores.index.to_numpy()[place])] = int(chosen)
    return best


def first_launches(launches: pd.DataFrame) -> pd.DataFrame:
    """One row per (process, correlation): the earliest, which encloses any driver call in it."""
    order = launches.sort_values("start", kind="stable")
    return order.drop_duplicates(["process", "correlation"]).sort_index()


def forward_links(
    links: pd.DataFrame, operators: pd.DataFrame, nodes: pd.DataFrame, last: int
) -> pd.DataFrame:
    """Pairs of a forward and a backward moment, by (process, id): columns of FORWARD_LINK_COLUMNS.

    The backward part lasts as long as the engine evaluated the node that the link ends in, which
    includes adding up the gradients it made; without such a row as long as the operator that
    begins where the link ends; without either up to ``last``.

    Args:
        links: columns process, thread, start, id, forward.
        operators: columns thread, start, end.
        nodes: columns thread, start, end of the engine's rows.
    """
    keys = ["process", "id"]
    ends = links.drop_duplicates([*keys, "forward"])
    forward = ends[ends["forward"] == 1].rename(
        columns={"thread": "forward_thread", "start": "forward_time"}
    )
    backward = ends[ends["forward"] == 0].rename(
        columns={"thread": "backward_thread", "start": "backward_time"}
    )
    pairs = forward.merge(backward, on=keys)
    thread = pairs["backward_thread"].to_numpy(np.int64)
    time = pairs["backward_time"].to_numpy(np.int64)
    end = np.full(len(pairs), last, np.int64)
    for rows, must_begin_there in ((operators, True), (nodes, False)):
        begun, until = _latest(rows, thread, time)
        inside = (begun == time) if must_begin_there else (begun <= time)
        end = np.where(inside & (time <= until), until, end)
    return pairs.assign(backward_end=end)


def _latest(rows: pd.DataFrame, thread: Int64, time: Int64) -> tuple[Int64, Int64]:
    """Start and end of the last of ``rows`` on each thread to begin by a time (the longest of
    equals); an empty interval in the past where there is none."""
    never = np.iinfo(np.int64).min
    if rows.empty:
        return np.full(len(time), never), np.full(len(time), never)
    rows = rows.sort_values(["thread", "start", "end"], kind="stable")
    start, end = rows["start"].to_numpy(np.int64), rows["end"].to_numpy(np.int64)
    bounds = np.searchsorted(rows["thread"].to_numpy(), [thread, thread + 1])
    begun = np.full(len(time), never)
    until = np.full(len(time), never)
    for one in np.unique(thread):
        asked = np.flatnonzero(thread == one)
        low, high = bounds[:, asked[0]]
        place = low + np.searchsorted(start[low:high], time[asked], side="right") - 1
        found = place >= low
        begun[asked[found]] = start[place[found]]
        until[asked[found]] = end[place[found]]
    return begun, until


def autograd_threads(threads: pd.DataFrame, links: pd.DataFrame, engine: Int64) -> Bools:
    """Which threads run PyTorch's backward for others.

    By name (``pt_autograd_*``), or because ``fwdbwd`` links from other threads end there. Traces
    before 1.11 have neither; there it is a thread on which the autograd engine evaluated nodes.
    Never a process's main thread (tid == pid): a backward that runs on the thread that called it
    needs no rule.

    Args:
        engine: rows of ``threads`` where the engine evaluated nodes; they may repeat.
    """
    named = threads["name"].str.contains("pt_autograd", regex=False).to_numpy(bool)
    helper = (threads["tid"] != threads["pid"]).to_numpy(bool)
    across = links[links["forward_thread"] != links["backward_thread"]]
    linked = np.zeros(len(threads), bool)
    linked[across["backward_thread"].to_numpy(np.intp)] = True
    found = named | (linked & helper)
    evaluates = np.zeros(len(threads), bool)
    evaluates[engine] = True
    process = threads["process"].to_numpy()
    silent = ~np.isin(process, process[found])
    return np.asarray(found | (evaluates & helper & silent))


def overlapped(ops: pd.DataFrame) -> int:
    """How many kernels start before an earlier one on the same stream ended.

    Args:
        ops: columns device, stream, start, end.
    """
    order = ops.sort_values(["device", "stream", "start"], kind="stable")
    keys = [order["device"], order["stream"]]
    reached = order["end"].groupby(keys).cummax().groupby(keys).shift(fill_value=np.iinfo("i8").min)
    return int((order["start"] < reached).sum())
