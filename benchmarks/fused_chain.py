# SPDX-License-Identifier: MIT
"""The fused operator beside a copy, torch.compile and eager, in one run on one GPU.

    python benchmarks/fused_chain.py [--no-compiled] [--json FILE]
    ncu --set full -k regex:fused_chain python benchmarks/fused_chain.py --once 65536x1024

Every sample goes through several sets of buffers, each with its own result, so that no cache holds
what comes next; the GPU sleeps while the host queues the sample, so that launches cost nothing.
Samples of the four subjects alternate; medians are shown. GB/s count the bytes that each subject
has to move: a copy 2 values an element, fused and compiled 3, eager 11.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch import Tensor

from workload import extension, machine
from workload.blocks import DTYPES, EAGER_MOVES, FUSED_MOVES, eager_chain, fused_chain

#: The five shapes the ratios are quoted for, then odd sizes, a misaligned view, other dtypes.
CASES = (
    ("8192x1024", "fp32", 0),
    ("32768x1024", "fp32", 0),
    ("65536x1024", "fp32", 0),
    ("131072x1024", "fp32", 0),
    ("262144x1024", "fp32", 0),
    ("8191x1021", "fp32", 0),
    ("99991x1013", "fp32", 0),
    ("65536x1024", "fp32", 1),
    ("8192x1024", "bf16", 0),
    ("262144x1024", "bf16", 0),
    ("262144x1024", "fp16", 0),
)
MOVES = {"copy": 2, "fused": FUSED_MOVES, "compiled": FUSED_MOVES, "eager": EAGER_MOVES}
SAMPLES = 15
SLEEP_CYCLES = 2_000_000  # about a millisecond: the host queues a sample meanwhile

Subject = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Result:
    """One case: medians in ns of one operation, GB/s, and the three ratios (> 1: fused wins)."""

    shape: str
    dtype: str
    offset: int  # elements by which h and residual are off a 16-byte boundary
    tensor_bytes: int
    sets: int
    ns: dict[str, float]
    gb_per_s: dict[str, float]
    fused_to_copy: float  # of the bandwidths
    compiled_to_fused: float | None  # of the times
    eager_to_fused: float
    worst_difference: float  # from eager in fp32


def make_sets(shape: str, dtype: str, offset: int) -> list[tuple[Tensor, Tensor]]:
    rows, dim = map(int, shape.split("x"))
    size = rows * dim
    count = max(2, math.ceil((1 << 30) / (3 * size * DTYPES[dtype].itemsize)))
    torch.manual_seed(88)
    sets = []
    for _ in range(count):
        h = torch.randn(size + offset, device="cuda").to(DTYPES[dtype])
        residual = (torch.rand(size + offset, device="cuda") * 4 - 2).to(DTYPES[dtype])
        sets.append((h[offset:].view(rows, dim), residual[offset:].view(rows, dim)))
    return sets


def sample(subject: Subject, sets: list[tuple[Tensor, Tensor]]) -> float:
    """Nanoseconds of one operation, averaged over the sets."""
    events: Any = torch.cuda.Event
    start, end = events(enable_timing=True), events(enable_timing=True)
    sleep: Any = torch.cuda._sleep  # untyped in torch
    sleep(SLEEP_CYCLES)
    start.record()
    results = [subject(h, residual) for h, residual in sets]  # kept: each its own memory
    end.record()
    end.synchronize()
    del results
    return float(start.elapsed_time(end)) * 1e6 / len(sets)


def run_case(shape: str, dtype: str, offset: int, compiled: bool) -> Result:
    sets = make_sets(shape, dtype, offset)
    subjects: dict[str, Subject] = {
        "copy": lambda h, _residual: h.clone(),
        "fused": fused_chain,
        "eager": eager_chain,
    }
    if compiled:
        torch._dynamo.reset()
        subjects["compiled"] = torch.compile(eager_chain, fullgraph=True, dynamic=False)
    for subject in subjects.values():
        sample(subject, sets)
        sample(subject, sets)
    rounds = [{name: sample(f, sets) for name, f in subjects.items()} for _ in range(SAMPLES)]
    ns = {name: statistics.median(one[name] for one in rounds) for name in subjects}
    nbytes = sets[0][0].nbytes
    rate = {name: MOVES[name] * nbytes / time_ns for name, time_ns in ns.items()}
    return Result(
        shape,
        dtype,
        offset,
        nbytes,
        len(sets),
        ns,
        rate,
        rate["fused"] / rate["copy"],
        ns["compiled"] / ns["fused"] if compiled else None,
        ns["eager"] / ns["fused"],
        worst_difference(*sets[0]),
    )


def worst_difference(h: Tensor, residual: Tensor) -> float:
    """On the first 16 Mi elements: enough to see a wrong kernel, small enough to be quick."""
    h, residual = h.reshape(-1)[: 1 << 24], residual.reshape(-1)[: 1 << 24]
    expected = eager_chain(h.float(), residual.float())
    return float((fused_chain(h, residual).float() - expected).abs().max())


def show(result: Result) -> str:
    rates = "".join(f"{result.gb_per_s.get(name, math.nan):>10.0f}" for name in MOVES)
    versus = "" if result.compiled_to_fused is None else f"{result.compiled_to_fused:.3f}"
    return (
        f"{result.shape:>12} {result.dtype} {'+' + str(result.offset) if result.offset else '  '}"
        f"{result.tensor_bytes / 2**20:>8.1f}{rates}{result.fused_to_copy:>9.3f}{versus:>9}"
        f"{result.eager_to_fused:>9.3f}{result.worst_difference:>10.1e}"
    )


def once(shape: str, dtype: str) -> None:
    """One launch of the operator and nothing else worth a profiler's attention."""
    h, residual = make_sets(shape, dtype, 0)[0]
    torch.cuda.synchronize()
    fused_chain(h, residual)
    torch.cuda.synchronize()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--no-compiled", action="store_true", help="leave torch.compile out")
    parser.add_argument("--once", metavar="ROWSxDIM", help="one launch, for ncu")
    parser.add_argument("--dtype", choices=DTYPES, default="fp32", help="with --once")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("this benchmark needs a GPU", file=sys.stderr)
        return 4
    extension.load("cuda")
    if options.once:
        once(options.once, options.dtype)
        return 0
    facts = machine.facts(torch.device("cuda", torch.cuda.current_device()))
    print("\n".join(machine.lines(facts)))
    print(
        f"\n{'shape':>12} {'':7}{'MiB':>8}" + "".join(f"{name:>10}" for name in MOVES)
        + f"{'/copy':>9}{'compiled':>9}{'eager':>9}{'worst':>10}"
    )  # fmt: skip
    print(f"{'':27}{'':1}{'GB/s':>10}{'':30}{'GB/s':>9}{'/fused':>9}{'/fused':>9}{'diff':>10}")
    results = []
    begin = time.perf_counter()
    with torch.no_grad():
        for case in CASES:
            results.append(run_case(*case, compiled=not options.no_compiled))
            print(show(results[-1]), flush=True)
            torch.cuda.empty_cache()
    print(f"{time.perf_counter() - begin:.0f} s", file=sys.stderr)
    if options.json:
        text = json.dumps(
            {"schema": "harness.fused_chain/1", "machine": facts,
             "cases": [asdict(one) for one in results]}, indent=1,
        )  # fmt: skip
        options.json.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
