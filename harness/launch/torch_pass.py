# SPDX-License-Identifier: MIT
"""The torch pass: a Python program under torch.profiler, by way of ``torch_runner.py``."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from harness.launch.pycommand import PythonCommand
from harness.launch.rundir import PassRecord, Run, tagged

RUNNER = Path(__file__).with_name("torch_runner.py")
BEFORE_TORCH = "before-torch"
#: Events from which on saving them takes seconds.
MANY_EVENTS = 100_000
_FILES = (
    ("torch_trace", ".json.gz"),
    ("torch_ops", ".txt"),
    ("torch_ops", ".json"),
    ("torch_ops_by_shape", ".txt"),
    ("torch_ops_by_shape", ".json"),
)


def command(python: PythonCommand, folder: Path, capture: int) -> list[str]:
    """The command line that records ``python``'s program into ``folder``."""
    tag = "" if capture == 1 else f".{capture}"
    return [
        python.interpreter,
        *python.options,
        str(RUNNER),
        str(folder),
        tag,
        "--",
        *python.target,
        *python.args,
    ]


def files(folder: Path, capture: int) -> list[str]:
    """Those of the pass's files that exist."""
    names = [tagged(stem, suffix, capture) for stem, suffix in _FILES]
    return [name for name in names if (folder / name).is_file()]


def take_meta(folder: Path, capture: int) -> dict[str, Any]:
    """What the runner says about itself, read once; empty if it never came to that."""
    path = folder / tagged("torch_pass", ".json", capture)
    meta: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        meta = json.loads(path.read_text(encoding="utf-8"))
    for name in (path, *folder.glob("torch_*.tmp*")):
        with contextlib.suppress(OSError):
            name.unlink()
    return meta


def unseen(run: Run) -> frozenset[str]:
    """Names of ranges that closed before the program imported torch."""
    listed = [
        problem.get("ranges", "")
        for record in run.captures("torch")
        for problem in record.problems
        if problem.get("code") == BEFORE_TORCH
    ]
    return frozenset(name for names in listed for name in str(names).split("\n") if names)


def saving(folder: Path, capture: int) -> int | None:
    """How many events the pass is saving at this moment, as far as it has come to that."""
    try:
        return int((folder / tagged("torch_saving", ".tmp", capture)).read_text())
    except (OSError, ValueError):
        return None


def lost(record: PassRecord) -> bool:
    """Whether there was something to record, and no trace of it is left."""
    codes = {problem["code"] for problem in record.problems}
    saved = tagged("torch_trace", ".json.gz", record.capture) in record.files
    return not saved and bool(codes & {"no-end", "not-saved", "no-trace"})


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")


def problems(folder: Path, capture: int, meta: dict[str, Any]) -> list[dict[str, str]]:
    """Named reasons why the trace is missing or partial."""
    found = [dict(problem) for problem in meta.get("problems", [])]
    if cut := meta.get("open_at_import"):
        found.append(
            {
                "code": "open-at-import",
                "message": "ranges open when the program imported torch are in the torch pass from"
                f" there on: {_some(cut)}",
            }
        )
    lost = meta.get("before_torch") or {}
    if lost and meta.get("torch"):
        found.append(
            {
                "code": BEFORE_TORCH,
                "message": "ranges that closed before the program imported torch are not in the"
                f" torch pass: {_some(list(lost))}",
                "hint": "Import torch at the top of the program to see them in both.",
                "ranges": "\n".join(lost),
            }
        )
    if not meta:
        found.append(
            {
                "code": "no-end",
                "message": "the program ended without a chance to save the trace "
                "(killed by a signal, a crash outside Python, or a full disk)",
            }
        )
    elif not meta.get("problems") and files(folder, capture)[:1] != [
        tagged("torch_trace", ".json.gz", capture)
    ]:
        found.append({"code": "no-trace", "message": "torch.profiler left no trace"})
    return found
