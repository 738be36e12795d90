# SPDX-License-Identifier: MIT
"""Values that a torch trace lacks: what could not be used is counted in a warning."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.readers import kineto
from harness.trace import Trace

TRAIN = Path(__file__).parent.parent / "data" / "h200" / "train.trace.json.gz"
LAUNCHES = ("cuda_runtime", "cuda_driver")


def changed(
    folder: Path, categories: tuple[str, ...], change: Callable[[dict[str, Any]], None]
) -> tuple[Trace, int]:
    """The recorded trace with every third event of some categories changed; how many were."""
    document = json.loads(gzip.decompress(TRAIN.read_bytes()))
    chosen = [event for event in document["traceEvents"] if event.get("cat") in categories][::3]
    for event in chosen:
        change(event)
    path = folder / "trace.json"
    path.write_text(json.dumps(document))
    return kineto.read(path), len(chosen)


def told(trace: Trace, code: str) -> list[str]:
    return [warning.message for warning in trace.warnings if warning.code == code]


def test_the_recorded_trace_lacks_nothing() -> None:
    assert kineto.read(TRAIN).warnings == ()


@pytest.mark.parametrize("value", [None, "soon", True, -1, float("nan"), [1], 1e300])
def test_calls_without_a_duration_are_counted(tmp_path: Path, value: object) -> None:
    trace, number = changed(tmp_path, LAUNCHES, lambda event: event.update(dur=value))
    (message,) = told(trace, "undated-events")
    assert message.startswith(f"{number} CUDA calls without a usable duration taken as ending")


@pytest.mark.parametrize("value", [None, "soon", True, float("inf"), {"a": 1}])
@pytest.mark.parametrize("categories", [LAUNCHES, ("kernel",), ("user_annotation",)])
def test_events_without_a_time_are_counted(
    tmp_path: Path, categories: tuple[str, ...], value: object
) -> None:
    trace, number = changed(tmp_path, categories, lambda event: event.update(ts=value))
    assert told(trace, "undated-events") == [f"{number} events without a usable time left out"]


@pytest.mark.parametrize(
    "args", [None, {}, {"correlation": "soon"}, {"correlation": -5}, {"correlation": [1]}]
)
def test_calls_without_a_correlation_are_counted(tmp_path: Path, args: object) -> None:
    before = kineto.read(TRAIN)
    trace, number = changed(tmp_path, LAUNCHES, lambda event: event.update(args=args))
    assert len(trace.launches) == len(before.launches) - number
    (message,) = told(trace, "missing-values")
    assert message.startswith(f"{number} CUDA calls without a usable correlation left out")


def test_annotations_that_never_closed_are_counted(tmp_path: Path) -> None:
    trace, number = changed(tmp_path, ("user_annotation",), lambda event: event.pop("dur"))
    assert int(trace.ranges["open"].sum()) == number
    (message,) = told(trace, "open-ranges")
    assert message.startswith(f"{number} of {len(trace.ranges)} annotations never closed")


def test_annotations_that_last_less_than_nothing_are_counted(tmp_path: Path) -> None:
    trace, number = changed(tmp_path, ("user_annotation",), lambda event: event.update(dur=-3))
    (message,) = told(trace, "undated-events")
    assert message.startswith(f"{number} annotations without a usable duration")


@pytest.mark.parametrize("entry", [None, 7, "x", [1], {"cat": ["kernel"], "ph": "X", "ts": 1}])
def test_entries_that_are_no_events_are_counted(tmp_path: Path, entry: object) -> None:
    document = json.loads(gzip.decompress(TRAIN.read_bytes()))
    document["traceEvents"][5:5] = [entry, entry]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document))
    trace = kineto.read(path)
    assert len(trace.gpu_ops) == len(kineto.read(TRAIN).gpu_ops)
    assert told(trace, "undated-events") == [
        "2 entries of the event list are no events and left out"
    ]


@pytest.mark.parametrize("key", ["name", "pid", "tid"])
def test_half_of_a_surrogate_pair(tmp_path: Path, key: str) -> None:
    before = kineto.read(TRAIN)
    trace, _ = changed(tmp_path, LAUNCHES, lambda event: event.update({key: "a\ud83d"}))
    assert len(trace.launches) == len(before.launches)
    assert not any("\ud83d" in name for name in trace.launches["name"].cat.categories)
