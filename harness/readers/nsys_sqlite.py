# SPDX-License-Identifier: MIT
"""Nsight Systems' SQLite export as a Trace, at once or in parts."""

from __future__ import annotations

from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from harness.errors import UnreadableReport
from harness.readers import nsys_schema
from harness.readers.columns import Database, open_database
from harness.readers.nsys_chunks import Plan
from harness.readers.nsys_facts import read_source
from harness.readers.nsys_frames import Frames, all_queries
from harness.readers.nsys_warnings import Oddities, read_warnings
from harness.trace import Trace


def read(path: str | Path, *, engine: str = "auto", without: Set[str] = frozenset()) -> Trace:
    """Read an nsys SQLite export. ``engine``: see ``columns.Database``; ``without`` are columns
    of GPU ops that nobody will ask for: they hold -1, names are empty.

    Raises:
        UnreadableReport: the file is missing, damaged, or not an nsys export.
    """
    with _opened(Path(path), engine) as db:
        frames = Frames(db, all_queries(db, without))
        trace = _trace(db, frames)
        oddities = Oddities(bad_times=frames.bad_times)
        return replace(trace, warnings=read_warnings(db, trace, oddities))


def iter_chunks(
    path: str | Path, rows: int = 2_000_000, *, engine: str = "auto"
) -> Iterator[Trace]:
    """The same recording in parts of about ``rows`` launches and GPU ops, for files larger than
    memory.

    Every GPU op and every launch is in exactly one part, an op in that of its launch; threads are
    numbered alike in all parts. A range is in every part in which a launch of its process ran while
    it was open, so that each op finds all its ranges; the index of ``ranges`` (``row``, the row of
    NVTX_EVENTS) tells which are the same. A range without launches may be in no part. Graph nodes,
    and the ranges open while they were made, are in every part. Parts have no warnings.

    Raises:
        UnreadableReport: as ``read``.
    """
    with _opened(Path(path), engine) as db:
        plan = Plan(db, rows)
        for queries in plan.parts():
            numbered = [
                replace(query, integers={**query.integers, "row": "rowid"})
                for query in queries.get("ranges", [])
            ]
            yield _trace(db, Frames(db, {**queries, "ranges": numbered}, plan.whole))


@contextmanager
def _opened(path: Path, engine: str) -> Iterator[Database]:
    with open_database(path, engine) as db:
        if not nsys_schema.is_export(db):
            raise UnreadableReport(
                f"{path}: a SQLite file, but not an nsys export",
                hint="Make one with nsys export --type sqlite REPORT.nsys-rep.",
            )
        yield db


def _trace(db: Database, frames: Frames) -> Trace:
    return Trace(
        source=read_source(db),
        threads=frames.threads,
        ranges=frames.ranges,
        launches=frames.launches,
        gpu_ops=frames.gpu_ops,
        graph_nodes=frames.graph_nodes,
    )
