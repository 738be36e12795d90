# SPDX-License-Identifier: MIT
"""``load`` finds the recording in whatever it is given."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from nsys_files import DATA

import harness
from harness.errors import ExitCode, HarnessError
from harness.readers import captures, load, load_all

SECOND = 1_000_000_000


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with three captures and a torch trace."""
    folder = tmp_path / "run"
    folder.mkdir()
    for name, source in (("report", "aa1"), ("report.2", "aa2"), ("report.3", "aa3")):
        shutil.copy(DATA / f"aa/{source}.sqlite", folder / f"{name}.sqlite")
    with gzip.open(folder / "torch_trace.json.gz", "wt") as file:
        json.dump({"schemaVersion": 1, "traceEvents": []}, file)
    (folder / "run.json").write_text("{}")
    return folder


def test_a_file_of_each_kind(run: Path) -> None:
    assert load(run / "report.sqlite").source.kind == "nsys"
    assert load(str(run / "torch_trace.json.gz")).source.kind == "torch"
    assert harness.load(run / "report.sqlite").source.path == str(run / "report.sqlite")


def test_a_run_folder_is_its_first_capture(run: Path) -> None:
    assert load(run).source.path == str(run / "report.sqlite")


def test_all_captures_in_order(run: Path) -> None:
    shutil.copy(DATA / "aa/aa4.sqlite", run / "report.10.sqlite")  # beyond a gap: another run's
    assert [Path(trace.source.path).name for trace in load_all(run)] == [
        "report.sqlite",
        "report.2.sqlite",
        "report.3.sqlite",
    ]
    assert len(load_all(run / "report.2.sqlite")) == 1


def test_an_export_is_preferred_to_its_report_unless_it_is_older(run: Path) -> None:
    report = run / "report.nsys-rep"
    report.touch()
    assert captures(run)[0].name == "report.sqlite"
    now = report.stat().st_mtime_ns
    os.utime(run / "report.sqlite", ns=(now, now - 60 * SECOND))
    assert captures(run)[0].name == "report.nsys-rep"
    os.utime(run / "report.sqlite", ns=(now, now - SECOND))  # a checkout writes in any order
    assert captures(run)[0].name == "report.sqlite"


def test_a_run_with_a_report_only(run: Path) -> None:
    for file in run.glob("*.sqlite"):
        file.unlink()
    (run / "report.nsys-rep").touch()
    assert [file.name for file in captures(run)] == ["report.nsys-rep"]


def test_a_run_with_a_torch_trace_only(run: Path) -> None:
    for file in run.glob("*.sqlite"):
        file.unlink()
    assert load(run).source.kind == "torch"


def test_a_run_without_recordings(tmp_path: Path) -> None:
    with pytest.raises(HarnessError) as caught:
        load(tmp_path)
    assert caught.value.exit_code == ExitCode.NO_ANSWER
    assert caught.value.hint


def test_suffixes_in_capitals(run: Path) -> None:
    (run / "report.sqlite").rename(run / "REPORT.SQLITE")
    assert len(load(run / "REPORT.SQLITE").gpu_ops) == 82
