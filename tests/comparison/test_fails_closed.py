# SPDX-License-Identifier: MIT
"""What must not pass a gate or read like a proof: lost kernels, copies, finer limits."""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from planted import AA, GPU, captures, changed, kernels_called, range_called, run_folder, scaled

import harness
from harness.comparison import Comparison
from harness.comparison.gate import judge, parse
from harness.errors import ExitCode, UnreadableReport, UsageProblem

DATA = Path(__file__).parents[1] / "data"
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def codes(comparison: Comparison) -> set[str]:
    return {warning.code for warning in comparison.warnings}


def verdicts(comparison: Comparison) -> dict[str, str]:
    return {row.name: row.verdict for row in comparison.items}


def lossy(target: Path) -> list[Path]:
    """Copies whose chain kernels (50 of 60) are lost; the launches are there."""
    lost = f"DELETE FROM {KERNELS} WHERE demangledName IN (SELECT id FROM StringIds WHERE value"
    return [changed(f, target / f.name, f"{lost} LIKE '%elementwise%')") for f in AA[:3]]


def test_a_recording_that_lost_kernels_is_not_faster(tmp_path: Path) -> None:
    few = lossy(tmp_path)
    comparison = harness.compare(AA[:3], few)
    assert "few-kernels" in codes(comparison)
    assert set(verdicts(comparison).values()) <= {"unsure", "gone"}
    assert comparison.summary.startswith("not comparable, no verdicts: GPU ops recorded (all → not")
    assert judge(comparison, 0.05).code == ExitCode.NO_ANSWER
    # Nor are two of them comparable with each other.
    both = harness.compare(few, few[1:])
    assert "GPU ops recorded not all (few-kernels) on both sides" in both.summary
    assert "differ" not in both.summary
    forced = harness.compare(AA[:3], few, force=True)
    assert verdicts(forced)["eager-block"] == "faster"


@pytest.mark.parametrize("kernel", ["sm80_xmma_gemm%", "%fused_chain_kernel%"])
def test_kernels_of_one_name_that_were_lost_do_not_pass(tmp_path: Path, kernel: str) -> None:
    base, whole = (DATA / "ab" / "A" / f"capture-0{n}.sqlite" for n in (1, 4))
    lost = f"DELETE FROM {KERNELS} WHERE shortName IN (SELECT id FROM StringIds WHERE value"
    less = changed(whole, tmp_path / "less.sqlite", f"{lost} LIKE '{kernel}')")
    rows = f"SELECT count(*) FROM {KERNELS}"
    with sqlite3.connect(whole) as a, sqlite3.connect(less) as b:
        calls, kept = (db.execute(rows).fetchone()[0] for db in (a, b))
    assert 0 < calls - kept < calls / 2
    comparison = harness.compare(base, less)
    # Every launch of these recordings has its kernel, so calls are as many as kernels.
    assert f"(all → not all ({calls - kept} of {calls} launches" in comparison.summary
    assert set(verdicts(comparison).values()) <= {"unsure", "gone"}
    assert judge(comparison, 0.05).code == ExitCode.NO_ANSWER


def test_kernels_whose_calls_were_lost_do_not_pass(tmp_path: Path) -> None:
    """They are there, and in no range: what launched them seems faster. A selection of ranges does
    not look outside."""
    some = f"(SELECT correlationId FROM {KERNELS} WHERE rowid % 5 = 0)"
    sql = f"DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId IN {some}"
    less = [changed(file, tmp_path / file.name, sql) for file in AA[1:]]
    comparison = harness.compare(AA[:3], less)
    assert [fact.name for fact in comparison.blocked] == ["GPU ops recorded"]
    assert "GPU ops without their call)" in comparison.blocked[0].new
    assert set(verdicts(comparison).values()) == {"unsure"}
    forced = harness.compare(AA[:3], less, force=True)
    assert verdicts(forced)["chain"] == "faster"


@pytest.mark.parametrize("duration", [None, -5, float("nan"), 0])
def test_kernels_without_a_duration_are_not_faster(tmp_path: Path, duration: float | None) -> None:
    """Those of gemm in a torch trace, 80 % of its block: unusable ones are counted as 0 ns."""
    whole = DATA / "h200" / "blocks.trace.json.gz"
    trace = json.loads(gzip.decompress(whole.read_bytes()))
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel" and "gemm" in event["name"]:
            event.pop("dur")
            event |= {} if duration is None else {"dur": duration}
    less = tmp_path / "less.json"
    less.write_text(json.dumps(trace))
    comparison = harness.compare(whole, less)
    if duration != 0:  # which may be what was measured
        assert [fact.name for fact in comparison.blocked] == ["GPU ops recorded"]
        assert set(verdicts(comparison).values()) == {"unsure", "gone"}
    assert judge(comparison, 0.01).code == ExitCode.NO_ANSWER
    forced = harness.compare(whole, less, force=True)
    assert verdicts(forced)["eager-block"] == "faster"


def test_work_queued_before_the_first_recorded_call_is_not_lost(tmp_path: Path) -> None:
    """As where a capture begins late: the calls are those before some time, with smaller ids."""
    runtime = "CUPTI_ACTIVITY_KIND_RUNTIME"
    early = f"start < (SELECT min(start) FROM {KERNELS})"
    late = [changed(f, tmp_path / f.name, f"DELETE FROM {runtime} WHERE {early}") for f in AA]
    found = harness.load(late[0]).attribute()
    assert found.ledger.unlinked_ops > 0
    assert harness.compare(late[:3], late[1:]).blocked == ()


def test_a_program_that_failed_is_not_compared_with_one_that_did_not(tmp_path: Path) -> None:
    good = run_folder(tmp_path / "good", AA[:3], created="2026-01-01T10:00:00+00:00")
    bad = run_folder(tmp_path / "bad", AA[1:], created="2026-01-01T11:00:00+00:00")
    text = (bad / "run.json").read_text()
    (bad / "run.json").write_text(text.replace('"exit_code": 0', '"exit_code": 1'))
    comparison = harness.compare(good, bad)
    assert [fact.name for fact in comparison.blocked] == ["exit code"]
    assert harness.compare(bad, bad).blocked == ()  # it may always exit 1


def test_another_gpu_of_the_same_machine_blocks(tmp_path: Path) -> None:
    """run.json lists both GPUs on both sides; the recordings know which did the work."""
    two = [GPU, {**GPU, "uuid": "GPU-2"}]
    other = [
        changed(f, tmp_path / "other" / f.name, "UPDATE TARGET_INFO_GPU SET uuid = '2'")
        for f in AA[1:]
    ]
    base = run_folder(tmp_path / "a", AA[:3], created="2026-01-01T10:00:00+00:00", gpu=two)
    new = run_folder(tmp_path / "b", other, created="2026-01-01T11:00:00+00:00", gpu=two)
    assert [fact.name for fact in harness.compare(base, new).blocked] == ["GPU at work"]
    same = run_folder(tmp_path / "c", AA[1:], created="2026-01-01T11:00:00+00:00", gpu=two)
    assert harness.compare(base, same).blocked == ()


def test_graphs_as_wholes_against_graphs_by_node_block() -> None:
    whole, nodes = (DATA / "h200" / f"graph_{how}.sqlite" for how in ("graph", "node"))
    blocked = {fact.name: (fact.base, fact.new) for fact in harness.compare(whole, nodes).blocked}
    assert blocked == {"graph launches": ("whole", "by node")}


def test_a_clock_limit_that_is_no_number_is_no_crash(tmp_path: Path) -> None:
    gpu = [{**GPU, "clock_sm_max_mhz": "[N/A]"}]
    odd = run_folder(tmp_path / "odd", AA[:3], created="2026-01-01T10:00:00+00:00", gpu=gpu)
    assert set(verdicts(harness.compare(odd, odd)).values()) == {"same"}


def test_copies_of_a_capture_are_one_capture(tmp_path: Path) -> None:
    copies = [changed(AA[0], tmp_path / f"{i}.sqlite", "SELECT 1") for i in range(3)]
    comparison = harness.compare(copies, AA[1:])
    assert {row.unit for row in comparison.items} == {"instance"}
    assert {row.n_base for row in comparison.items} == {10}
    assert comparison.base["captures"] == 1
    assert "copied-captures" in codes(comparison)
    assert not codes(harness.compare(AA[:3], AA[3:])) & {"copied-captures", "same-recording"}


def test_a_comparison_with_itself_says_so() -> None:
    assert "same-recording" in codes(harness.compare(AA[0], AA[0]))
    assert "same-recording" in codes(harness.compare(AA[:3], AA[2:]))


def test_a_limit_finer_than_the_threshold_counts(tmp_path: Path) -> None:
    """Chain 3 % slower is the same to a threshold of 5 %, but not to slower:2."""
    slow = captures(tmp_path, AA[:3], "chain", 1.03)
    comparison = harness.compare(AA[1:], slow, threshold=0.05)
    assert verdicts(comparison)["chain"] == "same"
    found = judge(comparison, 0.02)
    assert (found.code, [row.name for row in found.rows]) == (ExitCode.FAILED, ["chain"])
    assert judge(comparison, 0.03).code != ExitCode.OK  # as near to it as can be
    assert judge(comparison, 0.04).code == ExitCode.OK
    # Instances alone do not know the drift between runs: they cannot prove, but not pass either.
    single = harness.compare(AA[0], slow[1], threshold=0.05)
    assert judge(single, 0.02).code == ExitCode.NO_ANSWER


@pytest.mark.parametrize("text", ["slower:٣", "slower:" + "9" * 400, "slower:1e3", "slower:inf"])
def test_limits_that_nothing_reaches_are_refused(text: str) -> None:
    with pytest.raises(UsageProblem):
        parse(text, 0.01)


def test_a_replaced_kernel_does_not_hide_among_the_others(tmp_path: Path) -> None:
    """One of the chain's five kernels is replaced by a slower one: with --by kernels no row has
    both, and the other four are as they were."""
    slow = []
    for file in AA[:3]:
        target = changed(file, tmp_path / file.name, "SELECT 1")
        with sqlite3.connect(target) as db:
            db.execute("INSERT INTO StringIds (id, value) VALUES (987654, 'my_gelu')")
            db.execute(
                f'UPDATE {KERNELS} SET shortName = 987654, demangledName = 987654, "end" ='
                ' start + 3 * ("end" - start) WHERE demangledName IN'
                " (SELECT id FROM StringIds WHERE value LIKE '%GeluCUDAKernelImpl%')"
            )
        db.close()
        slow.append(target)
    comparison = harness.compare(AA[1:], slow, by="kernels")
    assert sorted(row.verdict for row in comparison.items).count("new") == 1
    found = judge(comparison, 0.01)
    assert found.code == ExitCode.NO_ANSWER
    assert "my_gelu" in {row.kernel for row in found.rows}
    assert comparison.summary.startswith("nothing faster or slower: ")


def test_other_kernels_of_the_same_speed_are_told(tmp_path: Path) -> None:
    renamed = [changed(f, tmp_path / f.name, "SELECT 1") for f in AA[1:]]
    for file in renamed:
        kernels_called(file, "gemm", "my_gemm")
    comparison = harness.compare(AA[:3], renamed)
    assert set(verdicts(comparison).values()) == {"same"}
    assert "; gemm now runs my_gemm instead of sm80_xmma_gemm" in comparison.summary
    told = {row.name for row in comparison.items if row.explanation}
    assert told == {"gemm"}  # the block around it leaves it to the gemm


def test_idle_that_grew_is_in_the_sentence(tmp_path: Path) -> None:
    later = "(correlationId % 7) * 30000"
    sql = f'UPDATE {KERNELS} SET start = start + {later}, "end" = "end" + {later}'
    idle = [changed(f, tmp_path / f.name, sql) for f in AA[1:]]
    comparison = harness.compare(AA[:3], idle)
    assert set(verdicts(comparison).values()) == {"same"}
    assert "chain has more idle between its GPU ops (6.2 µs → " in comparison.summary


def test_noise_is_not_explained(tmp_path: Path) -> None:
    """An unsure range says what would settle it, and nothing of kernels that got slower."""
    loud = [
        scaled(f, tmp_path / f.name, "chain", k) for f, k in zip(AA, (0.988, 1, 1.02), strict=False)
    ]
    (row,) = (r for r in harness.compare(loud, AA[1:]).items if r.name == "chain")
    assert row.verdict == "unsure"
    assert row.explanation == ()


def test_kernels_are_counted_in_the_captures_that_have_the_range(tmp_path: Path) -> None:
    mixed = [AA[1], range_called(AA[2], tmp_path / "2.sqlite", "chain", "other")]
    row = {row.name: row for row in harness.compare(AA[:1], mixed).items}["chain"]
    assert row.verdict == "same"
    assert row.explanation == ("has 5 instances instead of 10",)


def test_kernels_that_were_not_recorded_are_named() -> None:
    whole = DATA / "recorded" / "graph-conditional-graph"
    with pytest.raises(UnreadableReport, match="no kernel under a range"):
        harness.compare(whole, whole, by="kernels")


def test_swapping_the_sides_turns_everything_over(tmp_path: Path) -> None:
    slow = scaled(AA[1], tmp_path / "slow.sqlite", "chain", 1.02)
    there, back = harness.compare(AA[0], slow), harness.compare(slow, AA[0])
    for row in there.items:
        (other,) = (r for r in back.items if r.path == row.path)
        assert row.ci_low == pytest.approx(1 / other.ci_high, rel=1e-9)
        assert row.ci_high == pytest.approx(1 / other.ci_low, rel=1e-9)
        assert row.p == other.p


def test_the_order_of_captures_does_not_matter() -> None:
    files = sorted((DATA / "ab" / "A").glob("*.sqlite"))
    new = sorted((DATA / "ab" / "B1").glob("*.sqlite"))
    one, other = harness.compare(files, new), harness.compare(files[::-1], new[::-1])
    assert one.items == other.items
