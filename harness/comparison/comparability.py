# SPDX-License-Identifier: MIT
"""What else differs between two runs: facts that could explain a change all by themselves.

Facts come from run.json where there is one, else from what the recording says of itself.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harness.comparison.result import Fact
from harness.comparison.sides import Capture, Side
from harness.gpu_ids import plain, same_gpus

#: Clocks further apart than this are a difference.
_CLOCK_TOLERANCE = 0.03
#: A GPU whose clock is below this part of its limit had already gone idle.
_AT_WORK = 0.5
#: Slow-downs by the profiler further apart than this (of the plain time) are a difference.
_OVERHEAD_TOLERANCE = 0.25
#: What every comparison should know; a comparison that does not says so.
EXPECTED = ("GPU", "GPU UUID", "driver", "CUDA", "torch")
#: A value that captures of one side do not share.
MIXED = "differs between captures"

#: Warnings of a recording that lacks GPU work it should have: its times are too low.
_LOSSES = (
    "few-kernels",
    "few-copies",
    "few-sets",
    "process-without-ops",
    "two-profilers",
    "no-kernels",
    "no-launches",
    "missing-values",
    "missing-columns",
    "undated-events",
    "backward-times",
    "unfinished-write",
)
_LOST_SOME = "not all"

#: Bits of nvidia-smi's clocks_throttle_reasons that slow work down; the rest (idle, an
#: application's own setting) do not.
_SLOWED = {0x04: "power cap", 0x28: "hardware or heat", 0x40: "heat", 0x80: "power brake"}


def facts(base: Side, new: Side, policy: str, measure: str = "gpu") -> tuple[Fact, ...]:
    """Every fact known of at least one side, in order of weight. Those that differ (clocks and
    overhead: by more than their tolerance) block; one side's silence does not.

    Another CPU, or a profiler's overhead, changes CPU times and not those of kernels.
    """
    a, b = _collect(base), _collect(new)
    found = []
    for name in dict.fromkeys([*a, *b]):
        old, now = a.get(name, ""), b.get(name, "")
        bad = any(MIXED in value or value.startswith(_LOST_SOME) for value in (old, now))
        close = name in _TOLERANCES and _close(old, now, _TOLERANCES[name])
        close = close or (name in _UUIDS and not bad and same_gpus(old, now))
        blocks = bool(old and now) and (old != now or bad) and not close
        if name in (_CPU_ONLY if measure == "gpu" else _GPU_ONLY):
            blocks = False
        found.append(Fact(name, old, now, blocks, close))
    found.append(Fact("policy", policy, policy))
    return tuple(found)


def _collect(side: Side) -> dict[str, str]:
    run = side.run or {}
    versions = _mapping(run.get("versions"))
    gpus = _gpus(side)
    sources = [capture.source for capture in side.captures]
    out = {
        "recorded by": _one(source.kind for source in sources),
        "GPU ops recorded": _losses(side),
        "graph launches": _graph_launches(side),
        "graph nodes": _one(capture.nodes for capture in side.captures),
        "exit code": _exit_codes(run, {source.kind for source in sources}),
        "GPU": ", ".join(_text(gpu.get("name")) for gpu in gpus),
        "GPU UUID": _uuids(gpus) or _recorded_uuids(side),
        "GPU at work": _at_work(side),
        "processes": _one(str(capture.processes or "") for capture in side.captures),
        "driver": _text(gpus[0].get("driver")) if gpus else _recorded(side, "driver"),
        "CUDA driver": _recorded(side, "cuda_driver"),
        "CUDA": _text(versions.get("cuda")),
        "torch": _text(versions.get("torch"))
        or _one(source.version for source in sources if source.kind == "torch"),
        "nsys": _one(source.version for source in sources if source.kind == "nsys"),
        **_limits(gpus),
        "clocks": _clock(run, gpus),
        "throttling": _throttling(run),
        **_workload(_mapping(run.get("workload"))),
        "CPU": _text(_mapping(run.get("host")).get("cpu")) or _recorded(side, "cpu"),
        "overhead": _overhead(run),
    }
    return {name: value for name, value in out.items() if value}


def _gpus(side: Side) -> list[Mapping[str, Any]]:
    """The GPUs on record; of several captures that disagree, one that says so."""
    gpus = (side.run or {}).get("gpu")
    if gpus:
        return _mappings([gpus] if isinstance(gpus, Mapping) else gpus)
    recorded = [_recorded_gpus(capture) for capture in side.captures]
    found = next((gpus for gpus in recorded if gpus), [])
    keys = ("name", "uuid", "driver")
    if not found or all(not gpus or gpus == found for gpus in recorded):
        return found
    every = [gpus[0] for gpus in recorded if gpus]
    return [{key: _one(_text(gpu.get(key)) for gpu in every) for key in keys}]


def _at_work(side: Side) -> str:
    """UUIDs of the GPUs that did the work: run.json and a recording list all GPUs of a machine, and
    the next run may have had another of them."""
    return _one(_uuids(_working(capture)) for capture in side.captures)


def _working(capture: Capture) -> Iterator[Mapping[str, Any]]:
    listed = capture.source.facts.get("gpus") or []
    return (gpu for place, gpu in enumerate(listed) if place in capture.gpus)


def _recorded_uuids(side: Side) -> str:
    """For a run.json without UUIDs, as copies that were handed on used to be."""
    return _one(_uuids(_recorded_gpus(capture)) for capture in side.captures)


def _recorded_gpus(capture: Capture) -> list[Mapping[str, Any]]:
    return _mappings(capture.source.facts.get("gpus"))


def _uuids(gpus: Iterable[Mapping[str, Any]]) -> str:
    found = (plain(_text(gpu.get("uuid"))) for gpu in gpus)
    return ", ".join(uuid for uuid in found if uuid)


def _losses(side: Side) -> str:
    codes = {warning.code for capture in side.captures for warning in capture.warnings}
    lost = [code for code in _LOSSES if code in codes]
    lost += [] if lost else dict.fromkeys(capture.lost for capture in side.captures if capture.lost)
    return f"{_LOST_SOME} ({', '.join(lost)})" if lost else "all"


def _graph_launches(side: Side) -> str:
    """How CUDA graphs were recorded, where there are any: kernels recorded one by one cost time
    that a graph recorded as a whole does not have."""
    return _one(capture.graphs for capture in side.captures)


def _exit_codes(run: Mapping[str, Any], kinds: set[str]) -> str:
    """What the program exited with while it was recorded: a failed one did not do its work."""
    return _one(_text(item.get("exit_code")) for item in _passes(run) if item.get("name") in kinds)


def _recorded(side: Side, key: str) -> str:
    return _one(_text(capture.source.facts.get(key)) for capture in side.captures)


def _one(values: Iterable[str]) -> str:
    unique = {value for value in values if value}
    return MIXED if len(unique) > 1 else next(iter(unique), "")


def _limits(gpus: list[Mapping[str, Any]]) -> dict[str, str]:
    """What the GPUs were allowed: locking clocks or capping power changes every kernel."""
    named = {"SM clock limit": ("clock_sm_max_mhz", "MHz"), "power limit": ("power_limit_w", "W")}
    return {
        name: ", ".join(f"{_text(gpu[key])} {unit}" for gpu in gpus if gpu.get(key))
        for name, (key, unit) in named.items()
    }


def _throttling(run: Mapping[str, Any]) -> str:
    """Whether a GPU slowed itself down right after any recorded pass; "" when nobody looked."""
    reasons = [
        int(_text(state.get("throttle_reasons")), 16)
        for item in _passes(run)
        for state in item.get("gpu_after") or []
        if isinstance(state, Mapping)
        and re.fullmatch("0x[0-9a-fA-F]+", _text(state.get("throttle_reasons")))
    ]
    if not reasons:
        return ""
    names = [name for bits, name in _SLOWED.items() if any(value & bits for value in reasons)]
    return ", ".join(names) or "none"


def _clock(run: Mapping[str, Any], gpus: list[Mapping[str, Any]]) -> str:
    """Median SM clock right after the recorded passes, if the GPU was still at work then: an idle
    GPU's clock says nothing about the program."""
    limits = (gpu.get("clock_sm_max_mhz") for gpu in gpus)
    limit = max((float(mhz) for mhz in limits if isinstance(mhz, int | float)), default=0.0)
    seen = [
        float(state["clock_sm_mhz"])
        for item in _passes(run)
        if item.get("name") == "nsys"
        for state in _mappings(item.get("gpu_after"))
        if isinstance(state.get("clock_sm_mhz"), int | float)
    ]
    busy = [clock for clock in seen if clock >= _AT_WORK * limit > 0]
    return f"{statistics.median(busy):.0f} MHz" if busy else ""


def _passes(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return _mappings(run.get("passes"))


def _workload(workload: Mapping[str, Any]) -> dict[str, str]:
    names = {"shape": "shape", "dtype": "dtype", "device": "device"}
    return {name: _shape(workload.get(key)) for key, name in names.items()}


def _shape(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else _text(value)


def _overhead(run: Mapping[str, Any]) -> str:
    """How many times longer the nsys pass took than the plain one."""
    seconds: dict[str, list[float]] = {}
    for item in _passes(run):
        if isinstance(item.get("duration_s"), int | float):
            seconds.setdefault(_text(item.get("name")), []).append(float(item["duration_s"]))
    if not seconds.get("plain") or not seconds.get("nsys"):
        return ""
    return f"{min(seconds['nsys']) / max(min(seconds['plain']), 1e-9):.2f}"


#: The same GPU may be on one side by its UUID and on the other by the pseudonym of it.
_UUIDS = ("GPU UUID", "GPU at work")
_CPU_ONLY = ("CPU", "overhead")
_GPU_ONLY = ("GPU ops recorded", "graph launches", "graph nodes")
_TOLERANCES = {"clocks": _CLOCK_TOLERANCE, "overhead": _OVERHEAD_TOLERANCE}


def _close(a: str, b: str, tolerance: float) -> bool:
    try:
        x, y = (float(text.split()[0]) for text in (a, b))
    except (ValueError, IndexError):
        return a == b
    return abs(x - y) <= tolerance * max(abs(x), abs(y))


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value or [] if isinstance(item, Mapping)]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
