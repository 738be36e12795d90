# SPDX-License-Identifier: MIT
"""``--view ops``: where an op was captured, and where its forward ran, as far as any op has it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness import readers
from harness.render import terminal
from harness.render.layout import page
from harness.report import Request, build

Command = Callable[..., tuple[int, str, str]]
RECORDED = Path(__file__).parents[1] / "data" / "recorded"
COLUMNS = {"captured_path": "Captured in", "forward_path": "Forward in"}


def heading(text: str) -> str:
    return next(line for line in text.splitlines() if "GPU op" in line)


@pytest.mark.parametrize("style", ["table", "markdown"])
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("graph-nested-node", {"captured_path"}),
        ("graph-nested-graph", {"captured_path"}),
        ("emit-nvtx", {"forward_path"}),
        ("two-streams", set()),
    ],
)
def test_paths_are_shown_where_any_op_has_one(
    name: str, shown: set[str], style: str, report: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    arguments = (RECORDED / name, "--view", "ops", "--top", "0")
    rows = list(csv.DictReader(io.StringIO(report(*arguments, "--format", "csv")[1])))
    assert {column for column in COLUMNS if any(row[column] for row in rows)} == shown
    text = report(*arguments, "--format", style)[1]
    assert {column for column, title in COLUMNS.items() if title in heading(text)} == shown
    for path in {row[column] for column in shown for row in rows} - {""}:
        assert path in text


def test_three_paths_fit_a_hundred_columns() -> None:
    """The ends of long paths are kept, and the name of the op stays readable."""
    made = build(readers.load(RECORDED / "emit-nvtx"), Request(view="ops", details=False), name="x")
    captured = pd.Categorical([("a" * 30, "captured here")] * len(made.rows))
    both = replace(made, rows=made.rows.assign(captured_path=captured))
    lines = terminal.render(page(both), terminal.Style(width=100)).splitlines()
    assert max(map(len, lines)) <= 100
    title = heading("\n".join(lines))
    assert all(word in title for word in ("Time", "Rule", "Path", *COLUMNS.values()))
    row = next(line for line in lines if "forward / first" in line and "captured here" in line)
    assert row.startswith("sm80_xmma_gemm_") or row.startswith("vectorized_element")
