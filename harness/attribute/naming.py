# SPDX-License-Identifier: MIT
"""What ranges are called: labels, paths, and lineages of paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.attribute.arrays import Ints, Mask, Positions, numbered
from harness.attribute.nesting import Forest, Located, Pairs
from harness.attribute.paths import PathTree
from harness.attribute.policy import Callers, StartEnd, find_callers

Codes = npt.NDArray[Any]


@dataclass(frozen=True)
class Labels:
    """What a range is called: one code a distinct (domain, name, style)."""

    of_range: Codes
    domain: npt.NDArray[np.object_]
    name: npt.NDArray[np.object_]
    style: npt.NDArray[np.object_]

    @classmethod
    def of(cls, ranges: pd.DataFrame) -> Labels:
        domain, name, style = (ranges[c].cat for c in ("domain", "name", "style"))
        names, styles = max(1, len(name.categories)), len(style.categories)
        key = domain.codes.to_numpy().astype(np.int64) * names + name.codes.to_numpy()
        key = key * max(1, styles) + style.codes.to_numpy()
        codes, values = pd.factorize(key)
        values = np.asarray(values, dtype=np.int64)
        style_at, rest = values % max(1, styles), values // max(1, styles)
        return cls(
            codes.astype(np.int32),
            np.asarray(domain.categories, dtype=object)[rest // names],
            np.asarray(name.categories, dtype=object)[rest % names],
            np.asarray(style.categories, dtype=object)[style_at],
        )

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class Nest:
    """The push/pop ranges, nested and named.

    ``path`` (one a position) is the node in ``paths`` of the range's own path, what it inherits
    included; ``lineage`` the node in ``lineages`` of the sequence of such paths around it.
    """

    forest: Forest
    rows: Ints  # position -> row of trace.ranges
    label: Codes  # by position
    paths: PathTree  # roots: processes; labels: label codes
    path: Codes
    plain: Codes  # by position: the path without what an autograd thread's range inherits
    lineages: PathTree  # roots: threads; labels: nodes of ``paths``
    lineage: Codes

    def path_of(self, located: Located, process: Codes) -> Codes:
        """Path node of each query's containers, -1 for none: inherited names left out."""
        return _with_pairs(
            _picked(self.plain, located.leaf), located.pairs, self.paths, process, self.label
        )

    def lineage_of(self, located: Located, thread: Codes) -> Codes:
        """Lineage node of each query's containers; -1 for none."""
        return _with_pairs(
            _picked(self.lineage, located.leaf), located.pairs, self.lineages, thread, self.path
        )


@dataclass(frozen=True)
class CallerFinder:
    """Says whose range a launch or range of an autograd thread inherits."""

    forest: Forest
    start_end: StartEnd
    codes: Codes
    autograd: Mask

    def find(self, thread: Codes, start: Ints, end: Ints) -> Callers:
        """Callers of the queries on autograd threads; all others inherit nothing."""
        out = Callers(np.full(len(thread), -1, np.int32), np.zeros(len(thread), dtype=bool))
        if not self.autograd.any():
            return out
        heirs = np.flatnonzero(self.autograd[thread] & (thread >= 0))
        if not len(heirs):
            return out
        # An interval inside a nested range is inside its outermost one too.
        top = np.flatnonzero((self.forest.depth == 0) & ~self.autograd[self.forest.thread])
        other = np.flatnonzero(~self.autograd[self.start_end.thread])
        threads = np.concatenate([self.forest.thread[top], self.start_end.thread[other]])
        found = find_callers(
            self.codes[threads],
            threads,
            np.concatenate([self.forest.start[top], self.start_end.start[other]]),
            np.concatenate([self.forest.end[top], self.start_end.end[other]]),
            self.codes[thread[heirs]],
            start[heirs],
            end[heirs],
        )
        out.thread[heirs] = found.thread
        out.ambiguous[heirs] = found.ambiguous
        return out


def _picked(values: Codes, leaf: Positions) -> Codes:
    """The value at each leaf, -1 where there is none."""
    if not len(values):
        return np.full(len(leaf), -1, np.int32)
    out = values[leaf]
    out[leaf < 0] = -1
    return out


def _with_pairs(out: Codes, pairs: Pairs, tree: PathTree, root: Codes, label: Codes) -> Codes:
    """``out`` with the nodes of the queries whose containers are listed one by one."""
    if len(pairs.query):
        asked, owner = numbered(pairs.query)
        out[asked] = tree.add_sequences(
            root[asked].astype(np.int64), owner, label[pairs.position].astype(np.int64)
        )
    return out


def name_ranges(
    forest: Forest, rows: Ints, labels: Labels, codes: Codes, processes: int, finder: CallerFinder
) -> Nest:
    """Nodes of paths and lineages for every push/pop range; ``rows`` are theirs by position."""
    label = labels.of_range[rows]
    paths = PathTree(processes, max(1, len(labels)))
    plain = _nodes(paths, forest, codes[forest.thread], label)
    path = plain
    lineages = PathTree(len(codes), 0)
    nest = Nest(forest, rows, label, paths, path, plain, lineages, plain)
    if finder.autograd.any():
        heirs = np.flatnonzero(finder.autograd[forest.thread])
        thread, start, end = forest.thread[heirs], forest.start[heirs], forest.end[heirs]
        callers = finder.find(thread, start, end)
        located = forest.locate(callers.thread, start, end)
        prefix = nest.path_of(located, codes[thread])
        got = np.flatnonzero(prefix >= 0)
        path = plain.copy()
        path[heirs[got]] = paths.graft(prefix[got], plain[heirs[got]])
    # Nodes are added to ``paths`` after this; lineages only ever name nodes of ranges.
    lineages = PathTree(len(codes), max(1, paths.size))
    lineage = _nodes(lineages, forest, forest.thread, path)
    return Nest(forest, rows, label, paths, path, plain, lineages, lineage)


def _nodes(tree: PathTree, forest: Forest, root: Codes, label: Codes) -> Codes:
    """Node of each position: by its chain of parents, or container by container if irregular."""
    odd = forest.irregular[forest.thread]
    if not odd.any():
        return tree.add_forest(root, forest.parent, forest.depth, label)
    regular = np.flatnonzero(~odd)
    place = np.full(len(forest) + 1, -1, np.int64)
    place[regular] = np.arange(len(regular))
    nodes = np.empty(len(forest), np.int32)
    nodes[regular] = tree.add_forest(
        root[regular], place[forest.parent[regular]], forest.depth[regular], label[regular]
    )
    at = np.flatnonzero(odd)
    owner = np.concatenate([forest.inner.query, at])
    member = np.concatenate([forest.inner.position, at])
    order = np.lexsort((member, owner))
    owner = np.searchsorted(at, owner[order])
    nodes[at] = tree.add_sequences(
        root[at].astype(np.int64), owner, label[member[order]].astype(np.int64)
    )
    return nodes
