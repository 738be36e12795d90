# SPDX-License-Identifier: MIT
"""Attribution in, one frame a view out: ranges, names, kernels, ops, and what compare needs.

Every frame has the columns of its view first and in order; all times are ns. Pure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from harness import measures
from harness.attribute.arrays import Ints, numbered
from harness.attribute.engine import RULES, Attribution
from harness.attribute.forward import forward_nodes
from harness.attribute.graphs import as_if_launched, capture_points
from harness.measures import (
    Ops,
    Rows,
    busy,
    claimed,
    distribution,
    layer_rows,
    name_rows,
    path_row_of_node,
    path_rows,
    path_tuples,
    per_instance,
    quantiles,
    totals,
)

RANGE_COLUMNS = [
    "pid", "path", "domain", "name", "style", "instances", "open", "cpu_ns",
    "kernels", "memcpys", "memsets", "self_kernels", "self_kernel_ns",
    "total_kernel_ns", "self_gpu_ns", "total_gpu_ns", "busy_ns", "span_ns",
]  # fmt: skip
NAME_COLUMNS = ["domain", "name", "style", "pid", "tid", *RANGE_COLUMNS[5:]]
EXTRA_COLUMNS = ["graphs", "idle_ns"]
KERNEL_COLUMNS = [
    "domain", "name", "style", "pid", "tid", "kernel", "instances", "kernels",
    "total_ns", "avg_ns", "median_ns", "min_ns", "max_ns", "stddev_ns",
]  # fmt: skip
LAYER_COLUMNS = [
    "pid", "path", "domain", "name", "style", "instances",
    "forward_ns", "backward_ns", "total_ns", "backward_ops",
]  # fmt: skip
COMMUNICATION_COLUMNS = [
    "pid", "path", "domain", "name", "style", "instances", "cpu_ns", "kernels", "total_gpu_ns",
    "compute_ns", "comm_kernels", "comm_ns", "exposed_ns",
]  # fmt: skip
LATENCY_COLUMNS = [
    "pid", "path", "domain", "name", "style", "instances", "cpu_ns", "busy_ns", "span_ns",
    "idle_ns", "launch_delay_median_ns", "launch_delay_p99_ns",
]  # fmt: skip
OP_COLUMNS = [
    "kind", "name", "start_ns", "end_ns", "device", "stream", "pid", "tid",
    "correlation", "path", "rule", "captured_path", "forward_path",
]  # fmt: skip
NAME_KINDS = {"short": "name", "demangled": "demangled", "mangled": "mangled"}


def ranges(found: Attribution) -> pd.DataFrame:
    """One row a process and path, threads merged, in tree order."""
    rows = path_rows(found)
    return in_tree_order(_measured(found, rows), rows.parent, [*RANGE_COLUMNS, *EXTRA_COLUMNS])


def names(found: Attribution) -> pd.DataFrame:
    """One row a (domain, name, style) and thread that opened it; a recursive range counts once."""
    out = _measured(found, name_rows(found))
    by = out[out["instances"] > 0].sort_values(["pid", "tid", "first_ns"], kind="stable")
    return by[[*NAME_COLUMNS, *EXTRA_COLUMNS]].reset_index(drop=True)


def kernels(found: Attribution, names: str = "short") -> pd.DataFrame:
    """One row a range name and kernel, as ``nvtx_kern_sum``; kernels outside every range come
    with an empty name and style under the thread that launched them."""
    rows = name_rows(found)
    kernel = found.trace.gpu_ops[NAME_KINDS[names]].cat
    table = distribution(found, rows, kernel.codes.to_numpy().astype(np.int64))
    out = pd.DataFrame({c: v[table["row"]] for c, v in rows.columns.items() if c in KERNEL_COLUMNS})
    out["kernel"] = np.asarray(kernel.categories, dtype=object)[table["kernel"]]
    for column in KERNEL_COLUMNS[6:]:
        out[column] = table[column]
    by = out.sort_values(
        ["domain", "name", "style", "pid", "tid", "total_ns", "kernel"],
        ascending=[True, True, True, True, True, False, True],
    )
    return by[KERNEL_COLUMNS].reset_index(drop=True)


def ops(found: Attribution, names: str = "short") -> pd.DataFrame:
    """One row a GPU op, in the order of their start."""
    frame = found.trace.gpu_ops
    threads = found.trace.threads
    thread = found.launching_thread
    linked = thread >= 0
    pid = frame["process"].to_numpy() & 0xFFFFFF
    if len(threads):
        pid = np.where(linked, threads["pid"].to_numpy()[thread], pid)
        tid = np.where(linked, threads["tid"].to_numpy()[thread], -1)
    else:
        tid = np.full(len(frame), -1)
    out = pd.DataFrame(
        {
            "kind": frame["kind"],
            "name": frame[NAME_KINDS[names]],
            "start_ns": frame["start"],
            "end_ns": frame["end"],
            "device": frame["device"],
            "stream": frame["stream"],
            "pid": pid,
            "tid": tid,
            "correlation": frame["correlation"],
            "path": op_paths(found),
            "rule": pd.Categorical.from_codes(found.rule, categories=pd.Index(RULES)),
            "captured_path": captured_paths(found),
            "forward_path": forward_paths(found),
        }
    )[OP_COLUMNS]
    if found.keep_op is not None:
        out = out[found.keep_op]
    return out.sort_values(["start_ns", "end_ns"], kind="stable").reset_index(drop=True)


def op_paths(found: Attribution) -> pd.Categorical:
    """Path of each op as a categorical of tuples: () for outside and unlinked ops."""
    nodes = found.path_node
    used, codes = numbered(nodes)
    paths = path_tuples(found, used)
    single = np.flatnonzero((nodes < 0) & (found.last_opened >= 0))
    if len(single):
        label = found.labels.of_range[found.start_end_rows[found.last_opened[single]]]
        extra, extra_codes = numbered(label)
        codes = codes.copy()
        codes[single] = len(paths) + extra_codes
        paths = [*paths, *((str(found.labels.name[at]),) for at in extra)]
    return _tuple_categorical(codes, paths)


def forward_paths(found: Attribution) -> pd.Categorical:
    """Path in which the forward op of each backward op ran: () where none is known."""
    used, codes = numbered(forward_nodes(found))
    return _tuple_categorical(codes, path_tuples(found, used))


def captured_paths(found: Attribution) -> pd.Categorical:
    """Path in which each op's CUDA graph node was captured: () where none is known.

    It is the path that a launch at that moment, on that thread, would have had.
    """
    points = capture_points(found.trace, found.launch)
    paths: list[tuple[str, ...]] = [()]
    codes = np.zeros(len(points.of_op), np.int64)
    if len(points.thread):
        there = op_paths(as_if_launched(found, points))
        paths += list(there.categories)
        codes = np.append(there.codes.astype(np.int64) + 1, 0)[points.of_op]
    return _tuple_categorical(codes, paths)


def instances(found: Attribution) -> pd.DataFrame:
    """One row a range instance: who, where, when, and what it cost in total (nested included)."""
    out = instance_table(found)
    if found.keep_range is not None:
        out = out[found.keep_range]
    return out.sort_values(["start_ns", "end_ns"], kind="stable").reset_index(drop=True)


def instance_table(found: Attribution) -> pd.DataFrame:
    """As ``instances``, but every range in the order of ``found.trace.ranges``."""
    trace = found.trace
    measure = per_instance(found)
    ranges = trace.ranges
    threads = trace.threads
    thread = ranges["thread"].to_numpy()
    nodes = np.full(len(ranges), -1, np.int64)
    nodes[found.nest.rows] = found.nest.path
    used, codes = numbered(nodes)
    paths = path_tuples(found, used)
    if len(found.start_end_rows):
        labels, inverse = numbered(found.labels.of_range[found.start_end_rows])
        codes = codes.copy()
        codes[found.start_end_rows] = len(paths) + inverse
        paths = [*paths, *((str(found.labels.name[at]),) for at in labels)]
    return pd.DataFrame(
        {
            "process": threads["process"].to_numpy()[thread],
            "pid": threads["pid"].to_numpy()[thread],
            "tid": threads["tid"].to_numpy()[thread],
            "path": _tuple_categorical(codes, paths),
            "domain": ranges["domain"],
            "name": ranges["name"],
            "style": ranges["style"],
            "start_ns": ranges["start"],
            "end_ns": ranges["end"],
            "open": ranges["open"],
            "cpu_ns": ranges["end"] - ranges["start"],
            **measure,
        }
    )


def layers(found: Attribution) -> pd.DataFrame:
    """One row a path: GPU time (ns) of the ops launched in it, of the backward ops that belong to
    the forward ops in it, and both; nested ranges included. Calls of an operator are one row.

    A backward op whose forward range is known counts there and not where backward was called; one
    that no range claims under the policy counts nowhere, so that outermost rows add up as in
    ``ranges``.
    """
    rows = layer_rows(found)
    node = forward_nodes(found)
    ops = Ops.of(found)
    known = (node >= 0) & claimed(found)
    home = replace(found, keep_op=ops.keep & ~known)
    out = {name: values[: rows.count] for name, values in rows.columns.items()}
    measured = totals(home, rows)
    backward, number = np.zeros(rows.count, np.int64), np.zeros(rows.count, np.int64)
    at = np.flatnonzero(known & ops.keep)
    used, inverse = numbered(node[at])
    owner, member = found.nest.paths.ancestry(used)
    row = path_row_of_node(found, rows)[member]
    owner, row = owner[row >= 0], row[row >= 0]
    np.add.at(backward, row, np.bincount(inverse, found.duration[at], len(used)).astype(int)[owner])
    np.add.at(number, row, np.bincount(inverse, minlength=len(used))[owner])
    table = pd.DataFrame(
        {
            **out,
            "instances": measured["instances"],
            "forward_ns": measured["total_gpu_ns"],
            "backward_ns": backward,
            "total_ns": measured["total_gpu_ns"] + backward,
            "backward_ops": number,
            "first_ns": measured["first_ns"],
        }
    )
    return in_tree_order(table, rows.parent, LAYER_COLUMNS)


def latency(found: Attribution) -> pd.DataFrame:
    """One row a path: launch delay (API call's start to the op's start; ns) of the ops in it."""
    rows = path_rows(found)
    linked = found.launch >= 0
    start = found.trace.gpu_ops["start"].to_numpy()
    delay = np.zeros(len(start), np.int64)
    if linked.any():
        launched = found.trace.launches["start"].to_numpy()[found.launch[linked]]
        delay[linked] = start[linked] - launched
    table = quantiles(found, rows, delay)
    measured = _measured(found, rows)
    for name, values in table.items():
        measured[name] = values
    return in_tree_order(measured, rows.parent, LATENCY_COLUMNS)


def communication(found: Attribution) -> pd.DataFrame:
    """One row a path: communication kernels (NCCL and the like) in it, their device time (ns), and
    the part of it that no computing kernel hides; ``compute_ns`` is the time of all other ops."""
    rows = path_rows(found)
    table = {name: values[: rows.count] for name, values in rows.columns.items()}
    table.update(totals(found, rows))
    table.update(measures.communication(found, rows))
    table["compute_ns"] = table["total_gpu_ns"] - table["comm_ns"]
    return in_tree_order(pd.DataFrame(table), rows.parent, COMMUNICATION_COLUMNS)


def path_kernels(found: Attribution, names: str = "short") -> pd.DataFrame:
    """One row a path and kernel: how many ran in it, nested ranges included, and how long."""
    rows = path_rows(found)
    kernel = found.trace.gpu_ops[NAME_KINDS[names]].cat
    table = distribution(found, rows, kernel.codes.to_numpy().astype(np.int64))
    keep = table["row"] < rows.count
    at = table["row"][keep]
    out = pd.DataFrame(
        {
            **{c: rows.columns[c][at] for c in ("pid", "path", "domain", "style")},
            "kernel": np.asarray(kernel.categories, dtype=object)[table["kernel"][keep]],
            "kernels": table["kernels"][keep],
            "total_ns": table["total_ns"][keep],
        }
    )
    by = ["pid", "path", "domain", "style", "total_ns"]
    return out.sort_values(by, ascending=[True] * 4 + [False], kind="stable").reset_index(drop=True)


def _measured(found: Attribution, rows: Rows) -> pd.DataFrame:
    out = {name: values[: rows.count] for name, values in rows.columns.items()}
    out.update(totals(found, rows))
    out["busy_ns"] = busy(found, rows)
    out["idle_ns"] = out["span_ns"] - np.minimum(out["busy_ns"], out["span_ns"])
    return pd.DataFrame(out)


def in_tree_order(table: pd.DataFrame, parent: Ints, columns: list[str]) -> pd.DataFrame:
    """``columns`` of the rows of a tree that have ranges, parents before children."""
    order = tree_order(parent, table["pid"].to_numpy(), table["first_ns"].to_numpy())
    table = table.iloc[order]
    return table[table["instances"] > 0][columns].reset_index(drop=True)


def tree_order(parent: Ints, pid: Ints, first: Ints) -> Ints:
    """Row order: parents before children, siblings by first start, processes by pid."""
    level = np.zeros(len(parent), np.int64)
    above = parent.copy()
    while bool((above >= 0).any()):
        level += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    size = np.ones(len(parent), np.int64)
    for depth in range(int(level.max(initial=0)), 0, -1):
        at = np.flatnonzero(level == depth)
        np.add.at(size, parent[at], size[at])
    place = np.zeros(len(parent), np.int64)
    for depth in range(int(level.max(initial=-1)) + 1):
        at = np.flatnonzero(level == depth)
        at = at[np.lexsort((first[at], parent[at], pid[at]))]
        ahead = np.cumsum(size[at]) - size[at]
        new = np.ones(len(at), dtype=bool)
        new[1:] = parent[at][1:] != parent[at][:-1]
        siblings = ahead - ahead[np.flatnonzero(new)][np.cumsum(new) - 1]
        place[at] = siblings if depth == 0 else place[parent[at]] + 1 + siblings
        if depth == 0:
            place[at] = ahead
    return np.argsort(place, kind="stable")


def _tuple_categorical(codes: np.ndarray[Any, Any], paths: list[tuple[str, ...]]) -> pd.Categorical:
    """A categorical of tuples; equal tuples (of different domains) share a category."""
    unique: dict[tuple[str, ...], int] = {}
    place = np.array([unique.setdefault(path, len(unique)) for path in paths], dtype=np.int64)
    categories = pd.Index(list(unique), dtype=object, tupleize_cols=False)
    return pd.Categorical.from_codes(place[codes] if len(codes) else codes, categories=categories)


__all__ = [
    "communication", "instances", "kernels", "latency", "layers", "names", "op_paths", "ops",
    "path_kernels", "ranges",
]  # fmt: skip
