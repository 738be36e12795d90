# SPDX-License-Identifier: MIT
"""``python -m workload``: check the spellings of one block, time them, run them in ranges."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch

from harness.errors import ExitCode, HarnessError, ToolMissing, UsageProblem
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


def parse_shape(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Any:
    """ "8192x1024" -> (8192, 1024)."""
    if text is None:
        return None
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not ROWSxDIM, such as 8192x1024")
    return int(match[1]), int(match[2])


@click.command(
    "workload",
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--shape",
    callback=parse_shape,
    metavar="ROWSxDIM",
    help="Shape of x.  [default: each tensor at least 8 x the GPU's L2]",
)
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto")
@click.option("--dtype", type=click.Choice(list(DTYPES)), default="fp32")
@click.option("--tf32/--no-tf32", default=False, help="Let the fp32 gemm use TF32 tensor cores.")
@click.option("--compiled", is_flag=True, help="Also run the eager chain under torch.compile.")
@click.option(
    "--runs", type=click.IntRange(1), default=10, help="Timed runs, and instances of each range."
)
@click.option("--warmups", type=click.IntRange(0), default=3)
@click.option(
    "--extra-elements",
    type=click.FloatRange(0),
    metavar="PCT",
    help="Plant a change: PCT % more elements in the fused block's chain (0: its baseline).",
)
@click.option(
    "--json",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the results to FILE.",
)
def command(**values: Any) -> int:
    """Check, time and profile one block of a network, spelt as five eager operators and as one.

    Ends with PASS (exit 0) or FAIL (exit 1): whether the spellings agree.
    """
    return run(Options(**values))


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


def main(argv: list[str] | None = None) -> int:
    """Exit code; the only place where an error becomes a line."""
    try:
        return int(command.main(args=argv, prog_name="workload", standalone_mode=False) or 0)
    except click.ClickException as error:
        print(f"workload: {error.format_message()}", file=sys.stderr)
        return int(ExitCode.USAGE)
    except HarnessError as error:
        print(f"workload: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"  {error.hint}", file=sys.stderr)
        return int(error.exit_code)
    except click.exceptions.Abort:
        print("workload: interrupted", file=sys.stderr)
        return 130
    except torch.OutOfMemoryError:
        print("workload: the GPU's memory is too small for this shape; try --shape 8192x1024",
              file=sys.stderr)  # fmt: skip
        return int(ExitCode.NO_ANSWER)


if __name__ == "__main__":
    sys.exit(main())
