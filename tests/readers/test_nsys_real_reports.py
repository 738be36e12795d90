# SPDX-License-Identifier: MIT
"""Real reports: the Trace against SQL written here and against what nsys stats printed."""

from __future__ import annotations

import csv
import os
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.readers import nsys_sqlite

DATA = Path(__file__).parents[1] / "data"
REPORTS = sorted([*(DATA / "h200").glob("*.sqlite"), *(DATA / "aa").glob("*.sqlite")])
H200 = sorted((DATA / "h200").glob("*.sqlite"))
PUBLIC = Path(
    os.environ.get("HARNESS_PUBLIC_DATA", Path(__file__).parents[3] / "shared/data/public")
)
public = sorted(PUBLIC.glob("*.sqlite"))
OPS = {
    "kernel": "CUPTI_ACTIVITY_KIND_KERNEL",
    "memcpy": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "memset": "CUPTI_ACTIVITY_KIND_MEMSET",
    "graph": "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
}


def ids(path: Path) -> str:
    return path.stem


def sql(path: Path, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True) as db:
        return db.execute(query).fetchall()


def tables(path: Path) -> set[str]:
    return {name for (name,) in sql(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}


def stats(report: Path, name: str) -> list[dict[str, str]]:
    with (DATA / "h200" / "nsys_stats" / f"{report.stem}.{name}.csv").open(newline="") as file:
        # nsys prints an empty line first where it had to say something.
        return list(csv.DictReader(line for line in file if line.strip()))


@pytest.mark.parametrize("path", REPORTS + public, ids=ids)
def test_every_gpu_op_is_read_once(path: Path) -> None:
    ops = nsys_sqlite.read(path).gpu_ops
    for kind, table in OPS.items():
        count, total = 0, 0
        if table in tables(path):
            [(count, total)] = sql(path, f"SELECT count(*), total(end - start) FROM {table}")
        mine = ops[ops["kind"] == kind]
        assert len(mine) == count
        assert (mine["end"] - mine["start"]).sum() == int(total)


@pytest.mark.parametrize("path", REPORTS + public, ids=ids)
def test_kernels_keep_their_process_stream_and_three_names(path: Path) -> None:
    if OPS["kernel"] not in tables(path):
        pytest.skip("no kernels in this report")
    mangled = "k.mangledName"
    if not sql(
        path, f"SELECT 1 FROM pragma_table_info('{OPS['kernel']}') WHERE name='mangledName'"
    ):
        mangled = "k.demangledName"
    expected = sql(
        path,
        f"SELECT k.start, k.end, k.globalPid / 16777216, k.correlationId, k.deviceId, k.contextId, "
        # The short name, but what CUTLASS wraps instead of its wrapper.
        "k.streamId, CASE WHEN d.value LIKE 'void cutlass::Kernel2<%' "
        "THEN substr(d.value, 23, instr(d.value, '>') - 23) ELSE s.value END, "
        "d.value, m.value, coalesce(k.graphNodeId, -1) "
        f"FROM {OPS['kernel']} k "
        "JOIN StringIds s ON s.id = k.shortName JOIN StringIds d ON d.id = k.demangledName "
        f"JOIN StringIds m ON m.id = coalesce({mangled}, k.demangledName) ORDER BY k.rowid",
    )
    ops = nsys_sqlite.read(path).gpu_ops
    mine = ops[ops["kind"] == "kernel"]
    columns = ["start", "end", "process", "correlation", "device", "context", "stream", "name"]
    columns += ["demangled", "mangled", "graph_node"]
    assert list(mine[columns].astype(object).itertuples(index=False, name=None)) == expected


@pytest.mark.parametrize("path", REPORTS + public, ids=ids)
def test_ranges_have_their_names_threads_and_times(path: Path) -> None:
    trace = nsys_sqlite.read(path)
    if "NVTX_EVENTS" not in tables(path):
        assert trace.ranges.empty
        return
    expected = sql(
        path,
        "SELECT n.globalTid / 16777216, n.globalTid % 16777216, n.start, n.end, "
        "coalesce(s.value, n.text, ''), "
        "CASE n.eventType WHEN 59 THEN 'push_pop' ELSE 'start_end' END "
        "FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId "
        "WHERE n.eventType IN (59, 60) ORDER BY n.rowid",
    )
    assert _with_threads(trace.ranges, trace.threads, ["start", "end", "name", "style"]) == expected


@pytest.mark.parametrize("path", REPORTS + public, ids=ids)
def test_launches_have_their_names_threads_and_correlations(path: Path) -> None:
    trace = nsys_sqlite.read(path)
    if "CUPTI_ACTIVITY_KIND_RUNTIME" not in tables(path):
        assert trace.launches.empty
        return
    expected = sql(
        path,
        "SELECT r.globalTid / 16777216, r.globalTid % 16777216, r.start, r.end, r.correlationId, "
        "s.value FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId "
        "ORDER BY r.rowid",
    )
    columns = ["start", "end", "correlation", "name"]
    assert _with_threads(trace.launches, trace.threads, columns) == expected


@pytest.mark.parametrize("path", REPORTS + public, ids=ids)
def test_every_engine_reads_the_same(path: Path) -> None:
    fast = nsys_sqlite.read(path, engine="adbc")
    slow = nsys_sqlite.read(path, engine="stdlib")
    assert fast.warnings == slow.warnings
    for name in ("threads", "ranges", "launches", "gpu_ops", "graph_nodes"):
        one, other = getattr(fast, name), getattr(slow, name)
        assert list(one.dtypes.astype(str)) == list(other.dtypes.astype(str))
        pd.testing.assert_frame_equal(one, other, check_categorical=False)


@pytest.mark.parametrize("path", H200, ids=ids)
def test_kernels_add_up_to_cuda_gpu_kern_sum(path: Path) -> None:
    ops = nsys_sqlite.read(path).gpu_ops
    mine = ops[ops["kind"] == "kernel"]
    found = _sums(mine["demangled"], mine["end"] - mine["start"])
    assert found == {
        row["Name"]: (int(row["Instances"]), int(row["Total Time (ns)"]))
        for row in stats(path, "cuda_gpu_kern_sum")
    }


@pytest.mark.parametrize("path", H200, ids=ids)
def test_copies_and_sets_are_called_and_add_up_as_in_cuda_gpu_sum(path: Path) -> None:
    ops = nsys_sqlite.read(path).gpu_ops
    mine = ops[ops["kind"].isin(["memcpy", "memset"])]
    # nsys stats 2025.3 says "[CUDA memset]" and "[CUDA memcpy Host-to-Device]".
    assert _sums(mine["name"], mine["end"] - mine["start"]) == {
        row["Operation"]: (int(row["Instances"]), int(row["Total Time (ns)"]))
        for row in stats(path, "cuda_gpu_sum")
        if row["Category"] == "MEMORY_OPER"
    }


@pytest.mark.parametrize("path", H200, ids=ids)
def test_ranges_add_up_to_nvtx_sum(path: Path) -> None:
    ranges = nsys_sqlite.read(path).ranges
    style = ranges["style"].map({"push_pop": "PushPop", "start_end": "StartEnd"}).astype(str)
    label = ranges["domain"].astype(str) + ":" + ranges["name"].astype(str)
    # nsys stats does not escape the quote in `quote " comma , newline`: its CSV ends there.
    label = label.str.replace('"', "").str.split(",").str[0]
    found = _sums(style + label.str.split().str.join(" "), ranges["end"] - ranges["start"])
    assert found == {
        row["Style"] + " ".join(row["Range"].split()): (
            int(row["Instances"]),
            int(row["Total Time (ns)"]),
        )
        for row in stats(path, "nvtx_sum")
        if row["Style"] in ("PushPop", "StartEnd")
    }


def test_the_range_that_was_never_popped_is_open() -> None:
    ranges = nsys_sqlite.read(DATA / "h200/nested.sqlite").ranges
    assert ranges[ranges["open"]]["name"].tolist() == ["never-popped"]


def test_the_range_of_the_crash_is_open() -> None:
    ranges = nsys_sqlite.read(DATA / "h200/crash.sqlite").ranges
    assert ranges[ranges["open"]]["name"].tolist() == ["in-flight"]


def test_domains_keep_ranges_of_one_name_apart() -> None:
    ranges = nsys_sqlite.read(DATA / "h200/nested.sqlite").ranges
    assert sorted(ranges[ranges["name"] == "dom-range"]["domain"]) == ["harness", "other"]


def test_backward_runs_on_an_autograd_thread() -> None:
    threads = nsys_sqlite.read(DATA / "h200/train.sqlite").threads
    assert threads[threads["autograd"]]["name"].tolist() == ["pt_autograd_0"]


def test_graph_nodes_lead_back_to_the_capture() -> None:
    trace = nsys_sqlite.read(DATA / "h200/graph_node.sqlite")
    assert len(trace.graph_nodes) == 19
    replayed = trace.gpu_ops[trace.gpu_ops["graph_node"] >= 0]
    assert len(replayed) == 60
    origin = trace.graph_nodes[trace.graph_nodes["original"] >= 0].set_index("node")["original"]
    assert sorted(set(replayed["graph_node"].map(origin))) == [0x1_0000_0000 + i for i in range(6)]


def test_a_graph_recorded_whole_is_one_op_a_replay() -> None:
    ops = nsys_sqlite.read(DATA / "h200/graph_graph.sqlite").gpu_ops
    graphs = ops[ops["kind"] == "graph"]
    assert graphs["name"].tolist() == ["[CUDA graph 1]"] * 10


def test_source_says_what_recorded_it() -> None:
    source = nsys_sqlite.read(DATA / "h200/train.sqlite").source
    assert (source.kind, source.version) == ("nsys", "2025.3.2.0")
    assert source.facts["driver"] == "580.159.04"
    assert source.facts["cuda_driver"] == "13.0"
    [gpu] = source.facts["gpus"]
    assert (gpu["name"], gpu["device"], gpu["sm_count"]) == ("NVIDIA H200", 0, 132)


@pytest.mark.skipif(not public, reason="no public reports here")
def test_gpus_are_numbered_as_cuda_numbers_them() -> None:
    # TARGET_INFO_GPU.id runs the other way on that host.
    source = nsys_sqlite.read(PUBLIC / "no_nvtx_2025.5.sqlite").source
    assert [(gpu["device"], gpu["id"]) for gpu in source.facts["gpus"]] == [(0, 1), (1, 0)]


def _with_threads(frame: pd.DataFrame, threads: pd.DataFrame, columns: list[str]) -> list[Any]:
    thread = threads.iloc[frame["thread"].to_numpy()].reset_index(drop=True)
    out = pd.concat([thread[["process", "tid"]], frame[columns]], axis=1).astype(object)
    return list(out.itertuples(index=False, name=None))


def _sums(names: pd.Series, times: pd.Series) -> dict[str, tuple[int, int]]:
    grouped = times.groupby(names.astype(str))
    return {
        str(name): (int(count), int(total))
        for name, count, total in zip(
            grouped.size().index, grouped.size(), grouped.sum(), strict=True
        )
    }
