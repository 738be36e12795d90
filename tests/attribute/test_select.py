# SPDX-License-Identifier: MIT
"""Each selection on recorded reports, with figures by SQL; the report says what was left out."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from programs import as_trace
from reference import Launch, Op, Program, Range, Thread

import harness
from harness import select, summarise
from harness.attribute import Attribution
from harness.cli.report import command
from harness.errors import UsageProblem
from harness.selection import Selection

H200 = Path(__file__).parent.parent / "data" / "h200"
KERNELS = """SELECT k.start, k.end, r.start, r.globalTid, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId
    JOIN StringIds s ON s.id = k.shortName"""
OPS = " UNION ALL ".join(
    f"""SELECT k.start, k.end, r.start, r.globalTid FROM CUPTI_ACTIVITY_KIND_{table} k
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId"""
    for table in ("KERNEL", "MEMCPY", "MEMSET")
)


def sql(report: str, query: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(f"file:{H200 / report}.sqlite?mode=ro", uri=True) as db:
        return db.execute(query).fetchall()


def spans(report: str, name: str) -> list[tuple[int, int]]:
    return sql(
        report,
        f"""SELECT n.start, n.end FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId
            WHERE coalesce(s.value, n.text) = '{name}' ORDER BY n.start""",
    )


def selected(report: str, policy: str = "autograd", **options: Any) -> Attribution:
    found = harness.load(H200 / f"{report}.sqlite").attribute(policy)
    return select.apply(found, Selection(**options))


def by_path(found: Attribution, *columns: str) -> dict[str, list[Any]]:
    table = summarise.ranges(found)
    rows = table[["path", *columns]].itertuples(index=False, name=None)
    return {" / ".join(path): values for path, *values in rows}


def test_skip_drops_whole_instances() -> None:
    """`step` is what the GPU was given by anyone between its first launch and its end: the
    autograd thread works for it alone."""
    steps = spans("train", "step")
    assert len(steps) == 8
    for skip in (1, 3):
        ns = sum(
            end - start
            for start, end, call, _ in sql("train", OPS)
            if any(a <= call <= b for a, b in steps[skip:])
        )
        found = selected("train", skip=skip)
        table = by_path(found, "instances", "total_gpu_ns")
        assert table["step"] == [8 - skip, ns]
        assert {values[0] for values in table.values()} == {8 - skip}
        gone = sum(
            end - start
            for start, end, call, _ in sql("train", OPS)
            if any(a <= call <= b for a, b in steps[:skip])
        )
        assert found.ledger.hidden_ns == gone


def test_skip_takes_what_is_nested_along() -> None:
    """Five levels of `recurse` in one instance: skipping the outermost leaves none of them."""
    whole = selected("nested")
    found = selected("nested", skip=1)
    assert "recurse" in by_path(whole, "instances")
    assert not any(path.startswith("recurse") for path in by_path(found, "instances"))


def test_skip_says_what_it_left_out() -> None:
    found = selected("train", skip=1)
    [note] = [w.message for w in found.warnings if w.code == "selection"]
    assert note == (
        "left out the first 1 instance of each path, 4 of 32 ranges: 48 GPU ops (615037 ns) are"
        " hidden"
    )


def test_skip_all() -> None:
    found = selected("train", skip=100)
    assert len(summarise.ranges(found)) == 0
    assert found.ledger.attributed_ns == 0
    assert found.ledger.outside_ns == selected("train").ledger.outside_ns


def test_steady_leaves_out_the_slow_beginning() -> None:
    """CPU times of `step` by hand: 240 ms, 5.6 ms, then 1.6 to 2.2 ms; two of eight go."""
    cpu = [end - start for start, end in spans("train", "step")]
    settled = sorted(cpu[4:])
    assert cpu[0] > cpu[1] > 1.1 * settled[-1] > 0
    found = selected("train", steady=True)
    assert by_path(found, "instances")["step"] == [6]
    starts = summarise.instances(found).query("name == 'step'")["start_ns"].tolist()
    assert starts == [start for start, _ in spans("train", "step")[2:]]
    [note] = [w.message for w in found.warnings if w.code == "selection"]
    assert "(4 of 4 paths had a warm-up), 8 of 32 ranges" in note


def test_steady_keeps_all_where_nothing_stands_out() -> None:
    found = selected("graph_graph", steady=True)
    whole = selected("graph_graph")
    assert by_path(found, "instances")["graph-replay"][0] >= 5  # never more than half
    ledger = found.ledger
    assert ledger.hidden_ns + ledger.attributed_ns == whole.ledger.attributed_ns


def test_kernel() -> None:
    found = selected("blocks", kernel="elementwise")
    ns = sum(
        end - start for start, end, _, _, name in sql("blocks", KERNELS) if "elementwise" in name
    )
    assert found.ledger.gpu_ns - found.ledger.hidden_ns == ns
    table = by_path(found, "kernels")
    assert table["eager-block / gemm"] == [0]
    assert table["eager-block / chain"] == [50]


def test_kernel_also_finds_demangled_names() -> None:
    ops = summarise.ops(selected("train", kernel=r"^void at::native::"))
    assert len(ops) > 0
    assert set(ops["kind"]) == {"kernel"}


def test_range_keeps_what_is_nested_in_it() -> None:
    found = selected("train", range="^backward$")
    table = by_path(found, "instances", "self_kernel_ns", "memsets")
    assert table == {"step / backward": [8, 2_498_169, 24]}
    assert found.ledger.outside_ns == 0
    assert set(by_path(selected("blocks", range="block"), "kernels")) == {
        "eager-block", "eager-block / gemm", "eager-block / chain",
    }  # fmt: skip


def test_range_of_a_start_end_range_shows_where_the_self_time_is() -> None:
    for policy in ("thread", "autograd", "process"):
        found = selected("nested", policy, range="^start-end$|overlap")
        own = int(summarise.ranges(found)["self_gpu_ns"].sum())
        assert own == found.ledger.attributed_ns > 0


def test_domain_hides_what_loses_its_range() -> None:
    domains = {str(d) for d in harness.load(H200 / "nested.sqlite").ranges["domain"]}
    assert len(domains) > 1
    whole = selected("nested")
    for domain in domains:
        found = selected("nested", domains=(domain,))
        assert set(summarise.ranges(found)["domain"]) <= {domain}
        ledger = found.ledger
        assert ledger.outside_ns == whole.ledger.outside_ns
        assert ledger.attributed_ns + ledger.hidden_ns == whole.ledger.attributed_ns
    none = selected("nested", domains=("no such domain",))
    assert none.ledger.hidden_ns == whole.ledger.attributed_ns
    assert len(summarise.ranges(none)) == 0


def test_device() -> None:
    (device,) = {row[0] for row in sql("train", "SELECT deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL")}
    assert selected("train", devices=(device,)).ledger.hidden_ops == 0
    gone = selected("train", devices=(device + 1,)).ledger
    assert (gone.hidden_ops, gone.attributed_ns, gone.outside_ns) == (gone.gpu_ops, 0, 0)


def test_filter_time_counts_from_the_first_event() -> None:
    firsts = sql(
        "train",
        """SELECT min(start) FROM NVTX_EVENTS WHERE eventType IN (59, 60)
           UNION ALL SELECT min(start) FROM CUPTI_ACTIVITY_KIND_RUNTIME""",
    )
    zero = min(first for (first,) in firsts)
    third = spans("train", "step")[2]
    window = (third[0] - zero, third[1] - zero)
    found = selected("train", time=window)
    ns = sum(
        end - start for start, end, call, _ in sql("train", OPS) if third[0] <= call < third[1]
    )
    assert by_path(found, "instances", "total_gpu_ns")["step"] == [1, ns]
    assert found.ledger.gpu_ns - found.ledger.hidden_ns == ns
    assert selected("train", time=(None, None)).ledger.hidden_ops == 0
    assert selected("train", time=(10**30, None)).ledger.hidden_ops == found.ledger.gpu_ops
    assert selected("train", time=(-(10**30), 10**30)).ledger.hidden_ops == 0


def test_filter_time_is_the_same_window_in_every_domain() -> None:
    """The first range is of another domain: 0 to 10; the calls begin 1100 and 2100 after it."""
    program = Program(
        [Thread(0, 0, False)],
        [
            Range(0, 0, 0, 10, "init", "lib", "push_pop", False),
            Range(1, 0, 1000, 3000, "outer", "", "push_pop", False),
        ],
        [Launch(0, 0, 1100, 1110, 1), Launch(1, 0, 2100, 2110, 2)],
        [Op(0, "kernel", 1200, 1300, 0, 1, 0, "k"), Op(1, "kernel", 2200, 2400, 0, 2, 0, "k")],
    )
    for domains in ((), ("",)):
        selection = Selection(time=(1050, 1150), domains=domains)
        found = select.apply(as_trace(program).attribute(), selection)
        assert (found.ledger.attributed_ns, found.ledger.hidden_ns) == (100, 200)


def test_pid() -> None:
    (pid,) = set(summarise.ranges(selected("train"))["pid"])
    assert selected("train", pids=(int(pid),)).ledger.hidden_ops == 0
    gone = selected("train", pids=(int(pid) + 1,))
    assert gone.ledger.hidden_ops == gone.ledger.gpu_ops
    assert len(summarise.ranges(gone)) == 0


def test_each_filter_says_what_it_hid() -> None:
    found = selected("train", kernel="gemm|elementwise", range="backward", skip=2)
    notes = [w.message for w in found.warnings if w.code == "selection"]
    assert [note.split(":")[0] for note in notes] == [
        "kept only kernels ~ gemm|elementwise",
        "kept only ranges ~ backward",
        "left out the first 2 instances of each path, 2 of 8 ranges",
    ]
    hidden = [int(note.split(" GPU ops")[0].split()[-1]) for note in notes]
    assert sum(hidden) == found.ledger.hidden_ops


@pytest.mark.parametrize("option", ["range", "kernel"])
def test_a_bad_expression_is_wrong_usage(option: str) -> None:
    with pytest.raises(UsageProblem, match="not a regular expression"):
        selected("train", **{option: "("})


def test_the_command_prints_what_was_left_out() -> None:
    arguments = [str(H200 / "train.sqlite"), "--skip", "1", "--format", "json"]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)
    report = json.loads(done.stdout)
    assert report["ledger"]["hidden_ns"] == 615_037
    assert report["ledger"]["balanced"]
    assert any(w["code"] == "selection" for w in report["warnings"])
