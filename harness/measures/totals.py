# SPDX-License-Identifier: MIT
"""Counts and sums of every row, and of every range instance."""

from __future__ import annotations

import numpy as np

from harness.attribute.arrays import Ints
from harness.attribute.engine import Attribution
from harness.measures.rows import Ops, Rows, members, self_rows, start_end_members
from harness.trace import KINDS


def totals(found: Attribution, rows: Rows) -> dict[str, Ints]:
    """Counts and sums of rows 0..count-1; ``first_ns`` is the start of the row's first range."""
    out = _range_totals(found, rows)
    ops = Ops.of(found)
    count = rows.count
    shape = (count, len(KINDS))
    number, ns = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)

    # Once a context ...
    size = len(found.contexts.own)
    base_number, base_ns = np.zeros((size, 4), np.int64), np.zeros((size, 4), np.int64)
    base_first = np.full(size, np.iinfo(np.int64).max)
    base_last = np.full(size, np.iinfo(np.int64).min)
    inside = np.flatnonzero(ops.keep & (found.contexts.of_op >= 0))
    context = found.contexts.of_op[inside]
    np.add.at(base_number, (context, ops.kind[inside]), 1)
    np.add.at(base_ns, (context, ops.kind[inside]), found.duration[inside])
    np.minimum.at(base_first, context, ops.start[inside])
    np.maximum.at(base_last, context, ops.end[inside])
    # ... then over its rows.
    owner, row = members(found, rows)
    np.add.at(number, row, base_number[owner])
    np.add.at(ns, row, base_ns[owner])
    np.minimum.at(first, row, base_first[owner])
    np.maximum.at(last, row, base_last[owner])

    op, row = start_end_members(found, rows)
    np.add.at(number, (row, ops.kind[op]), 1)
    np.add.at(ns, (row, ops.kind[op]), found.duration[op])
    np.minimum.at(first, row, ops.start[op])
    np.maximum.at(last, row, ops.end[op])

    self_row = self_rows(found, rows)
    at = np.flatnonzero(ops.keep & (self_row >= 0))
    self_number, self_ns = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    np.add.at(self_number, (self_row[at], ops.kind[at]), 1)
    np.add.at(self_ns, (self_row[at], ops.kind[at]), found.duration[at])
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
    )
    return out


def _range_totals(found: Attribution, rows: Rows) -> dict[str, Ints]:
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
