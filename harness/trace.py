# SPDX-License-Identifier: MIT
"""The one model both readers yield: what ran, who launched it, which ranges were open.

All times are integer nanoseconds on one clock. Text columns are pandas categoricals, so a
million ranges that share twenty names cost a million small integers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from harness.attribute import Attribution

#: Column -> dtype of each frame ("category" columns hold text).
THREAD_COLUMNS = {
    "process": "int64",  # unique within the trace: nsys ``globalTid >> 24``; Kineto the pid
    "pid": "int64",
    "tid": "int64",
    "name": "object",  # the thread's name, "" when not recorded
    "autograd": "bool",  # runs PyTorch's backward (name pt_autograd_*, or fwdbwd links end here)
}
RANGE_COLUMNS = {
    "thread": "int32",  # row of ``threads``: the thread that opened the range
    "start": "int64",
    "end": "int64",
    "name": "category",
    "domain": "category",  # "" is the default domain
    "style": "category",  # push_pop | start_end
    "open": "bool",  # never closed: ``end`` is the end of the capture
}
LAUNCH_COLUMNS = {
    "thread": "int32",
    "start": "int64",
    "end": "int64",
    "correlation": "int64",
    "name": "category",  # the API call
}
GPU_OP_COLUMNS = {
    "kind": "category",  # kernel | memcpy | memset | graph
    "start": "int64",
    "end": "int64",
    "process": "int64",
    "correlation": "int64",  # -1: none recorded
    "device": "int32",
    "context": "int32",
    "stream": "int64",
    "name": "category",  # kernels: the short name; copies and sets: what they do
    "demangled": "category",
    "mangled": "category",
    "bytes": "int64",  # -1: not a copy or set
    # A graph recorded as a whole: its own number (of the instantiated graph); -1: not part of a
    # CUDA graph, or nodes not recorded.
    "graph_node": "int64",
}
GRAPH_NODE_COLUMNS = {  # also of ``graphs``, whose numbers stand in ``node`` and ``original``
    "process": "int64",
    "node": "int64",
    "original": "int64",  # -1: made by capture or by hand, not cloned from another node
    "thread": "int32",
    "time": "int64",
}
FORWARD_LINK_COLUMNS = {
    "forward_thread": "int32",
    "forward_time": "int64",
    "backward_thread": "int32",
    "backward_time": "int64",
    "backward_end": "int64",
}

KINDS = ("kernel", "memcpy", "memset", "graph")
STYLES = ("push_pop", "start_end")
POLICIES = ("thread", "autograd", "process")


@dataclass(frozen=True)
class Warning_:
    """Something the user should know of a report; ``code`` is stable, ``hint`` says what to do."""

    code: str
    message: str
    hint: str = ""

    def as_dict(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message, "hint": self.hint}


@dataclass(frozen=True)
class Source:
    """Where a trace came from. ``facts``: GPU, driver and tool versions as read from the file."""

    path: str
    kind: str  # "nsys" | "torch"
    producer: str = ""
    version: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, str]:
        return {
            "path": self.path,
            "kind": self.kind,
            "producer": self.producer,
            "version": self.version,
        }


def empty_frame(columns: dict[str, str]) -> pd.DataFrame:
    """A frame with no rows and exactly these columns and dtypes."""
    return pd.DataFrame(
        {
            name: pd.Categorical([], categories=[]) if dtype == "category" else np.empty(0, dtype)
            for name, dtype in columns.items()
        }
    )


#: API calls that each make one GPU op, of that kind.
MAKERS = {
    "kernel": re.compile("cu(da)?Launch(Cooperative)?Kernel"),
    "memcpy": re.compile("cu(da)?Memcpy(?!Batch)"),
    "memset": re.compile("cu(da)?Memset"),
}


def makes(launches: pd.DataFrame, kind: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each row of ``Trace.launches``: does the call make one GPU op of that kind?"""
    return calls_of(launches, MAKERS[kind])


def calls_of(
    launches: pd.DataFrame, pattern: re.Pattern[str]
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each row of ``Trace.launches``: does its name begin as ``pattern`` says?"""
    names = launches["name"].cat
    wanted = [i for i, name in enumerate(names.categories) if pattern.match(str(name))]
    if not wanted:
        return np.zeros(len(launches), dtype=bool)
    return np.isin(names.codes.to_numpy(), wanted)


def frame(columns: dict[str, str], data: dict[str, Any]) -> pd.DataFrame:
    """Build a frame of ``columns`` from arrays, without copying those that already fit."""
    missing = columns.keys() - data.keys()
    if missing:
        raise ValueError(f"columns missing: {sorted(missing)}")
    out: dict[str, Any] = {}
    for name, dtype in columns.items():
        values = data[name]
        if dtype == "category":
            out[name] = values if isinstance(values, pd.Categorical) else pd.Categorical(values)
        else:
            out[name] = np.asarray(values, dtype=dtype)
    return pd.DataFrame(out, copy=False)


@dataclass(frozen=True)
class Trace:
    """One recording. ``threads`` is indexed 0..n-1; other frames name its rows as ``thread``."""

    source: Source
    threads: pd.DataFrame
    ranges: pd.DataFrame
    launches: pd.DataFrame
    gpu_ops: pd.DataFrame
    graph_nodes: pd.DataFrame = field(default_factory=lambda: empty_frame(GRAPH_NODE_COLUMNS))
    #: Graphs made, captured or instantiated; an instantiated one's original is what it came from.
    graphs: pd.DataFrame = field(default_factory=lambda: empty_frame(GRAPH_NODE_COLUMNS))
    forward_links: pd.DataFrame = field(default_factory=lambda: empty_frame(FORWARD_LINK_COLUMNS))
    warnings: tuple[Warning_, ...] = ()

    def attribute(self, policy: str = "autograd") -> Attribution:
        """Attribute every GPU op to the ranges that launched it (see ``harness.attribute``)."""
        from harness.attribute import attribute

        return attribute(self, policy=policy)
