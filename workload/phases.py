# SPDX-License-Identifier: MIT
"""What the workload does, in order: check the spellings, time them, run them in ranges."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from harness.errors import ExitCode, ToolMissing, UsageProblem
from workload import blocks, extension, machine, printing
from workload.blocks import DTYPES, Block, Setting, Spelling
from workload.check import Check, check
from workload.timing import Timing, measure

SCHEMA = "harness.workload/1"


@dataclass(frozen=True)
class Options:
    """The command line, parsed."""

    shape: tuple[int, int] | None
    device: str
    dtype: str
    tf32: bool
    compiled: bool
    runs: int
    warmups: int
    extra_elements: float | None
    json: Path | None


def run(options: Options) -> int:
    """All phases in order; returns the exit code. stdout carries the results only."""
    if options.json is not None and not os.access(options.json.parent, os.W_OK):
        raise UsageProblem(f"--json: there is no folder {options.json.parent} to write to")
    device = choose_device(options.device)
    tf32 = use_tf32(options, device)
    extension.load(device.type)
    dtype = DTYPES[options.dtype]
    shape = options.shape or machine.default_shape(device, dtype.itemsize)
    setting = Setting(shape, device, dtype, options.extra_elements)
    found = machine.facts(device)
    printing.show_setting(found, setting, options.dtype, tf32)
    with torch.no_grad():
        checks, timings, model = measure_all(setting, options)
    passed = all(one.passed for one in checks)
    if options.json is not None:
        results = {
            "schema": SCHEMA,
            "machine": found,
            "shape": list(setting.shape),
            "dtype": options.dtype,
            "tf32": tf32,
            "tensor_bytes": setting.tensor_bytes,
            "extra_rows": setting.extra_rows,
            "seed": blocks.SEED,
            "checks": [one.as_dict() for one in checks],
            "timings": {name: one.as_dict() for name, one in timings.items()},
            "byte_model": model,
            "passed": passed,
        }
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    print("\nPASS" if passed else "\nFAIL")
    return int(ExitCode.OK if passed else ExitCode.FAILED)


def measure_all(
    setting: Setting, options: Options
) -> tuple[list[Check], dict[str, Timing], dict[str, float]]:
    """Check, time and run in ranges, printing each as it is known."""
    spellings: dict[str, Spelling] = {"eager": blocks.eager_chain, "fused": blocks.fused_chain}
    if options.compiled:
        spellings["compiled"] = blocks.compiled_chain()
    data = blocks.make_data(setting)
    made = blocks.make_blocks(setting, data, spellings)
    h, residual = data.linear(data.x), data.residual[: setting.shape[0]]
    checks = [check(name, spellings[name], h, residual) for name in spellings if name != "eager"]
    printing.show_checks(checks)
    timings = measure(
        works(made, data.x, h), setting.device, warmups=options.warmups, runs=options.runs
    )
    printing.show_timings(timings, setting, made)
    model = byte_model(timings, made)
    printing.show_model(model, setting)
    ranges_phase(made, data.x, setting.device, options.runs)
    return checks, timings, model


def choose_device(wanted: str) -> torch.device:
    """``auto`` is the GPU when torch sees one and the operator can be built for it."""
    if wanted == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        if wanted == "auto":
            return torch.device("cpu")
        reason = (
            "this build of torch has no CUDA"
            if torch.version.cuda is None
            else "torch finds no usable GPU or driver"
        )
        raise ToolMissing(f"--device cuda: {reason}", hint="Use --device cpu.")
    if wanted == "auto" and extension.find_nvcc() is None:
        print("no nvcc, so the operator runs on the CPU", file=sys.stderr)
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def use_tf32(options: Options, device: torch.device) -> bool:
    """Set torch's fp32 gemm precision; whether TF32 is in use."""
    if options.tf32 and options.dtype != "fp32":
        raise UsageProblem(f"--tf32 is about fp32 and does nothing for {options.dtype}")
    if options.tf32 and device.type != "cuda":
        print("--tf32 does nothing on the CPU", file=sys.stderr)
        return False
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    return options.tf32


def works(made: list[Block], x: torch.Tensor, h: torch.Tensor) -> dict[str, Callable[[], object]]:
    """What is timed: each block, each chain alone, and a copy as the bandwidth to compare with."""
    found: dict[str, Callable[[], object]] = {}
    for block in made:
        found[block.name] = partial(block.run, x)
    for block in made:
        found[block.name.replace("-block", "-chain")] = partial(block.chain, block.gemm(x))
    target = torch.empty_like(h)
    found["copy"] = partial(target.copy_, h)
    return found


def byte_model(timings: dict[str, Timing], made: list[Block]) -> dict[str, float]:
    """Eager over fused chain: by the bytes they move, and as measured."""
    moved = {block.name: block.moves * block.elements for block in made}
    return {
        "predicted_ratio": moved["eager-block"] / moved["fused-block"],
        "measured_ratio": timings["eager-chain"].median / max(timings["fused-chain"].median, 1),
    }


def ranges_phase(made: list[Block], x: torch.Tensor, device: torch.device, runs: int) -> None:
    """Each block ``runs`` times inside its ranges, alternating."""
    for _ in range(runs):
        for block in made:
            block.run_in_ranges(x)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
