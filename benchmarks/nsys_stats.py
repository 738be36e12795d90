# SPDX-License-Identifier: MIT
"""The installed `nsys stats`, as commands to time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from glob import glob
from pathlib import Path

#: 2022.4 says nvtxkernsum, later ones nvtx_kern_sum. Its nvtxgpuproj is left out: it lists every
#: range and had not ended after 8 minutes on a report of 30 MB.
REPORTS = ("nvtxkernsum", "nvtx_kern_sum", "nvtx_gpu_proj_sum")


def find() -> list[Path]:
    """HARNESS_NSYS, the one on PATH, and those under /opt; each once."""
    candidates = [os.environ.get("HARNESS_NSYS"), shutil.which("nsys")]
    candidates += sorted(glob("/opt/nvidia/nsight-systems/*/bin/nsys")) + sorted(
        glob("/opt/nsys-*/bin/nsys")
    )
    found: dict[Path, Path] = {}
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            found.setdefault(Path(candidate).resolve(), Path(candidate))
    return list(found.values())


def _says(binary: Path, *arguments: str) -> str:
    done = subprocess.run([binary, *arguments], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def version(binary: Path) -> str:
    match = re.search(r"version (\d+\.\d+)", _says(binary, "--version"))
    return match.group(1) if match else "?"


def commands(binary: Path, report: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    """(nsys version, report's name there, command) for the two NVTX reports it can print."""
    known = re.findall(r"^\s+(\w+)", _says(binary, "stats", "--help-reports"), flags=re.MULTILINE)
    number = version(binary)
    out: list[tuple[str, str, tuple[str, ...]]] = []
    for name in REPORTS:
        if name in known:
            argv = (str(binary), "stats", "-r", name, "--format", "csv", str(report))
            out.append((number, name, argv))
    return out
