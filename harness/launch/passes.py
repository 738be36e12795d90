# SPDX-License-Identifier: MIT
"""One run: its passes, one after another, each a fresh process."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from harness.errors import ExitCode, HarnessError
from harness.launch import facts, torch_pass
from harness.launch import nsys as nsight
from harness.launch.environment import Environment, looks_secret
from harness.launch.process import Stopped, run_logged, stop_signals
from harness.launch.pycommand import NotPython, PythonCommand
from harness.launch.rundir import PassRecord, Run, RunFolder, tag, tagged
from harness.launch.stdin import Replay
from harness.launch.watchdog import Watchdog

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """Everything that is decided before anything runs."""

    argv: list[str]
    target: Path
    passes: tuple[str, ...]  # of plain, torch, nsys, in this order
    environment: Environment
    program: PythonCommand | NotPython
    repeat: int = 1
    nsys: nsight.Nsys | None = None
    nsys_args: tuple[str, ...] = ()
    graphs: str | None = None
    isolation: tuple[str, ...] = ()  # what hides other processes from nsys
    options: dict[str, Any] = field(default_factory=dict)
    skipped: tuple[dict[str, str], ...] = ()
    echo: IO[bytes] | None = None


@dataclass(frozen=True)
class Step:
    """One pass of one capture."""

    name: str
    capture: int
    argv: list[str]

    @property
    def log(self) -> str:
        return tagged(self.name, ".log", self.capture)


#: Times nsys may try to start the program.
_NSYS_STARTS = 3


@dataclass(frozen=True)
class Result:
    folder: Path
    exit_code: int
    run: Run


def steps(plan: Plan, folder: Path) -> list[Step]:
    """The passes in the order they run; captures are interleaved, so that drift hits all."""
    return [
        Step(name, capture, _step_command(plan, folder, name, capture))
        for capture in range(1, plan.repeat + 1)
        for name in plan.passes
    ]


def _step_command(plan: Plan, folder: Path, name: str, capture: int) -> list[str]:
    argv = _with_results(plan, folder)
    if name == "torch":
        assert isinstance(plan.program, PythonCommand)
        python = plan.program
        extra = tuple(argv[len(plan.argv) :])
        python = PythonCommand(
            python.interpreter, python.options, python.target, (*python.args, *extra)
        )
        return torch_pass.command(python, folder, capture)
    if name == "nsys":
        assert plan.nsys is not None
        line = nsight.profile_command(
            plan.nsys.path,
            folder / f"report{tag(capture)}",
            argv,
            graphs=plan.graphs,
            extra=plan.nsys_args,
        )
        return [*plan.isolation, *line]
    return argv


def is_workload(program: PythonCommand | NotPython) -> bool:
    """Whether the program is the bundled workload, which can write its results as JSON."""
    return isinstance(program, PythonCommand) and program.module == "workload"


def _with_results(plan: Plan, folder: Path) -> list[str]:
    asked = any(word.split("=")[0] == "--json" for word in plan.argv)
    if not is_workload(plan.program) or asked or {"-h", "--help"} & set(plan.argv):
        return list(plan.argv)
    return [*plan.argv, "--json", str(folder / "workload.json")]


def dry_run(plan: Plan) -> list[str]:
    """The commands, quoted for a shell."""
    lines: list[str] = []
    for step in steps(plan, plan.target):
        lines.append(shlex.join(step.argv))
        if step.name == "nsys":
            assert plan.nsys is not None
            lines.append(shlex.join(_export_line(plan.nsys.path, plan.target, step.capture)))
    return lines


def _export_line(nsys: str, folder: Path, capture: int) -> list[str]:
    return nsight.export_command(
        nsys,
        folder / tagged("report", ".nsys-rep", capture),
        folder / tagged("report", ".sqlite", capture),
    )


def execute(plan: Plan, run: Run, say: Say) -> Result:
    """Run every pass and keep what each leaves.

    A program that fails does not stop the run: the report of a failure is worth having.

    Raises:
        Stopped: told to stop; the folder stays and says that it is incomplete.
    """
    with RunFolder(plan.target, run) as folder:
        stdin = Replay()
        try:
            with Watchdog() as watch, stop_signals():
                _prepare(plan, folder)
                for number, step in enumerate(steps(plan, folder.path)):
                    say(f"{_label(step, plan)}: {shlex.join(plan.argv)}")
                    echo = None if number else plan.echo
                    record = _run_step(plan, folder, step, stdin, echo, watch, say)
                    run.passes.append(record)
                    folder.save()
                    # The first pass was seen; the others print the same unless they end otherwise.
                    known = run.passes[0].exit_code if plan.echo and number else 0
                    show = echo is None and record.exit_code not in (0, known)
                    _report_step(record, say, tail=_text(folder.path / step.log) if show else "")
        except Stopped:
            say(f"stopped; what there is so far is in {folder.path}, marked incomplete")
            raise
        except OSError as error:
            say(f"stopped: {error}")
            raise
        path = folder.complete()
    return Result(path, exit_code(run), run)


def _prepare(plan: Plan, folder: RunFolder) -> None:
    """Build the bundled workload's operator first: compiling it must not count as the time of the
    undisturbed pass. A build that fails is told by the first pass, in the workload's own words.
    """
    if is_workload(plan.program) and not {"-h", "--help"} & set(plan.argv):
        log = folder.path / "build.log"
        run_logged([*plan.argv, "--build-only"], env=plan.environment.variables, log=log)
        log.unlink(missing_ok=True)


def _label(step: Step, plan: Plan) -> str:
    return f"{step.name} pass" + (f" {step.capture}/{plan.repeat}" if plan.repeat > 1 else "")


def _run_step(
    plan: Plan,
    folder: RunFolder,
    step: Step,
    stdin: Replay,
    echo: IO[bytes] | None,
    watch: Watchdog,
    say: Say,
) -> PassRecord:
    env = dict(plan.environment.variables)
    if step.name == "nsys":
        env.update(nsight.capture_environment(plan.nsys_args, env))
    before = facts.gpu_state(facts.query_gpus()) if folder.run.gpu else []
    log, problems = folder.path / step.log, []
    for attempt in range(1, _NSYS_STARTS + 1):
        with stdin.descriptor() as fd:
            outcome = run_logged(
                step.argv,
                env=env,
                log=log,
                echo=echo,
                stdin=fd,
                watch=watch,
                tick=_progress(folder.path, step, say),
            )
        stem = f"report{tag(step.capture)}"
        if step.name != "nsys" or not nsight.never_started(folder.path, stem, _text(log)):
            break
        if attempt < _NSYS_STARTS:
            problems = [_problem("nsys-restarted", "nsys failed before the program; tried again")]
            time.sleep(attempt)
    record = PassRecord(
        name=step.name,
        argv=portable(step.argv, folder),
        exit_code=outcome.exit_code,
        duration_s=round(outcome.duration_s, 6),
        log=step.log,
        capture=step.capture,
        signal=outcome.signal,
        gpu_before=before,
        gpu_after=facts.gpu_state(facts.query_gpus()) if folder.run.gpu else [],
        problems=problems,
    )
    if outcome.lingering:
        record.problems.append(_problem("lingering", "a process it started outlives the program"))
    _take_results(folder, step)
    if step.name == "torch":
        _finish_torch(folder, record)
    elif step.name == "nsys":
        _finish_nsys(plan, folder.path, record)
    return record


def _progress(folder: Path, step: Step, say: Say) -> Callable[[], None] | None:
    """Says once, when the torch pass has come to it, that saving a large trace takes a while."""
    if step.name != "torch":
        return None
    said = False

    def tick() -> None:
        nonlocal said
        events = None if said else torch_pass.saving(folder, step.capture)
        if events is not None:
            said = True
            if events >= torch_pass.MANY_EVENTS:
                say(f"  the program has ended; saving {events} events of torch.profiler")

    return tick


def portable(argv: Sequence[str], folder: RunFolder) -> list[str]:
    """A command line without the places that only this machine has."""
    replaced = {
        str(torch_pass.RUNNER): torch_pass.RUNNER.name,
        sys.executable: Path(sys.executable).name,
    }
    working, final = str(folder.path), str(folder.target)
    return [replaced.get(word, word).replace(working, final) for word in argv]


def _problem(code: str, message: str, hint: str = "") -> dict[str, str]:
    return {"code": code, "message": message, **({"hint": hint} if hint else {})}


def _take_results(folder: RunFolder, step: Step) -> None:
    """The workload's own results, of the first pass that has any: plain, if it ran."""
    file = folder.path / "workload.json"
    if not file.is_file():
        return
    with contextlib.suppress(OSError, ValueError):
        results = json.loads(file.read_text(encoding="utf-8"))
        if folder.run.workload is None and isinstance(results, dict):
            folder.run.workload = {**results, "pass": step.name}
    file.unlink()


def _finish_torch(folder: RunFolder, record: PassRecord) -> None:
    meta = torch_pass.take_meta(folder.path, record.capture)
    record.files = torch_pass.files(folder.path, record.capture)
    record.saving_s = float(meta.get("saving_s") or 0.0)
    record.problems.extend(torch_pass.problems(folder.path, record.capture, meta))
    for key in ("torch", "cuda"):
        if meta.get(key):
            folder.run.versions[key] = meta[key]
    for device in meta.get("devices", []):
        for gpu in folder.run.gpu:
            if device["uuid"] and device["uuid"] in str(gpu.get("uuid")):
                gpu.update({k: v for k, v in device.items() if k not in {"uuid", "name"}})


def _finish_nsys(plan: Plan, folder: Path, record: PassRecord) -> None:
    """Judge the recording, import it if nsys could not, export it, judge the export."""
    assert plan.nsys is not None
    stem = f"report{tag(record.capture)}"
    log = folder / record.log
    importer = nsight.find_importer(plan.nsys.path)
    left = nsight.judge_recording(folder, stem, _text(log), importer, plan.nsys_args)
    if left.code == "recording-only":
        record.files.append(f"{stem}.qdstrm")
        if importer.path is not None:
            _append(
                log,
                nsight.import_command(
                    importer.path, folder / f"{stem}.qdstrm", folder / f"{stem}.nsys-rep"
                ),
            )
            again = nsight.judge_recording(folder, stem, "", importer, plan.nsys_args)
            if again.code == "report":
                (folder / f"{stem}.qdstrm").unlink()
                record.files.remove(f"{stem}.qdstrm")
                record.problems.append(_problem("imported", left.message, left.hint))
                left = again
    if left.code != "report":
        code = "no-report" if left.code == "nothing" else "recording-only"
        record.problems.append(_problem(code, left.message, left.hint))
        return
    record.files.append(f"{stem}.nsys-rep")
    record.problems.extend(export(plan.nsys, folder, record))
    record.problems.extend(given_away(folder, record))


def export(nsys: nsight.Nsys, folder: Path, record: PassRecord) -> list[dict[str, str]]:
    """Make the ``.sqlite`` of a recorded capture; its name joins ``record.files``."""
    from harness.readers.inspect_report import is_export

    name = tagged("report", ".sqlite", record.capture)
    log = folder / tagged("nsys_export", ".log", record.capture)
    exported = _append(log, _export_line(nsys.path, folder, record.capture))
    # An export that failed half-way has the tables that it came to.
    if exported and is_export(folder / name):
        record.files.append(name)
        log.unlink(missing_ok=True)  # a progress bar
        return []
    with contextlib.suppress(OSError):
        (folder / name).unlink()
    return [
        _problem(
            "no-export",
            "nsys export made no readable .sqlite",
            f"{log.name} has its output; try another nsys version on the .nsys-rep.",
        )
    ]


def given_away(folder: Path, record: PassRecord) -> list[dict[str, str]]:
    """Variables in the export that look like secrets: names only."""
    from harness.readers.inspect_report import environment, opened

    found: set[str] = set()
    for name in record.files:
        if name.endswith(".sqlite"):
            with contextlib.suppress(HarnessError), opened(folder / name) as db:
                found |= {n for n, value in environment(db).items() if looks_secret(n, value)}
    if not found:
        return []
    return [
        _problem(
            "secrets",
            f"variables that look like secrets are in the report: {', '.join(sorted(found))}",
            "Do not hand the .nsys-rep on; harness share makes a copy without them.",
        )
    ]


def _append(log: Path, argv: Sequence[str]) -> bool:
    """Run a command; whether it said that it did what it was to do."""
    import os

    # TMPDIR, PATH and the libraries' places matter here; nothing of this is recorded.
    with contextlib.suppress(OSError):
        return run_logged(argv, env=os.environ, log=log).exit_code == 0
    return False


def _text(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 20_000))
        return file.read().decode("utf-8", "replace")


def _report_step(record: PassRecord, say: Say, tail: str) -> None:
    how = f"signal {record.signal}" if record.signal else f"exit {record.exit_code}"
    saving = f", {record.saving_s:.2f} s of it saving the trace" if record.saving_s >= 1 else ""
    say(f"  {record.duration_s:.2f} s{saving}, {how}")
    for problem in record.problems:
        say(f"  {problem['code']}: {problem['message']}")
        if problem.get("hint"):
            say(f"    {problem['hint']}")
    for line in tail.splitlines()[-12:]:
        say(f"  | {line}")


def exit_code(run: Run) -> int:
    """The program's own first non-zero code; else 3 or 4 when a recording failed."""
    for record in run.passes:
        if record.exit_code:
            return record.exit_code
    codes = {problem["code"] for record in run.passes for problem in record.problems}
    if "recording-only" in codes:
        return int(ExitCode.TOOL_MISSING)
    if codes & {"no-report", "no-export"} or any(map(torch_pass.lost, run.captures("torch"))):
        return int(ExitCode.NO_ANSWER)
    return 0


def new_run(plan: Plan, created: str) -> Run:
    """``run.json`` before anything has run, with the facts of the machine."""
    return Run(
        name=plan.target.name,
        argv=[Path(w).name if w == sys.executable else w for w in plan.argv],
        created=created,
        host=facts.host(),
        gpu=facts.query_gpus(),
        versions=versions(plan),
        git=facts.git(Path.cwd()),
        skipped=list(plan.skipped),
        options=plan.options,
    )


def versions(plan: Plan) -> dict[str, Any]:
    """Versions of everything that could explain a difference between two runs."""
    from harness import __version__

    interpreter = sys.executable
    if isinstance(plan.program, PythonCommand):
        path = plan.environment.variables.get("PATH")
        interpreter = shutil.which(plan.program.interpreter, path=path) or plan.program.interpreter
    answer = facts.interpreter(interpreter, plan.environment.variables)
    found = {key: answer.get(key) for key in ("python", "torch", "cuda", "nvtx")}
    return {"harness": __version__, **found, "nsys": plan.nsys.version if plan.nsys else None}
