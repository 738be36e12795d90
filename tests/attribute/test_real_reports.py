# SPDX-License-Identifier: MIT
"""Figures of the recorded H200 reports, worked out by hand or by SQL over their tables."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import harness
from harness import summarise
from harness.attribute import Attribution

H200 = Path(__file__).parent.parent / "data" / "h200"
REPORTS = sorted(p.stem for p in H200.glob("*.sqlite"))


def found(report: str, policy: str = "autograd") -> Attribution:
    return harness.load(H200 / f"{report}.sqlite").attribute(policy)


def sql(report: str, query: str) -> list[tuple[int, ...]]:
    with sqlite3.connect(f"file:{H200 / report}.sqlite?mode=ro", uri=True) as db:
        return db.execute(query).fetchall()


def by_path(table, *columns: str) -> dict[str, tuple[int, ...]]:  # type: ignore[no-untyped-def]
    return {
        " / ".join(row[0]): row[1:]
        for row in table[["path", *columns]].itertuples(index=False, name=None)
    }


def test_blocks_by_hand() -> None:
    one = found("blocks")
    kernels = by_path(summarise.ranges(one), "total_kernel_ns", "kernels", "instances")
    assert kernels == {
        "eager-block": (4_364_564, 60, 10),
        "eager-block / gemm": (3_488_535, 10, 10),
        "eager-block / chain": (876_029, 50, 10),
    }
    outside = summarise.ops(one).query("rule == 'outside' and kind == 'kernel'")
    assert int((outside["end_ns"] - outside["start_ns"]).sum()) == 1_365_885
    assert len(outside) == 20


def test_backward_is_claimed_by_the_calling_thread() -> None:
    one = found("train")
    table = by_path(summarise.ranges(one), "self_kernel_ns", "self_kernels", "memsets")
    assert table["step / backward"] == (2_498_169, 128, 24)
    ops = summarise.ops(one)
    backward = ops[(ops["path"] == ("step", "backward")) & (ops["kind"] == "kernel")]
    duration = backward["end_ns"] - backward["start_ns"]
    assert duration.groupby(backward["rule"].astype(str)).sum().to_dict() == {
        "thread": 5_600,
        "autograd": 2_492_569,
    }
    # All kernels launched by pt_autograd_0, straight from the tables.
    ((total, number),) = sql(
        "train",
        """SELECT sum(k.end - k.start), count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k
           JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId
           WHERE r.globalTid IN (SELECT globalTid FROM ThreadNames t JOIN StringIds s
                                 ON s.id = t.nameId WHERE s.value = 'pt_autograd_0')""",
    )
    assert (total, number) == (2_492_569, 120)


def test_policy_thread_leaves_backward_on_the_autograd_thread_outside() -> None:
    table = by_path(summarise.ranges(found("train", "thread")), "self_kernel_ns", "memsets")
    assert table["step / backward"] == (5_600, 0)


def test_graph_level_replays_are_attributed() -> None:
    one = found("graph_graph")
    table = by_path(summarise.ranges(one), "graphs", "kernels", "total_gpu_ns")
    ((replays,),) = sql(
        "graph_graph", "SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
    )
    assert table["graph-replay"] == (10, 0, replays)


def test_graph_nodes_name_replay_and_capture() -> None:
    ops = summarise.ops(found("graph_node"))
    replayed = ops[ops["path"] == ("graph-replay",)]
    assert len(replayed) == 60
    assert int((replayed["end_ns"] - replayed["start_ns"]).sum()) == 424_287
    assert {path[-1] for path in replayed["captured_path"]} == {"captured-chain"}
    assert set(ops[ops["path"] != ("graph-replay",)]["captured_path"]) == {()}


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@pytest.mark.parametrize("report", REPORTS)
def test_ledger_balances(report: str, policy: str) -> None:
    one = found(report, policy)
    total = 0
    tables = {name for (name,) in sql(report, "SELECT name FROM sqlite_master")}
    for table in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"):
        if f"CUPTI_ACTIVITY_KIND_{table}" in tables:
            ((ns,),) = sql(report, f"SELECT sum(end - start) FROM CUPTI_ACTIVITY_KIND_{table}")
            total += ns or 0
    ledger = one.ledger
    assert ledger.balanced
    assert ledger.gpu_ns == total
    own = int(summarise.ranges(one)["self_gpu_ns"].sum())
    assert own == ledger.attributed_ns
    assert own + ledger.outside_ns + ledger.unlinked_ns == total


def test_recursion_by_sql() -> None:
    # Kernels whose launch lies inside the outermost of the five nested "recurse" ranges.
    ((number, total),) = sql(
        "nested",
        """SELECT count(*), sum(k.end - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k
           JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId
           JOIN (SELECT min(start) AS a, max(end) AS b, globalTid FROM NVTX_EVENTS
                 WHERE text = 'recurse') n
           ON r.globalTid = n.globalTid AND r.start >= n.a AND r.end <= n.b""",
    )
    table = summarise.names(found("nested"))
    row = table[table["name"] == "recurse"].iloc[0]
    assert (row["instances"], row["kernels"], row["total_kernel_ns"]) == (5, number, total)
    paths = by_path(summarise.ranges(found("nested")), "kernels")
    assert paths["recurse / recurse / recurse / recurse / recurse"] == (1,)


def test_an_open_range_keeps_its_kernels_and_loses_its_cpu_time() -> None:
    table = by_path(summarise.ranges(found("nested")), "open", "cpu_ns", "kernels")
    assert table["never-popped"] == (1, 0, 1)


def test_start_end_across_threads_needs_policy_process() -> None:
    def tanh_rule(policy: str) -> str:
        ops = summarise.ops(found("nested", policy), names="demangled")
        row = ops[ops["name"].astype(str).str.contains("::tanh_kernel_cuda")].iloc[0]
        return f"{row['rule']}: {' / '.join(row['path'])}"

    # Another thread launches tanh while start-end, begun by the main thread, is open.
    assert tanh_rule("thread") == "outside: "
    assert tanh_rule("autograd") == "outside: "
    assert tanh_rule("process") == "process: start-end"
