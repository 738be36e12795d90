# SPDX-License-Identifier: MIT
"""Forward and backward: each backward kernel's layer, by the names that emit_nvtx writes."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from recordings import Range, Work, by_path, found, sql_ranges, sql_work, torch_found, total

from harness import summarise

SEQUENCE = re.compile(r"^(.*?), seq = (\d+)")
EVALUATES = "autograd::engine::evaluate_function: "
LAYERS = {"step", "forward", "first", "second", "backward", "optimizer"}


def around(ranges: list[Range], tid: int, start: int, end: int) -> list[Range]:
    return [r for r in ranges if r.tid == tid and r.start <= start and end <= r.end]


def sequence_of(containers: list[Range], ranges: list[Range]) -> int | None:
    """The number of the node that ran: written on a range around the launch, or on the range that
    the engine opened for that node within the same evaluation."""
    for outer in containers:
        if match := SEQUENCE.match(outer.name):
            return int(match[2])
        if outer.name.startswith(EVALUATES):
            node = outer.name.removeprefix(EVALUATES).split(", op_id")[0]
            for inner in around_inside(ranges, outer):
                match = SEQUENCE.match(inner.name)
                if match and match[1] == node:
                    return int(match[2])
            return None
    return None


def around_inside(ranges: list[Range], outer: Range) -> list[Range]:
    return [
        r for r in ranges if r.tid == outer.tid and outer.start <= r.start and r.end <= outer.end
    ]


def expected_layers() -> dict[tuple[str, int], str]:
    """(table, start) of each op of the autograd thread -> the path its forward op ran in."""
    ranges, work = sql_ranges("emit-nvtx"), sql_work("emit-nvtx")
    main = next(r.tid for r in ranges if r.name == "step")
    out = {}
    for w in work:
        if w.tid == main:
            continue
        number = sequence_of(around(ranges, w.tid, w.call_start, w.call_end), ranges)
        forward = [
            r
            for r in ranges
            if r.tid == main
            and r.start < w.call_start
            and number is not None
            and f", seq = {number}," in r.name
        ]
        if forward:
            made = forward[-1]
            path = [r.name for r in around(ranges, main, made.start, made.end) if r.name in LAYERS]
            out[w.table, w.start] = " / ".join(path)
    return out


def test_each_backward_op_names_its_layer() -> None:
    expected = expected_layers()
    ops = summarise.ops(found("emit-nvtx"))
    known = ops[ops["forward_path"] != ()]
    table = {"kernel": "KERNEL", "memcpy": "MEMCPY", "memset": "MEMSET"}
    got = {
        (table[kind], start): " / ".join(path)
        for kind, start, path in zip(
            known["kind"], known["start_ns"], known["forward_path"], strict=True
        )
    }
    assert got == expected
    # Four steps under emit_nvtx: gelu and the first layer; the second layer and the loss.
    assert Counter(got.values()) == {
        "step / forward / first": 20,
        "step / forward / second": 28,
    }


def test_all_the_autograd_thread_did_under_emit_nvtx_is_known() -> None:
    ops = summarise.ops(found("emit-nvtx"))
    emitted = ops["path"].map(lambda path: any("evaluate_function" in name for name in path))
    assert set(ops[emitted & (ops["forward_path"] == ())]["name"]) == set()


def test_layers_add_up() -> None:
    table = by_path(
        summarise.layers(found("emit-nvtx")),
        "forward_ns", "backward_ns", "total_ns", "backward_ops",
    )  # fmt: skip
    work, ranges = sql_work("emit-nvtx"), sql_ranges("emit-nvtx")
    at = {(w.table, w.start): w for w in work}
    expected: dict[str, list[Work]] = defaultdict(list)
    for key, path in expected_layers().items():
        expected[path].append(at[key])
    moved = {(w.table, w.start) for parts in expected.values() for w in parts}
    for layer in ("first", "second"):
        path = f"step / forward / {layer}"
        own = [
            w
            for w in work
            if any(
                r.name == layer
                and r.tid == w.tid
                and r.start <= w.call_start
                and w.call_end <= r.end
                for r in ranges
            )
        ]
        backward = expected[path]
        sums = (total(own), total(backward), total(own) + total(backward), len(backward))
        assert table[path] == sums
    both = [table[f"step / forward / {layer}"] for layer in ("first", "second")]
    assert table["step / forward"] == tuple(map(sum, zip(*both, strict=True)))
    # "step" has all of it: what was launched in it, backward moved but not lost.
    steps = by_path(summarise.ranges(found("emit-nvtx")), "total_gpu_ns")
    assert table["step"][2] == steps["step"]
    assert (
        table["step / backward"][0] + sum(total(w) for w in expected.values())
        == (steps["step / backward"])
    )
    assert len(moved) == 48


def plain(name: str) -> str:
    """The name up to what emit_nvtx counts."""
    return re.split(r", (seq|op_id) = ", name)[0]


def test_the_calls_of_an_operator_are_one_row() -> None:
    """Four steps under emit_nvtx; instances and forward time of each path by loops."""
    ranges, work = sql_ranges("emit-nvtx"), sql_work("emit-nvtx")
    main = next(r.tid for r in ranges if r.name == "step")
    instances: Counter[str] = Counter()
    forward: Counter[str] = Counter()
    for r in ranges:
        if r.tid == main:
            names = [plain(o.name) for o in around(ranges, main, r.start, r.end)]
            instances[" / ".join(names)] += 1
    for w in work:
        if w.tid == main:
            names = [plain(r.name) for r in around(ranges, main, w.call_start, w.call_end)]
            for depth in range(1, len(names) + 1):
                forward[" / ".join(names[:depth])] += w.end - w.start
    table = by_path(summarise.layers(found("emit-nvtx")), "instances", "forward_ns")
    under = {path: row for path, row in table.items() if path.startswith("step / forward")}
    assert under == {
        path: (number, forward[path])
        for path, number in instances.items()
        if path.startswith("step / forward")
    }
    assert instances["step / forward / first / aten::linear / aten::addmm"] == 4
    assert not [path for path in table if "seq = " in path or "op_id = " in path]
    # Few enough to read: the four steps' rows fall together.
    recorded = summarise.ranges(found("emit-nvtx"))["path"]
    assert len(table) == len({tuple(map(plain, path)) for path in recorded}) < len(recorded) / 4


def test_the_torch_trace_says_the_same_of_two_steps() -> None:
    """fwdbwd links instead of sequence numbers: per step five and seven ops, as above."""
    ops = summarise.ops(torch_found("emit-nvtx"))
    known = Counter(" / ".join(path) for path in ops["forward_path"] if path)
    assert known == {"step / forward / first": 10, "step / forward / second": 14}
    assert set(ops[ops["rule"] == "autograd"]["forward_path"]) == {
        ("step", "forward", "first"),
        ("step", "forward", "second"),
    }


@pytest.mark.parametrize("policy", ["thread", "process"])
def test_the_layer_does_not_depend_on_the_policy(policy: str) -> None:
    columns = ["start_ns", "forward_path"]
    one, other = (summarise.ops(found("emit-nvtx", p))[columns] for p in (policy, "autograd"))
    assert one["forward_path"].tolist() == other["forward_path"].tolist()


def test_layers_of_a_model_with_many() -> None:
    """Two training steps of six layers: every layer has as many backward kernels as any other."""
    table = by_path(summarise.layers(torch_found("train")), "forward_ns", "backward_ns",
                    "total_ns", "backward_ops")  # fmt: skip
    layers = [table[f"step / forward / layer {i}"] for i in range(6)]
    assert len({row[3] for row in layers}) == 1
    assert all(row[2] == row[0] + row[1] for row in table.values())
    parts = [table[f"step / forward / {name}"] for name in ("embed", "head")]
    whole = tuple(map(sum, zip(*layers, *parts, strict=True)))
    assert table["step / forward"] == whole
    # Backward is moved to the layers, none of it is lost or doubled.
    ops = summarise.ops(torch_found("train"))
    known = ops[ops["forward_path"] != ()]
    assert table["step"][1] == int((known["end_ns"] - known["start_ns"]).sum())
    assert (
        table["step"][2] == by_path(summarise.ranges(torch_found("train")), "total_gpu_ns")["step"]
    )
