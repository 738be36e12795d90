# SPDX-License-Identifier: MIT
"""captured_path equals brute force on made-up clones, and the truth on graphs acted out."""

from __future__ import annotations

import os
import sys
from pathlib import Path as File

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(File(__file__).parent))
from graph_reference import Captures, Device, Event, Tree, together, with_graphs
from programs import CLOCK, as_trace, programs
from reference import Program

from harness import summarise
from harness.attribute import attribute

EXAMPLES = int(os.environ.get("HARNESS_EXAMPLES", "150"))
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


Drawn = tuple[Program, list[int], list[Event], list[Event], list[int]]


@st.composite
def creations(draw: st.DrawFn, threads: st.SearchStrategy[int], least: int) -> list[Event]:
    """Few ids: reused ones, clones written once or twice, chains, cycles, originals unknown."""
    events: list[Event] = []
    for _ in range(draw(st.integers(least, 10))):
        thread, node, time = draw(threads), draw(st.integers(0, 3)), draw(st.integers(0, CLOCK))
        original = draw(st.sampled_from([-1, -1, -1, 0, 1, 2, 3, 4]))
        if original >= 0 and draw(st.booleans()):
            events.append(Event(thread, node, -1, time))
            time += draw(st.integers(0, 1))
        events.append(Event(thread, node, original, time))
    return draw(st.permutations(events))


@st.composite
def graphs(draw: st.DrawFn) -> Drawn:
    """Nodes and whole graphs, whose numbers are the same and mean other things."""
    program = draw(programs())
    threads = st.integers(0, len(program.threads) - 1)
    nodes = [draw(st.sampled_from([0, 0, 1, 1, 2, 3, 4, -1])) for _ in program.ops]
    updates = [row for row in range(len(program.launches)) if draw(st.integers(0, 9)) == 0]
    return program, nodes, draw(creations(threads, 1)), draw(creations(threads, 0)), updates


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@many
@given(made=graphs())
def test_captured_path_equals_reference(policy: str, made: Drawn) -> None:
    program, *drawn = made
    found = attribute(with_graphs(as_trace(program), *drawn), policy)
    assert list(summarise.captured_paths(found)) == Captures(program, policy, *drawn).paths


trees: st.SearchStrategy[Tree] = st.recursive(
    st.lists(st.none(), min_size=1, max_size=3),
    lambda inner: st.lists(st.none() | inner, min_size=1, max_size=4),
    max_leaves=8,
)


@many
@given(
    drawn=st.lists(
        st.tuples(st.lists(st.tuples(trees, st.integers(1, 2)), min_size=1, max_size=3)),
        min_size=1,
        max_size=2,
    ),
    deep_first=st.booleans(),
)
def test_graphs_acted_out(drawn: list[tuple[list[tuple[Tree, int]]]], deep_first: bool) -> None:
    """Nested, several, and each instantiated once or twice, in one or two processes."""
    devices = []
    for thread, (captures,) in enumerate(drawn):
        device = Device(thread)
        for tree, times in captures:
            graph = device.capture(tree)
            for _ in range(times):
                device.instantiate(graph, deep_first)
        devices.append(device)
    program, nodes, events = together(devices)
    found = attribute(with_graphs(as_trace(program), nodes, events))
    got = list(summarise.captured_paths(found))
    wanted = [kernel for device in devices for kernel in device.ran]
    for path, (node, name, certain) in zip(got, wanted, strict=True):
        # Never wrong; missing only where depth first and breadth first number it differently.
        assert path == (name,) or (path == () and not certain), (node >> 32, node & 0xFFFFFFFF)


def test_a_backward_captured_by_the_autograd_thread_is_in_the_range_around_it() -> None:
    from reference import Op, Range, Thread

    program = Program(
        [Thread(0, 1, False), Thread(0, 2, True)],
        [Range(0, 0, 0, 20, "capture", "", "push_pop", False)],
        [],
        [Op(0, "kernel", 30, 31, 0, -1, 0, "k")],
    )
    trace = with_graphs(as_trace(program), [7], [Event(1, 7, -1, 10)])
    assert list(summarise.captured_paths(attribute(trace))) == [("capture",)]
    assert list(summarise.captured_paths(attribute(trace, "thread"))) == [()]
