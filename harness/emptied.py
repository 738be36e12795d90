# SPDX-License-Identifier: MIT
"""Which filter of a selection left nothing: "nothing there" and "nothing kept" are two answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.selection import Selection

if TYPE_CHECKING:
    from harness.attribute import Attribution
    from harness.trace import Trace

#: Option of each field, in the order in which ``harness.select`` applies them.
_OPTIONS = {
    "domains": "--domain",
    "pids": "--pid",
    "time": "--filter-time",
    "devices": "--device",
    "kernel": "--kernel",
    "range": "--range",
    "skip": "--skip",
    "steady": "--steady",
}
_LISTED = 8


@dataclass(frozen=True)
class Emptied:
    """``option`` hid the last GPU op, or the last range; or both."""

    option: str
    message: str
    hint: str


def emptied_by(trace: Trace, policy: str, selection: Selection) -> Emptied | None:
    """The first filter after which nothing of a kind is left that was there before it."""
    from harness import select

    found = trace.attribute(policy=policy)
    before = _shown(found)
    for name, option in _OPTIONS.items():
        value = getattr(selection, name)
        if value == getattr(Selection(), name):
            continue
        found = select.apply(found, replace(Selection(), **{name: value}))
        after = _shown(found)
        what = [
            words
            for words, had, has in zip(("GPU op", "range"), before, after, strict=True)
            if had and not has
        ]
        if what:
            asked = f"{option} {_spelt(name, value)}".rstrip()
            return Emptied(option, f"{asked} left no {' and no '.join(what)}", _hint(trace, name))
        before = after
    return None


def _shown(found: Attribution) -> tuple[int, int]:
    """GPU ops and ranges that are not hidden."""
    ops, ranges = len(found.trace.gpu_ops), len(found.trace.ranges)
    return (
        ops if found.keep_op is None else int(found.keep_op.sum()),
        ranges if found.keep_range is None else int(found.keep_range.sum()),
    )


def is_empty(found: Attribution) -> bool:
    """Whether all GPU ops, or all ranges, of the recording are hidden."""
    return min(_shown(found)) == 0


def _spelt(name: str, value: object) -> str:
    if value is True:
        return ""
    if isinstance(value, tuple) and name == "time":
        return ":".join("" if side is None else str(side) for side in value)
    if isinstance(value, tuple):
        return ", ".join(repr(each) if isinstance(each, str) else str(each) for each in value)
    return repr(value) if isinstance(value, str) else str(value)


def _hint(trace: Trace, name: str) -> str:
    """What there would have been to choose from."""
    if name == "domains":
        there = sorted(trace.ranges["domain"].astype(str).unique())
        return _choices("Domains", [domain or "'' (the default one)" for domain in there])
    if name == "pids":
        return _choices("Processes", sorted(trace.threads["pid"].unique().tolist()))
    if name == "devices":
        return _choices("Devices", sorted(trace.gpu_ops["device"].unique().tolist()))
    if name == "skip":
        return "No path has more instances than that: give a smaller number."
    if name == "time":
        return "Times count from the first event of the recording."
    return ""


def _choices(what: str, there: list[object] | list[str]) -> str:
    more = ", …" if len(there) > _LISTED else ""
    return f"{what} recorded: {', '.join(map(str, there[:_LISTED]))}{more}." if there else ""
