# SPDX-License-Identifier: MIT
"""Facts of the machine and of the program's interpreter, stored with every run.

Never the value of an environment variable.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: Key in run.json -> nvidia-smi's field. The first four are asked of every version.
GPU_FIELDS = {
    "index": "index",
    "name": "name",
    "uuid": "uuid",
    "driver": "driver_version",
    "memory_mib": "memory.total",
    "clock_sm_mhz": "clocks.sm",
    "clock_mem_mhz": "clocks.mem",
    "clock_sm_max_mhz": "clocks.max.sm",
    "clock_mem_max_mhz": "clocks.max.mem",
    "power_w": "power.draw",
    "power_limit_w": "power.limit",
    "temperature_c": "temperature.gpu",
    "performance_state": "pstate",
    "throttle_reasons": "clocks_throttle_reasons.active",
    "compute_capability": "compute_cap",
    "mig": "mig.mode.current",
}
STATE_KEYS = (
    "uuid",
    "clock_sm_mhz",
    "clock_mem_mhz",
    "power_w",
    "temperature_c",
    "performance_state",
    "throttle_reasons",
)
_TEXT = {
    "name",
    "uuid",
    "driver",
    "performance_state",
    "throttle_reasons",
    "compute_capability",
    "mig",
}


def run_quietly(argv: Sequence[str], *, timeout: float = 30, **options: Any) -> str | None:
    """Standard output of a command that succeeded, else None."""
    try:
        done = subprocess.run(
            list(argv),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            **options,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def query_gpus() -> list[dict[str, Any]]:
    """One dict a GPU, from nvidia-smi; empty without a driver. Unknown values are None."""
    if shutil.which("nvidia-smi") is None:
        return []
    for names in (list(GPU_FIELDS), list(GPU_FIELDS)[:5]):
        fields = ",".join(GPU_FIELDS[name] for name in names)
        text = run_quietly(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"])
        if text is not None:
            return parse_gpus(text, names)
    return []


def parse_gpus(text: str, names: Sequence[str]) -> list[dict[str, Any]]:
    rows = csv.reader(io.StringIO(text), skipinitialspace=True)
    return [
        {name: _value(name, cell.strip()) for name, cell in zip(names, row, strict=False)}
        for row in rows
        if row
    ]


def _value(name: str, cell: str) -> Any:
    if cell.strip("[]") in {"N/A", "Not Supported", "Unknown Error", ""}:
        return None
    if name in _TEXT:
        return cell
    with contextlib.suppress(ValueError):
        number = float(cell)
        return int(number) if number.is_integer() else number
    return cell


def gpu_state(gpus: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What changes while a program runs: clocks, power, temperature."""
    return [{key: gpu.get(key) for key in STATE_KEYS} for gpu in gpus]


def host() -> dict[str, Any]:
    return {
        "name": platform.node(),
        "os": _os_name(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def _os_name() -> str:
    with contextlib.suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return platform.system()


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def git(folder: Path) -> dict[str, Any]:
    """{commit, dirty} of the checkout around ``folder``, or {}."""
    commit = run_quietly(["git", "-C", str(folder), "rev-parse", "HEAD"])
    if not commit:
        return {}
    status = run_quietly(["git", "-C", str(folder), "status", "--porcelain", "-uno"])
    return {"commit": commit.strip(), "dirty": bool(status and status.strip())}


# Asked of the program's interpreter without importing torch, which takes seconds: find_spec of a
# top-level package imports nothing, and torch/version.py is a file of constants.
_ASK = r"""
import importlib.metadata as md, importlib.util as u, json, os, platform, sys
found = {"python": platform.python_version(), "executable": sys.executable}
for name in ("torch", "nvtx"):
    try: found[name] = md.version(name)
    except Exception: found[name] = None
try: spec = u.find_spec("torch")
except Exception: spec = None
if spec is not None and spec.origin:
    constants = {}
    root = os.path.dirname(spec.origin)
    try:
        exec(open(os.path.join(root, "version.py")).read(), constants)
        found["torch"] = str(constants.get("__version__") or found["torch"])
        found["cuda"] = constants.get("cuda")
        found["hip"] = constants.get("hip")
    except Exception: pass
print(json.dumps(found))
"""


def interpreter(path: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """{python, executable, torch, cuda, nvtx} of an interpreter; {} if it does not answer."""
    options: dict[str, Any] = {} if env is None else {"env": dict(env)}
    text = run_quietly([path, "-c", _ASK], **options)
    if not text:
        return {}
    with contextlib.suppress(ValueError):
        answer = json.loads(text.strip().splitlines()[-1])
        if isinstance(answer, dict):
            return answer
    return {}


def driver_cuda() -> str | None:
    """The newest CUDA that the installed driver supports, "13.0", from nvidia-smi's banner."""
    text = run_quietly(["nvidia-smi"])
    if text is None or "CUDA Version:" not in text:
        return None
    return text.partition("CUDA Version:")[2].split()[0].strip("|")
