# SPDX-License-Identifier: MIT
"""The lines above and below the table that come from a run's ``run.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.launch.rundir import PassRecord, Run
from harness.render import facts
from harness.report import Report
from harness.selection import Selection
from harness.trace import Source


def run(**values: Any) -> Run:
    return Run(name="r", argv=[], created="", complete=True, folder=Path("r"), **values)


def passed(name: str, seconds: float, capture: int = 1) -> PassRecord:
    return PassRecord(name, [], 0, seconds, f"{name}.log", capture=capture)


def lines(recorded: Run) -> tuple[str, ...]:
    import pandas as pd

    source = Source("r/report.sqlite", "nsys")
    report = Report("r", source, "ranges", "autograd", pd.DataFrame(), None, run=recorded)
    return facts.lines(report)


WORKLOAD = {
    "passed": True,
    "shape": [8192, 1024],
    "dtype": "fp32",
    "tf32": True,
    "machine": {"device": "cuda:0"},
    "checks": [{"name": "fused", "outside": 0, "elements": 8388608}],
    "byte_model": {"predicted_ratio": 11 / 3, "measured_ratio": 3.5214},
}


def test_how_much_each_profiler_slowed_the_program() -> None:
    passes = [passed("plain", 8.0), passed("torch", 10.0), passed("nsys", 12.0)]
    assert lines(run(passes=passes)) == (
        "Wall time of each pass: plain 8.0 s; torch 10.0 s (1.25 x); nsys 12.0 s (1.50 x)",
    )


def test_repeated_passes_give_their_median() -> None:
    passes = [passed("nsys", seconds, i + 1) for i, seconds in enumerate((11.0, 12.0, 19.0))]
    assert lines(run(passes=passes)) == ("Wall time of each pass: nsys 12.0 s, median of 3",)


def test_prediction_stands_beside_both_measurements() -> None:
    verdict, model = facts.workload_lines(run(workload=WORKLOAD), 3.6)
    assert verdict == (
        "PASS: 8192 x 1024 fp32 with TF32, fused outside the tolerance in 0 of 8388608 elements"
    )
    assert model == (
        "eager over fused chain: 3.67 predicted by the bytes they move, 3.52 measured by the"
        " workload, 3.60 in the ranges above"
    )


def test_a_failed_workload_says_so() -> None:
    failed = WORKLOAD | {"passed": False}
    assert facts.workload_lines(run(workload=failed), None)[0].startswith("FAIL: ")


def test_a_program_of_the_users_own_has_no_results() -> None:
    assert facts.workload_lines(run(), None) == ()
    assert facts.workload_lines(None, None) == ()


def test_the_workloads_device() -> None:
    assert facts.workload_device(run(workload=WORKLOAD)) == "cuda"
    assert facts.workload_device(None) == ""


def test_several_gpus_of_one_model_are_counted() -> None:
    gpus = [{"name": "NVIDIA H200", "driver": "580.1"}] * 2
    assert lines(run(gpu=gpus, versions={"torch": "2.11"})) == (
        "2 x NVIDIA H200 · driver 580.1 · torch 2.11",
    )


def test_a_selection_in_words() -> None:
    selection = Selection(skip=1, time=(None, 2_000), range="a|b", domains=("",), devices=(0, 1))
    assert facts.describe(selection) == (
        "Selected: without the first 1 instance of each path; from the start to 2,000 ns; ranges"
        " matching a|b; domain (default); device 0, 1"
    )
    assert facts.describe(Selection()) == ""
