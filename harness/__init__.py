# SPDX-License-Identifier: MIT
"""What each NVTX range costs on the GPU: attribution, reports and comparisons.

The public names load on first use; importing ``harness`` imports neither torch nor pandas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.comparison import compare as compare
    from harness.ranges import range as range
    from harness.readers import load as load
    from harness.trace import Trace as Trace

__version__ = "0.1.0"
__all__ = ["Trace", "compare", "load", "range"]

_HOMES = {
    "Trace": "harness.trace",
    "compare": "harness.comparison",
    "load": "harness.readers",
    "range": "harness.ranges",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # found without this function from now on: `harness.range` is hot
    return value
