# SPDX-License-Identifier: MIT
"""A small, scrubbed copy of a run folder with all its captures."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from harness.launch.share import share  # noqa: E402  (the checkout comes first)


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
    recordings = _recordings()
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        shared = share(run, Path(scratch) / "copy").folder
        for report in sorted(shared.glob("*.sqlite")):
            recordings.slim_report(report, part / report.name, 0)
        if (shared / "torch_trace.json.gz").is_file():
            recordings.slim_trace(shared / "torch_trace.json.gz", part, 0)
        text = _facts(json.loads((shared / "run.json").read_text()), part, name)
    (part / "run.json").write_text(text)
    part.rename(out)
    return sum(file.stat().st_size for file in out.iterdir())


def _facts(run: dict[str, Any], part: Path, name: str) -> str:
    run["name"] = name
    run["host"].pop("kernel", None)
    states = [g for p in run["passes"] for key in ("gpu_before", "gpu_after") for g in p[key]]
    for gpu in [*run["gpu"], *states]:
        gpu.pop("uuid", None)
    kept = {file.name for file in part.iterdir()}
    for one in run["passes"]:
        one["files"] = [file for file in one["files"] if file in kept]
    return json.dumps(run, indent=1) + "\n"
