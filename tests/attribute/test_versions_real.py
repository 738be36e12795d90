# SPDX-License-Identifier: MIT
"""Real captures by nsys 2022.4 and 2023.4 here, with CUDA rows put into their own empty tables.

A machine without a GPU records ranges only; ``nsys export -l false`` writes every other table
empty. The same rows beside the same ranges in the 2025.3 schema must be attributed alike.

HARNESS_NSYS_VERSIONS may list more nsys binaries (separated by ``:``) than the usual places hold.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import harness
from harness import summarise
from harness.launch.nsys import Nsys, probe

pytestmark = pytest.mark.nsys
SCHEMAS = Path(__file__).parent.parent / "data" / "nsys_schemas"
PROGRAM = """
import threading
import time
import nvtx

def nest(depth):
    if depth:
        with nvtx.annotate("recurse"):
            time.sleep(0.0002)
            nest(depth - 1)

def work():
    for _ in range(3):
        with nvtx.annotate("worker"):
            time.sleep(0.0002)
            nvtx.push_range("in lib", domain="lib")
            time.sleep(0.0002)
            nvtx.pop_range(domain="lib")

with nvtx.annotate("outer"):
    nest(3)
    with nvtx.annotate("other domain", domain="another"):
        time.sleep(0.0002)
    begun = nvtx.start_range("start/end")
    with nvtx.annotate("inner"):
        time.sleep(0.0002)
    nvtx.end_range(begun)
handed = nvtx.start_range("handed over")
threads = [threading.Thread(target=work) for _ in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
ender = threading.Thread(target=nvtx.end_range, args=(handed,))
ender.start()
ender.join()
with nvtx.annotate("node range"):
    time.sleep(0.0002)
nvtx.push_range("never popped")
time.sleep(0.001)
"""


def candidates() -> list[Path]:
    places = [Path(p) for p in os.environ.get("HARNESS_NSYS_VERSIONS", "").split(":") if p]
    places += [Path("/usr/bin/nsys"), Path("/usr/local/bin/nsys")]
    for folder in (Path("/opt"), Path("/opt/nvidia/nsight-systems")):
        places += sorted(folder.glob("*/bin/nsys"))
    return [place for place in places if place.exists()]


def by_release() -> dict[str, Nsys]:
    found = {}
    for place in candidates():
        nsys = probe(str(place))
        if isinstance(nsys, Nsys):
            found.setdefault(".".join(map(str, nsys.release)), nsys)
    return found


class Row(NamedTuple):
    table: str
    values: dict[str, Any]


@pytest.fixture(scope="module", params=["2022.4", "2023.4"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export, with every table, of a real capture by that version."""
    nsys = by_release().get(request.param)
    if nsys is None:
        pytest.skip(f"NOT TESTED: nsys {request.param} is not here")
    pytest.importorskip("nvtx")
    nvtx = version("nvtx")
    if tuple(int(part) for part in nvtx.split(".")[:3]) >= (0, 2, 12):
        pytest.skip(f"NOT TESTED: nvtx {nvtx} records no ranges under {request.param}")
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "program.py").write_text(PROGRAM)
    report, export, said = folder / "r.nsys-rep", folder / "r.sqlite", ""
    for _ in range(3):  # two nsys that start at one moment fail (2022.4)
        done = subprocess.run(
            [nsys.path, "profile", "-t", "nvtx", "--sample=none", "--cpuctxsw=none",
             "-o", str(report), sys.executable, str(folder / "program.py")],
            capture_output=True, text=True, check=False, cwd=folder,
            start_new_session=True,  # nsys profile --kill signals a process group: not ours
        )  # fmt: skip
        said += done.stdout + done.stderr
        if report.is_file():
            break
    assert report.is_file(), said
    subprocess.run(
        [nsys.path, "export", "-t", "sqlite", "-l", "false", "-o", str(export), str(report)],
        check=True, capture_output=True,
    )  # fmt: skip
    return export


def insert(db: sqlite3.Connection, table: str, values: dict[str, Any]) -> None:
    known = {}
    for _, name, _, required, default, key in db.execute(f"PRAGMA table_info({table})"):
        known[name] = required and default is None and not key
    row = {name: value for name, value in values.items() if name in known}
    row |= {name: 0 for name, required in known.items() if required and name not in row}
    marks = ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


def ranges_of(export: Path) -> list[tuple[str, int, int, int]]:
    with closing(sqlite3.connect(export)) as db:
        return db.execute(
            """SELECT coalesce(value, text), start, end, globalTid FROM NVTX_EVENTS
               LEFT JOIN StringIds ON id = textId WHERE eventType IN (59, 60) ORDER BY start"""
        ).fetchall()


def cuda_rows(export: Path, node_table: str) -> list[Row]:
    """In each range one call with a kernel, by turns a copy or a set; a replayed graph node.

    Whole graphs are left out: neither version writes an empty table for them.
    """
    rows: list[Row] = []

    def launch(number: int, start: int, end: int, tid: int, api: str) -> None:
        values = {"start": start, "end": end, "globalTid": tid, "correlationId": number}
        rows.append(Row("CUPTI_ACTIVITY_KIND_RUNTIME", {**values, "nameId": api}))

    def work(table: str, number: int, start: int, ns: int, tid: int, **more: Any) -> None:
        place = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": tid >> 24 << 24}
        times = {"start": start, "end": start + ns, "correlationId": number}
        rows.append(Row(f"CUPTI_ACTIVITY_KIND_{table}", {**place, **times, **more}))

    names = {"shortName": "k", "demangledName": "void k(int)", "mangledName": "_Z1ki"}
    ranges = ranges_of(export)
    for number, (name, start, end, tid) in enumerate(ranges):
        early = start + 100  # before anything nested here can have begun
        launch(number, early, early + 10, tid, "cudaLaunchKernel")
        if number % 5 == 1:
            work("MEMCPY", number, end + 5, 300 + number, tid, bytes=64, copyKind=1)
        elif number % 5 == 2:
            work("MEMSET", number, end + 5, 200 + number, tid, bytes=64, value=0)
        else:
            work("KERNEL", number, end + 5, 1000 + number, tid, **names)
        if name == "node range":  # a node made here, cloned, and replayed in "never popped"
            made = {"globalTid": tid, "nameId": "cudaGraphAddKernelNode"}
            rows.append(
                Row(node_table, {**made, "start": early, "end": early + 1, "graphNodeId": 100})
            )
            clone = {**made, "graphNodeId": 200, "originalGraphNodeId": 100}
            rows.append(Row(node_table, {**clone, "start": end + 1, "end": end + 2}))
    _, start, _, tid = ranges[-1]
    launch(900, start + 10, start + 20, tid, "cudaGraphLaunch")
    work("KERNEL", 900, start + 50, 77, tid, graphNodeId=200, **names)
    outside = ranges[0][1] - 1000
    launch(901, outside, outside + 1, tid, "cudaLaunchKernel")
    work("KERNEL", 901, outside + 5, 13, tid, **names)
    work("KERNEL", 902, outside + 99, 17, tid, **names)  # unlinked
    return rows


STRINGS = ["cudaLaunchKernel", "cudaGraphLaunch", "cudaGraphAddKernelNode", "k", "void k(int)",
           "_Z1ki"]  # fmt: skip


def add_rows(path: Path, rows: list[Row]) -> Path:
    with closing(sqlite3.connect(path)) as db:
        have = dict(db.execute("SELECT value, id FROM StringIds").fetchall())
        following = max(have.values(), default=0) + 1
        for text in STRINGS:
            if text not in have:
                have[text] = following
                following += 1
                db.execute("INSERT INTO StringIds (id, value) VALUES (?, ?)", (have[text], text))
        for row in rows:
            values = {n: have[v] if isinstance(v, str) else v for n, v in row.values.items()}
            insert(db, row.table, values)
        db.commit()
    return path


def in_2025_schema(export: Path, target: Path) -> Path:
    """The capture's ranges, threads and duration, copied into a file of the 2025.3 schema."""
    with closing(sqlite3.connect(target)) as db:
        db.executescript((SCHEMAS / "2025.3.sql").read_text())
        db.execute("ATTACH ? AS old", (str(export),))
        for table in ("StringIds", "NVTX_EVENTS", "ThreadNames", "ANALYSIS_DETAILS", "PROCESSES"):
            new = {r[1]: r[3] for r in db.execute(f"PRAGMA table_info({table})")}
            old = [r[1] for r in db.execute(f"PRAGMA old.table_info({table})")]
            shared = [name for name in old if name in new]
            for row in db.execute(f"SELECT {', '.join(shared)} FROM old.{table}").fetchall():
                insert(db, table, dict(zip(shared, row, strict=True)))
        db.commit()
    return target


def tables_of(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(path)) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            yield name


@pytest.fixture(scope="module")
def pair(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(the version's own file, the same in the 2025.3 schema), both with the CUDA rows."""
    twin = in_2025_schema(recorded, tmp_path_factory.mktemp("twin") / "r.sqlite")
    own_nodes = "CUDA_GRAPH_NODE_EVENTS"
    if own_nodes not in set(tables_of(recorded)):
        own_nodes = "CUDA_GRAPH_EVENTS"  # before 2024.2
    rows = cuda_rows(recorded, "nodes")

    def placed(nodes: str) -> list[Row]:
        return [Row(nodes if r.table == "nodes" else r.table, r.values) for r in rows]

    add_rows(twin, placed("CUDA_GRAPH_NODE_EVENTS"))
    return add_rows(recorded, placed(own_nodes)), twin


def test_node_rows_went_where_this_version_keeps_them(pair: tuple[Path, Path]) -> None:
    own, _ = pair
    assert "CUDA_GRAPH_NODE_EVENTS" not in set(tables_of(own))
    with closing(sqlite3.connect(own)) as db:
        assert db.execute("SELECT count(*) FROM CUDA_GRAPH_EVENTS").fetchone() == (2,)


def test_ranges_of_the_program_are_all_there(pair: tuple[Path, Path]) -> None:
    counts: dict[str, int] = {}
    for name, *_ in ranges_of(pair[0]):
        counts[name] = counts.get(name, 0) + 1
    assert counts == {
        "outer": 1, "recurse": 3, "other domain": 1, "start/end": 1, "inner": 1,
        "handed over": 1, "worker": 6, "in lib": 6, "node range": 1, "never popped": 1,
    }  # fmt: skip


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
def test_same_attribution_as_in_the_2025_schema(pair: tuple[Path, Path], policy: str) -> None:
    own, twin = (harness.load(path).attribute(policy) for path in pair)
    assert own.ledger == twin.ledger
    assert own.ledger.unlinked_ns == 17
    for view in ("ranges", "names", "kernels", "ops", "instances", "layers", "latency"):
        mine, theirs = getattr(summarise, view)(own), getattr(summarise, view)(twin)
        assert mine.astype(object).to_dict("records") == theirs.astype(object).to_dict("records")


def test_figures_by_hand(pair: tuple[Path, Path]) -> None:
    """The op of each range is claimed by that range; its time says which one it is."""
    found = harness.load(pair[0]).attribute("thread")
    ops = summarise.ops(found)
    ranges = ranges_of(pair[0])
    expected = {}
    base = {1: 300, 2: 200}
    for number, (name, *_) in enumerate(ranges):
        expected[number] = (name, base.get(number % 5, 1000) + number)
    mine = ops[ops["correlation"] < 900]
    got = {row.correlation: (row.path[-1], row.end_ns - row.start_ns) for row in mine.itertuples()}
    # The start/end range lies inside "outer": its op's self time is there.
    at = next(n for n, (name, *_) in enumerate(ranges) if name == "start/end")
    expected[at] = ("outer", expected[at][1])
    assert got == expected
    replay = ops[ops["correlation"] == 900].iloc[0]
    assert replay["path"] == ("never popped",)
    assert replay["captured_path"] == ("node range",)
    table = summarise.names(found)
    handed = table[table["name"] == "handed over"].iloc[0]
    assert (handed["style"], handed["instances"]) == ("start_end", 1)
    popped = table[table["name"] == "never popped"].iloc[0]
    assert popped["open"] == 1
