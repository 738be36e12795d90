# SPDX-License-Identifier: MIT
"""The run folder: the only place that writes or reads ``run.json``.

A run is written into a sibling folder that says it is incomplete, and takes its name when it is
whole. Nothing is ever overwritten. Importable without torch and pandas.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UnreadableReport, UsageProblem
from harness.readers.paths import check_lfs

SCHEMA = "harness.run/1"
INCOMPLETE = ".incomplete"
BASELINES = "baselines.json"


@dataclass
class PassRecord:
    """One execution of the program. ``files`` and ``log`` are names inside the run folder."""

    name: str  # plain | torch | nsys
    argv: list[str]
    exit_code: int
    duration_s: float
    log: str
    files: list[str] = field(default_factory=list)
    capture: int = 1
    signal: str | None = None
    saving_s: float = 0.0  # of duration_s, after the program's end: torch.profiler's trace
    problems: list[dict[str, str]] = field(default_factory=list)  # {code, message}
    gpu_before: list[dict[str, Any]] = field(default_factory=list)
    gpu_after: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Run:
    """``run.json``. ``folder`` is where it was read from and is not stored."""

    name: str
    argv: list[str]
    created: str
    complete: bool = False
    host: dict[str, Any] = field(default_factory=dict)
    gpu: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, Any] = field(default_factory=dict)
    git: dict[str, Any] = field(default_factory=dict)
    passes: list[PassRecord] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)  # {pass, reason}
    workload: dict[str, Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    folder: Path = field(default=Path(), compare=False)

    def captures(self, name: str = "nsys") -> list[PassRecord]:
        """The passes of one kind, in capture order."""
        return sorted((p for p in self.passes if p.name == name), key=lambda p: p.capture)

    @property
    def when(self) -> str:
        """``created`` in UTC, so that it sorts by time whatever zones runs were made in; "" where
        it is none."""
        try:
            made = datetime.fromisoformat(self.created)
            made = made if made.tzinfo else made.replace(tzinfo=UTC)
            return made.astimezone(UTC).isoformat(timespec="microseconds")
        except (ValueError, OverflowError):
            return ""

    def duration_s(self, name: str) -> float | None:
        """Median wall time of one kind of pass, or None when it did not run."""
        times = sorted(p.duration_s for p in self.passes if p.name == name)
        if not times:
            return None
        middle = len(times) // 2
        return times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2

    def as_dict(self) -> dict[str, Any]:
        stored = asdict(self)
        del stored["folder"]
        return {"schema": SCHEMA, **stored}


def tagged(stem: str, suffix: str, capture: int) -> str:
    """``report.sqlite`` for capture 1, ``report.2.sqlite`` for capture 2."""
    return f"{stem}{tag(capture)}{suffix}"


def tag(capture: int) -> str:
    return "" if capture == 1 else f".{capture}"


class RunFolder:
    """A run being written. As a context manager, it leaves an incomplete folder on any error."""

    def __init__(self, target: Path, run: Run) -> None:
        self.target = target
        self.run = run
        refuse_existing(target)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            self.path, self._lock = _claim(target)
            self.run.folder = self.path
            self.save()
        except OSError as error:
            raise HarnessError(
                f"{target}: cannot be written: {error.strerror or error}",
                hint="Choose another place with -o.",
            ) from error

    def save(self) -> None:
        """Write ``run.json`` as it stands, whole or not at all."""
        text = json.dumps(self.run.as_dict(), indent=2, ensure_ascii=False)
        temporary = self.path / "run.json.tmp"
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, self.path / "run.json")

    def complete(self) -> Path:
        """Mark the run complete and give it its name.

        Raises:
            UsageProblem: another run took the name meanwhile; this one stays where it is.
        """
        refuse_existing(self.target, kept=self.path)
        self.run.complete = True
        self.save()
        try:
            os.rename(self.path, self.target)  # fails on a folder that is not empty
        except OSError as error:
            raise UsageProblem(
                f"{self.target}: cannot take this name: {error.strerror}",
                hint=f"The run is complete and kept as {self.path}.",
            ) from error
        self.path = self.run.folder = self.target
        self.close()
        return self.target

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._lock)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def refuse_existing(target: Path, kept: Path | None = None) -> None:
    """Raise UsageProblem if something has that name already."""
    if os.path.lexists(target):
        raise UsageProblem(
            f"{target}: exists already; a run is never overwritten",
            hint=f"This run is kept as {kept}." if kept else "Choose another name with -o.",
        )


def _claim(target: Path) -> tuple[Path, int]:
    """Make the working folder and lock it: two runs with one name must not meet at its end."""
    number = 1
    while True:
        path = target.with_name(target.name + INCOMPLETE + ("" if number == 1 else f".{number}"))
        try:
            path.mkdir()
        except FileExistsError:
            if number == 1 and _is_locked(path):
                raise UsageProblem(
                    f"{target}: another harness run is writing this run",
                    hint="Give each rank or job its own name: -o 'reports/NAME-%q{RANK}', or %p "
                    "for the process id.",
                ) from None
            number += 1
            continue
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path, lock


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def has_run_json(folder: Path) -> bool:
    """Whether a folder has a ``run.json``, be it one that cannot be read: what it would say (that
    the run is incomplete) must not be passed over."""
    return os.path.lexists(folder / "run.json")


def load_run(path: str | Path) -> Run:
    """Read a run folder's ``run.json``. Unknown keys are ignored, missing ones have defaults.

    Raises:
        UnreadableReport: there is no readable ``run.json``, or a Git LFS pointer instead.
    """
    folder = Path(path)
    file = folder / "run.json" if folder.is_dir() else folder
    if os.path.lexists(file) and not file.is_file():
        raise UnreadableReport(f"{file}: cannot be read: it is no file, or a link to none")
    check_lfs(file)
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnreadableReport(
            f"{folder}: not a run folder (no run.json)",
            hint="Give a folder that harness run wrote.",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise UnreadableReport(f"{file}: cannot be read: {error}") from error
    if not isinstance(stored, dict) or not str(stored.get("schema", "")).startswith("harness.run/"):
        raise UnreadableReport(f"{file}: not written by harness run (no schema harness.run/…)")
    if stored["schema"] != SCHEMA:
        raise UnreadableReport(
            f"{file}: written by another version of harness ({stored['schema'][:40]}; this one"
            f" reads {SCHEMA})",
            hint="Use the harness that recorded it, or one as new.",
        )
    known = _known(Run, stored, file)
    known["passes"] = [
        PassRecord(**{**_PASS_DEFAULTS, **_known(PassRecord, record, file)})
        for record in stored.get("passes") or []
    ]
    defaults: dict[str, Any] = {"name": folder.name, "argv": [], "created": ""}
    return Run(**{**defaults, **known, "folder": file.parent})


_PASS_DEFAULTS: dict[str, Any] = {
    "name": "",
    "argv": [],
    "exit_code": 0,
    "duration_s": 0.0,
    "log": "",
}


#: What ``run.json`` must hold under its keys, where it has them at all.
_SHAPES: dict[str, Any] = {
    "name": str,
    "created": str,
    "complete": bool,
    "log": str,
    "argv": list,
    "gpu": list,
    "passes": list,
    "skipped": list,
    "files": list,
    "problems": list,
    "gpu_before": list,
    "gpu_after": list,
    "host": dict,
    "versions": dict,
    "git": dict,
    "options": dict,
    "capture": int,
    "exit_code": int,
    "duration_s": (int, float),
    "saving_s": (int, float),
}


def _known(kind: Any, stored: Any, file: Path) -> dict[str, Any]:
    """The values that ``kind`` has fields for; null stands for a missing one."""
    if not isinstance(stored, dict):
        raise UnreadableReport(f"{file}: damaged ({kind.__name__} is not an object)")
    names = {f.name for f in fields(kind)} - {"folder"}
    known = {key: value for key, value in stored.items() if key in names and value is not None}
    for key, value in known.items():
        if not isinstance(value, _SHAPES.get(key, object)):
            raise UnreadableReport(f"{file}: damaged ({key} is {type(value).__name__})")
    return known


def list_runs(reports: Path) -> list[Run]:
    """Every run directly under ``reports``, oldest first; incomplete ones too. A folder whose
    ``run.json`` cannot be read is none."""
    found: list[Run] = []
    if reports.is_dir():
        for entry in sorted(reports.iterdir()):
            if has_run_json(entry):
                with contextlib.suppress(UnreadableReport):
                    found.append(load_run(entry))
    return sorted(found, key=lambda run: (run.when, run.name))


# Baselines: names for runs, in one small file beside them.


#: No file system has longer names (bytes).
_LONGEST_FILE_NAME = 255
#: A baseline's name is at most this long.
_LONGEST_NAME = 100


def check_baseline_name(name: str) -> None:
    """Raise UsageProblem unless ``name`` is a word that also is no path: ``main``, ``v1.2``."""
    shown = repr(name if len(name) <= _LONGEST_NAME else name[:20] + "…")
    if len(name) > _LONGEST_NAME:
        raise UsageProblem(
            f"{shown}: a baseline's name has at most {_LONGEST_NAME} characters, not {len(name)}"
        )
    if not re.fullmatch(r"[\w.+-]+", name) or not re.search(r"[^\W_]", name):
        raise UsageProblem(
            f"{shown}: a baseline's name has letters, digits and . + - _ only, at least one of"
            " them a letter or digit"
        )


def read_baselines(reports: str | Path) -> dict[str, str]:
    """Baseline name -> run folder's name under ``reports``.

    Raises:
        UnreadableReport: the file is there and is not what we wrote.
    """
    file = Path(reports) / BASELINES
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise UnreadableReport(f"{file}: cannot be read: {error}", hint=_MEND_BASELINES) from error
    if not isinstance(stored, dict):
        raise UnreadableReport(f"{file}: not an object of names and runs", hint=_MEND_BASELINES)
    for name, run in stored.items():
        _check_stored(file, name, run)
    return stored


_MEND_BASELINES = 'Mend it by hand ({"main": "RUN"}), or take it away and save baselines again.'


def _check_stored(file: Path, name: str, run: Any) -> None:
    """Raise UnreadableReport for what ``write_baselines`` does not write: no word as a name, or no
    folder's name as a run. A path could lead anywhere."""
    try:
        check_baseline_name(name)
    except UsageProblem as error:
        raise UnreadableReport(f"{file}: {error.message}", hint=_MEND_BASELINES) from None
    known = isinstance(run, str) and len(os.fsencode(run)) <= _LONGEST_FILE_NAME
    if not known or run in ("", ".", "..") or re.search(r"[/\x00]", run):
        shown = repr(run)
        shown = shown if len(shown) <= _LONGEST_NAME else shown[:20] + "…"
        raise UnreadableReport(
            f"{file}: baseline {name!r}: {shown} is not the name of a run", hint=_MEND_BASELINES
        )


def save_baseline(reports: str | Path, name: str, run: str) -> None:
    """Call a run folder under ``reports`` ``name``. Of several at once, each one is kept."""
    folder = os.open(reports, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(folder, fcntl.LOCK_EX)
        write_baselines(reports, {**read_baselines(reports), name: run})
    finally:
        os.close(folder)


def write_baselines(reports: str | Path, baselines: dict[str, str]) -> None:
    """Baseline name -> run folder's name under ``reports``, whole or not at all."""
    file = Path(reports) / BASELINES
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    text = json.dumps(dict(sorted(baselines.items())), indent=2, ensure_ascii=False)
    try:
        temporary.write_text(text + "\n", encoding="utf-8")
        os.replace(temporary, file)
    except OSError as error:
        raise HarnessError(f"{file}: cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def baseline_path(reports: str | Path, name: str) -> Path:
    """The run folder that a baseline names.

    Raises:
        UsageProblem: there is no such baseline.
        UnreadableReport: its run is gone.
    """
    baselines = read_baselines(reports)
    if name not in baselines:
        raise UsageProblem(
            f"no baseline called {name!r} in {reports}", hint=_choices(baselines.keys())
        )
    path = Path(reports) / baselines[name]
    if not path.is_dir():
        raise UnreadableReport(
            f"baseline {name!r}: its run {path} is gone",
            hint=f"Save it again: harness baseline save {name} RUN",
        )
    return path


def _choices(names: Iterable[str]) -> str:
    listed = ", ".join(sorted(names))
    return f"There are: {listed}" if listed else "Save one: harness baseline save NAME RUN"
