# SPDX-License-Identifier: MIT
"""A copy of a run folder that may be handed on."""

from __future__ import annotations

import gzip
import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import UnreadableReport, UsageProblem
from harness.gpu_ids import pseudonym, replace_uuids
from harness.launch.environment import looks_secret
from harness.launch.rundir import Run, load_run, refuse_existing
from harness.readers.inspect_report import is_export
from harness.readers.paths import check_lfs, is_lfs_pointer, lfs_pointer
from harness.readers.scrub import REMOVED, scrub

_TABLES = re.compile(r"torch_ops(_by_shape)?(\.\d+)?\.(txt|json)$")


@dataclass(frozen=True)
class Shared:
    """What went into the copy, and what did not and why."""

    folder: Path
    copied: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]


def share(source: Path, target: Path) -> Shared:
    """Scrub a run folder, or one ``.sqlite``, into the new folder ``target``.

    Raises:
        UsageProblem: ``target`` exists, or ``source`` is a ``.nsys-rep``, which cannot be scrubbed.
        UnreadableReport: ``source`` is neither a run folder nor an export, or of all its recordings
            only the Git LFS pointers are here.
    """
    check_lfs(source)
    if source.suffix == ".nsys-rep":
        raise UsageProblem(
            f"{source}: a .nsys-rep cannot be scrubbed",
            hint="Share its export: harness share REPORT.sqlite, or the run folder.",
        )
    refuse_existing(target)
    run = load_run(source) if source.is_dir() else None
    if run is None and not is_export(source):
        raise UnreadableReport(
            f"{source}: not an nsys export that can be read",
            hint="Give a run folder, or a .sqlite that nsys export wrote.",
        )
    if source.is_dir():
        _refuse_pointers(source)
    target.mkdir(parents=True)
    if run is None:
        scrub(source, target / source.name)
        return Shared(target, (source.name,), ())
    copied, left_out = ["run.json"], []
    text = _without_uuids(json.dumps(scrubbed_run(run), indent=2, ensure_ascii=False), run)
    (target / "run.json").write_text(text + "\n", encoding="utf-8")
    for file in sorted(source.iterdir()):
        name = file.name
        if is_lfs_pointer(file):
            left_out.append((name, "a Git LFS pointer, not the file itself (git lfs pull)"))
            continue
        if name.endswith(".sqlite") and is_export(file):
            scrub(file, target / name)
        elif _is_trace(name):
            scrub_trace(file, target / name)
        elif _TABLES.fullmatch(name):
            (target / name).write_bytes(file.read_bytes())
        elif name == "run.json":
            continue
        else:
            left_out.append((name, _why(name)))
            continue
        copied.append(name)
    return Shared(target, tuple(copied), tuple(left_out))


def _refuse_pointers(folder: Path) -> None:
    files = [file for file in folder.iterdir() if _is_recording(file.name)]
    if files and all(map(is_lfs_pointer, files)):
        raise lfs_pointer(min(files))


def _is_recording(name: str) -> bool:
    return name.endswith(".sqlite") or _is_trace(name)


def _is_trace(name: str) -> bool:
    return name.startswith("torch_trace") and name.endswith(".json.gz")


def _why(name: str) -> str:
    if name.endswith(".nsys-rep"):
        return "carries the environment and cannot be scrubbed"
    if name.endswith(".log"):
        return "may hold anything the program printed"
    return "not known to be safe"


def scrubbed_run(run: Run) -> dict[str, Any]:
    """``run.json`` without host name, folders and the program's arguments' folders."""
    host = {key: value for key, value in run.host.items() if key != "name"}
    passes = [
        replace(
            record,
            argv=shareable(record.argv),
            log="",
            files=[name for name in record.files if not name.endswith((".nsys-rep", ".qdstrm"))],
        )
        for record in run.passes
    ]
    argv = shareable(run.argv)
    return replace(run, host=host, passes=passes, argv=argv).as_dict()


def _without_uuids(text: str, run: Run) -> str:
    """Text with a pseudonym wherever the UUID of a GPU is, CUDA_VISIBLE_DEVICES=GPU-… included."""
    states = [gpu for record in run.passes for gpu in (*record.gpu_before, *record.gpu_after)]
    return replace_uuids(text, {str(gpu["uuid"]) for gpu in (*run.gpu, *states) if gpu.get("uuid")})


def shareable(argv: list[str]) -> list[str]:
    """A command line without folders, and without the values of options such as ``--api-key``."""
    shown: list[str] = []
    hide = False
    for word in argv:
        option, separator, value = word.partition("=")
        if hide and not word.startswith("-"):
            shown.append(REMOVED)
            hide = False
            continue
        hide = word.startswith("-") and not separator and looks_secret(option.lstrip("-"))
        if separator and looks_secret(option.lstrip("-"), value):
            shown.append(f"{option}={REMOVED}")
        else:
            shown.append(REMOVED if looks_secret("", word) else _no_folder(word))
    return shown


def _no_folder(word: str) -> str:
    """``/home/me/train.py`` -> ``train.py``; ``--data=/home/me/x`` -> ``--data=x``."""
    return re.sub(r"(?<![\w.])~?(/[^/\s=:,]*)*/(?=[^/\s=:,]+)", "", word)


def scrub_trace(source: Path, target: Path) -> None:
    """A Chrome trace without host name, with pseudonyms of GPUs, and the basenames of files."""
    with gzip.open(source, "rt", encoding="utf-8") as file:
        trace = json.load(file)
    if isinstance(trace, dict):
        for key in ("host_name", "hostname", "traceName", "distributedInfo"):
            trace.pop(key, None)
        for gpu in trace.get("deviceProperties") or []:
            if isinstance(gpu, dict) and gpu.get("uuid"):
                gpu["uuid"] = pseudonym(str(gpu["uuid"]))
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    for event in events:
        if event.get("name") in {"process_name", "process_labels"}:
            arguments = event.get("args", {})
            for key, value in arguments.items():
                if isinstance(value, str):
                    arguments[key] = os.path.basename(value)
    with target.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as out:
        out.write(json.dumps(trace, separators=(",", ":")).encode())
