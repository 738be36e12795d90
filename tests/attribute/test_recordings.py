# SPDX-License-Identifier: MIT
"""Figures of our own H200 recordings, each beside a plain reading of the tables.

How often what happens is said in the docstrings of examples/scenarios.py.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from recordings import (
    BOTH,
    NAMES,
    POLICIES,
    by_path,
    found,
    inside,
    sql,
    sql_ranges,
    sql_work,
    torch_found,
    total,
    union,
)

from harness import summarise


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", NAMES)
def test_ledger_equals_the_sum_over_the_tables(name: str, policy: str) -> None:
    one, work = found(name, policy), sql_work(name)
    assert one.ledger.balanced
    assert (one.ledger.gpu_ops, one.ledger.gpu_ns) == (len(work), total(work))
    own = int(summarise.ranges(one)["self_gpu_ns"].sum())
    ledger = one.ledger
    assert own + ledger.outside_ns + ledger.unlinked_ns == total(work)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", BOTH)
def test_ledger_of_the_torch_trace_balances(name: str, policy: str) -> None:
    one = torch_found(name, policy)
    own = int(summarise.ranges(one)["self_gpu_ns"].sum())
    assert own + one.ledger.outside_ns + one.ledger.unlinked_ns == one.ledger.gpu_ns
    assert one.ledger.balanced


@pytest.mark.parametrize("name", NAMES)
def test_policy_thread_equals_a_loop_over_the_tables(name: str) -> None:
    """Every (range name, thread): kernels and their time, recursion counted once."""
    ranges, work = sql_ranges(name), [w for w in sql_work(name) if w.table == "KERNEL"]
    expected = {}
    for key in {(r.name, r.tid, r.style) for r in ranges}:
        claimed = inside(work, [r for r in ranges if (r.name, r.tid, r.style) == key])
        expected[(key[0], key[1] & 0xFFFFFF, key[2])] = (len(claimed), total(claimed))
    table = summarise.names(found(name, "thread"))
    style = {"push_pop": 59, "start_end": 60}
    got = {
        (row.name, row.tid, style[str(row.style)]): (row.kernels, row.total_kernel_ns)
        for row in table.itertuples(index=False)
    }
    assert got == expected


class TestTwoProcesses:
    """10 and 6 instances of ``work``, with 2 and 3 kernels each, of two processes."""

    def test_correlation_ids_collide(self) -> None:
        ((kernels,),) = sql("two-processes", "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")
        ((joined,),) = sql(
            "two-processes",
            """SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k
               JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId""",
        )
        assert (kernels, joined) == (42, 51)  # joining on the id alone counts nine of them twice

    def test_no_kernel_is_counted_twice(self) -> None:
        one = found("two-processes")
        ops = summarise.ops(one)
        assert len(ops) == 42
        table = summarise.ranges(one)
        work, ranges = sql_work("two-processes"), sql_ranges("two-processes")
        for pid in set(table["pid"]):
            mine = by_path(table[table["pid"] == pid], "instances", "kernels", "total_gpu_ns")
            own = [r for r in ranges if r.tid >> 24 & 0xFFFFFF == pid]
            claimed = inside(work, [r for r in own if r.name == "work"])
            number = sum(r.name == "work" for r in own)
            assert mine["work"] == (number, len(claimed), total(claimed))
            second = number == 6
            assert len(claimed) == (18 if second else 20)
            assert ("work / only-in-second" in mine) is second

    def test_each_op_is_launched_by_its_own_process(self) -> None:
        ops = summarise.ops(found("two-processes"))
        got = Counter(ops[["pid", "start_ns", "tid"]].itertuples(index=False, name=None))
        assert got == Counter(
            (w.process & 0xFFFFFF, w.start, w.tid & 0xFFFFFF) for w in sql_work("two-processes")
        )

    def test_pid_keeps_one_process(self) -> None:
        from harness import select
        from harness.selection import Selection

        one = found("two-processes")
        pids = sorted(set(summarise.ranges(one)["pid"]))
        kept = [select.apply(one, Selection(pids=(pid,))) for pid in pids]
        for pid, part in zip(pids, kept, strict=True):
            work = [w for w in sql_work("two-processes") if w.process & 0xFFFFFF == pid]
            assert set(summarise.ranges(part)["pid"]) == {pid}
            assert part.ledger.hidden_ns == one.ledger.gpu_ns - total(work)
        assert sum(part.ledger.attributed_ns for part in kept) == one.ledger.attributed_ns


class TestTwoStreams:
    """``both`` > ``first``, ``second``: 5 instances of 3 kernels on each of two streams."""

    def test_busy_counts_overlap_once(self) -> None:
        columns = ("instances", "kernels", "total_gpu_ns", "busy_ns", "span_ns")
        table = by_path(summarise.ranges(found("two-streams")), *columns)
        work, ranges = sql_work("two-streams"), sql_ranges("two-streams")
        for path, number in (("both", 30), ("both / first", 15), ("both / second", 15)):
            own = [r for r in ranges if r.name == path.split(" / ")[-1]]
            claimed = inside(work, own)
            span = max(w.end for w in claimed) - min(w.start for w in claimed)
            assert table[path] == (5, number, total(claimed), union(claimed), span)
        assert table["both"][3] < 0.6 * table["both"][2]

    def test_each_stream_is_busy_all_its_time(self) -> None:
        table = by_path(summarise.ranges(found("two-streams")), "total_gpu_ns", "busy_ns")
        assert table["both / first"][0] == table["both / first"][1]
        ops = summarise.ops(found("two-streams"))
        streams = ops.groupby(ops["path"].astype(str))["stream"].unique()
        names = {str(("both", "first")), str(("both", "second"))}
        assert {len(streams[name]) for name in names} == {1}
        assert len({int(streams[name][0]) for name in names}) == 2


class TestCompiled:
    """``eager`` with 5 kernels, ``compiled`` with one Triton kernel, 10 instances each."""

    def test_counts(self) -> None:
        columns = ("instances", "kernels", "total_kernel_ns")
        table = by_path(summarise.ranges(found("compiled")), *columns)
        work, ranges = sql_work("compiled"), sql_ranges("compiled")
        expected = {}
        for name in ("eager", "compiled"):
            claimed = inside(work, [r for r in ranges if r.name == name])
            expected[name] = (10, len(claimed), total(claimed))
        assert table == expected
        assert (table["eager"][1], table["compiled"][1]) == (50, 10)

    def test_names_are_readable(self) -> None:
        one = found("compiled")
        triton = {"triton_poi_fused_add_clamp_gelu_mul_sub_0"}
        for names in ("short", "demangled", "mangled"):
            table = summarise.kernels(one, names=names)
            got = set(table[table["name"] == "compiled"]["kernel"])
            assert got == triton
        table = summarise.kernels(one)
        assert set(table[table["name"] == "eager"]["kernel"]) == {"vectorized_elementwise_kernel"}
        full = set(summarise.kernels(one, names="demangled").query("name == 'eager'")["kernel"])
        assert len(full) > 1
        assert all(name.startswith("void at::native::") for name in full)
        mangled = summarise.kernels(one, names="mangled").query("name == 'eager'")["kernel"]
        assert all(name.startswith("_ZN2at6native") for name in mangled)


class TestThreads:
    """Three threads with 20 ``thread-work`` of 1 kernel; one with 20 kernels and no range;
    ``handover``, opened by the main thread around 5 kernels, closed by another after 5 more."""

    def test_a_row_a_thread(self) -> None:
        table = summarise.names(found("threads"))
        rows = table[table["name"] == "thread-work"]
        assert len(set(rows["tid"])) == 3
        work, ranges = sql_work("threads"), sql_ranges("threads")
        for row in rows.itertuples():
            own = [r for r in ranges if r.tid & 0xFFFFFF == row.tid and r.name == "thread-work"]
            claimed = inside(work, own)
            assert (len(own), len(claimed)) == (20, 20)
            got = (row.instances, row.kernels, row.total_gpu_ns)
            assert got == (20, 20, total(claimed))

    def test_threads_merge_into_one_path(self) -> None:
        table = by_path(summarise.ranges(found("threads")), "instances", "kernels")
        assert table["thread-work"] == (60, 60)

    @pytest.mark.parametrize(
        ("policy", "kernels", "rules"),
        [
            ("thread", 5, {"thread": 5}),
            ("autograd", 5, {"thread": 5}),
            ("process", 10, {"thread": 5, "process": 5}),
        ],
    )
    def test_a_range_across_threads(self, policy: str, kernels: int, rules: dict[str, int]) -> None:
        one = found("threads", policy)
        ((handover),) = [r for r in sql_ranges("threads") if r.name == "handover"]
        assert handover.style == 60
        claimed = [
            w
            for w in sql_work("threads")
            if w.process == handover.tid >> 24
            and handover.start <= w.call_start
            and w.call_end <= handover.end
            and (policy == "process" or w.tid == handover.tid)
        ]
        table = by_path(summarise.ranges(one), "kernels", "total_gpu_ns")
        assert table["handover"] == (kernels, total(claimed))
        ops = summarise.ops(one)
        own = ops[ops["path"] == ("handover",)]
        assert Counter(own["rule"]) == rules

    def test_a_plain_thread_inherits_nothing(self) -> None:
        work, ranges = sql_work("threads"), sql_ranges("threads")
        ranged = {r.tid for r in ranges}
        counts = Counter(w.tid for w in work if w.tid not in ranged)
        bare = next(tid for tid, number in counts.items() if number == 20)
        for policy in ("thread", "autograd"):
            ops = summarise.ops(found("threads", policy))
            assert set(ops[ops["tid"] == bare & 0xFFFFFF]["rule"]) == {"outside"}
