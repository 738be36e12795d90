# SPDX-License-Identifier: MIT
"""Is the run that a gate judges the newest? One that was cut short, or does not say when it was
made, must not leave an older run to pass in its place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UnreadableReport

if TYPE_CHECKING:
    from harness.comparison.inputs import Named

_NAME_BOTH = "Name both sides: harness compare BASE NEW"


def check_newest(
    folder: Path, runs: Sequence[Named], left_out: Sequence[Named], base: Path | None, gate: bool
) -> None:
    """``runs`` (oldest first) could be compared, ``left_out`` could not; ``base`` was named. A
    ``gate`` is about one run alone, so no other may be as new.

    Raises:
        UnreadableReport: the newest is one of those left out, or which it is is not on record.
    """
    rest = [run for run in runs if base is None or run.path.resolve() != base.resolve()]
    if not rest:
        return
    undated = [run.name for run in (*rest, *left_out) if not run.created]
    if undated and len(rest) + len(left_out) > 1:
        raise UnreadableReport(
            f"{folder}: which run is the newest is not on record: {', '.join(undated[:3])}"
            " without the time when it was made",
            hint=_NAME_BOTH,
        )
    newest = rest[-1]
    newer = [run.name for run in left_out if run.created > newest.created]
    if newer:
        raise UnreadableReport(
            f"{folder}: the newest run, {newer[-1]}, cannot be compared, and an older one says"
            " nothing of it",
            hint=f"Record it again, or take it away. {_NAME_BOTH}",
        )
    alike = [run.name for run in (*rest, *left_out) if run.created == newest.created]
    if gate and len(alike) > 1:
        raise UnreadableReport(
            f"{folder}: {', '.join(alike[:3])} were made in one second: which is the newest is not"
            " on record",
            hint=_NAME_BOTH,
        )
