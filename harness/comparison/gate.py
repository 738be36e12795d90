# SPDX-License-Identifier: MIT
"""Does a comparison pass? Fails closed: what could be a regression is not a pass."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from harness.comparison.result import (
    SAME_RECORDING,
    UNKNOWN_GPU,
    Comparison,
    Row,
)
from harness.comparison.sides import CAPTURES_AS_UNIT
from harness.comparison.verdict import ALPHA
from harness.errors import ExitCode, UsageProblem


@dataclass(frozen=True)
class Outcome:
    """``code`` 0 passed, 1 a range regressed, 3 the data cannot tell; ``rows`` are the culprits."""

    code: ExitCode
    message: str
    rows: tuple[Row, ...] = ()


def parse(text: str, threshold: float) -> float:
    """``slower`` or ``slower:PCT`` -> the slow-down, as a fraction, that fails. Without PCT it is
    the threshold of the comparison: any ``slower`` fails.

    Raises:
        UsageProblem: anything else.
    """
    # No \d, which other scripts' digits match, and few digits: "inf" would let everything pass.
    matched = re.fullmatch(r"slower(?::([0-9]{1,6}(?:\.[0-9]{1,9})?)%?)?", text.strip())
    if not matched:
        raise UsageProblem(
            f"--fail-on {text!r} is not understood",
            hint="Write slower, or slower:5 for 5 per cent.",
        )
    return float(matched[1]) / 100 if matched[1] else threshold


def judge(comparison: Comparison, limit: float) -> Outcome:
    """A range that is shown to be slower by ``limit`` or more regressed. One that is not shown to
    stay below that, or that is missing on one side with nothing around it compared, cannot be told.

    A limit finer than the threshold counts: what is ``same`` to the threshold may be too slow.
    Nothing is told by a recording compared with itself, nor by a side that lost captures and has
    too few left; nor while work that no row shows grew by more than the limit.
    """
    fine = limit < comparison.threshold
    least = 0.0 if limit == comparison.threshold else limit
    compared = {row.path for row in comparison.items if row.ratio is not None and not row.kernel}
    regressed = tuple(r for r in comparison.items if _regressed(r, least, fine))
    if regressed:
        return Outcome(ExitCode.FAILED, f"regressed: {_names(regressed)}", regressed)
    doubt = _doubtful(comparison, limit) or _too_few(comparison)
    if doubt:
        return Outcome(ExitCode.NO_ANSWER, f"cannot tell: {doubt}")
    unknown = tuple(row for row in comparison.items if _untold(row, limit, fine, compared))
    if unknown:
        return Outcome(ExitCode.NO_ANSWER, f"cannot tell: {_names(unknown)}", unknown)
    scattered = tuple(row for row in comparison.items if _scattered(row, comparison))
    if scattered:
        what = f"in fewer than {CAPTURES_AS_UNIT} of a side's captures: {_names(scattered)}"
        return Outcome(ExitCode.NO_ANSWER, f"cannot tell: {what}", scattered)
    rest = "; ".join([*_lacking(comparison), *_unknown_gpu(comparison)])
    return Outcome(ExitCode.OK, "passed: no range regressed" + (f" ({rest})" if rest else ""))


def _doubtful(comparison: Comparison, limit: float) -> str:
    """What no verdict can see."""
    found = [w.message for w in comparison.warnings if w.code == SAME_RECORDING]
    found += [grown.warning.message for grown in comparison.growths if grown.most > limit]
    return found[0] if found else ""


def _unknown_gpu(comparison: Comparison) -> list[str]:
    found = any(warning.code == UNKNOWN_GPU for warning in comparison.warnings)
    return ["which GPU is not on record for both sides"] if found else []


def _lacking(comparison: Comparison, fewer_than: float = math.inf) -> list[str]:
    """``new: 2 of 3 captures`` of each side that has fewer captures than it should, and fewer than
    ``fewer_than``."""
    sides = ((s["name"], s["captures"], s.get("captures_asked", 0)) for s in _sides(comparison))
    return [
        f"{name}: {there} of {asked} captures"
        for name, there, asked in sides
        if there < min(asked, fewer_than)
    ]


def _sides(comparison: Comparison) -> tuple[dict[str, Any], dict[str, Any]]:
    return comparison.base, comparison.new


def _too_few(comparison: Comparison) -> str:
    found = "; ".join(_lacking(comparison, CAPTURES_AS_UNIT))
    return (
        f"{found}, and fewer than {CAPTURES_AS_UNIT} do not show how runs differ" if found else ""
    )


def _scattered(row: Row, comparison: Comparison) -> bool:
    """Of enough captures on both sides, too few have the range."""
    enough = all(side["captures"] >= CAPTURES_AS_UNIT for side in _sides(comparison))
    return enough and row.unit == "instance"


def _regressed(row: Row, least: float, fine: bool) -> bool:
    if row.ratio is None or row.ratio - 1.0 < least:
        return False
    return row.verdict == "slower" or (fine and row.verdict == "same" and _certainly_slower(row))


def _certainly_slower(row: Row) -> bool:
    """Of a change too small for a verdict. Instances do not know the drift from run to run."""
    if row.unit != "capture" or row.ci_low is None or row.p_adjusted is None:
        return False
    return row.ci_low > 1.0 and row.p_adjusted <= ALPHA


def _untold(row: Row, limit: float, fine: bool, compared: set[tuple[str, ...]]) -> bool:
    if row.verdict in ("new", "gone"):
        # Inside a range that was compared, what comes or goes is in that range's time. Kernels
        # are compared one by one: no other kernel's time has it.
        around = {row.path[:i] for i in range(1, len(row.path))}
        return not around & compared
    if row.verdict == "faster" or (row.verdict == "same" and not fine):
        return False
    if row.ci_high is None:
        return True
    return (row.verdict == "unsure" and _blocked(row)) or row.ci_high > 1.0 + limit


def _blocked(row: Row) -> bool:
    return row.reason.startswith("not comparable")


def _names(rows: tuple[Row, ...], most: int = 5) -> str:
    names = [" / ".join(row.path) + (f" / {row.kernel}" if row.kernel else "") for row in rows]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
