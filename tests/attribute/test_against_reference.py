# SPDX-License-Identifier: MIT
"""The engine equals the brute-force reference on programs hypothesis makes up.

``HARNESS_EXAMPLES`` sets how many; scripts/fuzz runs 10 000 a policy.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import as_trace, crowds, programs
from reference import Program, Range, Reference

from harness import summarise
from harness.attribute import RULES, arrays, attribute
from harness.measures import unions

EXAMPLES = int(os.environ.get("HARNESS_EXAMPLES", "150"))
MEASURES = {
    "instances": "instances", "open": "open", "cpu_ns": "cpu_ns", "kernels": "kernel",
    "memcpys": "memcpy", "memsets": "memset", "graphs": "graph",
    "self_kernels": "self_kernels", "self_kernel_ns": "self_kernel_ns",
    "total_kernel_ns": "total_kernel_ns", "self_gpu_ns": "self_gpu_ns",
    "total_gpu_ns": "total_gpu_ns", "busy_ns": "busy_ns", "span_ns": "span_ns",
}  # fmt: skip
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@many
@given(program=programs())
def test_engine_equals_reference(policy: str, program: Program) -> None:
    found, wanted = attribute(as_trace(program), policy), Reference(program, policy)
    check_ops(found, wanted)
    check_ledger(found, wanted)
    check_ranges(found, wanted)
    check_names(found, wanted)
    check_kernels(found, wanted)
    check_instances(found, wanted)


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@many
@given(program=crowds(), large=st.booleans())
def test_crowds_equal_reference(policy: str, program: Program, large: bool) -> None:
    """Ops that overlap; ``large``: as in a report of millions of ops, merged without a sort, some
    at a time."""
    with pytest.MonkeyPatch.context() as change:
        if large:
            change.setattr(arrays, "_BLOCK", 2)
            change.setattr(unions, "_LARGE", 0)
            change.setattr(unions, "_PART", 1 << 60)
        check_ranges(attribute(as_trace(program), policy), Reference(program, policy))


@st.composite
def emitted(draw: st.DrawFn) -> Program:
    """Ranges whose names may carry a call number, as emit_nvtx writes them."""
    program = draw(programs())
    suffix = st.sampled_from(["", ", op_id = 1", ", op_id = 2, sizes = [[3]]"])
    return replace(program, ranges=[replace(r, name=r.name + draw(suffix)) for r in program.ranges])


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@many
@given(program=emitted())
def test_layers_equal_reference(policy: str, program: Program) -> None:
    """Calls that differ in their number only are one row, in which each op counts once."""
    found, wanted = attribute(as_trace(program), policy), Reference(program, policy)

    def key(r: Range) -> Any:
        process, path = wanted.path_key(r)
        return process, tuple((d, n.split(", op_id")[0], style) for d, n, style in path)

    expected = Counter(
        (
            1000 + process,
            tuple(label[1] for label in path),
            *path[-1],
            row["instances"],
            row["total_gpu_ns"],
        )
        for (process, path), row in wanted.rows(key).items()
    )
    columns = ["pid", "path", "domain", "name", "style", "instances", "forward_ns"]
    table = summarise.layers(found)
    assert Counter(table[columns].itertuples(index=False, name=None)) == expected


def check_ops(found: Any, wanted: Reference) -> None:
    paths = list(summarise.op_paths(found))
    for row, outcome in enumerate(wanted.outcomes):
        assert RULES[found.rule[row]] == outcome.rule
        assert bool(found.ambiguous[row]) == outcome.ambiguous
        assert paths[row] == outcome.path


def check_ledger(found: Any, wanted: Reference) -> None:
    by_rule = wanted.ledger()
    ledger = found.ledger
    assert ledger.balanced
    assert ledger.outside_ns == by_rule.get("outside", 0)
    assert ledger.unlinked_ns == by_rule.get("unlinked", 0)
    assert ledger.by_rule == {r: by_rule.get(r, 0) for r in ("thread", "autograd", "process")}
    table = summarise.ranges(found)
    total = int(table["self_gpu_ns"].sum()) + ledger.outside_ns + ledger.unlinked_ns
    assert total == sum(op.end - op.start for op in wanted.program.ops)


def check_ranges(found: Any, wanted: Reference) -> None:
    expected = Counter(
        (
            1000 + process,
            tuple(label[1] for label in path),
            *path[-1],
            *(row[m] for m in MEASURES.values()),
        )
        for (process, path), row in wanted.rows(wanted.path_key).items()
    )
    table = summarise.ranges(found)
    columns = ["pid", "path", "domain", "name", "style", *MEASURES]
    assert Counter(table[columns].itertuples(index=False, name=None)) == expected
    seen: set[tuple[int, tuple[str, ...]]] = set()
    for pid, path in zip(table["pid"], table["path"], strict=True):
        seen.add((pid, path))
    assert len(table) >= len(seen)


def check_names(found: Any, wanted: Reference) -> None:
    threads = wanted.program.threads
    expected = {
        (*label, 1000 + threads[thread].process, threads[thread].tid): tuple(
            row[m] for m in MEASURES.values()
        )
        for (thread, label), row in wanted.rows(wanted.name_key).items()
    }
    columns = ["domain", "name", "style", "pid", "tid", *MEASURES]
    got = {
        row[:5]: row[5:]
        for row in summarise.names(found)[columns].itertuples(index=False, name=None)
    }
    assert got == expected


def check_kernels(found: Any, wanted: Reference) -> None:
    threads = wanted.program.threads
    expected = {
        (*label, 1000 + threads[thread].process, threads[thread].tid, kernel): figures
        for (thread, label, kernel), figures in wanted.kernels().items()
    }
    keys = ["domain", "name", "style", "pid", "tid", "kernel"]
    values = ["instances", "kernels", "total_ns", "median_ns", "min_ns", "max_ns"]
    got = {
        row[:6]: row[6:]
        for row in summarise.kernels(found)[keys + values].itertuples(index=False, name=None)
    }
    assert got == expected


def check_instances(found: Any, wanted: Reference) -> None:
    table = summarise.instances(found)
    got = Counter(
        zip(
            table["name"], table["start_ns"], table["end_ns"], table["kernels"],
            table["total_gpu_ns"], strict=True,
        )
    )  # fmt: skip
    totals = wanted.instance_totals()
    assert got == Counter((r.name, r.start, r.end, *totals[r.row]) for r in wanted.program.ranges)
