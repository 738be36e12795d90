# SPDX-License-Identifier: MIT
"""Our quick way to torch.profiler's two tables gives what torch's own slow one does."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harness.launch.torch_pass

torch = pytest.importorskip("torch")

from torch.autograd import DeviceType  # noqa: E402
from torch.autograd.profiler import profile as Profile  # noqa: E402
from torch.autograd.profiler_util import EventList  # noqa: E402


def load() -> ModuleType:
    """As the runner does, by path."""
    file = Path(harness.launch.torch_pass.__file__).with_name("torch_tables.py")
    spec = importlib.util.spec_from_file_location("tables_under_test", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tables = load()
NUMBERS = ("cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total")


def described(averages: Any) -> list[tuple[Any, ...]]:
    """Each row of a table, in order; times in whole ns."""
    return [
        (
            row.key, row.count, str(row.input_shapes), str(row.device_type), row.is_async,
            bool(row.is_user_annotation), row.node_id, row.use_device, row.overload_name,
            *(round(1000 * getattr(row, name)) for name in NUMBERS),
        )
        for row in averages
    ]  # fmt: skip


def both(profile: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    events = profile.kineto_results.events()
    ours = tables._Events(torch.autograd.profiler_util, profile, events).averages()
    theirs = profile.key_averages(), profile.key_averages(group_by_input_shape=True)
    return ours, theirs


def recorded(program: Callable[[], object]) -> Any:
    with torch.profiler.profile(record_shapes=True) as profiler:
        program()
    return profiler.profiler


def nested(name: str, depth: int) -> None:
    with torch.profiler.record_function(name):
        if depth:
            nested(name, depth - 1)
        else:
            torch.ones(3).add(1)


def training() -> None:
    import threading

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    for rows in (4, 4, 6):
        with torch.profiler.record_function(f"ProfilerStep#{rows}"):
            model(torch.randn(rows, 8)).sum().backward()
    nested("again", 4)
    other = threading.Thread(target=lambda: torch.cat([torch.ones(2), torch.ones(3)]))
    other.start()
    other.join()
    torch.ones(4)[1].item()


def test_a_training_programs_tables_are_torchs_own() -> None:
    profile = recorded(training)
    ours, theirs = both(profile)
    for mine, own in zip(ours, theirs, strict=True):
        assert described(mine) == described(own)
        sort = {"sort_by": "self_cpu_time_total", "row_limit": 200}
        printed = [(line[:60], len(line)) for line in sorted(mine.table(**sort).split("\n"))]
        # The digits of times are left out: torch sums fractions of microseconds.
        assert printed == [(row[:60], len(row)) for row in sorted(own.table(**sort).split("\n"))]
    names = {row.key for row in ours[0]}
    assert {"aten::addmm", "again", "ProfilerStep*", "autograd::engine::evaluate_function: "
            "AddmmBackward0"} <= names  # fmt: skip


def test_few_events_and_strange_ones_are_left_to_torch() -> None:
    profile = recorded(training)
    want, events = described(profile.key_averages()), profile.kineto_results.events()
    assert described(tables.averages(torch, profile, events)[0]) == want
    assert described(tables.averages(torch, profile, events, few=0)[0]) == want
    with torch.profiler.profile(profile_memory=True) as profiler:
        torch.ones(100).add(1)
    profile = profiler.profiler
    events = profile.kineto_results.events()
    with pytest.raises(tables.Unusual):
        tables._Events(torch.autograd.profiler_util, profile, events)
    want = described(profile.key_averages())
    assert described(tables.averages(torch, profile, events, few=0)[0]) == want


class Event(SimpleNamespace):
    """What torch asks an event of its C++ side; here with what a GPU would have left."""

    def __getattr__(self, name: str) -> Callable[[], Any]:
        defaults: dict[str, Any] = {
            "is_hidden_event": False, "overload_name": "", "fwd_thread_id": 0, "stack": [],
            "scope": 0, "sequence_nr": -1, "device_index": 0, "device_resource_id": 0, "flops": 0,
            "is_python_function": False, "activity_type": "", "metadata_json": "",
            "extra_meta": {}, "flow_id": 0, "flow_type": 0, "flow_start": False, "external_id": 0,
            "structured_input_shapes": [], "structured_input_strides": [], "dtypes": [],
            "concrete_inputs": [], "kwinputs": {}, "python_id": -1, "python_parent_id": -1,
            "python_module_id": -1, "cuda_elapsed_us": -1, "nbytes": 0,
        }  # fmt: skip
        value = vars(self)["_" + name] if "_" + name in vars(self) else defaults[name]
        return lambda: value


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    made = []
    for correlation in range(1, draw(st.integers(1, 14)) + 1):
        on_gpu = draw(st.booleans())
        start = draw(st.integers(1000, 1030))
        thread = draw(st.integers(1, 2))
        linked = draw(st.sampled_from([0, 0, correlation - 1, 1]))
        made.append(
            Event(
                _name=draw(st.sampled_from(["a", "b", "aten::is_leaf", "ProfilerStep#3"])),
                _start_ns=start,
                _end_ns=start + draw(st.integers(0, 12)),
                _start_thread_id=thread,
                _end_thread_id=draw(st.sampled_from([thread, thread, thread, 3])),
                _is_async=draw(st.sampled_from([False, False, False, True])),
                _device_type=DeviceType.CUDA if on_gpu else DeviceType.CPU,
                _is_user_annotation=draw(st.booleans()),
                _shapes=draw(st.sampled_from([[], [[2, 3]]])),
                _correlation_id=correlation,
                _linked_correlation_id=linked,
            )
        )
    return made


@settings(max_examples=300, deadline=None)
@given(events())
def test_with_gpu_events_of_any_kind_the_sums_are_torchs_own(made: list[Event]) -> None:
    profile = Profile(use_device=None)
    profile.use_device = "cuda"
    profile.kineto_results = SimpleNamespace(events=lambda: made, trace_start_ns=lambda: 1000)
    own = EventList(profile._parse_kineto_results(profile.kineto_results), use_device="cuda")
    own._build_tree()
    profile._function_events = own
    ours, theirs = both(profile)
    for mine, torchs in zip(ours, theirs, strict=True):
        assert described(mine) == described(torchs)


def test_many_events_take_a_fraction_of_torchs_time() -> None:
    def tiny() -> None:
        x = torch.ones(1)
        for _ in range(12_000):
            with torch.profiler.record_function("step"):
                x.add_(1)

    profile = recorded(tiny)
    events = profile.kineto_results.events()
    began = time.process_time()
    ours = tables.averages(torch, profile, events)
    quick = time.process_time() - began
    began = time.process_time()
    own = profile.key_averages(), profile.key_averages(group_by_input_shape=True)
    slow = time.process_time() - began
    assert described(ours[0]) == described(own[0])
    assert quick < slow / 2
