# SPDX-License-Identifier: MIT
"""Changes planted in copies of real recordings, and run folders made of them."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.launch.rundir import PassRecord, Run, RunFolder, tagged

DATA = Path(__file__).parent.parent / "data"
#: Four captures of one program, one after another on one H200.
AA = [DATA / "aa" / f"aa{i}.sqlite" for i in (1, 2, 3, 4)]
GPU = {
    "name": "NVIDIA H200",
    "uuid": "GPU-a838c00b-45c6-204d-1f6b-c067b120b0f4",
    "driver": "580.159.04",
}
VERSIONS = {"torch": "2.11.0", "cuda": "13.0", "nsys": "2025.3.2"}

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


def kernels_called(target: Path, range_name: str, kernel: str) -> Path:
    """Rename the kernels launched in ``range_name``, in place."""
    sets = ", ".join(f"{name} = 987654" for name in ("shortName", "demangledName", "mangledName"))
    with sqlite3.connect(target) as db:
        db.execute("INSERT INTO StringIds (id, value) VALUES (987654, ?)", (kernel,))
        db.execute(
            f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {sets} WHERE correlationId IN ({_LAUNCHED_IN})",
            (range_name,),
        )
    db.close()
    return target


def range_called(source: Path, target: Path, old: str, new: str) -> Path:
    """A copy in which the NVTX range ``old`` is called ``new``."""
    return changed(source, target, "UPDATE NVTX_EVENTS SET text = ? WHERE text = ?", (new, old))


def changed(source: Path, target: Path, sql: str, parameters: tuple[object, ...] = ()) -> Path:
    """A copy of ``source`` with one statement run on it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    with sqlite3.connect(target) as db:
        db.execute(sql, parameters)
    db.close()
    return target


def captures(folder: Path, sources: Sequence[Path], range_name: str, factor: float) -> list[Path]:
    """Planted copies of several captures in one folder."""
    return [scaled(source, folder / source.name, range_name, factor) for source in sources]


def run_folder(target: Path, recordings: Sequence[Path], *, created: str, **facts: Any) -> Path:
    """A complete run folder as ``harness run`` writes it, holding copies of ``recordings``."""
    known: dict[str, Any] = {"gpu": [GPU], "versions": VERSIONS, **facts}
    run = Run(name=target.name, argv=["python", "blocks.py"], created=created, **known)
    with RunFolder(target, run) as folder:
        for number, recording in enumerate(recordings, start=1):
            name = tagged("report", ".sqlite", number)
            shutil.copyfile(recording, folder.path / name)
            run.passes.append(
                PassRecord("nsys", run.argv, 0, 12.5, f"nsys.{number}.log", [name], number)
            )
        return folder.complete()
