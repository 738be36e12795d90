# SPDX-License-Identifier: MIT
"""Changes planted in copies of real recordings."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

DATA = Path(__file__).parent.parent / "data"
AA = [DATA / "aa" / f"aa{i}.sqlite" for i in (1, 2, 3, 4)]

_LAUNCHED_IN = """
    SELECT r.correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME r, NVTX_EVENTS n
    LEFT JOIN StringIds s ON s.id = n.textId
    WHERE coalesce(s.value, n.text, '') = ? AND n.globalTid = r.globalTid
      AND n.start <= r.start AND r.end <= n.end
"""


def scaled(source: Path, target: Path, range_name: str, factor: float) -> Path:
    """A copy of ``source`` in which every kernel launched in ``range_name`` takes ``factor``
    times as long. Kernels may then overlap the next one: only sums are meaningful."""
    return changed(
        source,
        target,
        'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = start + round(("end" - start) * ?)'
        f" WHERE correlationId IN ({_LAUNCHED_IN})",
        (factor, range_name),
    )


def renamed(source: Path, target: Path, range_name: str, kernel: str) -> Path:
    """A copy in which the kernels launched in ``range_name`` are called ``kernel``."""
    names = ("shortName", "demangledName", "mangledName")
    changed(source, target, "INSERT INTO StringIds (id, value) VALUES (987654, ?)", (kernel,))
    sets = ", ".join(f"{name} = 987654" for name in names)
    with sqlite3.connect(target) as db:
        db.execute(
            f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {sets} WHERE correlationId IN ({_LAUNCHED_IN})",
            (range_name,),
        )
    db.close()
    return target


def changed(source: Path, target: Path, sql: str, parameters: tuple[object, ...] = ()) -> Path:
    """A copy of ``source`` with one statement run on it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    with sqlite3.connect(target) as db:
        db.execute(sql, parameters)
    db.close()
    return target
