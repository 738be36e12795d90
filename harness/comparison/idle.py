# SPDX-License-Identifier: MIT
"""How long the GPU waited between the ops of one range instance."""

from __future__ import annotations

import numpy as np

from harness.attribute.arrays import Ints
from harness.attribute.engine import Attribution
from harness.measures import Ops, per_instance

_NEVER = np.iinfo(np.int64).max


def idle_of_instances(found: Attribution) -> Ints:
    """By row of ``trace.ranges``: from the instance's first op's start to its last op's end, less
    its ops' own time, ns; 0 where ops overlap, -1 for an instance without ops."""
    first, negated_last = (_earliest(found, times) for times in _bounds(found))
    busy = per_instance(found)["total_gpu_ns"]
    with_ops = first != _NEVER
    out = np.full(len(first), -1, np.int64)
    span = -negated_last[with_ops] - first[with_ops]
    out[with_ops] = np.maximum(span - busy[with_ops], 0)
    return out


def _bounds(found: Attribution) -> tuple[Ints, Ints]:
    """Starts and negated ends of the ops, so that the earliest of each bounds a span."""
    ops = Ops.of(found)
    start = np.where(ops.keep, ops.start, _NEVER)
    return start, np.where(ops.keep, -ops.end, _NEVER)


def _earliest(found: Attribution, times: Ints) -> Ints:
    """The least of ``times`` (one an op) in each range, nested ranges included."""
    forest = found.nest.forest
    chained = np.full(len(forest), _NEVER)
    listed = np.full(len(forest), _NEVER)
    for located in (found.own_leaf, found.inherited_leaf):
        explicit = np.zeros(len(times), dtype=bool)
        explicit[located.pairs.query] = True
        at = np.flatnonzero((located.leaf >= 0) & ~explicit)
        np.minimum.at(chained, located.leaf[at], times[at])
        np.minimum.at(listed, located.pairs.position, times[located.pairs.query])
    by_depth = np.argsort(forest.depth, kind="stable")
    bounds = np.searchsorted(forest.depth[by_depth], np.arange(forest.depth.max(initial=0) + 2))
    for depth in range(len(bounds) - 2, 0, -1):
        at = by_depth[bounds[depth] : bounds[depth + 1]]
        at = at[~forest.irregular[forest.thread[at]]]
        np.minimum.at(chained, forest.parent[at], chained[at])
    out = np.full(len(found.trace.ranges), _NEVER)
    out[found.nest.rows] = np.minimum(chained, listed)
    claimed = np.full(len(found.start_end_rows), _NEVER)
    np.minimum.at(claimed, found.claims.position, times[found.claims.query])
    out[found.start_end_rows] = claimed
    return out
