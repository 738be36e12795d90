# SPDX-License-Identifier: MIT
"""What a printed report consists of, before it is a terminal table or markdown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """``heading`` may hold one ``: `` to split it in two lines. The least ``keep`` goes first when
    the terminal is narrow; ``keep`` 9 always stays."""

    heading: str
    right: bool = True
    keep: int = 9
    end: bool = False  # of a text too long, show the end


@dataclass(frozen=True)
class Row:
    """``name`` is printable text cut to fit; ``tail`` follows it and is never cut."""

    name: str
    cells: tuple[str, ...]
    depth: int = 0
    tail: str = ""
    end: bool = False  # of a name too long, show the end: the leaf of a path
    tone: str = ""  # "" | "dim" | "warn" | "head"


@dataclass(frozen=True)
class Grid:
    """A table: the rows' names under ``heading``, then ``columns``."""

    heading: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    after: tuple[str, ...] = ()  # notes below: what was cut, footnotes


@dataclass(frozen=True)
class Section:
    """Lines under a heading; ``grid`` is printed after ``lines``."""

    title: str
    lines: tuple[str, ...] = ()
    grid: Grid | None = None
    tone: str = ""


@dataclass(frozen=True)
class Page:
    """``title`` and ``facts`` above, then the main table, then the sections."""

    title: str
    facts: tuple[str, ...]
    grid: Grid | None
    sections: tuple[Section, ...] = ()
