# SPDX-License-Identifier: MIT
"""A Page as GitHub markdown, short enough for a pull request comment."""

from __future__ import annotations

import re

from harness.render.page import Grid, Page, Row, Section
from harness.words import agree, plural

#: GitHub refuses comments above 65 536 characters.
MAX_CHARACTERS = 60_000
MAX_NAME = 200
#: Longest line, and most lines, of what stands around the table.
MAX_LINE = 400
MAX_LINES = 20


def render(page: Page) -> str:
    """The page; rows that would not fit a comment are counted instead."""
    head = [f"### {escape(page.title)}", ""]
    head += [f"{escape(fact)}  " for fact in page.facts]
    tail = [line for section in page.sections for line in _section(section)]
    room = MAX_CHARACTERS - _size(head) - _size(tail)
    body = _grid(page.grid, room) if page.grid is not None else []
    return "\n".join([*head, "", *body, *tail]).rstrip("\n") + "\n"


def _size(lines: list[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _grid(grid: Grid, room: int) -> list[str]:
    headings = [grid.heading, *(column.heading for column in grid.columns)]
    rules = [":--", *("--:" if column.right else ":--" for column in grid.columns)]
    lines = [_line([escape(heading) for heading in headings]), _line(rules)]
    notes = [f"{escape(note[:MAX_LINE])}  " for note in grid.after[:MAX_LINES]]
    used = _size(lines) + _size(notes) + 60  # the note on what did not fit
    for index, row in enumerate(grid.rows):
        line = _line([_name(row), *(escape(cell) for cell in row.cells)])
        used += len(line) + 1
        if used > room:
            left = len(grid.rows) - index
            notes.insert(
                0, f"{plural(left, 'more row')} {agree(left, 'does', 'do')} not fit a comment.  "
            )
            break
        lines.append(line)
    return [*lines, "", *notes]


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _name(row: Row) -> str:
    name = row.name if len(row.name) <= MAX_NAME else row.name[: MAX_NAME - 1] + "…"
    text = f"**{escape(name)}**" if row.tone == "head" else code(name)
    return "&emsp;" * row.depth + text + escape(row.tail)


def code(text: str) -> str:
    """A code span inside a table cell: nothing in it is markup, a mention or a cell border."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    # GitHub splits cells before it reads code spans, so a pipe is escaped even in one.
    return fence + pad + text.replace("|", "\\|") + pad + fence


def escape(text: str) -> str:
    """Plain text: markup characters shown as they are, and @ does not call anybody."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", text)
    return text.replace("@", "@\u200b")


def _section(section: Section) -> list[str]:
    lines = ["", f"**{escape(section.title)}**", ""]
    if section.lines:
        shown = [line[:MAX_LINE].replace("```", "'''") for line in section.lines[:MAX_LINES]]
        if len(section.lines) > MAX_LINES:
            shown.append(f"and {plural(len(section.lines) - MAX_LINES, 'more line')}")
        lines += ["```text", *shown, "```"]
    if section.grid is not None:
        lines += _grid(section.grid, MAX_CHARACTERS // 10)
    return lines
