# SPDX-License-Identifier: MIT
"""The recordings of the campaign, in order of worth. Run through scripts/record-campaign."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import campaign_public
from campaign_slim import ROOT, slim

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The classic shape of the workload first; the last has 1 GiB tensors in fp32.
SHAPES = ("8192x1024", "65536x1024", "262144x1024")
MATHS = {
    "fp32": (), "tf32": ("--tf32",), "bf16": ("--dtype", "bf16"), "fp16": ("--dtype", "fp16"),
}  # fmt: skip
#: Recorded at every shape; fp16 only where the other 16-bit type leaves the byte model.
EVERYWHERE = ("fp32", "tf32", "bf16")
#: Compiling in this process keeps inductor's pool of workers out of the captures; and its imports
#: need no GPU, so they come before the wait for it.
ONE_COMPILER = {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "HARNESS_LOCK_AFTER": "torch._dynamo,torch._inductor.compile_fx",
}
OVERHEAD, PUBLIC = "overhead", "h200-public"
#: What a kept recording may weigh.
LIMIT = 3_000_000
PYTHON = os.environ.get("PYTHON", "python3")


@dataclass(frozen=True)
class Recording:
    """One run folder. ``seconds`` is about what it takes; ``gate`` is the module before whose
    import the program waits for the GPU ("" takes the GPU for all of the run)."""

    name: str
    program: tuple[str, ...]
    options: tuple[str, ...] = ("--nsys",)
    seconds: float = 30.0
    gate: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    #: Whether the repository keeps the recording; else what scripts/extract-run makes of it.
    kept: bool = True

    def command(self, folder: Path) -> list[str]:
        run = [PYTHON, "-m", "harness", "run", *self.options, "-q", "-o", str(folder)]
        return [*run, "--", *self.program]


@dataclass(frozen=True)
class Settings:
    out: Path
    seconds: float
    jobs: int
    cpu: bool = False
    only: tuple[str, ...] = ()

    def wants(self, name: str) -> bool:
        """Whether ``only`` leaves the recording in; a word stands for all that begin with it."""
        only = self.only
        return not only or any(name == word or name.startswith(word + "-") for word in only)


def plan(cpu: bool) -> list[Recording]:
    """Everything, the most valuable first. ``cpu``: the same names, small, to try the plumbing."""
    repeated = [_workload(shape, math, cpu) for shape in SHAPES for math in EVERYWHERE]
    both = {(s, m): _both(s, m, cpu) for s in SHAPES for m in MATHS}
    middle = [both[SHAPES[1], math] for math in EVERYWHERE]
    rest = [both[shape, math] for shape in (SHAPES[0], SHAPES[2]) for math in EVERYWHERE]
    rest.append(both[SHAPES[2], "fp16"])
    rest += [_default(math, cpu) for math in ("fp32", "tf32")]
    return [
        *repeated[:3], *middle[:1], *_trainings(cpu)[:1], *repeated[3:], *middle[1:],
        *_trainings(cpu)[1:], *rest,
    ]  # fmt: skip


def _spelling(shape: str, math: str, cpu: bool) -> tuple[str, ...]:
    if cpu:
        rows = int(shape.split("x")[0]) // 128
        words = () if math == "tf32" else MATHS[math]
        return (PYTHON, "-m", "workload", "--device", "cpu", "--shape", f"{rows}x64", *words)
    return (PYTHON, "-m", "workload", "--shape", shape, *MATHS[math], "--compiled")


def _workload(shape: str, math: str, cpu: bool) -> Recording:
    return Recording(
        f"h200-{shape}-{math}", _spelling(shape, math, cpu), ("--nsys", *_repeated(cpu)), 80,
        "workload.phases", ONE_COMPILER, kept=shape != SHAPES[-1],
    )  # fmt: skip


def _both(shape: str, math: str, cpu: bool) -> Recording:
    program = _spelling(shape, math, cpu)
    return Recording(
        f"h200-{shape}-{math}-both", program, ("--nsys",), 60, "workload.phases", ONE_COMPILER
    )


def _default(math: str, cpu: bool) -> Recording:
    """The workload as ``harness run --nsys`` without more runs it."""
    words = _spelling("131072x1024", math, cpu) if cpu else (PYTHON, "-m", "workload", *MATHS[math])
    return Recording(f"h200-{math}", words, ("--nsys",), 60, "workload.phases", ONE_COMPILER)


def _trainings(cpu: bool) -> list[Recording]:
    """Each way of training by both profilers, then five times by nsys."""
    steps = "2" if cpu else "8"
    ways = (
        ("h200-train", (), (), 60),
        ("h200-train-graphs", ("--cuda-graphs",), ("--graphs", "node"), 60),
        ("h200-train-compiled", ("--compile",), (), 90),
    )
    made = []
    for repeated in (False, True):
        for name, words, options, seconds in ways[:1] if cpu else ways:
            program = (PYTHON, "examples/train_transformer.py", "--steps", steps, *words)
            made.append(
                Recording(
                    f"{name}-repeated" if repeated else name,
                    program,
                    ("--nsys", *(_repeated(cpu) if repeated else ()), *options),
                    seconds,
                    "transformer",
                    kept=not repeated,
                )
            )
    return made


def _repeated(cpu: bool) -> tuple[str, ...]:
    """nsys alone, often enough to compare."""
    return ("--no-torch", "--no-plain", "--repeat", "2" if cpu else "5")


class Campaign:
    """Records what is missing while time is left; several at once, one at a time on the GPU."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.started = time.monotonic()
        self.lock = settings.out / "gpu.lock"
        self.logs = settings.out / "log"
        self.failed: list[str] = []
        self.left: list[str] = []
        known = settings.out / "timings.json"
        self.timings: dict[str, Any] = json.loads(known.read_text()) if known.is_file() else {}

    @property
    def remaining(self) -> float:
        return self.settings.seconds - (time.monotonic() - self.started)

    def run(self) -> int:
        """Exit code: 0 all is there, 3 some is left for want of time, 1 a recording failed."""
        self.logs.mkdir(parents=True, exist_ok=True)
        self._build()
        if self.settings.wants(OVERHEAD):
            self._overhead()
        wanted = [one for one in plan(self.settings.cpu) if self.settings.wants(one.name)]
        first, rest = wanted[:4], wanted[4:]
        with ThreadPoolExecutor(self.settings.jobs) as pool:
            jobs = [pool.submit(self._guarded, one) for one in first]
            if self.settings.wants(PUBLIC):
                jobs.append(pool.submit(self._public))
            jobs += [pool.submit(self._guarded, one) for one in rest]
            for job in jobs:
                job.result()
        return self._end()

    def _end(self) -> int:
        (self.settings.out / "timings.json").write_text(json.dumps(self.timings, indent=1) + "\n")
        self.lock.unlink(missing_ok=True)
        say(f"{self.settings.seconds - self.remaining:.0f} s; failed: {self.failed or 'none'}; "
            f"left: {self.left or 'none'}")  # fmt: skip
        return 1 if self.failed else 3 if self.left else 0

    def _build(self) -> None:
        log = self.logs / "build.log"
        with log.open("wb") as file:
            self._call("build", _build_line(self.settings), dict(os.environ), file)

    def _overhead(self) -> None:
        if (self.settings.out / "overhead.json").exists():
            return
        line = _overhead_line(self.settings, self.remaining)
        with (self.logs / "overhead.log").open("wb") as file:
            if self._call("overhead", line, dict(os.environ), file):
                self.failed.append("overhead")

    def _guarded(self, one: Recording) -> None:
        """A recording that breaks must not take the others with it."""
        try:
            self.record(one)
        except Exception as error:
            say(f"{one.name}: {type(error).__name__}: {error}")
            self.failed.append(one.name)

    def record(self, one: Recording) -> bool:
        """Whether the slim run is there afterwards."""
        target = self.settings.out / one.name
        if target.exists():
            return True
        if self.remaining < one.seconds:
            self.left.append(one.name)
            return False
        with tempfile.TemporaryDirectory() as scratch, \
                (self.logs / f"{one.name}.log").open("wb") as log:  # fmt: skip
            folder = Path(scratch) / one.name
            with self._gpu(one.gate) as gate:
                code = self._call(one.name, one.command(folder), gate | one.environment, log)
            if not (folder / "run.json").is_file():
                say(f"{one.name}: not recorded (exit {code})")
                self.failed.append(one.name)
                return False
            passes = json.loads((folder / "run.json").read_text())["passes"]
            self.timings[one.name] |= {
                "exit_code": code,
                "passes_s": [[p["name"], p["capture"], p["duration_s"]] for p in passes],
            }
            good = code == 0
            size = slim(folder, target if good else self._aside(one.name), one.name)
        say(f"{one.name}: {self.timings[one.name]['wall_s']} s, {size // 1000} kB, exit {code}")
        if good and one.kept and size > LIMIT:
            target.rename(self._aside(one.name))
            good = False
        if not good:
            self.failed.append(one.name)
        return good

    def _aside(self, name: str) -> Path:
        """Where a recording goes that is not kept: failed, or too large."""
        folder = self.settings.out / "aside" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        return folder

    @contextmanager
    def _gpu(self, gate: str) -> Iterator[dict[str, str]]:
        """The environment in which a program waits for the GPU, or the GPU itself."""
        environment = dict(os.environ)
        paths = [str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
        if gate:
            paths.insert(0, str(ROOT / "benchmarks" / "campaign_lock"))
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        if gate:
            environment |= {"HARNESS_LOCK": str(self.lock.resolve()), "HARNESS_LOCK_AT": gate}
            yield environment
            return
        with self.lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield environment

    def _call(self, name: str, line: list[str], environment: dict[str, str], log: IO[bytes]) -> int:
        """Run to its end, or until the time for all is over by half a minute."""
        say(shlex.join(line))
        began = time.monotonic()
        process = subprocess.Popen(
            line, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            code = process.wait(max(10.0, self.remaining + 30))
        except subprocess.TimeoutExpired:
            process.terminate()
            code = process.wait()
        self.timings[name] = {"wall_s": round(time.monotonic() - began, 1)}
        return code

    def _public(self) -> None:
        """The first of the public scripts that runs here and launches kernels."""
        found = campaign_public.discover()
        text = "\n".join(f"{one.source}: {one.path}" for one in found)
        (self.settings.out / "examples.txt").write_text(text + "\n")
        for number, candidate in enumerate(campaign_public.candidates(found, PYTHON)):
            target = self.settings.out / PUBLIC
            trial = _public_trial(number, candidate)
            if target.exists() or self.remaining < trial.seconds:
                break
            try:
                good = self.record(trial)
            except Exception as error:
                say(f"{trial.name}: {error}")
                good = False
            recorded = self.settings.out / trial.name
            if good and campaign_public.worth(recorded):
                campaign_public.rename(recorded, target)
                self.failed = [n for n in self.failed if not n.startswith("h200-public-")]
                return
            if good:  # it ran, and used no GPU
                recorded.rename(self._aside(trial.name))
        if not (self.settings.out / PUBLIC).exists():
            self.left.append(PUBLIC)


def say(line: str) -> None:
    print(f"campaign: {line}", file=sys.stderr, flush=True)


def _build_line(settings: Settings) -> list[str]:
    device = ("--device", "cpu") if settings.cpu else ()
    return [PYTHON, "-m", "workload", "--build-only", *device]


def _overhead_line(settings: Settings, seconds: float) -> list[str]:
    line = [sys.executable, str(ROOT / "benchmarks" / "overhead.py")]
    line += [str(settings.out / "overhead.json"), "--seconds", f"{min(110.0, seconds / 3):.0f}"]
    return line + (["--cpu", "--rounds", "1"] if settings.cpu else [])


def _public_trial(number: int, candidate: campaign_public.Candidate) -> Recording:
    return Recording(
        f"h200-public-{number}", candidate.command, ("--nsys",), 60,
        environment=candidate.environment,
    )  # fmt: skip


def unknown(settings: Settings) -> list[str]:
    """What of ``only`` asks for nothing that there is."""
    names = [OVERHEAD, PUBLIC, *(one.name for one in plan(settings.cpu))]
    return [word for word in settings.only
            if not any(replace(settings, only=(word,)).wants(name) for name in names)]  # fmt: skip


def commands(settings: Settings) -> list[str]:
    """What would run, for --dry-run; of the public scripts all that are tried until one will do."""
    lines = [_build_line(settings)]
    if settings.wants(OVERHEAD):
        lines.append(_overhead_line(settings, settings.seconds))
    wanted = [one for one in plan(settings.cpu) if settings.wants(one.name)]
    if settings.wants(PUBLIC):
        tried = campaign_public.candidates(campaign_public.discover(), PYTHON)
        wanted += [_public_trial(number, one) for number, one in enumerate(tried)]
    lines += [one.command(settings.out / one.name) for one in wanted]
    return [shlex.join(line) for line in lines]
