# SPDX-License-Identifier: MIT
"""torch.profiler's two operator tables of many events, from one pass over them.

``key_averages()`` makes a Python object with some fifty attributes of every event, and walks all of
them once a table: about 0.1 ms an event with torch 2.13. Here each event is asked only what the two
tables need, and the sums are put into torch's own classes, which print them. Up to ``FEW`` events,
and where anything is out of the ordinary, the tables are torch's own work.

Runs in the program's interpreter, beside ``torch_runner.py``: standard library and its torch only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Up to this many events torch is asked: that takes no more than two seconds.
FEW = 20_000


class Unusual(Exception):
    """Events that only torch itself knows how to add up."""


def averages(torch: Any, profile: Any, events: list[Any], few: int = FEW) -> tuple[Any, Any]:
    """``key_averages()`` of a finished ``torch.autograd.profiler.profile``, and the same grouped by
    input shape, as torch's ``EventList``. ``events`` are its ``kineto_results.events()``, which
    take 2 µs each to list."""
    if len(events) > few:
        try:
            return _Events(torch.autograd.profiler_util, profile, events).averages()
        except (Unusual, AttributeError, TypeError, ValueError):
            pass  # another torch's events
    return profile.key_averages(), profile.key_averages(group_by_input_shape=True)


class _Events:
    """The profile's events in columns; times in ns. ``group`` numbers (name, device type, user
    annotation, input shapes)."""

    def __init__(self, util: Any, profile: Any, events: list[Any]) -> None:
        self.util, self.profile = util, profile
        if profile.use_device not in (None, "cuda") or profile.profile_memory:
            raise Unusual
        self.start: list[int] = []
        self.end: list[int] = []
        self.thread: list[int] = []
        self.name: list[str] = []
        self.group: list[int] = []
        self.host: list[bool] = []  # on the CPU
        self.sync: list[bool] = []
        self.kernels: list[int] = []  # ns on the device of what it launched itself
        self.keys: list[tuple[str, Any, bool, list[Any]]] = []
        self.launched: dict[int, list[int]] = {}  # correlation -> events
        self.launchers: list[tuple[int, int]] = []  # correlation, event
        self._collect(events)
        self._link()

    def _collect(self, events: list[Any]) -> None:
        numbers: dict[tuple[str, int, bool, str], int] = {}
        shown = _Names(self.util)
        for event in events:
            name = shown[event.name()]
            if name is None or event.is_hidden_event():
                continue
            device, thread = event.device_type(), event.start_thread_id()
            kind, shapes, annotation = int(device), event.shapes(), event.is_user_annotation()
            key = (name, kind, annotation, str(shapes))
            number = numbers.setdefault(key, len(numbers))
            if number == len(self.keys):
                self.keys.append((name, device, annotation, shapes))
            row = len(self.start)
            host, sync = kind == 0, thread == event.end_thread_id() and not event.is_async()
            self.start.append(event.start_ns())
            self.end.append(event.end_ns())
            self.thread.append(thread)
            self.name.append(name)
            self.group.append(number)
            self.host.append(host)
            self.sync.append(sync)
            correlation = event.linked_correlation_id()
            if correlation > 0:
                self.launched.setdefault(correlation, []).append(row)
            elif host and sync:
                self.launchers.append((event.correlation_id(), row))
            if self.profile.use_device and host and sync and event.cuda_elapsed_us() > 0:
                raise Unusual  # timed by CUDA events, without CUPTI
        self.kernels = [0] * len(self.start)

    def _link(self) -> None:
        """A launch's device time is its operator's; its thread is, too."""
        for correlation, row in self.launchers:
            for other in self.launched.get(correlation, ()):
                if self.host[other]:
                    self.thread[other] = self.thread[row]
                else:
                    self.kernels[row] += self.end[other] - self.start[other]

    def averages(self) -> tuple[Any, Any]:
        rows = sorted(range(len(self.start)), key=lambda i: (self.start[i], -self.end[i]))
        children = self._children(rows)
        rows = self._without_wrappers(rows, children)
        device = self._device_totals(rows, children)
        found: dict[int, Any] = {}
        for row in rows:
            number = self.group[row]
            if number not in found:
                found[number] = self._empty(number, row)
            self._add(found[number], row, children.get(row, ()), device)
        by_name: dict[tuple[str, int, bool], Any] = {}
        for number, average in found.items():
            name, kind, annotation, _ = self.keys[number]
            whole = by_name.setdefault((name, int(kind), annotation), self.util.FunctionEventAvg())
            whole.add(average)
        for whole in by_name.values():
            whole.input_shapes = ""
        both = self._listed(by_name.values()), self._listed(found.values())
        for average in (*both[0], *both[1]):
            for field in _TIMES:  # torch's unit is the microsecond
                setattr(average, field, getattr(average, field) / 1000)
        return both

    def _children(self, rows: list[int]) -> dict[int, list[int]]:
        """Direct children of each event: those inside it on its thread. Sets ``parent``."""
        self.parent = [-1] * len(self.start)
        children: dict[int, list[int]] = {}
        stacks: dict[int, list[int]] = {}
        start, end = self.start, self.end
        for row in rows:
            if not (self.host[row] and self.sync[row]):
                continue
            stack = stacks.setdefault(self.thread[row], [])
            while stack:
                top = stack[-1]
                if start[row] >= end[top] or end[row] > end[top]:
                    stack.pop()
                    continue
                children.setdefault(top, []).append(row)
                self.parent[row] = top
                break
            stack.append(row)
        return children

    def _without_wrappers(self, rows: list[int], children: dict[int, list[int]]) -> list[int]:
        """An event whose only child has its name stands for both."""
        parent, name = self.parent, self.name
        while True:
            gone = set()
            for row in rows:
                above = parent[row]
                if above < 0 or name[above] != name[row] or len(children[above]) != 1:
                    continue
                children[above] = children.get(row, [])
                self.kernels[above] = self.kernels[row]
                for below in children[above]:
                    parent[below] = above
                gone.add(row)
            if not gone:
                return rows
            rows = [row for row in rows if row not in gone]

    def _device_totals(self, rows: list[int], children: dict[int, list[int]]) -> list[int]:
        total = [0] * len(self.start)
        if not self.profile.use_device:
            return total
        for row in reversed(rows):  # what is inside an event comes after it
            if not self.sync[row]:
                continue
            if self.host[row]:
                total[row] = self.kernels[row] + sum(total[i] for i in children.get(row, ()))
            else:
                total[row] = self.end[row] - self.start[row]
        return total

    def _empty(self, number: int, first: int) -> Any:
        average = self.util.FunctionEventAvg()
        average.key, average.device_type, average.is_user_annotation, shapes = self.keys[number]
        average.input_shapes, average.overload_name, average.stack = shapes, "", []
        average.node_id, average.is_legacy = -1, False
        average.is_async, average.use_device = not self.sync[first], self.profile.use_device
        return average

    def _add(self, average: Any, row: int, inside: Any, device: list[int]) -> None:
        average.count += 1
        average.device_time_total += device[row]
        if not self.host[row]:
            average.self_device_time_total += device[row]
            return
        length = self.end[row] - self.start[row]
        average.cpu_time_total += length
        if self.sync[row]:
            average.self_cpu_time_total += length - sum(self.end[i] - self.start[i] for i in inside)
            average.self_device_time_total += self.kernels[row] if self.profile.use_device else 0

    def _listed(self, rows: Any) -> Any:
        return self.util.EventList(rows, use_device=self.profile.use_device)


_TIMES = (
    "cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total",
)  # fmt: skip


class _Names(dict[str, "str | None"]):
    """Names as torch's tables show them; None for those they leave out."""

    def __init__(self, util: Any) -> None:
        super().__init__()
        self.filtered: Callable[[str], bool] = util._filter_name
        self.rewritten: Callable[..., str] = util._rewrite_name
        self.of_memory = (util.MEMORY_EVENT_NAME, util.OUT_OF_MEMORY_EVENT_NAME)

    def __missing__(self, name: str) -> str | None:
        if name in self.of_memory:
            raise Unusual
        shown = None if self.filtered(name) else self.rewritten(name=name, with_wildcard=True)
        self[name] = shown
        return shown
