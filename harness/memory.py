# SPDX-License-Identifier: MIT
"""How the process asks the system for memory."""

from __future__ import annotations

import ctypes

# From malloc.h of the GNU C library.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_GIBIBYTE = 1 << 30


def keep_freed_memory() -> None:
    """Let large arrays reuse what earlier ones left, instead of handing it back each time.

    By default every array beyond some hundred kB is mapped anew, and its pages are faulted in and
    zeroed again: on a virtual machine that cost a fifth of a report's time (docs/benchmarks.md).
    Does nothing where the C library is another one.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, _GIBIBYTE)
    mallopt(_TRIM_THRESHOLD, _GIBIBYTE)
    mallopt(_ARENA_MAX, 1)  # an arena a thread would keep what the others could reuse
