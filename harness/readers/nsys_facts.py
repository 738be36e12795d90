# SPDX-License-Identifier: MIT
"""What an nsys export says about itself: versions, GPUs, and what spoils it."""

from __future__ import annotations

from dataclasses import replace

from harness.readers.columns import Database
from harness.trace import Source, Trace, Warning_


def read_source(db: Database) -> Source:
    """Versions and GPUs as recorded in the export."""
    meta: dict[str, str] = {}
    # EXPORT_META_DATA (2022) became META_DATA_EXPORT; 2021 has neither.
    for table in ("EXPORT_META_DATA", "META_DATA_EXPORT"):
        if db.has(table, "name", "value"):
            meta.update(db.rows(f"SELECT name, value FROM {table}"))  # type: ignore[arg-type]
    return Source(
        path=str(db.path),
        kind="nsys",
        producer=meta.get("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        version=meta.get("EXPORT_PRODUCT_VERSION", ""),
        facts={"schema": meta.get("EXPORT_SCHEMA_VERSION", "")},
    )


def read_warnings(db: Database, trace: Trace) -> Trace:
    """``trace`` with warnings."""
    found: list[Warning_] = []
    if not len(trace.ranges):
        found.append(
            Warning_("no-nvtx", "no NVTX ranges were recorded", "nsys profile -t cuda,nvtx")
        )
    if not len(trace.gpu_ops):
        found.append(
            Warning_("no-gpu-ops", "no GPU work was recorded", "nsys profile -t cuda,nvtx")
        )
    return replace(trace, warnings=tuple(found))
