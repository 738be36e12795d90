# SPDX-License-Identifier: MIT
"""Hand-made nsys exports in the real schemas of several versions."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"
SCHEMAS = DATA / "nsys_schemas"
VERSIONS = tuple(sorted(path.stem for path in SCHEMAS.glob("*.sql")))


def global_tid(pid: int, tid: int = 0, vm: int = 1) -> int:
    """hardware 8 bits, vm 8, pid 24, tid 24; a globalPid has tid 0."""
    return vm << 48 | pid << 24 | tid


class Export:
    """An export under construction; columns that are not given are NULL, or 0 where not allowed."""

    def __init__(self, path: Path, version: str = "2025.3") -> None:
        self.path = path
        self.db = sqlite3.connect(path)
        self.db.executescript((SCHEMAS / f"{version}.sql").read_text())
        self._strings: dict[str, int] = {}

    def add(self, table: str, **values: Any) -> None:
        for _, name, _, required, default, key in self.db.execute(f"PRAGMA table_info({table})"):
            if required and default is None and not key:
                values.setdefault(name, 0)
        known = {row[1] for row in self.db.execute(f"PRAGMA table_info({table})")}
        values = {name: value for name, value in values.items() if name in known}
        marks = ", ".join("?" * len(values))
        self.db.execute(
            f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values())
        )

    def string(self, text: str) -> int:
        if text not in self._strings:
            self._strings[text] = len(self._strings) + 1
            self.add("StringIds", id=self._strings[text], value=text)
        return self._strings[text]

    def range(self, start: int, end: int | None, tid: int, **values: Any) -> None:
        values = {"eventType": 59, "domainId": 0, **values}
        self.add("NVTX_EVENTS", start=start, end=end, globalTid=tid, **values)

    def launch(self, start: int, end: int, tid: int, correlation: int, api: str) -> None:
        self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            globalTid=tid,
            correlationId=correlation,
            nameId=self.string(api),
        )

    def kernel(self, start: int, end: int, pid: int | None, correlation: int, name: str) -> None:
        self.add(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            start=start,
            end=end,
            globalPid=pid,
            correlationId=correlation,
            deviceId=1,
            contextId=2,
            streamId=7,
            shortName=self.string(name),
            demangledName=self.string(f"void {name}(int)"),
            mangledName=self.string(f"_Z{name}i"),
        )

    def done(self) -> Path:
        self.db.commit()
        self.db.close()
        return self.path


def loosened(report: Path, path: Path, *tables: str) -> Path:
    """A copy of ``report`` in which ``tables`` keep any value as it is, NULL too."""
    shutil.copyfile(report, path)
    with closing(sqlite3.connect(path)) as db, db:
        for table in tables:
            columns = ", ".join(row[1] for row in db.execute(f"PRAGMA table_info({table})"))
            db.execute(f"ALTER TABLE {table} RENAME TO before")
            db.execute(f"CREATE TABLE {table} ({columns})")
            db.execute(f"INSERT INTO {table} SELECT * FROM before ORDER BY rowid")
            db.execute("DROP TABLE before")
    return path


def garble_schema(path: Path) -> None:
    """SQLite's complaint quotes the name of a table, which then is no UTF-8."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "UPDATE sqlite_master SET name = CAST(x'8d8e' AS TEXT), sql = 'CREATE TABLE'"
            " WHERE name = 'StringIds'"
        )
