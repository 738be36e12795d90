# SPDX-License-Identifier: MIT
"""What the tests of ``harness run`` share: real processes, real nsys."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.launch import nsys as nsight

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
    import sys, time
    import nvtx
    with nvtx.annotate("outer"):
        with nvtx.annotate("inner ü"):
            time.sleep(0.005)
    print("printed", *sys.argv[1:])
"""


def environment(**added: str) -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **added}


def harness(
    folder: Path, *args: str, env: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
    if options["stdin"] is None:
        del options["stdin"]
    return subprocess.run(
        [sys.executable, "-m", "harness", *args],
        cwd=folder,
        env=env or environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        **options,
    )


def program(folder: Path, code: str = PROGRAM, name: str = "prog.py") -> str:
    (folder / name).write_text(textwrap.dedent(code))
    return name


def find_nsys() -> nsight.Nsys:
    try:
        return nsight.find(None, os.environ)
    except Exception:
        pytest.skip(
            "nsys is not installed (scripts/install-nsys): the real round trip is NOT tested"
        )


def ranges_of(export: Path) -> set[str]:
    with closing(sqlite3.connect(export)) as db:
        rows = db.execute(
            "SELECT coalesce(s.value, n.text) FROM NVTX_EVENTS n LEFT JOIN StringIds s "
            "ON s.id = n.textId WHERE n.eventType IN (59, 60)"
        )
        return {row[0] for row in rows}


def strings(path: Path) -> bytes:
    return path.read_bytes()


# Without nsys.
