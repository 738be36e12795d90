# SPDX-License-Identifier: MIT
"""Ways to get the columns of an nsys export out of SQLite, each in a process of its own.

    python benchmarks/reading_sqlite.py REPORT.sqlite [--runs 3] [WAY...]

Prints the median wall time, the CPU time and the peak memory of each way; one whose package is
not installed is left out. ``docs/notes/reading-sqlite.md`` has what came of it.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "SELECT start, end, coalesce(globalPid, -1) a, "
    "coalesce(correlationId, -1) b, deviceId, contextId, streamId, coalesce(graphNodeId, -1) c, "
    "shortName, demangledName, coalesce(mangledName, -1) d FROM CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "SELECT start, end, globalTid, correlationId, nameId "
    "FROM CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS": "SELECT start, coalesce(end, start) a, globalTid, eventType, "
    "coalesce(textId, -1) b, coalesce(domainId, 0) c, text FROM NVTX_EVENTS "
    "WHERE eventType IN (59, 60, 70, 71)",
}


def _sqlite(path: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)


def _without_text(query: str) -> str:
    return query.replace(", text FROM", " FROM")


def sqlite3_fetchall(path: str) -> None:
    for query in TABLES.values():
        _sqlite(path).execute(query).fetchall()


def sqlite3_fromiter(path: str) -> None:
    for query in TABLES.values():
        rows = _sqlite(path).execute(_without_text(query))
        np.fromiter(itertools.chain.from_iterable(rows), np.int64)


def sqlite3_hex(path: str) -> None:
    """One text for a whole table, packed by SQL: the GIL is free, SQLite's printf is not."""
    for query in map(_without_text, TABLES.values()):
        db = _sqlite(path)
        names = [column[0] for column in db.execute(f"{query} LIMIT 1").description]
        row = f"printf('{'%016x' * len(names)}', {', '.join(names)})"
        [(text,)] = db.execute(f"SELECT group_concat({row}, '') FROM ({query})")
        np.frombuffer(bytes.fromhex(text), ">i8").reshape(-1, len(names))


def apsw_fromiter(path: str) -> None:
    import apsw

    for query in map(_without_text, TABLES.values()):
        rows = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY).execute(query)
        np.fromiter(itertools.chain.from_iterable(rows), np.int64)


def connectorx_arrow(path: str) -> None:
    import connectorx

    for query in TABLES.values():
        connectorx.read_sql(f"sqlite://{path}", query, return_type="arrow")


def connectorx_partitions(path: str) -> None:
    import connectorx

    for table, query in TABLES.items():
        connectorx.read_sql(f"sqlite://{path}", _cut(path, table, query, 2), return_type="arrow")


def adbc_pyarrow(path: str) -> None:
    for query in TABLES.values():
        _adbc(path, query)


def adbc_pyarrow_threads(path: str) -> None:
    queries = [part for table, query in TABLES.items() for part in _cut(path, table, query, 6)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda query: _adbc(path, query), queries))


def _adbc(path: str, query: str) -> Any:
    import adbc_driver_sqlite.dbapi as adbc

    with adbc.connect(f"file:{path}?mode=ro&immutable=1") as db, db.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": "8192"})
        cursor.execute(query)
        return cursor.fetch_arrow_table()


def _cut(path: str, table: str, query: str, parts: int) -> list[str]:
    [(last,)] = _sqlite(path).execute(f"SELECT max(rowid) FROM {table}")
    edges = np.linspace(0, last, parts + 1).astype(int)
    word = "AND" if "WHERE" in query else "WHERE"
    return [
        f"{query} {word} rowid > {low} AND rowid <= {high}"
        for low, high in itertools.pairwise(edges)
    ]


def harness_one_thread(path: str) -> None:
    from harness.readers import columns

    columns._cores = lambda: 1
    _harness(path, "adbc")


def harness_threads(path: str) -> None:
    _harness(path, "adbc")


def harness_stdlib(path: str) -> None:
    _harness(path, "stdlib")


def _harness(path: str, engine: str) -> None:
    from harness.readers import nsys_schema
    from harness.readers.columns import open_database
    from harness.trace import KINDS

    with open_database(Path(path), engine) as db:
        ops = [nsys_schema.ops_query(db, kind) for kind in KINDS]
        ranges, launches = nsys_schema.ranges_query(db), nsys_schema.launches_query(db)
        stacks = ([query for query in ops if query], [ranges], [launches])
        db.read(*[stack for stack in stacks if stack and None not in stack])  # type: ignore[list-item]


WAYS: dict[str, Callable[[str], None]] = {
    way.__name__: way
    for way in (
        sqlite3_fetchall, sqlite3_fromiter, sqlite3_hex, apsw_fromiter, connectorx_arrow,
        connectorx_partitions, adbc_pyarrow, adbc_pyarrow_threads, harness_stdlib,
        harness_one_thread, harness_threads,
    )
}  # fmt: skip


#: Imported before the clock starts.
PACKAGES = {
    "apsw": ["apsw"],
    "connectorx": ["connectorx", "pyarrow"],
    "adbc": ["adbc_driver_sqlite.dbapi", "pyarrow"],
    "harness": ["harness.readers.nsys_schema", "harness.trace", "adbc_driver_sqlite"],
    "sqlite3": [],
}


def one(way: str, path: str) -> dict[str, float]:
    for package in PACKAGES[way.partition("_")[0]]:
        importlib.import_module(package)
    start, cpu = time.perf_counter(), time.process_time()
    WAYS[way](path)
    return {
        "wall": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time ways of reading an nsys export.")
    parser.add_argument("report")
    parser.add_argument("ways", nargs="*", metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", action="store_true", help="run one way here and print JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.ways[0], options.report)))
        return
    print(f"{'way':24} {'wall s':>7} {'CPU s':>7} {'peak MB':>8}")
    for way in options.ways or WAYS:
        command = [sys.executable, __file__, options.report, way, "--one"]
        runs = []
        for _ in range(options.runs):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{way:24} {done.stderr.strip().splitlines()[-1]}")
                break
            runs.append(json.loads(done.stdout))
        else:
            median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
            print(f"{way:24} {median['wall']:7.2f} {median['cpu']:7.2f} {median['mb']:8.0f}")


if __name__ == "__main__":
    main()
