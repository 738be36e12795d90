# SPDX-License-Identifier: MIT
"""What an nsys export says about itself: versions, GPUs, and how the capture was made.

Nothing here carries a value of the program's environment, a path or a host's name.
"""

from __future__ import annotations

from typing import Any

from harness.readers import nsys_schema
from harness.readers.columns import Database
from harness.trace import Source

#: Name in TARGET_INFO_SYSTEM_ENV -> key in ``Source.facts``.
_SYSTEM = {
    "NvDriverVersion": "driver",
    "CudaDriverVersion": "cuda_driver",
    "OsDescription": "os",
    "CpuDescription": "cpu",
}
#: Column of TARGET_INFO_GPU -> key of a GPU.
_GPU = {
    "id": "id",
    "cuDevice": "device",  # the ordinal in kernel rows; on some hosts the reverse of id
    "name": "name",
    "uuid": "uuid",
    "busLocation": "bus",
    "totalMemory": "memory",
    "smCount": "sm_count",
    "l2CacheSize": "l2_cache",
}
#: What is looked up by, or printed; the rest is handed on as it is.
_GPU_KINDS = {"id": "i", "cuDevice": "i", "name": "t", "uuid": "t", "busLocation": "t"}
#: Setting in META_DATA_CAPTURE -> key in ``Source.facts``.
_CAPTURE = {
    "CUDA_GRAPH_TRACE_OPTIONS:MODE": "graph_trace",
    "COLLECT_NVTX_TRACE": "collects_nvtx",
    "COLLECT_CUDA_TRACE": "collects_cuda",
}


def read_source(db: Database) -> Source:
    """Producer, versions, GPUs and settings, as far as the export has them."""
    meta = _pairs(db, "EXPORT_META_DATA") | _pairs(db, "META_DATA_EXPORT")
    facts: dict[str, Any] = {}
    if schema := meta.get("EXPORT_SCHEMA_VERSION"):
        facts["schema"] = schema
    system = _pairs(db, "TARGET_INFO_SYSTEM_ENV")
    facts |= {key: system[name] for name, key in _SYSTEM.items() if system.get(name)}
    if "cuda_driver" in facts:
        facts["cuda_driver"] = _cuda_version(facts["cuda_driver"])
    if gpus := _gpus(db, facts.get("driver")):
        facts["gpus"] = gpus
    if gpu_of := _gpu_of(db):
        facts["gpu_of"] = gpu_of
    if (began := _session_start(db)) is not None:
        facts["base_time_ns"] = began
    duration = nsys_schema.capture_end(db)
    if duration is not None:
        facts["duration_ns"] = duration
    capture = _pairs(db, "META_DATA_CAPTURE")
    for name, value in capture.items():
        # PROCESS_0:COLLECT_NVTX_TRACE, one for each launched process.
        setting = name.partition(":")[2] if name.startswith("PROCESS_") else name
        if setting in _CAPTURE and value:
            facts.setdefault(_CAPTURE[setting], value.lower())
    facts["environment_recorded"] = "DeviceEnvironment" in system or any(
        "ENVIRONMENT_VARIABLE" in name for name in capture
    )
    return Source(
        path=str(db.path),
        kind="nsys",
        producer=meta.get("EXPORT_PRODUCT_NAME") or "NVIDIA Nsight Systems",
        version=meta.get("EXPORT_PRODUCT_VERSION", ""),
        facts=facts,
    )


def _pairs(db: Database, table: str) -> dict[str, str]:
    """A table of names and values. EXPORT_META_DATA (2022) became META_DATA_EXPORT; 2021 has
    neither."""
    if not db.has(table, "name", "value"):
        return {}
    return {
        str(name): value or "" for name, value in db.rows(f"SELECT name, value FROM {table}", "tt")
    }


def _session_start(db: Database) -> int | None:
    """ns since 1970 at the recording's time 0, as torch traces have it; 2021.2 lacks it."""
    table, column = "TARGET_INFO_SESSION_START_TIME", "utcEpochNs"
    if not db.has(table, column):
        return None
    found = db.rows(f"SELECT {column} FROM {table}", "-")
    return found[0][0] if found and isinstance(found[0][0], int) else None


def _gpus(db: Database, driver: str | None) -> list[dict[str, Any]]:
    table = "TARGET_INFO_GPU"
    wanted = {column: key for column, key in _GPU.items() if db.has(table, column)}
    if "name" not in wanted:
        return []
    have_capability = db.has(table, "computeMajor", "computeMinor")
    extra = ["computeMajor", "computeMinor"] if have_capability else []
    gpus = []
    columns = [*wanted, *extra]
    kinds = "".join(_GPU_KINDS.get(column, "-") for column in columns)
    for row in db.rows(f"SELECT {', '.join(columns)} FROM {table}", kinds):
        gpu = {
            key: value
            for key, value in zip(wanted.values(), row, strict=False)
            if value is not None
        }
        if extra and None not in row[-2:]:
            gpu["compute_capability"] = f"{row[-2]}.{row[-1]}"
        if driver:
            gpu["driver"] = driver
        gpus.append(gpu)
    return sorted(_with_ordinals(db, gpus), key=lambda gpu: gpu.get("device", 1 << 30))


def _with_ordinals(db: Database, gpus: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fill a missing ``device`` from TARGET_INFO_CUDA_DEVICE, where all processes agree on it."""
    if not db.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId"):
        return gpus
    seen: dict[int, set[int]] = {}
    pairs = db.rows("SELECT DISTINCT gpuId, cudaId FROM TARGET_INFO_CUDA_DEVICE", "ii")
    for gpu_id, ordinal in pairs:
        seen.setdefault(gpu_id, set()).add(ordinal)
    for gpu in gpus:
        ordinals = seen.get(gpu.get("id", -1), set())
        if "device" not in gpu and len(ordinals) == 1:
            gpu["device"] = min(ordinals)
    return gpus


def _gpu_of(db: Database) -> dict[tuple[int, int], int]:
    """(process id, ordinal in its kernel rows) -> the GPU: ordinals are each process's own."""
    table = "TARGET_INFO_CUDA_DEVICE"
    if not db.has(table, "gpuId", "cudaId", "pid"):
        return {}
    rows = db.rows(f"SELECT pid, cudaId, gpuId FROM {table} WHERE gpuId IS NOT NULL", "iii")
    return {(pid, ordinal): gpu for pid, ordinal, gpu in rows}


def _cuda_version(value: str) -> str:
    """``13000`` is 13.0."""
    return f"{int(value) // 1000}.{int(value) % 1000 // 10}" if value.isdigit() else value
