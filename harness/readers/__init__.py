# SPDX-License-Identifier: MIT
"""Recordings to Traces: nsys exports, nsys reports and torch.profiler traces, or a run folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UnreadableReport
from harness.readers.paths import check_path

if TYPE_CHECKING:
    from harness.launch.rundir import Run
    from harness.trace import Trace

__all__ = ["captures", "export_of", "load", "load_all", "lost", "recorded"]

#: How much newer a report may be than its export: a checkout writes the two in any order.
STALE_AFTER_NS = 10_000_000_000


def load(path: str | Path, *, without: Set[str] = frozenset()) -> Trace:
    """One recording: a ``.sqlite``, a ``.nsys-rep``, a Chrome trace, or a run folder's first.

    ``without`` names columns of GPU ops that will not be asked for and may be left unread.

    Raises:
        UnreadableReport: nothing readable is there.
    """
    check_path(path)
    path = Path(path)
    return _checked(captures(path)[0] if os.path.isdir(path) else path, without)


def load_all(path: str | Path) -> list[Trace]:
    """Every capture of a run folder, in order (``report.sqlite``, ``report.2.sqlite``, …); of a
    file, the one recording in it."""
    check_path(path)
    path = Path(path)
    return [_checked(file) for file in (captures(path) if os.path.isdir(path) else [path])]


@contextmanager
def export_of(path: str | Path) -> Iterator[Path | None]:
    """The SQLite export that ``load`` would read, there while the context is open; None for a
    torch trace."""
    check_path(path)
    path = Path(path)
    path = captures(path)[0] if os.path.isdir(path) else path
    name = path.name.lower()
    if name.endswith((".json", ".json.gz")):
        yield None
    elif name.endswith((".nsys-rep", ".qdrep")):
        from harness.readers import nsys_rep

        with nsys_rep.exported(path) as export:
            yield export
    else:
        yield path


def captures(folder: Path) -> list[Path]:
    """The files of a run folder to read: its nsys captures or, without any, its torch traces.

    A capture's ``.sqlite`` is preferred to its ``.nsys-rep``, unless that is much newer.
    """
    if not os.access(folder, os.R_OK | os.X_OK):
        raise UnreadableReport(f"{folder}: permission denied")
    for kind in _STEMS:
        if found := recorded(folder, kind):
            return found
    if os.path.isfile(folder / "run.json"):
        raise _recorded_nothing(folder)
    raise UnreadableReport(
        f"{folder}: not a run folder (no report.sqlite, report.nsys-rep or torch_trace.json.gz)",
        hint="Give a folder that harness run wrote, or a report file.",
    )


#: Files of one capture, the better one first; ``{}`` is "" or ``.2``, ``.3``, …
_STEMS = {
    "nsys": ("report{}.sqlite", "report{}.nsys-rep"),
    "torch": ("torch_trace{}.json.gz",),
}


def recorded(folder: Path, kind: str) -> list[Path]:
    """The captures of one profiler (``nsys`` or ``torch``) in a run folder, in order. Where one is
    gone, those after it count as far as ``run.json`` lists them."""
    stems = _STEMS[kind]
    there = _numbers(os.listdir(folder), stems)
    found = [n for place, n in enumerate(there, start=1) if n == place]
    if len(found) < len(there):
        listed = _listed(folder, kind)
        found = [n for n in there if n in found or n in listed]
    return [_newest(folder, stems, "" if n == 1 else f".{n}") for n in found]


def _numbers(names: list[str], stems: tuple[str, ...]) -> list[int]:
    """Of the captures that have a file among ``names``, in order."""
    number = r"(?:\.([2-9]|[1-9]\d{1,5}))?"
    patterns = [re.escape(stem).replace(r"\{\}", number) for stem in stems]
    matches = (re.fullmatch(pattern, name) for name in names for pattern in patterns)
    return sorted({int(match[1] or 1) for match in matches if match})


def _listed(folder: Path, kind: str) -> set[int]:
    from harness.launch.rundir import load_run

    try:
        return {record.capture for record in load_run(folder).captures(kind)}
    except UnreadableReport:
        return set()


def _newest(folder: Path, stems: tuple[str, ...], tag: str) -> Path:
    files = [folder / stem.format(tag) for stem in stems]
    there = [file for file in files if os.path.isfile(file)] or files
    stale = len(stems) == len(there) == 2 and is_stale(*there)
    return there[1] if stale else there[0]


def lost(run: Run, kind: str = "nsys") -> list[str]:
    """Recordings of a run that its ``run.json`` lists and that are gone: one name a capture, the
    file that would do."""
    stems = _STEMS[kind]
    gone = []
    for record in run.captures(kind):
        tag = "" if record.capture == 1 else f".{record.capture}"
        listed = [name for stem in stems if (name := stem.format(tag)) in record.files]
        there = any(os.path.isfile(run.folder / stem.format(tag)) for stem in stems)
        if listed and not there:
            gone.append(listed[0])
    return gone


def _recorded_nothing(folder: Path) -> UnreadableReport:
    """Why a run folder has no recording: what its passes were, and what is said to be in them."""
    from harness.launch.rundir import load_run

    run = load_run(folder)
    names = list(dict.fromkeys(record.name for record in run.passes))
    had = (
        f"it had the passes {', '.join(names)}"
        if len(names) > 1
        else (f"it had a {names[0]} pass only" if names else "no pass of it ended")
    )
    if gone := [*lost(run, "nsys"), *lost(run, "torch")]:
        return UnreadableReport(
            f"{folder}: its recordings are no longer in the folder ({', '.join(gone)})",
            hint="Copy them from where the run was recorded, or record again.",
        )
    said = [p.get("message", "") for record in run.passes for p in record.problems]
    why = f": {'; '.join(filter(None, said))}" if any(said) else ""
    return UnreadableReport(
        f"{folder}: this run recorded nothing ({had}){why}",
        hint="harness run records with its torch pass, harness run --nsys with both profilers.",
    )


def is_stale(export: Path, report: Path) -> bool:
    """Is the report so much newer that the export cannot be of it?"""
    return report.stat().st_mtime_ns - export.stat().st_mtime_ns > STALE_AFTER_NS


def _checked(path: Path, without: Set[str] = frozenset()) -> Trace:
    from harness.readers.plausible import check_times

    return check_times(_read(path, without), path)


def _read(path: Path, without: Set[str] = frozenset()) -> Trace:
    name = path.name.lower()
    if name.endswith((".json", ".json.gz")):
        from harness.readers import kineto

        return kineto.read(path)
    if name.endswith((".nsys-rep", ".qdrep")):
        from harness.readers import nsys_rep

        return nsys_rep.read(path, without=without)
    from harness.readers import nsys_sqlite

    return nsys_sqlite.read(path, without=without)
