# SPDX-License-Identifier: MIT
"""Why a range changed, from its kernels; and the one sentence on top of a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.comparison.kernel_names import listed, short, telling_word
from harness.comparison.result import Fact, Row
from harness.comparison.sides import KernelUse, Key, Side
from harness.comparison.verdict import describe_change, describe_interval, percent

CHANGED = ("faster", "slower")
#: A kernel is blamed when it carries this part of its range's change.
_MOST = 0.5
#: Changes of means and of medians further apart than this factor are not of the same thing.
_MEANS_AGREE = 2.0
#: Idle time is worth a word when it grew or shrank by this part of the range's GPU time.
_IDLE_SHARE = 0.1
#: The same where the GPU time did not change: idle time follows the CPU, whose noise is large.
_IDLE_SHARE_UNCHANGED = 0.5
#: Instance counts further apart than this are in the sentence.
_COUNT_CHANGE = 0.05
#: Ranges named in the sentence before the rest is counted.
_NAMED = 3

#: Beginnings of what the sentence says even of a range whose GPU time is the same.
_WORTH_SAYING = ("now runs", "also runs", "no longer runs", "runs more", "runs fewer", "has more")

Uses = Mapping[str, KernelUse]


def explain(key: Key, base: Side, new: Side, base_ns: float, new_ns: float) -> tuple[str, ...]:
    """Phrases, most telling first: kernels replaced, launches added, kernels slower, idle,
    instances. Empty when nothing stands out. ``base_ns`` and ``new_ns`` are the median GPU times
    of an instance, which differ for sure."""
    old, now = base.kernel_use(key), new.kernel_use(key)
    found = _replaced(old, now) + _launches(old, now)
    if not found:
        found = _same_kernels(old, now, new_ns - base_ns)
    if base_ns:
        found += _idle(base.idle(key), new.idle(key), base_ns)
    return (*found, *other_count(base.instances(key), new.instances(key)))


def _replaced(old: Uses, now: Uses) -> list[str]:
    vanished = _by_time({name: use for name, use in old.items() if name not in now})
    appeared = _by_time({name: use for name, use in now.items() if name not in old})
    if vanished and appeared:
        word = telling_word(appeared, vanished)
        if set(map(short, appeared)) == set(map(short, vanished)):
            return [f"now runs other instantiations of {listed(appeared)}"]
        instead = f"{listed(appeared)} instead of {listed(vanished)}"
        return [f"now runs {word} kernels ({instead})" if word else f"now runs {instead}"]
    if appeared:
        return [f"also runs {listed(appeared)}"]
    if vanished:
        return [f"no longer runs {listed(vanished)}"]
    return []


def _by_time(uses: Uses) -> list[str]:
    return sorted(uses, key=lambda name: -uses[name].ns)


def _launches(old: Uses, now: Uses) -> list[str]:
    before, after = (sum(use.count for use in uses.values()) for uses in (old, now))
    if round(before, 2) == round(after, 2):
        return []
    more = "more" if after > before else "fewer"
    return [f"runs {more} kernels an instance ({before:.4g} → {after:.4g})"]


def _same_kernels(old: Uses, now: Uses, change_ns: float) -> list[str]:
    """Kernels and counts agree: which of them carry the change?

    Times of kernels are means. Where one slow instance makes these say something else than the
    medians, which the verdict is about, no kernel is blamed.
    """
    changes = {name: now[name].ns - old[name].ns for name in old if name in now and old[name].ns}
    if not changes or not change_ns:
        return []
    word = "slower" if change_ns > 0 else "faster"
    if len(changes) == 1:
        return [f"runs the same kernel, {word}"]
    total = sum(changes.values())
    if not 1 / _MEANS_AGREE <= total / change_ns <= _MEANS_AGREE:
        return [f"runs the same kernels, {word}"]
    largest = max(changes, key=lambda name: changes[name] * (1 if total > 0 else -1))
    shifts = [now[name].ns / old[name].ns - 1 for name in changes]
    sizes = [abs(shift) for shift in shifts]
    if all(shift * total > 0 for shift in shifts) and max(sizes) < 2 * min(sizes):
        return [f"runs the same kernels, all {word} alike"]
    if changes[largest] / total >= _MOST:
        ratio = now[largest].ns / old[largest].ns
        return [f"runs the same kernels, {short(largest)} {describe_change(ratio)}"]
    return [f"runs the same kernels, {word}"]


def _idle(before: float, after: float, base_ns: float) -> list[str]:
    if not abs(after - before) > _IDLE_SHARE * base_ns:  # NaN: not known
        return []
    word = "more" if after > before else "less"
    return [f"has {word} idle between its GPU ops ({_us(before)} → {_us(after)} an instance)"]


def _us(ns: float) -> str:
    return f"{ns / 1000:.1f} µs"


def beside_gpu_time(key: Key, base: Side, new: Side, base_ns: float | None) -> tuple[str, ...]:
    """What an unchanged GPU time an instance hides: other kernels, or more or fewer of them; much
    more or less idle; other counts of instances."""
    old, now = base.kernel_use(key), new.kernel_use(key)
    kernels = _replaced(old, now) + _launches(old, now)
    idle: list[str] = []
    before, after = base.idle(key), new.idle(key)
    if base_ns and abs(after - before) > _IDLE_SHARE_UNCHANGED * max(base_ns, before, after):
        idle = _idle(before, after, base_ns)
    return (*kernels, *idle, *other_count(base.instances(key), new.instances(key)))


def other_count(before: float, after: float) -> tuple[str, ...]:
    """Says so when a capture has another number of instances than before."""
    if before == after or not before or not after:
        return ()
    return (f"has {after:.4g} {'instance' if after == 1 else 'instances'} instead of {before:.4g}",)


def blame_nested(rows: Sequence[Row]) -> list[Row]:
    """The rows, in order; a changed range whose change lies mostly in a nested one says so, and
    an unchanged one leaves to the nested ones what they say."""
    changed = [row for row in rows if row.verdict in CHANGED and not row.kernel]
    said = _said_nested(rows)
    out = []
    for row in rows:
        if row.verdict == "same" and row.explanation:
            inside = said.get(row.path, set())
            left = tuple(phrase for phrase in row.explanation if phrase not in inside)
            row = replace(row, explanation=left)
        parts = {id(r): _part(r, row) for r in changed if r.path[:-1] == row.path}
        largest = max(changed, key=lambda r: parts.get(id(r), 0.0), default=None)
        share = parts.get(id(largest), 0.0)
        if row in changed and largest and share >= _MOST:
            share = min(1.0, share)
            row = replace(
                row, explanation=(f"{percent(share)} of the change is in {_label(largest)}",)
            )
        out.append(row)
    return out


def _part(nested: Row, row: Row) -> float:
    """The part of the change of an instance of ``row`` that is in ``nested``, however many
    instances each side has; negative where they change in opposite ways."""
    before, after = row.base_instances or 1.0, row.new_instances or 1.0
    inside = (nested.new_ns or 0) * nested.new_instances / after
    inside -= (nested.base_ns or 0) * nested.base_instances / before
    change = (row.new_ns or 0) - (row.base_ns or 0)
    return inside / change if change else 0.0


def _said_nested(rows: Sequence[Row]) -> dict[tuple[str, ...], set[str]]:
    """Path -> what the ranges inside it say of their kernels and idle time."""
    said: dict[tuple[str, ...], set[str]] = {}
    for row in rows:
        phrases = {phrase for phrase in row.explanation if " instances instead of " not in phrase}
        for depth in range(1, len(row.path)) if phrases else ():
            said.setdefault(row.path[:depth], set()).update(phrases)
    return said


def summarise(rows: Sequence[Row], threshold: float, blocked: Sequence[Fact]) -> str:
    """The sentence on top: what changed, why, and what beside it did not."""
    if blocked:
        return f"not comparable, no verdicts: {_differing(blocked)}"
    changed = sorted(
        (row for row in rows if row.verdict in CHANGED), key=lambda r: -abs(r.change_ns)
    )
    paths = {row.path for row in changed if not row.kernel}
    heads = [r for r in changed if not any(r.path[:i] in paths for i in range(1, len(r.path)))]
    parts = [_headline(head, rows) for head in heads[:_NAMED]]
    if len(heads) > _NAMED:
        parts.append(f"{len(heads) - _NAMED} more changed")
    parts += _coming_and_going(rows) + _unchanged_but(rows) + _counts(rows)
    unsure = sum(row.verdict == "unsure" for row in rows)
    if not any(row.ratio for row in rows):
        parts.insert(0, "no range is on both sides")
    elif not heads:
        same = sum(row.verdict == "same" for row in rows)
        found = "nothing faster or slower" if parts else "no change found"
        parts.insert(0, f"{found}: {same} of {len(rows)} the same within ±{percent(threshold)}")
    if unsure:
        parts.append(f"{unsure} unsure")
    return "; ".join(parts)


def _differing(blocked: Sequence[Fact]) -> str:
    """``driver (1 → 2) differs``, or what both sides have that forbids a verdict."""
    differ = [f"{f.name} ({f.base} → {f.new})" for f in blocked[:_NAMED] if f.base != f.new]
    alike = [f"{f.name} {f.base} on both sides" for f in blocked[:_NAMED] if f.base == f.new]
    if differ:
        differ[-1] += " differ" if len(differ) > 1 else " differs"
    return ", ".join([*differ, *alike])


def _headline(head: Row, rows: Sequence[Row]) -> str:
    """One changed range (or kernel), what in it changed and why, and what beside it did not."""
    if head.kernel:
        return _titled(head)
    below = [row for row in rows if row.path[: len(head.path)] == head.path and row is not head]
    # A change sits in the deepest ranges that changed: their parents only contain it.
    changed = [row for row in below if row.verdict in CHANGED]
    causes = [row for row in changed if not any(_inside(other, row) for other in changed)]
    reasons = [why for row in causes[:_NAMED] if (why := _why(row, named=True))]
    if not causes:
        reasons = [_why(head, named=False)]
    beside = below or [r for r in rows if r.path[:-1] == head.path[:-1] and r is not head]
    unchanged = [_label(row) for row in beside if row.verdict == "same" and not row.kernel]
    if unchanged:
        names = ", ".join(unchanged[:_NAMED]) + (" and more" if len(unchanged) > _NAMED else "")
        reasons.append(f"{names} unchanged")
    text = _titled(head)
    told = "; ".join(reason for reason in reasons if reason)
    return f"{text}: {told}" if told else text


def _inside(inner: Row, outer: Row) -> bool:
    return len(inner.path) > len(outer.path) and inner.path[: len(outer.path)] == outer.path


def _titled(row: Row) -> str:
    nested = len(row.path) > 1 and not row.kernel
    where = f" (in {row.path[-2] or '(unnamed)'})" if nested else ""
    text = f"{_label(row)}{where} {describe_change(row.ratio or 1.0)}"
    if row.ci_low is None or row.ci_high is None:
        return text
    return f"{text} ({describe_interval(row.ratio or 1.0, row.ci_low, row.ci_high)})"


def _why(row: Row, *, named: bool) -> str:
    if named:
        first = row.explanation[0] if row.explanation else describe_change(row.ratio or 1.0)
        return f"{_label(row)} {first}"
    return row.explanation[0] if row.explanation else ""


def _label(row: Row) -> str:
    if row.kernel:
        return f"{short(row.kernel)} in {row.name or '(unnamed)'}"
    return row.name or "(unnamed)"


def _coming_and_going(rows: Sequence[Row]) -> list[str]:
    parts = []
    for word in ("new", "gone"):
        names = [_label(row) for row in rows if row.verdict == word]
        if names:
            more = f" and {len(names) - 2} more" if len(names) > 2 else ""
            parts.append(f"{', '.join(names[:2])}{more} {word}")
    return parts


def _unchanged_but(rows: Sequence[Row]) -> list[str]:
    """Ranges as fast as before by other kernels, or with much more idle: a change all the same."""
    told = []
    for row in rows:
        phrases = [text for text in row.explanation if text.startswith(_WORTH_SAYING)]
        if row.verdict == "same" and phrases:
            told.append(f"{_label(row)} {phrases[0]}")
    return told[:2]


def _counts(rows: Sequence[Row]) -> list[str]:
    """Outermost ranges that ran clearly more or less often: a change that no instance shows."""
    told = []
    for row in rows:
        before, after = row.base_instances, row.new_instances
        if len(row.path) == 1 and before and after and abs(after / before - 1) > _COUNT_CHANGE:
            told.append(f"{_label(row)} {other_count(before, after)[0]}")
    return told[:2]
