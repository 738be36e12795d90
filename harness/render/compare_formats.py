# SPDX-License-Identifier: MIT
"""Comparisons as JSON (``harness.compare/1``) and csv."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    import pandas as pd

    from harness.comparison.gate import Outcome
    from harness.comparison.result import Comparison


def as_json(
    comparisons: Sequence[Comparison], outcome: Outcome | None = None, alone: Sequence[str] = ()
) -> str:
    """The first comparison as the document; any others, whole, under ``others``. ``alone`` are the
    runs of a folder that none was like."""
    first, *others = (comparison.as_dict() for comparison in comparisons)
    document: dict[str, Any] = dict(first)
    if outcome is not None:
        document["gate"] = {"exit_code": int(outcome.code), "message": outcome.message}
    if others:
        document["others"] = others
    if alone:
        document["alone"] = list(alone)
    try:
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"
    except TypeError:
        # orjson refuses lone surrogates, which a name that is not UTF-8 is read as.
        return json.dumps(document, indent=2) + "\n"


def frame(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """All rows; with several comparisons, the names of both sides come first."""
    import pandas as pd

    frames = [comparison.rows for comparison in comparisons]
    if len(comparisons) > 1:
        for rows, comparison in zip(frames, comparisons, strict=True):
            rows.insert(0, "new", comparison.new["name"])
            rows.insert(0, "base", comparison.base["name"])
    out = pd.concat(frames, ignore_index=True)
    return out.assign(explanation=["; ".join(phrases) for phrases in out["explanation"]])
