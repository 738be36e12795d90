# SPDX-License-Identifier: MIT
"""What a torch trace says about itself, and what would mislead its reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.readers.kineto_columns import Columns
from harness.readers.kineto_events import EventFile
from harness.readers.kineto_links import overlapped
from harness.trace import Source, Trace, Warning_
from harness.words import agree, plural

#: Key in the file -> key in ``Source.facts``.
_FACTS = {
    "schemaVersion": "schema",
    "cuda_driver_version": "cuda_driver",
    "cuda_runtime_version": "cuda_runtime",
    "cupti_version": "cupti",
    "hip_driver_version": "hip_driver",
    "hip_runtime_version": "hip_runtime",
    "baseTimeNanoseconds": "base_time_ns",
    "trace_id": "trace_id",
    "record_shapes": "record_shapes",
    "with_stack": "with_stack",
    "with_flops": "with_flops",
    "with_modules": "with_modules",
    "profile_memory": "profile_memory",
}
_VERSIONS = ("torch_version", "pytorch_version", "PyTorch version")


def read_source(file: EventFile, columns: Columns) -> Source:
    """Producer, versions, GPUs and rank, as far as the file has them."""
    header = file.header
    facts: dict[str, Any] = {name: header[key] for key, name in _FACTS.items() if key in header}
    facts.update({n: _cuda(facts[n]) for n in ("cuda_driver", "cuda_runtime") if n in facts})
    facts.update({n: _hip(facts[n]) for n in ("hip_driver", "hip_runtime") if n in facts})
    facts["events"] = columns.events
    devices = header.get("deviceProperties")
    if isinstance(devices, list):
        facts["gpus"] = [_gpu(device) for device in devices if isinstance(device, dict)]
    ranks = header.get("distributedInfo")
    if isinstance(ranks, dict):
        facts.update({k: ranks[k] for k in ("rank", "world_size", "backend") if k in ranks})
    version = next((str(header[key]) for key in _VERSIONS if key in header), "")
    return Source(
        path=str(file.path),
        kind="torch",
        producer="PyTorch Profiler (Kineto)",
        version=version,
        facts=facts,
    )


def _cuda(value: Any) -> Any:
    """12090 is 12.9, as nsys reports have it."""
    return f"{value // 1000}.{value % 1000 // 10}" if isinstance(value, int) else value


def _hip(value: Any) -> Any:
    """60443483 is 6.4.43483."""
    if not isinstance(value, int):
        return value
    return f"{value // 10_000_000}.{value // 100_000 % 100}.{value % 100_000}"


def _gpu(device: dict[str, Any]) -> dict[str, Any]:
    keys = {
        "id": "id",
        "name": "name",
        "totalGlobalMem": "memory",
        "numSms": "sm_count",
    }
    out = {name: device[key] for key, name in keys.items() if key in device}
    if "id" in out:
        out["device"] = out["id"]  # the ordinal in kernel rows
    if "computeMajor" in device and "computeMinor" in device:
        out["compute_capability"] = f"{device['computeMajor']}.{device['computeMinor']}"
    return out


@dataclass(frozen=True)
class Dropped:
    """Events left out: there twice, or calls without a usable correlation."""

    doubled: int
    unlinked: int


def read_warnings(trace: Trace, file: EventFile, columns: Columns, dropped: Dropped) -> Trace:
    """``trace`` with its warnings."""
    if not columns.known and "schemaVersion" not in file.header:
        return replace(trace, warnings=(_other_tool(columns),))
    found = [
        *_missing(trace),
        *_open_ranges(trace),
        *_suspicious(trace),
        *_mended(file, columns, dropped),
    ]
    return replace(trace, warnings=tuple(found))


def _other_tool(columns: Columns) -> Warning_:
    return Warning_(
        "no-torch-events",
        f"a Chrome trace of {plural(columns.events, 'event')}, none of which torch.profiler "
        "writes: no range, no launch, no GPU op",
        "Give what torch.profiler's export_chrome_trace wrote, or a run folder.",
    )


def _missing(trace: Trace) -> Iterator[Warning_]:
    ops, launches = len(trace.gpu_ops), len(trace.launches)
    if not len(trace.ranges):
        yield Warning_(
            "no-ranges",
            "no annotations were recorded",
            "Mark the program with harness.range or torch.profiler.record_function.",
        )
    if not ops and launches:
        yield Warning_(
            "no-kernels",
            f"{plural(launches, 'CUDA call')} but no GPU work "
            f"{agree(launches, 'was', 'were')} recorded: another CUPTI client (nsys, ncu, DCGM) "
            "probably held the GPU",
            "Only one profiler at a time gets GPU events: record with torch.profiler alone.",
        )
    elif not ops:
        yield Warning_(
            "no-gpu-ops",
            "no GPU work was recorded: the program ran on the CPU, or ProfilerActivity.CUDA was "
            "off",
            "Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] (harness run "
            "does where torch finds a GPU).",
        )
    elif not launches:
        yield Warning_(
            "no-launches",
            f"{plural(ops, 'GPU op')} but no CUDA calls were recorded: nothing says who launched "
            f"{agree(ops, 'it', 'them')}",
            "Record with ProfilerActivity.CPU as well as CUDA.",
        )


def _open_ranges(trace: Trace) -> Iterator[Warning_]:
    number = int(trace.ranges["open"].sum())
    if number:
        yield Warning_(
            "open-ranges",
            f"{number} of {plural(len(trace.ranges), 'annotation')} never closed: "
            f"{agree(number, 'it ends', 'they end')} with the recording and "
            f"{agree(number, 'is', 'are')} left out of per-instance figures",
            "Stop the profiler outside of record_function blocks; a crash leaves them open, too.",
        )


def _suspicious(trace: Trace) -> Iterator[Warning_]:
    ops = trace.gpu_ops
    kernels = ops[ops["kind"] == "kernel"]
    overlaps = overlapped(kernels)
    if overlaps:
        yield Warning_(
            "overlapping-kernels",
            f"{overlaps} of {len(kernels)} kernels {agree(overlaps, 'starts', 'start')} before "
            "an earlier one on the same stream ended: times add up to more than they took together",
            "Compare busy time, which counts overlap once.",
        )
    whole = len(ops) and not np.any(ops["start"].to_numpy() % 1000)
    instant = int((ops["start"] == ops["end"]).sum())
    if whole and instant:
        yield Warning_(
            "coarse-times",
            f"times are whole microseconds and {plural(instant, 'GPU op')} "
            f"{agree(instant, 'lasts', 'last')} 0",
            "torch 2.1 and later record nanoseconds.",
        )
    unmatched = _launched_nothing(trace)
    if unmatched and len(ops):
        yield Warning_(
            "launches-without-ops",
            f"{plural(unmatched, 'kernel launch')} {agree(unmatched, 'has', 'have')} no kernel in "
            "the trace: the recording stopped too early, or the profiler dropped kernels",
            "Synchronise the GPU before the profiler stops.",
        )


def _launched_nothing(trace: Trace) -> int:
    """Kernel launches, outside graph captures, whose correlation no GPU op has."""
    launches = trace.launches
    names = launches["name"].cat
    codes = names.codes.to_numpy()
    texts = [str(name) for name in names.categories]
    kernel = np.isin(codes, [i for i, name in enumerate(texts) if "LaunchKernel" in name])
    lost = kernel & ~np.isin(
        launches["correlation"].to_numpy(), trace.gpu_ops["correlation"].to_numpy()
    )
    if not lost.any():
        return 0
    return int((lost & ~_capturing(trace, texts, codes)).sum())


def _capturing(trace: Trace, texts: list[str], codes: Any) -> Any:
    """Which launches happened while their thread captured a CUDA graph."""
    launches = trace.launches
    step = np.zeros(len(launches), np.int64)
    for word, edge in (("StreamBeginCapture", 1), ("StreamEndCapture", -1)):
        step[np.isin(codes, [i for i, name in enumerate(texts) if word in name])] = edge
    order = np.lexsort((launches["start"].to_numpy(), launches["thread"].to_numpy()))
    inside = np.zeros(len(launches), bool)
    inside[order] = np.cumsum(step[order]) > 0
    return inside


def _mended(file: EventFile, columns: Columns, dropped: Dropped) -> Iterator[Warning_]:
    if doubled := dropped.doubled:
        twice = f"{plural(doubled, 'event')} {agree(doubled, 'is', 'are')} in the file twice"
        yield Warning_("duplicate-events", f"{twice}; counted once")
    if columns.undated:
        undated = plural(columns.undated, "event")
        yield Warning_("undated-events", f"{undated} without a usable time left out")
    if number := columns.unmeasured["gpu"]:
        without = f"{plural(number, 'GPU op')} without a usable duration"
        yield Warning_("undated-events", f"{without} counted as 0 ns: times are too low")
    for table, noun in ("launches", "CUDA call"), ("ranges", "annotation"):
        if number := columns.unmeasured[table]:
            without = f"{plural(number, noun)} without a usable duration"
            yield Warning_(
                "undated-events",
                f"{without} taken as ending where {agree(number, 'it', 'they')} "
                f"{agree(number, 'starts', 'start')}",
            )
    if dropped.unlinked:
        without = f"{plural(dropped.unlinked, 'CUDA call')} without a usable correlation left out"
        yield Warning_("missing-values", f"{without}: what they launched has no launch")
    if file.foreign:
        entries = plural(file.foreign, "entry")
        what = f"{agree(file.foreign, 'is no event', 'are no events')} and left out"
        yield Warning_("undated-events", f"{entries} of the event list {what}")
    if file.repaired:
        yield Warning_(
            "repaired-json",
            f"{plural(file.repaired, 'part')} of the file {agree(file.repaired, 'is', 'are')} not "
            "valid JSON (bare nan or quotes, control characters), read leniently",
        )
