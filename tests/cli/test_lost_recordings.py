# SPDX-License-Identifier: MIT
"""Run folders from which files were deleted: exactly what is missing is named, the rest is used."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from running import environment, find_nsys, harness, program

sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))

from planted import AA, run_folder

DATA = Path(__file__).parents[1] / "data" / "h200"
RECORDED = Path(__file__).parents[2] / "reports"
WITHOUT_NSYS = environment(HARNESS_NSYS="/nowhere")


#: How a report of an nsys newer than any begins; every nsys reads this line first.
NEWER = b"NVIDIA Tegra Profiler Report 99999999.\n"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy of a recorded run with every file: both profilers, report and export. The repository
    keeps no report, which cannot be scrubbed."""
    folder = tmp_path / "h200-fp32"
    shutil.copytree(RECORDED / "h200-fp32", folder)
    (folder / "report.nsys-rep").write_bytes(NEWER)
    document = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    for one in document["passes"]:
        if one["name"] == "nsys":
            one["files"].insert(0, "report.nsys-rep")
    (folder / "run.json").write_text(json.dumps(document), encoding="utf-8")
    return folder


def codes(document: dict[str, object]) -> dict[str, str]:
    warnings = document["warnings"]
    assert isinstance(warnings, list)
    return {warning["code"]: warning["message"] for warning in warnings}


def test_without_the_export_the_report_is_exported_again(tmp_path: Path) -> None:
    find_nsys()
    command = ("--nsys", "--no-plain", "--no-torch", "-o", "one", "--", sys.executable)
    done = harness(tmp_path, "run", *command, program(tmp_path))
    assert done.returncode == 0, done.stderr
    want = json.loads(harness(tmp_path, "report", "one", "--format", "json").stdout)
    assert [row["path"] for row in want["rows"]] == [["outer"], ["outer", "inner ü"]]
    (tmp_path / "one" / "report.sqlite").unlink()
    done = harness(tmp_path, "report", "one", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == want["rows"]


def test_a_report_of_a_newer_nsys_is_named_as_such(run: Path) -> None:
    nsys = find_nsys()
    (run / "report.sqlite").unlink()
    done = harness(run.parent, "report", "h200-fp32", "--format", "json")
    assert done.returncode == 3
    if nsys.release < (2025, 3):  # which wrote it is on record in run.json
        assert f"written by nsys 2025.3.1.0, which nsys {nsys.version}" in done.stderr
    assert "copy report.sqlite, its export" in done.stderr
    shutil.move(run / "report.nsys-rep", run.parent)  # where no run.json says the version
    done = harness(run.parent, "report", "report.nsys-rep")
    assert "written by another version of nsys, which nsys" in done.stderr


def test_without_export_and_nsys_the_export_is_what_is_missing(run: Path) -> None:
    (run / "report.sqlite").unlink()
    for command in (("report", "h200-fp32"), ("compare", "h200-fp32", str(RECORDED / "h200-tf32"))):
        done = harness(run.parent, *command, env=WITHOUT_NSYS)
        assert (done.returncode, done.stdout) == (4, "")
        said = " ".join(done.stderr.split())
        assert "report.nsys-rep: its export report.sqlite is not beside it" in said
        assert "Copy report.sqlite from where the run was recorded." in said
        assert "h200-fp32/torch_trace.json.gz has the torch pass." in said
        assert "run.json" not in said
    done = harness(run.parent, "report", "h200-fp32/torch_trace.json.gz", env=WITHOUT_NSYS)
    assert done.returncode == 0, done.stderr


def test_without_any_nsys_recording_the_torch_pass_is_shown_and_that_is_said(run: Path) -> None:
    (run / "report.sqlite").unlink()
    (run / "report.nsys-rep").unlink()
    done = harness(run.parent, "report", "h200-fp32", "--format", "json")
    document = json.loads(done.stdout)
    assert document["source"]["kind"] == "torch"
    gone = "no longer in the folder: report.sqlite; what torch.profiler recorded is"
    assert codes(document)["missing-captures"] == f"{gone} shown"
    tf32 = str(RECORDED / "h200-tf32")
    done = harness(run.parent, "compare", "h200-fp32", tf32, "--format", "json")
    document = json.loads(done.stdout)
    assert document["new"]["source"]["kind"] == "torch"
    assert codes(document)["missing-captures"] == f"h200-fp32: {gone} compared"
    (run / "torch_trace.json.gz").unlink()
    done = harness(run.parent, "report", "h200-fp32")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no longer in the folder (report.sqlite, torch_trace.json.gz)" in done.stderr


def test_a_capture_that_is_gone_costs_only_itself(tmp_path: Path) -> None:
    base = run_folder(tmp_path / "base", AA, created="2026-01-01")
    new = run_folder(tmp_path / "new", AA, created="2026-01-02")
    (new / "report.sqlite").unlink()
    (new / "report.3.sqlite").unlink()
    done = harness(tmp_path, "report", "new", "--format", "json")
    document = json.loads(done.stdout)
    assert document["source"]["path"].endswith("report.2.sqlite")
    assert codes(document)["missing-captures"].endswith(": report.sqlite, report.3.sqlite")
    done = harness(tmp_path, "compare", str(base), str(new), "--format", "json")
    document = json.loads(done.stdout)
    assert (document["base"]["captures"], document["new"]["captures"]) == (4, 2)
    assert codes(document)["missing-captures"] == (
        "new: 2 of 4 captures found (no longer in the folder: report.sqlite, report.3.sqlite)"
    )


@pytest.mark.parametrize(
    ("name", "table", "said"),
    [
        ("memops", "MEMCPY", "20 API calls for a copy"),
        ("train", "MEMSET", "32 API calls for a set"),
    ],
)
def test_a_gate_does_not_pass_a_lost_table(
    tmp_path: Path, name: str, table: str, said: str
) -> None:
    base = Path(shutil.copy(DATA / f"{name}.sqlite", tmp_path / "base.sqlite"))
    new = Path(shutil.copy(base, tmp_path / "new.sqlite"))
    with closing(sqlite3.connect(new)) as db:
        db.execute(f"DROP TABLE CUPTI_ACTIVITY_KIND_{table}")
        db.commit()
    done = harness(tmp_path, "compare", "base.sqlite", "new.sqlite", "--fail-on", "slower")
    assert done.returncode == 3, done.stdout
    assert said in " ".join((done.stdout + done.stderr).split())


def test_a_gate_does_not_pass_a_lost_copy(tmp_path: Path) -> None:
    base = Path(shutil.copy(DATA / "memops.sqlite", tmp_path / "base.sqlite"))
    new = Path(shutil.copy(base, tmp_path / "new.sqlite"))
    with closing(sqlite3.connect(new)) as db:
        db.execute("DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE rowid = 7")
        db.commit()
    done = harness(tmp_path, "compare", "base.sqlite", "new.sqlite", "--fail-on", "slower")
    assert done.returncode == 3, done.stdout
    assert "1 of 20 copying calls without a copy" in " ".join((done.stdout + done.stderr).split())
