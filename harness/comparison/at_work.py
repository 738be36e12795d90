# SPDX-License-Identifier: MIT
"""Who did the GPU work of a recording: how many processes, on which of the machine's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from harness.attribute import Attribution
    from harness.trace import Trace


def processes(found: Attribution, measure: str) -> int:
    """Processes with GPU work or, measured on the CPU, with ranges."""
    trace = found.trace
    if measure == "gpu":
        ops = trace.gpu_ops["process"].to_numpy()
        return len(np.unique(ops if found.keep_op is None else ops[found.keep_op]))
    threads = trace.ranges["thread"].to_numpy()
    kept = threads if found.keep_range is None else threads[found.keep_range]
    return len(np.unique(trace.threads["process"].to_numpy()[kept]))


def gpus(trace: Trace) -> tuple[int, ...]:
    """Places in ``source.facts["gpus"]`` of the GPUs that ran its ops."""
    listed = trace.source.facts.get("gpus") or []
    # An ordinal is its process's own (CUDA_VISIBLE_DEVICES); without the table that says which
    # GPU that is, it is the machine's.
    gpu_of = trace.source.facts.get("gpu_of") or {}
    threads = trace.threads.drop_duplicates("process")
    pids = dict(zip(threads["process"].tolist(), threads["pid"].tolist(), strict=True))
    used = trace.gpu_ops[["process", "device"]].drop_duplicates()
    found: set[int] = set()
    for process, ordinal in used.itertuples(index=False):
        gpu = gpu_of.get((pids.get(process, -1), ordinal))
        key, value = ("device", ordinal) if gpu is None else ("id", gpu)
        found.update(i for i, one in enumerate(listed) if _is(one, key, value))
    return tuple(sorted(found))


def _is(gpu: Any, key: str, value: int) -> bool:
    return isinstance(gpu, Mapping) and gpu.get(key) == value
