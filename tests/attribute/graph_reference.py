# SPDX-License-Identifier: MIT
"""Captured paths by brute force, and CUDA's numbering of graph nodes acted out."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from reference import Launch, Op, Program, Range, Reference, Thread

from harness.trace import GRAPH_NODE_COLUMNS, Trace, frame

Path = tuple[str, ...]


@dataclass(frozen=True)
class Event:
    """A row of CUDA_GRAPH_NODE_EVENTS; of CUDA_GRAPH_EVENTS with graphs for nodes."""

    thread: int
    node: int
    original: int
    time: int


@dataclass(frozen=True)
class Creation:
    time: int
    original: int
    thread: int


def with_graphs(
    trace: Trace,
    nodes: list[int],
    events: list[Event],
    graphs: Sequence[Event] = (),
    updates: Sequence[int] = (),
) -> Trace:
    """``nodes`` are those of the GPU ops, -1 for none, of a whole graph its number; ``graphs`` are
    the graphs made and ``updates`` the launches that are no launches but update a graph."""
    ops = trace.gpu_ops.copy()
    ops["graph_node"] = np.array(nodes, dtype=np.int64)
    launches = trace.launches.copy()
    launches["name"] = pd.Categorical(
        ["cudaGraphExecUpdate_v10020" if row in updates else "x" for row in range(len(launches))]
    )

    def made(rows: Sequence[Event]) -> pd.DataFrame:
        thread = [event.thread for event in rows]
        process = trace.threads["process"].to_numpy()[np.array(thread, dtype=np.int64)]
        columns = {name: [getattr(e, name) for e in rows] for name in ("node", "original", "time")}
        return frame(GRAPH_NODE_COLUMNS, {"process": process, "thread": thread, **columns})

    return replace(
        trace, launches=launches, gpu_ops=ops, graph_nodes=made(events), graphs=made(graphs)
    )


class Captures:
    """``paths``: of each op the path its node, or it as a whole graph, was captured in."""

    def __init__(
        self,
        program: Program,
        policy: str,
        nodes: list[int],
        events: list[Event],
        graphs: Sequence[Event] = (),
        updates: Sequence[int] = (),
    ) -> None:
        self.program, self.policy, self.events = program, policy, events
        self.graphs, self.updates = graphs, [program.launches[row] for row in updates]
        reference = Reference(program, policy)
        self.paths: list[Path] = [()] * len(nodes)
        first_name: dict[tuple[int, int, Creation], str] = {}
        queue = []
        for op, outcome in zip(program.ops, reference.outcomes, strict=True):
            queue.append(((outcome.launch or op).start, op.row, op))
        for when, row, op in sorted(queue, key=lambda entry: entry[:2]):
            if op.kind == "graph":
                self.paths[row] = self.whole(op.process, nodes[row], when)
                continue
            made = self.made(op.process, nodes[row], when) if nodes[row] >= 0 else None
            if made is None:
                continue
            name = first_name.setdefault((op.process, nodes[row], made), op.name)
            if name == op.name:  # else an update has put another kernel there
                self.paths[row] = self.path(self.origin(op.process, made))

    def whole(self, process: int, graph: int, when: int) -> Path:
        """Empty if an update since it was instantiated may have replaced it."""
        alone = replace_events(self, self.graphs)
        made = alone.made(process, graph, when) if graph >= 0 else None
        if made is None:
            return ()
        for update in self.updates:
            same = self.program.threads[update.thread].process == process
            if same and made.time <= update.start <= when:
                return ()
        return self.path(alone.origin(process, made))

    def creations(self, process: int, node: int) -> list[Creation]:
        """A clone is written twice, first without its original."""
        mine = [
            e
            for e in self.events
            if self.program.threads[e.thread].process == process and e.node == node
        ]
        mine.sort(key=lambda e: (e.time, e.original))
        out: list[Creation] = []
        before: Event | None = None
        for event in mine:
            made = Creation(event.time, event.original, event.thread)
            if event.original >= 0 and before is not None and before.original < 0:
                out[-1] = replace(made, time=before.time)
            else:
                out.append(made)
            before = event
        return out

    def made(self, process: int, node: int, when: int) -> Creation | None:
        every = self.creations(process, node)
        until = [c for c in every if c.time <= when]
        return until[-1] if until else (every[0] if every else None)

    def origin(self, process: int, made: Creation | None) -> Creation | None:
        for _ in range(len(self.events) + 1):
            if made is None or made.original < 0:
                return made
            made = self.made(process, made.original, made.time)
        return None  # a cycle

    def path(self, point: Creation | None) -> Path:
        """That of a launch at this moment on this thread."""
        if point is None:
            return ()
        process = self.program.threads[point.thread].process
        launch = Launch(0, point.thread, point.time, point.time, 0)
        op = Op(0, "kernel", point.time, point.time, process, 0, 0, "")
        moment = replace(self.program, launches=[launch], ops=[op])
        return Reference(moment, self.policy).outcomes[0].path


def replace_events(captures: Captures, events: Sequence[Event]) -> Captures:
    """The same with other creations, of graphs instead of nodes."""
    other = copy.copy(captures)
    other.events = list(events)
    return other


#: A graph as drawn: None is a kernel, a list is a child graph.
Tree = list["Tree | None"]


@dataclass
class Graph:
    number: int
    nodes: list[Graph | str]  # a child graph, or the range the kernel was captured in


@dataclass
class Device:
    """Captures, nests and instantiates graphs, numbered as CUDA 13.0 does; its clock only rises.
    ``ran`` are kernels: node, where captured, and whether its number is beyond doubt."""

    thread: int = 0
    now: int = 0
    number: int = 0
    events: list[Event] = field(default_factory=list)
    ranges: list[tuple[str, int, int]] = field(default_factory=list)
    ran: list[tuple[int, str, bool]] = field(default_factory=list)

    def new(self) -> Graph:
        self.number += 1
        return Graph(self.number, [])

    def event(self, graph: Graph, place: int, original: int = -1) -> None:
        self.now += 1
        self.events.append(Event(self.thread, (graph.number << 32) + place, original, self.now))

    def capture(self, tree: Tree) -> Graph:
        children = [None if item is None else self.capture(item) for item in tree]
        graph = self.new()
        for place, child in enumerate(children):
            if child is None:
                name = f"{self.thread}: {graph.number}.{place}"
                begun = self.now
                self.event(graph, place)
                self.ranges.append((name, begun, self.now))
                self.now += 1
                graph.nodes.append(name)
            else:
                graph.nodes.append(self.clone(child))
                self.event(graph, place)
        return graph

    def clone(self, graph: Graph) -> Graph:
        out = self.new()
        for place, node in enumerate(graph.nodes):
            out.nodes.append(self.clone(node) if isinstance(node, Graph) else node)
            self.event(out, place)
            self.event(out, place, (graph.number << 32) + place)
        return out

    def instantiate(self, graph: Graph, deep_first: bool) -> None:
        """Replays it once too. The driver adds a node of its own at the end."""
        root = self.clone(graph)
        orders = [list(deep(root)), list(broad(root))]
        numbered = [[(g.number, i) for g in order for i in range(len(g.nodes))] for order in orders]
        kernels = [node for g in orders[0 if deep_first else 1] for node in g.nodes]
        for place, (node, one, two) in enumerate(zip(kernels, *numbered, strict=True)):
            if isinstance(node, str):
                self.ran.append(((root.number << 32) + place, node, one == two))
        self.event(root, len(kernels))

    def program(self) -> tuple[list[Range], list[Op], list[int]]:
        ranges = [
            Range(0, self.thread, a, b, name, "", "push_pop", False) for name, a, b in self.ranges
        ]
        ops = [
            Op(0, "kernel", self.now + i, self.now + i + 1, self.thread, -1, 0, "k")
            for i in range(len(self.ran))
        ]
        return ranges, ops, [node for node, _, _ in self.ran]


def deep(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph.nodes:
        if isinstance(node, Graph):
            yield from deep(node)


def broad(graph: Graph) -> Iterator[Graph]:
    level = [graph]
    while level:
        yield from level
        level = [n for g in level for n in g.nodes if isinstance(n, Graph)]


def together(devices: list[Device]) -> tuple[Program, list[int], list[Event]]:
    """One program of a process a device; their numbers collide."""
    parts = [device.program() for device in devices]
    ranges = itertools.chain.from_iterable(part[0] for part in parts)
    ops = itertools.chain.from_iterable(part[1] for part in parts)
    program = Program(
        [Thread(device.thread, 1, False) for device in devices],
        [replace(r, row=row) for row, r in enumerate(ranges)],
        [],
        [replace(op, row=row) for row, op in enumerate(ops)],
    )
    events = [event for device in devices for event in device.events]
    return program, [node for part in parts for node in part[2]], events
