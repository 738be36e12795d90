# SPDX-License-Identifier: MIT
"""Checks of this machine."""

from __future__ import annotations

from collections.abc import Callable

from harness.doctor.findings import NOTE, OK, PROBLEM, WARNING, Finding, Machine
from harness.doctor.traps import newest_cuda, nsys_older_than_cuda, nvtx_records_nothing

GIB = 1 << 30


def nsys_found(machine: Machine) -> Finding:
    if machine.nsys_path is None:
        return Finding(
            "nsys",
            WARNING,
            "nsys was not found: only the plain and torch passes can run",
            machine.nsys_tried,
            machine.nsys_hint,
        )
    return Finding("nsys", OK, f"nsys {machine.nsys_version}", machine.nsys_path)


def nsys_importer(machine: Machine) -> Finding | None:
    """Without its importer nsys leaves a .qdstrm and exits 0."""
    if machine.nsys_path is None:
        return None
    if machine.importer_problem is None:
        return Finding("nsys-importer", OK, "nsys has its importer")
    what, fix = machine.importer_problem
    return Finding(
        "nsys-importer", PROBLEM, what, "nsys would leave only a .qdstrm and exit 0", fix
    )


def nsys_and_driver(machine: Machine) -> Finding | None:
    if machine.nsys_version is None or machine.driver_cuda is None:
        return None
    known = ".".join(map(str, newest_cuda(machine.nsys_version)))
    evidence = (
        f"nsys {machine.nsys_version} knows CUDA {known}, the driver is CUDA {machine.driver_cuda}"
    )
    if nsys_older_than_cuda(machine.nsys_version, machine.driver_cuda):
        return Finding(
            "nsys-old",
            PROBLEM,
            "nsys is older than the driver's CUDA: it loses kernels and says little",
            evidence,
            "Install a newer Nsight Systems (NVIDIA's package nsight-systems).",
        )
    return Finding("nsys-old", OK, "nsys knows the driver's CUDA", evidence)


def nvtx_and_nsys(machine: Machine) -> Finding | None:
    """The nvtx package from 0.2.12 on records no range under nsys before 2025."""
    if machine.nvtx is None:
        return Finding(
            "nvtx",
            NOTE if machine.torch_cuda else WARNING,
            "the nvtx package is not installed",
            "harness.range uses torch's NVTX"
            if machine.torch_cuda
            else "this torch has no NVTX either",
            "pip install nvtx",
        )
    if not nvtx_records_nothing(machine.nvtx, machine.nsys_version):
        return Finding("nvtx", OK, f"nvtx {machine.nvtx}")
    return Finding(
        "nvtx",
        WARNING if machine.torch_cuda else PROBLEM,
        f"nvtx {machine.nvtx} records no ranges under nsys {machine.nsys_version}",
        "it asks nvtxDomainIsEnabled, which nsys before 2025 does not answer"
        + ("; torch's own NVTX ranges are recorded" if machine.torch_cuda else ""),
        'pip install "nvtx<0.2.12", or a newer nsys; harness doctor --probe tries it',
    )


def gpu(machine: Machine) -> Finding:
    if machine.gpus:
        first = machine.gpus[0]
        cuda = f", CUDA {machine.driver_cuda}" if machine.driver_cuda else ""
        names = ", ".join(str(found.get("name")) for found in machine.gpus)
        return Finding("gpu", OK, f"{names}, driver {first.get('driver')}{cuda}")
    if machine.driver_loaded:
        return Finding(
            "gpu",
            WARNING,
            "an NVIDIA driver is loaded and nvidia-smi shows no GPU",
            "",
            "In a container: start it with --gpus all (NVIDIA container toolkit).",
        )
    return Finding("gpu", NOTE, "no NVIDIA GPU: programs are profiled on the CPU")


def torch_build(machine: Machine) -> Finding:
    if machine.torch is None:
        return Finding(
            "torch",
            WARNING,
            "torch is not installed: no torch pass, and no bundled workload",
            machine.interpreter,
            'pip install "nsys-harness[record]"',
        )
    if machine.torch_cuda is None and machine.torch_hip is None:
        level = WARNING if machine.gpus else NOTE
        fix = "Install a CUDA build of torch." if machine.gpus else ""
        return Finding(
            "torch",
            level,
            f"torch {machine.torch} is a CPU build",
            "it has no torch.cuda.nvtx",
            fix,
        )
    return Finding("torch", OK, f"torch {machine.torch}, CUDA {machine.torch_cuda}")


def torch_and_driver(machine: Machine) -> Finding | None:
    """A CUDA build needs a driver of its major version at least."""
    from harness.doctor.traps import numbers

    if not machine.torch_cuda or not machine.driver_cuda:
        return None
    if numbers(machine.torch_cuda)[:1] <= numbers(machine.driver_cuda)[:1]:
        return None
    return Finding(
        "driver",
        PROBLEM,
        "the driver is too old for this torch",
        f"torch wants CUDA {machine.torch_cuda}, the driver has {machine.driver_cuda}",
        "Update the driver, or install torch for an older CUDA.",
    )


def build_tools(machine: Machine) -> Finding:
    if machine.nvcc is not None:
        return Finding("nvcc", OK, f"nvcc {machine.nvcc_version or ''}".strip(), machine.nvcc)
    if machine.compiler is None:
        return Finding(
            "nvcc",
            WARNING,
            "neither nvcc nor a C++ compiler: fused_chain.cu cannot be built",
            "",
            "Debian, Ubuntu: apt-get install g++; with a GPU the CUDA toolkit too.",
        )
    if machine.gpus:
        return Finding(
            "nvcc",
            WARNING,
            "nvcc was not found: fused_chain.cu builds for the CPU only",
            "looked in CUDA_HOME, PATH and /usr/local/cuda",
            "Install the CUDA toolkit.",
        )
    return Finding(
        "nvcc", NOTE, "no nvcc: fused_chain.cu builds as C++ for the CPU", machine.compiler
    )


def ninja(machine: Machine) -> Finding | None:
    if machine.ninja is not None or machine.torch is None:
        return None
    return Finding(
        "ninja", WARNING, "ninja was not found: extensions cannot be built", "", "pip install ninja"
    )


def perf_event_paranoid(machine: Machine) -> Finding | None:
    value = machine.perf_event_paranoid
    if value is None or value <= 2:
        return None
    return Finding(
        "perf-events",
        NOTE,
        f"kernel.perf_event_paranoid is {value}: no CPU sampling",
        "harness run switches sampling off, so nothing is lost",
        "Only for --nsys-arg=--sample=…: sysctl kernel.perf_event_paranoid=2",
    )


def disk(machine: Machine) -> Finding:
    locked = [folder for folder, yes in machine.writable.items() if not yes]
    if locked:
        return Finding(
            "disk",
            PROBLEM,
            f"cannot write to {', '.join(locked)}",
            "",
            "nsys and harness write there: mend it, or set TMPDIR and -o.",
        )
    low = {folder: free for folder, free in machine.free_bytes.items() if free < GIB}
    if low:
        shown = ", ".join(f"{folder}: {free / GIB:.2f} GiB" for folder, free in low.items())
        return Finding(
            "disk",
            WARNING,
            "little disk space",
            shown,
            "Reports of long programs take gigabytes, first in TMPDIR.",
        )
    return Finding("disk", OK, "disk space and permissions")


def nested(machine: Machine) -> Finding | None:
    """CUPTI serves one subscriber."""
    if not machine.under_nsys:
        return None
    return Finding(
        "nested",
        PROBLEM,
        "this shell itself runs under nsys: a second profiler records no kernels",
        "NSYS_PROFILING_SESSION_ID is set",
        "Run harness outside nsys.",
    )


def probe(machine: Machine) -> Finding | None:
    """What a real capture of one range, and one kernel where there is a GPU, brought."""
    result = machine.probe
    if result is None:
        return None
    if result.get("problem"):
        return Finding("probe", PROBLEM, "the trial capture failed", str(result["problem"]))
    evidence = ", ".join(
        f"{result[key]} {key}" for key in ("ranges", "kernels") if result.get(key) is not None
    )
    if not result["ranges"]:
        return Finding(
            "probe",
            PROBLEM,
            "the trial capture has no range",
            evidence,
            'pip install "nvtx<0.2.12", or a newer nsys',
        )
    if result.get("kernels") == 0:
        return Finding(
            "probe",
            PROBLEM,
            "the trial capture has no kernel",
            evidence,
            "Install an nsys that knows the driver's CUDA.",
        )
    return Finding("probe", OK, "the trial capture has what it should", evidence)


CHECKS: tuple[Callable[[Machine], Finding | None], ...] = (
    nsys_found,
    nsys_importer,
    nsys_and_driver,
    gpu,
    torch_build,
    torch_and_driver,
    nvtx_and_nsys,
    build_tools,
    ninja,
    disk,
    perf_event_paranoid,
    nested,
    probe,
)


def check_machine(machine: Machine) -> list[Finding]:
    """Every check's finding, in the order of CHECKS."""
    return [found for check in CHECKS if (found := check(machine)) is not None]
