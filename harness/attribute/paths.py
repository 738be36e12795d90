# SPDX-License-Identifier: MIT
"""Paths as nodes of a tree: equal sequences of labels are the same node.

Built level by level with array operations, so a million ranges that share twenty paths cost
twenty nodes, and a million different ones no Python loop.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.attribute.arrays import Ints, Positions, grouped, numbered

Codes = npt.NDArray[Any]


@dataclass
class PathTree:
    """Nodes 0..roots-1 are the roots (level 0, no label); all others have a parent and a label."""

    roots: int
    labels: int  # labels are 0..labels-1
    _parent: list[Ints] = field(default_factory=list)
    _label: list[Ints] = field(default_factory=list)
    _keys: dict[int, Ints] = field(default_factory=dict)  # level -> sorted parent*labels+label
    _nodes: dict[int, Ints] = field(default_factory=dict)  # level -> node of each key
    _level: list[Ints] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._parent.append(np.full(self.roots, -1))
        self._label.append(np.full(self.roots, -1))
        self._level.append(np.zeros(self.roots, np.int64))
        self.size = self.roots

    @property
    def parent(self) -> Ints:
        self._parent = [np.concatenate(self._parent)]
        return self._parent[0]

    @property
    def label(self) -> Ints:
        self._label = [np.concatenate(self._label)]
        return self._label[0]

    @property
    def level(self) -> Ints:
        self._level = [np.concatenate(self._level)]
        return self._level[0]

    def child(self, level: int, parent: Codes, label: Codes) -> Positions:
        """The nodes at ``level`` (1 is just below the roots) for these parents and labels."""
        wanted = np.multiply(parent, self.labels, dtype=np.int64)
        wanted += label
        keys, inverse = numbered(wanted, np.int32)
        known = self._keys.get(level, np.empty(0, np.int64))
        known_nodes = self._nodes.get(level, np.empty(0, np.int64))
        at = np.searchsorted(known, keys)
        old = np.zeros(len(keys), dtype=bool)
        if len(known):
            old = known[np.minimum(at, len(known) - 1)] == keys
        nodes = np.empty(len(keys), np.int64)
        nodes[old] = known_nodes[at[old]]
        fresh = keys[~old]
        nodes[~old] = self.size + np.arange(len(fresh))
        self.size += len(fresh)
        self._parent.append(fresh // self.labels)
        self._label.append(fresh % self.labels)
        self._level.append(np.full(len(fresh), level))
        merged = np.concatenate([known, fresh])
        order = np.argsort(merged, kind="stable")
        self._keys[level] = merged[order]
        self._nodes[level] = np.concatenate([known_nodes, nodes[~old]])[order]
        return np.asarray(nodes.astype(np.int32)[inverse])

    def add_forest(self, root: Codes, parent: Codes, depth: Codes, label: Codes) -> Positions:
        """Nodes of items that name their parent item (-1: directly below ``root``)."""
        nodes = np.full(len(root), -1, np.int32)
        levels = int(depth.max(initial=-1)) + 1
        by_depth = grouped(depth, levels)
        bounds = np.append(0, np.cumsum(np.bincount(depth, minlength=levels)))
        for level in range(levels):
            at = by_depth[bounds[level] : bounds[level + 1]]
            above = root[at] if level == 0 else nodes[parent[at]]
            nodes[at] = self.child(level + 1, above, label[at])
        return nodes

    def add_sequences(self, start: Ints, owner: Ints, label: Ints) -> Ints:
        """Extend node ``start[i]`` by the labels of owner ``i`` in order; ``owner`` is sorted."""
        nodes = start.copy()
        counts = np.bincount(owner, minlength=len(start))
        first = np.cumsum(counts) - counts
        level = self.level[start]
        for step in range(int(counts.max(initial=0))):
            active = np.flatnonzero(counts > step)
            for depth in np.unique(level[active]):
                at = active[level[active] == depth]
                nodes[at] = self.child(int(depth) + 1, nodes[at], label[first[at] + step])
            level[active] += 1
        return nodes

    def root_of(self) -> Ints:
        """The root above each node."""
        root, parent, level = np.arange(self.size), self.parent, self.level
        by_level = np.argsort(level, kind="stable")
        bounds = np.searchsorted(level[by_level], np.arange(1, int(level.max(initial=0)) + 2))
        for low, high in itertools.pairwise(bounds):
            at = by_level[low:high]
            root[at] = root[parent[at]]
        return root

    def ancestry(self, nodes: Ints) -> tuple[Ints, Ints]:
        """Each node and all above it but the roots: (index into ``nodes``, node), outermost
        first."""
        parent, level = self.parent, self.level
        owners, members, levels = [], [], []
        owner = np.arange(len(nodes))
        current = nodes
        while len(current):
            keep = current >= self.roots
            owner, current = owner[keep], current[keep]
            owners.append(owner)
            members.append(current)
            levels.append(level[current])
            current = parent[current]
        owner, member = np.concatenate([*owners, owner]), np.concatenate([*members, current])
        order = np.lexsort((np.concatenate([*levels, level[current]]), owner))
        return owner[order], member[order]

    def graft(self, base: Ints, branch: Ints) -> Ints:
        """Nodes whose labels are those of ``base`` followed by those of ``branch``."""
        stride = self.size
        pairs, inverse = numbered(base.astype(np.int64) * stride + branch)
        owner, member = self.ancestry(pairs % stride)
        nodes = self.add_sequences(pairs // stride, owner, self.label[member])
        return np.asarray(nodes[inverse])
