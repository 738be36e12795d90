# SPDX-License-Identifier: MIT
"""What one ``harness.range`` costs the host, beside its alternatives, in nanoseconds.

    python benchmarks/range_cost.py [--json FILE]

Each figure is the best of seven rounds of an empty ``with`` block, the cost of the loop taken off.
Run it under ``nsys profile -t nvtx`` to see what a listener adds.
"""

from __future__ import annotations

import argparse
import json
import sys
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import harness

ROUNDS = 7
COUNT = 20_000


def cost(work: Callable[[], None]) -> float:
    """Nanoseconds a call, without the call itself."""
    best = min(timeit.repeat(work, number=COUNT, repeat=ROUNDS))
    empty = min(timeit.repeat(lambda: None, number=COUNT, repeat=ROUNDS))
    return (best - empty) / COUNT * 1e9


def using(make: Callable[[], Any]) -> Callable[[], None]:
    def work() -> None:
        with make():
            pass

    return work


@harness.range("decorated")
def decorated() -> None:
    pass


def reused() -> Callable[[], None]:
    one = harness.range("reused")

    def work() -> None:
        with one:
            pass

    return work


def measure() -> dict[str, float]:
    """Name -> ns. torch is imported half-way: a program without it pays the first figure."""
    found = {"harness.range, no torch": cost(using(lambda: harness.range("x")))}
    import torch

    # One use after the import, so that the range has found torch before it is timed.
    decorated()
    found["harness.range"] = cost(using(lambda: harness.range("x")))
    found["harness.range, object kept"] = cost(reused())
    found["harness.range, decorator"] = cost(decorated)
    found["harness.range, threads=True"] = cost(using(lambda: harness.range("x", threads=True)))
    if torch.cuda.is_available():
        found["torch.cuda.nvtx.range"] = cost(using(lambda: torch.cuda.nvtx.range("x")))
    found["record_function"] = cost(using(lambda: torch.profiler.record_function("x")))
    try:
        import nvtx  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        pass
    else:
        found["nvtx.annotate"] = cost(using(lambda: nvtx.annotate("x")))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        found["harness.range, torch.profiler on"] = cost(using(lambda: harness.range("x")))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    found = measure()
    for name, ns in found.items():
        print(f"{name:<34} {ns:>7.0f} ns")
    if options.json:
        text = json.dumps({"schema": "harness.range_cost/1", "ns": found}, indent=1)
        options.json.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
