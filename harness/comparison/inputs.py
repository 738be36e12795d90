# SPDX-License-Identifier: MIT
"""From what a user names (runs, recordings, folders of either, Traces) to sides.

The only module of this package that touches files, and only through the readers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.comparison.build import Options
from harness.comparison.groups import UNKNOWN, Kind, kind_of, options_of
from harness.comparison.kept import keep
from harness.comparison.sides import Capture, Side, capture
from harness.errors import UnreadableReport, UsageProblem
from harness.readers.paths import once
from harness.trace import Trace, Warning_
from harness.words import plural

if TYPE_CHECKING:
    from harness.attribute import Attribution
    from harness.launch.rundir import Run

#: One recording, or several: the captures of one side.
Recording = str | Path | Trace
Given = Recording | Sequence[Recording]

REPORT_SUFFIXES = (".sqlite", ".nsys-rep", ".qdrep", ".json", ".json.gz")
_OURS = ("run.json", "baselines.json")
SOURCES = ("auto", "nsys", "torch")


@dataclass(frozen=True)
class Named:
    """A path as it will be shown: a run folder, a recording, or a folder of recordings. Of a run in
    a folder of runs, what it is of, the options of its program, and when it was made (UTC; "": not
    on record)."""

    name: str
    path: Path
    kind: Kind = UNKNOWN
    options: tuple[str, ...] = ()
    created: str = ""


def side(given: Given, options: Options, *, source: str = "auto", name: str = "") -> Side:
    """Read everything of one side and reduce it. ``source`` picks the recordings of a run folder.

    Raises:
        UnreadableReport: nothing readable, or an incomplete run without ``options.force``.
    """
    if isinstance(given, str | Path) and Path(given).is_dir():
        return _folder_side(Path(given), options, source, name)
    listed = [given] if isinstance(given, str | Path | Trace) else list(given)
    if not listed:
        raise UsageProblem("no recording given for one side of the comparison")
    traces = (item if isinstance(item, Trace) else _load(item) for item in listed)
    captures = tuple(_reduce(trace, options) for trace in traces)
    path = captures[0].source.path + (f" (+{len(captures) - 1})" if len(captures) > 1 else "")
    shown = name or Path(captures[0].source.path).name
    return Side(shown, path, captures, asked=len(captures))


def _folder_side(folder: Path, options: Options, source: str, name: str) -> Side:
    from harness.launch.rundir import has_run_json, load_run

    files = recordings(folder, source)
    run: Mapping[str, Any] | None = None
    notes: tuple[Warning_, ...] = ()
    asked = len(files)
    if has_run_json(folder):
        loaded = load_run(folder)
        kept = keep(loaded, files)
        notes = (*_run_notes(loaded, files, kept.asked, options), *kept.notes)
        files, run, asked = list(kept.files), kept.run, kept.asked
    captures = tuple(_reduce(_load(file), options) for file in files)
    return Side(name or folder.resolve().name, str(folder), captures, run, notes, asked)


def _run_notes(run: Run, files: list[Path], asked: int, options: Options) -> tuple[Warning_, ...]:
    from harness.readers import lost

    notes = []
    if not run.complete:
        if not options.force:
            raise UnreadableReport(
                f"{run.folder}: this run is incomplete (it was interrupted), so it is not compared",
                hint="Record it again, or compare what is there with --force.",
            )
        notes.append(Warning_("incomplete-run", f"{run.name}: this run is incomplete"))
    failed = [p for p in run.passes if p.exit_code]
    for item in failed:
        notes.append(
            Warning_("failed-pass", f"{run.name}: its {item.name} pass exited {item.exit_code}")
        )
    kind = "torch" if files[0].name.startswith("torch_trace") else "nsys"
    gone = lost(run, kind)
    if len(files) < asked:
        missing = f"{run.name}: {len(files)} of {plural(asked, 'capture')} found"
        missing += f" (no longer in the folder: {', '.join(gone)})" if gone else ""
        notes.append(Warning_("missing-captures", missing))
    if kind == "torch" and (gone := lost(run, "nsys")):
        missing = f"{run.name}: no longer in the folder: {', '.join(gone)}"
        what = f"{missing}; what torch.profiler recorded is compared"
        notes.append(Warning_("missing-captures", what))
    return tuple(notes)


def recordings(folder: Path, source: str = "auto") -> list[Path]:
    """The files of a run folder that hold its captures or, in any other folder, every recording
    directly inside: several captures of one program.

    Raises:
        UnreadableReport: there are none.
    """
    from harness import readers

    if source == "torch":
        found = readers.recorded(folder, "torch")
    elif is_run(folder):
        found = readers.captures(folder)
        if source == "nsys" and found[0].name.startswith("torch_trace"):
            found = []
    else:
        found = loose_recordings(folder)
    if not found:
        what = "recording" if source == "auto" else f"{source} recording"
        raise UnreadableReport(
            f"{folder}: no {what} in it", hint="Give a folder that harness run wrote, or a report."
        )
    return found


def is_run(folder: Path) -> bool:
    names = ("run.json", "report.sqlite", "report.nsys-rep", "torch_trace.json.gz")
    return any((folder / name).is_file() for name in names)


def _capture_folders(folder: Path) -> list[Path]:
    """Folders of loose recordings. A ``.json`` alone may be anything."""
    children = (c for c in sorted(folder.iterdir()) if c.is_dir() and not c.name.startswith("."))
    return [
        child
        for child in children
        if os.access(child, os.R_OK | os.X_OK)
        and any(not file.name.lower().endswith(".json") for file in loose_recordings(child))
    ]


def loose_recordings(folder: Path) -> list[Path]:
    """Recordings directly in a folder, by name; an export stands for the report it came from."""
    files = [f for f in sorted(folder.iterdir()) if f.name.lower().endswith(REPORT_SUFFIXES)]
    exported = {f.name.removesuffix(".sqlite") for f in files if f.suffix == ".sqlite"}
    return [
        f
        for f in files
        if f.is_file()
        and f.name not in _OURS
        and not (f.suffix in (".nsys-rep", ".qdrep") and f.stem in exported)
    ]


def common_source(folders: Iterable[Path]) -> str:
    """``torch`` when all are run folders with a torch trace and not all have an nsys recording:
    the only measure they share."""
    from harness.readers import recorded

    runs = [f for f in folders if f.is_dir() and is_run(f)]
    if not runs or not all(recorded(f, "torch") for f in runs):
        return "auto"
    return "auto" if all(recorded(f, "nsys") for f in runs) else "torch"


def _load(path: str | Path) -> Trace:
    from harness import readers

    return readers.load(path)


def _reduce(trace: Trace, options: Options) -> Capture:
    found = trace.attribute(policy=options.policy)
    found.ledger  # noqa: B018 - a ledger that does not balance stops the command
    if options.selection:
        from harness import select

        whole = found.trace
        found = select.apply(found, options.selection)
        _refuse_empty(whole, found, options)
    return capture(found, measure=options.measure, by=options.by)


def _refuse_empty(whole: Trace, found: Attribution, options: Options) -> None:
    """Raises UnreadableReport where a filter left nothing that could be compared."""
    from harness.emptied import emptied_by, is_empty

    if not is_empty(found):
        return
    emptied = emptied_by(whole, options.policy, options.selection)
    if emptied is not None:
        raise UnreadableReport(f"{whole.source.path}: {emptied.message}", hint=emptied.hint)


def _run_folders(folder: Path) -> list[Path]:
    return once([c for c in sorted(folder.iterdir()) if c.is_dir() and is_run(c)])


def runs_in(folder: Path) -> tuple[list[Named], tuple[Warning_, ...]]:
    """What a folder of runs holds, oldest first, and notes about those left out: incomplete ones,
    and those without a recording or a readable ``run.json``.

    Where there is none, loose recordings stand for a run each or, where there are none of these
    either, the folders of recordings: each is the captures of one program. Both by name.
    """
    from harness.launch.rundir import has_run_json, load_run

    children = _run_folders(folder)
    if not children:
        loose = once(loose_recordings(folder)) or once(_capture_folders(folder))
        return [Named(f.name, f) for f in loose], ()
    found: list[tuple[str, str, Named]] = []
    notes = []
    for child in children:
        if not has_run_json(child):
            found.append(("", child.name, Named(child.name, child)))
            continue
        try:
            run = load_run(child)
            if not run.complete:
                notes.append(Warning_("incomplete-run", f"{child.name} is incomplete: left out"))
                continue
            recordings(child)
        except UnreadableReport as error:
            said = error.message.removeprefix(f"{child}: ").replace(f"{child}{os.sep}", "")
            notes.append(Warning_("left-out", f"{child.name} is left out: {said}", error.hint))
            continue
        named = Named(child.name, child, kind_of(run), options_of(run.argv), run.when)
        found.append((run.when, child.name, named))
    return [named for _, _, named in sorted(found, key=lambda item: item[:2])], tuple(notes)


def left_out(folder: Path, runs: Sequence[Named]) -> list[Named]:
    """The runs of a folder that are not among ``runs``, and when each was made."""
    from harness.launch.rundir import load_run

    kept = {run.path for run in runs}
    found = []
    for child in _run_folders(folder):
        if child in kept:
            continue
        try:
            found.append(Named(child.name, child, created=load_run(child).when))
        except UnreadableReport:
            found.append(Named(child.name, child))
    return found


def only_baseline(folder: Path) -> str | None:
    """The saved baseline of a folder of runs, when there is exactly one."""
    from harness.launch.rundir import read_baselines

    saved = list(read_baselines(folder))
    return saved[0] if len(saved) == 1 else None


def check_baselines(folder: Path) -> None:
    """Raises UnreadableReport where a saved baseline's run is gone: it may have been the base."""
    from harness.launch.rundir import baseline_path, read_baselines

    for name in read_baselines(folder):
        baseline_path(folder, name)


def find_baseline(folder: Path, name: str) -> Path:
    """The run that ``name`` means: a saved baseline, else a run or recording of that name.

    Raises:
        UsageProblem: neither.
    """
    from harness.launch.rundir import baseline_path, read_baselines

    if name in read_baselines(folder):
        return baseline_path(folder, name)
    for path in (folder / name, Path(name)):
        if path.exists():
            return path
    runs = runs_in(folder)[0]
    without_suffix = [run.path for run in runs if run.path.is_file() and _stem(run.name) == name]
    if len(without_suffix) == 1:
        return without_suffix[0]
    known = ", ".join(dict.fromkeys([*read_baselines(folder), *(run.name for run in runs)]))
    nothing = "No run and no recording is in it: name both sides, harness compare BASE NEW"
    raise UsageProblem(
        f"no baseline or run called {name!r} in {folder}",
        hint=f"There are: {known}" if known else nothing,
    )


def _stem(name: str) -> str:
    suffix = next((suffix for suffix in REPORT_SUFFIXES if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(suffix)]


def with_notes(made: Side, notes: tuple[Warning_, ...]) -> Side:
    return replace(made, notes=(*made.notes, *notes))
