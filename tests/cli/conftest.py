# SPDX-License-Identifier: MIT
"""Fixtures of the command-line tests."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.cli import main

DATA = Path(__file__).parents[1] / "data" / "h200"


@pytest.fixture
def report(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., tuple[int, str, str]]:
    """Runs ``harness report ARGS`` and returns exit code, stdout, stderr."""

    def call(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["report", *map(str, args)])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return int(stop.value.code or 0), out.decode(), err.decode()

    return call


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """The train scenario as a run folder: both recordings, and a ``run.json``."""
    folder = tmp_path / "train"
    folder.mkdir()
    shutil.copy(DATA / "train.sqlite", folder / "report.sqlite")
    shutil.copy(DATA / "train.trace.json.gz", folder / "torch_trace.json.gz")
    passes = [
        {"name": name, "argv": [], "exit_code": 0, "duration_s": seconds, "log": f"{name}.log"}
        for name, seconds in (("plain", 8.0), ("torch", 10.0), ("nsys", 12.0))
    ]
    run = {
        "schema": "harness.run/1",
        "name": "train",
        "complete": True,
        "argv": ["python", "train.py"],
        "created": "2026-01-02T03:04:05+00:00",
        "gpu": [{"name": "NVIDIA H200", "driver": "580.95.05"}],
        "versions": {"torch": "2.11.0", "cuda": "13.0"},
        "passes": passes,
        "workload": None,
    }
    (folder / "run.json").write_text(json.dumps(run))
    operators = [
        {"name": "aten::mm", "input_shapes": None, "count": 3, "self_device_ns": 700,
         "device_ns": 700, "self_cpu_ns": 40, "cpu_ns": 60, "device": "cpu", "annotation": False},
        {"name": "aten::add", "input_shapes": None, "count": 2, "self_device_ns": 900,
         "device_ns": 900, "self_cpu_ns": 20, "cpu_ns": 20},
    ]  # fmt: skip
    (folder / "torch_ops.json").write_text(json.dumps(operators))
    by_shape = [
        dict(operators[1], input_shapes=shape, count=1, self_device_ns=450)
        for shape in ("[[8, 4], [8, 4]]", "[[2], [2]]")
    ]
    (folder / "torch_ops_by_shape.json").write_text(json.dumps(by_shape))
    return folder
