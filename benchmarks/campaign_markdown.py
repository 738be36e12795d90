# SPDX-License-Identifier: MIT
"""Markdown for docs/h200.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.render.text import duration as _duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from campaign_evidence import Recorded

    from harness.comparison import Comparison

TO = "\N{EN DASH}"  # of a range of figures
MISSING = TO


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A markdown table; the columns after the first ``left`` are right-aligned."""
    rules = ["---"] * left + ["--:"] * (len(headings) - left)
    lines = [headings, rules, *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def duration(ns: float) -> str:
    return " ".join(_duration(ns).split())


def percent(fraction: float, digits: int = 1) -> str:
    """``1.9 %``; a sign only where there is a difference to speak of."""
    return f"{100 * fraction:.{digits}f} %".replace("-0.0 %", "0.0 %")


def names(runs: Iterable[Recorded]) -> str:
    return ", ".join(f"`{one.name}`" for one in runs)


def shape(one: Recorded) -> str:
    return f"{one.shape[0]}x{one.shape[1]}"


def recorded(runs: Sequence[Recorded], how: str) -> str:
    """The runs a table is made from, and the commands to record and to see them."""
    commands = "\n".join(f"    {one.command}" for one in runs)
    return f"From {names(runs)}; {how}. Recorded by\n\n{commands}"


def rows_of(frame: Any) -> list[Any]:
    """A frame's rows as named tuples, whose values are what the frame's documentation says."""
    return list(frame.itertuples())


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


def in_its_words(base: str, new: str, found: Comparison) -> str:
    """The command that compares ``base`` and ``new``, what forbids a verdict without --force, and
    compare's sentence."""
    forced = " --force" if found.forced else ""
    summary = found.summary.replace("*", "\\*")
    return f"`harness compare {base} {new}{forced}`{_forbidden(found)}\n\n> {summary}"


def _forbidden(comparison: Comparison) -> str:
    if not comparison.forced:
        return ""
    facts = [f"{fact.name} ({fact.base} → {fact.new})" for fact in comparison.facts if fact.blocks]
    return f"; without `--force` there is no verdict, for these differ: {', '.join(facts)}"
