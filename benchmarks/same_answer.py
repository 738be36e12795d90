# SPDX-License-Identifier: MIT
"""Whether `harness report` and `nsys stats` say the same of a made report, row for row.

A tool that is fast and wrong wins every race. Compared are the kernels of each range, process,
thread and kernel name: how often they ran and their total time, to the nanosecond. Only the policy
that nsys stats has, `thread`, can be compared.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

Row = tuple[str, str, int, int, str]  # range, style, pid, tid, kernel
Measure = tuple[int, int]  # kernels, total ns
STYLES = {"PushPop": "push_pop", "StartEnd": "start_end"}


def _table(argv: tuple[str, ...], first_column: str) -> list[dict[str, str]]:
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    header = next(n for n, line in enumerate(lines) if line.startswith(first_column))
    return list(csv.DictReader(line for line in lines[header:] if line))


def of_nsys(argv: tuple[str, ...]) -> dict[Row, Measure]:
    return {
        (row["NVTX Range"], STYLES[row["Style"]], int(row["PID"]), int(row["TID"]),
         row["Kernel Name"]): (int(row["Kern Inst"]), int(row["Total Time (ns)"]))
        for row in _table(argv, "NVTX Range,")
        if row["Style"] in STYLES  # the others were launched outside every range
    }  # fmt: skip


def of_harness(report: Path) -> dict[Row, Measure]:
    argv = (sys.executable, "-m", "harness", "report", str(report), "--view", "kernels",
            "--policy", "thread", "--names", "demangled", "--format", "csv")  # fmt: skip
    return {
        (row["name"], row["style"], int(row["pid"]), int(row["tid"]), row["kernel"]): (
            int(row["kernels"]),
            int(row["total_ns"]),
        )
        for row in _table(argv, "domain,")
        if row["style"]
    }


def differing(report: Path, nsys: tuple[str, ...]) -> tuple[int, int]:
    """(rows that differ or that only one side has, rows in all)."""
    ours, theirs = of_harness(report), of_nsys(nsys)
    rows = ours.keys() | theirs.keys()
    return sum(ours.get(row) != theirs.get(row) for row in rows), len(rows)
