# SPDX-License-Identifier: MIT
"""A small, scrubbed copy of a run folder with all its captures."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def _recordings() -> Any:
    """scripts/slim-recording as a module: what the readers need is listed there, once."""
    path = str(ROOT / "scripts" / "slim-recording")
    loader = importlib.machinery.SourceFileLoader("slim_recording", path)
    spec = importlib.util.spec_from_loader("slim_recording", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def slim(run: Path, out: Path, name: str) -> int:
    """Write ``out`` from the run folder ``run``, called ``name``; returns its size in bytes.

    It is written beside ``out`` and renamed, so that a folder that is there is whole.
    """
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    _recordings().slim(run, part, name=name)
    part.rename(out)
    return sum(file.stat().st_size for file in out.iterdir())
