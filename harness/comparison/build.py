# SPDX-License-Identifier: MIT
"""Two sides in, a Comparison out. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.comparison.comparability import EXPECTED, facts
from harness.comparison.explain import CHANGED, beside_gpu_time, blame_nested, explain, summarise
from harness.comparison.result import (
    SAME_RECORDING,
    UNKNOWN_GPU,
    Comparison,
    Fact,
    Growth,
    Row,
)
from harness.comparison.sides import CAPTURES_AS_UNIT, Key, Side, samples
from harness.comparison.statistics import Estimate, Sample, estimate
from harness.comparison.unseen import few_slow, more_executions, outside_grew, slow_process
from harness.comparison.verdict import Verdict, decide, percent
from harness.errors import UnreadableReport
from harness.selection import Selection
from harness.trace import Warning_
from harness.words import agree, plural

DEFAULT_THRESHOLD = 0.01


@dataclass(frozen=True)
class Options:
    """``threshold`` is a fraction: changes inside it do not matter. ``force`` gives verdicts in
    spite of facts that differ."""

    policy: str = "autograd"
    threshold: float = DEFAULT_THRESHOLD
    selection: Selection = field(default_factory=Selection)
    measure: str = "gpu"
    by: str = "ranges"
    force: bool = False


def build(base: Side, new: Side, options: Options) -> Comparison:
    """Compare what both sides recorded.

    Raises:
        UnreadableReport: no range with any time in it on either side.
    """
    base, new = _without_copies(base), _without_copies(new)
    keys = list(dict.fromkeys([*base.keys(), *new.keys()]))
    pairs = {key: pair for key in keys if (pair := samples(base, new, key)) is not None}
    tested = [key for key, (a, b) in pairs.items() if a.median > 0 and b.median > 0]
    found = dict(zip(tested, estimate([pairs[key] for key in tested]), strict=True))
    known = facts(base, new, options.policy, options.measure)
    blocked = () if options.force else tuple(fact for fact in known if fact.blocks)
    rows = [_row(key, base, new, pairs.get(key), found.get(key), options, blocked) for key in keys]
    kept = [row for row in rows if row is not None]
    if not kept:
        raise UnreadableReport(_nothing(base, new, options), hint=_nothing_hint(base, new, options))
    kept.sort(key=lambda row: -abs(row.change_ns))
    kept = blame_nested(kept)
    growths = tuple(_unseen(base, new, pairs, kept, options))
    return Comparison(
        base=_side_dict(base),
        new=_side_dict(new),
        threshold=options.threshold,
        summary=summarise(kept, options.threshold, blocked),
        items=tuple(kept),
        policy=options.policy,
        measure=options.measure,
        by=options.by,
        facts=known,
        forced=options.force,
        selection=options.selection,
        in_turn=any(one.method == "in turn" for one in found.values()),
        warnings=(
            *_warnings(base, new, kept, known, len(keys) - len(kept), options),
            *(growth.warning for growth in growths),
        ),
        growths=growths,
    )


def _unseen(
    base: Side,
    new: Side,
    pairs: Mapping[Key, tuple[Sample, Sample]],
    rows: Sequence[Row],
    options: Options,
) -> Iterator[Growth]:
    """Growth that no row shows; what is outside a selection was not asked for."""
    yield from more_executions(rows)
    if options.measure == "gpu" and not options.selection:
        yield from outside_grew(base, new, options.threshold)
    yield from few_slow(pairs, base, new, rows, options.threshold)
    yield from slow_process(base, new, rows, options.threshold)


def _without_copies(side: Side) -> Side:
    """The side, each recording once: a copy says nothing of the next process, and three of one
    recording would make any difference look certain."""
    seen: set[str] = set()
    kept = []
    for capture in side.captures:
        if capture.fingerprint not in seen:
            kept.append(capture)
        if capture.fingerprint:
            seen.add(capture.fingerprint)
    copies = len(side.captures) - len(kept)
    if not copies:
        return side
    note = Warning_(
        "copied-captures",
        f"{side.name}: {copies} of {len(side.captures)} captures "
        + agree(copies, "is a copy of another one and does", "are copies of another one and do")
        + " not count",
    )
    return replace(side, captures=tuple(kept), notes=(*side.notes, note))


def _row(
    key: Key,
    base: Side,
    new: Side,
    pair: tuple[Sample, Sample] | None,
    found: Estimate | None,
    options: Options,
    blocked: Sequence[Fact],
) -> Row | None:
    """The row of ``key``; None when neither side spent any time in it."""
    a, b = pair or (_alone(base, key), _alone(new, key))
    base_ns, new_ns = (_median(sample) for sample in (a, b))
    if not base_ns and not new_ns:
        return None
    row = _bare_row(key, base, new, a, b)
    if pair is None or found is None:
        return _one_sided(row, options)
    verdict = decide(found, options.threshold, a.unit if a else "")
    if blocked:
        names = ", ".join(fact.name for fact in blocked)
        verdict = Verdict("unsure", f"not comparable: {names} (--force compares anyway)")
    return replace(
        row,
        ratio=found.ratio,
        ci_low=_number(found.low),
        ci_high=_number(found.high),
        p=_number(found.p),
        p_adjusted=_number(found.p_adjusted),
        p_rank=_number(found.p_rank),
        verdict=verdict.word,
        reason=verdict.reason,
        explanation=() if key.kernel else _explanation(key, base, new, row, verdict.word),
    )


def _explanation(key: Key, base: Side, new: Side, row: Row, verdict: str) -> tuple[str, ...]:
    """Kernels are called faster or slower only where the range is: the rest may be noise."""
    if verdict in CHANGED:
        return explain(key, base, new, row.base_ns or 0, row.new_ns or 0)
    return beside_gpu_time(key, base, new, row.base_ns)


def _bare_row(key: Key, base: Side, new: Side, a: Sample | None, b: Sample | None) -> Row:
    base_ns, new_ns = _median(a), _median(b)
    before, after = base.instances(key), new.instances(key)
    return Row(
        path=key.path,
        domain=key.domain,
        name=key.path[-1] if key.path else "",
        base_ns=None if base_ns is None else round(base_ns),
        new_ns=None if new_ns is None else round(new_ns),
        ratio=None,
        ci_low=None,
        ci_high=None,
        p=None,
        n_base=len(a.values) if a else 0,
        n_new=len(b.values) if b else 0,
        verdict="",
        reason="",
        style=key.style,
        kernel=key.kernel,
        unit=a.unit if a and b else "",
        p_adjusted=None,
        p_rank=None,
        base_instances=before,
        new_instances=after,
        change_ns=round((new_ns or 0.0) * after - (base_ns or 0.0) * before),
    )


def _one_sided(row: Row, options: Options) -> Row:
    what = "kernel" if row.kernel else "range"
    work = "GPU work" if options.measure == "gpu" else "time"
    if row.base_ns:
        reason = f"no {work} in it any more" if row.n_new else f"no such {what} in the new run"
        return replace(row, verdict="gone", reason=reason)
    reason = f"had no {work} in it before" if row.n_base else f"no such {what} in the base"
    return replace(row, verdict="new", reason=reason)


def _alone(side: Side, key: Key) -> Sample | None:
    pair = samples(side, side, key)
    return pair[0] if pair else None


def _median(sample: Sample | None) -> float | None:
    return sample.median if sample else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _side_dict(side: Side) -> dict[str, object]:
    return {
        "name": side.name,
        "path": side.path,
        "captures": len(side.captures),
        "captures_asked": max(side.asked, len(side.captures)),
        "source": side.captures[0].source.as_dict() if side.captures else None,
    }


def _nothing(base: Side, new: Side, options: Options) -> str:
    where = f"{base.path} and {new.path}"
    if options.by == "kernels":
        return f"{where}: no kernel under a range in either, so nothing to compare"
    if not base.keys() and not new.keys():
        return f"{where}: no closed NVTX range in either, so nothing to compare"
    what = options.measure.upper()
    return f"{where}: no range of either has any {what} time, nothing to compare"


def _nothing_hint(base: Side, new: Side, options: Options) -> str:
    if options.by == "kernels":
        return "Kernels of a CUDA graph recorded as a whole are not known: --graphs node has them."
    if options.measure == "gpu" and (base.keys() or new.keys()):
        return "Without GPU work (a run on the CPU), --measure cpu compares the ranges' own time."
    return "Record with NVTX ranges: harness.range, torch.cuda.nvtx or the nvtx package."


def _warnings(
    base: Side,
    new: Side,
    rows: Sequence[Row],
    known: Sequence[Fact],
    empty: int,
    options: Options,
) -> tuple[Warning_, ...]:
    found: list[Warning_] = [*base.notes, *new.notes, *_on_both_sides(base, new)]
    single = [row for row in rows if row.unit == "instance"]
    if single:
        found.append(_single_captures(base, new, len(single)))
    if len(single) < len([row for row in rows if row.unit]):
        found += _recorded_apart(base, new)
    if options.force and any(fact.blocks for fact in known):
        names = ", ".join(f"{f.name} ({f.base} → {f.new})" for f in known if f.blocks)
        found.append(Warning_("forced", f"compared although these differ: {names}"))
    checked = {fact.name for fact in known if fact.base and fact.new}
    silent = [name for name in EXPECTED if name not in checked]
    if "GPU UUID" in silent and options.measure == "gpu":
        silent.remove("GPU UUID")
        found.insert(0, _unknown_gpu())
    if silent:
        found.append(
            Warning_(
                "unchecked", f"not recorded for both sides, so not checked: {', '.join(silent)}"
            )
        )
    if empty:
        work = "GPU work" if options.measure == "gpu" else "time"
        some = "1 range" if empty == 1 else f"{empty} ranges"
        are = "is" if empty == 1 else "are"
        found.append(Warning_("empty-ranges", f"{some} without {work} {are} not shown"))
    drift = _common_drift(rows)
    if drift:
        found.append(drift)
    for side in (base, new):
        found += _of_captures(side)
    return tuple(dict.fromkeys(found))


def _unknown_gpu() -> Warning_:
    """Not a word of the sides: of a folder of runs it is said once."""
    return Warning_(
        UNKNOWN_GPU,
        "which GPU it was is not on record for both sides, and two of one model differ: the same"
        " workload ran 7 % apart on two H200s",
        "Trust a change of that size only if you know that the GPU is the same; harness run writes"
        " its UUID into run.json, and harness share keeps a pseudonym of it.",
    )


def _on_both_sides(base: Side, new: Side) -> list[Warning_]:
    a, b = ({capture.fingerprint for capture in side.captures} for side in (base, new))
    shared = (a & b) - {""}
    what = "1 recording is" if len(shared) == 1 else f"{len(shared)} recordings are"
    if not shared:
        if a | b != {""} or base.path != new.path:
            return []
        what = f"{base.path} is"
    return [
        Warning_(
            SAME_RECORDING,
            f"{what} on both sides: a comparison with itself finds no change",
            "Check that the paths are those of two runs.",
        )
    ]


def _single_captures(base: Side, new: Side, ranges: int) -> Warning_:
    counts = f"{len(base.captures)} and {plural(len(new.captures), 'capture')}"
    if min(len(base.captures), len(new.captures)) >= CAPTURES_AS_UNIT:
        some = "1 range is" if ranges == 1 else f"{ranges} ranges are"
        counts += f", but {some} in fewer than {CAPTURES_AS_UNIT} of a side's"
    return Warning_(
        "between-run-drift",
        f"{counts}: the instances serve as the sample, so drift from one run to the next"
        " is not in the intervals",
        f"Record {CAPTURES_AS_UNIT} or more captures a side: harness run --nsys --repeat"
        f" {CAPTURES_AS_UNIT}",
    )


def _recorded_apart(base: Side, new: Side) -> Iterator[Warning_]:
    """A word where time and change cannot be told apart; nothing where a capture has no date."""
    sides = sorted((base, new), key=_first_start)
    times = [[capture.started for capture in side.captures] for side in sides]
    before, after = ([time for time in each if time is not None] for each in times)
    if list(map(len, times)) == [len(before), len(after)] and max(before) < min(after):
        yield Warning_(
            "recorded-apart",
            f"all of {sides[0].name} was recorded before all of {sides[1].name}: what drifted in"
            " between is not in the intervals",
            "Record both sides in turn (base, new, base, new): that takes the drift out.",
        )


def _first_start(side: Side) -> int:
    return min((one.started for one in side.captures if one.started is not None), default=0)


def _common_drift(rows: Sequence[Row]) -> Warning_ | None:
    """Every range off by nearly the same factor looks like clocks, not like a change of code."""
    ratios = [row.ratio for row in rows if row.ratio and row.verdict in ("faster", "slower")]
    compared = [row for row in rows if row.ratio]
    if len(ratios) < 3 or len(ratios) < len(compared):
        return None
    low, high = min(ratios), max(ratios)
    middle = (low + high) / 2 - 1
    if (low > 1) != (high > 1) or high - low > 0.5 * abs(middle):
        return None
    return Warning_(
        "everything-moved",
        f"every range moved alike (by about {percent(middle)}): clocks, power or another program"
        " on the GPU explain that better than a change of code",
        "Look at the clocks of both runs, and record both again, in turn.",
    )


#: The selection is said once; captured paths are not compared.
_NOT_COMPARED = ("selection", "graph-updated", "graph-capture")


def _of_captures(side: Side) -> list[Warning_]:
    """Warnings of the recordings themselves: of each code the first, and in how many captures."""
    by_code: dict[str, list[Warning_]] = {}
    for capture in side.captures:
        for code, warning in {w.code: w for w in reversed(capture.warnings)}.items():
            by_code.setdefault(code, []).append(warning)
    return [
        replace(same[0], message=f"{side.name}: {same[0].message}{_in_captures(same, side)}")
        for code, same in by_code.items()
        if code not in _NOT_COMPARED
    ]


def _in_captures(same: Sequence[Warning_], side: Side) -> str:
    total = len(side.captures)
    return f" (in {len(same)} of {total} captures)" if total > 1 else ""
