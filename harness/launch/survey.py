# SPDX-License-Identifier: MIT
"""Gathering the facts of this machine for ``harness doctor``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.doctor.findings import Machine
from harness.errors import HarnessError, ToolMissing
from harness.launch import facts
from harness.launch import nsys as nsight
from harness.readers import inspect_report


def survey(
    nsys_path: str | None, environ: Mapping[str, str], reports: Path, with_probe: bool
) -> Machine:
    """Everything the checks need; runs nothing of the user's."""
    found: dict[str, Any] = {}
    nsys: nsight.Nsys | None = None
    try:
        nsys = nsight.find(nsys_path, environ)
        found.update(nsys_path=nsys.path, nsys_version=nsys.version)
        found["importer_problem"] = nsight.importer_problem(nsight.find_importer(nsys.path))
    except ToolMissing as missing:
        found.update(nsys_tried=missing.message, nsys_hint=missing.hint)
    answer = facts.interpreter(sys.executable, environ)
    gpus = facts.query_gpus()
    nvcc = find_nvcc(environ)
    folders = {str(_existing(folder)) for folder in (reports, Path(tempfile.gettempdir()))}
    return Machine(
        **found,
        gpus=gpus,
        driver_cuda=facts.driver_cuda() if gpus else None,
        driver_loaded=Path("/proc/driver/nvidia/version").exists(),
        python=answer.get("python"),
        interpreter=sys.executable,
        torch=answer.get("torch"),
        torch_cuda=answer.get("cuda"),
        torch_hip=answer.get("hip"),
        nvtx=answer.get("nvtx"),
        nvcc=nvcc,
        nvcc_version=_nvcc_version(nvcc),
        compiler=shutil.which(environ.get("CXX") or "c++") or shutil.which("g++"),
        ninja=shutil.which("ninja") or _beside_python("ninja"),
        perf_event_paranoid=_integer(Path("/proc/sys/kernel/perf_event_paranoid")),
        free_bytes={folder: shutil.disk_usage(folder).free for folder in folders},
        writable={folder: os.access(folder, os.W_OK) for folder in folders},
        under_nsys="NSYS_PROFILING_SESSION_ID" in environ,
        probe=probe(nsys, answer, bool(gpus)) if with_probe and nsys is not None else None,
    )


def find_nvcc(environ: Mapping[str, str]) -> str | None:
    """nvcc as torch's extension builder looks for it: CUDA_HOME, PATH, /usr/local/cuda."""
    for home in (environ.get("CUDA_HOME"), environ.get("CUDA_PATH")):
        if home and os.access(Path(home) / "bin" / "nvcc", os.X_OK):
            return str(Path(home) / "bin" / "nvcc")
    usual = "/usr/local/cuda/bin/nvcc"
    return shutil.which("nvcc", path=environ.get("PATH")) or (
        usual if os.access(usual, os.X_OK) else None
    )


def _nvcc_version(nvcc: str | None) -> str | None:
    text = facts.run_quietly([nvcc, "--version"]) if nvcc else None
    match = re.search(r"release (\d+\.\d+)", text or "")
    return match[1] if match else None


def _beside_python(name: str) -> str | None:
    path = Path(sys.executable).with_name(name)
    return str(path) if path.exists() else None


def _integer(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    folder = folder.absolute()
    while not folder.is_dir():
        folder = folder.parent
    return folder


_RANGE = "import nvtx\nwith nvtx.annotate('harness-probe'): pass\n"
_KERNEL = (
    "import torch\n"
    "torch.cuda.nvtx.range_push('harness-probe-torch')\n"
    "torch.ones(8, device='cuda').add_(1); torch.cuda.synchronize()\n"
    "torch.cuda.nvtx.range_pop()\n"
)


def probe(nsys: nsight.Nsys, answer: Mapping[str, Any], gpu: bool) -> dict[str, Any]:
    """Record one range, and one kernel where there is a GPU, and count what arrived."""
    kernel = gpu and bool(answer.get("cuda"))
    code = (_RANGE if answer.get("nvtx") else "") + (_KERNEL if kernel else "")
    if not code:
        return {"problem": "neither the nvtx package nor a CUDA build of torch is installed"}
    with tempfile.TemporaryDirectory(prefix="harness-probe-") as name:
        folder = Path(name)
        program = folder / "probe.py"
        program.write_text(code)
        line = nsight.profile_command(nsys.path, folder / "probe", [sys.executable, str(program)])
        log = _run(line)
        if nsight.never_started(folder, "probe", log):
            log = _run(line)
        left = nsight.judge_recording(
            folder, "probe", log, nsight.find_importer(nsys.path), extra=()
        )
        if left.code != "report":
            return {"problem": left.message}
        export = folder / "probe.sqlite"
        _run(nsight.export_command(nsys.path, folder / "probe.nsys-rep", export))
        try:
            found = inspect_report.report_facts(export, lambda _name, _value: False)
        except HarnessError as error:
            return {"problem": error.message}
    return {"ranges": found.ranges, "kernels": found.kernels if kernel else None}


def _run(argv: list[str]) -> str:
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=180, check=False)
        return done.stdout + done.stderr
    return ""
