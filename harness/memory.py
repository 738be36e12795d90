# SPDX-License-Identifier: MIT
"""How much memory a report takes, and how the process asks the system for it."""

from __future__ import annotations

import ctypes

# From malloc.h of the GNU C library.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_GIBIBYTE = 1 << 30

#: Memory of a row in flight (launch or GPU op, with its share of the ranges) while its part is
#: attributed, with room for the durations kept, and what Python, pandas and the plan take; in
#: bytes, from runs on 48 million rows (docs/benchmarks.md).
ROW_BYTES = 720
BASE_BYTES = 200_000_000
#: The smallest part that is read, and with it the smallest budget that can be kept.
FEWEST_ROWS = 100_000
LEAST_BYTES = BASE_BYTES + FEWEST_ROWS * ROW_BYTES


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
