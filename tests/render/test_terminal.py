# SPDX-License-Identifier: MIT
"""Pages to terminal text: width, cutting, plainness."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from harness.render.page import Column, Grid, Page, Row, Section
from harness.render.terminal import Style, fit, name_cell, render

COLUMNS = (Column("Inst", keep=5), Column("Total"), Column("Busy", keep=1))


def grid(*names: str, depth: int = 0, tail: str = "") -> Grid:
    rows = tuple(Row(name, ("10", "4.365 ms", "4.365 ms"), depth, tail) for name in names)
    return Grid("Range", COLUMNS, rows)


def test_every_line_fits_the_width() -> None:
    page = Page(
        "title " * 40, ("fact " * 40,), grid("a", "L" * 3000), (Section("s", ("x " * 99,)),)
    )
    for width in (40, 60, 100, 200):
        lines = render(page, Style(width)).splitlines()
        assert max(map(cell_len, lines)) <= width


def test_plain_text_has_no_escapes_and_no_trailing_blanks() -> None:
    out = render(Page("t", (), grid("a", "b")), Style(100))
    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())
    assert out.endswith("ms\n")


def test_colour_only_when_asked() -> None:
    assert "\x1b[1m" in render(Page("t", (), grid("a")), Style(100, color=True))


def test_markup_and_emoji_codes_in_names_are_text() -> None:
    out = render(Page("t", (), grid("[red]x[/red]", ":rocket:", "[/]")), Style(100, color=True))
    assert "[red]x[/red]" in out
    assert ":rocket:" in out
    assert "[/]" in out


def test_long_names_are_cut_but_keep_their_tail() -> None:
    cell = name_cell(Row("L" * 3000, (), 1, " [open]"), 30)
    assert cell == "  " + "L" * 20 + "… [open]"


def test_wide_characters_count_double() -> None:
    assert cell_len(name_cell(Row("中" * 50, ()), 20)) <= 20


def test_a_tree_deeper_than_the_column_shows_its_depth_as_a_number() -> None:
    assert name_cell(Row("leaf", (), 40), 20) == "+40 leaf"


def test_the_end_of_a_path_is_kept() -> None:
    row = Row("step / forward / block / attention", (), end=True)
    assert name_cell(row, 20) == "…/ block / attention"
    assert cell_len(name_cell(Row("中" * 50, (), end=True), 20)) <= 20


def test_text_columns_leave_room() -> None:
    columns = (Column("Time"), Column("Path", right=False, end=True))
    rows = (Row("kernel" * 20, ("1 ns", "outer / " * 300 + "leaf")),)
    lines = render(Page("t", (), Grid("GPU op", columns, rows)), Style(100)).splitlines()
    assert max(map(cell_len, lines)) <= 100
    assert lines[-1].endswith("leaf")


def test_columns_line_up_under_wide_names() -> None:
    lines = render(Page("t", (), grid("é中文🚀", "plain")), Style(100)).splitlines()
    ends = {cell_len(line) for line in lines if line.endswith("4.365 ms")}
    assert len(ends) == 1


@pytest.mark.parametrize(
    ("width", "shown"), [(100, [0, 1, 2]), (40, [0, 1]), (34, [0, 1]), (30, [1])]
)
def test_the_least_wanted_columns_give_way_first(width: int, shown: list[int]) -> None:
    assert fit(grid("N" * 25), width)[0] == shown


def test_what_was_left_out_is_said() -> None:
    assert "(too narrow for: Busy)" in render(Page("t", (), grid("N" * 25)), Style(40))


def test_indentation_survives_wrapping() -> None:
    out = render(Page("t", (), None, (Section("s", ("word " * 30,)),)), Style(60))
    body = out.splitlines()[3:]
    assert all(line.startswith("  ") for line in body)


def test_an_ascii_terminal_gets_ascii() -> None:
    page = Page("a · b", (), Grid("Range", (Column("T"),), (Row("é", ("1.000 µs",)),)))
    assert render(page, Style(100, unicode=False)).isascii()
