# SPDX-License-Identifier: MIT
"""What recording costs the program: plain, torch.profiler, nsys by hand, and nsys under harness.

    python benchmarks/overhead.py OUT.json [--rounds 3] [--seconds N] [--way WAY]... [--more]

This file starts itself in each of the four ways, in turn, and measures inside: the workload's eager
block at 8192x1024 (about 445 µs on an H200), with and without ranges, and a kernel on 64 elements
launched many times. "nsys by hand" has the options that `harness run` gives nsys, and the whole
environment; so its difference from "harness" is what harness adds.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from collections.abc import Callable

WAYS = ("plain", "torch.profiler", "nsys", "harness")
SCHEMA = "harness.overhead/1"
BLOCKS, BATCHES, LAUNCHES = 100, 20, 500


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no round later")
    parser.add_argument("--more", action="store_true", help="add rounds to those that OUT has")
    parser.add_argument("--way", choices=WAYS, action="append", help="only these (repeatable)")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--child", choices=("bare", "profiler"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        options.out.write_text(json.dumps(inside(options.child, options.cpu)))
        return 0
    return compare(options)


# Inside: what is measured in each of the processes.


def inside(child: str, cpu: bool) -> dict[str, Any]:
    """Samples in ns by what was measured; run in a process of its own."""
    import torch

    from workload import blocks

    device = torch.device("cpu" if cpu else "cuda")
    shape = (256, 64) if cpu else (8192, 1024)
    setting = blocks.Setting(shape, device, torch.float32)
    data = blocks.make_data(setting)
    (block,) = blocks.make_blocks(setting, data, {"eager": blocks.eager_chain})
    small = torch.ones(64, device=device)
    with torch.no_grad(), _profiler(torch, child == "profiler"):
        return {
            "shape": list(shape),
            "launches": LAUNCHES,
            "block": _samples(torch, lambda: block.run(data.x), BLOCKS, 1, cpu),
            "block in ranges": _samples(torch, lambda: block.run_in_ranges(data.x), BLOCKS, 1, cpu),
            "launch": _samples(torch, lambda: small.mul_(1.0), BATCHES, LAUNCHES, cpu),
        }


def _profiler(torch: Any, wanted: bool) -> Any:
    if not wanted:
        return nullcontext()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    return torch.profiler.profile(activities=activities, record_shapes=True)


def _samples(
    torch: Any, work: Callable[[], object], count: int, each: int, cpu: bool
) -> dict[str, list[float]]:
    """``count`` samples of ``each`` calls, in ns a call.

    ``host``: until the GPU is done; ``enqueue``: until the last call returned; ``events``: between
    two CUDA events around them.
    """
    found: dict[str, list[float]] = {"host": [], "enqueue": [], **({} if cpu else {"events": []})}
    for number in range(count + 5):  # the first five are warm-ups
        start, end = (None, None) if cpu else _events(torch)
        began = time.perf_counter_ns()
        if start is not None:
            start.record()
        for _ in range(each):
            work()
        if end is not None:
            end.record()
        returned = time.perf_counter_ns()
        if end is not None:
            end.synchronize()
        done = time.perf_counter_ns()
        if number < 5:
            continue
        found["host"].append((done - began) / each)
        found["enqueue"].append((returned - began) / each)
        if start is not None:
            found["events"].append(start.elapsed_time(end) * 1e6 / each)
    return found


def _events(torch: Any) -> tuple[Any, Any]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


# Outside: the four ways, in turn.


def compare(options: argparse.Namespace) -> int:
    """Rounds of the four ways into ``options.out``; exit 1 when one of them gave no result."""
    from harness.launch import nsys as nsight

    nsys = nsight.find(None, {**_environ()})
    before = json.loads(options.out.read_text()) if options.more else {}
    rounds: list[dict[str, Any]] = before.get("rounds", [])
    known = len(rounds)
    commands: dict[str, str] = before.get("commands", {})
    began = time.monotonic()
    ways = tuple(way for way in WAYS if not options.way or way in options.way)
    for number in range(options.rounds):
        if number and time.monotonic() - began > options.seconds * number / (number + 1):
            print("overhead: no time for another round", file=sys.stderr)
            break
        # Every way comes first once: what the one before leaves warm favours none.
        order = ways[number % len(ways) :] + ways[: number % len(ways)]
        # And none always follows the same one.
        order = order if number // len(ways) % 2 == 0 else order[::-1]
        with tempfile.TemporaryDirectory() as scratch:
            found = {way: _start(way, nsys.path, Path(scratch), options, commands) for way in order}
        rounds.append({"order": list(order), **found})
    result = {
        "schema": SCHEMA,
        "machine": _machine(nsys.version, options.cpu),
        "commands": commands,
        "rounds": rounds,
    }
    options.out.write_text(_text(_rounded(result)))
    return 0 if all("samples" in one[way] for one in rounds[known:] for way in ways) else 1


def _start(
    way: str, nsys: str, scratch: Path, options: argparse.Namespace, commands: dict[str, str]
) -> dict[str, Any]:
    """One process measured in one way: its samples, and its whole life in seconds."""
    from harness.launch import nsys as nsight

    out = scratch / f"{way}.json"
    line = [sys.executable, str(Path(__file__).resolve()), str(out)]
    line += ["--child", "profiler" if way == "torch.profiler" else "bare"]
    line += ["--cpu"] if options.cpu else []
    if way == "nsys":
        line = nsight.profile_command(nsys, scratch / "by-hand", line)
    elif way == "harness":
        run = ["run", "--nsys", "--no-torch", "--no-plain", "-q", "-o", str(scratch / "run")]
        line = [sys.executable, "-m", "harness", *run, "--", *line]
    shown = [Path(w).name if w.startswith("/") else w for w in line]
    commands[way] = shlex.join(shown)
    print(f"overhead: {shlex.join(line)}", file=sys.stderr)
    began = time.monotonic()
    done = subprocess.run(
        line, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False
    )
    found: dict[str, Any] = {"exit_code": done.returncode, "wall_s": time.monotonic() - began}
    if way == "harness" and (scratch / "run" / "run.json").is_file():
        passes = json.loads((scratch / "run" / "run.json").read_text())["passes"]
        found["pass_s"] = passes[0]["duration_s"]
    if out.is_file():
        found["samples"] = json.loads(out.read_text())
    return found


def _environ() -> dict[str, str]:
    import os

    return dict(os.environ)


def _machine(nsys: str, cpu: bool) -> dict[str, Any]:
    """What the figures depend on."""
    from harness.launch import facts

    interpreter = facts.interpreter(sys.executable, _environ())
    gpus = [] if cpu else facts.query_gpus()
    return {
        "gpu": [{k: gpu.get(k) for k in ("name", "driver")} for gpu in gpus],
        "nsys": nsys,
        **{key: interpreter.get(key) for key in ("python", "torch", "cuda")},
    }


def _text(result: dict[str, Any]) -> str:
    """JSON with a line a round: thousands of samples, one a line, would be a long file."""
    rounds = ",\n".join(json.dumps(one) for one in result["rounds"])
    head = json.dumps({**result, "rounds": []}, indent=1)
    return head.replace('"rounds": []', f'"rounds": [\n{rounds}\n ]') + "\n"


def _rounded(value: Any) -> Any:
    """Without the digits that no clock has."""
    if isinstance(value, float):
        return round(value, 1 if value > 100 else 3)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
