# SPDX-License-Identifier: MIT
"""Each trap of a machine, with the versions it was seen with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.doctor import Machine, check_machine
from harness.doctor.traps import newest_cuda, nsys_older_than_cuda, nvtx_records_nothing

HEALTHY = Machine(
    nsys_path="/opt/nsys",
    nsys_version="2025.3.1",
    gpus=[{"name": "H200", "driver": "580.1"}],
    driver_cuda="13.0",
    torch="2.11.0",
    torch_cuda="13.0",
    nvtx="0.2.16",
    nvcc="/usr/local/cuda/bin/nvcc",
    ninja="/usr/bin/ninja",
    perf_event_paranoid=2,
    free_bytes={"/tmp": 1 << 40},
    writable={"/tmp": True},
)


def levels(machine: Machine) -> dict[str, str]:
    return {found.code: found.level for found in check_machine(machine)}


def test_a_healthy_machine_has_nothing_but_ok() -> None:
    assert set(levels(HEALTHY).values()) == {"ok"}


@pytest.mark.parametrize(
    ("nvtx", "nsys", "lost"),
    [  # as seen
        ("0.2.11", "2022.4.2.1", False),
        ("0.2.10", "2023.4.4.54", False),
        ("0.2.12", "2022.4.2.1", True),
        ("0.2.16", "2023.4.4.54", True),
        ("0.2.12", "2024.2.1", True),
        ("0.2.16", "2025.3.1", False),
        (None, "2022.4", False),
        ("0.2.16", None, False),
    ],
)
def test_nvtx_and_nsys(nvtx: str | None, nsys: str | None, lost: bool) -> None:
    assert nvtx_records_nothing(nvtx, nsys) is lost


@pytest.mark.parametrize(
    ("nsys", "cuda", "old"),
    [("2023.4.4", "13.0", True), ("2025.3.1", "13.0", False), ("2022.4.2", "12.9", False)],
)
def test_nsys_older_than_the_driver(nsys: str, cuda: str, old: bool) -> None:
    assert nsys_older_than_cuda(nsys, cuda) is old


def test_newest_cuda_never_goes_back_with_newer_nsys() -> None:
    releases = [
        "2021.2",
        "2022.4",
        "2023.1",
        "2023.4",
        "2024.2",
        "2024.6",
        "2025.1",
        "2025.3",
        "2026.2",
    ]
    known = [newest_cuda(release) for release in releases]
    assert known == sorted(known)


@pytest.mark.parametrize(
    ("change", "code", "level"),
    [
        ({"nsys_path": None, "nsys_version": None}, "nsys", "warning"),
        ({"importer_problem": ("no importer", "link it")}, "nsys-importer", "problem"),
        ({"nsys_version": "2023.4.4"}, "nsys-old", "problem"),
        ({"nsys_version": "2023.4.4"}, "nvtx", "warning"),
        ({"nsys_version": "2023.4.4", "torch_cuda": None}, "nvtx", "problem"),
        ({"nvtx": None}, "nvtx", "note"),
        ({"nvtx": None, "torch_cuda": None}, "nvtx", "warning"),
        ({"gpus": [], "driver_loaded": True}, "gpu", "warning"),
        ({"gpus": []}, "gpu", "note"),
        ({"torch": None}, "torch", "warning"),
        ({"torch_cuda": None}, "torch", "warning"),
        ({"torch_cuda": None, "gpus": []}, "torch", "note"),
        ({"driver_cuda": "12.4"}, "driver", "problem"),
        ({"nvcc": None, "compiler": "/usr/bin/c++"}, "nvcc", "warning"),
        ({"nvcc": None}, "nvcc", "warning"),
        ({"ninja": None}, "ninja", "warning"),
        ({"perf_event_paranoid": 4}, "perf-events", "note"),
        ({"free_bytes": {"/tmp": 1000}}, "disk", "warning"),
        ({"writable": {"/tmp": False}}, "disk", "problem"),
        ({"under_nsys": True}, "nested", "problem"),
        ({"probe": {"problem": "x"}}, "probe", "problem"),
        ({"probe": {"ranges": 0, "kernels": None}}, "probe", "problem"),
        ({"probe": {"ranges": 1, "kernels": 0}}, "probe", "problem"),
        ({"probe": {"ranges": 1, "kernels": None}}, "probe", "ok"),
    ],
)
def test_each_trap(change: dict[str, object], code: str, level: str) -> None:
    found = levels(replace(HEALTHY, **change))  # type: ignore[arg-type]
    assert found[code] == level


def test_everything_but_ok_says_what_to_do_or_why_it_is_no_matter() -> None:
    for change in ({"nsys_version": "2023.4.4"}, {"ninja": None}, {"writable": {"/x": False}}):
        for finding in check_machine(replace(HEALTHY, **change)):  # type: ignore[arg-type]
            assert finding.level == "ok" or finding.fix
