# SPDX-License-Identifier: MIT
"""``harness report``: its figures, against those worked out by hand and by NVIDIA."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data" / "h200"

Command = Callable[..., tuple[int, str, str]]


# The numbers in them, against figures worked out by hand (tests/data) and by NVIDIA.


def test_blocks_by_hand(report: Command) -> None:
    # Data README: kernels alone; the copies (530 239 ns) are outside too.
    _, out, _ = report(DATA / "blocks.sqlite", "--format", "json")
    found = json.loads(out)
    times = {tuple(r["path"]): (r["total_kernel_ns"], r["kernels"]) for r in found["rows"]}
    assert times == {
        ("eager-block",): (4_364_564, 60),
        ("eager-block", "gemm"): (3_488_535, 10),
        ("eager-block", "chain"): (876_029, 50),
    }
    ledger = found["ledger"]
    assert ledger["outside_ns"] == 1_365_885 + 530_239
    assert (ledger["outside_kernel_ns"], ledger["outside_kernels"]) == (1_365_885, 20)
    assert ledger["balanced"] is True
    assert (found["schema"], found["policy"]) == ("harness.report/1", "autograd")
    assert found["source"]["kind"] == "nsys"
    assert found["source"]["version"].startswith("2025.3")


def test_backward_by_hand(report: Command) -> None:
    # Issue and data README: 5 600 ns by rule thread, 2 492 569 by autograd, 24 memsets.
    _, out, _ = report(DATA / "train.sqlite", "--format", "csv")
    rows = {row["path"]: row for row in csv.DictReader(io.StringIO(out))}
    backward = rows["step / backward"]
    assert int(backward["self_kernel_ns"]) == 5_600 + 2_492_569
    assert (backward["kernels"], backward["memsets"]) == ("128", "24")


@pytest.mark.parametrize("name", ["blocks", "memops", "crash", "graph_node"])
def test_kernels_equal_nvidias_table(name: str, report: Command) -> None:
    _, out, _ = report(
        DATA / f"{name}.sqlite", "--view", "kernels", "--policy", "thread",
        "--names", "demangled", "--format", "csv",
    )  # fmt: skip
    ours = sorted(
        (row["name"], row["pid"], row["kernel"], int(row["kernels"]), int(row["total_ns"]))
        for row in csv.DictReader(io.StringIO(out))
    )
    with (DATA / "nsys_stats" / f"{name}.nvtx_kern_sum.csv").open() as file:
        theirs = sorted(
            (
                row["NVTX Range"].removeprefix(":"),
                row["PID"],
                row["Kernel Name"],
                int(row["Kern Inst"]),
                int(row["Total Time (ns)"]),
            )
            for row in csv.DictReader(line for line in file if line.strip())
        )
    assert theirs
    assert ours == theirs


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@pytest.mark.parametrize("name", ["nested", "train", "graph_graph", "memops"])
def test_the_ledger_adds_up_from_the_rows(name: str, policy: str, report: Command) -> None:
    _, out, _ = report(DATA / f"{name}.sqlite", "--policy", policy, "--format", "json")
    found = json.loads(out)
    ledger = found["ledger"]
    own = sum(row["self_gpu_ns"] for row in found["rows"])
    assert own == ledger["attributed_ns"] == sum(ledger["by_rule"].values())
    assert own + ledger["outside_ns"] + ledger["unlinked_ns"] == ledger["gpu_ns"]
    _, out, _ = report(
        DATA / f"{name}.sqlite", "--policy", policy, "--view", "ops", "--format", "csv"
    )
    ops = list(csv.DictReader(io.StringIO(out)))
    assert len(ops) == ledger["gpu_ops"]
    assert sum(int(op["end_ns"]) - int(op["start_ns"]) for op in ops) == ledger["gpu_ns"]


def test_csv_and_json_hold_the_same(report: Command) -> None:
    for view in ("ranges", "names", "kernels", "ops", "instances"):
        _, as_csv, _ = report(DATA / "nested.sqlite", "--view", view, "--format", "csv")
        _, as_json, _ = report(DATA / "nested.sqlite", "--view", view, "--format", "json")
        rows = json.loads(as_json)["rows"]
        table = list(csv.reader(io.StringIO(as_csv)))
        assert table[0] == list(rows[0])
        assert table[1:] == [[flat(value) for value in row.values()] for row in rows]


def flat(value: Any) -> str:
    if isinstance(value, list):
        return " / ".join(value)
    return "" if value is None else str(value)


def test_odd_names_survive(report: Command) -> None:
    _, out, _ = report(DATA / "nested.sqlite", "--format", "json")
    names = {row["name"] for row in json.loads(out)["rows"]}
    assert {"", 'quote " comma , newline \n tab \t end', "é中文🚀", "L" * 3000} <= names


# Sorting and cutting.


def test_top_keeps_the_tree_and_its_ancestors(report: Command) -> None:
    _, out, _ = report(DATA / "train.sqlite", "--top", "2", "--format", "json")
    assert [row["path"] for row in json.loads(out)["rows"]] == [["step"], ["step", "backward"]]


def test_csv_is_never_cut_unless_asked(report: Command) -> None:
    _, out, _ = report(DATA / "train.sqlite", "--view", "ops", "--format", "csv")
    assert len(out.splitlines()) == 309  # 308 ops
    _, out, _ = report(DATA / "train.sqlite", "--view", "ops")
    assert "268 more rows not shown" in out


def test_sort_directions(report: Command) -> None:
    def order(sort: str) -> list[str]:
        _, out, _ = report(DATA / "train.sqlite", "--sort", sort, "--format", "csv")
        return [row["name"] for row in csv.DictReader(io.StringIO(out))]

    assert order("total") == ["step", "backward", "forward", "optimizer"]
    assert order("total_gpu_ns:asc") == ["optimizer", "forward", "backward", "step"]
    assert order("name") == ["backward", "forward", "optimizer", "step"]


def test_sort_by_what_is_no_column(report: Command) -> None:
    code, _, err = report(DATA / "train.sqlite", "--sort", "speed")
    assert code == 2
    assert "cannot sort by 'speed'" in err
    assert "total_gpu_ns" in err


# Filters.


def ledger_and_rows(report: Command, *args: str) -> tuple[dict[str, Any], dict[str, Any]]:
    code, out, _ = report(DATA / "train.sqlite", *args, "--format", "json")
    assert code == 0
    found = json.loads(out)
    ledger = found["ledger"]
    assert ledger["gpu_ns"] == (
        ledger["attributed_ns"] + ledger["outside_ns"] + ledger["unlinked_ns"] + ledger["hidden_ns"]
    )
    assert ledger["attributed_ns"] == sum(row["self_gpu_ns"] for row in found["rows"])
    return ledger, {" / ".join(row["path"]): row for row in found["rows"]}


def test_skip_leaves_out_the_first_instances(report: Command) -> None:
    ledger, rows = ledger_and_rows(report, "--skip", "3")
    assert {row["instances"] for row in rows.values()} == {5}
    # scenarios.py: 16 backward kernels and 3 sets a step; three of eight steps are left out.
    assert (rows["step / backward"]["kernels"], rows["step / backward"]["memsets"]) == (80, 15)
    assert ledger["hidden_ops"] == 120


def test_a_range_filter_keeps_the_path_readable(report: Command) -> None:
    _, out, _ = report(DATA / "train.sqlite", "--range", "^forw")
    assert "\nstep / forward" in out
    assert "Selected: ranges matching ^forw" in out
    assert "hidden" in out


@pytest.mark.parametrize(
    "args",
    [
        ["--kernel", "gemm"],
        ["--device", "0"],
        ["--device", "7"],
        ["--pid", "558"],
        ["--pid", "1"],
        ["--domain", ""],
        ["--domain", "nope"],
        ["--steady"],
        ["--filter-time", "0:8.8s"],
        ["--filter-time", "9s:"],
        ["--skip", "100"],
        ["--range", "backward", "--kernel", "gemm", "--skip", "1"],
    ],
)
def test_the_ledger_balances_under_every_filter(args: list[str], report: Command) -> None:
    ledger_and_rows(report, *args)
    assert report(DATA / "train.sqlite", *args)[0] == 0


@pytest.mark.parametrize(
    "args",
    [["--range", "("], ["--kernel", "["], ["--filter-time", "5"], ["--filter-time", "x:y"],
     ["--filter-time", "2s:1s"]],
)  # fmt: skip
def test_a_filter_that_does_not_parse(args: list[str], report: Command) -> None:
    code, out, err = report(DATA / "train.sqlite", *args)
    assert (code, out) == (2, "")
    assert args[0] in err


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("1.5s:2s", (1_500_000_000, 2_000_000_000)),
        (":100", (None, 100)),
        ("0.1us:", (100, None)),
        ("1.000000001s:9223372036s", (1_000_000_001, 9_223_372_036_000_000_000)),
        (":", (None, None)),
    ],
)
def test_times_of_a_filter(text: str, window: tuple[int | None, int | None]) -> None:
    from harness.cli.filters import parse_window

    assert parse_window(text) == window
