# SPDX-License-Identifier: MIT
"""Facts of the machine that the figures depend on."""

from __future__ import annotations

import platform
from typing import Any

import torch

MIB = 1 << 20


def facts(device: torch.device) -> dict[str, Any]:
    """What a reader of the figures needs to know; sizes in bytes, None where there is none."""
    from torch.utils.cpp_extension import CUDA_HOME

    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cuda_home": CUDA_HOME,
        "cpu": _cpu_name(),
        "cpu_threads": torch.get_num_threads(),
        "device": str(device),
        "gpu": None,
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found |= {
            "gpu": properties.name,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "sm_count": properties.multi_processor_count,
            "l2_bytes": properties.L2_cache_size,
            "memory_bytes": properties.total_memory,
        }
    return found


def lines(found: dict[str, Any]) -> list[str]:
    """The facts as text, one ``key value`` a line."""
    rows = [
        ("torch", f"{found['torch']}, Python {found['python']}"),
        ("CUDA", found["cuda"] or "not in this build of torch"),
        ("CUDA_HOME", found["cuda_home"] or "none"),
        ("CPU", f"{found['cpu']}, {found['cpu_threads']} threads"),
    ]
    if found["gpu"]:
        rows += [
            ("GPU", f"{found['gpu']}, compute capability {found['compute_capability']}"),
            ("", f"{found['sm_count']} SMs, L2 {found['l2_bytes'] / MIB:.0f} MiB, "
                 f"memory {found['memory_bytes'] / MIB / 1024:.1f} GiB"),
        ]  # fmt: skip
    else:
        rows.append(("GPU", "not used"))
    return [f"{key:<10} {value}" for key, value in rows]


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


#: Tensors alive at once at the worst moment: inputs, one h for each spelling, eager temporaries.
TENSORS_ALIVE = 12


def default_shape(device: torch.device, itemsize: int) -> tuple[int, int]:
    """(rows, dim) whose tensors the caches cannot hold.

    On a GPU each tensor is at least 8 times the L2, so that the byte model is about DRAM, unless
    its free memory holds no dozen of them. On a CPU it is 16 MiB in fp32 with a small ``dim``, so
    that the gemm takes no minutes.
    """
    if device.type != "cuda":
        return 65536, 64
    l2 = torch.cuda.get_device_properties(device).L2_cache_size
    return fitting_shape(l2, torch.cuda.mem_get_info(device)[0], itemsize)


def fitting_shape(l2: int, free: int, itemsize: int, dim: int = 1024) -> tuple[int, int]:
    """The smallest power of two of rows with 8 x ``l2`` bytes, halved until ``free`` bytes do."""
    row = dim * itemsize
    rows = 1 << (-(-8 * l2 // row) - 1).bit_length()
    while rows > 1 and TENSORS_ALIVE * rows * row > free:
        rows //= 2
    return rows, dim
