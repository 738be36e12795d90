# SPDX-License-Identifier: MIT
"""Rows of paths in which the calls of one operator under emit_nvtx are one row."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from harness.attribute.arrays import Ints, Mask, distinct
from harness.attribute.engine import RULES, Attribution
from harness.attribute.forward import forward_nodes, operator_name
from harness.measures.rows import Ops, Rows, nested_again, path_rows
from harness.trace import Warning_
from harness.words import agree, plural


def layer_rows(found: Attribution) -> Rows:
    """As ``path_rows``, with names less what tells one call from another (``, seq = 7``)."""
    rows, labels = path_rows(found), found.labels
    plain = [operator_name(name) for name in labels.name]
    if plain == list(labels.name):
        return rows
    known: dict[tuple[str, str, str], int] = {}
    keys = zip(labels.domain, plain, labels.style, strict=True)
    alias = np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)
    names = list(known)
    groups: dict[tuple[int, tuple[int, ...]], int] = {}
    group = np.array([groups.setdefault(key, len(groups)) for key in _keys(found, rows, alias)])
    first = np.full(len(groups), rows.count)
    np.minimum.at(first, group, np.arange(rows.count))
    paths = np.empty(len(groups), dtype=object)
    paths[:] = [tuple(names[at][1] for at in path) for _, path in groups]
    parent = rows.parent[first]
    merged = replace(
        rows,
        count=len(groups),
        columns={
            **{name: values[first] for name, values in rows.columns.items()},
            "path": paths,
            "name": np.array([path[-1] for path in paths], dtype=object),
        },
        of_lineage=_mapped(rows.of_lineage, group),
        of_start_end=_mapped(rows.of_start_end, group),
        of_range=_mapped(rows.of_range, group),
        parent=_mapped(parent, group),
    )
    nodes = np.flatnonzero(merged.of_lineage >= 0)
    return replace(merged, nested_again=nested_again(found, merged.of_lineage, nodes))


def claimed(found: Attribution) -> Mask:
    """Ops that a range claims under the policy."""
    nobody = [RULES.index("outside"), RULES.index("unlinked")]
    return np.isin(found.rule, nobody, invert=True)


def backward_unseen(found: Attribution) -> list[Warning_]:
    """A warning where backward ops have a forward range, but no range claims them; or where none
    of the whole recording has one."""
    known = forward_nodes(found) >= 0
    if not known.any():
        return [
            Warning_(
                "no-forward",
                "no backward op could be linked to its forward: backward is where it was called",
                "Record under torch.autograd.profiler.emit_nvtx(), or with torch.profiler.",
            )
        ]
    left = known & ~claimed(found) & Ops.of(found).keep
    number, ns = int(left.sum()), int(found.duration[left].sum())
    if not number:
        return []
    hint = "--policy autograd lets the range that is open where backward is called claim them."
    if found.policy != "thread":
        hint = "Open a range around the call of backward(): it claims what backward launches."
    return [
        Warning_(
            "backward-outside",
            f"{plural(number, 'backward op')} ({ns} ns) {agree(number, 'is', 'are')} outside under "
            f"--policy {found.policy}: left out of forward, backward and total",
            hint,
        )
    ]


def _keys(found: Attribution, rows: Rows, alias: Ints) -> list[tuple[int, tuple[int, ...]]]:
    """Process and aliases of the labels along the path, for each of ``path_rows``."""
    tree = found.nest.paths
    nodes = distinct(found.nest.path)
    owner, member = tree.ancestry(nodes)
    flat = alias[tree.label[member]].tolist()
    bounds = np.searchsorted(owner, np.arange(len(nodes) + 1)).tolist()
    process = tree.root_of()[nodes].tolist()
    keys = [(process[i], tuple(flat[a:b])) for i, (a, b) in enumerate(itertools.pairwise(bounds))]
    one_of = np.zeros(rows.count, np.int64)  # a start/end range of each row
    one_of[rows.of_start_end] = np.arange(len(rows.of_start_end))
    for one in one_of[len(nodes) :].tolist():
        label = int(found.labels.of_range[found.start_end_rows[one]])
        keys.append((int(found.start_end.process[one]), (int(alias[label]),)))
    return keys


def _mapped(row: Ints, group: Ints) -> Ints:
    return np.where(row >= 0, group[row], -1)
