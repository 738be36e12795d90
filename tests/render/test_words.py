# SPDX-License-Identifier: MIT
"""One thing is one thing: numbers and their words in messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness import readers, select
from harness.disagreement import Measures, Whole, explain
from harness.doctor.report import empty_processes
from harness.readers.inspect_report import ProcessCounts, ReportFacts
from harness.render.text import plural as shown
from harness.selection import Selection
from harness.words import agree, plural, plural_of

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize(
    ("noun", "several"),
    [
        ("kernel", "kernels"),
        ("memory copy", "memory copies"),
        ("kernel launch", "kernel launches"),
        ("process", "processes"),
        ("environment variable", "environment variables"),
        ("array", "arrays"),
    ],
)
def test_plurals(noun: str, several: str) -> None:
    assert plural_of(noun) == several
    assert (plural(1, noun), plural(0, noun), plural(2, noun)) == (
        f"1 {noun}", f"0 {several}", f"2 {several}",
    )  # fmt: skip
    assert shown(20_000, noun) == f"20,000 {several}"
    assert (agree(1, "was", "were"), agree(0, "was", "were")) == ("was", "were")


def test_one_graph_launch() -> None:
    warnings = readers.load(DATA / "recorded/graph-conditional-graph").warnings
    assert [w.message for w in warnings] == [
        "1 CUDA graph launch was recorded as a whole: its kernels were not"
    ]


def test_the_first_instance_is_hidden() -> None:
    found = readers.load(DATA / "h200/graph_graph.sqlite").attribute()
    message = select.apply(found, Selection(skip=1)).warnings[-1].message
    assert message.startswith("left out the first 1 instance of each path")


def test_one_process_without_kernels() -> None:
    one = ProcessCounts(1, 10, "a", 1, 1, 0)
    facts = ReportFacts("x", processes=(one, replace(one, process=2, pid=20, kernels=5)))
    finding = empty_processes(facts)
    assert finding is not None
    assert (finding.message, finding.evidence) == (
        "1 of 2 processes has no kernels", "pid 10 (1 range, 1 call)",
    )  # fmt: skip


def test_one_instance() -> None:
    one, two = Measures(instances=1, cpu_ns=5), Measures(instances=2, cpu_ns=5)
    assert explain(one, two, Whole())[1].startswith("opened 1 time under nsys and 2 under")
