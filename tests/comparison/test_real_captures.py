# SPDX-License-Identifier: MIT
"""Four captures of one program on one H200, as recorded and with changes planted in copies."""

from __future__ import annotations

import csv
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from planted import AA, DATA, captures, changed, kernels_called, range_called, scaled

import harness
from harness.comparison import Comparison, Row
from harness.comparison.idle import idle_of_instances
from harness.comparison.result import COLUMNS
from harness.errors import UnreadableReport, UsageProblem
from harness.measures import per_instance

TF32_KERNEL = "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_stage4_cublas"


def by_name(comparison: Comparison) -> dict[str, Row]:
    return {row.name: row for row in comparison.items}


def test_medians_are_those_of_the_instances() -> None:
    """Medians over the ten instances of each capture, summed per instance by SQL: gemm 347 744.5,
    347 232.5, 347 169.0, 347 456.5; chain 87 632, 87 424, 87 792, 87 680."""
    rows = by_name(harness.compare(AA[:3], AA[1:]))
    gemm, chain = rows["gemm"], rows["chain"]
    assert (gemm.base_ns, gemm.new_ns) == (347232, 347232)
    assert (chain.base_ns, chain.new_ns) == (87632, 87680)
    assert chain.ratio == pytest.approx(87680 / 87632)
    assert (chain.n_base, chain.n_new, chain.unit) == (3, 3, "capture")
    # One against one: the instances are the sample.
    single = by_name(harness.compare(AA[0], AA[1]))["gemm"]
    assert (single.base_ns, single.new_ns) == (round(347744.5), round(347232.5))
    assert (single.n_base, single.n_new, single.unit) == (10, 10, "instance")


def test_nothing_changed_between_captures_of_one_program() -> None:
    subsets = list(itertools.combinations(AA, 3))
    for base, new in itertools.permutations(subsets, 2):
        comparison = harness.compare(list(base), list(new))
        assert {row.verdict for row in comparison.items} == {"same"}
    for one, other in itertools.permutations(AA, 2):
        words = {row.verdict for row in harness.compare(one, other).items}
        assert words <= {"same", "unsure"}
    for one, other in ((AA[:2], AA[2:]), (AA[::2], AA[1::2])):
        words = {row.verdict for row in harness.compare(one, other).items}
        assert words <= {"same", "unsure"}


@pytest.mark.parametrize("factor", [1.01, 0.99, 1.05])
def test_planted_change_is_found_on_its_own_range(tmp_path: Path, factor: float) -> None:
    """Chain is a fifth of eager-block: 1 % of it moves the parent by 0.2 %, its sibling not."""
    planted = captures(tmp_path, AA, "chain", factor)
    word = "slower" if factor > 1 else "faster"
    for base in itertools.combinations(AA, 3):
        for new in itertools.combinations(planted, 3):
            rows = by_name(harness.compare(list(base), list(new)))
            assert rows["chain"].verdict == word
            assert rows["chain"].ratio == pytest.approx(factor, abs=0.005)
            assert rows["gemm"].verdict == "same"
            assert rows["eager-block"].verdict == ("same" if abs(factor - 1) < 0.02 else word)


def test_noise_that_hides_a_change_is_unsure(tmp_path: Path) -> None:
    """Base captures 1.2 % apart, the new ones as recorded: nothing can be told."""
    loud = [
        scaled(f, tmp_path / f.name, "chain", k)
        for f, k in zip(AA, (0.988, 1, 1.012), strict=False)
    ]
    row = by_name(harness.compare(loud, AA[1:]))["chain"]
    assert row.verdict == "unsure"
    assert "captures a side would settle it" in row.reason


def test_new_and_gone_ranges(tmp_path: Path) -> None:
    renamed = [range_called(f, tmp_path / f.name, "chain", "chain-2") for f in AA[:3]]
    rows = by_name(harness.compare(AA[:3], renamed))
    assert rows["chain"].verdict == "gone"
    assert rows["chain"].new_ns is None
    assert rows["chain-2"].verdict == "new"
    assert rows["chain-2"].base_ns is None
    assert rows["chain-2"].p is None
    assert rows["gemm"].verdict == "same"


def test_sentence_names_the_gemm_kernels_and_says_the_chain_is_unchanged(tmp_path: Path) -> None:
    faster = captures(tmp_path, AA[:3], "gemm", 1 / 1.7)
    for file in faster:
        kernels_called(file, "gemm", TF32_KERNEL)
    comparison = harness.compare(AA[:3], faster)
    assert comparison.summary.startswith("eager-block 1.49\u00d7 faster (1.4")
    assert "gemm now runs tf32 kernels (sm80_xmma_gemm_f32f32_tf32f32" in comparison.summary
    assert comparison.summary.endswith("chain unchanged")
    parent = by_name(comparison)["eager-block"]
    assert parent.explanation[0].endswith("of the change is in gemm")


def test_more_launches_are_counted(tmp_path: Path) -> None:
    """No chain of the copy has its gelu: four kernels and launches where there were five."""
    gelu = "demangledName IN (SELECT id FROM StringIds WHERE value LIKE '%GeluCUDAKernelImpl%')"
    kernels = f"FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE {gelu}"
    calls = (
        "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        f" WHERE correlationId IN (SELECT correlationId {kernels})"
    )
    uncalled = [changed(file, tmp_path / f"uncalled-{file.name}", calls) for file in AA[:3]]
    lost = [changed(file, tmp_path / f"lost-{file.name}", f"DELETE {kernels}") for file in uncalled]
    rows = by_name(harness.compare(lost, AA[:3]))
    assert rows["chain"].verdict == "slower"
    assert (
        "also runs GeluCUDAKernelImpl (vectorized_elementwise_kernel)" in rows["chain"].explanation
    )
    assert "runs more kernels an instance (4 → 5)" in rows["chain"].explanation
    back = by_name(harness.compare(AA[:3], lost))
    assert "runs fewer kernels an instance (5 → 4)" in back["chain"].explanation


def test_everything_slower_alike_points_at_the_clocks(tmp_path: Path) -> None:
    slow = [
        changed(
            file,
            tmp_path / file.name,
            'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = start + ("end" - start) * 11 / 10',
        )
        for file in AA[:3]
    ]
    comparison = harness.compare(AA[:3], slow)
    assert {row.verdict for row in comparison.items} == {"slower"}
    assert "everything-moved" in {warning.code for warning in comparison.warnings}


def test_kernels_under_their_innermost_range(tmp_path: Path) -> None:
    planted = captures(tmp_path, AA[:3], "chain", 1.05)
    comparison = harness.compare(AA[:3], planted, by="kernels")
    assert len(comparison.items) == 6  # one gemm, five in the chain
    words = {
        row.name: {r.verdict for r in comparison.items if r.name == row.name}
        for row in comparison.items
    }
    assert words == {"gemm": {"same"}, "chain": {"slower"}}
    # An execution of the gemm is all of its range's time.
    gemm = next(row for row in comparison.items if row.name == "gemm")
    assert gemm.base_ns == 347232
    assert "sm80_xmma_gemm" in gemm.kernel


def test_rows_are_a_frame_and_the_document_has_the_contracts_keys() -> None:
    comparison = harness.compare(AA[0], AA[1])
    assert tuple(comparison.rows.columns) == COLUMNS
    assert len(comparison.rows) == 3
    document = comparison.as_dict()
    assert document["schema"] == "harness.compare/1"
    assert {"base", "new", "threshold", "summary", "rows", "warnings"} <= document.keys()
    contract = "path domain name base_ns new_ns ratio ci_low ci_high p n_base n_new verdict reason"
    assert set(contract.split()) <= document["rows"][0].keys()
    assert document["rows"][0]["path"] == ["eager-block"]


def test_traces_paths_and_lists_are_the_same_input() -> None:
    traces = [harness.load(file) for file in AA[:3]]
    from_traces = harness.compare(traces, AA[1:])
    assert from_traces.as_dict()["rows"] == harness.compare(AA[:3], AA[1:]).as_dict()["rows"]
    assert (
        harness.compare(traces[0], AA[1]).as_dict()["rows"]
        == (harness.compare(AA[0], AA[1]).as_dict()["rows"])
    )


def test_policy_is_passed_on() -> None:
    """Backward's kernels belong to it under autograd only: 2 492 569 ns over 5 steps and 3 of
    warm-up against 5 600 ns."""
    train = DATA / "h200" / "train.sqlite"
    inherited = by_name(harness.compare(train, train))["backward"]
    own = by_name(harness.compare(train, train, policy="thread"))["backward"]
    assert inherited.base_ns is not None
    assert own.base_ns is not None
    assert inherited.base_ns > 100 * own.base_ns


def test_torch_traces() -> None:
    trace = DATA / "h200" / "blocks.trace.json.gz"
    rows = by_name(harness.compare(trace, trace))
    # Chain's ten instances vary too much for an interval within 1 %.
    assert [rows[name].verdict for name in ("eager-block", "gemm", "chain")] == (
        ["same", "same", "unsure"]
    )
    assert {row.ratio for row in rows.values()} == {1.0}
    mixed = harness.compare(DATA / "h200" / "blocks.sqlite", trace)
    assert "recorded by" in {fact.name for fact in mixed.blocked}
    assert {row.verdict for row in mixed.items} <= {"unsure", "new", "gone"}


def test_cpu_time_where_there_is_no_gpu_work(tmp_path: Path) -> None:
    bare = [
        changed(file, tmp_path / file.name, "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
        for file in AA[:2]
    ]
    with pytest.raises(UnreadableReport, match="GPU time") as problem:
        harness.compare(*bare)
    assert "--measure cpu" in problem.value.hint
    comparison = harness.compare(*bare, measure="cpu")
    assert {"eager-block", "gemm", "chain"} == set(by_name(comparison))


def test_nothing_in_common() -> None:
    comparison = harness.compare(DATA / "h200" / "blocks.sqlite", DATA / "h200" / "train.sqlite")
    assert {row.verdict for row in comparison.items} == {"new", "gone"}
    assert comparison.summary.startswith("no range is on both sides")


def test_names_that_count_calls_are_one_range(tmp_path: Path) -> None:
    """What emit_nvtx writes: ``aten::add, seq = 7, op_id = 42``, another one for every call."""
    counted = [
        changed(
            file,
            tmp_path / file.name,
            "UPDATE NVTX_EVENTS SET text = 'chain, seq = ' || rowid || ', op_id = 4' || rowid"
            " WHERE text = 'chain'",
        )
        for file in AA[:2]
    ]
    rows = harness.compare(*counted).items
    plain = {row.name: row for row in harness.compare(*AA[:2]).items}
    assert {row.name: row for row in rows} == plain


def test_missing_file_and_empty_side() -> None:
    with pytest.raises(UnreadableReport, match="no such file"):  # exit 3, as harness report
        harness.compare(AA[0], "nowhere.sqlite")
    with pytest.raises(UsageProblem, match="no recording"):
        harness.compare(AA[0], [])


@pytest.mark.parametrize("name", ["blocks", "train"])
def test_idle_and_busy_time_of_an_instance_are_its_span(name: str) -> None:
    """nsys calls the span of a range's ops its projected time; it sums them over instances."""
    found = harness.load(DATA / "h200" / f"{name}.sqlite").attribute("thread")
    idle, busy = idle_of_instances(found), per_instance(found)["total_gpu_ns"]
    names = found.trace.ranges["name"].to_numpy()
    with (DATA / "h200" / "nsys_stats" / f"{name}.nvtx_gpu_proj_sum.csv").open() as stream:
        projected = {
            row["Range"].lstrip(":"): int(row["Total Proj Time (ns)"])
            for row in csv.DictReader(stream)
        }
    assert len(projected) >= 3
    for range_name, total in projected.items():
        mine = names == range_name
        assert int((np.maximum(idle, 0) + busy)[mine].sum()) == total


def test_idle_that_grew_is_told_although_the_gpu_time_did_not(tmp_path: Path) -> None:
    """Every kernel of the copy starts 200 us times its place later, so gaps grow by 200 us each."""
    spread = [
        changed(
            file,
            tmp_path / file.name,
            'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET "end" = "end" + 200000 * rowid,'
            " start = start + 200000 * rowid",
        )
        for file in AA[:3]
    ]
    row = by_name(harness.compare(AA[:3], spread))["eager-block"]
    assert row.verdict == "same"
    # Six kernels, five gaps.
    assert row.explanation == (
        "has more idle between its GPU ops (7.8 \u00b5s \u2192 1007.8 \u00b5s an instance)",
    )
