# SPDX-License-Identifier: MIT
"""What nsys does not record of CUDA graphs, as far as a recording betrays it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.attribute.arrays import Ints, Mask
from harness.trace import Trace, Warning_, calls_of
from harness.words import agree, plural

_UPDATE = re.compile(r"^cu(da)?Graph(ExecUpdate|Exec\w*NodeSetParams|\w*NodeSetParams)")
#: Puts another graph into one that is instantiated.
GRAPH_UPDATE = re.compile(r"^cu(da)?GraphExecUpdate")
_UPLOAD = re.compile(r"^cu(da)?GraphUpload")


@dataclass(frozen=True)
class GraphFacts:
    """What adds up over the parts of a recording: GPU ops that no call of the host launched (for
    which CUPTI writes correlation 0; ``graphs`` of them whole graphs), and graphs uploaded."""

    uncalled: int = 0
    graphs: int = 0
    ns: int = 0
    uploads: int = 0
    nodes: bool = False  # recorded

    @classmethod
    def of(cls, trace: Trace, unlinked: Mask) -> GraphFacts:
        """``unlinked``: ops without a launch."""
        if trace.source.kind != "nsys":
            return cls()
        ops = trace.gpu_ops
        none = unlinked & (ops["correlation"].to_numpy() == 0)
        return cls(
            uncalled=int(none.sum()),
            graphs=int((none & (ops["kind"] == "graph").to_numpy()).sum()),
            ns=int((ops["end"].to_numpy() - ops["start"].to_numpy())[none].sum()),
            uploads=int(calls_of(trace.launches, _UPLOAD).sum()),
            nodes=bool(len(trace.graph_nodes)),
        )

    def __add__(self, other: GraphFacts) -> GraphFacts:
        return GraphFacts(
            self.uncalled + other.uncalled,
            self.graphs + other.graphs,
            self.ns + other.ns,
            self.uploads + other.uploads,
            self.nodes or other.nodes,
        )

    def warnings(self) -> Iterator[Warning_]:
        yield from _without_correlation(self)
        yield from _launched_on_the_device(self)


def capture_warnings(trace: Trace) -> Iterator[Warning_]:
    """Why ``captured_path`` is empty; asked of a trace with the graph nodes of its ops, since other
    views have no use for it."""
    if trace.source.kind == "nsys":
        yield from _updated(trace)
        yield from _captures_unknown(trace)


def _without_correlation(facts: GraphFacts) -> Iterator[Warning_]:
    if not facts.uncalled:
        return
    if facts.graphs:
        number = facts.graphs
        were = agree(number, "was", "were")
        what = f"{plural(number, 'CUDA graph')} {were} launched from the device"
        hint = (
            "No call of the host started them, so no range claims them: see the range that launches"
            " the graph whose kernel does."
        )
        if others := facts.uncalled - facts.graphs:
            what += f", {plural(others, 'other op')} without a call"
    else:
        number = facts.uncalled
        were = agree(number, "was", "were")
        what = f"{plural(number, 'GPU op')} {were} launched by no call of the host"
        hint = (
            "Kernels in conditional nodes of a CUDA graph carry no correlation id. Recorded as a "
            "whole (harness run --graphs graph), the graph has its time in the range that replays "
            "it."
        )
    stay = agree(facts.uncalled, "it stays", "they stay")
    yield Warning_("no-correlation", f"{what} ({facts.ns} ns): {stay} unlinked", hint)


def _launched_on_the_device(facts: GraphFacts) -> Iterator[Warning_]:
    if facts.uploads and facts.nodes:
        yield Warning_(
            "device-graphs",
            f"cudaGraphUpload was called {plural(facts.uploads, 'time')}: if a kernel launched "
            "such a graph from the device, its kernels are missing here",
            "nsys records device-launched graphs only as wholes (harness run --graphs graph).",
        )


def _updated(trace: Trace) -> Iterator[Warning_]:
    ops = trace.gpu_ops
    whole = (ops["kind"] == "graph").to_numpy()
    replayed = ops["graph_node"].to_numpy() >= 0
    nodes, graphs = replayed & ~whole, replayed & whole
    if number := _after(trace, nodes, _UPDATE):
        yield Warning_(
            "graph-updated",
            f"{plural(number, 'GPU op')} of CUDA graphs ran after a graph was updated in place: "
            "captured_path is where their node was first captured, and empty where it ran another "
            "kernel before",
            _UPDATES,
        )
    if number := _after(trace, graphs, GRAPH_UPDATE):
        yield Warning_(
            "graph-updated",
            f"{plural(number, 'whole CUDA graph')} ran after a graph was updated in place: "
            "captured_path is empty for those instantiated before",
            _UPDATES,
        )


_UPDATES = (
    "nsys does not record which graph an update came from; a graph that is instantiated anew keeps "
    "its ranges."
)


def _after(trace: Trace, ops: Mask, pattern: re.Pattern[str]) -> int:
    """How many of ``ops`` began after a call of ``pattern`` in their process."""
    calls = calls_of(trace.launches, pattern)
    process = trace.threads["process"].to_numpy()[trace.launches["thread"].to_numpy()[calls]]
    called: Ints = trace.launches["start"].to_numpy()[calls]
    owner, start = (trace.gpu_ops[column].to_numpy()[ops] for column in ("process", "start"))
    return sum(
        int(((owner == one) & (start > called[process == one].min())).sum())
        for one in np.unique(process)
    )


def _captures_unknown(trace: Trace) -> Iterator[Warning_]:
    ops = trace.gpu_ops
    graphs = (ops["graph_node"].to_numpy() >= 0) & (ops["kind"] == "graph").to_numpy()
    if not graphs.any():
        return
    made = pd.MultiIndex.from_frame(trace.graphs[["process", "node"]])
    launched = pd.MultiIndex.from_frame(ops.loc[graphs, ["process", "graph_node"]])
    if number := int((~launched.isin(made)).sum()):
        yield Warning_(
            "graph-capture",
            f"nothing says where the graph of {plural(number, 'whole graph launch')} was captured: "
            "captured_path is empty",
            "nsys writes it from 2024.2 on, for graphs that are made while it records.",
        )
