# SPDX-License-Identifier: MIT
"""Which captures of a run count: those that were recorded and whose program ended well."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.trace import Warning_

if TYPE_CHECKING:
    from harness.launch.rundir import Run

_TORCH = "torch_trace"


@dataclass(frozen=True)
class Kept:
    """``files`` to compare, of ``asked`` captures; ``run`` is the run.json without the passes of
    those left out, and ``notes`` say which these are."""

    files: tuple[Path, ...]
    asked: int
    run: Mapping[str, Any]
    notes: tuple[Warning_, ...] = ()


def keep(run: Run, files: Sequence[Path]) -> Kept:
    """The captures of ``files``, less those whose program failed where it did not in others: a
    failed program did not do its work. Where it always fails, that is how it is."""
    kind = "torch" if files and files[0].name.startswith(_TORCH) else "nsys"
    passes = run.captures(kind)
    asked = run.options.get("repeat")
    number = max(len(passes), len(files), asked if isinstance(asked, int) else 0)
    failed = {record.capture: record.exit_code for record in passes if record.exit_code}
    ended = {record.capture for record in passes} - failed.keys()
    left_out = [f for f in files if ended and capture_number(f) in failed]
    kept = tuple(file for file in files if file not in left_out)
    stored = run.as_dict()
    if not left_out or not kept:
        return Kept(tuple(files), number, stored)
    gone = {capture_number(file) for file in left_out}
    stored["passes"] = [
        record
        for record in stored["passes"]
        if record["name"] != kind or record["capture"] not in gone
    ]
    notes = tuple(
        Warning_(
            "failed-capture",
            f"{run.name}: capture {n} is left out: the program exited {failed[n]} in it",
        )
        for n in sorted(gone)
    )
    return Kept(kept, number, stored, notes)


def capture_number(file: Path) -> int:
    """``report.2.sqlite`` is capture 2, ``report.sqlite`` capture 1."""
    found = re.fullmatch(r"[^.]+\.(\d+)\..+", file.name)
    return int(found[1]) if found else 1
