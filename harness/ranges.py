# SPDX-License-Identifier: MIT
"""``harness.range``: one name, seen by Nsight Systems (NVTX) and by torch.profiler alike.

Nothing here imports torch: a program that has not imported it cannot be recorded by
torch.profiler, and one that has is found through ``sys.modules``.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
from collections.abc import AsyncGenerator, Callable, Generator
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar, cast, overload

from harness import trace_names

F = TypeVar("F", bound=Callable[..., Any])


class _Nvtx(NamedTuple):
    """One range's NVTX calls: push and pop it, or start and end it."""

    push: Callable[[], Any]
    pop: Callable[..., Any]
    start: Callable[[], Any]
    end: Callable[[Any], Any]


#: An open push/pop range: its owner, the NVTX call and the record_function that close it. They are
#: kept because a profiler, or torch itself, may come or go while the range is open. A plain tuple:
#: a NamedTuple costs 150 ns more.
_Entry = tuple["_PushPop", Callable[..., Any] | None, Any]

#: Programs that put a counter into a range's name must not fill the memory.
_CACHE_LIMIT = 4096


class _Stack(threading.local):
    """The open push/pop ranges of this thread."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []


_stack = _Stack()
_torch: Any = None  # the module, once the program has imported it
_nvtx_cache: dict[tuple[str, str | None], _Nvtx | None] = {}


def _compiling_if_torch() -> bool:
    """Whether torch.compile or torch.export traces the caller; looks for torch each time."""
    global _torch, _compiling, _profiling
    torch = sys.modules.get("torch")
    # While torch is being imported it is in sys.modules without its parts.
    if torch is None or not hasattr(torch, "compiler") or not hasattr(torch, "autograd"):
        return False
    _torch, _compiling = torch, torch.compiler.is_compiling
    profiler = torch.autograd.profiler
    # torch.autograd._profiler_enabled() only knows of this thread's: not of one for all threads.
    _profiling = lambda: profiler._is_profiler_enabled  # noqa: E731
    # torch's NVTX is preferred over the package's, which may have been chosen before.
    _nvtx_cache.clear()
    return _compiling()


def _profiling_without_torch() -> bool:
    return False


# Called on every enter and exit, so they become torch's own functions as soon as it is imported.
_compiling: Callable[[], bool] = _compiling_if_torch
_profiling: Callable[[], bool] = _profiling_without_torch


def _package_installed() -> bool:
    try:
        import nvtx  # type: ignore[import-untyped,unused-ignore]  # noqa: F401
    except ImportError:
        return False
    return True


def _nvtx_of_torch(binding: Any, name: str) -> _Nvtx:
    push, start = partial(binding.rangePushA, name), partial(binding.rangeStartA, name)
    return _Nvtx(push, binding.rangePop, start, binding.rangeEnd)


def _find_nvtx(name: str, domain: str | None) -> _Nvtx | None:
    """NVTX for one range; None when neither torch nor the nvtx package can emit it.

    torch only has the default domain, so a named one needs the package. Without it the range goes
    to the default domain: better there than nowhere.
    """
    binding = getattr(getattr(_torch, "_C", None), "_nvtx", None)  # absent in CPU builds
    if binding is not None and (domain is None or not _package_installed()):
        return _nvtx_of_torch(binding, name)
    try:
        import nvtx  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        return None
    # A torch pass may have replaced these by record_function, which this module does itself.
    annotation = inspect.unwrap(nvtx.annotate)(name, domain=domain)
    leave = partial(annotation.__exit__, None, None, None)  # 0.2.12 on: the three are required
    start = partial(inspect.unwrap(nvtx.start_range), name, domain=domain)
    return _Nvtx(annotation.__enter__, leave, start, inspect.unwrap(nvtx.end_range))


def _nvtx(name: str, domain: str | None) -> _Nvtx | None:
    key = (name, domain)
    if key not in _nvtx_cache:
        if len(_nvtx_cache) >= _CACHE_LIMIT:
            _nvtx_cache.clear()
        _nvtx_cache[key] = _find_nvtx(name, domain)
    return _nvtx_cache[key]


def _record(name: str) -> Any:
    """An entered record_function, given that a profiler is on; None under ``emit_nvtx``.

    There the profiler turns every record_function into an NVTX range: one more would double ours.
    """
    if _torch._C._autograd._profiler_type().name == "NVTX":
        return None
    record = _torch.autograd.profiler.record_function(trace_names.encoded(name))
    record.__enter__()
    return record


def record_open() -> None:
    """Let a profiler that has just started record this thread's ranges that are open already.

    For the torch pass: there the profiler starts when the program imports torch.
    """
    _compiling_if_torch()
    if not _profiling():
        return
    _stack.entries[:] = [
        (owner, pop, _record(owner.name) if record is None else record)
        for owner, pop, record in _stack.entries
    ]


class _Range:
    """What both kinds of range share: a name, a domain and use as a decorator."""

    __slots__ = ("domain", "name")

    def __init__(self, name: str, domain: str | None = None) -> None:
        self.name = name
        self.domain = domain

    def __enter__(self) -> None:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def __call__(self, function: F) -> F:
        """Decorate a function, generator, coroutine or asynchronous generator."""
        kind, name, domain = type(self), self.name, self.domain

        # Made for each call: torch.compile only enters context managers it saw being made.
        def make() -> _Range:
            return kind(name, domain)

        wrapped: Any
        if inspect.iscoroutinefunction(function):
            wrapped = _wrap_coroutine(function, make)
        elif inspect.isasyncgenfunction(function):
            wrapped = _wrap_async_generator(function, make)
        elif inspect.isgeneratorfunction(function):
            wrapped = _wrap_generator(function, make)
        else:

            def wrapped(*args: Any, **kwargs: Any) -> Any:
                with kind(name, domain):
                    return function(*args, **kwargs)

        return cast(F, functools.update_wrapper(wrapped, function))


class _PushPop(_Range):
    """A push/pop range: nests, and must close on the thread that opened it."""

    __slots__ = ()

    def __enter__(self) -> None:
        if _compiling():
            return
        try:
            nvtx = _nvtx_cache[self.name, self.domain]
        except KeyError:
            nvtx = _nvtx(self.name, self.domain)
        record = _record(self.name) if _profiling() else None
        if nvtx is None:
            _stack.entries.append((self, None, record))
        else:
            nvtx.push()
            _stack.entries.append((self, nvtx.pop, record))

    def __exit__(self, *exc: object) -> None:
        if _compiling():
            return
        entries = _stack.entries
        # Not ours on top: this range was entered while torch.compile traced, so it never opened.
        if not entries or entries[-1][0] is not self:
            return
        _, pop, record = entries.pop()
        if pop is not None:
            pop()
        if record is not None:
            record.__exit__(None, None, None)


class _StartEnd(_Range):
    """A start/end range: does not nest, and may close on another thread."""

    __slots__ = ("_open",)

    def __init__(self, name: str, domain: str | None = None) -> None:
        super().__init__(name, domain)
        self._open: list[tuple[Callable[[Any], Any] | None, Any, Any]] = []

    def open(self) -> None:
        """Start the range; as often as wanted, each to be closed once."""
        if _compiling():
            return
        nvtx = _nvtx(self.name, self.domain)
        record = _record(self.name) if _profiling() else None
        if nvtx is None:
            self._open.append((None, None, record))
        else:
            self._open.append((nvtx.end, nvtx.start(), record))

    def close(self) -> None:
        """End the range opened last, from any thread; closing what is not open does nothing."""
        if _compiling():
            return
        try:
            end, handle, record = self._open.pop()
        except IndexError:
            return
        if end is not None:
            end(handle)
        if record is not None:
            record.__exit__(None, None, None)

    def __enter__(self) -> None:
        self.open()

    def __exit__(self, *exc: object) -> None:
        self.close()


# Generators and coroutines give the thread away between their steps, so each *step* is one
# instance of the range: what others launch meanwhile is not claimed.


def _wrap_generator(function: Callable[..., Any], make: Callable[[], _Range]) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _steps(function(*args, **kwargs), make))

    return wrapper


def _wrap_coroutine(function: Callable[..., Any], make: Callable[[], _Range]) -> Any:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await _steps(function(*args, **kwargs), make)

    return wrapper


def _wrap_async_generator(function: Callable[..., Any], make: Callable[[], _Range]) -> Any:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        source = function(*args, **kwargs)
        step = source.__anext__()
        while True:
            try:
                item = await _steps(step, make)
            except StopAsyncIteration:
                return
            try:
                step = source.asend((yield item))
            except GeneratorExit:
                await source.aclose()
                raise
            except BaseException as error:
                step = source.athrow(error)

    return wrapper


@types.coroutine
def _steps(source: Any, make: Callable[[], _Range]) -> Generator[Any, Any, Any]:
    """Drive a generator or an awaitable, with the range open only while it runs."""
    resume: Callable[[Any], Any] = source.send
    value: Any = None
    while True:
        try:
            with make():
                item = resume(value)
        except StopIteration as stop:
            return stop.value
        try:
            resume, value = source.send, (yield item)
        except GeneratorExit:
            with make():
                source.close()
            raise
        except BaseException as error:
            resume, value = source.throw, error


@overload
def range(name: str, *, domain: str | None = None, threads: Literal[False] = False) -> _PushPop: ...
@overload
def range(name: str, *, domain: str | None = None, threads: Literal[True]) -> _StartEnd: ...
def range(name: str, *, domain: str | None = None, threads: bool = False) -> _PushPop | _StartEnd:
    """A range called ``name``: a context manager, and a decorator of any kind of function.

    Both profilers see it: as an NVTX range (through torch where torch has NVTX, else through the
    ``nvtx`` package) and, while a torch profiler is on, as a ``record_function`` range. With
    nobody listening it costs about a microsecond; under ``torch.compile`` it is nothing.

    ``domain`` names an NVTX domain (needs the ``nvtx`` package). ``threads=True`` gives a
    start/end range: use it as a context manager around ``await``, or call ``open()`` here and
    ``close()`` on another thread. Decorated generators and coroutines have one instance a step.

        with harness.range("forward"):
            loss = model(batch)
    """
    return _StartEnd(name, domain) if threads else _PushPop(name, domain)
