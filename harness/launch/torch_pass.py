# SPDX-License-Identifier: MIT
"""The torch pass: a Python program under torch.profiler, by way of ``torch_runner.py``."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from harness.launch.pycommand import PythonCommand
from harness.launch.rundir import tagged

RUNNER = Path(__file__).with_name("torch_runner.py")
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
    for name in (path, *folder.glob("torch_*.tmp")):
        with contextlib.suppress(OSError):
            name.unlink()
    return meta


def problems(folder: Path, capture: int, meta: dict[str, Any]) -> list[dict[str, str]]:
    """Named reasons why the trace is missing or partial."""
    found = [dict(problem) for problem in meta.get("problems", [])]
    if not meta:
        found.append(
            {
                "code": "no-end",
                "message": "the program ended without a chance to save the trace "
                "(killed by a signal, or a crash outside Python)",
            }
        )
    elif not found and not (folder / tagged("torch_trace", ".json.gz", capture)).is_file():
        found.append({"code": "no-trace", "message": "torch.profiler left no trace"})
    return found
