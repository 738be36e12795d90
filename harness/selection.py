# SPDX-License-Identifier: MIT
"""What part of a report the user asked for. Parsed by the CLI, applied by ``harness.select``."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass


@dataclass(frozen=True)
class Selection:
    """Which ranges, launches and GPU ops to keep.

    ``skip`` drops the first N instances of each path, ``steady`` those before a path settles.
    ``time`` is in nanoseconds from the first event of the trace; ``None`` leaves a side open.
    ``range`` and ``kernel`` are regular expressions searched in names.
    """

    skip: int = 0
    steady: bool = False
    time: tuple[int | None, int | None] | None = None
    range: str | None = None
    domains: tuple[str, ...] = ()
    kernel: str | None = None
    devices: tuple[int, ...] = ()
    pids: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return self != Selection()


def available() -> bool:
    """Whether the engine can apply a Selection: the options appear only then."""
    return importlib.util.find_spec("harness.select") is not None
