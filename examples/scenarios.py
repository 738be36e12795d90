# SPDX-License-Identifier: MIT
"""Small programs that each show one thing a profiler's report can get wrong.

    python examples/scenarios.py NAME
    harness run --nsys -o reports/NAME -- python examples/scenarios.py NAME

The counts in the docstrings are what a right report says; what warms up is outside every range.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

import harness

Graph: Any = torch.cuda.CUDAGraph
SPIN_CYCLES = 400_000  # a kernel of one thread that lasts about 0.2 ms: two of them can overlap


def make(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda")


def spin() -> None:
    sleep: Any = torch.cuda._sleep
    sleep(SPIN_CYCLES)


def work_in_process(rank: int, rounds: int) -> None:
    x = make(1024, 1024)
    x @ x
    torch.cuda.synchronize()
    for _ in range(rounds):
        with harness.range("work"):
            with harness.range("gemm"):
                y = x @ x
            with harness.range("relu"):
                y.relu()
            if rank:
                with harness.range("only-in-second"):
                    y.neg()
    torch.cuda.synchronize()


def two_processes() -> None:
    """Two processes on one GPU, whose correlation ids collide: 10 and 6 instances of ``work``, with
    2 and 3 kernels each."""
    context = torch.multiprocessing.get_context("spawn")
    processes = [context.Process(target=work_in_process, args=job) for job in ((0, 10), (1, 6))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise RuntimeError("a process of the scenario failed")


def two_streams() -> None:
    """``both`` > ``first``, ``second``: 5 instances of 3 kernels on each of two streams at once.
    Busy time of ``both`` is about half its total time."""
    streams = torch.cuda.Stream(), torch.cuda.Stream()
    spin()
    torch.cuda.synchronize()
    for _ in range(5):
        with harness.range("both"):
            for name, stream in zip(("first", "second"), streams, strict=True):
                with harness.range(name), torch.cuda.stream(stream):
                    for _ in range(3):
                        spin()
        torch.cuda.synchronize()


def chain(h: Tensor, residual: Tensor) -> Tensor:
    h = functional.gelu(h * 1.5 - 0.25, approximate="tanh")
    return (h + residual).clamp(-6, 3)


def compiled() -> None:
    """``eager`` with 5 kernels and ``compiled`` with one Triton kernel, 10 instances each; the
    range inside the compiled function leaves no trace."""

    def inside(h: Tensor, residual: Tensor) -> Tensor:
        with harness.range("never-recorded"):
            return chain(h, residual)

    fast = torch.compile(inside, fullgraph=True)
    h, residual = make(4096, 1024), make(4096, 1024)
    with torch.no_grad():
        fast(h, residual)
        torch.cuda.synchronize()
        for _ in range(10):
            with harness.range("eager"):
                chain(h, residual)
            with harness.range("compiled"):
                fast(h, residual)
    torch.cuda.synchronize()


def emit_nvtx() -> None:
    """``step`` > ``forward``, ``backward``, ``optimizer``: 2 instances, then 4 under emit_nvtx,
    where each operator is a range as well, with its sequence number. ``forward`` > ``first``,
    ``second`` say where the backward kernels' forward operators ran. No range is there twice."""
    first, second = torch.nn.Linear(512, 1024).cuda(), torch.nn.Linear(1024, 10).cuda()
    parameters = [*first.parameters(), *second.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    x, y = make(1024, 512), torch.randint(10, (1024,), device="cuda")

    def step() -> None:
        with harness.range("step"):
            with harness.range("forward"):
                with harness.range("first"):
                    hidden = functional.gelu(first(x))
                with harness.range("second"):
                    loss = functional.cross_entropy(second(hidden), y)
            with harness.range("backward"):
                loss.backward()
            with harness.range("optimizer"):
                optimizer.step()
                optimizer.zero_grad()

    for _ in range(2):
        step()
    torch.cuda.synchronize()
    with torch.autograd.profiler.emit_nvtx():
        for _ in range(4):
            step()
    torch.cuda.synchronize()


def threads() -> None:
    """Three threads with 20 instances of ``thread-work``, 1 kernel each; one that launches 20
    kernels with no range open; and ``handover``, opened by the main thread around 5 kernels and
    closed by another thread after 5 more of its own."""
    x = make(512, 512)
    x.sin()
    torch.cuda.synchronize()

    def ranged() -> None:
        for _ in range(20):
            with harness.range("thread-work"):
                x.erf()

    def bare() -> None:
        for _ in range(20):
            x.cos()

    run_together(ranged, ranged, ranged, bare)
    handover = harness.range("handover", threads=True)
    handover.open()
    for _ in range(5):
        x.tan()

    def finish() -> None:
        for _ in range(5):
            x.exp()
        torch.cuda.synchronize()
        handover.close()

    run_together(finish)
    torch.cuda.synchronize()


def run_together(*works: Callable[[], None]) -> None:
    running = [threading.Thread(target=work) for work in works]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def graph_ranges() -> None:
    """A CUDA graph captured in ``capture`` > ``scale`` (2 kernels), ``squash`` > ``tanh`` (1) and
    ``squash`` itself (1). It is replayed 5 times in ``replay``, instantiated again and replayed 5
    times in ``replay-again``. A second graph of 1 kernel, captured in ``capture-other`` >
    ``negate``, is replayed 3 times in ``replay-other``, the last of them inside ``nested``."""
    x = make(1024, 1024)

    def body() -> Tensor:
        with harness.range("scale"):
            y = x * 2
            y = y + 1
        with harness.range("squash"):
            with harness.range("tanh"):
                y = y.tanh()
            return y.abs()

    (x * 2 + 1).tanh().abs().neg()
    torch.cuda.synchronize()
    graph, other = Graph(keep_graph=True), Graph()
    with harness.range("capture"), torch.cuda.graph(graph):
        kept = [body()]
    graph.instantiate()
    for _ in range(5):
        with harness.range("replay"):
            graph.replay()
    torch.cuda.synchronize()
    graph.instantiate()
    for _ in range(5):
        with harness.range("replay-again"):
            graph.replay()
    with (
        harness.range("capture-other"),
        torch.cuda.graph(other),
        harness.range("negate"),
    ):
        kept.append(x.neg())
    for _ in range(2):
        with harness.range("replay-other"):
            other.replay()
    with harness.range("nested"), harness.range("replay-other"):
        other.replay()
    torch.cuda.synchronize()


SCENARIOS: dict[str, Callable[[], None]] = {
    "two-processes": two_processes,
    "two-streams": two_streams,
    "compiled": compiled,
    "emit-nvtx": emit_nvtx,
    "threads": threads,
    "graph-ranges": graph_ranges,
}


def main(argv: list[str]) -> int:
    if len(argv) != 1 or argv[0] not in SCENARIOS:
        print(f"usage: scenarios.py {'|'.join(SCENARIOS)}", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("the scenarios need a GPU", file=sys.stderr)
        return 4
    torch.manual_seed(88)
    SCENARIOS[argv[0]]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
