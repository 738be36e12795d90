# SPDX-License-Identifier: MIT
"""Communication kernels and their exposed part, against sets of single nanoseconds."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from programs import as_trace, programs
from reference import Launch, Op, Program, Range, Reference, Thread
from test_against_reference import many

from harness import summarise
from harness.attribute import attribute
from harness.measures import is_communication

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def with_nccl(program: Program) -> Program:
    ops = [replace(op, name=NCCL) if op.name == "k2" else op for op in program.ops]
    return replace(program, ops=ops)


def moments(op: Op) -> set[tuple[int, int, int]]:
    return {(op.process, op.device, t) for t in range(op.start, op.end)}


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@many
@given(program=programs())
def test_exposed_time_equals_brute_force(policy: str, program: Program) -> None:
    program = with_nccl(program)
    wanted = Reference(program, policy)
    kernels = [op for op in program.ops if op.kind == "kernel"]
    hiding: set[tuple[int, int, int]] = set()
    hiding = hiding.union(*(moments(op) for op in kernels if op.name != NCCL))
    expected: dict[Any, list[Any]] = defaultdict(lambda: [0, 0, 0, set()])
    for r in program.ranges:
        expected[wanted.path_key(r)]
    for op, outcome in zip(program.ops, wanted.outcomes, strict=True):
        for key in {wanted.path_key(r) for r in outcome.claimed_by}:
            row = expected[key]
            if op.kind == "kernel" and op.name == NCCL:
                row[1] += 1
                row[2] += op.end - op.start
                row[3] |= moments(op) - hiding
            else:
                row[0] += op.end - op.start
    table = summarise.communication(attribute(as_trace(program), policy))
    columns = ["pid", "path", "domain", "name", "style"]
    columns += ["compute_ns", "comm_kernels", "comm_ns", "exposed_ns"]
    got = Counter(table[columns].itertuples(index=False, name=None))
    assert got == Counter(
        (1000 + process, tuple(label[1] for label in path), *path[-1], *row[:3], len(row[3]))
        for (process, path), row in expected.items()
    )


def test_by_hand() -> None:
    """An all-reduce of 100 ns under a kernel of another range that covers 60 of it; a second one
    on top of it, of which 10 ns lie beyond the first. A copy hides nothing."""
    ranges = [
        Range(0, 0, 0, 10, "backward", "", "push_pop", False),
        Range(1, 0, 20, 30, "optimizer", "", "push_pop", False),
    ]
    launches = [Launch(row, 0, t, t, row) for row, t in enumerate((1, 2, 3, 21))]
    ops = [
        Op(0, "kernel", 100, 200, 0, 0, 0, NCCL),
        Op(1, "kernel", 150, 210, 0, 1, 0, NCCL),
        Op(2, "memcpy", 100, 300, 0, 2, 0, "copy"),
        Op(3, "kernel", 90, 160, 0, 3, 0, "gemm"),
    ]
    table = summarise.communication(
        attribute(as_trace(Program([Thread(0, 1, False)], ranges, launches, ops)))
    )
    rows = {row.name: row for row in table.itertuples(index=False)}
    backward, optimizer = rows["backward"], rows["optimizer"]
    assert (backward.comm_kernels, backward.comm_ns, backward.exposed_ns) == (2, 160, 50)
    assert (backward.total_gpu_ns, backward.compute_ns) == (360, 200)
    assert (optimizer.comm_kernels, optimizer.exposed_ns, optimizer.compute_ns) == (0, 0, 70)


@pytest.mark.parametrize(
    ("name", "moves"),
    [
        (NCCL, True),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", True),
        ("ncclAllReduceRingLLKernel_sum_f32(ncclColl)", True),
        ("ncclDevKernel_Generic(ncclDevComm*)", True),
        ("void vllm::cross_device_reduce_1stage<float, 2>(vllm::RankData*)", True),
        ("void c10d::symmetric_memory::two_shot_all_reduce_kernel<float>(float*)", True),
        ("nvshmemi_proxy_quiet_entrypoint", True),
        ("void at::native::reduce_kernel<512, 1>(float*)", False),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32", False),
        ("my_nccl_like_kernel", False),
        ("void gemm<ncclFloat>(float*)", False),
    ],
)
def test_told_by_the_name(name: str, moves: bool) -> None:
    ops = [Op(0, "kernel", 0, 1, 0, 0, 0, name), Op(1, "memset", 0, 1, 0, 1, 0, name)]
    program = Program([Thread(0, 1, False)], [], [], ops)
    assert is_communication(attribute(as_trace(program))).tolist() == [moves, False]
