# SPDX-License-Identifier: MIT
"""Forward, backward and total of each range; launch delays. Figures by loops over the raw files."""

from __future__ import annotations

import gzip
import json
import math
import sqlite3
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from programs import as_trace
from reference import Launch, Op, Program, Range, Thread

import harness
from harness import summarise
from harness.attribute import Attribution, attribute
from harness.cli.report import render_one
from harness.report import Request, build
from harness.selection import Selection

H200 = Path(__file__).parent.parent / "data" / "h200"
COLUMNS = ["forward_ns", "backward_ns", "total_ns", "backward_ops"]


def layers(found: Attribution) -> dict[str, tuple[int, ...]]:
    table = summarise.layers(found)
    rows = table[["path", *COLUMNS]].itertuples(index=False, name=None)
    return {" / ".join(path): tuple(values) for path, *values in rows}


def test_train_by_its_links() -> None:
    """The kernels and sets of train's torch trace that a thread other than `step`'s launched."""
    with gzip.open(H200 / "train.trace.json.gz") as file:
        events = json.loads(file.read(), parse_float=Decimal)["traceEvents"]
    calls = {
        e["args"]["correlation"]: e
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    step = next(e for e in events if e.get("cat") == "user_annotation" and e["name"] == "step")
    backward = [
        e
        for e in events
        if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
        and calls[e["args"]["correlation"]]["tid"] != step["tid"]
    ]
    ns = sum(int(e["dur"] * 1000) for e in backward)
    assert (len(backward), ns) == (144, 2_517_144)
    table = layers(harness.load(H200 / "train.trace.json.gz").attribute())
    assert table["step / forward"][1::2] == (ns, 144)
    assert table["step / forward"][2] == table["step / forward"][0] + ns
    assert table["step / backward"][1:] == (0, table["step / backward"][0], 0)
    assert table["step"][1::2] == (ns, 144)


def test_without_links_forward_is_all() -> None:
    found = harness.load(H200 / "train.sqlite").attribute()
    table = layers(found)
    ranges = summarise.ranges(found)
    total = {
        " / ".join(p): ns for p, ns in zip(ranges["path"], ranges["total_gpu_ns"], strict=True)
    }
    assert {path: row[0] for path, row in table.items()} == total
    assert {row[1] for row in table.values()} == {0}


RECORDED = Path(__file__).parent.parent / "data" / "recorded"
TRAINED = [H200 / "train.trace.json.gz", H200 / "train.sqlite"]
EMITTED = [RECORDED / "emit-nvtx" / name for name in ("torch_trace.json.gz", "report.sqlite")]


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@pytest.mark.parametrize("path", [*TRAINED, *EMITTED], ids=lambda path: path.name)
def test_outermost_rows_add_up_to_what_the_policy_attributes(path: Path, policy: str) -> None:
    """Forward and backward move work between rows: none is added, and none lost."""
    report = build(harness.load(path), Request(view="layers", policy=policy), name="")
    table, ledger = report.rows, report.ledger
    assert ledger is not None
    outermost = table[table["path"].map(len) == 1]
    assert int(outermost["total_ns"].sum()) == ledger.attributed_ns
    assert (table["total_ns"] == table["forward_ns"] + table["backward_ns"]).all()
    ranges = summarise.ranges(harness.load(path).attribute(policy))
    assert int(ranges.loc[ranges["path"].map(len) == 1, "total_gpu_ns"].sum()) == (
        ledger.attributed_ns
    )


def test_backward_that_the_policy_leaves_outside_is_told() -> None:
    """144 ops, 2 517 144 ns: see ``test_train_by_its_links``."""
    trace = harness.load(H200 / "train.trace.json.gz")
    report = build(trace, Request(view="layers", policy="thread"), name="")
    (told,) = [one for one in report.warnings if one.code == "backward-outside"]
    assert told.message.startswith(
        "144 backward ops (2517144 ns) are outside under --policy thread"
    )
    assert not report.rows["backward_ns"].any()
    # A second name of an op, whatever the policy.
    ops = summarise.ops(trace.attribute("thread"))
    assert (ops.loc[ops["forward_path"].map(bool), "rule"] == "outside").sum() == 144
    report = build(trace, Request(view="layers"), name="")
    assert "backward-outside" not in [one.code for one in report.warnings]


@pytest.mark.parametrize(
    "shown",
    [
        Request(view="layers", policy="thread"),
        Request(view="layers", top=1, sort="backward_ns:asc"),
        Request(view="layers", selection=Selection(range="optimizer")),
    ],
)
def test_links_that_are_only_not_shown_are_not_said_to_be_missing(shown: Request) -> None:
    report = build(harness.load(H200 / "train.trace.json.gz"), shown, name="")
    assert not report.rows["backward_ops"].any()
    assert "no-forward" not in [one.code for one in report.warnings]
    assert "could be linked" not in "".join(render_one(report, "table", None))


def test_without_links_every_format_says_how_to_have_them() -> None:
    report = build(harness.load(H200 / "train.sqlite"), Request(view="layers"), name="")
    (told,) = [one for one in report.warnings if one.code == "no-forward"]
    assert "emit_nvtx" in told.hint
    for style in ("table", "json", "markdown"):
        assert "could be linked" in "".join(render_one(report, style, None))


def program(backward_thread: int, *ranges: tuple[int, int, int, str], launch: int = 55) -> Program:
    """Threads 0 and 2 plain, 1 autograd; one kernel of 7 ns launched at ``launch``."""
    threads = [Thread(0, 0, False), Thread(0, 1, True), Thread(0, 2, False)]
    made = [
        Range(row, thread, start, end, name, "", "push_pop", False)
        for row, (thread, start, end, name) in enumerate(ranges)
    ]
    launches = [Launch(0, backward_thread, launch, launch + 1, 1)]
    return Program(threads, made, launches, [Op(0, "kernel", 70, 77, 0, 1, 0, "k")])


EVALUATE = "autograd::engine::evaluate_function: "
FORWARD = [(0, 0, 20, "layer"), (0, 5, 15, "aten::mm, seq = 3, op_id = 1"), (0, 40, 90, "bwd")]


def forward_path(made: Program, policy: str = "autograd") -> tuple[str, ...]:
    path: tuple[str, ...] = summarise.ops(attribute(as_trace(made), policy))["forward_path"].iloc[0]
    return path


def test_a_node_s_kernel_belongs_to_the_layer_of_its_number() -> None:
    made = program(1, *FORWARD, (1, 50, 60, "MmBackward0, seq = 3, op_id = 7"))
    assert forward_path(made) == ("layer",)
    assert layers(attribute(as_trace(made))) == {
        "layer": (0, 7, 7, 1),
        "layer / aten::mm": (0, 0, 0, 0),
        "bwd": (0, 0, 0, 0),
        "bwd / MmBackward0": (0, 0, 0, 0),
    }


def test_the_calls_of_an_operator_are_one_row() -> None:
    """Sequence and call numbers, sizes and inputs are of a call; a call within a call of the same
    operator is a row below, and a name that only looks alike keeps its own."""
    made = program(
        0, (0, 0, 90, "layer"), (0, 1, 9, "aten::mm, seq = 3, op_id = 1"),
        (0, 10, 19, "aten::mm, seq = 8, op_id = 5, sizes = [[2, 3], [3]]"),
        (0, 20, 80, "aten::mm, op_id = 9, sizes = [[2, 3]], input_op_ids = [(5,0)]"),
        (0, 30, 70, "aten::mm, seq = 9"), (0, 82, 85, "aten::mm, sequence"),
    )  # fmt: skip
    table = summarise.layers(attribute(as_trace(made)))
    columns = table[["name", "instances", "forward_ns"]].itertuples(index=False, name=None)
    assert list(zip((" / ".join(path) for path in table["path"]), columns, strict=True)) == [
        ("layer", ("layer", 1, 7)),
        ("layer / aten::mm", ("aten::mm", 3, 7)),
        ("layer / aten::mm / aten::mm", ("aten::mm", 1, 7)),
        ("layer / aten::mm, sequence", ("aten::mm, sequence", 1, 0)),
    ]
    # Other views show ranges as they were recorded.
    assert len(summarise.ranges(attribute(as_trace(made)))) == 6


def test_what_the_engine_adds_up_belongs_to_the_node() -> None:
    made = program(
        1, *FORWARD, (1, 45, 60, EVALUATE + "MmBackward0, op_id = 6"),
        (1, 46, 50, "MmBackward0, seq = 3, op_id = 7"), (1, 52, 58, "aten::sum, op_id = 8"),
    )  # fmt: skip
    assert forward_path(made) == ("layer",)


def test_a_nested_number_of_another_node_is_not_the_engine_s() -> None:
    made = program(
        1, *FORWARD, (1, 45, 60, EVALUATE + "MmBackward0, op_id = 6"),
        (1, 46, 50, "OtherBackward0, seq = 3, op_id = 7"),
    )  # fmt: skip
    assert forward_path(made) == ()


def test_backward_on_the_calling_thread() -> None:
    made = program(
        0, *FORWARD, (0, 45, 60, EVALUATE + "MmBackward0, op_id = 6"),
        (0, 46, 58, "MmBackward0, seq = 3, op_id = 7"),
    )  # fmt: skip
    assert forward_path(made) == ("layer",)


def test_a_second_backward_finds_the_forward_and_not_the_first_backward() -> None:
    made = program(
        0, *FORWARD, (0, 41, 44, EVALUATE + "MmBackward0, op_id = 4"),
        (0, 42, 43, "MmBackward0, seq = 3, op_id = 5"),
        (0, 45, 60, EVALUATE + "MmBackward0, op_id = 6"),
        (0, 46, 58, "MmBackward0, seq = 3, op_id = 7"),
    )  # fmt: skip
    assert forward_path(made) == ("layer",)


def test_forward_itself_is_not_backward() -> None:
    assert forward_path(program(0, *FORWARD, launch=7)) == ()


def test_of_two_ranges_with_the_number_the_last_made_the_node() -> None:
    """`aten::linear, seq = 3` and `aten::t, seq = 3` began before the node 3 was made."""
    made = program(
        1, (0, 0, 10, "early"), (0, 2, 4, "aten::linear, seq = 3, op_id = 1"), (0, 20, 30, "late"),
        (0, 22, 24, "aten::t, seq = 3, op_id = 2"), (0, 40, 90, "bwd"),
        (1, 50, 60, "TBackward0, seq = 3, op_id = 7"),
    )  # fmt: skip
    assert forward_path(made) == ("late",)


def test_two_threads_with_the_number_only_the_caller_counts() -> None:
    other = [(2, 0, 30, "other"), (2, 25, 28, "aten::mm, seq = 3, op_id = 9")]
    node = (1, 50, 60, "MmBackward0, seq = 3, op_id = 7")
    assert forward_path(program(1, *FORWARD, *other, node)) == ("layer",)
    # Nobody has a range open during backward: nothing says whose 3 it is.
    assert forward_path(program(1, *FORWARD[:2], *other, node)) == ()


def test_backward_before_forward_is_not_matched() -> None:
    made = program(1, *FORWARD, (1, 50, 60, "MmBackward0, seq = 3, op_id = 7"))
    later = [replace(r, start=r.start + 62, end=r.end + 62) for r in made.ranges[:2]]
    assert forward_path(replace(made, ranges=[*later, *made.ranges[2:]])) == ()


class TestLatency:
    @pytest.mark.parametrize("path", ["eager-block", "eager-block / gemm", "eager-block / chain"])
    def test_launch_delay_by_sql(self, path: str) -> None:
        name = path.split(" / ")[-1]
        with sqlite3.connect(f"file:{H200 / 'blocks'}.sqlite?mode=ro", uri=True) as db:
            delays = [
                delay
                for (delay,) in db.execute(
                    """SELECT k.start - r.start FROM CUPTI_ACTIVITY_KIND_KERNEL k
                       JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId
                       WHERE EXISTS (SELECT 1 FROM NVTX_EVENTS n LEFT JOIN StringIds s
                           ON s.id = n.textId WHERE coalesce(s.value, n.text) = ?
                           AND n.globalTid = r.globalTid AND n.start <= r.start
                           AND r.end <= n.end)
                       ORDER BY 1""",
                    (name,),
                )
            ]
        table = summarise.latency(harness.load(H200 / "blocks.sqlite").attribute())
        row: Any = next(r for r in table.itertuples() if " / ".join(r.path) == path)
        rank = [math.ceil(len(delays) * share) - 1 for share in (0.5, 0.99)]
        expected = [delays[at] for at in rank]
        assert [row.launch_delay_median_ns, row.launch_delay_p99_ns] == expected
        assert row.idle_ns == row.span_ns - row.busy_ns
