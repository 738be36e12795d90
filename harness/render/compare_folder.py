# SPDX-License-Identifier: MIT
"""The comparisons of a folder of runs to an overview: one line a run, then who is alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.render import compare_page
from harness.render.page import Column, Grid, Page, Row, Section
from harness.render.text import plural, printable, ratio

if TYPE_CHECKING:
    from harness.comparison.groups import Group
    from harness.comparison.result import Comparison
    from harness.trace import Warning_

#: Runs or comparisons that a warning names, of those that it is about; --all names all.
NAMED = 2

_COLUMNS = (
    Column("Faster"),
    Column("Slower"),
    Column("Same", keep=7),
    Column("Unsure"),
    Column("New, gone", keep=6),
    Column("Most changed", right=False, end=True),
    Column("Options", right=False, keep=5),
)


def pages(
    folder: str,
    groups: Sequence[Group],
    alone: Sequence[str],
    top: int | None = None,
    every: bool = False,
) -> list[Page]:
    """The overview, a brief page of the first comparison (or ``every`` one), and what all warn
    of, once. The first is that of the newest run that has one like it."""
    compared = [comparison for group in groups for comparison in group.compared]
    more = 0 if every else len(compared) - 1
    first = overview(folder, groups, alone, more)
    if len(compared) == 1:
        rows = compare_page.TABLE_ROWS if top is None else top
        return [first, compare_page.page(compared[0], top=rows)]
    rows = compare_page.BRIEF_ROWS if top is None else top
    shown = compared if every else compared[:1]
    warnings = compare_page.warnings(_told(compared, len(compared) * 3 if every else NAMED))
    last = [Page(warnings.title, warnings.lines, None)] if warnings else []
    return [first, *(compare_page.brief(each, top=rows) for each in shown), *last]


def _told(compared: Sequence[Comparison], names: int) -> Iterator[Warning_]:
    """What is said alike of several runs or comparisons once, with the first ``names`` of them; of
    all comparisons, without."""
    of: dict[Warning_, dict[str, None]] = {}
    everywhere = {f"{each.base['name']} → {each.new['name']}" for each in compared}
    for each in compared:
        base, new = (str(side["name"]) for side in (each.base, each.new))
        for warning in each.warnings:
            # A warning that is about one of the two runs begins with its name.
            run = next((n for n in (base, new) if warning.message.startswith(f"{n}: ")), None)
            if run is not None:
                warning = replace(warning, message=warning.message.removeprefix(f"{run}: "))
            of.setdefault(warning, {})[run or f"{base} → {new}"] = None
    for warning, whom in of.items():
        if set(whom) == everywhere:
            yield warning
            continue
        more = f" and {len(whom) - names} more" if len(whom) > names else ""
        who = f"{', '.join([*whom][:names])}{more}"
        yield replace(warning, message=f"{who}: {warning.message}")


def overview(folder: str, groups: Sequence[Group], alone: Sequence[str], more: int = 0) -> Page:
    """What was compared with what, and how it ended; ``alone`` are runs with none like them, and
    ``more`` comparisons have no page below."""
    compared = [comparison for group in groups for comparison in group.compared]
    runs = len(compared) + len(groups) + len(alone)
    many = f"{plural(len(groups), 'group')} of one program, shape and GPU"
    many += " each" if len(groups) > 1 else ""
    facts = []
    if alone:
        facts.append(f"alone: {', '.join(map(printable, alone))}")
    facts.append(
        "harness compare BASE NEW compares any two, in full; --baseline NAME every run with one."
    )
    if more:
        others = "other one" if more == 1 else f"other {more}"
        facts.append(f"Below, the newest comparison; --all shows the {others}, range by range.")
    sections = [_section(group) for group in groups]
    return Page(
        title=f"{printable(folder)}: {plural(runs, 'run')}, {many},"
        f" {plural(len(compared), 'comparison')}",
        facts=tuple(facts),
        grid=None,
        sections=tuple(sections),
    )


def _section(group: Group) -> Section:
    base = printable(str(group.compared[0].base["name"]))
    rows = tuple(
        Row(
            printable(str(comparison.new["name"])),
            (*_outcome(comparison), printable(options) if options else ""),
            tone="warn" if comparison.counts()["slower"] else "",
        )
        for comparison, options in zip(group.compared, group.options, strict=True)
    )
    title = f"{printable(str(group.kind))}: against {base}"
    return Section(title, grid=Grid("Run", _COLUMNS, rows))


def _outcome(comparison: Comparison) -> tuple[str, ...]:
    """How many ranges got each verdict, and the one that changed most; where nothing is comparable,
    why."""
    if comparison.blocked:
        names = ", ".join(fact.name for fact in comparison.blocked)
        return ("", "", "", "", "", f"not comparable: {names}")
    counts = comparison.counts()
    numbers = [*map(counts.__getitem__, ("faster", "slower", "same", "unsure"))]
    numbers.append(counts["new"] + counts["gone"])
    changed = next((row for row in comparison.items if row.verdict in ("faster", "slower")), None)
    most = f"{compare_page.label(changed)} {ratio(changed.ratio)}" if changed else ""
    return (*(str(number) if number else "" for number in numbers), most)
