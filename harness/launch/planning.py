# SPDX-License-Identifier: MIT
"""From what the user asked to a plan, refusing before anything has run."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from harness.doctor.traps import nvtx_records_nothing
from harness.errors import ToolMissing, UsageProblem
from harness.launch import nsys as nsight
from harness.launch.environment import Environment, allow_listed, full
from harness.launch.isolation import prefix
from harness.launch.passes import Plan, is_workload
from harness.launch.pycommand import NotPython, PythonCommand, parse, runnable
from harness.launch.rundir import Run
from harness.words import agree, plural

REPORTS = Path("reports")


@dataclass(frozen=True)
class Request:
    """``harness run``'s options, as given."""

    command: tuple[str, ...] = ()
    plain: bool = True
    torch: bool = True
    nsys: bool = False
    output: str | None = None
    repeat: int = 1
    graphs: str | None = None
    nsys_path: str | None = None
    nsys_args: tuple[str, ...] = ()
    extra_env: tuple[str, ...] = ()
    full_env: bool = False
    isolate: bool = True


def plan(request: Request, environ: Mapping[str, str], echo: IO[bytes] | None = None) -> Plan:
    """Decide everything.

    Raises:
        UsageProblem: no pass is left to run, no such command, options that make no sense together.
        ToolMissing: ``--nsys`` and no working nsys.
    """
    _check(request)
    nsight.check_arguments(request.nsys_args)
    environment = _environment(request, environ)
    argv = _command(request, environ)
    program = parse(argv, environ.get("PATH"))
    skipped: list[dict[str, str]] = []
    passes: list[str] = ["plain"] if request.plain else []
    if request.torch:
        if isinstance(program, PythonCommand):
            passes.append("torch")
        else:
            skipped.append({"pass": "torch", "reason": program.reason})
    nsys = nsight.find(request.nsys_path, environ) if request.nsys else None
    if nsys is not None:
        passes.append("nsys")
        if request.graphs is not None and not nsight.supports_graph_option(nsys):
            raise UsageProblem(f"nsys {nsys.version} has no --cuda-graph-trace (--graphs)")
    if not passes:
        raise UsageProblem("no pass is left to run", hint="Leave out --no-plain, or add --nsys.")
    # Whoever passes the whole environment on has nothing to hide.
    hide = nsys is not None and request.isolate and environment.mode == "allow-list"
    isolation = prefix(environ) if hide else ()
    return Plan(
        argv=argv,
        target=_target(request, program, environ),
        passes=tuple(passes),
        environment=environment,
        program=program,
        repeat=request.repeat,
        nsys=nsys,
        nsys_args=request.nsys_args,
        graphs=request.graphs,
        isolation=isolation,
        options={**_options(request, environment), "isolated": bool(isolation)},
        skipped=tuple(skipped),
        echo=echo,
    )


def _check(request: Request) -> None:
    only_nsys = {
        "--nsys-arg": request.nsys_args,
        "--nsys-path": request.nsys_path,
        "--graphs": request.graphs,
    }
    for option, value in only_nsys.items():
        if value and not request.nsys:
            raise UsageProblem(f"{option} needs --nsys")
    if request.full_env and request.extra_env:
        raise UsageProblem("--full-env already passes every variable: leave out --env")


def _environment(request: Request, environ: Mapping[str, str]) -> Environment:
    for name in request.extra_env:
        if "=" in name:
            raise UsageProblem(
                f"--env {name.split('=')[0]}=…: give the name only",
                hint="Set the variable for harness run itself; --env passes it on.",
            )
        if name not in environ:
            raise UsageProblem(f"--env {name}: no such variable is set")
    # Without nsys nothing writes the environment down, so nothing need be withheld.
    if request.full_env or not request.nsys:
        return full(environ)
    return allow_listed(environ, request.extra_env)


def _command(request: Request, environ: Mapping[str, str]) -> list[str]:
    if not request.command:
        if find_spec("torch") is None:
            raise ToolMissing(
                "the bundled workload needs PyTorch, which is not installed here",
                hint='pip install "nsys-harness[record]"; or name a program: harness run -- CMD',
            )
        return [sys.executable, "-m", "workload"]
    argv = runnable(request.command, environ.get("PATH"))
    if argv is None:
        if "/" in request.command[0] and Path(request.command[0]).exists():
            raise UsageProblem(
                f"{request.command[0]}: there, but not a program that can be executed",
                hint="Name its interpreter before it, or chmod +x it.",
            )
        raise UsageProblem(
            f"{request.command[0] or repr('')}: no such command",
            hint="Everything after -- is the program and its arguments, as in a shell.",
        )
    return argv


def _options(request: Request, environment: Environment) -> dict[str, Any]:
    return {
        "repeat": request.repeat,
        "graphs": request.graphs,
        "nsys_args": list(request.nsys_args),
        "environment": environment.mode,
        "environment_added": list(request.extra_env),
        "environment_withheld": len(environment.withheld),
    }


def _target(
    request: Request, program: PythonCommand | NotPython, environ: Mapping[str, str]
) -> Path:
    if request.output is not None:
        name = expand(request.output, environ)
        if not name.strip("/") or Path(name).name in {"", ".", ".."}:
            raise UsageProblem(f"-o {request.output!r}: not a name for a folder")
        return Path(name)
    when = datetime.now().strftime("%Y%m%d-%H%M%S")
    rank = environ.get("RANK") or environ.get("OMPI_COMM_WORLD_RANK") or environ.get("PMI_RANK")
    base = f"{default_name(program, request.command)}-{when}" + (f"-rank{rank}" if rank else "")
    target, number = REPORTS / base, 1
    while os.path.lexists(target):
        number += 1
        target = REPORTS / f"{base}-{number}"
    return target


def default_name(program: PythonCommand | NotPython, command: tuple[str, ...]) -> str:
    """A short name from the program: ``train`` for ``python src/train.py``."""
    if is_workload(program) or not command:
        return "workload"
    if isinstance(program, PythonCommand):
        kind = program.target[0]
        name = "python" if kind == "-c" else program.target[-1]
    else:
        name = command[0]
    stem = Path(name).name
    return re.sub(r"[^\w.-]+", "-", stem.removesuffix(".py")).strip("-.") or "run"


def expand(name: str, environ: Mapping[str, str]) -> str:
    """``%q{VAR}``, ``%p``, ``%h`` and ``%%``, as nsys writes them, in a run's name.

    Raises:
        UsageProblem: the variable is not set, so that ranks would collide; or an unknown %.
    """

    def replace(match: re.Match[str]) -> str:
        code = match.group(0)
        if code == "%%":
            return "%"
        if code == "%p":
            return str(os.getpid())
        if code == "%h":
            return platform.node()
        variable = match.group(1)
        if variable is None:
            raise UsageProblem(f"-o {name}: {code} means nothing here", hint="Write %% for a %.")
        if variable not in environ:
            raise UsageProblem(f"-o {name}: the variable {variable} is not set")
        return environ[variable].replace("/", "-")

    return re.sub(r"%q\{(\w+)\}|%.?", replace, name)


def warnings(run: Run, environ: Mapping[str, str]) -> list[str]:
    """What will spoil this run, known before it starts."""
    found: list[str] = []
    nvtx, nsys = run.versions.get("nvtx"), run.versions.get("nsys")
    if nvtx_records_nothing(nvtx, nsys):
        found.append(
            f"nvtx {nvtx} records no ranges under nsys {nsys}: "
            'pip install "nvtx<0.2.12", or use nsys 2025 or newer'
        )
    if "NSYS_PROFILING_SESSION_ID" in environ:
        found.append("harness itself runs under nsys: a second profiler records no kernels")
    return found


def describe(plan: Plan) -> str:
    """One line for the user about what is withheld from the program, or ""."""
    withheld = plan.environment.withheld
    if not withheld:
        return ""
    return (
        f"{plural(len(withheld), 'environment variable')} "
        f"{agree(len(withheld), 'is', 'are')} withheld "
        "from the program, since nsys writes "
        f"the environment into its report ({shlex.join(withheld[:6])}"
        f"{', …' if len(withheld) > 6 else ''}); --env NAME passes one, --full-env all"
    )
