# SPDX-License-Identifier: MIT
"""A Comparison to a Page: the sentence, the table, why and how sure, what else differs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.comparison.explain import CHANGED
from harness.comparison.kernel_names import short
from harness.comparison.verdict import TO, percent
from harness.render.facts import describe
from harness.render.page import Column, Grid, Page, Row, Section
from harness.render.text import (
    MISSING,
    UNNAMED,
    duration,
    plural,
    printable,
    printable_path,
    ratio,
)

if TYPE_CHECKING:
    from harness.comparison.gate import Outcome
    from harness.comparison.result import Comparison
    from harness.comparison.result import Row as Compared
    from harness.trace import Warning_

#: Rows and reasons a printed page has; csv and JSON always have all.
TABLE_ROWS = 60
REASONS = 12
#: Rows of one of many pages.
BRIEF_ROWS = 12
#: Paths longer than this lose their outermost names: the end is what tells them apart.
_LONGEST_PATH = 44

_TONES = {"faster": "", "slower": "warn", "same": "dim", "unsure": "", "new": "", "gone": ""}
_COLUMNS = (
    Column("Base"),
    Column("New"),
    Column("Ratio"),
    Column("95% interval", keep=7),
    Column("p", keep=5),
    Column("n", keep=6),
    Column("Verdict", right=False),
)


def page(comparison: Comparison, *, top: int = TABLE_ROWS, outcome: Outcome | None = None) -> Page:
    """The page of one comparison; ``top`` 0 shows all rows."""
    sections = (
        _gate(outcome),
        _reasons(comparison),
        _differences(comparison),
        warnings(comparison.warnings),
    )
    base, new = (printable(str(side["name"])) for side in (comparison.base, comparison.new))
    return Page(
        title=printable(comparison.summary),
        facts=tuple(
            line
            for line in (
                f"{base} → {new} · {_unit(comparison)}",
                describe(comparison.selection),
                _method(comparison),
            )
            if line
        ),
        grid=_grid(comparison, top),
        sections=tuple(section for section in sections if section is not None),
    )


def brief(comparison: Comparison, *, top: int = BRIEF_ROWS) -> Page:
    """The page of one of many: fewer rows, the sentence on top for reasons, and no warnings, which
    many have in common."""
    differences = _differences(comparison)
    return replace(page(comparison, top=top), sections=(differences,) if differences else ())


def _unit(comparison: Comparison) -> str:
    counts = (
        f"{comparison.base['captures']} against {plural(comparison.new['captures'], 'capture')}"
    )
    if comparison.in_turn:
        counts += " recorded in turn"
    what = "GPU time" if comparison.measure == "gpu" else "CPU time"
    each = "execution" if comparison.by == "kernels" else "instance"
    return f"{counts} · {what} of one {each}, median · policy {comparison.policy}"


def _method(comparison: Comparison) -> str:
    words = ", ".join(f"{n} {word}" for word, n in comparison.counts().items() if n)
    return f"Threshold ±{percent(comparison.threshold)}: {words}"


def _grid(comparison: Comparison, top: int) -> Grid:
    shown = comparison.items[:top] if top else comparison.items
    rest = len(comparison.items) - len(shown)
    notes = ["Most changed first. Ratio is new over base; p is corrected for all rows; n counts"]
    notes[0] += (
        " captures." if all(r.unit != "instance" for r in shown) else " the sample's values."
    )
    if rest:
        notes.insert(0, f"{plural(rest, 'more row')} (--top 0 shows all)")
    heading = "Kernel" if comparison.by == "kernels" else "Range"
    return Grid(heading, _COLUMNS, tuple(_row(row) for row in shown), tuple(notes))


def _row(row: Compared) -> Row:
    interval = MISSING
    if row.ci_low is not None and row.ci_high is not None:
        interval = f"{ratio(row.ci_low)}{TO}{ratio(row.ci_high)}"
    cells = (
        duration(row.base_ns),
        duration(row.new_ns),
        ratio(row.ratio),
        interval,
        p_value(row.p_adjusted),
        f"{row.n_base}/{row.n_new}",
        row.verdict,
    )
    return Row(label(row), cells, tone=_TONES[row.verdict])


def label(row: Compared) -> str:
    """The path, outermost names left out when it is long; a kernel stands after its range."""
    if row.kernel:
        return f"{printable(row.name)}: {printable(short(row.kernel))}"
    names = [printable(name) for name in row.path] or [UNNAMED]
    text = " / ".join(names)
    while len(text) > _LONGEST_PATH and len(names) > 1:
        names = names[1:]
        text = "… / " + " / ".join(names)
    return f"{printable(row.domain)}: {text}" if row.domain else text


def p_value(p: float | None) -> str:
    if p is None:
        return MISSING
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _gate(outcome: Outcome | None) -> Section | None:
    if outcome is None:
        return None
    tone = "bad" if outcome.code else ""
    return Section("Gate", (printable(outcome.message),), tone=tone)


def _reasons(comparison: Comparison) -> Section | None:
    """Why, for what changed; what would settle it, for what is unsure."""
    told = [r for r in comparison.items if r.explanation or r.verdict not in ("same", *CHANGED)]
    if comparison.blocked:
        told = [row for row in told if row.verdict != "unsure"]
    lines = []
    for row in told[:REASONS]:
        why = "; ".join(map(printable, row.explanation))
        text = f"{row.reason}; {why}" if why and row.verdict == "unsure" else why or row.reason
        lines.append(f"{printable_path(row.path)}{_of(row)} {row.verdict}: {text}")
    if len(told) > REASONS:
        lines.append(f"and {plural(len(told) - REASONS, 'more row')} (--format json has all)")
    return Section("Why", tuple(lines)) if lines else None


def _of(row: Compared) -> str:
    return f", {printable(short(row.kernel))}," if row.kernel else ""


def _differences(comparison: Comparison) -> Section | None:
    lines = [
        f"{fact.name}: {printable(fact.base)} → {printable(fact.new)}"
        for fact in comparison.facts
        if fact.blocks or fact.differs
    ]
    if not lines:
        return None
    if comparison.blocked:
        lines.append(
            "Each could explain a change by itself: no verdicts. --force gives them anyway."
        )
    return Section(
        "Differs between the runs", tuple(lines), tone="bad" if comparison.blocked else ""
    )


def warnings(found: Iterable[Warning_]) -> Section | None:
    lines: list[str] = []
    said = {""}
    for warning in found:
        lines.append(f"{printable(warning.message)} [{warning.code}]")
        if warning.hint not in said:  # many runs may need the same
            lines.append(f"  {printable(warning.hint)}")
            said.add(warning.hint)
    return Section("Warnings", tuple(lines), tone="warn") if lines else None
