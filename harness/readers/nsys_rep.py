# SPDX-License-Identifier: MIT
"""An ``.nsys-rep`` as a Trace: exported with nsys, the export kept beside the report.

The kept export (``.NAME.nsys-rep.harness-export``) holds only the tables the reader needs, so it
is not called ``NAME.sqlite``: ``nsys stats`` would take that for a full export and skip reports.
It carries a stamp of the report it came from and of the nsys that made it: another report under
the same name is exported again, and so is one where a newer nsys has come to be there.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Set
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import ToolMissing, UnreadableReport

if TYPE_CHECKING:
    from harness.launch.nsys import Nsys
    from harness.trace import Trace

#: First bytes of every report (.qdrep too); from 2023 on the version that wrote it follows.
_MAGIC = b"NVIDIA Tegra Profiler Report "
_VERSION = re.compile(r"(20\d\d(?:[.@]\d+){1,3})")

#: What the reader looks at. nsys from 2023.2 on can leave the rest out (``--tables``), which for a
#: report with CPU samples or OS calls is most of the time and size of an export.
_TABLES = (
    "StringIds",
    "NVTX_EVENTS",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUDA_GRAPH_EVENTS",
    "CUDA_GRAPH_NODE_EVENTS",
    "ThreadNames",
    "ANALYSIS_DETAILS",
    "DIAGNOSTIC_EVENT",
    "TARGET_INFO_GPU",
    "TARGET_INFO_CUDA_DEVICE",
    "TARGET_INFO_SYSTEM_ENV",
    "TARGET_INFO_SESSION_START_TIME",
    "META_DATA_CAPTURE",
    "META_DATA_EXPORT",
    "ENUM_CUDA_MEMCPY_OPER",
)


@dataclass(frozen=True)
class _Stamp:
    """What identifies a report's content without reading it, and the tables asked for: another
    harness may read more of them, and a table that is missing reads like an empty one."""

    size: int
    mtime_ns: int
    inode: int
    tables: str

    @classmethod
    def of(cls, path: Path) -> _Stamp:
        status = path.stat()
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, ",".join(_TABLES))


def read(path: str | Path, *, without: Set[str] = frozenset()) -> Trace:
    """Read an nsys report: its ``.sqlite`` beside it if that is newer, else the kept export, else
    a new export. ``without``: see ``nsys_sqlite.read``.

    Raises: as ``exported``.
    """
    from harness.readers import nsys_sqlite

    with exported(path) as export:
        return _named(nsys_sqlite.read(export, without=without), Path(path))


@contextlib.contextmanager
def exported(path: str | Path) -> Iterator[Path]:
    """The SQLite export of a report, there while the context is open; see ``read``.

    Raises:
        UnreadableReport: not a report, cut short, or written by a newer nsys than the one here.
        ToolMissing: an export is needed and there is no nsys.
    """
    path = Path(path)
    written_by = _check_report(path) or _on_record(path)
    beside = path.with_suffix(".sqlite")
    if _is_newer(beside, path):
        yield beside
        return
    with tempfile.TemporaryDirectory(prefix="harness-") as scratch:
        export = _export(path, written_by, beside, Path(scratch))
        try:
            yield export
        except UnreadableReport as error:
            if export in _places(path):
                raise _without_kept(export, path, error) from error
            raise


def _without_kept(export: Path, path: Path, error: UnreadableReport) -> UnreadableReport:
    """What was wrong with a kept export, which is removed: else it would be wrong for ever."""
    try:
        export.unlink()
    except OSError:
        return UnreadableReport(error.message, hint=f"harness made it of {path}: remove it.")
    return UnreadableReport(
        error.message,
        hint=f"harness had made it of {path} and has removed it: run the command again. If that"
        " says the same, the recording is damaged.",
    )


def _named(trace: Trace, path: Path) -> Trace:
    return replace(trace, source=replace(trace.source, path=str(path)))


def _is_newer(export: Path, report: Path) -> bool:
    try:
        status = export.stat()
        return status.st_size > 0 and status.st_mtime_ns >= report.stat().st_mtime_ns
    except OSError:
        return False


def _export(path: Path, written_by: str, beside: Path, scratch: Path) -> Path:
    """An export of the report as it is now: a kept one, or a new one, kept where that is possible
    and in ``scratch`` where it is not.

    Two processes at once: the second waits for the first. Where the file system has no locks both
    export, and each puts its own whole file in place.
    """
    stamp = _Stamp.of(path)
    places = _places(path)
    old = _kept(places, stamp)
    if old is not None and not _is_outdated(old):
        return old
    try:
        nsys = _find_nsys(written_by)
    except ToolMissing as error:
        if old is not None:
            return old
        if beside.is_file() and beside.stat().st_size:
            return beside  # older than the report; the reader warns where that matters
        raise _no_export(path, beside, error) from None
    with _locked(path):
        now = _kept(places, stamp)
        if now is not None and not _is_outdated(now):
            return now  # another process was quicker
        try:
            return _export_anew(nsys, path, written_by, stamp, scratch)
        except UnreadableReport:
            if now is not None:
                return now
            raise


def _no_export(path: Path, beside: Path, error: ToolMissing) -> ToolMissing:
    """What is missing is the export, which only nsys can make again; what there is instead."""
    trace = path.with_name(path.name.replace("report", "torch_trace", 1)).with_suffix(".json.gz")
    instead = f" {trace} has the torch pass." if trace.is_file() else ""
    return ToolMissing(
        f"{path}: its export {beside.name} is not beside it, and only nsys can make one;"
        f" {error.message}",
        hint=f"Copy {beside.name} from where the run was recorded.{instead} {error.hint}",
    )


def _export_anew(nsys: Nsys, path: Path, written_by: str, stamp: _Stamp, scratch: Path) -> Path:
    for place in _places(path):
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            folder = tempfile.TemporaryDirectory(dir=place.parent, prefix=".harness-")
        except OSError:
            continue  # a read-only folder: the next place
        with folder as name:
            export = _run_export(nsys, path, written_by, Path(name))
            _write_stamp(export, stamp, nsys)
            with contextlib.suppress(OSError):  # a folder of that name: the next place
                return export.replace(place)
    return _run_export(nsys, path, written_by, scratch)


def _kept(places: list[Path], stamp: _Stamp) -> Path | None:
    return next((place for place in places if _stamp_in(place) == stamp), None)


def _places(path: Path) -> list[Path]:
    """Where an export is kept: beside the report, or in the user's cache if that is read-only."""
    name = f".{path.name}.harness-export"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nsys-harness"
    where = hashlib.sha256(os.fsencode(path.resolve().parent)).hexdigest()[:16]
    return [path.parent / name, cache / where / name]


def _stamp_in(kept: Path) -> _Stamp | None:
    """The stamp in a kept export; None if there is none."""
    row = _stamped(kept, "size, mtime_ns, inode, tables, nsys, nsys_file")
    return _Stamp(*row[:4]) if row and None not in row else None


def _stamped(kept: Path, columns: str) -> tuple[Any, ...] | None:
    if not kept.is_file():
        return None
    from harness.readers.columns import uri

    try:
        with contextlib.closing(sqlite3.connect(uri(kept), uri=True)) as connection:
            row: tuple[Any, ...] | None = connection.execute(
                f"SELECT {columns} FROM HARNESS_STAMP"
            ).fetchone()
    except (sqlite3.Error, UnicodeDecodeError):  # SQLite's message may quote what is garbled
        return None
    return row


def _write_stamp(export: Path, stamp: _Stamp, nsys: Nsys) -> None:
    with contextlib.closing(sqlite3.connect(export)) as connection, connection:
        connection.execute(
            "CREATE TABLE HARNESS_STAMP (size INTEGER, mtime_ns INTEGER, inode INTEGER,"
            " tables TEXT, nsys TEXT, nsys_file TEXT)"
        )
        row = (*astuple(stamp), nsys.version, _identity(nsys.path))
        connection.execute("INSERT INTO HARNESS_STAMP VALUES (?, ?, ?, ?, ?, ?)", row)


def _is_outdated(kept: Path) -> bool:
    """Whether the nsys that is here now is newer than the one that made a kept export: it may read
    what the other could not. It is only asked for its version where it is another file."""
    from harness.launch import nsys

    row = _stamped(kept, "nsys, nsys_file")
    file = nsys.first(os.environ)
    if row is None or file is None or _identity(file) == row[1]:
        return False
    found = nsys.probe(file)
    return isinstance(found, nsys.Nsys) and _release(found.version) > _release(row[0])


def _identity(file: str) -> str:
    status = os.stat(file)
    return f"{os.path.realpath(file)} {status.st_size} {status.st_mtime_ns}"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the report itself as the lock: nothing is left behind, and read-only folders work."""
    with path.open("rb") as file:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run_export(nsys: Nsys, path: Path, written_by: str, folder: Path) -> Path:
    """Export into ``folder``. Judged by the file and the exit code: nsys may exit 0 and leave no or
    an empty file, and 2023.4 leaves the tables it came to where it cannot read on."""
    said = ""
    for extra in _table_options(nsys), []:
        export = folder / "export.sqlite"
        command = [nsys.path, "export", "-t", "sqlite", "-q", "true", *extra]
        done = subprocess.run(
            [*command, "-o", str(export), str(path.resolve())],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            check=False,
            text=True,
            errors="replace",
        )
        if not done.returncode and export.is_file() and export.stat().st_size:
            return export
        said = done.stdout
        export.unlink(missing_ok=True)
    raise _export_failed(nsys, path, written_by, said)


def _table_options(nsys: Nsys) -> list[str]:
    done = subprocess.run(
        [nsys.path, "export", "--help"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return ["--tables", ",".join(_TABLES)] if "--tables" in done.stdout + done.stderr else []


def _export_failed(nsys: Nsys, path: Path, written_by: str, said: str) -> UnreadableReport:
    # 2022.4 on a report by 2023.4: "Exportation error: Version number is invalid: 2023@4@4@54-…"
    if "ersion" in said and (found := _VERSION.search(said)):
        written_by = found[1].replace("@", ".")
    newer = bool(written_by) and _release(written_by) > _release(nsys.version)
    # On a report of 2025.3.1 from Nsight Compute 2022.4 says "Version not supported: 36398880", and
    # 2023.4 throws ProtobufParseException.
    if newer or "ersion not supported" in said or "ProtobufParseException" in said:
        writer = f"nsys {written_by}" if newer else "another version of nsys"
        able = f"nsys {'.'.join(written_by.split('.')[:2])} or later" if newer else "that one"
        return UnreadableReport(
            f"{path}: written by {writer}, which nsys {nsys.version} ({nsys.path}) cannot read",
            hint=f"Point HARNESS_NSYS at {able}, or copy {path.with_suffix('.sqlite').name},"
            " its export, from where it was recorded.",
        )
    # SQLite's words, and the system's.
    full = "disk is full" in said or "No space left on device" in said
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    reason = f": {lines[-1][-200:]}" if lines else ""
    return UnreadableReport(
        f"{path}: nsys {nsys.version} could not export it{reason}",
        hint="Make room: an export takes several times the report's size."
        if full
        else "Was it cut short while copied? Compare its size with the original.",
    )


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _check_report(path: Path) -> str:
    """The version that wrote the report, "" where it does not say (2022 and before)."""
    try:
        with path.open("rb") as file:
            head = file.read(120)
    except FileNotFoundError:
        raise UnreadableReport(f"{path}: no such file") from None
    except OSError as error:
        raise UnreadableReport(f"{path}: cannot be read ({error.strerror})") from None
    if not head:
        raise UnreadableReport(f"{path}: empty file", hint="Look at what nsys profile printed.")
    if head.startswith(b"version https://git-lfs"):
        raise UnreadableReport(
            f"{path}: a Git LFS pointer, not the file itself", hint="Run git lfs pull."
        )
    if not head.startswith(_MAGIC):
        raise UnreadableReport(
            f"{path}: not an Nsight Systems report",
            hint="Expected a run folder, an nsys .sqlite or .nsys-rep, or a torch.profiler trace.",
        )
    found = _VERSION.match(head[len(_MAGIC) :].decode("latin-1"))
    return found[1].replace("@", ".") if found else ""


def _on_record(path: Path) -> str:
    """The version that wrote the report according to the run.json beside it: the nsys that comes
    with Nsight Compute puts a build number into its reports."""
    from harness.launch.rundir import load_run

    try:
        version = str(load_run(path.parent).versions.get("nsys") or "")
    except UnreadableReport:
        return ""
    return version if _VERSION.fullmatch(version) else ""


def _find_nsys(written_by: str) -> Nsys:
    """The nsys to export with: the one that would be found, or a newer one if that is too old."""
    from harness.launch import nsys

    first = nsys.find(None, os.environ)
    if not written_by or _release(written_by) <= _release(first.version):
        return first
    installed: Any = [nsys.probe(file) for pattern in nsys.PLACES for file in _glob(pattern)]
    able = [
        one
        for one in installed
        if isinstance(one, nsys.Nsys) and _release(one.version) >= _release(written_by)
    ]
    return max(able, key=lambda one: one.release) if able else first


def _glob(pattern: str) -> list[str]:
    import glob

    return glob.glob(pattern)
