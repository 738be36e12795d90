# SPDX-License-Identifier: MIT
"""Names of baselines, and runs that are not there: one line each, and the right exit code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running import harness

AA = Path(__file__).parents[1] / "data" / "aa"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds reports/one, which is complete, and reports/half, which is not."""
    for name, complete in (("one", True), ("half", False)):
        run = tmp_path / "reports" / name
        run.mkdir(parents=True)
        stored = {"schema": "harness.run/1", "name": name, "complete": complete, "created": "1"}
        (run / "run.json").write_text(json.dumps(stored))
        shutil.copy(AA / "aa1.sqlite", run / "report.sqlite")
    return tmp_path


def one_line(err: str) -> str:
    lines = err.rstrip().splitlines()
    assert lines[0].startswith("harness: "), err
    assert len(lines) <= 2, err
    assert all(len(line) < 200 for line in lines), err
    return err


@pytest.mark.parametrize(
    "name", ["", ".", "..", "...", "-.-", "_", "a/b", "/", "a\nb", "a\n", "a b", "a\\b", "\x1b[31m"]
)
def test_names_that_are_no_words_are_refused(folder: Path, name: str) -> None:
    done = harness(folder, "baseline", "save", "--", name, "one")
    assert (done.returncode, done.stdout) == (2, "")
    assert "a baseline's name has letters, digits and . + - _ only" in one_line(done.stderr)
    assert "\x1b" not in done.stderr
    assert not (folder / "reports" / "baselines.json").exists()


def test_a_name_has_an_end(folder: Path) -> None:
    done = harness(folder, "baseline", "save", "x" * 300, "one")
    assert (done.returncode, done.stdout) == (2, "")
    assert "at most 100 characters, not 300" in one_line(done.stderr)
    assert harness(folder, "baseline", "save", "x" * 100, "one").returncode == 0


@pytest.mark.parametrize("name", ["main", "v1.2", "C++", "2026-01-01", "größe", ".main"])
def test_words_are_names(folder: Path, name: str) -> None:
    done = harness(folder, "baseline", "save", name, "one")
    assert (done.returncode, done.stdout) == (0, f"{name} -> one\n")
    shown = harness(folder, "baseline", "show", name, "--format", "json")
    assert json.loads(shown.stdout)["path"] == "reports/one"


@pytest.mark.parametrize(
    ("run", "code", "said"),
    [
        ("reports/zzz", 3, "reports/zzz: no such run, here or in reports"),
        ("zzz", 3, "There are: one"),
        ("half", 3, "reports/half: this run is incomplete"),
        ("reports/half", 3, "reports/half: this run is incomplete"),
        ("reports/one/report.sqlite", 2, "not a folder; a baseline is a run folder"),
        ("reports", 2, "reports: not directly under reports"),
        (".", 2, ".: not directly under reports"),
        ("reports/..", 2, "reports/..: not directly under reports"),
    ],
)
def test_runs_that_cannot_be_a_baseline(folder: Path, run: str, code: int, said: str) -> None:
    done = harness(folder, "baseline", "save", "main", run)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in one_line(done.stderr)
    assert not (folder / "reports" / "baselines.json").exists()


@pytest.mark.parametrize("run", ["one", "reports/one", "./reports/one/", "reports/half/../one"])
def test_spellings_of_a_run(folder: Path, run: str) -> None:
    assert harness(folder, "baseline", "save", "main", run).stdout == "main -> one\n"


def test_from_inside_the_reports(folder: Path) -> None:
    inside = folder / "reports" / "one"
    done = harness(inside, "baseline", "save", "main", ".", "--reports", "..")
    assert (done.returncode, done.stdout) == (0, "main -> one\n")


def test_a_run_that_is_gone(folder: Path) -> None:
    assert harness(folder, "baseline", "save", "main", "one").returncode == 0
    shutil.rmtree(folder / "reports" / "one")
    done = harness(folder, "baseline", "show", "main")
    assert (done.returncode, done.stdout) == (3, "")
    assert "its run reports/one is gone" in one_line(done.stderr)
    done = harness(folder, "baseline", "save", "main")
    assert (done.returncode, done.stdout) == (3, "")
    assert "reports: no complete run here" in one_line(done.stderr)


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        ('{"main": 5}', "baseline 'main': 5 is not the name of a run"),
        ('{"main": null}', "baseline 'main': None is not the name of a run"),
        ('{"main": ["one"]}', "baseline 'main': ['one'] is not the name of a run"),
        ('{"main": ""}', "baseline 'main': '' is not the name of a run"),
        ('{"main": ".."}', "baseline 'main': '..' is not the name of a run"),
        ('{"main": "../reports/one"}', "'../reports/one' is not the name of a run"),
        ('{"main": "/etc"}', "'/etc' is not the name of a run"),
        ('{"main": "a\\u0000b"}', "is not the name of a run"),
        ('{"main": "' + "a" * 256 + '"}', "'aaaaaaaaaaaaaaaaaaa… is not the name of a run"),
        ('{"a/b": "one"}', "'a/b': a baseline's name has letters, digits"),
        ('{"\\u001b[31m": "one"}', "a baseline's name has letters, digits"),
        ("[]", "not an object of names and runs"),
        ("null", "not an object of names and runs"),
        ("5", "not an object of names and runs"),
        ("", "cannot be read: "),
        ("{", "cannot be read: "),
        ("[" * 100_000, "cannot be read: "),
    ],
)
def test_baselines_that_harness_did_not_write(folder: Path, stored: str, said: str) -> None:
    """Whatever asks for them: also what would otherwise take the oldest run in their place."""
    run = folder / "reports" / "two"
    shutil.copytree(folder / "reports" / "one", run)
    file = folder / "reports" / "baselines.json"
    file.write_text(stored)
    for command in (
        ("baseline", "list"),
        ("baseline", "show", "main"),
        ("baseline", "save", "other", "one"),
        ("compare", "reports"),
        ("compare", "reports", "--baseline", "main"),
        ("compare", "reports", "--fail-on", "slower"),
    ):
        done = harness(folder, *command)
        assert (done.returncode, done.stdout) == (3, ""), command
        assert "baselines.json: " in one_line(done.stderr)
        assert said in done.stderr
        assert "Mend it by hand" in done.stderr
        assert "\x1b" not in done.stderr
        assert file.read_text() == stored


def test_baselines_saved_at_once_are_all_kept(folder: Path) -> None:
    command = [sys.executable, "-m", "harness", "baseline", "save"]
    names = [f"n{number}" for number in range(12)]
    saving = [subprocess.Popen([*command, name, "one"], cwd=folder) for name in names]
    assert [process.wait() for process in saving] == [0] * len(names)
    stored = json.loads((folder / "reports" / "baselines.json").read_text())
    assert stored == dict.fromkeys(sorted(names), "one")
    assert not [*(folder / "reports").glob("*.tmp"), *(folder / "reports").glob(".*")]


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    (folder / "reports" / "baselines.json").mkdir()
    done = harness(folder, "baseline", "save", "main", "one")
    assert (done.returncode, done.stdout) == (3, "")
    one_line(done.stderr)


def test_names_of_runs_do_not_steer_the_terminal(folder: Path) -> None:
    name = "\x1b[2Jrun"
    (folder / "reports" / "one").rename(folder / "reports" / name)
    saved = harness(folder, "baseline", "save", "main", name)
    assert saved.stdout == "main -> \\x1b[2Jrun\n"
    for command in (("list",), ("show", "main")):
        done = harness(folder, "baseline", *command)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout
    (folder / "reports" / name).rename(folder / "reports" / "other")
    done = harness(folder, "baseline", "show", "main")
    assert done.returncode == 3
    assert "reports/\\x1b[2Jrun is gone" in one_line(done.stderr)


def test_a_gate_does_not_take_another_base_for_one_that_is_gone(folder: Path) -> None:
    """Two baselines; the run of one is gone, and it may have been of the newest run's program."""
    for number, name in enumerate(("two", "three"), 2):
        run = folder / "reports" / name
        shutil.copytree(folder / "reports" / "one", run)
        stored = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**stored, "created": f"2026-01-0{number}"}))
        shutil.copy(AA / f"aa{number}.sqlite", run / "report.sqlite")
    shutil.rmtree(folder / "reports" / "half")
    for name, run_name in (("main", "one"), ("old", "two")):
        assert harness(folder, "baseline", "save", name, run_name).returncode == 0
    shutil.rmtree(folder / "reports" / "one")
    gate = ("compare", "reports", "--fail-on", "slower:50")
    done = harness(folder, *gate)
    assert (done.returncode, done.stdout) == (3, "")
    assert "baseline 'main': its run reports/one is gone" in one_line(done.stderr)
    assert harness(folder, *gate, "--baseline", "old").returncode == 0
    assert harness(folder, "compare", "reports").returncode == 0


def test_a_list_of_none_and_of_nowhere(folder: Path) -> None:
    done = harness(folder, "baseline", "list")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no baseline is saved in reports" in one_line(done.stderr)
    done = harness(folder, "baseline", "list", "--reports", "report")
    assert (done.returncode, done.stdout) == (3, "")
    assert "report: no such folder" in one_line(done.stderr)
