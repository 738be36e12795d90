# SPDX-License-Identifier: MIT
"""Two recordings of one run: matched by path, counts before times, each disagreement named."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev

import pytest

import harness
from harness.disagreement import Measures
from harness.sidebyside import Side, compare, join

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "h200"

#: Ten instances of six kernels, 436 µs each.
BASE = Measures(
    instances=10,
    kernels=60,
    total_kernel_ns=4_360_000,
    total_gpu_ns=4_360_000,
    by_kernel={"gemm": 10, "elementwise": 50},
    each=((6, 436_000),) * 10,
)


def scaled(factor: float, measures: Measures = BASE) -> Measures:
    return replace(
        measures,
        total_kernel_ns=round(measures.total_kernel_ns * factor),
        total_gpu_ns=round(measures.total_gpu_ns * factor),
        each=tuple((kernels, round(ns * factor)) for kernels, ns in measures.each),
    )


def reason(nsys: Measures, torch: Measures) -> tuple[str, str]:
    table = compare(side({("block",): nsys}), side({("block",): torch}))
    return str(table["code"].iloc[0]), str(table["reason"].iloc[0])


def side(paths: dict[tuple[str, ...], Measures]) -> Side:
    return Side(paths, sum(m.kernels for m in paths.values()), 0)


def test_agreement_needs_no_reason() -> None:
    assert reason(BASE, scaled(1.019)) == ("", "")
    assert reason(BASE, scaled(0.981)) == ("", "")
    assert reason(BASE, scaled(1.021))[0] == "varies"


def test_counts_come_before_times() -> None:
    torch = replace(BASE, kernels=50, by_kernel={"gemm": 10, "elementwise": 40})
    assert reason(BASE, torch) == ("missing-kernels", "torch.profiler lacks 10 x elementwise")


def test_a_recording_without_kernels_is_told_from_missing_ones() -> None:
    nothing = Measures(instances=10, each=((0, 0),) * 10)
    code, text = reason(BASE, nothing)
    assert code == "no-kernels"
    assert text.startswith("torch.profiler recorded no kernel at all")
    assert reason(nothing, BASE)[1].startswith("nsys recorded no kernel at all")


def test_more_instances() -> None:
    torch = replace(
        scaled(2), instances=20, kernels=120, by_kernel={"gemm": 20, "elementwise": 100}
    )
    assert reason(BASE, torch)[0] == "instances"


def test_without_gpu_work_instances_still_count() -> None:
    nsys, torch = Measures(instances=10, cpu_ns=5), Measures(instances=12, cpu_ns=6)
    code, text = reason(nsys, torch)
    assert code == "instances"
    assert text.startswith("opened 10 times under nsys and 12 under torch.profiler")


def test_graphs_recorded_whole() -> None:
    nsys = Measures(instances=10, graph_launches=10, total_gpu_ns=4_360_000)
    code, text = reason(nsys, BASE)
    assert code == "graph-replay"
    assert "10 graph launches whole, torch.profiler the 60 kernels" in text


def test_backward_kernels_that_one_recording_could_not_place() -> None:
    nsys = replace(BASE, autograd_kernels=54)
    torch = replace(BASE, kernels=6, by_kernel={"gemm": 6}, total_gpu_ns=1)
    code, text = reason(nsys, torch)
    assert code == "autograd-thread"
    assert text.startswith("54 kernels of the autograd thread")


def test_a_first_instance_with_other_kernels() -> None:
    torch = replace(
        BASE, kernels=64, by_kernel={"gemm": 14, "elementwise": 50}, each=((10, 9), *BASE.each[1:])
    )
    code, text = reason(BASE, torch)
    assert code == "warm-up"
    assert "6 kernels under nsys and 10 under torch.profiler; the other 9 agree" in text


def test_copies_and_sets_are_not_kernels() -> None:
    code, text = reason(replace(BASE, memsets=24), BASE)
    assert (code, text) == (
        "copies",
        "24 memory sets under nsys and 0 under torch.profiler; kernel counts agree",
    )


def test_kernels_that_differ_by_name() -> None:
    torch = replace(scaled(1.5), by_kernel={"gemm_tf32": 10, "elementwise": 50})
    assert reason(BASE, torch) == (
        "other-kernels",
        "only under nsys: 10 x gemm; only under torch.profiler: 10 x gemm_tf32",
    )


def test_a_slow_first_instance() -> None:
    torch = replace(BASE, total_gpu_ns=9_000_000, each=((6, 5_076_000), *BASE.each[1:]))
    code, text = reason(BASE, torch)
    assert code == "warm-up"
    assert "the first instance took 436.0 µs under nsys and 5076.0 µs" in text


def test_one_factor_over_all_ranges_is_the_clock() -> None:
    nsys = {("a",): BASE, ("b",): scaled(3), ("c",): scaled(0.2)}
    torch = {path: scaled(1.08, m) for path, m in nsys.items()}
    table = compare(side(nsys), side(torch))
    assert list(table["code"]) == ["clock-drift"] * 3
    assert "1.080 times as long" in table["reason"].iloc[0]


def test_one_range_that_is_slower_is_not_the_clock() -> None:
    nsys = {("a",): BASE, ("b",): scaled(3), ("c",): scaled(0.2)}
    torch = nsys | {("b",): scaled(3.5)}
    table = compare(side(nsys), side(torch))
    assert list(table["code"]) == ["", "varies", ""]


def test_ops_of_a_microsecond_are_not_compared_by_the_percent() -> None:
    tiny = Measures(instances=1, kernels=2, total_kernel_ns=1_792, total_gpu_ns=1_792)
    assert reason(tiny, replace(tiny, total_kernel_ns=1_696, total_gpu_ns=1_696))[0] == "short-ops"


def with_times(*ns: int) -> Measures:
    total = sum(ns)
    return replace(
        BASE,
        instances=len(ns),
        total_kernel_ns=total,
        total_gpu_ns=total,
        each=tuple((6, each) for each in ns),
    )


def test_a_difference_that_instances_have_among_themselves() -> None:
    """Means 103.5 and 100.25 µs. First with standard deviations of 4.041 and 2.872 µs: a standard
    error of sqrt(4.041^2 / 4 + 2.872^2 / 4) = 2.479 µs, of which 3.25 µs are 1.3. Then with 0.577
    and 0.5 µs, so 0.382 µs: 8.5 of them. By Welch 2.5 are the limit for five degrees of freedom."""
    code, text = reason(
        with_times(100_000, 104_000, 109_000, 101_000),
        with_times(97_000, 100_000, 104_000, 100_000),
    )
    assert code == "within-spread"
    assert "103.5 µs ± 4.04 µs" in text
    steady = reason(
        with_times(103_000, 104_000, 103_000, 104_000),
        with_times(100_000, 100_000, 101_000, 100_000),
    )
    assert steady[0] == "varies"
    # Two instances say too little about their spread.
    few = reason(with_times(100_000, 109_000), with_times(97_000, 103_000))
    assert few[0] == "varies"


def test_what_torch_compile_does_is_torch_profiler_s_own() -> None:
    """Names as recorded on the H200."""
    names = (
        "dynamo_data: compile_id=0/0",
        "backend_compile_data: fn_name=OutputGraph.call_user_compiler, compile_id=0/0",
        "CachingAutotuner.benchmark_all_configs_data: kernel_name=triton_poi_0, is_backward=False,"
        " compile_id=0/0",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    )
    table = compare(side({("step",): BASE}), side({("step",): BASE, **{(n,): BASE for n in names}}))
    assert set(table["code"]) == {"", "torch-own"}
    # A program's own range that looks a little like it is missing all the same.
    for own in ("load_data: compile", "my_data: x=1"):
        table = compare(side({("step",): BASE}), side({("step",): BASE, (own,): BASE}))
        assert list(table["code"]) == ["", "missing-range"]


def test_a_library_s_own_domain() -> None:
    """The same without one, and with a domain of which torch.profiler has another range."""

    def codes(domain: str, other: str) -> list[str]:
        nsys = {
            ("step",): BASE,
            ("sort",): replace(BASE, domain=domain),
            ("load",): replace(BASE, domain=other),
        }
        return list(compare(side(nsys), side({("step",): BASE, ("load",): BASE}))["code"])

    assert codes("CCCL", "") == ["", "library-own", ""]
    assert codes("", "") == ["", "missing-range", ""]
    assert codes("mine", "mine") == ["", "missing-range", ""]


def test_reasons_of_the_h200_training_run() -> None:
    """Domains of cub's ranges, and the times of ``data``, by SQL."""
    run = ROOT / "reports" / "h200-train"
    table = join(
        harness.load(run).attribute(), harness.load(run / "torch_trace.json.gz").attribute()
    ).set_index("path")
    with sqlite3.connect(f"file:{run / 'report.sqlite'}?mode=ro", uri=True) as db:
        ranges = """SELECT coalesce(s.value, n.text) AS name, n.* FROM NVTX_EVENTS n
                    LEFT JOIN StringIds s ON s.id = n.textId"""
        foreign = {
            name
            for (name,) in db.execute(
                f"""SELECT r.name FROM ({ranges}) r JOIN ({ranges}) d ON d.eventType = 75
                    AND d.domainId = r.domainId WHERE r.eventType = 59 AND d.name = 'CCCL'"""
            )
        }
        times = [
            ns
            for (ns,) in db.execute(
                f"""SELECT sum(o.end - o.start) FROM ({ranges}) r
                    JOIN CUPTI_ACTIVITY_KIND_RUNTIME c ON c.globalTid = r.globalTid
                        AND r.start <= c.start AND c.end <= r.end
                    JOIN (SELECT correlationId, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL
                          UNION ALL SELECT correlationId, start, end
                          FROM CUPTI_ACTIVITY_KIND_MEMCPY) o USING (correlationId)
                    WHERE r.name = 'data' GROUP BY r.start"""
            )
        ]
    assert len(foreign) == 3
    found = {path[-1] for path in table.index[table["code"] == "library-own"]}
    assert found == foreign
    row = table.loc[[("step", "data")]].iloc[0]
    assert row["code"] == "within-spread"
    assert (
        f"{fmean(times) / 1000:.2f} µs ± {stdev(times) / 1000:.2f} µs under nsys" in row["reason"]
    )
    assert abs(row["ratio"] - 1) > 0.02


def test_ranges_that_one_recording_has() -> None:
    table = compare(
        side({("step",): BASE, ("step", "nccl"): BASE}),
        side({("step",): BASE, ("ProfilerStep#3",): BASE}),
    )
    assert list(zip(table["path"], table["code"], strict=True)) == [
        (("step",), ""),
        (("step", "nccl"), "missing-range"),
        (("ProfilerStep#3",), "torch-own"),
    ]
    assert table["torch_kernels"].isna().tolist() == [False, True, False]


def test_paths_match_past_ranges_that_only_one_recording_has() -> None:
    table = compare(
        side({("lib", "step"): BASE, ("lib", "step", "forward"): BASE}),
        side({("ProfilerStep#0", "step"): BASE, ("ProfilerStep#0", "step", "forward"): BASE}),
    )
    assert list(table["path"]) == [("lib", "step"), ("lib", "step", "forward")]
    assert set(table["code"]) == {""}


def test_processes_are_summed() -> None:
    table = compare(
        side({("lib", "step"): BASE, ("step",): BASE}),
        side({("step",): scaled(2, replace(BASE, instances=20, kernels=120))}),
    )
    assert table["nsys_kernels"].tolist() == [120]


REAL = {
    # Kernel counts: scenarios.py (blocks: 10 x (1 gemm + 5 elementwise)); data README for the rest.
    ("blocks", "blocks"): {
        ("eager-block",): (60, 60, ""),
        ("eager-block", "gemm"): (10, 10, ""),
        ("eager-block", "chain"): (50, 50, ""),
    },
    ("train", "train"): {("step", "backward"): (128, 128, "")},
    ("graph_graph", "graph"): {
        ("graph-replay",): (0, 60, "graph-replay"),
        ("eager",): (60, 60, ""),
    },
    ("graph_node", "graph"): {("graph-replay",): (60, 60, ""), ("capture",): (2, 2, "short-ops")},
}


@pytest.mark.parametrize(("nsys", "torch"), REAL)
def test_real_recordings(nsys: str, torch: str) -> None:
    table = join(
        harness.load(DATA / f"{nsys}.sqlite").attribute(),
        harness.load(DATA / f"{torch}.trace.json.gz").attribute(),
    ).set_index("path")
    for path, (ours, theirs, code) in REAL[nsys, torch].items():
        row = table.loc[[path]].iloc[0]
        assert (row["nsys_kernels"], row["torch_kernels"], row["code"]) == (ours, theirs, code)
        if ours == theirs and not code:
            assert row["ratio"] == pytest.approx(1, abs=0.02)


def test_under_policy_thread_both_lose_backward_alike() -> None:
    # Data README: backward is 5 600 ns without the autograd thread's launches.
    table = join(
        harness.load(DATA / "train.sqlite").attribute("thread"),
        harness.load(DATA / "train.trace.json.gz").attribute("thread"),
    ).set_index("path")
    row = table.loc[[("step", "backward")]].iloc[0]
    assert (row["nsys_kernels"], row["torch_kernels"], row["nsys_total_ns"]) == (8, 8, 5_600)


def test_mixed_policies_name_the_autograd_thread() -> None:
    table = join(
        harness.load(DATA / "train.sqlite").attribute("autograd"),
        harness.load(DATA / "train.trace.json.gz").attribute("thread"),
    ).set_index("path")
    row = table.loc[[("step", "backward")]].iloc[0]
    assert row["code"] == "autograd-thread"
    assert row["reason"].startswith("120 kernels of the autograd thread")


def test_a_range_of_a_process_that_the_program_started() -> None:
    from harness import disagreement

    whole = disagreement.Whole(nsys_processes=3, torch_processes=1)
    code, reason = disagreement.explain(disagreement.Measures(instances=1), None, whole, "worker")
    assert code == "missing-range"
    assert "of 3 processes" in reason
    # The other way round, torch.profiler saw more: nothing to say about processes.
    code, reason = disagreement.explain(None, disagreement.Measures(instances=1), whole, "worker")
    assert "processes" not in reason
