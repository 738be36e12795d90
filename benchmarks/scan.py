# SPDX-License-Identifier: MIT
"""The yardstick: step over the columns that attribution needs, and do nothing with them.

SQLite itself walks the rows and adds the columns up, so no row becomes a Python object. Nothing
that reads the export through SQLite can be faster than this.

    python benchmarks/scan.py REPORT.sqlite
"""

import sqlite3
import sys

COLUMNS = {
    "NVTX_EVENTS": ("start", '"end"', "eventType", "globalTid", "textId", "length(text)"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", '"end"', "globalTid", "correlationId", "nameId"),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start", '"end"', "deviceId", "contextId", "streamId", "correlationId", "globalPid",
        "shortName", "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("start", '"end"', "deviceId", "correlationId", "globalPid"),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("start", '"end"', "deviceId", "correlationId", "globalPid"),
}  # fmt: skip


def scan(path: str) -> int:
    """How many rows there were."""
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    present = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    rows = 0
    for table, columns in COLUMNS.items():
        if table in present:
            # total() adds as a double: sum() of nanoseconds over millions of rows overflows.
            sums = ", ".join(f"total({column})" for column in columns)
            rows += db.execute(f"SELECT count(*), {sums} FROM {table}").fetchone()[0]
    return rows


if __name__ == "__main__":
    print(scan(sys.argv[1]))
