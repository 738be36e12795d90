# SPDX-License-Identifier: MIT
"""Folders of runs in which one recorded nothing, is damaged or was killed: the others count."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from running import harness, program

AA = Path(__file__).parents[1] / "data" / "aa"


def run_folder(reports: Path, name: str, created: str, **changed: object) -> Path:
    folder = reports / name
    folder.mkdir(parents=True)
    shutil.copy(AA / "aa1.sqlite", folder / "report.sqlite")
    stored = {
        "schema": "harness.run/1", "name": name, "created": created, "complete": True,
        "argv": ["python", "t.py"], **changed,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(stored))
    return folder


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    for name, created in (("one", "2026-01-02"), ("two", "2026-01-03"), ("three", "2026-01-04")):
        run_folder(tmp_path / "reports", name, created)
    return tmp_path / "reports"


def news(out: str) -> list[str]:
    """The names of the runs that were compared with the base."""
    document = json.loads(out)
    return [made["new"]["name"] for made in (document, *document.get("others", []))]


def test_a_run_that_recorded_nothing_is_named_and_left_out(reports: Path) -> None:
    plain = program(reports.parent, "print('done')")
    done = harness(
        reports.parent, "run", "--plain", "--no-torch", "-o", "reports/plain", "--",
        sys.executable, plain,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = harness(reports.parent, "compare", "reports", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert "plain is left out" in done.stderr
    assert "recorded nothing (it had a plain pass only)" in done.stderr
    assert news(done.stdout) == ["three", "two"]
    done = harness(reports.parent, "baseline", "save", "main", "plain")
    assert (done.returncode, done.stdout) == (3, "")
    assert "recorded nothing" in done.stderr
    done = harness(reports.parent, "report", "reports/plain")
    assert done.returncode == 3
    assert "not a run folder" not in done.stderr


@pytest.mark.parametrize("victim", ["one", "two", "three"])
@pytest.mark.parametrize("damage", ["recording", "run.json", "lost"])
def test_a_damaged_run_costs_only_itself(reports: Path, victim: str, damage: str) -> None:
    if damage == "recording":
        (reports / victim / "report.sqlite").write_bytes(b"SQLite format 3\0 and no more")
    elif damage == "lost":
        (reports / victim / "report.sqlite").unlink()
    else:
        (reports / victim / "run.json").write_text('{"schema": "harness.run/1", "na')
    done = harness(reports.parent, "compare", "reports", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert f"{victim} is left out" in done.stderr
    assert victim not in news(done.stdout)
    assert len(news(done.stdout)) == 1


def test_the_newest_must_be_readable_where_it_is_the_question(reports: Path) -> None:
    (reports / "three" / "report.sqlite").write_bytes(b"SQLite format 3\0 and no more")
    for asked in (["--newest"], ["--fail-on", "slower"]):
        done = harness(reports.parent, "compare", "reports", *asked)
        assert (done.returncode, done.stdout) == (3, "")


def test_nothing_comparable_is_one_line(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run_folder(tmp_path / "reports", name, name)
        (tmp_path / "reports" / name / "report.sqlite").unlink()
    done = harness(tmp_path, "compare", "reports")
    assert (done.returncode, done.stdout) == (3, "")
    assert "fewer than two" in done.stderr


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--skip", "99999"], "--skip 99999 left no"),
        (["--range", "nosuch"], "--range 'nosuch' left no"),
        (["--kernel", "nosuch"], "--kernel 'nosuch' left no GPU op"),
        (["--device", "7"], "--device 7 left no GPU op"),
        (["--pid", "1"], "--pid 1 left no GPU op and no range"),
        (["--domain", "nosuch"], "--domain 'nosuch' left no"),
        (["--filter-time", "900s:901s"], "--filter-time 900000000000:901000000000 left no"),
    ],
)
def test_the_filter_that_hid_everything_is_named(
    tmp_path: Path, option: list[str], said: str
) -> None:
    files = [str(AA / "aa1.sqlite"), str(AA / "aa2.sqlite")]
    done = harness(tmp_path, "compare", *files, *option)
    assert (done.returncode, done.stdout) == (3, "")
    assert said in done.stderr
    for style in ("table", "json", "csv"):
        done = harness(tmp_path, "report", files[0], *option, "--format", style)
        assert done.returncode == 0, done.stderr
        text = done.stderr if style == "csv" else done.stdout.replace("\\'", "'")
        assert said in " ".join(text.split())


def test_a_run_of_several_captures_says_which_it_shows(reports: Path) -> None:
    shutil.copy(AA / "aa2.sqlite", reports / "one" / "report.2.sqlite")
    done = harness(reports.parent, "report", "reports/one", "--format", "json")
    warnings = {w["code"]: w for w in json.loads(done.stdout)["warnings"]}
    assert "2 captures" in warnings["captures"]["message"]
    assert "report.2.sqlite" in warnings["captures"]["hint"]


@pytest.mark.parametrize("asked", [["--columns"], ["--explain", "busy_ns"]])
def test_meanings_in_every_format(tmp_path: Path, asked: list[str]) -> None:
    import csv
    import io

    done = harness(tmp_path, "report", *asked, "--format", "json")
    listed = json.loads(done.stdout)["columns"]
    assert {"busy_ns"} <= {each["column"] for each in listed}
    done = harness(tmp_path, "report", *asked, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["column"] for row in rows] == [each["column"] for each in listed]
    done = harness(tmp_path, "report", *asked, "-o", "meaning.md")
    assert (tmp_path / "meaning.md").read_text().startswith("| column")


def test_a_gate_does_not_judge_an_older_run_when_the_newest_is_the_baseline(reports: Path) -> None:
    # A change that moves the baseline to its own run would always pass.
    assert harness(reports.parent, "baseline", "save", "main", "three").returncode == 0
    for question in (("--fail-on", "slower"), ("--newest",)):
        done = harness(reports.parent, "compare", "reports", "--baseline", "main", *question)
        assert (done.returncode, done.stdout) == (3, "")
        assert "the newest run, three, is the baseline itself" in done.stderr
    done = harness(reports.parent, "compare", "reports", "--baseline", "main", "--format", "json")
    assert (done.returncode, news(done.stdout)) == (0, ["two", "one"])


def test_an_empty_gate_is_refused(reports: Path) -> None:
    # What a CI variable that is not set leaves of a gate.
    done = harness(reports.parent, "compare", "reports", "--fail-on", "")
    assert (done.returncode, done.stdout) == (2, "")
    assert "not understood" in done.stderr
