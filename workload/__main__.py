# SPDX-License-Identifier: MIT
"""``python -m workload``: its options. torch is imported once they are understood."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import click

from harness.errors import ExitCode, HarnessError, ToolMissing


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
@click.option("--dtype", type=click.Choice(["fp32", "bf16", "fp16"]), default="fp32")
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
@click.option("--build-only", is_flag=True, help="Build the operator for the device and stop.")
def command(build_only: bool, **values: Any) -> int:
    """Check, time and profile one block of a network, spelt as five eager operators and as one.

    Ends with PASS (exit 0) or FAIL (exit 1): whether the spellings agree.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ToolMissing(
            f"the workload needs torch ({error})", hint="pip install 'nsys-harness[record]'"
        ) from error
    from workload.phases import Options, choose_device, run

    if build_only:
        from workload import extension

        extension.load(choose_device(values["device"]).type)
        return 0
    try:
        return run(Options(**values))
    except torch.cuda.OutOfMemoryError as error:
        raise _too_large("the GPU's memory") from error
    except RuntimeError as error:  # torch has no type of its own for these two
        if re.search("DefaultCPUAllocator|size calculation overflowed", str(error)):
            raise _too_large("the memory") from error
        raise


def _too_large(memory: str) -> HarnessError:
    return HarnessError(f"{memory} is too small for this shape", hint="Try --shape 8192x1024.")


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


if __name__ == "__main__":
    sys.exit(main())
