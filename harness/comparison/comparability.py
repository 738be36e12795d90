# SPDX-License-Identifier: MIT
"""What else differs between two runs: facts that could explain a change all by themselves.

Facts come from run.json where there is one, else from what the recording says of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.comparison.result import Fact
from harness.comparison.sides import Side

#: Clocks further apart than this are a difference.
_CLOCK_TOLERANCE = 0.01
#: Slow-downs by the profiler further apart than this (of the plain time) are a difference.
_OVERHEAD_TOLERANCE = 0.25
#: A value that captures of one side do not share.
MIXED = "differs between captures"

_VERSIONS = {"driver": "driver", "cuda": "CUDA", "torch": "torch", "nsys": "nsys"}


def facts(base: Side, new: Side, policy: str) -> tuple[Fact, ...]:
    """Every fact known of at least one side, in order of weight. Those that differ (clocks and
    overhead: by more than their tolerance) block; one side's silence does not."""
    a, b = _collect(base), _collect(new)
    found = []
    for name in dict.fromkeys([*a, *b]):
        old, now = a.get(name, ""), b.get(name, "")
        blocks = bool(old and now) and (old != now or MIXED in (old, now))
        if blocks and name in _TOLERANCES:
            blocks = not _close(old, now, _TOLERANCES[name])
        found.append(Fact(name, old, now, blocks))
    found.append(Fact("policy", policy, policy))
    return tuple(found)


def _collect(side: Side) -> dict[str, str]:
    run = side.run or {}
    out: dict[str, str] = {}
    out["recorded by"] = _one(capture.source.kind for capture in side.captures)
    gpus = _gpus(side)
    out["GPU"] = ", ".join(_text(gpu.get("name")) for gpu in gpus)
    out["GPU UUID"] = ", ".join(_uuid(gpu.get("uuid")) for gpu in gpus)
    versions = _mapping(run.get("versions"))
    for key, name in _VERSIONS.items():
        out[name] = _text(versions.get(key)) or _recorded(side, key)
    if not out["driver"] and gpus:
        out["driver"] = _text(gpus[0].get("driver"))
    if not out["nsys"]:
        out["nsys"] = _one(c.source.version for c in side.captures if c.source.kind == "nsys")
    out["clocks"] = _clocks(gpus)
    out |= _workload(_mapping(run.get("workload")))
    out["overhead"] = _overhead(run)
    return {name: value for name, value in out.items() if value}


def _gpus(side: Side) -> list[Mapping[str, Any]]:
    gpus = (side.run or {}).get("gpu")
    if not gpus:
        recorded = [capture.source.facts.get("gpus") for capture in side.captures]
        gpus = next((found for found in recorded if found), [])
    listed = [gpus] if isinstance(gpus, Mapping) else gpus
    return [gpu for gpu in listed if isinstance(gpu, Mapping)]


def _recorded(side: Side, key: str) -> str:
    return _one(_text(capture.source.facts.get(key)) for capture in side.captures)


def _one(values: Iterable[str]) -> str:
    unique = {value for value in values if value}
    return MIXED if len(unique) > 1 else next(iter(unique), "")


def _uuid(value: Any) -> str:
    """nvidia-smi writes ``GPU-a838…``, nsys the bare number."""
    return _text(value).lower().removeprefix("gpu-")


def _clocks(gpus: list[Mapping[str, Any]]) -> str:
    """The clocks GPU work ran at, where somebody looked: ``1980 MHz``."""
    for gpu in gpus:
        clocks = gpu.get("clocks")
        sm = clocks.get("sm") if isinstance(clocks, Mapping) else gpu.get("clock_sm")
        if sm:
            return _text(sm)
    return ""


def _workload(workload: Mapping[str, Any]) -> dict[str, str]:
    names = {"shape": "shape", "dtype": "dtype", "device": "device"}
    return {name: _shape(workload.get(key)) for key, name in names.items()}


def _shape(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else _text(value)


def _overhead(run: Mapping[str, Any]) -> str:
    """How many times longer the nsys pass took than the plain one."""
    seconds: dict[str, list[float]] = {}
    for item in run.get("passes") or []:
        if isinstance(item, Mapping) and isinstance(item.get("duration_s"), int | float):
            seconds.setdefault(_text(item.get("name")), []).append(float(item["duration_s"]))
    if not seconds.get("plain") or not seconds.get("nsys"):
        return ""
    return f"{min(seconds['nsys']) / max(min(seconds['plain']), 1e-9):.2f}"


_TOLERANCES = {"clocks": _CLOCK_TOLERANCE, "overhead": _OVERHEAD_TOLERANCE}


def _close(a: str, b: str, tolerance: float) -> bool:
    try:
        x, y = (float(text.split()[0]) for text in (a, b))
    except (ValueError, IndexError):
        return a == b
    return abs(x - y) <= tolerance * max(abs(x), abs(y))


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
