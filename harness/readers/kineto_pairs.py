# SPDX-License-Identifier: MIT
"""Begin and end events (``ph`` B and E) joined to complete ones (X).

Kineto writes complete events; other writers of the format, and tools that split traces, use pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any

import msgspec

from harness.readers.kineto_events import Event

_HALVES = frozenset(("B", "E"))
_PH = attrgetter("ph")


class Pairs:
    """Collects B and E events of a file; they pair within a thread, innermost first, by time."""

    def __init__(self) -> None:
        self._halves: list[Event] = []

    def sift(self, events: Sequence[Event]) -> Sequence[Event]:
        """The other events; halves are kept."""
        if _HALVES.isdisjoint(map(_PH, events)):
            return events
        self._halves += [event for event in events if event.ph in _HALVES]
        return [event for event in events if event.ph not in _HALVES]

    def closed(self) -> list[Event]:
        """One event per B: with a duration where its E was found, without where it was not."""
        stacks: dict[Any, list[Event]] = {}
        done: list[Event] = []
        for event in sorted(self._halves, key=_time):
            stack = stacks.setdefault((str(event.pid), str(event.tid)), [])
            if event.ph == "B":
                stack.append(event)
            elif stack:
                done.append(_complete(stack.pop(), _time(event)))
        return done + [_complete(event, None) for stack in stacks.values() for event in stack]


def _time(event: Event) -> Decimal:
    # repr of a double gives the shortest text that reads back as it: the one in the file.
    return Decimal(str(event.ts)) if isinstance(event.ts, int | float | Decimal) else Decimal(0)


def _complete(begin: Event, end: Decimal | None) -> Event:
    length = None if end is None else end - _time(begin)
    return msgspec.structs.replace(begin, ph="X", ts=_time(begin), dur=length)
