# SPDX-License-Identifier: MIT
"""What the checks are given and what they say."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

OK, NOTE, WARNING, PROBLEM = "ok", "note", "warning", "problem"
LEVELS = (OK, NOTE, WARNING, PROBLEM)


@dataclass(frozen=True)
class Finding:
    """One check's answer; ``code`` is stable, ``evidence`` what was seen, ``fix`` what to do."""

    code: str
    level: str
    message: str
    evidence: str = ""
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Machine:
    """Facts of this machine, as ``harness.launch.survey`` gathers them."""

    nsys_path: str | None = None
    nsys_version: str | None = None
    nsys_tried: str = ""
    nsys_hint: str = ""
    importer_problem: tuple[str, str] | None = None
    gpus: list[dict[str, Any]] = field(default_factory=list)
    driver_cuda: str | None = None
    driver_loaded: bool = False
    python: str | None = None
    interpreter: str = ""
    torch: str | None = None
    torch_cuda: str | None = None
    torch_hip: str | None = None
    nvtx: str | None = None
    nvcc: str | None = None
    nvcc_version: str | None = None
    compiler: str | None = None
    ninja: str | None = None
    perf_event_paranoid: int | None = None
    free_bytes: dict[str, int] = field(default_factory=dict)  # folder -> free
    writable: dict[str, bool] = field(default_factory=dict)
    under_nsys: bool = False
    probe: dict[str, Any] | None = None  # {ranges, kernels, launches, problem} of a real capture
