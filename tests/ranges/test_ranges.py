# SPDX-License-Identifier: MIT
"""harness.range: what each listener is told. NVTX calls are counted where the nvtx package makes
them; torch.profiler's view is a real profile."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import harness
from harness import ranges

torch = pytest.importorskip("torch")


@pytest.fixture
def nvtx_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every NVTX call as torch's binding would get it, in order."""
    calls: list[Any] = []

    def start(name: str) -> int:
        calls.append(("start", name))
        return len(calls)

    binding = SimpleNamespace(
        rangePushA=lambda name: calls.append(("push", name)),
        rangePop=lambda: calls.append(("pop",)),
        rangeStartA=start,
        rangeEnd=lambda handle: calls.append(("end", calls[handle - 1][1])),
    )
    monkeypatch.setattr(torch._C, "_nvtx", binding, raising=False)
    monkeypatch.setattr(ranges, "_nvtx_cache", {})
    ranges._compiling_if_torch()
    return calls


def annotations(profile: Any) -> list[str]:
    return [event.name for event in profile.events() if getattr(event, "is_user_annotation", False)]


def test_a_range_is_pushed_and_popped(nvtx_calls: list[Any]) -> None:
    with harness.range("outer"), harness.range("inner"):
        pass
    assert nvtx_calls == [("push", "outer"), ("push", "inner"), ("pop",), ("pop",)]


def test_it_returns_nothing_to_branch_on() -> None:
    with harness.range("a") as entered:
        assert entered is None
    with harness.range("b", threads=True) as entered:
        assert entered is None


def test_it_closes_when_the_body_raises(nvtx_calls: list[Any]) -> None:
    with pytest.raises(ValueError, match="body"), harness.range("a"):
        raise ValueError("body")
    assert nvtx_calls == [("push", "a"), ("pop",)]


def test_one_object_may_be_entered_again_inside_itself(nvtx_calls: list[Any]) -> None:
    again = harness.range("again")
    with again, again:
        pass
    assert nvtx_calls == [("push", "again")] * 2 + [("pop",)] * 2


def test_a_decorated_function_keeps_its_name_and_its_value(nvtx_calls: list[Any]) -> None:
    @harness.range("double")
    def double(x: int, *, plus: int = 0) -> int:
        """Twice x."""
        return 2 * x + plus

    assert double(3, plus=1) == 7
    assert (double.__name__, double.__doc__) == ("double", "Twice x.")
    assert nvtx_calls == [("push", "double"), ("pop",)]


def test_a_recursive_decorated_function_nests(nvtx_calls: list[Any]) -> None:
    @harness.range("f")
    def f(depth: int) -> int:
        return 0 if depth == 0 else 1 + f(depth - 1)

    assert f(2) == 2
    assert nvtx_calls == [("push", "f")] * 3 + [("pop",)] * 3


def test_a_decorated_generator_is_open_only_while_it_runs(nvtx_calls: list[Any]) -> None:
    closed = []

    @harness.range("batch")
    def batches() -> Iterator[int]:
        try:
            got = yield 1
            yield got
        finally:
            closed.append(True)

    generator: Any = batches()
    assert nvtx_calls == []
    assert next(generator) == 1
    assert nvtx_calls == [("push", "batch"), ("pop",)]
    assert generator.send(5) == 5
    generator.close()
    assert closed == [True]
    assert nvtx_calls == [("push", "batch"), ("pop",)] * 3


def test_a_generator_sees_what_is_thrown_into_it_and_returns_its_value() -> None:
    @harness.range("g")
    def g() -> Iterator[str]:
        try:
            yield "first"
        except KeyError:
            yield "caught"
        return "done"

    generator: Any = g()
    assert next(generator) == "first"
    assert generator.throw(KeyError()) == "caught"
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == "done"


def test_coroutines_that_interleave_do_not_close_each_others_ranges(nvtx_calls: list[Any]) -> None:
    async def main() -> list[str]:
        @harness.range("a")
        async def a() -> str:
            await asyncio.sleep(0)
            return "a"

        @harness.range("b")
        async def b() -> str:
            await asyncio.sleep(0)
            return "b"

        return await asyncio.gather(a(), b())

    assert asyncio.run(main()) == ["a", "b"]
    steps = [("push", "a"), ("pop",), ("push", "b"), ("pop",)]
    assert nvtx_calls == steps * 2


def test_an_asynchronous_generator_yields_receives_and_closes(nvtx_calls: list[Any]) -> None:
    closed = []

    @harness.range("stream")
    async def stream() -> AsyncIterator[int]:
        try:
            got = yield 1
            await asyncio.sleep(0)
            yield got
            yield 3
        finally:
            closed.append(True)

    async def main() -> None:
        source: Any = stream()
        assert await source.__anext__() == 1
        assert await source.asend(7) == 7
        await source.aclose()

    asyncio.run(main())
    assert closed == [True]
    assert nvtx_calls.count(("pop",)) == len(nvtx_calls) / 2


def test_an_asynchronous_generator_ends_the_loop() -> None:
    @harness.range("stream")
    async def stream() -> AsyncIterator[int]:
        for i in range(3):
            yield i

    async def main() -> list[int]:
        return [i async for i in stream()]

    assert asyncio.run(main()) == [0, 1, 2]


def test_a_start_end_range_may_close_on_another_thread(nvtx_calls: list[Any]) -> None:
    span = harness.range("transfer", threads=True)
    span.open()
    thread = threading.Thread(target=span.close)
    thread.start()
    thread.join()
    assert nvtx_calls == [("start", "transfer"), ("end", "transfer")]
    span.close()  # not open: nothing happens
    assert len(nvtx_calls) == 2


def test_one_push_pop_object_shared_by_threads_closes_what_each_opened() -> None:
    shared = harness.range("shared")
    problems = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        for _ in range(200):
            with shared, shared:
                pass
        if ranges._stack.entries:
            problems.append(len(ranges._stack.entries))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_torch_profiler_sees_the_range_once(nvtx_calls: list[Any]) -> None:
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu]) as profile, harness.range("seen"):
        torch.ones(2) + 1
    assert annotations(profile) == ["seen"]
    assert nvtx_calls == [("push", "seen"), ("pop",)]


def test_torch_profiler_sees_a_start_end_range_that_closes_elsewhere() -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        span = harness.range("span", threads=True)
        span.open()
        with harness.range("inside"):
            torch.ones(2) + 1
        thread = threading.Thread(target=span.close)
        thread.start()
        thread.join()
    assert sorted(annotations(profile)) == ["inside", "span"]


def test_a_profiler_that_starts_inside_a_range_does_not_upset_it() -> None:
    with harness.range("before"):
        profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        profile.start()
    with harness.range("cut"):
        profile.stop()
    assert ranges._stack.entries == []


def test_emit_nvtx_is_not_doubled(nvtx_calls: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # A CPU build has no NVTX for the profiler to call, so its state is what is pretended here.
    kind = torch._C._profiler.ActiveProfilerType.NVTX
    monkeypatch.setattr(torch._C._autograd, "_profiler_type", lambda: kind)
    monkeypatch.setattr(ranges, "_profiling", lambda: True)
    entered = []
    monkeypatch.setattr(
        torch.autograd.profiler, "record_function", lambda name: entered.append(name)
    )
    with harness.range("once"):
        pass
    assert entered == []
    assert nvtx_calls == [("push", "once"), ("pop",)]


@pytest.mark.parametrize("threads", [False, True])
def test_torch_compile_takes_it_whole_and_leaves_nothing_of_it(
    nvtx_calls: list[Any], threads: bool
) -> None:
    @harness.range("decorated")
    def helper(x: Any) -> Any:
        return x + 1

    @torch.compile(fullgraph=True, backend="eager")
    def f(x: Any) -> Any:
        if threads:
            with harness.range("a", threads=True):
                return helper(x) * 2
        with harness.range("a"), harness.range("b"):
            return helper(x) * 2

    assert f(torch.ones(3)).tolist() == [4, 4, 4]
    assert nvtx_calls == []
    assert ranges._stack.entries == []


def test_a_graph_break_inside_a_range_leaves_it_balanced(nvtx_calls: list[Any]) -> None:
    @torch.compile(backend="eager")
    def f(x: Any) -> Any:
        with harness.range("a"):
            x = x + 1
            torch._dynamo.graph_break()
            with harness.range("b"):
                return x * 2

    with harness.range("outer"):
        assert f(torch.ones(2)).tolist() == [4, 4]
    depth = 0
    for call in nvtx_calls:
        depth += 1 if call[0] == "push" else -1
        assert depth >= 0
    assert depth == 0
    assert ranges._stack.entries == []


def test_torch_export_takes_it() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            with harness.range("forward"):
                return x * 2

    program = torch.export.export(Model(), (torch.ones(2),))
    assert program.module()(torch.ones(2)).tolist() == [2, 2]


def test_a_named_domain_goes_through_the_package(
    nvtx_calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    nvtx = pytest.importorskip("nvtx")
    made = []
    real = nvtx.annotate

    class Recorder(real):  # type: ignore[misc,valid-type]
        def __init__(self, message: str, domain: str | None = None) -> None:
            made.append((message, domain))
            super().__init__(message, domain=domain)

    monkeypatch.setattr(nvtx, "annotate", Recorder)
    for _ in range(2):
        with harness.range("load", domain="data"):
            pass
    assert made == [("load", "data")]
    assert nvtx_calls == []


def test_a_named_domain_without_the_package_is_the_default_one(
    nvtx_calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)  # import nvtx fails
    with harness.range("load", domain="data"):
        pass
    assert nvtx_calls == [("push", "load"), ("pop",)]


def test_names_with_counters_do_not_fill_the_memory(nvtx_calls: list[Any]) -> None:
    for i in range(ranges._CACHE_LIMIT + 10):
        with harness.range(f"step {i}"):
            pass
    assert len(ranges._nvtx_cache) <= ranges._CACHE_LIMIT
    assert len(nvtx_calls) == 2 * (ranges._CACHE_LIMIT + 10)


def test_it_imports_no_torch_and_works_without_torch_and_nvtx() -> None:
    code = """
import sys
sys.modules["nvtx"] = None  # import nvtx fails
import harness
with harness.range("a"):
    pass
@harness.range("b", threads=True)
def f(): return 1
assert f() == 1
assert "torch" not in sys.modules, "harness.range imported torch"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_torch_imported_inside_a_range_does_not_unbalance_it() -> None:
    code = """
import sys, harness
outer = harness.range("outer")
outer.__enter__()
with harness.range("inner"):
    import torch
outer.__exit__(None, None, None)
from harness import ranges
assert ranges._stack.entries == []
"""
    subprocess.run([sys.executable, "-c", code], check=True)
