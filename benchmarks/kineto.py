# SPDX-License-Identifier: MIT
"""Time the torch.profiler reader against bare JSON parsers, on a trace of N events.

    python benchmarks/kineto.py make trace.json --events 1000000
    python benchmarks/kineto.py time trace.json --rounds 5

The trace repeats a recorded H200 training loop (tests/data/h200/train.trace.json.gz), moved in
time and with fresh correlation ids, written in the layout torch 2.11 writes. Every measurement is
a whole process (start-up and imports included); the rounds interleave the contestants.
"""

from __future__ import annotations

import gzip
import json
import statistics
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, TextIO

import click

RECORDED = Path(__file__).parent.parent / "tests/data/h200/train.trace.json.gz"
GAP_US = 1000.0

#: Contestant -> program; ``p`` is the trace.
CONTESTANTS = {
    "stdlib json": "import json; json.load(open(p, 'rb'))",
    "orjson": "import orjson; orjson.loads(open(p, 'rb').read())",
    "msgspec": "import msgspec; msgspec.json.decode(open(p, 'rb').read())",
    "simdjson": "import simdjson; simdjson.Parser().parse(open(p, 'rb').read())",
    "simdjson to Python": "import simdjson; simdjson.loads(open(p, 'rb').read())",
    "kineto.read": "from harness.readers import kineto; kineto.read(p)",
    "import pandas": "import pandas",
}
PEAK = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def event_text(event: dict[str, Any]) -> str:
    """One event in torch's own layout: two-space indent, ``args`` one key-run per line."""
    head = {k: v for k, v in event.items() if k not in ("ts", "dur", "args")}
    lines = [json.dumps(head)[1:-1] + ","]
    times = f'"ts": {event["ts"]:.3f}'
    if "dur" in event:
        times += f', "dur": {event["dur"]:.3f}'
    if "args" in event:
        lines += [times + ",", '"args": {', f"  {json.dumps(event['args'])[1:-1]}", "}"]
    else:
        lines.append(times)
    return "  {\n" + textwrap.indent("\n".join(lines), "    ") + "\n  }"


def shifted(event: dict[str, Any], turn: int, length_us: float, ids: int) -> dict[str, Any]:
    """The event as repetition ``turn`` has it: later, and with ids no other repetition has."""
    moved = dict(event, ts=event["ts"] + turn * length_us)
    if "id" in event:
        moved["id"] = event["id"] + turn * ids
    args = event.get("args", {})
    if args.keys() & {"correlation", "External id"}:
        moved["args"] = {
            key: value + turn * ids if key in ("correlation", "External id") else value
            for key, value in args.items()
        }
    return moved


def write_trace(out: TextIO, events: int) -> int:
    """Write at least ``events`` events; returns how many."""
    recorded = json.loads(gzip.decompress(RECORDED.read_bytes()))
    body = [e for e in recorded["traceEvents"] if e["ph"] in "Xsf" and e.get("cat") != "Trace"]
    meta = [e for e in recorded["traceEvents"] if e["ph"] == "M"]
    first = min(e["ts"] for e in body)
    length = max(e["ts"] + e.get("dur", 0.0) for e in body) - first + GAP_US
    header = {k: v for k, v in recorded.items() if k not in ("traceEvents", "traceName")}
    out.write(json.dumps(header, indent=2)[:-2] + ',\n  "traceEvents": [\n')
    out.write(",\n".join(map(event_text, meta)))
    written, turn = len(meta), 0
    while written < events:
        out.write(",\n")
        out.write(",\n".join(event_text(shifted(e, turn, length, 10_000)) for e in body))
        written, turn = written + len(body), turn + 1
    out.write('\n  ],\n  "traceName": "synthetic"\n}\n')
    return written


def measure(program: str, trace: Path) -> tuple[float, int]:
    """Wall seconds and peak resident bytes of one whole process."""
    code = f"import sys, time; p = sys.argv[1]\n{program}\n{PEAK}"
    timed = "import subprocess, sys, time; t = time.perf_counter(); "
    timed += "o = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True).stdout; "
    timed += "print(time.perf_counter() - t, o.split()[-1])"
    done = subprocess.run(
        [sys.executable, "-c", timed, sys.executable, "-c", code, str(trace)],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise click.ClickException(done.stderr.strip().splitlines()[-1])
    seconds, kilobytes = done.stdout.split()
    return float(seconds), int(kilobytes) * 1024


@click.group()
def main() -> None:
    """Make a synthetic torch trace; time readers on it."""


@main.command()
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--events", default=1_000_000, show_default=True)
def make(trace: Path, events: int) -> None:
    """Write a trace of at least EVENTS events."""
    with trace.open("w") as out:
        written = write_trace(out, events)
    click.echo(f"{trace}: {written} events, {trace.stat().st_size / 1e6:.0f} MB")


@main.command("time")
@click.argument("trace", type=click.Path(path_type=Path, exists=True))
@click.option("--rounds", default=5, show_default=True)
@click.option("--only", multiple=True, help="Contestants to run (default: all installed).")
def time_(trace: Path, rounds: int, only: tuple[str, ...]) -> None:
    """Print seconds, peak memory and ratios of every contestant, in one run."""
    size = trace.stat().st_size
    samples: dict[str, list[tuple[float, int]]] = {}
    for turn in range(rounds):
        for name, program in CONTESTANTS.items():
            if (only and name not in only) or (turn and name not in samples):
                continue
            try:
                samples.setdefault(name, []).append(measure(program, trace))
            except click.ClickException as error:
                samples.pop(name, None)
                click.echo(f"{name}: {error.message}", err=True)
    click.echo(f"{trace.name}: {size / 1e6:.0f} MB, medians of {rounds}")
    click.echo("| contestant | seconds | peak MB | peak / file |\n|---|---|---|---|")
    for name, pairs in samples.items():
        seconds = statistics.median(s for s, _ in pairs)
        peak = statistics.median(b for _, b in pairs)
        click.echo(f"| {name} | {seconds:.2f} | {peak / 1e6:.0f} | {peak / size:.2f} |")
    samples.pop("import pandas", None)  # for the reader: how much of it is start-up
    own = samples.pop("kineto.read", None)
    if own and samples:
        best = min(samples, key=lambda n: statistics.median(s for s, _ in samples[n]))
        for name in samples:
            rounds_ = zip(own, samples[name], strict=True)
            ratio = statistics.median(mine[0] / other[0] for mine, other in rounds_)
            mark = " (the fastest)" if name == best else ""
            click.echo(f"kineto.read / {name}{mark}: {ratio:.2f} x in time")


if __name__ == "__main__":
    main()
