# SPDX-License-Identifier: MIT
"""Two devices whose streams, contexts and correlation ids are alike: figures by hand."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from programs import as_trace
from reference import Launch, Op, Program, Range, Thread

from harness import select, summarise
from harness.attribute import Attribution, attribute
from harness.selection import Selection

#: Both processes launch correlation 1 and 2, on stream 7 of context 0, to devices 0 and 1.
#:     device 0   |0 ====== 10|      |20 == 25|          process 0: step
#:     device 1        |5 ====== 15|
#:     device 0   |0 ============== 12|                  process 1: step
#:     device 1   |0 ==== 6|
PROGRAM = Program(
    [Thread(0, 1, False), Thread(1, 1, False)],
    [Range(i, i, 0, 9, "step", "", "push_pop", False) for i in (0, 1)],
    [Launch(i, i // 3, 1, 2, (1, 2, 3, 1, 2)[i]) for i in range(5)],
    [
        Op(0, "kernel", 0, 10, 0, 1, 0, "a"),
        Op(1, "kernel", 5, 15, 0, 2, 1, "b"),
        Op(2, "kernel", 20, 25, 0, 3, 0, "c"),
        Op(3, "kernel", 0, 12, 1, 1, 0, "d"),
        Op(4, "kernel", 0, 6, 1, 2, 1, "e"),
    ],
)


def found(*devices: int) -> Attribution:
    return select.apply(attribute(as_trace(PROGRAM)), Selection(devices=devices))


def ranges(one: Attribution) -> dict[int, tuple[int, ...]]:
    columns = ["pid", "kernels", "self_gpu_ns", "busy_ns", "span_ns"]
    rows = summarise.ranges(one)[columns].itertuples(index=False, name=None)
    return {pid: tuple(values) for pid, *values in rows}


def test_busy_is_a_union_a_device_and_a_sum_over_devices() -> None:
    # Process 0: device 0 is busy 10 + 5, device 1 10; the union over both would be 20.
    assert ranges(found()) == {1000: (3, 25, 25, 25), 1001: (2, 18, 18, 12)}


def test_the_ranges_of_one_device() -> None:
    assert ranges(found(0)) == {1000: (2, 15, 15, 25), 1001: (1, 12, 12, 12)}
    assert ranges(found(1)) == {1000: (1, 10, 10, 10), 1001: (1, 6, 6, 6)}
    assert (found(1).ledger.hidden_ops, found(1).ledger.hidden_ns) == (3, 27)
    assert ranges(found(0, 1)) == ranges(found())
    assert ranges(found(2)) == {1000: (0, 0, 0, 0), 1001: (0, 0, 0, 0)}


def test_the_device_of_each_op() -> None:
    columns = ["name", "device", "stream", "pid", "correlation", "rule"]
    got = set(summarise.ops(found())[columns].itertuples(index=False, name=None))
    assert got == {
        ("a", 0, 7, 1000, 1, "thread"), ("b", 1, 7, 1000, 2, "thread"),
        ("c", 0, 7, 1000, 3, "thread"), ("d", 0, 7, 1001, 1, "thread"),
        ("e", 1, 7, 1001, 2, "thread"),
    }  # fmt: skip
    assert set(summarise.ops(found(1))["name"]) == {"b", "e"}
