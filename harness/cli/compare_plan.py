# SPDX-License-Identifier: MIT
"""Which runs ``harness compare`` compares with which."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import HarnessError, UnreadableReport, UsageProblem

if TYPE_CHECKING:
    from harness.comparison.inputs import Named
    from harness.trace import Warning_


@dataclass(frozen=True)
class Plan:
    """Which runs are compared: ``base`` with each of ``news``, the most important one first."""

    base: Named
    news: tuple[Named, ...]
    notes: tuple[Warning_, ...] = ()
    folder: str = ""  # of runs, where one was given
    named: bool = False  # the baseline was


@dataclass(frozen=True)
class Plans:
    """One plan, or one for each kind of run in a folder; ``alone`` are runs with none like them."""

    groups: tuple[Plan, ...]
    alone: tuple[str, ...] = ()
    grouped: bool = False

    @property
    def notes(self) -> tuple[Warning_, ...]:
        return self.groups[0].notes

    @property
    def folder(self) -> str:
        return self.groups[0].folder


def make_plans(
    paths: tuple[str, ...],
    baseline: str | None,
    newest: bool,
    question: bool = False,
    gate: bool = False,
) -> Plans:
    """What to compare with what. A ``question`` is about the newest run (--newest, --fail-on); a
    ``gate`` (--fail-on) about no other.

    Raises:
        UsageProblem: not one or two paths.
        HarnessError: a path that is not there.
        UnreadableReport: a folder with fewer than two runs, or a question about the baseline.
    """
    from harness.comparison.inputs import Named
    from harness.readers.paths import check_path

    for path in paths:
        if not Path(path).exists():
            raise HarnessError(f"{path}: no such file or folder", hint=_closest(path))
        check_path(path)
    if len(paths) == 2 and baseline is None:
        if newest:
            raise UsageProblem("--newest belongs to a folder of runs")
        base, new = (Path(path) for path in paths)
        return Plans((Plan(Named(base.name, base), (Named(new.name, new),)),))
    if len(paths) != 1:
        raise UsageProblem(
            f"compare takes a base and a new run, or one folder of runs; got {len(paths)} paths",
            hint="harness compare BASE NEW, or harness compare reports --baseline NAME",
        )
    return _plan_of_one(Path(paths[0]), baseline, newest, question, gate)


def _closest(path: str) -> str:
    import difflib

    parent = Path(path).parent
    names = [child.name for child in parent.iterdir()] if parent.is_dir() else []
    near = difflib.get_close_matches(Path(path).name, {*names} - {Path(path).name}, n=1)
    return f"Did you mean {parent / near[0]}?" if near else ""


def _plan_of_one(
    path: Path, baseline: str | None, newest: bool, question: bool, gate: bool
) -> Plans:
    from harness.comparison import inputs
    from harness.comparison.newest import check_newest

    if path.is_file() or inputs.is_run(path):
        if baseline is None:
            raise UsageProblem(
                f"{path}: one run; what is it compared with?",
                hint="Give a second one, or --baseline NAME.",
            )
        base = inputs.find_baseline(path.resolve().parent, baseline)
        return Plans((Plan(inputs.Named(base.name, base), (inputs.Named(path.name, path),)),))
    runs, notes = inputs.runs_in(path)
    if baseline is None and question:
        # Whatever the newest run is: a gate that took another base for it would fail open.
        baseline = inputs.only_baseline(path)
    if baseline is None:
        _need_two(path, runs, notes)
        if question and not _has_order(runs):
            raise _no_newest(path)
        if question:
            inputs.check_baselines(path)
            check_newest(path, runs, inputs.left_out(path, runs), None, gate)
        return _like_with_like(path, runs, notes, newest, question)
    found = inputs.find_baseline(path, baseline)
    base_run = next(
        (run for run in runs if run.path.resolve() == found.resolve()),
        inputs.Named(found.name, found),
    )
    rest = [run for run in runs if run.path.resolve() != found.resolve()]
    _need_two(path, [base_run, *rest], notes)
    if question and len(rest) > 1 and not _has_order(runs):
        raise _no_newest(path)
    if question and _has_order(runs) and runs[-1].path.resolve() == found.resolve():
        raise _judges_itself(path, base_run)
    if question:
        check_newest(path, runs, inputs.left_out(path, runs), found, gate)
    news = tuple(reversed(rest))
    return Plans((Plan(base_run, news[:1] if newest else news, notes, str(path), named=True),))


def _has_order(runs: list[Named]) -> bool:
    """Whether it is known which run is the newest: recordings without a ``run.json`` do not say
    when they were made."""
    from harness.launch.rundir import has_run_json

    return bool(runs) and has_run_json(runs[-1].path)


def _no_newest(path: Path) -> UsageProblem:
    return UsageProblem(
        f"{path}: recordings without a run.json: which is the newest is not on record",
        hint="Name both sides: harness compare BASE NEW",
    )


def _need_two(path: Path, runs: list[Named], notes: tuple[Warning_, ...]) -> None:
    if not runs and not notes:
        raise UnreadableReport(
            f"{path}: no run and no recording in it",
            hint="Give a folder of runs (harness run --nsys makes one), or BASE and NEW.",
        )
    if len(runs) < 2:
        left_out = f" ({'; '.join(note.message for note in notes)})" if notes else ""
        if runs and runs[0].path.is_file():
            raise UnreadableReport(
                f"{path}: one recording only ({runs[0].name}), nothing to compare it with",
                hint="Give a second one: harness compare BASE NEW",
            )
        raise UnreadableReport(
            f"{path}: fewer than two complete runs to compare{left_out}",
            hint="Record another one: harness run --nsys",
        )


def _like_with_like(
    path: Path, runs: list[Named], notes: tuple[Warning_, ...], newest: bool, question: bool
) -> Plans:
    """A plan for the runs of each kind, that of the newest run first."""
    from harness.comparison.groups import alike

    groups = [members for _, members in alike([(run.kind, run) for run in runs])]
    if question:
        groups = groups[:1]
    several = [members for members in groups if len(members) > 1]
    alone = [members[0] for members in groups if len(members) == 1]
    if not several:
        what = (
            f"the newest run, {alone[0].name}, is the only one of its program, shape and GPU"
            f" ({alone[0].kind})"
            if question
            else f"no two of its {len(runs)} runs are of one program, shape and GPU"
        )
        raise UnreadableReport(
            f"{path}: {what}",
            hint="Any two can be compared: harness compare BASE NEW, or --baseline NAME for all.",
        )
    plans: list[Plan] = []
    for members in several:
        base, named = _base_of(path, members)
        news = tuple(run for run in reversed(members) if run is not base)
        if question and members[-1] is base:
            raise _judges_itself(path, base)
        told = () if plans else notes
        plans.append(Plan(base, news[:1] if newest else news, told, str(path), named))
    return Plans(tuple(plans), tuple(run.name for run in reversed(alone)), grouped=True)


def _base_of(folder: Path, runs: list[Named]) -> tuple[Named, bool]:
    """The saved baseline among runs of one kind, if it is one only, else the oldest; and whether
    it was saved."""
    from harness.launch.rundir import read_baselines

    names = set(read_baselines(folder).values())
    saved = [run for run in runs if run.path.name in names]
    return (saved[0], True) if len(saved) == 1 else (runs[0], False)


def _judges_itself(path: Path, base: Named) -> UnreadableReport:
    # Judging an older run against it would pass any change that moves the baseline along.
    return UnreadableReport(
        f"{path}: the newest run, {base.name}, is the baseline itself",
        hint="Record a new run, or name both: harness compare BASE NEW",
    )
