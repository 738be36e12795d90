# SPDX-License-Identifier: MIT
"""NVTX ranges of a program as torch.profiler ``record_function`` ranges of the same name.

Loaded by ``torch_runner.py`` in the program's process: standard library only. Each replacement
first does what the original does, returns what it returned and raises what it raised.
``harness.range`` emits both kinds of range itself, so calls from ``harness.ranges`` pass through.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any


class Open:
    """One open NVTX range, and the record_function that stands for it once there is a profiler."""

    __slots__ = ("name", "record")

    def __init__(self, name: str) -> None:
        self.name = name
        self.record: Any = None


class Threads(threading.local):
    """The open ranges of this thread: of each domain, and of all, outermost first."""

    def __init__(self) -> None:
        self.stacks: dict[str, list[Open]] = {}
        self.order: list[Open] = []


class Records:
    """The ``record_function`` ranges that stand for open NVTX ranges.

    Push/pop ranges live on a stack per thread and domain, as in NVTX itself; start/end ranges in
    a table by their handle, for another thread may end them. The profiler starts with the import
    of torch: ranges that are open then are recorded from there on, those closed before cannot be.
    """

    def __init__(self, recorder: Any, encoded: Any = str) -> None:
        self._recorder = recorder
        self._encoded = encoded
        self._threads = Threads()
        self._started: dict[Any, list[Open]] = {}
        self._lock = threading.Lock()

    def begin(self) -> None:
        """The profiler has started: record what this thread has open, and the start/end ranges."""
        with self._lock:
            waiting = [opened for handles in self._started.values() for opened in handles]
        opened = [*waiting, *self._threads.order]
        self._recorder.cut(list(dict.fromkeys(each.name for each in opened)))
        self._record(opened)

    def _record(self, opened: list[Open]) -> None:
        if not self._recorder.active or self._recorder.torch is None:
            return
        for each in opened:
            if each.record is None:
                name = self._encoded(each.name)
                each.record = self._recorder.torch.autograd.profiler.record_function(name)
                each.record.__enter__()

    def _close(self, opened: Open) -> None:
        if opened.record is not None:
            opened.record.__exit__(None, None, None)
        elif not self._recorder.started:
            self._recorder.missed(opened.name)

    def push(self, domain: Any, name: str) -> None:
        mine = self._threads
        mine.stacks.setdefault(str(domain), []).append(opened := Open(name))
        mine.order.append(opened)
        # All of them: another thread may have imported torch since this one opened its first.
        self._record(mine.order if mine.order[0].record is None else [opened])

    def pop(self, domain: Any) -> None:
        mine = self._threads
        stack = mine.stacks.get(str(domain))
        if stack:  # a pop too many is no error in NVTX either
            opened = stack.pop()
            if mine.order[-1] is opened:
                mine.order.pop()
            else:  # domains need not close in the order they opened
                mine.order.remove(opened)
            self._close(opened)

    def left(self, name: str) -> None:
        """A range of ``harness.range`` closed; it records itself, where there is a profiler."""
        if not self._recorder.started:
            self._recorder.missed(name)

    def start(self, handle: Any, name: str) -> None:
        opened = Open(name)
        self._record([opened])
        with self._lock:
            self._started.setdefault(handle, []).append(opened)

    def end(self, handle: Any) -> None:
        with self._lock:
            ranges = self._started.get(handle)
            opened = ranges.pop() if ranges else None
            if not ranges:
                self._started.pop(handle, None)
        if opened is not None:
            self._close(opened)


def from_harness(depth: int = 2) -> bool:
    return sys._getframe(depth).f_globals.get("__name__") == "harness.ranges"


def leave_uncompiled(function: Any) -> Any:
    """torch.compile calls these and does not trace into them, as it does with the C functions."""
    function._torchdynamo_disable = True
    return function


class TorchNvtx:
    """Stands in for ``torch.cuda.nvtx._nvtx``: every function of that module goes through it."""

    def __init__(self, original: Any, records: Records) -> None:
        self._original = original

        def rangePushA(message: str) -> Any:
            result = original.rangePushA(message)
            records.push("", str(message))
            return result

        def rangePop() -> Any:
            records.pop("")
            return original.rangePop()

        def rangeStartA(message: str) -> Any:
            handle = original.rangeStartA(message)
            records.start(handle, str(message))
            return handle

        def rangeEnd(handle: Any) -> Any:
            records.end(handle)
            return original.rangeEnd(handle)

        for function in (rangePushA, rangePop, rangeStartA, rangeEnd):
            setattr(self, function.__name__, leave_uncompiled(function))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def bridge_torch(torch: Any, records: Records) -> None:
    module = getattr(torch.cuda, "nvtx", None)
    if module is not None and hasattr(module, "_nvtx"):
        module._nvtx = TorchNvtx(module._nvtx, records)


def bridge_package(nvtx: Any, records: Records) -> None:
    """The ``nvtx`` package. Its functions are bridged and not its C layer, which newer versions
    (0.2.12 on) do not even call when no tool listens."""
    inner = getattr(nvtx, "nvtx", nvtx)
    if not inner.enabled():  # NVTX_DISABLE: no ranges under nsys, so none here
        return
    _bridge_annotate(inner.annotate, records)
    for name, function in (
        ("push_range", _push_range),
        ("pop_range", _pop_range),
        ("start_range", _start_range),
        ("end_range", _end_range),
        ("get_domain", _get_domain),
    ):
        original = getattr(nvtx, name, None)
        if original is None:
            continue
        bridged = leave_uncompiled(functools.wraps(original)(function(original, records)))
        setattr(nvtx, name, bridged)
        # The package's own code keeps get_domain: it passes domains on to its C layer.
        if name != "get_domain":
            setattr(inner, name, bridged)


def _text(message: Any) -> str:
    """A message's text; also of a registered string and of event attributes."""
    while message is not None and not isinstance(message, str):
        inner = getattr(message, "message", None) or getattr(message, "string", None)
        if inner is None or inner is message:
            return str(message)
        message = inner
    return message or ""


def _bridge_annotate(annotate: Any, records: Records) -> None:
    init, enter, leave, call = (
        annotate.__init__,
        annotate.__enter__,
        annotate.__exit__,
        annotate.__call__,
    )

    @functools.wraps(init)
    def __init__(self: Any, message: Any = None, *args: Any, **kwargs: Any) -> None:
        init(self, message, *args, **kwargs)
        self._harness_name = _text(message)
        domain = kwargs.get("domain", args[1] if len(args) > 1 else None)
        self._harness_domain = domain

    @functools.wraps(enter)
    def __enter__(self: Any) -> Any:
        result = enter(self)
        if not from_harness():
            records.push(self._harness_domain, self._harness_name)
        return result

    @functools.wraps(leave)
    def __exit__(self: Any, *exc: Any) -> Any:
        if not from_harness():
            records.pop(self._harness_domain)
        else:
            records.left(self._harness_name)
        return leave(self, *exc)

    @functools.wraps(call)
    def __call__(self: Any, function: Any) -> Any:
        inner = call(self, function)
        name = self._harness_name or function.__name__

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            records.push(wrapper, name)
            try:
                return inner(*args, **kwargs)
            finally:
                records.pop(wrapper)

        return wrapper

    annotate.__init__ = __init__
    annotate.__enter__ = leave_uncompiled(__enter__)
    annotate.__exit__ = leave_uncompiled(__exit__)
    annotate.__call__ = __call__


def _push_range(original: Any, records: Records) -> Any:
    def push_range(
        message: Any = None, color: Any = "blue", domain: Any = None, *a: Any, **k: Any
    ) -> Any:
        result = original(message, color, domain, *a, **k)
        records.push(domain, _text(message))
        return result

    return push_range


def _pop_range(original: Any, records: Records) -> Any:
    def pop_range(domain: Any = None) -> Any:
        records.pop(domain)
        return original(domain)

    return pop_range


def _start_range(original: Any, records: Records) -> Any:
    def start_range(
        message: Any = None, color: Any = "blue", domain: Any = None, *a: Any, **k: Any
    ) -> Any:
        handle = original(message, color, domain, *a, **k)
        # 0.2.11 returns an object, newer ones a tuple, or None when no tool listens. The program
        # only hands it back, so a token may stand in for None.
        token = Token() if handle is None else handle
        records.start(_key(token), _text(message))
        return token

    return start_range


def _end_range(original: Any, records: Records) -> Any:
    def end_range(range_id: Any) -> Any:
        records.end(_key(range_id))
        return original(None if isinstance(range_id, Token) else range_id)

    return end_range


class Token:
    """A start/end range that NVTX itself did not record."""


def _key(handle: Any) -> Any:
    """A key for a handle: RangeId objects have no value of their own, tuples may hold objects."""
    return handle if isinstance(handle, (int, Token)) else id(handle)


def _get_domain(original: Any, records: Records) -> Any:
    cache: dict[Any, Any] = {}

    def get_domain(name: Any = None) -> Any:
        if name not in cache:
            cache[name] = DomainBridge(original(name), name, records)
        return cache[name]

    return get_domain


class DomainBridge:
    """``nvtx.get_domain(name)``: its ranges are bridged, all else is the real domain's."""

    def __init__(self, domain: Any, name: Any, records: Records) -> None:
        self._domain, self._name, self._records = domain, name, records

    def __getattr__(self, name: str) -> Any:
        return getattr(self._domain, name)

    def get_event_attributes(self, message: Any = None, *args: Any, **kwargs: Any) -> Any:
        attributes = self._domain.get_event_attributes(message, *args, **kwargs)
        # A disabled domain has no attributes: keep the name.
        return attributes if attributes is not None else Attributes(message)

    def push_range(self, attributes: Any = None, **kwargs: Any) -> Any:
        result = self._domain.push_range(_real(attributes), **kwargs)
        self._records.push(self._name, _text(kwargs.get("message") or attributes))
        return result

    def pop_range(self) -> Any:
        self._records.pop(self._name)
        return self._domain.pop_range()

    def start_range(self, attributes: Any = None, **kwargs: Any) -> Any:
        handle = self._domain.start_range(_real(attributes), **kwargs)
        self._records.start(handle, _text(kwargs.get("message") or attributes))
        return handle

    def end_range(self, range_id: Any) -> Any:
        self._records.end(range_id)
        return self._domain.end_range(range_id)


class Attributes:
    """Event attributes of a domain that nobody listens to."""

    def __init__(self, message: Any) -> None:
        self.message = message


def _real(attributes: Any) -> Any:
    return None if isinstance(attributes, Attributes) else attributes
