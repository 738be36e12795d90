# SPDX-License-Identifier: MIT
"""Each column's definition is one keystroke away: none may lack one."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness import columns, report, spread
from harness.errors import UsageProblem
from harness.render.grids import RANGE_TIMES
from harness.render.range_tree import OTHER_OPS
from harness.report import Request
from harness.sidebyside import COLUMNS as BOTH
from harness.sidebyside import join

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "h200"


@pytest.mark.parametrize(
    "view", ["ranges", "names", "kernels", "ops", "instances", "layers", "latency"]
)
@pytest.mark.parametrize("name", ["train.sqlite", "train.trace.json.gz"])
def test_every_column_of_a_view_is_defined(view: str, name: str) -> None:
    built = report.build(harness.load(DATA / name), Request(view=view, details=False), name="x")
    assert list(built.rows.columns) == list(columns.VIEWS[view])


def test_every_column_of_the_joined_views_is_defined() -> None:
    trace = harness.load(DATA / "train.sqlite").attribute()
    assert list(join(trace, trace).columns) == list(columns.VIEWS["both"]) == list(BOTH)
    assert list(spread.COLUMNS) == list(columns.VIEWS["spread"])
    assert list(report.TORCH_COLUMNS) == list(columns.VIEWS["torch"])


def test_every_heading_of_the_printed_table_is_defined() -> None:
    for spec in (*RANGE_TIMES, *OTHER_OPS):
        assert spec.heading in columns.HEADINGS


def test_the_page_in_docs_is_what_the_code_says() -> None:
    assert (ROOT / "docs" / "columns.md").read_text() == columns.as_markdown()


def test_definitions_are_sentences_on_one_line() -> None:
    for view, defined in columns.VIEWS.items():
        for column, text in defined.items():
            assert text.endswith("."), (view, column)
            assert "\n" not in text


def test_a_column_that_does_not_exist_names_near_misses() -> None:
    with pytest.raises(UsageProblem) as caught:
        columns.explain("kernel_ns")
    assert "self_kernel_ns" in caught.value.hint
    with pytest.raises(UsageProblem):
        columns.explain("")
