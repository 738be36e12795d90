# SPDX-License-Identifier: MIT
"""GPU work of CUDA graphs that a recording should hold and does not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from harness.attribute import Attribution
from harness.attribute.arrays import Ints, Mask
from harness.trace import Trace, calls_of

_LAUNCH = re.compile(r"cu(da)?GraphLaunch")
_INSTANTIATE = re.compile(r"cu(da)?GraphInstantiate")
_BEGIN, _END = (re.compile(rf"cu(da)?Stream{what}Capture") for what in ("Begin", "End"))
#: Nodes of such graphs need not run in every replay.
_AT_WILL = re.compile(r"cu(da)?Graph(Conditional|NodeSetEnabled)")


def during_capture(trace: Trace) -> Mask:
    """For each launch: does it stand between the begin and the end of a stream capture in its
    process? Such a call makes a node, and no op."""
    step = calls_of(trace.launches, _BEGIN).astype(np.int64) - calls_of(trace.launches, _END)
    out = np.zeros(len(trace.launches), dtype=bool)
    if not step.any():
        return out
    process = trace.threads["process"].to_numpy()[trace.launches["thread"].to_numpy()]
    order = np.lexsort((trace.launches["start"].to_numpy(), process))
    for part in np.split(order, np.flatnonzero(np.diff(process[order])) + 1):
        depth = np.cumsum(step[part])
        out[part] = depth > min(0, int(depth.min()))  # the recording may begin within a capture
    return out


def losses(found: Attribution, captured: Mask) -> Iterator[tuple[int, int, str]]:
    """(lost, of how many, what): replays without any op, and nodes that other replays of the same
    graph have. ``captured`` are launches that made nodes."""
    trace = found.trace
    ops = trace.gpu_ops
    of_graph = (ops["graph_node"] >= 0).to_numpy() & (ops["kind"] != "graph").to_numpy()
    linked = found.launch >= 0
    if (of_graph & ~linked).any() or calls_of(trace.launches, _AT_WILL).any():
        return  # kernels in conditional nodes have no correlation id
    called = calls_of(trace.launches, _LAUNCH) & ~captured
    number = int(called.sum())
    called[found.launch[linked]] = False
    yield int(called.sum()), number, "graph launches without an op"
    if of_graph.any():
        key = np.stack([ops["process"].to_numpy(), ops["graph_node"].to_numpy()])[:, of_graph]
        yield (
            *_incomplete(found.launch[of_graph].astype(np.int64), key),
            "graph nodes without an op",
        )


def _incomplete(launch: Ints, key: Ints) -> tuple[int, int]:
    """Of replays by node, how many (replay, node) are missing, and how many there should be."""
    _, launch = np.unique(launch, return_inverse=True)
    _, node = np.unique(key, axis=1, return_inverse=True)
    pairs = np.unique(np.stack([launch, node.reshape(-1)]), axis=1)
    launch, node = pairs
    # Replays that share a node are of one graph: the least replay of each names it.
    graph = np.arange(launch.max() + 1)
    while True:
        of_node = np.full(node.max() + 1, len(graph))
        np.minimum.at(of_node, node, graph[launch])
        again = graph.copy()
        np.minimum.at(again, launch, of_node[node])
        if (again == graph).all():
            break
        graph = again
    replays, nodes = (np.bincount(one, minlength=len(graph)) for one in (graph, of_node))
    wanted = int((replays * nodes).sum())
    return wanted - pairs.shape[1], wanted


def silent_nodes(found: Attribution) -> str:
    """Whether each node of the graphs that were replayed ran in any replay; "" where nodes are not
    on record. Nodes of the host, of events and of child graphs never do."""
    nodes, ops = found.trace.graph_nodes, found.trace.gpu_ops
    clones = nodes[nodes["original"] >= 0]
    by_node = ops[(ops["graph_node"] >= 0) & (ops["kind"] != "graph")]
    if not len(clones) or not len(by_node):
        return ""
    ran = set(zip(by_node["process"].tolist(), by_node["graph_node"].tolist(), strict=True))
    graph = _instantiated_in(found.trace, clones["thread"].to_numpy(), clones["time"].to_numpy())
    names = zip(clones["process"].tolist(), clones["node"].tolist(), strict=True)
    did = np.array([name in ran for name in names])
    replayed = np.isin(graph, graph[did])
    return "all ran" if did[replayed].all() else "some did not run"


def _instantiated_in(trace: Trace, thread: Ints, time: Ints) -> Ints:
    """The call that made the node: the last one on its thread to instantiate a graph; -1: none."""
    calls = np.flatnonzero(calls_of(trace.launches, _INSTANTIATE))
    owner, start = (trace.launches[name].to_numpy()[calls] for name in ("thread", "start"))
    out = np.full(len(time), -1, dtype=np.int64)
    for one in np.unique(thread):
        mine = np.flatnonzero(owner == one)
        mine = mine[np.argsort(start[mine])]
        here = thread == one
        place = np.searchsorted(start[mine], time[here], side="right") - 1
        out[here] = np.where(place >= 0, calls[mine][place], -1) if len(mine) else -1
    return out
