# SPDX-License-Identifier: MIT
"""The range a CUDA graph or a node of one was captured in, from its clones back to the capture."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from harness.attribute.arrays import Ints, Mask, Positions, numbered
from harness.attribute.engine import Attribution, attribute
from harness.attribute.graph_warnings import GRAPH_UPDATE
from harness.trace import (
    GPU_OP_COLUMNS,
    GRAPH_NODE_COLUMNS,
    LAUNCH_COLUMNS,
    Trace,
    calls_of,
    empty_frame,
    frame,
)

#: CUPTI's node ids are the graph's number and, below it, the node's number in the graph.
_GRAPH_BITS = 32


@dataclass(frozen=True)
class CapturePoints:
    """Where and when graph nodes were first made; ``of_op`` is -1 where that is not known."""

    of_op: Ints
    thread: Ints
    time: Ints

    @classmethod
    def none(cls, ops: int) -> CapturePoints:
        nothing = np.empty(0, np.int64)
        return cls(np.full(ops, -1), nothing, nothing)


def capture_points(trace: Trace, launch: Positions) -> CapturePoints:
    """The points at which the nodes of the GPU ops were captured, each once.

    ``launch`` is the row of each op's launch, -1 for none.
    """
    ops = trace.gpu_ops
    number = ops["graph_node"].to_numpy()
    whole = (ops["kind"] == "graph").to_numpy()
    kernels, wholes = (np.flatnonzero((number >= 0) & kind) for kind in (~whole, whole))
    nodes = _node_points(trace, launch, kernels if len(trace.graph_nodes) else kernels[:0])
    graphs = _graph_points(trace, launch, wholes if len(trace.graphs) else wholes[:0])
    later = graphs.of_op >= 0
    of_op = np.where(later, graphs.of_op + len(nodes.thread), nodes.of_op)
    thread, time = (
        np.concatenate([getattr(points, name) for points in (nodes, graphs)])
        for name in ("thread", "time")
    )
    return CapturePoints(of_op, thread, time)


def _node_points(trace: Trace, launch: Positions, at: Ints) -> CapturePoints:
    """For the ops ``at``, kernels and others that are nodes of a graph."""
    if not len(at):
        return CapturePoints.none(len(trace.gpu_ops))
    ops = trace.gpu_ops
    made = Creations.of(trace.graph_nodes)
    process, node, when = _asked(trace, launch, at)
    row = made.last(process, node, when)
    flat = np.flatnonzero(row < 0)
    row[flat] = made.flattened(process[flat], node[flat])
    row[_replaced(row, when, np.asarray(ops["name"].cat.codes, np.int64)[at])] = -1
    return made.points(len(ops), at, row)


def _graph_points(trace: Trace, launch: Positions, at: Ints) -> CapturePoints:
    """For the ops ``at``, graphs recorded as wholes. An update that came after a graph was
    instantiated may have put another one there: nsys does not record which, nor of what."""
    if not len(at):
        return CapturePoints.none(len(trace.gpu_ops))
    made = Creations.of(trace.graphs)
    process, graph, when = _asked(trace, launch, at)
    row = made.last(process, graph, when)
    calls = calls_of(trace.launches, GRAPH_UPDATE)
    owner = trace.threads["process"].to_numpy()[trace.launches["thread"].to_numpy()[calls]]
    called = trace.launches["start"].to_numpy()[calls]
    for one in np.unique(owner):
        mine = np.flatnonzero((process == one) & (row >= 0))
        updates = np.sort(called[owner == one])
        until = np.searchsorted(updates, when[mine], side="right")
        row[mine[until > np.searchsorted(updates, made.time[row[mine]], side="left")]] = -1
    return made.points(len(trace.gpu_ops), at, row)


def _asked(trace: Trace, launch: Positions, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Process, number and time of launch (of the op, without one) of the ops ``at``."""
    ops = trace.gpu_ops
    when = ops["start"].to_numpy()[at].copy()
    linked = launch[at] >= 0
    when[linked] = trace.launches["start"].to_numpy()[launch[at[linked]]]
    return ops["process"].to_numpy()[at], ops["graph_node"].to_numpy()[at], when


def as_if_launched(found: Attribution, points: CapturePoints) -> Attribution:
    """Attribution of one op at each point, instead of those of the recording."""
    number, threads = np.arange(len(points.thread)), found.trace.threads
    unnamed = pd.Categorical.from_codes(np.zeros(len(number), np.int8), categories=pd.Index([""]))
    at = {"start": points.time, "end": points.time, "correlation": number, "name": unnamed}
    launches = frame(LAUNCH_COLUMNS, {"thread": points.thread, **at})
    none = dict.fromkeys(GPU_OP_COLUMNS, np.full(len(number), -1))
    process = threads["process"].to_numpy()[points.thread]
    labels = dict.fromkeys(("kind", "demangled", "mangled"), unnamed)
    ops = frame(GPU_OP_COLUMNS, none | at | labels | {"process": process})
    trace = replace(
        found.trace,
        launches=launches,
        gpu_ops=ops,
        graph_nodes=empty_frame(GRAPH_NODE_COLUMNS),
        graphs=empty_frame(GRAPH_NODE_COLUMNS),
    )
    return attribute(trace, found.policy)


@dataclass(frozen=True)
class Creations:
    """Each time a graph node was made, in the order of ``process``, ``node`` and ``time``; or a
    whole graph, whose number is called node here."""

    process: Ints
    node: Ints
    original: Ints  # the node it is a clone of, -1: made by a capture or by hand
    thread: Ints
    time: Ints

    @classmethod
    def of(cls, events: pd.DataFrame) -> Creations:
        """nsys writes a clone twice, first without and then with its original: one creation."""
        process, node, original, thread, time = (
            events[c].to_numpy() for c in ("process", "node", "original", "thread", "time")
        )
        order = np.lexsort((original, time, node, process))
        process, node, original = process[order], node[order], original[order]
        thread, time = thread[order], time[order].copy()
        twice = np.flatnonzero(
            (process[1:] == process[:-1])
            & (node[1:] == node[:-1])
            & (original[:-1] < 0)
            & (original[1:] >= 0)
        )
        time[twice + 1] = time[twice]
        keep = np.ones(len(order), dtype=bool)
        keep[twice] = False
        return cls(process[keep], node[keep], original[keep], thread[keep], time[keep])

    def last(self, process: Ints, node: Ints, when: Ints) -> Ints:
        """Row of the last creation of each node at or before ``when``; if all are later, of the
        first; -1 if there is none. Ids may be used again once a graph is destroyed."""
        pairs = np.concatenate(
            [np.stack([self.process, self.node], axis=1), np.stack([process, node], axis=1)]
        )
        _, key = np.unique(pairs, axis=0, return_inverse=True)
        key = key.reshape(-1)
        own, wanted = key[: len(self.node)], key[len(self.node) :]
        first = np.searchsorted(own, wanted, "left")
        final = np.searchsorted(own, wanted, "right") - 1
        times = np.unique(np.concatenate([self.time, when]))
        rank = own * (len(times) + 1) + np.searchsorted(times, self.time)
        sought = wanted * (len(times) + 1) + np.searchsorted(times, when)
        row = np.clip(np.searchsorted(rank, sought, "right") - 1, first, np.maximum(first, final))
        return np.where(final >= first, row, -1)

    def origin(self) -> Ints:
        """For each creation that of the node at the end of its chain of clones; -1: not recorded,
        or none (a cycle)."""
        clone = np.flatnonzero(self.original >= 0)
        before = np.arange(len(self.node) + 1)  # the last entry stands for "not recorded"
        before[clone] = self.last(self.process[clone], self.original[clone], self.time[clone])
        before[before < 0] = len(self.node)
        for _ in range(len(self.node).bit_length()):  # doubles the distance each round
            before = before[before]
        made = np.append(self.original < 0, False)[before]
        return np.where(made, before, -1)[:-1]

    def points(self, ops: int, at: Ints, row: Ints) -> CapturePoints:
        """Where the creations ``row`` (-1: none) of the ops ``at``, of ``ops`` in all, began."""
        of_op = np.full(ops, -1)
        source = np.append(self.origin(), -1)[row]
        known = source >= 0
        used, of_op[at[known]] = numbered(source[known])
        return CapturePoints(of_op, self.thread[used], self.time[used])

    def flattened(self, process: Ints, node: Ints) -> Ints:
        """Rows of nodes that CUDA numbers anew when it instantiates a graph; -1 for all others.

        An instantiated graph of n nodes carries those of its child graphs and conditional bodies
        itself, as nodes n, n + 1, ... No event says so; it is how kernels of nested graphs and of
        while nodes are numbered by CUDA 13.0, nsys 2025.3 (tests/data/recorded/graph-nested-node,
        graph-conditional-node). Child graphs are cloned each with a number of its own.
        """
        out = np.full(len(node), -1)
        cloned = np.flatnonzero(self.original >= 0)
        for p in np.unique(process[np.isin(process, self.process[cloned])]):
            mine = cloned[self.process[cloned] == p]
            graphs = _graphs_of(self.node[mine], mine)
            wanted = np.flatnonzero(process == p)
            number = node[wanted] >> _GRAPH_BITS
            for graph in np.unique(number[np.isin(number, list(graphs))]):
                same = wanted[number == graph]
                within = self._within(graphs, int(graph))
                place = (node[same] & ((1 << _GRAPH_BITS) - 1)) - len(graphs[int(graph)])
                fits = (place >= 0) & (place < len(within))
                out[same[fits]] = within[place[fits]]
        return out

    def _within(self, graphs: dict[int, Ints], graph: int) -> Ints:
        """Creations in the graphs nested in ``graph``; -1 where their order is not certain."""
        # A child graph is cloned whole before the node that holds it, and numbered after its own.
        end = {g: int(self.time[rows].max()) for g, rows in graphs.items()}
        thread = self.thread[graphs[graph][0]]
        inner = [
            g
            for g, rows in graphs.items()
            if g > graph and end[g] < end[graph] and self.thread[rows[0]] == thread
        ]
        depth = {graph: 0}
        for g in inner:
            around = max(h for h in depth if h < g and end[h] > end[g])
            depth[g] = depth[around] + 1
        # Deep first or broad first: no recording tells which, where they differ.
        orders = [inner, sorted(inner, key=lambda g: (depth[g], g))]
        deep, broad = (
            np.array([row for g in order for row in graphs[g]], dtype=np.int64) for order in orders
        )
        return np.where(deep == broad, deep, -1)


def _graphs_of(node: Ints, row: Ints) -> dict[int, Ints]:
    """Graph number -> rows of its nodes in order, by ascending number. A number that was used
    twice, or a graph of which not all nodes are there, is left out."""
    out: dict[int, Ints] = {}
    number = node >> _GRAPH_BITS
    bounds = np.append(np.flatnonzero(np.diff(number, prepend=-1)), len(node))
    for a, b in itertools.pairwise(bounds):
        place = node[a:b] & ((1 << _GRAPH_BITS) - 1)
        if bool((place == np.arange(b - a)).all()):
            out[int(number[a])] = row[a:b]
    return out


def _replaced(row: Ints, when: Ints, name: Ints) -> Mask:
    """Ops whose node ran another kernel at first: an update put this one there, and where that was
    captured is not recorded."""
    order = np.lexsort((when, row))
    ordered = row[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-2))
    first = np.repeat(name[order][starts], np.diff(np.append(starts, len(order))))
    out = np.zeros(len(row), dtype=bool)
    out[order] = (name[order] != first) & (ordered >= 0)
    return out
