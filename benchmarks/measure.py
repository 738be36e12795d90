# SPDX-License-Identifier: MIT
"""Time whole processes, in turn, and say by how much they differ.

A process's figures are the kernel's own account of it (``wait4``): wall clock, user + system time,
and the peak resident memory of the largest process below it.
"""

from __future__ import annotations

import math
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

TIME_LIMIT_S = 600.0  # for one run


@dataclass(frozen=True)
class Contestant:
    """A command to time. ``cores`` pins it; ``None`` leaves it where the machine puts it."""

    name: str
    argv: tuple[str, ...]
    cores: tuple[int, ...] | None = None
    runs: int | None = None  # fewer runs than the others, for what takes minutes


@dataclass(frozen=True)
class Sample:
    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass
class Result:
    """All runs of one contestant on one input; a command that failed has no samples."""

    name: str
    argv: tuple[str, ...]
    samples: list[Sample] = field(default_factory=list)
    error: str = ""

    def median(self, figure: str) -> float:
        if not self.samples:
            return math.nan
        return float(statistics.median(getattr(sample, figure) for sample in self.samples))

    def as_dict(self) -> dict[str, Any]:
        medians = {f: self.median(f) for f in ("wall_s", "cpu_s", "peak_bytes")}
        return {
            "name": self.name,
            "argv": list(self.argv),
            "error": self.error,
            "median": medians if self.samples else None,
            "samples": [asdict(sample) for sample in self.samples],
        }


class CommandFailed(Exception):
    pass


def run(contestant: Contestant, log: Path) -> Sample:
    """Run once; what it prints goes to ``log``. Raises CommandFailed with the log's last line."""
    with log.open("wb") as out:
        begin = time.perf_counter()
        process = subprocess.Popen(
            contestant.argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that a command is ended with all that it started
        )
        if contestant.cores:
            os.sched_setaffinity(process.pid, contestant.cores)
        bound = threading.Timer(TIME_LIMIT_S, os.killpg, (process.pid, signal.SIGKILL))
        bound.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            bound.cancel()
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
    printed = _ends(log)
    # `nsys stats` exits 0 when it skipped the report: judge it by what it printed.
    skipped = [line for line in printed[:5] if line.startswith(("SKIPPED", "ERROR"))]
    if process.returncode or skipped:
        last = (skipped or printed or ["no output"])[-1]
        raise CommandFailed(f"exit {process.returncode}: {last}")
    return Sample(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def _ends(log: Path) -> list[str]:
    """The first and last lines: a listing may be as large as the report, and this process must stay
    small, because a child's peak memory is never below what its parent held when it forked."""
    with log.open("rb") as file:
        head = file.read(4096)
        file.seek(max(file.tell(), log.stat().st_size - 4096))
        return (head + file.read()).decode(errors="replace").strip().splitlines()


def in_turn(contestants: Sequence[Contestant], runs: int, log: Path) -> list[Result]:
    """One uncounted run of each, then A B C, A B C, ...: drift of the machine hits all alike."""
    results = [Result(c.name, c.argv) for c in contestants]
    for number in range(-1, runs):
        for contestant, result in zip(contestants, results, strict=True):
            if result.error or (contestant.runs is not None and number >= contestant.runs):
                continue
            if number < 0 and contestant.runs is not None:
                continue  # a run of minutes needs no warm-up: the file is in memory by now
            try:
                sample = run(contestant, log)
            except CommandFailed as error:
                result.error = str(error)
                print(f"    {contestant.name} failed: {error}", file=sys.stderr)
                continue
            counted = "warm-up" if number < 0 else f"{number + 1}/{contestant.runs or runs}"
            print(f"    {contestant.name:<28} {counted:>8} {sample.wall_s:8.2f} s", file=sys.stderr)
            if number >= 0:
                result.samples.append(sample)
    return results


def exponent(sizes: tuple[float, float], values: tuple[float, float]) -> float:
    """How a figure grows with size: 1 is linearly, 2 with the square."""
    if min(*sizes, *values) <= 0 or any(map(math.isnan, values)):
        return math.nan
    return math.log(values[1] / values[0]) / math.log(sizes[1] / sizes[0])


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "kernel": os.uname().release,
        "python": sys.version.split()[0],
        "load_before": os.getloadavg()[0],
    }


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return os.uname().machine


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Columns aligned, the first to the left and the others to the right."""
    if not rows:
        return ""
    names = list(rows[0])
    widths = [max(len(name), *(len(row[name]) for row in rows)) for name in names]
    lines = [dict(zip(names, names, strict=True)), *rows]
    out = []
    for line in lines:
        cells = [line[names[0]].ljust(widths[0])]
        cells += [line[n].rjust(w) for n, w in zip(names[1:], widths[1:], strict=True)]
        out.append("  ".join(cells).rstrip())
    return "\n".join(out)
