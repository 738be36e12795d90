# SPDX-License-Identifier: MIT
"""Record captures of the workload with and without a planted change, in turn, on one GPU.

    python benchmarks/record_ab.py OUT --captures 12 --plant 1 --plant 5

writes OUT/A/capture-01.sqlite, OUT/B1/capture-01.sqlite, OUT/B5/… . B1 gives the chain of the
fused block 1 % more elements. Captures are taken in turn (A, B1, B5, A, …), so that drift of the
machine hits all sides. Each is reduced to the tables that a comparison reads, without environment
or process names. A capture that is already there is kept, so an interrupted campaign goes on.
Then: python benchmarks/evaluate_ab.py OUT
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: Tables that the comparison, its facts and its warnings are read from.
KEPT = {
    "StringIds",
    "NVTX_EVENTS",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "ThreadNames",
    "TARGET_INFO_GPU",
    "TARGET_INFO_CUDA_DEVICE",
    "ANALYSIS_DETAILS",
    "DIAGNOSTIC_EVENT",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "ENUM_CUDA_MEMCPY_OPER",
    "TARGET_INFO_SYSTEM_ENV",
    "TARGET_INFO_SESSION_START_TIME",
}
#: The only rows of TARGET_INFO_SYSTEM_ENV that are kept: it may hold the whole environment.
VERSIONS = ("NvDriverVersion", "CudaDriverVersion")
#: Columns of those tables that refer to StringIds.
NAMES = {
    "NVTX_EVENTS": ("textId",),
    "CUPTI_ACTIVITY_KIND_KERNEL": ("shortName", "demangledName", "mangledName"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("nameId",),
    "ThreadNames": ("nameId",),
}


def sides(plants: list[float]) -> dict[str, list[str]]:
    """Side -> what the workload gets: A nothing, B1 one per cent more elements."""
    return {"A": []} | {f"B{pct:g}": ["--extra-elements", f"{pct:g}"] for pct in plants}


def command(folder: Path, workload: list[str]) -> list[str]:
    """One capture under nsys alone, into a run folder."""
    run = [sys.executable, "-m", "harness", "run", "--nsys", "--no-torch", "--no-plain", "-q"]
    return [*run, "-o", str(folder), "--", sys.executable, "-m", "workload", *workload]


def slim(source: Path, target: Path) -> None:
    """Copy an export without the tables that a comparison does not read."""
    part = target.with_suffix(".part")
    shutil.copyfile(source, part)
    db = sqlite3.connect(part)
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in tables:
        if table not in KEPT and not table.startswith("sqlite_"):
            db.execute(f'DROP TABLE "{table}"')
    if "TARGET_INFO_SYSTEM_ENV" in tables:
        db.execute("DELETE FROM TARGET_INFO_SYSTEM_ENV WHERE name NOT IN (?, ?)", VERSIONS)
    used = [
        f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"
        for table, columns in NAMES.items()
        if table in tables
        for column in columns
    ]
    db.execute(f"DELETE FROM StringIds WHERE id NOT IN ({' UNION '.join(used)})")
    db.commit()
    db.execute("VACUUM")
    db.close()
    part.replace(target)


def record(target: Path, workload: list[str], *, dry_run: bool) -> bool:
    """Record one capture; True when ``target`` is there afterwards."""
    if target.exists():
        return True
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        argv = command(folder, workload)
        print(shlex.join(argv), file=sys.stderr)
        if dry_run:
            return True
        done = subprocess.run(argv, stdout=subprocess.DEVNULL, check=False)
        export = folder / "report.sqlite"
        if done.returncode or not export.is_file():
            print(f"{target}: not recorded (exit {done.returncode})", file=sys.stderr)
            return False
        target.parent.mkdir(parents=True, exist_ok=True)
        slim(export, target)
    print(f"{target}: {target.stat().st_size // 1000} kB", file=sys.stderr)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").splitlines()[0], epilog="after --: arguments for the workload"
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--captures", type=int, default=12, help="of each side (default 12)")
    parser.add_argument("--plant", type=float, action="append", metavar="PCT", default=[])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after about this")
    parser.add_argument("--dry-run", action="store_true")
    argv = sys.argv[1:]
    split = argv.index("--") if "--" in argv else len(argv)
    given = parser.parse_args(argv[:split])
    workload = argv[split + 1 :]
    started, failed = time.monotonic(), 0
    for number in range(1, given.captures + 1):
        for side, planted in sides(given.plant).items():
            if time.monotonic() - started > given.seconds:
                print("out of time; run again to go on", file=sys.stderr)
                return 3
            target = given.out / side / f"capture-{number:02d}.sqlite"
            failed += not record(target, [*workload, *planted], dry_run=given.dry_run)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
