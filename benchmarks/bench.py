# SPDX-License-Identifier: MIT
"""How fast `harness report` is, beside `nsys stats` and a bare scan of the same file.

    scripts/bench                     start-up, same answers, 0.16 M and 1.6 M kernels
    scripts/bench --full              also 16 M kernels, --memory, all shapes, torch, many reports
    scripts/bench sizes --runs 5      one case
    scripts/bench sizes --json FILE   every single run, and the machine

Every figure is of a whole process: start-up, imports and printing included. Files are made once
and kept in --dir; the first read of each is not counted, so that no one pays for the disk.

Exit code 1: a promise was missed, or a command failed; 2: wrong usage; 130: stopped with Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import nsys_stats
import same_answer
from make_report import SHAPES
from measure import Contestant, Result, exponent, in_turn, machine, table

HERE = Path(__file__).parent
ROOT = HERE.parent
PYTHON = sys.executable
SIZES = (160_000, 1_600_000, 16_000_000)
GIB = 1 << 30


@dataclass(frozen=True)
class Options:
    folder: Path
    runs: int
    nsys: tuple[Path, ...]
    nsys_runs: int
    full: bool


@dataclass
class Claim:
    """A figure this project promises, and what was measured in this run."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def row(self) -> dict[str, str]:
        sign = ">=" if self.at_least else "<="
        verdict = "holds" if self.holds else "MISSED"
        return {
            "promise": self.what,
            "measured": f"{self.value:.3g}",
            "promised": f"{sign} {self.limit:g}",
            "": verdict,
        }


@dataclass
class Case:
    """What one case measured."""

    name: str
    results: dict[str, list[Result]]  # input -> contestants
    claims: list[Claim]

    def as_dict(self) -> dict[str, Any]:
        return {
            "case": self.name,
            "inputs": {
                name: [result.as_dict() for result in results]
                for name, results in self.results.items()
            },
            "claims": [{**vars(claim), "holds": claim.holds} for claim in self.claims],
        }


def report_file(options: Options, shape: str = "default", **given: Any) -> Path:
    """The made report of this shape, from ``options.folder`` if it is there already."""
    label = "-".join([shape, *(f"{k}{v}" for k, v in sorted(given.items()))])
    path = options.folder / f"{label}.sqlite"
    if not path.exists():
        print(f"  making {path.name}", file=sys.stderr)
        flags = [f"--{name}={value}" for name, value in given.items()]
        # Its own process: a child's peak memory is never below what its parent held when it forked.
        maker = (PYTHON, str(HERE / "make_report.py"), str(path), "--shape", shape, *flags)
        try:  # in a session of its own: Ctrl-C is for this process, which ends the other
            subprocess.run(maker, check=True, stdout=subprocess.DEVNULL, start_new_session=True)
        finally:
            path.with_name(f"{path.name}.partial").unlink(missing_ok=True)
    return path


def harness(name: str, *arguments: str, cores: tuple[int, ...] | None = None) -> Contestant:
    return Contestant(name, (PYTHON, "-m", "harness", *arguments), cores)


def views(path: Path) -> list[Contestant]:
    return [
        harness(f"harness --view {view}", "report", str(path), "--view", view, "--format", "csv")
        for view in ("ranges", "kernels")
    ]


def scan(path: Path) -> Contestant:
    return Contestant("bare scan", (PYTHON, str(HERE / "scan.py"), str(path)))


def nsys(path: Path, options: Options) -> list[Contestant]:
    return [
        Contestant(f"nsys {version} {report}", argv, runs=options.nsys_runs)
        for binary in options.nsys
        for version, report, argv in nsys_stats.commands(binary, path)
    ]


def ratio(results: list[Result], over: str, under: str, figure: str = "wall_s") -> float:
    by_name = {result.name: result for result in results}
    return by_name[over].median(figure) / by_name[under].median(figure)


def case_startup(options: Options) -> Case:
    small = ROOT / "tests/data/h200/blocks.sqlite"
    contestants = [
        Contestant("python -c pass", (PYTHON, "-c", "pass")),
        harness("harness --help", "--help"),
        harness("harness report (small)", "report", str(small)),
    ]
    results = in_turn(contestants, options.runs, options.folder / "log")
    claims = [
        Claim("`harness --help`, seconds", results[1].median("wall_s"), 0.15),
        Claim("`harness report` on a small report, seconds", results[2].median("wall_s"), 1.0),
    ]
    return Case("startup", {small.name: results}, claims)


def case_sizes(options: Options) -> Case:
    """0.16 -> 1.6 -> 16 M kernels: the ratios at 1.6 M, and how time and memory grow."""
    sizes = SIZES if options.full else SIZES[:2]
    results: dict[str, list[Result]] = {}
    for size in sizes:
        path = report_file(options, kernels=size)
        print(f"  {path.name}: {path.stat().st_size / 1e6:.0f} MB", file=sys.stderr)
        contestants = [*views(path), scan(path)]
        if size <= SIZES[1]:  # at 16 M kernels nsys stats takes minutes and 10 GB
            contestants += nsys(path, options)
        results[f"{size / 1e6:g} M"] = in_turn(contestants, options.runs, options.folder / "log")
    return Case("sizes", results, [*_ratio_claims(results["1.6 M"]), *_growth_claims(results)])


def _ratio_claims(results: list[Result]) -> list[Claim]:
    claims = []
    for view in ("harness --view ranges", "harness --view kernels"):
        for other in results:
            if "kern" in other.name and other.name.startswith("nsys") and other.samples:
                what = f"1.6 M: times faster than {other.name}, {view.split()[-1]}"
                claims.append(Claim(what, ratio(results, other.name, view), 10, at_least=True))
        own = next(result for result in results if result.name == view)
        claims.append(Claim(f"1.6 M: {view} / bare scan", ratio(results, view, "bare scan"), 3))
        claims.append(Claim(f"1.6 M: {view}, peak GB", own.median("peak_bytes") / 1e9, 1.0))
    return claims


def _growth_claims(results: dict[str, list[Result]]) -> list[Claim]:
    claims = []
    labels = list(results)
    for small, large in pairwise(labels):
        sizes = (float(small.split()[0]), float(large.split()[0]))
        for a, b in zip(results[small][:2], results[large][:2], strict=True):
            for figure, name in (("wall_s", "time"), ("peak_bytes", "memory")):
                grown = exponent(sizes, (a.median(figure), b.median(figure)))
                claims.append(Claim(f"{small} -> {large}: {a.name}, {name}", grown, 1.05))
    return claims


def case_same(options: Options) -> Case:
    """The answers are the same: `harness report --policy thread` and `nsys stats`, row for row."""
    claims = []
    path = report_file(options, kernels=SIZES[0])
    for binary in options.nsys:
        for version, report, argv in nsys_stats.commands(binary, path):
            if "kern" in report:
                wrong, rows = same_answer.differing(path, argv)
                what = f"of {rows} rows, differing from nsys {version} {report}"
                claims.append(Claim(what, wrong, 0))
    return Case("same", {}, claims)


def case_memory(options: Options) -> Case:
    """A report larger than the budget: 16 M kernels under --memory 2GiB."""
    size = SIZES[2] if options.full else SIZES[1]
    budget, limit = ("2GiB", 2.2 * GIB) if options.full else ("512MiB", 0.6 * GIB)
    path = report_file(options, kernels=size)
    contestants = [
        harness(f"harness --view {view} --memory", "report", str(path), "--view", view,
                "--memory", budget, "--format", "csv")
        for view in ("ranges", "kernels")
    ]  # fmt: skip
    results = in_turn(contestants, min(3, options.runs), options.folder / "log")
    claims = [
        Claim(f"{r.name} {budget}, peak GiB", r.median("peak_bytes") / GIB, round(limit / GIB, 2))
        for r in results
    ]
    return Case("memory", {f"{size / 1e6:g} M": results}, claims)


def case_shapes(options: Options) -> Case:
    """The same number of kernels in awkward shapes: none may cost much more than the default."""
    kernels = SIZES[1] if options.full else SIZES[0]
    results = {}
    for shape in SHAPES:
        path = report_file(options, shape, kernels=kernels)
        print(f"  {shape}: {path.stat().st_size / 1e6:.0f} MB", file=sys.stderr)
        contestants = [*views(path), scan(path)]
        results[shape] = in_turn(contestants, min(3, options.runs), options.folder / "log")
    claims = [
        Claim(f"{shape}: {r.name} / bare scan", ratio(rows, r.name, "bare scan"), 3)
        for shape, rows in results.items()
        for r in rows[:2]
    ]
    return Case("shapes", results, claims if options.full else [])


def case_torch(options: Options) -> Case:
    """A torch trace of 1 M events, beside bare JSON parsers."""
    path = options.folder / "trace-1M.json"
    if not path.exists():
        print(f"  making {path.name}", file=sys.stderr)
        maker = (PYTHON, str(HERE / "kineto.py"), "make", str(path), "--events", "1000000")
        subprocess.run(maker, check=True, stdout=subprocess.DEVNULL)
    peak = path.stat().st_size
    parsers = {
        "stdlib json": "import json, sys; json.load(open(sys.argv[1], 'rb'))",
        "orjson": "import orjson, sys; orjson.loads(open(sys.argv[1], 'rb').read())",
    }
    contestants = [
        Contestant(name, (PYTHON, "-c", code, str(path))) for name, code in parsers.items()
    ]
    contestants += views(path)
    results = in_turn(contestants, options.runs, options.folder / "log")
    claims = []
    for own in results[2:]:
        claims += [
            Claim(f"{own.name} / fastest parser", ratio(results, own.name, "orjson"), 1.5),
            Claim(f"{own.name}, peak memory / file", own.median("peak_bytes") / peak, 4),
        ]
    return Case("torch", {path.name: results}, claims)


#: What two cores of this machine give at best: two commands at once, each with half of the files.
HALVES = """
import subprocess, sys
files = sys.argv[1:]
line = [sys.executable, "-m", "harness", "report", "--format", "csv", "--jobs", "1"]
both = [subprocess.Popen([*line, *files[i::2]]) for i in range(2)]
sys.exit(max(one.wait() for one in both))
"""


def case_many(options: Options) -> Case:
    """64 reports of 20 MB, one a rank: on one core and on two."""
    count = 64 if options.full else 8
    paths = [report_file(options, kernels=100_000, seed=seed) for seed in range(count)]
    arguments = ("report", *map(str, paths), "--format", "csv")
    cores = tuple(sorted(os.sched_getaffinity(0)))
    contestants = [
        harness("one core", *arguments, cores=cores[:1]),
        harness("two cores", *arguments, cores=cores[:2]),
        Contestant(
            "two processes that share nothing", (PYTHON, "-c", HALVES, *map(str, paths)), cores[:2]
        ),
    ]
    results = in_turn(contestants, min(3, options.runs), options.folder / "log")
    gain = ratio(results, "one core", "two cores")
    apart = ratio(results, "two cores", "two processes that share nothing")
    claims = [
        Claim(f"{count} reports: one core / two", gain, 1.7, at_least=True),
        Claim(f"{count} reports: two cores / two processes that share nothing", apart, 1.1),
    ]
    return Case("many", {f"{count} reports": results}, claims)


CASES: dict[str, Callable[[Options], Case]] = {
    "startup": case_startup,
    "same": case_same,
    "sizes": case_sizes,
    "memory": case_memory,
    "shapes": case_shapes,
    "torch": case_torch,
    "many": case_many,
}
DEFAULT_CASES = ("startup", "same", "sizes")


def show(case: Case) -> str:
    """The case as text: every contestant's medians, then the promises."""
    parts = [f"== {case.name}"]
    rows = []
    for label, results in case.results.items():
        yardstick = next((r for r in results if r.name == "bare scan" and r.samples), None)
        for result in results:
            row = {"input": f"{label}: {result.name}", "wall s": "failed", "cpu s": "",
                   "peak MB": "", "/ scan": "", "runs": "0"}  # fmt: skip
            if result.samples:
                wall = result.median("wall_s")
                row |= {
                    "wall s": f"{wall:.3f}",
                    "cpu s": f"{result.median('cpu_s'):.3f}",
                    "peak MB": f"{result.median('peak_bytes') / 1e6:.0f}",
                    "/ scan": f"{wall / yardstick.median('wall_s'):.2f}" if yardstick else "",
                    "runs": str(len(result.samples)),
                }
            rows.append(row)
    if rows:
        parts.append(table(rows))
    if case.claims:
        parts.append(table([claim.row() for claim in case.claims]))
    return "\n\n".join(parts)


def parse(argv: list[str]) -> tuple[list[str], Options, Path | None]:
    about, _, usage = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=about,
        epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "case", nargs="*", help=f"{', '.join(CASES)} (default: {' '.join(DEFAULT_CASES)})"
    )
    parser.add_argument("--full", action="store_true", help="every case, at full size (7.2 GB)")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each (default 5)")
    parser.add_argument("--nsys-runs", type=int, default=None, help="fewer for nsys stats")
    parser.add_argument("--nsys", type=Path, action="append", help="an nsys to compare with")
    parser.add_argument("--no-nsys", action="store_true", help="leave nsys stats out")
    parser.add_argument(
        "--dir", type=Path, default=ROOT / "build/bench", help="keep inputs here (build/bench)"
    )
    parser.add_argument("--json", type=Path, help="write every run here")
    given = parser.parse_args(argv)
    if given.runs < 1 or (given.nsys_runs is not None and given.nsys_runs < 1):
        parser.error("--runs and --nsys-runs start at 1")
    for binary in given.nsys or ():
        if not binary.is_file() or not os.access(binary, os.X_OK):
            parser.error(f"--nsys {binary}: no program there")
    unknown = set(given.case) - CASES.keys()
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    binaries = () if given.no_nsys else tuple(given.nsys or nsys_stats.find())
    runs = given.nsys_runs if given.nsys_runs is not None else given.runs
    options = Options(given.dir, given.runs, binaries, runs, given.full)
    return given.case or list(CASES if given.full else DEFAULT_CASES), options, given.json


def measure_all(names: list[str], options: Options, json_file: Path | None) -> int:
    options.folder.mkdir(parents=True, exist_ok=True)
    facts = machine()
    print(f"{facts['cpu']}, {facts['cores']} cores, Python {facts['python']}; "
          f"load before {facts['load_before']:.2f}; medians of {options.runs}")  # fmt: skip
    if not options.nsys:
        print("without nsys: nothing to compare with (scripts/install-nsys)", file=sys.stderr)
    cases: list[Case] = []
    for name in ["", *names]:
        if name:
            print(f"{name} ...", file=sys.stderr)
            cases.append(CASES[name](options))
            print(f"\n{show(cases[-1])}", flush=True)
        if json_file:  # before the first case too: a file that cannot be written is told at once
            document = {"machine": facts, "cases": [case.as_dict() for case in cases]}
            json_file.write_text(json.dumps(document, indent=1) + "\n")
    failed = any(r.error for case in cases for rs in case.results.values() for r in rs)
    return 1 if failed or not all(c.holds for case in cases for c in case.claims) else 0


def main() -> int:
    arguments = parse(sys.argv[1:])
    try:
        return measure_all(*arguments)
    except KeyboardInterrupt:
        print("bench: stopped", file=sys.stderr)
        return 130
    except OSError as error:
        print(f"bench: {error}", file=sys.stderr)
    except subprocess.CalledProcessError as error:
        print(f"bench: failed: {shlex.join(map(str, error.cmd))}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
