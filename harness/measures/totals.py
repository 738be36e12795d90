# SPDX-License-Identifier: MIT
"""Counts and sums of every row, and of every range instance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.attribute.arrays import Ints, blocks
from harness.attribute.engine import Attribution
from harness.measures.rows import Ops, Rows, members, start_end_members
from harness.trace import KINDS

_LATE, _EARLY = np.iinfo(np.int64).max, np.iinfo(np.int64).min


def totals(found: Attribution, rows: Rows) -> dict[str, Ints]:
    """Counts and sums of rows 0..count-1; ``first_ns`` is the start of the row's first range,
    ``first_op_ns`` and ``last_op_ns`` the extremes of its ops (beyond all times without any)."""
    out = range_totals(found, rows)
    ops = Ops.of(found)
    count = rows.count
    base = _Sums.of(found, ops)
    # Once a context, then over its rows.
    owner, row = members(found, rows)
    shape = (count, len(KINDS))
    number, ns = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    first, last = np.full(count, _LATE), np.full(count, _EARLY)
    np.add.at(number, row, base.number[owner])
    np.add.at(ns, row, base.ns[owner])
    np.minimum.at(first, row, base.first[owner])
    np.maximum.at(last, row, base.last[owner])

    op, row = start_end_members(found, rows)
    np.add.at(number, (row, ops.kind[op]), 1)
    np.add.at(ns, (row, ops.kind[op]), found.duration[op])
    np.minimum.at(first, row, ops.start[op])
    np.maximum.at(last, row, ops.end[op])

    self_number, self_ns = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    leaf = np.where(found.contexts.own >= 0, found.contexts.own, found.contexts.inherited)
    np.add.at(self_number, rows.of_lineage[leaf], base.number)
    np.add.at(self_ns, rows.of_lineage[leaf], base.ns)
    at = np.flatnonzero(ops.keep & (found.last_opened >= 0))
    self_row = rows.of_start_end[found.last_opened[at]]
    np.add.at(self_number, (self_row, ops.kind[at]), 1)
    np.add.at(self_ns, (self_row, ops.kind[at]), found.duration[at])
    kernel, memcpy, memset, graph = range(4)
    out.update(
        kernels=number[:, kernel],
        memcpys=number[:, memcpy],
        memsets=number[:, memset],
        graphs=number[:, graph],
        self_kernels=self_number[:, kernel],
        self_kernel_ns=self_ns[:, kernel],
        total_kernel_ns=ns[:, kernel],
        self_gpu_ns=self_ns.sum(axis=1),
        total_gpu_ns=ns.sum(axis=1),
        span_ns=np.where(number.sum(axis=1) > 0, last - first, 0),
        first_op_ns=first,
        last_op_ns=last,
    )
    return out


@dataclass(frozen=True)
class _Sums:
    """Of the ops of each context: counts and sums by kind, first start and last end; ns."""

    number: Ints
    ns: Ints
    first: Ints
    last: Ints

    @classmethod
    def of(cls, found: Attribution, ops: Ops) -> _Sums:
        size, kinds = len(found.contexts.own), len(KINDS)
        number, ns = np.zeros(size * kinds, np.int64), np.zeros(size * kinds, np.int64)
        first, last = np.full(size, _LATE), np.full(size, _EARLY)
        for block in blocks(len(ops.kind)):
            context, kind = found.contexts.of_op[block], ops.kind[block]
            inside = context >= 0
            if found.keep_op is not None:
                inside &= ops.keep[block]
            at = slice(None) if inside.all() else np.flatnonzero(inside)
            context = context[at]
            slot = context * kinds
            slot += kind[at]
            np.add.at(number, slot, 1)
            np.add.at(ns, slot, found.duration[block][at])
            np.minimum.at(first, context, ops.start[block][at])
            np.maximum.at(last, context, ops.end[block][at])
        return cls(number.reshape(size, kinds), ns.reshape(size, kinds), first, last)


def range_totals(found: Attribution, rows: Rows) -> dict[str, Ints]:
    """Of the ranges of each row: how many, how many never closed, CPU time, first start; ns."""
    ranges = found.trace.ranges
    keep = np.ones(len(ranges), bool) if found.keep_range is None else found.keep_range
    start = ranges["start"].to_numpy()
    opened = ranges["open"].to_numpy()
    outermost = np.ones(len(ranges), dtype=bool)
    outermost[found.nest.rows] = ~rows.nested_again[found.nest.lineage]
    first = np.full(rows.count, np.iinfo(np.int64).max)
    np.minimum.at(first, rows.of_range, start)
    cpu = np.zeros(rows.count, np.int64)
    at = np.flatnonzero(keep & ~opened & outermost)
    np.add.at(cpu, rows.of_range[at], (ranges["end"].to_numpy() - start)[at])
    return {
        "instances": np.bincount(rows.of_range[keep], minlength=rows.count),
        "open": np.bincount(rows.of_range[keep & opened], minlength=rows.count),
        "cpu_ns": cpu,
        "first_ns": first,
    }


def per_instance(found: Attribution) -> dict[str, Ints]:
    """Totals of every range instance (by row of trace.ranges), nested ranges included."""
    forest, ops = found.nest.forest, Ops.of(found)
    value = np.zeros((len(ops.kind), 5), np.int64)
    value[:, 0], value[:, 1], value[:, 2] = ops.kind == 0, ops.kind == 1, ops.kind == 2
    value[:, 3] = np.where(ops.kind == 0, found.duration, 0)
    value[:, 4] = found.duration
    value[~ops.keep] = 0
    chained = np.zeros((len(forest), 5), np.int64)
    listed = np.zeros((len(forest), 5), np.int64)
    for located in (found.own_leaf, found.inherited_leaf):
        explicit = np.zeros(len(ops.kind), dtype=bool)
        explicit[located.pairs.query] = True
        at = np.flatnonzero((located.leaf >= 0) & ~explicit)
        np.add.at(chained, located.leaf[at], value[at])
        np.add.at(listed, located.pairs.position, value[located.pairs.query])
    by_depth = np.argsort(forest.depth, kind="stable")
    bounds = np.searchsorted(forest.depth[by_depth], np.arange(forest.depth.max(initial=0) + 2))
    for depth in range(len(bounds) - 2, 0, -1):
        at = by_depth[bounds[depth] : bounds[depth + 1]]
        at = at[~forest.irregular[forest.thread[at]]]
        np.add.at(chained, forest.parent[at], chained[at])
    out = np.zeros((len(found.trace.ranges), 5), np.int64)
    out[found.nest.rows] = chained + listed
    claimed = np.zeros((len(found.start_end_rows), 5), np.int64)
    np.add.at(claimed, found.claims.position, value[found.claims.query])
    out[found.start_end_rows] = claimed
    names = ("kernels", "memcpys", "memsets", "total_kernel_ns", "total_gpu_ns")
    return {name: out[:, i] for i, name in enumerate(names)}
