# SPDX-License-Identifier: MIT
"""How many processor cores this process may keep busy."""

from __future__ import annotations

import os

_most: int | None = None


def cores() -> int:
    """Those the system gives (containers and batch systems give fewer than the machine has), or
    fewer where ``use_at_most`` said so."""
    given = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return given if _most is None else min(given, _most)


def use_at_most(count: int) -> None:
    """From now on: for one of several processes that divide the machine among themselves, and
    would only get in each other's way with threads."""
    global _most
    _most = max(1, count)
