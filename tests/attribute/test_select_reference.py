# SPDX-License-Identifier: MIT
"""Selections, alone and combined, equal loops over the brute-force attribution."""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from programs import CLOCK, as_trace, loops, programs
from reference import Launch, Op, Program, Range, Thread
from select_reference import Selected

from harness import select, summarise
from harness.attribute import Attribution, attribute
from harness.selection import Selection

EXAMPLES = int(os.environ.get("HARNESS_EXAMPLES", "150"))
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
moments = st.one_of(st.none(), st.integers(-2, CLOCK + 6))
selections = st.builds(
    Selection,
    skip=st.sampled_from([0, 0, 1, 2]),
    steady=st.booleans(),
    time=st.one_of(st.none(), st.tuples(moments, moments)),
    range=st.sampled_from([None, None, "a", "[ab]", "x", "nothing"]),
    domains=st.sampled_from([(), (), ("",), ("lib",), ("", "lib")]),
    kernel=st.sampled_from([None, None, "k1", "k"]),
    devices=st.sampled_from([(), (), (0,), (1,), (7,)]),
    pids=st.sampled_from([(), (), (1000,), (1001,), (1000, 1001)]),
)


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@many
@given(program=programs(), selection=selections)
def test_select_equals_reference(policy: str, program: Program, selection: Selection) -> None:
    found = check_alike(program, policy, selection)
    for view in ("names", "kernels", "layers", "latency", "path_kernels"):
        getattr(summarise, view)(found)


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@pytest.mark.parametrize(
    "selection", [Selection(range="a"), Selection(skip=1), Selection(range="other")]
)
def test_nested_in_a_range_that_inherits(policy: str, selection: Selection) -> None:
    """`inner` alone is ambiguous, since `other` opened in between; it still goes with `outer`."""
    rows = [(0, 0, 24, "a"), (1, 0, 24, "outer"), (1, 15, 21, "inner"), (2, 10, 23, "other")]
    program = Program(
        [Thread(0, 0, False), Thread(0, 1, True), Thread(0, 2, False)],
        [Range(i, t, a, b, name, "", "push_pop", False) for i, (t, a, b, name) in enumerate(rows)],
        [Launch(0, 1, 16, 17, 1), Launch(1, 1, 2, 3, 2)],
        [Op(i, "kernel", 20, 23 + i, 0, i + 1, 0, "k1") for i in range(2)],
    )
    check_alike(program, policy, selection)


@many
@given(program=loops(), selection=st.just(Selection()) | selections)
def test_steady_equals_reference(program: Program, selection: Selection) -> None:
    check_alike(program, "autograd", replace(selection, steady=True))


def test_steady_by_hand() -> None:
    """Ten steps of 10 ns, the first two of 100 and 30: two go. An open one stays."""
    lengths = [100, 30, *[10] * 7]
    starts = list(itertools.accumulate(lengths, initial=0))[:-1]
    rows = [*zip(starts, lengths, strict=True), (300, 700)]
    program = Program(
        [Thread(0, 0, False)],
        [Range(i, 0, a, a + ns, "step", "", "push_pop", i == 9) for i, (a, ns) in enumerate(rows)],
        [Launch(i, 0, a, a, i) for i, (a, _) in enumerate(rows)],
        [Op(i, "kernel", a, a + 1, 0, i, 0, "k") for i, (a, _) in enumerate(rows)],
    )
    # A zero-length call at an edge is in both neighbours: what the third step launches also
    # belongs to the second, which is left out.
    wanted = Selected(program, "thread", Selection(steady=True))
    assert sorted(wanted.ranges) == list(range(2, 10))
    check_alike(program, "thread", Selection(steady=True))


def check_alike(program: Program, policy: str, selection: Selection) -> Attribution:
    found = select.apply(attribute(as_trace(program), policy), selection)
    wanted = Selected(program, policy, selection)
    check_ledger(found, wanted)
    check_ops(found, wanted)
    check_instances(found, wanted)
    check_self(found, wanted)
    return found


def check_ledger(found: Any, wanted: Selected) -> None:
    ledger, ops = found.ledger, wanted.program.ops
    kept = sum(op.end - op.start for op in ops if op.row in wanted.ops)
    everything = sum(op.end - op.start for op in ops)
    assert ledger.balanced
    assert (ledger.gpu_ns, ledger.gpu_ops) == (everything, len(ops))
    assert (ledger.hidden_ns, ledger.hidden_ops) == (everything - kept, len(ops) - len(wanted.ops))
    assert ledger.attributed_ns + ledger.outside_ns + ledger.unlinked_ns == kept
    said = [
        re.search(r"(\d+) GPU ops? \((\d+) ns\) (?:is|are) hidden", w.message)
        for w in found.warnings
        if w.code == "selection"
    ]
    assert [(int(one[1]), int(one[2])) for one in said if one] == wanted.hidden


def check_ops(found: Any, wanted: Selected) -> None:
    expected = Counter(
        (op.start, op.end, op.device, op.correlation, outcome.rule, outcome.path)
        for op, outcome in wanted.pairs()
        if op.row in wanted.ops
    )
    columns = ["start_ns", "end_ns", "device", "correlation", "rule", "path"]
    got = summarise.ops(found)[columns].itertuples(index=False, name=None)
    assert Counter(got) == expected


def check_instances(found: Any, wanted: Selected) -> None:
    totals: dict[int, int] = defaultdict(int)
    for op, outcome in wanted.pairs():
        if op.row in wanted.ops:
            for r in set(outcome.claimed_by):
                totals[r.row] += op.end - op.start
    expected = Counter(
        (r.name, r.domain, r.start, r.end, totals[r.row])
        for r in wanted.program.ranges
        if r.row in wanted.ranges
    )
    columns = ["name", "domain", "start_ns", "end_ns", "total_gpu_ns"]
    got = summarise.instances(found)[columns].itertuples(index=False, name=None)
    assert Counter(got) == expected


def check_self(found: Any, wanted: Selected) -> None:
    """No self time is lost with its row: what is attributed is what the table shows."""
    table = summarise.ranges(found)
    assert int(table["self_gpu_ns"].sum()) == found.ledger.attributed_ns
    got: dict[Any, int] = defaultdict(int)
    columns = ["pid", "path", "domain", "style", "self_gpu_ns"]
    for pid, path, domain, style, ns in table[columns].itertuples(index=False, name=None):
        if ns:
            got[pid, path, domain, style] += ns
    assert got == wanted.self_ns()
