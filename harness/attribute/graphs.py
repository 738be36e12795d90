# SPDX-License-Identifier: MIT
"""The range a CUDA graph node was captured in, from the chain of clones back to its capture."""

from __future__ import annotations

import numpy as np

from harness.attribute.arrays import Ints
from harness.trace import Trace


def capture_points(trace: Trace) -> tuple[Ints, Ints, Ints]:
    """Per GPU op (thread, time ns) at which its graph node was first made; thread -1 for none.

    Third: the same ops' index into the unique nodes, for callers that want to name each once.
    ``CUDA_GRAPH_NODE_EVENTS`` writes a clone twice, once without and once with its original.
    """
    node = trace.gpu_ops["graph_node"].to_numpy()
    thread = np.full(len(node), -1)
    time = np.zeros(len(node), np.int64)
    events = trace.graph_nodes
    at = np.flatnonzero(node >= 0)
    if not len(at) or not len(events):
        return thread, time, at
    ids, (event_key, original_key, op_key) = _keys(trace, at)
    origin = np.arange(len(ids))
    made = np.full(len(ids), -1)
    order = np.argsort(events["time"].to_numpy(), kind="stable")[::-1]
    made[event_key[order]] = order  # the earliest event of each node is written last
    clone = np.flatnonzero(original_key >= 0)
    origin[event_key[clone]] = original_key[clone]
    for _ in range(len(ids)):  # as many rounds as the longest chain of clones has links
        further = origin[origin]
        if bool((further == origin).all()):
            break
        if bool((origin[further] == np.arange(len(ids)))[further != origin].any()):
            break  # a cycle: no true origin
        origin = further
    source = made[origin[op_key]]
    known = source >= 0
    thread[at[known]] = events["thread"].to_numpy()[source[known]]
    time[at[known]] = events["time"].to_numpy()[source[known]]
    return thread, time, at


def _keys(trace: Trace, at: Ints) -> tuple[Ints, tuple[Ints, Ints, Ints]]:
    """Number (process, node) pairs: (all ids, (of events, of their originals, of ops))."""
    events = trace.graph_nodes
    process = events["process"].to_numpy()
    pairs = np.concatenate(
        [
            np.stack([process, events["node"].to_numpy()], axis=1),
            np.stack([process, events["original"].to_numpy()], axis=1),
            np.stack([trace.gpu_ops[c].to_numpy()[at] for c in ("process", "graph_node")], axis=1),
        ]
    )
    ids, inverse = np.unique(pairs, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    count = len(events)
    original = np.where(pairs[count : 2 * count, 1] >= 0, inverse[count : 2 * count], -1)
    return ids, (inverse[:count], original, inverse[2 * count :])
