# SPDX-License-Identifier: MIT
"""Files to Reports: one, or many over the machine's cores, same numbers."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cores import cores, use_at_most
from harness.errors import ExitCode, HarnessError, UnreadableReport, UsageProblem
from harness.memory import LEAST_BYTES

if TYPE_CHECKING:
    from harness.launch.rundir import Run
    from harness.report import Failure, Report, Request
    from harness.trace import Warning_

REPORT_SUFFIXES = (".sqlite", ".nsys-rep", ".qdrep", ".json", ".json.gz")
TORCH_TRACE = "torch_trace.json.gz"
#: Memory that a whole report takes, as a multiple of its file; measured (docs/benchmarks.md).
EXPORT_MEMORY, TRACE_MEMORY = 3, 5
#: What every worker needs; imported once, before they are forked.
_PRELOAD = ["harness.report", "harness.readers.nsys_sqlite", "harness.readers.arrow_sqlite"]


@dataclass(frozen=True)
class Input:
    """A path as given, and the name it goes by among the others."""

    path: str
    name: str


def inputs(paths: list[str]) -> tuple[list[Input], list[str]]:
    """What to read: a folder that holds several runs or reports stands for all of them, and so does
    a pattern that the shell left as it is (``'DIR/**/*.sqlite'``). And the paths left out, since
    another one is the same recording: it would count twice."""
    found: dict[str, str] = {}
    again = []
    for path in [path for given in paths for path in _expand(given)]:
        recording = _recording(path)
        if recording in found:
            again.append(path)
        found.setdefault(recording, path)
    kept = list(found.values())
    return [Input(path, name) for path, name in zip(kept, unique_names(kept), strict=True)], again


def _recording(path: str) -> str:
    """The file that reading a path comes down to: a run folder's first capture, a report's
    export."""
    from harness.readers import captures

    file = path
    if os.path.isdir(path):
        with contextlib.suppress(UnreadableReport, OSError):
            file = str(captures(Path(path))[0])
    stem, suffix = os.path.splitext(file)
    if suffix.lower() in (".nsys-rep", ".qdrep") and os.path.exists(f"{stem}.sqlite"):
        file = f"{stem}.sqlite"
    return os.path.realpath(file)


def _expand(given: str) -> list[str]:
    from harness.readers.paths import check_path, once

    try:
        check_path(given)
    except UnreadableReport:
        if not os.path.lexists(given) and (matched := sorted(glob(given, recursive=True))):
            return [path for one in matched for path in _expand(one)]
        return [given]  # reading it says so
    folder = Path(given)
    if not folder.is_dir() or is_run(folder):
        return [given]
    inside = once(sorted(folder.iterdir()))
    runs = [str(child) for child in inside if child.is_dir() and is_run(child)]
    # An export and the report it came from are one recording.
    files = [
        child
        for child in inside
        if child.name.lower().endswith(REPORT_SUFFIXES)
        and not (child.suffix != ".sqlite" and child.with_suffix(".sqlite").exists())
    ]
    return runs + [str(file) for file in files] or [given]


def is_run(folder: Path) -> bool:
    """True for a folder that ``harness run`` wrote, or that looks like one."""
    names = ("run.json", "report.sqlite", "report.nsys-rep", TORCH_TRACE)
    return any((folder / name).is_file() for name in names)


def unique_names(paths: list[str]) -> list[str]:
    """The shortest ends of the paths that tell them apart; a path given twice gets ``#2``."""
    whole = [os.path.abspath(path) for path in paths]
    short = _shortest(list(dict.fromkeys(whole)))
    taken = set(short.values())
    again: dict[str, int] = {}
    names: list[str] = []
    for path in whole:
        name, number = short[path], again.get(path, 0) + 1
        while number > 1 and (name := f"{short[path]}#{number}") in taken:
            number += 1
        again[path] = number
        taken.add(name)
        names.append(name)
    return names


def _shortest(paths: list[str]) -> dict[str, str]:
    """Different absolute paths -> the shortest end of each that none of the others has."""
    parts = {path: Path(path).parts for path in paths}
    length = dict.fromkeys(paths, 1)
    while True:
        names = {path: "/".join(p[-length[path] :]).replace("//", "/") for path, p in parts.items()}
        often = Counter(names.values())
        clashing = [p for p in paths if often[names[p]] > 1 and length[p] < len(parts[p])]
        if not clashing:
            return names
        for path in clashing:
            length[path] += 1


def read(source: Input, request: Request) -> Report:
    """Load, attribute, summarise one input. Raises HarnessError."""
    from harness import readers
    from harness.launch.rundir import has_run_json, load_run
    from harness.launch.torch_pass import unseen
    from harness.memory import keep_freed_memory
    from harness.readers.paths import check_path
    from harness.report import build, unread

    check_path(source.path)
    keep_freed_memory()
    folder = Path(source.path)
    run = load_run(folder) if has_run_json(folder) else None
    if request.view == "torch":
        report = _torch_report(source, run, request)
    elif (in_parts := _within_memory(source, request)) is not None:
        report = in_parts
    else:
        trace = readers.load(source.path, without=unread(request))
        other = None
        if trace.source.kind == "nsys" and (folder / TORCH_TRACE).is_file():
            other = readers.load(folder / TORCH_TRACE)
        report = build(
            trace,
            request,
            name=source.name,
            other=other,
            before_torch=unseen(run) if run else frozenset(),
        )
    if folder.is_dir() and request.view != "torch":
        notes = (*_lost_note(run, trace_kind=report.source.kind), *_captures_note(folder))
        report = replace(report, warnings=(*notes, *report.warnings))
    return replace(report, run=run)


def _lost_note(run: Run | None, *, trace_kind: str) -> list[Warning_]:
    """Recordings that are gone from the folder: the report is of what is left."""
    from harness.readers import lost
    from harness.trace import Warning_

    gone = lost(run) if run else []
    if not gone:
        return []
    shown = "; what torch.profiler recorded is shown" if trace_kind == "torch" else ""
    return [
        Warning_(
            "missing-captures",
            f"no longer in the folder: {', '.join(gone)}{shown}",
            "Copy them from where the run was recorded.",
        )
    ]


def _captures_note(folder: Path) -> list[Warning_]:
    """One capture of a folder is reported; where it has several, which, and how to see the rest."""
    from harness import readers
    from harness.trace import Warning_

    found = readers.captures(folder)
    if len(found) < 2:
        return []
    return [
        Warning_(
            "captures",
            f"this run has {len(found)} captures; the first ({found[0].name}) is shown",
            f"harness report {folder / found[1].name} shows the second, {folder}/*"
            f"{''.join(found[0].suffixes[-1:])} all; harness compare takes all of them.",
        )
    ]


def _within_memory(source: Input, request: Request) -> Report | None:
    """The report made part by part, where the whole would not fit the budget; else None."""
    if not request.memory:
        return None
    from harness import readers

    with readers.export_of(source.path) as export:
        size = os.path.getsize(source.path if export is None else export)
        if size * (TRACE_MEMORY if export is None else EXPORT_MEMORY) <= request.memory:
            return None
        if export is None:
            raise UsageProblem(
                f"{source.path}: a torch trace of {size} bytes does not fit --memory, and cannot be"
                " read in parts",
                hint="Leave out --memory, or report the nsys recording.",
            )
        from harness import instalments
        from harness.readers.nsys_sqlite import in_parts
        from harness.report import unread

        rows, without = instalments.rows_within(request.memory), unread(request)
        with in_parts(export, rows, without=without) as parts:
            return instalments.report_in_parts(parts, request, name=source.name)


def _torch_report(source: Input, run: Run | None, request: Request) -> Report:
    from harness.report import torch_table
    from harness.trace import Source

    file = Path(source.path) / ("torch_ops_by_shape.json" if request.by_shape else "torch_ops.json")
    if not file.is_file():
        raise UnreadableReport(
            f"{source.path}: --view torch needs torch.profiler's tables; there is no {file.name}",
            hint="Give a run folder that harness run recorded with its torch pass.",
        )
    try:
        operators = json.loads(file.read_text())
    except (ValueError, RecursionError) as error:
        raise UnreadableReport(f"{file}: not JSON: {error}") from error
    version = str(run.versions.get("torch") or "") if run else ""
    origin = Source(str(file), "torch", "torch.profiler", version)
    return torch_table(operators, origin, request, source.name)


def try_read(source: Input, request: Request) -> Report | Failure:
    """``read``, with the error as a value: one bad rank must not cost the others' results."""
    from harness.report import Failure

    try:
        return read(source, request)
    except HarnessError as error:
        return Failure(source.name, source.path, error.message, error.hint, int(error.exit_code))
    except Exception as error:
        # Anything else is a bug of ours in this one report.
        message = f"{source.path}: internal error: {type(error).__name__}: {error}"
        return Failure(source.name, source.path, message, "", int(ExitCode.INTERNAL))


def gather(sources: list[Input], request: Request, *, jobs: int = 0) -> list[Report | Failure]:
    """One outcome an input, in order; ``jobs`` processes (0: as many as cores), which share
    ``request.memory``: fewer where it does not suffice for so many."""
    workers = worker_count(sources, jobs, request.memory)
    if workers <= 1:
        return [try_read(source, request) for source in sources]
    request = replace(request, memory=request.memory // workers)
    share = cores() // workers
    with ProcessPoolExecutor(
        workers, mp_context=_server(), initializer=use_at_most, initargs=(share,)
    ) as pool:
        futures = [pool.submit(try_read, source, request) for source in sources]
        return [
            _outcome(future.result, source) for future, source in zip(futures, sources, strict=True)
        ]


def start_early(sources: list[Input], *, jobs: int = 0, memory: int = 0) -> None:
    """Let the process that workers come from do its imports while this one does its own."""
    if worker_count(sources, jobs, memory) > 1:
        from multiprocessing import forkserver

        _server()
        forkserver.ensure_running()


def worker_count(sources: list[Input], jobs: int, memory: int) -> int:
    """How many processes to use: no more than a budget of ``memory`` bytes (0: none) allows."""
    workers = min(jobs or cores(), len(sources))
    return max(1, min(workers, memory // LEAST_BYTES)) if memory else workers


def _server() -> Any:
    """The context of the worker processes. Not fork: readers may hold threads. The server imports
    once, workers fork from it clean."""
    from multiprocessing import get_context

    context = get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    return context


def _outcome(result: Callable[[], Report | Failure], source: Input) -> Report | Failure:
    from harness.report import Failure

    try:
        return result()
    except BrokenProcessPool:
        return Failure(
            source.name,
            source.path,
            f"{source.path}: a worker process died before this report was done",
            "Most often memory ran out: try --jobs 1.",
            int(ExitCode.NO_ANSWER),
        )
