# SPDX-License-Identifier: MIT
"""The recorded runs and measured figures that docs/h200.md is made from, read through harness."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import harness
from harness import gather, readers, summarise
from harness.launch.rundir import Run
from harness.report import Request

if TYPE_CHECKING:
    import pandas as pd

    from harness.attribute import Attribution
    from harness.comparison import Comparison

Path_ = tuple[str, ...]
Samples = dict[Path_, list[int]]
MATHS = ("fp32", "TF32", "bf16", "fp16")
#: Recorded often enough to be compared with fp32.
COMPARED = ("TF32", "bf16")


@dataclass(frozen=True)
class Timing:
    """GPU time of one instance in ns: the median of the captures' medians, and of those the
    smallest and the largest."""

    ns: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """(largest - smallest) / median."""
        return (self.high - self.low) / self.ns


@dataclass(frozen=True)
class Recorded:
    """One run folder."""

    run: Run

    def __hash__(self) -> int:
        return hash(self.run.folder)

    @property
    def name(self) -> str:
        return self.run.folder.name

    @property
    def folder(self) -> Path:
        return self.run.folder

    @property
    def program(self) -> str:
        """``workload``, the script's name, or the program's."""
        words = self.run.argv[1:]
        if words[:2] == ["-m", "workload"]:
            return "workload"
        return Path(words[0] if words else self.run.argv[0]).name

    @property
    def command(self) -> str:
        """The ``harness run`` that recorded it."""
        kinds = {one.name for one in self.run.passes}
        words = ["harness", "run"]
        words += ["--nsys"] if "nsys" in kinds else []
        words += [f"--no-{kind}" for kind in ("plain", "torch") if kind not in kinds]
        options = self.run.options
        words += ["--repeat", str(options["repeat"])] if options.get("repeat", 1) > 1 else []
        words += ["--graphs", options["graphs"]] if options.get("graphs") else []
        return shlex.join(words) + " -- " + shlex.join(self.run.argv)

    @property
    def shape(self) -> tuple[int, int]:
        rows, dim = (self.run.workload or {})["shape"]
        return int(rows), int(dim)

    @property
    def math(self) -> str:
        workload = self.run.workload or {}
        return "TF32" if workload.get("tf32") else str(workload["dtype"])

    @property
    def both(self) -> bool:
        """Whether nsys and torch.profiler both recorded it."""
        names = {file.name for file in self.folder.iterdir()}
        return "torch_trace.json.gz" in names and any(n.endswith(".sqlite") for n in names)

    @cached_property
    def captures(self) -> list[Attribution]:
        """What nsys recorded; empty where only an extract is kept."""
        files = readers.captures(self.folder)
        return [harness.load(file).attribute(policy="autograd") for file in files]

    @property
    def stored(self) -> dict[str, Comparison]:
        """By the base's name, comparisons made when the recording was at hand (of extracts)."""
        return {}

    @cached_property
    def torch(self) -> Attribution:
        return harness.load(self.folder / "torch_trace.json.gz").attribute(policy="autograd")

    @cached_property
    def sides(self) -> pd.DataFrame:
        """nsys beside torch.profiler, as ``harness report --view both`` has it."""
        source = gather.Input(str(self.folder), self.name)
        return gather.read(source, Request(view="both")).rows

    @cached_property
    def samples(self) -> list[Samples]:
        """Per capture and range path, GPU time of each instance in ns, nested ranges included."""
        return [
            {
                _path(path): [int(value) for value in values]
                for path, values in summarise.instances(one).groupby("path")["total_gpu_ns"]
            }
            for one in self.captures
        ]

    @cached_property
    def timings(self) -> dict[Path_, Timing]:
        """Per range path, what one instance costs the GPU, nested ranges included."""
        found: dict[Path_, list[float]] = {}
        for capture in self.samples:
            for path, values in capture.items():
                found.setdefault(path, []).append(float(median(values)))
        return {
            path: Timing(median(values), min(values), max(values)) for path, values in found.items()
        }


def _path(value: Any) -> Path_:
    return tuple(value)


@dataclass(frozen=True)
class Evidence:
    """Everything the page may use. What was not recorded is absent, and so is its section."""

    runs: tuple[Recorded, ...]
    extracts: tuple[Recorded, ...]
    fused: dict[str, Any] | None
    overhead: dict[str, Any] | None

    @property
    def workloads(self) -> list[Recorded]:
        """Runs of the workload, by shape and precision; of two alike the one with more captures
        first."""
        all_ = (*self.runs, *self.extracts)
        found = [one for one in all_ if one.run.workload and one.program == "workload"]
        return sorted(found, key=lambda r: (r.shape, MATHS.index(r.math), -len(r.samples), r.name))

    @property
    def best(self) -> list[Recorded]:
        """Of each shape and precision the run with most captures."""
        return _first(self.workloads)

    @property
    def kept(self) -> list[Recorded]:
        """The same, of those whose recordings are at hand."""
        return _first([one for one in self.workloads if one in self.runs])

    def repeated(self, one: Recorded) -> Recorded | None:
        """The run of the same program with more captures than one, if there is any."""
        if not one.run.workload:
            return None
        alike = [r for r in self.best if (r.shape, r.math) == (one.shape, one.math)]
        return next((r for r in alike if len(r.samples) > 1), None)

    def pairs(self) -> list[tuple[Recorded, Recorded]]:
        """(fp32, another precision) of one shape."""
        base = {one.shape: one for one in self.best if one.math == "fp32"}
        return [(base[one.shape], one) for one in self.best
                if one.math in COMPARED and one.shape in base]  # fmt: skip


def _first(runs: list[Recorded]) -> list[Recorded]:
    first: dict[Any, Recorded] = {}
    for one in runs:
        first.setdefault((one.shape, one.math), one)
    return list(first.values())


def compare(base: Recorded, new: Recorded) -> Comparison:
    """compare's answer; with force where it refuses a verdict for something that differs."""
    if base.name in new.stored:
        return new.stored[base.name]
    found = harness.compare(base.folder, new.folder)
    return harness.compare(base.folder, new.folder, force=True) if found.blocked else found


def sample(overhead: dict[str, Any], way: str, what: str, clock: str) -> list[float]:
    """One median a round in which it was measured, in ns."""
    return [values[0] for values in paired(overhead, (way,), what, clock)]


def paired(
    overhead: dict[str, Any], ways: tuple[str, ...], what: str, clock: str
) -> list[tuple[float, ...]]:
    """The medians of several ways, of the rounds in which all of them were measured."""
    found = []
    for one in overhead["rounds"]:
        samples = [one.get(way, {}).get("samples", {}).get(what, {}).get(clock) for way in ways]
        if all(samples):
            found.append(tuple(float(median(values)) for values in samples))
    return found


def kernels(attribution: Attribution) -> tuple[int, int]:
    """(kernels, their GPU time in ns) of a whole recording."""
    ops = attribution.trace.gpu_ops
    mine = ops[ops["kind"] == "kernel"]
    return len(mine), int((mine["end"] - mine["start"]).sum())


def distinct(values: Iterable[Any]) -> list[str]:
    return sorted({str(value) for value in values if value})
