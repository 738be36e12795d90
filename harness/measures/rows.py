# SPDX-License-Identifier: MIT
"""The rows of a view, and which row every lineage, range and op belongs to."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.attribute.arrays import Ints, Mask, distinct, numbered
from harness.attribute.engine import Attribution
from harness.trace import KINDS


@dataclass(frozen=True)
class Rows:
    """The rows of a view: ``columns`` describe them, the arrays say which row a thing is in."""

    count: int
    columns: dict[str, npt.NDArray[Any]]
    of_lineage: Ints  # node of nest.lineages -> row
    of_start_end: Ints  # start/end range -> row
    of_range: Ints  # row of trace.ranges -> row
    nested_again: Mask  # by lineage node: a range of the same row is open around it
    outside: Ints  # thread -> row of what it launched outside (beyond ``count``), or empty
    parent: Ints  # row -> parent row, -1; only for paths


def path_rows(found: Attribution) -> Rows:
    """One row a (process, path); domains and styles apart."""
    nest, labels = found.nest, found.labels
    nodes = distinct(nest.path)
    process_of = nest.paths.root_of()[nodes]
    start_end_label = labels.of_range[found.start_end_rows].astype(np.int64)
    stride = max(1, len(labels))
    process = found.start_end.process.astype(np.int64)
    keys, start_end_at = numbered(process * stride + start_end_label)
    label = np.concatenate([nest.paths.label[nodes], keys % stride])
    processes = np.concatenate([process_of, keys // stride])
    paths = path_tuples(found, nodes) + [(str(labels.name[at]),) for at in keys % stride]
    path = np.empty(len(paths), dtype=object)
    path[:] = paths
    row_of_node = np.full(nest.paths.size, -1)
    row_of_node[nodes] = np.arange(len(nodes))
    of_start_end = len(nodes) + start_end_at
    of_range = np.full(len(found.trace.ranges), -1)
    of_range[nest.rows] = row_of_node[nest.path]
    of_range[found.start_end_rows] = of_start_end
    of_lineage = np.full(nest.lineages.size, -1)
    real = nest.lineages.label >= 0
    of_lineage[real] = row_of_node[nest.lineages.label[real]]
    # A path repeats around itself only where what an autograd thread inherits differs by depth.
    odd = real & (nest.lineages.level != nest.paths.level[nest.lineages.label])
    parent = np.full(len(paths), -1)
    above = nest.paths.parent[nodes]
    while bool((unknown := (above >= nest.paths.roots) & (row_of_node[above] < 0)).any()):
        above = np.where(unknown, nest.paths.parent[above], above)
    parent[: len(nodes)] = np.where(above >= nest.paths.roots, row_of_node[above], -1)
    return Rows(
        count=len(paths),
        columns={
            "pid": _pids(found)[processes],
            "path": path,
            "domain": labels.domain[label],
            "name": labels.name[label],
            "style": labels.style[label],
        },
        of_lineage=of_lineage,
        of_start_end=of_start_end,
        of_range=of_range,
        nested_again=nested_again(found, of_lineage, np.flatnonzero(real & odd.any())),
        outside=np.empty(0, np.int64),
        parent=parent,
    )


def name_rows(found: Attribution) -> Rows:
    """One row a (domain, name, style) and thread; then one a thread for what is outside."""
    nest, labels, threads = found.nest, found.labels, found.trace.threads
    stride = max(1, len(labels))
    ranges = found.trace.ranges
    opener = ranges["thread"].to_numpy().astype(np.int64)
    keys, of_range = numbered(opener * stride + labels.of_range)
    label, thread = keys % stride, keys // stride
    lineages = nest.lineages
    of_lineage = np.full(lineages.size, -1)
    real = np.flatnonzero(lineages.label >= 0)
    node_label = nest.paths.label[lineages.label[real]]
    of_lineage[real] = np.searchsorted(keys, lineages.root_of()[real] * stride + node_label)
    blank = np.full(len(threads), "", dtype=object)
    return Rows(
        count=len(keys),
        columns={
            "domain": np.concatenate([labels.domain[label], blank]),
            "name": np.concatenate([labels.name[label], blank]),
            "style": np.concatenate([labels.style[label], blank]),
            "pid": np.concatenate([threads["pid"].to_numpy()[thread], threads["pid"].to_numpy()]),
            "tid": np.concatenate([threads["tid"].to_numpy()[thread], threads["tid"].to_numpy()]),
        },
        of_lineage=of_lineage,
        of_start_end=of_range[found.start_end_rows],
        of_range=of_range,
        nested_again=nested_again(found, of_lineage, real),
        outside=len(keys) + np.arange(len(threads)),
        parent=np.full(len(keys), -1),
    )


def nested_again(found: Attribution, of_lineage: Ints, nodes: Ints) -> Mask:
    """Which of the lineage ``nodes`` have a range of their own row around them."""
    owner, member = found.nest.lineages.ancestry(nodes)
    around = member != nodes[owner]
    owner, member = owner[around], member[around]
    same = of_lineage[member] == of_lineage[nodes[owner]]
    again = np.zeros(found.nest.lineages.size, dtype=bool)
    again[nodes[owner[same]]] = True
    return again


def path_row_of_node(found: Attribution, rows: Rows) -> Ints:
    """Row of ``path_rows`` for each node of ``found.nest.paths``, -1 for none."""
    out = np.full(found.nest.paths.size, -1)
    out[found.nest.path] = rows.of_range[found.nest.rows]
    return out


def _pids(found: Attribution) -> Ints:
    pids = np.zeros(len(found.processes), np.int64)
    pids[found.thread_process] = found.trace.threads["pid"].to_numpy()
    return pids


def path_tuples(found: Attribution, nodes: Ints) -> list[tuple[str, ...]]:
    """The names along each node of ``found.nest.paths``; () for -1."""
    tree = found.nest.paths
    owner, member = tree.ancestry(np.asarray(nodes, dtype=np.int64))
    flat = found.labels.name[tree.label[member]].tolist() if len(member) else []
    bounds = np.searchsorted(owner, np.arange(len(nodes) + 1)).tolist()
    return [tuple(flat[a:b]) for a, b in itertools.pairwise(bounds)]


@dataclass(frozen=True)
class Ops:
    kind: npt.NDArray[Any]
    start: Ints
    end: Ints
    keep: Mask

    @classmethod
    def of(cls, found: Attribution) -> Ops:
        frame = found.trace.gpu_ops
        kind = frame["kind"].cat
        order = np.array([KINDS.index(k) for k in kind.categories], dtype=np.int64)
        codes = kind.codes.to_numpy()
        return cls(
            codes if (order == np.arange(len(order))).all() else order[codes],
            frame["start"].to_numpy(),
            frame["end"].to_numpy(),
            np.ones(len(frame), bool) if found.keep_op is None else found.keep_op,
        )

    @property
    def is_kernel(self) -> Mask:
        is_kernel: Mask = np.logical_and(self.keep, self.kind == KINDS.index("kernel"))
        return is_kernel


def members(found: Attribution, rows: Rows) -> tuple[Ints, Ints]:
    """(context, row) of every push/pop row a context belongs to, each once."""
    contexts = found.contexts
    lineages = found.nest.lineages
    owner, row = [], []
    for side in (contexts.own, contexts.inherited):
        has = np.flatnonzero(side >= 0)
        at, node = lineages.ancestry(side[has])
        if found.keep_lineage is not None:
            shown = found.keep_lineage[node]
            at, node = at[shown], node[shown]
        owner.append(has[at])
        row.append(rows.of_lineage[node])
    return _distinct(np.concatenate(owner), np.concatenate(row), rows.count)


def start_end_members(found: Attribution, rows: Rows) -> tuple[Ints, Ints]:
    """(op, row) of every start/end row that claims a kept op, each once."""
    claims = found.claims
    op, row = claims.query, rows.of_start_end[claims.position]
    if found.keep_op is not None:
        keep = found.keep_op[op]
        op, row = op[keep], row[keep]
    return _distinct(op, row, rows.count)


def _distinct(owner: Ints, row: Ints, rows: int) -> tuple[Ints, Ints]:
    keys = distinct(owner * (rows + 1) + row)
    return keys // (rows + 1), keys % (rows + 1)
