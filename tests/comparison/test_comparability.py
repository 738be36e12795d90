# SPDX-License-Identifier: MIT
"""What forbids a verdict, and what only gets mentioned."""

from __future__ import annotations

from typing import Any

import pytest

from harness.comparison.comparability import facts
from harness.comparison.sides import Capture, Side
from harness.trace import Source

GPU = {"name": "NVIDIA H200", "uuid": "GPU-1", "driver": "580.1", "clock_sm_max_mhz": 1980}
VERSIONS = {"torch": "2.11.0", "cuda": "13.0"}


def side(
    run: dict[str, Any] | None = None,
    *,
    kind: str = "nsys",
    version: str = "2025.3",
    **recorded: Any,
) -> Side:
    source = Source("x", kind, version=version, facts=recorded)
    return Side("x", "x", (Capture({}, {}, {}, source),), run)


def run(**changes: Any) -> dict[str, Any]:
    return {"gpu": [GPU], "versions": VERSIONS, **changes}


def blocking(base: Side, new: Side, measure: str = "gpu") -> set[str]:
    return {fact.name for fact in facts(base, new, "autograd", measure) if fact.blocks}


def test_equal_runs_are_comparable() -> None:
    assert blocking(side(run()), side(run())) == set()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("GPU", {"gpu": [{**GPU, "name": "NVIDIA H100"}]}),
        ("GPU UUID", {"gpu": [{**GPU, "uuid": "GPU-2"}]}),
        ("driver", {"gpu": [{**GPU, "driver": "590.2"}]}),
        ("SM clock limit", {"gpu": [{**GPU, "clock_sm_max_mhz": 1200}]}),
        ("torch", {"versions": {**VERSIONS, "torch": "2.12.0"}}),
        ("CUDA", {"versions": {**VERSIONS, "cuda": "12.9"}}),
    ],
)
def test_another_machine_or_version_blocks(name: str, changes: dict[str, Any]) -> None:
    assert blocking(side(run()), side(run(**changes))) == {name}


def test_shape_and_dtype_block_but_tf32_is_the_users_question() -> None:
    workload = {"shape": [8192, 1024], "dtype": "fp32", "tf32": False}
    base = side(run(workload=workload))
    assert blocking(base, side(run(workload={**workload, "tf32": True}))) == set()
    assert blocking(base, side(run(workload={**workload, "shape": [4096, 1024]}))) == {"shape"}
    assert blocking(base, side(run(workload={**workload, "dtype": "bf16"}))) == {"dtype"}


def test_nsys_version_and_kind_of_recording_block() -> None:
    assert blocking(side(run()), side(run(), version="2026.1")) == {"nsys"}
    assert "recorded by" in blocking(side(run()), side(run(), kind="torch", version=""))


def test_recordings_alone_know_their_gpu() -> None:
    h200 = {"gpus": [{"name": "NVIDIA H200", "uuid": "1", "driver": "580.1"}]}
    assert blocking(side(None, **h200), side(run())) == set()  # nvidia-smi's prefix GPU- is none
    other = {"gpus": [{"name": "NVIDIA H200", "uuid": "2", "driver": "580.1"}]}
    assert blocking(side(None, **h200), side(None, **other)) == {"GPU UUID"}


def test_silence_does_not_block() -> None:
    assert blocking(side(run()), side(None)) == set()
    known = {fact.name: fact for fact in facts(side(run()), side(None), "autograd")}
    assert known["torch"].new == ""
    assert not known["torch"].differs


def test_captures_of_one_side_on_two_gpus_block() -> None:
    one, two = ({"gpus": [{"name": "NVIDIA H200", "uuid": u}]} for u in "12")
    mixed = Side("m", "m", (*side(None, **one).captures, *side(None, **two).captures))
    assert blocking(mixed, mixed) == {"GPU UUID"}


def nsys_pass(clock: int, reasons: str = "0x0000000000000000", seconds: float = 12.0) -> Any:
    state = {"clock_sm_mhz": clock, "throttle_reasons": reasons}
    return {"name": "nsys", "duration_s": seconds, "gpu_after": [state]}


def test_clocks_at_work_block_and_idle_ones_say_nothing() -> None:
    fast, slow, idle = (side(run(passes=[nsys_pass(mhz)])) for mhz in (1980, 1700, 345))
    assert blocking(fast, side(run(passes=[nsys_pass(1965)]))) == set()
    assert blocking(fast, slow) == {"clocks"}
    assert blocking(fast, idle) == set()


def test_throttling_blocks_and_an_idle_gpu_is_not_throttled() -> None:
    calm = side(run(passes=[nsys_pass(1980, "0x0000000000000001")]))  # gpu_idle
    hot = side(run(passes=[nsys_pass(1980, "0x0000000000000040")]))  # hw_thermal_slowdown
    assert blocking(calm, hot) == {"throttling"}
    assert blocking(hot, hot) == set()


def test_overhead_of_the_profiler() -> None:
    def passes(plain: float, nsys: float) -> Side:
        first = {"name": "plain", "duration_s": plain}
        return side(run(passes=[first, nsys_pass(1980, seconds=nsys)]))

    assert blocking(passes(10, 12), passes(10, 13), "cpu") == set()
    assert blocking(passes(10, 12), passes(10, 30), "cpu") == {"overhead"}
    # It slows launches, not kernels.
    assert blocking(passes(10, 12), passes(10, 30)) == set()
    told = {fact.name for fact in facts(passes(10, 12), passes(10, 30), "autograd") if fact.differs}
    assert told == {"overhead"}
