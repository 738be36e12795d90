# SPDX-License-Identifier: MIT
"""What nsys does not record of CUDA graphs, as far as a recording betrays it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from harness.attribute.arrays import Ints, Mask
from harness.trace import Trace, Warning_

_UPDATE = re.compile(r"^cu(da)?Graph(ExecUpdate|Exec\w*NodeSetParams|\w*NodeSetParams)")
_UPLOAD = re.compile(r"^cu(da)?GraphUpload")


def graph_warnings(trace: Trace, unlinked: Mask) -> Iterator[Warning_]:
    """``unlinked``: ops without a launch."""
    if trace.source.kind != "nsys":
        return
    yield from _without_correlation(trace, unlinked)
    yield from _launched_on_the_device(trace)
    yield from _updated(trace)


def _without_correlation(trace: Trace, unlinked: Mask) -> Iterator[Warning_]:
    """CUPTI writes correlation 0 for what no call of the host launched."""
    ops = trace.gpu_ops
    none = unlinked & (ops["correlation"].to_numpy() == 0)
    if not none.any():
        return
    ns = int((ops["end"].to_numpy() - ops["start"].to_numpy())[none].sum())
    graphs = none & (ops["kind"] == "graph").to_numpy()
    if graphs.any():
        what = f"{int(graphs.sum())} CUDA graphs were launched from the device"
        hint = (
            "No call of the host started them, so no range claims them: see the range that launches"
            " the graph whose kernel does."
        )
        if int(graphs.sum()) < int(none.sum()):
            what += f", {int((none & ~graphs).sum())} other ops without a call"
    else:
        what = f"{int(none.sum())} GPU ops were launched by no call of the host"
        hint = (
            "Kernels in conditional nodes of a CUDA graph carry no correlation id. Recorded as a "
            "whole (harness run --graphs graph), the graph has its time in the range that replays "
            "it."
        )
    yield Warning_("no-correlation", f"{what} ({ns} ns): they stay unlinked", hint)


def _launched_on_the_device(trace: Trace) -> Iterator[Warning_]:
    uploads = int(_calls(trace, _UPLOAD).sum())
    if uploads and len(trace.graph_nodes):
        yield Warning_(
            "device-graphs",
            f"cudaGraphUpload was called {uploads} times: if a kernel launched such a graph from "
            "the device, its kernels are missing here",
            "nsys records device-launched graphs only as wholes (harness run --graphs graph).",
        )


def _updated(trace: Trace) -> Iterator[Warning_]:
    """Asked of a trace with the nodes of its ops; other views have no use for it."""
    ops = trace.gpu_ops
    replayed = ops["graph_node"].to_numpy() >= 0
    calls = _calls(trace, _UPDATE)
    if not replayed.any() or not calls.any():
        return
    process = trace.threads["process"].to_numpy()[trace.launches["thread"].to_numpy()[calls]]
    start: Ints = trace.launches["start"].to_numpy()[calls]
    count = 0
    for one in np.unique(process):
        later = ops["start"].to_numpy() > start[process == one].min()
        count += int((replayed & later & (ops["process"].to_numpy() == one)).sum())
    if count:
        yield Warning_(
            "graph-updated",
            f"{count} GPU ops of CUDA graphs ran after a graph was updated in place: captured_path "
            "is where their node was first captured, and empty where it ran another kernel before",
            "nsys does not record which graph an update came from; a graph that is instantiated "
            "anew keeps its ranges.",
        )


def _calls(trace: Trace, pattern: re.Pattern[str]) -> Mask:
    names = trace.launches["name"].cat
    wanted = [i for i, name in enumerate(names.categories) if pattern.match(str(name))]
    if not wanted:
        return np.zeros(len(trace.launches), dtype=bool)
    return np.isin(names.codes.to_numpy(), wanted)
