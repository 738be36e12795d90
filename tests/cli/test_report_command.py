# SPDX-License-Identifier: MIT
"""``harness report`` as people see it: pages at 100 columns, from recordings of an H200."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "h200"
AA = Path(__file__).parents[1] / "data" / "aa"
SNAPSHOTS = Path(__file__).parent / "snapshots"

Command = Callable[..., tuple[int, str, str]]


# What people see: snapshots at 100 columns. HARNESS_UPDATE_SNAPSHOTS=1 rewrites them.


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("blocks", ["blocks.sqlite"]),
        ("train", ["train.sqlite"]),
        ("nested", ["nested.sqlite"]),
        ("graph_graph", ["graph_graph.sqlite"]),
        ("memops", ["memops.sqlite"]),
        ("crash", ["crash.sqlite"]),
        ("train_torch", ["train.trace.json.gz"]),
        ("train_kernels", ["train.sqlite", "--view", "kernels", "--top", "8"]),
        ("train_ops", ["train.sqlite", "--view", "ops", "--top", "5"]),
        ("train_names_sorted", ["train.sqlite", "--view", "names", "--sort", "self"]),
        ("train_ranges_sorted", ["train.sqlite", "--sort", "self", "--top", "3"]),
        ("two_reports", ["blocks.sqlite", "train.sqlite"]),
    ],
)
def test_snapshot(
    name: str, args: list[str], report: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(DATA)
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = report(*args)
    assert code == 0
    check_snapshot(name, out)


def test_snapshot_of_a_run(
    run_folder: Path, report: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    check_snapshot("run", report(run_folder)[1])
    check_snapshot("run_markdown", report(run_folder, "--format", "markdown")[1])


def test_snapshot_of_a_spread(report: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    check_snapshot("spread", report("--spread", AA)[1])


def check_snapshot(name: str, out: str) -> None:
    file = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("HARNESS_UPDATE_SNAPSHOTS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(out, encoding="utf-8")
    assert out == file.read_text(encoding="utf-8")
    assert "\x1b" not in out


# A run folder: both recordings.


def test_json_of_a_run_has_both_recordings(run_folder: Path, report: Command) -> None:
    _, out, _ = report(run_folder, "--format", "json")
    found = json.loads(out)
    assert found["source"]["path"] == str(run_folder / "report.sqlite")
    both = {tuple(row["path"]): row for row in found["side_by_side"]}
    row = both["step", "backward"]
    assert (row["nsys_kernels"], row["torch_kernels"]) == (128, 128)
    assert abs(row["ratio"] - 1) < 0.03
    assert both["step", "optimizer", "Optimizer.step#Adam.step"]["code"] == "torch-own"


def test_view_torch(run_folder: Path, report: Command) -> None:
    _, out, _ = report(run_folder, "--view", "torch", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["name"], row["self_device_ns"]) for row in rows] == [
        ("aten::add", "900"),
        ("aten::mm", "700"),
    ]
    _, out, _ = report(run_folder, "--view", "torch", "--by-shape")
    assert "[[8, 4], [8, 4]]" in out
    assert "[[2], [2]]" in out


def test_view_torch_without_the_tables(report: Command) -> None:
    code, out, err = report(DATA / "train.sqlite", "--view", "torch")
    assert (code, out) == (3, "")
    assert "torch_ops.json" in err
    assert "torch pass" in err


def test_view_both_needs_a_run(report: Command) -> None:
    code, _, err = report(DATA / "train.sqlite", "--view", "both")
    assert code == 2
    assert "run folder" in err


def test_an_interrupted_run_says_so(run_folder: Path, report: Command) -> None:
    run = json.loads((run_folder / "run.json").read_text())
    run["complete"] = False
    run["passes"][2]["exit_code"] = 3
    run["skipped"] = [{"pass": "torch", "reason": "torch is not installed"}]
    (run_folder / "run.json").write_text(json.dumps(run))
    _, out, _ = report(run_folder)
    assert "INCOMPLETE" in out
    assert "The nsys pass exited with 3: see nsys.log" in out
    assert "No torch pass: torch is not installed" in out


def test_show_run_prints_the_default_table(
    run_folder: Path, report: Command, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from harness.cli.report import show_run

    show_run(run_folder)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out.decode() == report(run_folder)[1]
