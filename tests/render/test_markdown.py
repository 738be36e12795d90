# SPDX-License-Identifier: MIT
"""Markdown that fits a pull request comment, whatever the names are."""

from __future__ import annotations

import pytest

from harness.render import as_markdown
from harness.render.page import Column, Grid, Page, Row, Section


def page(*rows: Row) -> Page:
    return Page("t", ("f",), Grid("Range", (Column("Total"),), rows), (Section("S", ("line",)),))


@pytest.mark.parametrize(
    ("name", "span"),
    [
        ("gemm", "`gemm`"),
        ("a|b", "`a\\|b`"),
        ("tick ` tock", "``tick ` tock``"),
        ("`edge`", "`` `edge` ``"),
        ("@someone <b>*x*</b>", "`@someone <b>*x*</b>`"),
    ],
)
def test_names_are_code_spans(name: str, span: str) -> None:
    assert as_markdown.code(name) == span


def test_plain_text_is_escaped() -> None:
    assert as_markdown.escape("a|b *c* [d] <e> @f") == ("a\\|b \\*c\\* \\[d\\] &lt;e&gt; @\u200bf")


def test_rows_have_as_many_cells_as_the_heading() -> None:
    out = as_markdown.render(page(Row("a|b", ("1 ns",)), Row("c", ("2 ns",), depth=2)))
    lines = [line for line in out.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {3}
    assert "| &emsp;&emsp;`c` | 2 ns |" in lines


def test_a_comment_is_never_too_long_and_says_what_is_missing() -> None:
    out = as_markdown.render(page(*(Row(f"range {i}" * 9, ("1 ns",)) for i in range(5000))))
    assert len(out) <= 60_000
    assert "more rows do not fit a comment" in out
    assert out.rstrip().endswith("```")


def test_a_long_name_is_cut() -> None:
    assert len(as_markdown.render(page(Row("L" * 3000, ("1 ns",))))) < 400
