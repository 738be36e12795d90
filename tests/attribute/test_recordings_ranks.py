# SPDX-License-Identifier: MIT
"""examples/train_ddp.py on one H200: two ranks in one report, a report a rank, NCCL's world of one.

Both ranks of gloo share the GPU. No recording of NCCL between two GPUs exists.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from recordings import RECORDED, Work, found, sql, sql_ranges, sql_work, total

from harness import select, summarise
from harness.attribute import Attribution
from harness.selection import Selection

JOINT, APART = "ddp-gloo", ("ddp-gloo-straggler-0", "ddp-gloo-straggler-1")
MEASURES = ("kernels", "memcpys", "memsets", "total_kernel_ns", "total_gpu_ns")
SUMMED = ("instances", "cpu_ns", *MEASURES, "self_gpu_ns", "busy_ns")


def claimed(name: str, pid: int) -> dict[str, list[Work]]:
    """Work of the ranges that one main thread has open at launch: by name, outermost first.

    Backward's work is launched by an autograd thread, while ``backward`` is open on the main one.
    """
    tables = sql(name, "SELECT globalTid FROM ThreadNames JOIN StringIds ON id = nameId "
                 "WHERE value LIKE 'pt_autograd%'")  # fmt: skip
    engine = {tid for (tid,) in tables if tid >> 24 & 0xFFFFFF == pid}
    ranges = [r for r in sql_ranges(name) if r.tid & 0xFFFFFF == pid == r.tid >> 24 & 0xFFFFFF]
    work = [w for w in sql_work(name) if w.process & 0xFFFFFF == pid]
    out: dict[str, list[Work]] = {}
    for key in ("step", "data", "forward", "backward", "optimizer"):
        mine = [r for r in ranges if r.name == key]
        out[key] = [
            w
            for w in work
            if any(
                r.start <= w.call_start
                and w.call_end <= r.end
                and (w.tid == r.tid or (w.tid in engine and key in ("step", "backward")))
                for r in mine
            )
        ]
    return out


def by_pid(one: Attribution) -> dict[tuple[int, str], tuple[Any, ...]]:
    table = summarise.ranges(one)[["pid", "path", *SUMMED]]
    return {(pid, " / ".join(path)): tuple(rest)
            for pid, path, *rest in table.itertuples(index=False, name=None)}  # fmt: skip


def ranks(name: str) -> list[int]:
    return sorted({r.tid >> 24 & 0xFFFFFF for r in sql_ranges(name) if r.name == "step"})


def report(*words: str) -> str:
    argv = [sys.executable, "-m", "harness", "report", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def csv_rows(*words: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(report(*words, "--format", "csv"))))


class TestBothRanksInOneReport:
    """torchrun under nsys, four steps: torchrun's own process launches nothing."""

    @pytest.mark.parametrize("rank", [0, 1])
    def test_figures_of_each_rank(self, rank: int) -> None:
        pid = ranks(JOINT)[rank]
        got = by_pid(found(JOINT))
        for name, work in claimed(JOINT, pid).items():
            path = name if name == "step" else f"step / {name}"
            kernels = [w for w in work if w.table == "KERNEL"]
            counts = (
                len(kernels),
                *(sum(w.table == t for w in work) for t in ("MEMCPY", "MEMSET")),
            )
            row = dict(zip(SUMMED, got[pid, path], strict=True))
            assert tuple(row[m] for m in MEASURES) == (*counts, total(kernels), total(work))
            assert row["instances"] == 4
        assert got[pid, "step"][2] == 1676  # both ranks train the same model

    def test_correlation_ids_of_the_ranks_collide(self) -> None:
        ((both,),) = sql(
            JOINT,
            """SELECT count(*) FROM (SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL
               GROUP BY correlationId HAVING count(DISTINCT globalPid) = 2)""",
        )
        assert both == 78

    def test_the_parts_by_pid_add_up_to_the_whole(self) -> None:
        one, pids = found(JOINT), ranks(JOINT)
        parts = [select.apply(one, Selection(pids=(pid,))) for pid in pids]
        whole = by_pid(one)
        for pid, part in zip(pids, parts, strict=True):
            assert by_pid(part) == {key: row for key, row in whole.items() if key[0] == pid}
        ledgers = [part.ledger for part in parts]
        for field in ("attributed_ns", "outside_ns", "unlinked_ns"):
            assert sum(getattr(led, field) for led in ledgers) == getattr(one.ledger, field)
        work = sql_work(JOINT)
        assert one.ledger.gpu_ns == total(work)
        assert {w.process & 0xFFFFFF for w in work} == set(pids)


class TestAReportARank:
    """harness run under torchrun, six steps; rank 1 has twice the batch."""

    @pytest.mark.parametrize("name", APART)
    def test_figures_of_each(self, name: str) -> None:
        (pid,) = ranks(name)
        got = by_pid(found(name))
        for range_, work in claimed(name, pid).items():
            path = range_ if range_ == "step" else f"step / {range_}"
            row = dict(zip(SUMMED, got[pid, path], strict=True))
            kernels = [w for w in work if w.table == "KERNEL"]
            assert (row["kernels"], row["total_kernel_ns"]) == (len(kernels), total(kernels))
            assert (row["instances"], row["total_gpu_ns"]) == (6, total(work))

    def test_several_reports_make_the_rows_of_each(self) -> None:
        """To the nanosecond, so that any sum over them is that over the single reports."""
        folders = [str(RECORDED / name) for name in APART]
        both = csv_rows(*folders)
        for name, folder in zip(APART, folders, strict=True):
            own = [{k: v for k, v in row.items() if k != "source"}
                   for row in both if row["source"] == name]  # fmt: skip
            assert own == csv_rows(folder)
        work = [w for name in APART for w in sql_work(name)]
        text = json.loads(report(*folders, "--format", "json"))
        assert sum(one["ledger"]["gpu_ns"] for one in text["reports"]) == total(work)

    def test_the_straggler_is_named(self) -> None:
        rows = {row["path"]: row for row in
                csv_rows(*(str(RECORDED / name) for name in APART), "--spread")}  # fmt: skip
        step = rows["step"]
        (fast,), (slow,) = (ranks(name) for name in APART)
        expected = [total(claimed(APART[0], fast)["step"]), total(claimed(APART[1], slow)["step"])]
        assert [int(step["min_ns"]), int(step["max_ns"])] == expected
        assert (step["slowest"], step["straggler"]) == (APART[1], "True")
        assert rows["step / optimizer"]["straggler"] == "False"  # the same weights on both


class TestNcclInAWorldOfOne:
    """NCCL launches no kernel for one rank; its NVTX ranges are there."""

    def test_its_ranges_are_of_the_domain_nccl(self) -> None:
        ((count,),) = sql(
            "ddp-nccl-1",
            """SELECT count(*) FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId
               WHERE coalesce(value, text) = 'ncclAllReduce' AND eventType = 59""",
        )
        table = summarise.ranges(found("ddp-nccl-1"))
        table = table[table["name"] == "ncclAllReduce"]
        assert int(table["instances"].sum()) == count == 103
        assert set(table["domain"]) == {"NCCL"}
        assert ("step", "backward", "ncclAllReduce") in set(table["path"])
        assert int(table["kernels"].sum()) == 0

    def test_no_kernel_is_called_communication(self) -> None:
        names = sql("ddp-nccl-1", """SELECT DISTINCT value FROM CUPTI_ACTIVITY_KIND_KERNEL
                                     JOIN StringIds ON id = shortName""")  # fmt: skip
        assert not [name for (name,) in names if "nccl" in name.lower()]
        table = summarise.communication(found("ddp-nccl-1"))
        assert int(table["comm_kernels"].sum()) == 0


@pytest.mark.parametrize(("name", "copies"), [(JOINT, 444), ("ddp-nccl-1", 224)])
def test_without_communication_kernels_the_view_says_so(name: str, copies: int) -> None:
    """gloo's all-reduce is copies to the host and back; NCCL has nothing to do for one rank."""
    ((number, ns),) = sql(
        name,
        """SELECT count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_MEMCPY
           JOIN ENUM_CUDA_MEMCPY_OPER ON id = copyKind
           WHERE label IN ('Host-to-Device', 'Device-to-Host')""",
    )
    assert number == copies
    text = " ".join(
        report(str(RECORDED / name), "--view", "communication", "--format", "markdown").split()
    )
    assert f"{number} copies between host and device take {ns} ns" in text
    assert "no-communication" in text
