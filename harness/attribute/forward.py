# SPDX-License-Identifier: MIT
"""The range in which the forward op of a backward GPU op ran.

``torch.autograd.profiler.emit_nvtx`` opens a range an operator and writes the autograd node's
sequence number into its name: the backward range and the forward ranges of one node share it. The
engine's own range around the backward one (``evaluate_function``) has no number, but adds up the
gradients that the node made: it takes the node's. Of several forward ranges with a number the last
to begin made the node (the number only moves on when a node is made). In a torch trace the
``fwdbwd`` links say the same.
"""

from __future__ import annotations

import re

import numpy as np

from harness.attribute.arrays import Ints, Mask, distinct, numbered
from harness.attribute.engine import Attribution
from harness.attribute.nesting import Forest

_SEQUENCE = re.compile(r", seq = (\d+)")
_EMITTED = re.compile(r", (?:seq|op_id) = \d+|, (?:sizes|input_op_ids) = \[")
#: The engine evaluates a node: backward, even on the thread that called it.
_ENGINE = "autograd::engine::evaluate_function: "


def operator_name(name: str) -> str:
    """A range's name less what emit_nvtx adds: sequence number, call number, sizes and inputs."""
    return _EMITTED.split(name)[0]


def forward_nodes(found: Attribution) -> Ints:
    """Node of ``found.nest.paths`` for each op, -1 where the op is not known to be backward."""
    out = np.full(len(found.launch), -1)
    if len(found.nest.forest):
        _from_sequence_numbers(found, out)
        _from_links(found, out)
    return out


def _from_sequence_numbers(found: Attribution, out: Ints) -> None:
    nest, forest = found.nest, found.nest.forest
    names = found.labels.name
    sequence_of = np.full(len(names) + 1, -1)
    emitted = np.zeros(len(names) + 1, dtype=bool)
    for at, name in enumerate(names):
        if match := _SEQUENCE.search(name):
            sequence_of[at] = int(match[1])
        emitted[at] = _EMITTED.search(name) is not None
    sequence = sequence_of[nest.label]
    if not (sequence >= 0).any():
        return
    autograd = found.trace.threads["autograd"].to_numpy()[forest.thread]
    sequence = _with_engine(found, sequence)
    engine = _topmost(forest, _evaluates(found)[nest.label]) >= 0
    top = _topmost(forest, sequence >= 0)
    leaf = found.own_leaf.leaf
    ops = np.flatnonzero(leaf >= 0)
    node = top[leaf[ops]]
    ops, node = ops[node >= 0], node[node >= 0]
    backward = autograd[node] | engine[node]
    ops, node = ops[backward], node[backward]
    used = distinct(node)
    forward = _forward_range(found, used, sequence, autograd | engine)
    layer = _nearest(forest, ~emitted[nest.label])
    reached = np.where(forward >= 0, layer[forward], -1)
    path = np.where(reached >= 0, nest.path[reached], -1)
    out[ops] = path[np.searchsorted(used, node)]


def _evaluates(found: Attribution) -> Mask:
    """Labels of ranges that the autograd engine opens: backward even on the calling thread."""
    return np.array([name.startswith(_ENGINE) for name in found.labels.name], dtype=bool)


def _with_engine(found: Attribution, sequence: Ints) -> Ints:
    """``sequence`` by position, with that of the node for the engine's range around the node."""
    nest, forest = found.nest, found.nest.forest
    nodes: dict[str, int] = {}
    plain = [operator_name(name).removeprefix(_ENGINE) for name in found.labels.name]
    node = np.array([nodes.setdefault(name, len(nodes)) for name in plain], dtype=np.int64)
    evaluates = _evaluates(found)[nest.label]
    inner = np.flatnonzero((sequence >= 0) & (forest.parent >= 0))
    outer = forest.parent[inner]
    fits = evaluates[outer] & (sequence[outer] < 0)
    fits &= node[nest.label[inner]] == node[nest.label[outer]]
    out = sequence.copy()
    out[outer[fits]] = sequence[inner[fits]]
    return out


def _forward_range(found: Attribution, backward: Ints, sequence: Ints, behind: Mask) -> Ints:
    """Position of the forward range of each backward one: same process and number, the last to
    begin before it; of two threads that have one, the thread that called backward, else none.
    ``behind`` are ranges of the backward pass, which made no node."""
    forest = found.nest.forest
    forward = np.flatnonzero((sequence >= 0) & ~behind)
    if not len(forward):
        return np.full(len(backward), -1)
    stride = np.int64(sequence.max()) + 1
    thread, start = forest.thread.astype(np.int64), forest.start
    key = found.thread_process[thread] * stride + sequence
    any_thread, number = _last_before(key, start, forward, backward)
    same = thread * stride + sequence
    caller = _caller_thread(found, backward)
    wanted = np.where(caller >= 0, caller * stride + sequence[backward], -1)
    on_caller, number_on_caller = _last_before(same, start, forward, backward, wanted)
    on_same_thread = np.where(any_thread >= 0, same[any_thread], -1)
    number_there = _last_before(same, start, forward, backward, on_same_thread)[1]
    certain = number_there == number
    return np.where(certain, any_thread, np.where(number_on_caller > 0, on_caller, -1))


def _last_before(
    key: Ints, start: Ints, among: Ints, asked: Ints, wanted: Ints | None = None
) -> tuple[Ints, Ints]:
    """Of the ranges ``among`` with the key of each one asked, that begin before it: the last to
    begin (-1: none), and how many there are."""
    wanted = key[asked] if wanted is None else wanted
    order = among[np.lexsort((start[among], key[among]))]
    keys, starts = numbered(np.concatenate([key[order], wanted]))[1], distinct(start)
    here, there = keys[: len(order)], keys[len(order) :]
    line = here * (len(starts) + 1) + np.searchsorted(starts, start[order])
    target = there * (len(starts) + 1) + np.searchsorted(starts, start[asked])
    end = np.searchsorted(line, target, side="left")
    number = end - np.searchsorted(here, there, side="left")
    return np.where(number > 0, order[np.maximum(end - 1, 0)], -1), number


def _caller_thread(found: Attribution, backward: Ints) -> Ints:
    """Thread whose range an autograd thread's range inherits (from any op inside it), else -1."""
    forest = found.nest.forest
    caller = np.full(len(forest), -1)
    ops = np.flatnonzero((found.own_leaf.leaf >= 0) & (found.inherited_leaf.leaf >= 0))
    position = found.own_leaf.leaf[ops]
    thread = forest.thread[found.inherited_leaf.leaf[ops]]
    while len(position):
        caller[position] = thread
        up = forest.parent[position]
        position, thread = up[up >= 0], thread[up >= 0]
    return caller[backward]


def _from_links(found: Attribution, out: Ints) -> None:
    links = found.trace.forward_links
    if not len(links):
        return
    column = {name: links[name].to_numpy() for name in links.columns}
    located = found.nest.forest.locate(
        column["forward_thread"], column["forward_time"], column["forward_time"]
    )
    path = np.where(located.leaf >= 0, found.nest.path[located.leaf], -1)
    order = np.lexsort((column["backward_time"], column["backward_thread"]))
    thread = found.launching_thread
    ops = np.flatnonzero(thread >= 0)
    start = found.trace.launches["start"].to_numpy()[found.launch[ops]]
    for one in distinct(column["backward_thread"]):
        mine = order[column["backward_thread"][order] == one]
        at = ops[thread[ops] == one]
        place = np.searchsorted(
            column["backward_time"][mine], start[thread[ops] == one], side="right"
        )
        link = mine[np.maximum(place - 1, 0)]
        inside = (place > 0) & (start[thread[ops] == one] <= column["backward_end"][link])
        out[at[inside]] = path[link[inside]]


def _by_depth(forest: Forest) -> list[Ints]:
    order = np.argsort(forest.depth, kind="stable")
    bounds = np.searchsorted(forest.depth[order], np.arange(int(forest.depth.max(initial=-1)) + 2))
    return [order[bounds[i] : bounds[i + 1]] for i in range(len(bounds) - 1)]


def _topmost(forest: Forest, marked: Mask) -> Ints:
    """The outermost marked range around each (itself included), -1 for none."""
    out = np.where(marked, np.arange(len(forest)), -1)
    for at in _by_depth(forest)[1:]:
        above = out[forest.parent[at]]
        out[at] = np.where(above >= 0, above, out[at])
    return out


def _nearest(forest: Forest, marked: Mask) -> Ints:
    """The innermost marked range around each (itself included), -1 for none."""
    out = np.where(marked, np.arange(len(forest)), -1)
    for at in _by_depth(forest)[1:]:
        out[at] = np.where(out[at] >= 0, out[at], out[forest.parent[at]])
    return out
