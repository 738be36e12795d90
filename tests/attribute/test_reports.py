# SPDX-License-Identifier: MIT
"""The runs kept in reports/: their sizes, and their figures beside plain SQL over their tables."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import harness
from harness import summarise
from harness.attribute import Attribution

REPORTS = Path(__file__).parents[2] / "reports"
RUNS = sorted(path.name for path in REPORTS.iterdir() if (path / "run.json").is_file())
FILES = sorted(str(path.relative_to(REPORTS)) for path in REPORTS.glob("*/*.sqlite"))
WORKLOADS = [file for file in FILES if "x1024-" in file]
BOTH = [name for name in RUNS if (REPORTS / name / "torch_trace.json.gz").exists()]


def sql(file: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{REPORTS / file}?mode=ro", uri=True)) as db:
        return db.execute(query, values).fetchall()


@cache
def found(file: str) -> Attribution:
    return harness.load(REPORTS / file).attribute()


def ranges(file: str) -> dict[str, tuple[int, int, int]]:
    """Path -> instances, kernels, their time."""
    table = summarise.ranges(found(file))
    columns = table[["path", "instances", "kernels", "total_kernel_ns"]]
    return {" / ".join(path): tuple(rest) for path, *rest in columns.itertuples(index=False)}


def test_each_run_is_small_and_all_of_them_are() -> None:
    sizes = {name: sum(file.stat().st_size for file in (REPORTS / name).iterdir()) for name in RUNS}
    assert max(sizes.values()) < 3_000_000
    assert sum(sizes.values()) < 20_000_000


#: An environment's variables, folders of one machine, a GPU's own UUID.
PRIVATE = re.compile(
    rb"(?<![A-Z_])(PATH|HOME|USER|HOSTNAME|PWD)=|/(root|home|tmp|work|opt/src)/|"
    rb"(?<![0-9a-f])[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)


@pytest.mark.parametrize("name", RUNS)
def test_nothing_in_it_says_whose_machine_it_was(name: str) -> None:
    """Every byte of it, not only what the readers read."""
    for file in (REPORTS / name).iterdir():
        assert file.suffix in (".sqlite", ".json", ".gz"), f"{file} cannot be scrubbed"
        content = file.read_bytes()
        found = PRIVATE.search(gzip.decompress(content) if file.suffix == ".gz" else content)
        assert found is None, f"{file}: {found}"
    assert "name" not in json.loads((REPORTS / name / "run.json").read_text())["host"]


@pytest.mark.parametrize("file", FILES)
def test_ledger_equals_the_sum_over_the_tables(file: str) -> None:
    there = {name for (name,) in sql(file, "SELECT name FROM sqlite_master WHERE type = 'table'")}
    kinds = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET")]
    sums = [
        sql(file, f"SELECT count(*), sum(end - start) FROM {table}")[0]
        for table in kinds
        if table in there
    ]
    ledger = found(file).ledger
    assert ledger.balanced
    assert (ledger.gpu_ops, ledger.gpu_ns) == tuple(map(sum, zip(*sums, strict=True)))
    assert ledger.unlinked_ns == 0


@pytest.mark.parametrize("file", WORKLOADS)
def test_blocks_hold_the_kernels_launched_inside(file: str) -> None:
    """Every spelling's gemm and chain: kernels by the range that their launch lies in."""
    got = ranges(file)
    seen = 0
    for block in ("eager-block", "fused-block", "compiled-block"):
        for name in ("gemm", "chain"):
            ((instances, kernels, ns),) = sql(
                file,
                """SELECT count(DISTINCT inner_.rowid), count(k.rowid), sum(k.end - k.start)
                   FROM NVTX_EVENTS AS outer_
                   JOIN NVTX_EVENTS AS inner_ ON inner_.start >= outer_.start
                    AND inner_.end <= outer_.end AND inner_.globalTid = outer_.globalTid
                   JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.start >= inner_.start
                    AND r.end <= inner_.end AND r.globalTid = inner_.globalTid
                   JOIN CUPTI_ACTIVITY_KIND_KERNEL AS k ON k.correlationId = r.correlationId
                   WHERE outer_.text = ? AND inner_.text = ?""",
                block,
                name,
            )
            assert got[f"{block} / {name}"] == (instances, kernels, ns)
            assert instances == 10
            # The eager chain is five operators; all else is one kernel.
            assert kernels == (50 if (block, name) == ("eager-block", "chain") else 10)
            seen += kernels
    assert seen == 100


@pytest.mark.parametrize("name", BOTH)
def test_both_profilers_saw_as_many_executions_of_each_kernel(name: str) -> None:
    file = f"{name}/report.sqlite"
    with gzip.open(REPORTS / name / "torch_trace.json.gz", "rt", encoding="utf-8") as stream:
        events = json.load(stream)["traceEvents"]
    torch = sum(event.get("cat") == "kernel" for event in events)
    ((nsys,),) = sql(file, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")
    assert nsys == torch > 0


class TestTraining:
    """examples/train_transformer.py --steps 8, plain, compiled, and as a CUDA graph."""

    @pytest.mark.parametrize("run", ["h200-train", "h200-train-compiled"])
    def test_steps(self, run: str) -> None:
        file = f"{run}/report.sqlite"
        got = ranges(file)
        for name in ("forward", "optimizer"):
            ((kernels, ns),) = sql(
                file,
                """SELECT count(*), sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
                   JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = k.correlationId
                   WHERE EXISTS (SELECT 1 FROM NVTX_EVENTS AS n
                    LEFT JOIN StringIds AS s ON s.id = n.textId
                    WHERE coalesce(s.value, n.text) = ? AND n.globalTid = r.globalTid
                    AND n.start <= r.start AND r.end <= n.end)""",
                name,
            )
            assert got[f"step / {name}"] == (8, kernels, ns)

    def test_backward_is_what_autograd_threads_launched(self) -> None:
        """All of it: outside of the ranges that the main thread opens there is no other work."""
        file = "h200-train-compiled/report.sqlite"
        ((kernels, ns),) = sql(
            file,
            """SELECT count(*), sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
               JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = k.correlationId
               JOIN ThreadNames AS t ON t.globalTid = r.globalTid
               JOIN StringIds AS s ON s.id = t.nameId WHERE s.value LIKE 'pt_autograd%'""",
        )
        ops = summarise.ops(found(file))
        ops = ops[(ops["rule"] == "autograd") & (ops["kind"] == "kernel")]
        assert (len(ops), int((ops["end_ns"] - ops["start_ns"]).sum())) == (kernels, ns)
        assert {path[:2] for path in ops["path"]} == {("step", "backward")}

    def test_a_replayed_step_is_the_graph_that_was_launched(self) -> None:
        """Node by node: kernels of graph nodes, by the cudaGraphLaunch that their id belongs to."""
        file = "h200-train-graphs/report.sqlite"
        rows = sql(
            file,
            """SELECT k.end - k.start FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
               JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = k.correlationId
               JOIN StringIds AS s ON s.id = r.nameId
               WHERE s.value LIKE 'cudaGraphLaunch%' AND k.graphNodeId IS NOT NULL""",
        )
        number, ns = len(rows), sum(row[0] for row in rows)
        assert ranges(file)["step / replay"] == (8, number, ns)
        ops = summarise.ops(found(file))
        replayed = ops[[tuple(path) == ("step", "replay") for path in ops["path"]]]
        captured = Counter(path[:2] for path in replayed["captured_path"])
        kinds = {path[1] for path in captured if len(path) > 1 and path[0] == "capture"}
        assert kinds == {"forward", "backward", "optimizer"}
        # Each node runs once a replay.
        assert all(count % 8 == 0 for count in captured.values())
