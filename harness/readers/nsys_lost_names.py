# SPDX-License-Identifier: MIT
"""Names that an nsys export points to and does not hold: rows of different names become one.

nsys writes every string it refers to, and names every process's threads; a copy of an export, or an
edited one, may have lost some.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.readers import nsys_schema
from harness.readers.columns import Database
from harness.readers.nsys_tally import Tally
from harness.trace import Warning_
from harness.words import agree, plural

_AGAIN = "Export the report again with nsys export --type sqlite --force-overwrite true."
_ID_COLUMNS = (
    (nsys_schema.NVTX, "textId"),
    (nsys_schema.RUNTIME, "nameId"),
    (nsys_schema.KERNEL, "shortName"),
    (nsys_schema.KERNEL, "demangledName"),
    ("ThreadNames", "nameId"),
)


def read_lost_names(db: Database, tally: Tally) -> Iterator[Warning_]:
    """Strings, then threads: without names where several threads of a process launched."""
    # Looking names up showed whether any lacks: the tables are scanned only where one does.
    lost = dict(_counted(db)) if db.nameless else {}
    if lost:
        number = sum(lost.values())
        where = ", ".join(f"{column}: {rows}" for column, rows in lost.items())
        yield Warning_(
            "missing-names",
            f"{plural(number, 'row')} {agree(number, 'has a name', 'have names')} that StringIds "
            f"does not hold ({where}): what has different names may be added up as one, and "
            "threads and API calls may not be told apart",
            _AGAIN,
        )
    processes = [process for process, _ in tally.launchers]
    if len(processes) > len(set(processes)) and not _named_threads(db):
        yield Warning_(
            "missing-names",
            "no thread has a name (table ThreadNames): PyTorch's backward threads cannot be told, "
            "and what they launch stays outside",
            _AGAIN,
        )


def _counted(db: Database) -> Iterator[tuple[str, int]]:
    """Rows whose string is not there, by column."""
    known = "SELECT 0 WHERE 0"
    if db.has("StringIds", "id", "value"):
        known = "SELECT id FROM StringIds WHERE value IS NOT NULL"
    for table, column in _ID_COLUMNS:
        if not db.has(table, column):
            continue
        sql = f"SELECT count(*) FROM {table} WHERE {column} NOT IN ({known})"
        if table == nsys_schema.NVTX and db.has(table, "text"):
            sql += " AND text IS NULL"
        if number := db.rows(sql, "i")[0][0]:
            yield f"{table}.{column}", number


def _named_threads(db: Database) -> bool:
    return db.has("ThreadNames", "nameId", "globalTid") and bool(
        db.rows("SELECT 1 FROM ThreadNames WHERE globalTid IS NOT NULL LIMIT 1", "i")
    )
