# SPDX-License-Identifier: MIT
"""A Page as terminal text, through Rich: aligned, cut to the width, coloured only when asked."""

from __future__ import annotations

import io
import textwrap
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.render.page import Column, Grid, Page, Row, Section
from harness.render.text import ascii_only

#: A name column narrower than this makes other columns give way.
MIN_NAME = 18
INDENT = "  "
_TONES = {"": "", "dim": "dim", "warn": "yellow", "head": "bold", "bad": "red"}


@dataclass(frozen=True)
class Style:
    """The terminal: how wide, coloured or not, and whether its encoding has more than ASCII."""

    width: int = 100
    color: bool = False
    unicode: bool = True


def render(page: Page, style: Style) -> str:
    """The page, ending in a newline; no trailing blanks, no escapes unless ``style.color``."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(style.width, 40),
        force_terminal=style.color,
        no_color=not style.color,
        color_system="standard" if style.color else None,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        legacy_windows=False,
        # A caller's COLUMNS and TERM were already read into ``style``.
        _environ={},
    )
    _print_page(console, page)
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    text = "\n".join(lines).rstrip("\n") + "\n"
    return text if style.unicode else ascii_only(text)


def _print_page(console: Console, page: Page) -> None:
    _line(console, page.title, "bold")
    for fact in page.facts:
        _line(console, fact)
    if page.grid is not None:
        console.print()
        _print_grid(console, page.grid)
    for section in page.sections:
        console.print()
        _print_section(console, section)


def _print_section(console: Console, section: Section) -> None:
    if section.title:
        _line(console, section.title, f"bold {_TONES[section.tone]}".strip())
    for line in section.lines:
        _line(console, f"  {line}")
    if section.grid is not None:
        _print_grid(console, section.grid)


def _line(console: Console, text: str, style: str = "") -> None:
    """One paragraph, wrapped with its own indentation kept."""
    indent = " " * (len(text) - len(text.lstrip()))
    wrapped = textwrap.wrap(
        text,
        console.width,
        subsequent_indent=indent + INDENT,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
        expand_tabs=False,
    )
    for piece in wrapped or [""]:
        console.print(Text(piece, style=style), overflow="ignore", no_wrap=True, crop=False)


def _print_grid(console: Console, grid: Grid) -> None:
    columns, name_width, gap = fit(grid, console.width)
    most = [_column_width(grid, i, console.width) for i in range(len(grid.columns))]
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, show_edge=False)
    table.add_column(Text(grid.heading), no_wrap=True, width=name_width)
    for index in columns:
        column = grid.columns[index]
        table.add_column(
            Text(_heading(column), justify="right" if column.right else "left"),
            justify="right" if column.right else "left",
            no_wrap=True,
            vertical="bottom",
        )
    for row in grid.rows:
        style = _TONES[row.tone]
        cells = [
            Text(cut(row.cells[i], most[i], end=grid.columns[i].end), style=style) for i in columns
        ]
        table.add_row(Text(name_cell(row, name_width), style=style), *cells)
    console.print(table)
    for note in grid.after:
        _line(console, note, "")
    left_out = [c.heading for i, c in enumerate(grid.columns) if i not in columns]
    if left_out:
        _line(console, f"(too narrow for: {', '.join(left_out)})", "dim")


def _heading(column: Column) -> str:
    return column.heading.replace(": ", "\n")


def name_cell(row: Row, width: int) -> str:
    """The indented name, cut in front of its tail so that both fit in ``width`` cells."""
    indent = INDENT * row.depth
    room = max(width - cell_len(row.tail), 8)
    # A tree deeper than the column is wide would leave no room for names.
    if cell_len(indent) > room // 2:
        indent = f"+{row.depth} "
    return indent + cut(row.name, room - cell_len(indent), end=row.end) + row.tail


def cut(text: str, width: int, *, end: bool) -> str:
    """``text`` in at most ``width`` cells; ``end`` keeps its end instead of its start."""
    if cell_len(text) <= width:
        return text
    if not end:
        return set_cell_size(text, width - 1).rstrip() + "…"
    kept = text[-width:]  # a character is at least one cell wide, or joins another
    while cell_len(kept) > width - 1:
        kept = kept[1:]
    return "…" + kept.lstrip()


def fit(grid: Grid, width: int) -> tuple[list[int], int, int]:
    """Which columns to print, the width of the name column, and the gap between columns."""
    widths = [_column_width(grid, i, width) for i in range(len(grid.columns))]
    wanted = max(
        (cell_len(INDENT * row.depth + row.name + row.tail) for row in grid.rows), default=0
    )
    wanted = max(wanted, len(grid.heading))
    shown = list(range(len(grid.columns)))
    while True:
        rooms = {gap: width - sum(widths[i] + gap for i in shown) for gap in (2, 1)}
        for gap, room in rooms.items():
            if room >= wanted:
                return shown, wanted, gap
        if rooms[1] >= MIN_NAME:
            gap = 2 if rooms[2] >= MIN_NAME + 8 else 1
            return shown, rooms[gap], gap
        droppable = [i for i in shown if grid.columns[i].keep < 9]
        if not droppable:
            return shown, max(rooms[1], 8), 1
        shown.remove(min(droppable, key=lambda i: grid.columns[i].keep))


def _column_width(grid: Grid, index: int, width: int) -> int:
    """Widest cell of a column; a column of text takes at most a third of the terminal, and all
    those that show the end of a path half of it together."""
    column = grid.columns[index]
    heading = max(map(cell_len, _heading(column).split("\n")))
    widest = max([heading, *(cell_len(row.cells[index]) for row in grid.rows)])
    paths = sum(each.end for each in grid.columns)
    share = width // 3 if paths < 2 or not column.end else width // (2 * paths)
    return widest if column.right else min(widest, max(heading, share))
