# SPDX-License-Identifier: MIT
"""The run folder: whole or marked incomplete, never overwritten."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import harness
from harness.errors import HarnessError, UnreadableReport, UsageProblem
from harness.launch import rundir
from harness.launch.rundir import PassRecord, Run, RunFolder, load_run


def new_run(name: str = "a") -> Run:
    return Run(name=name, argv=["python", "ü b.py"], created="2026-01-01T00:00:00+00:00")


def test_a_run_takes_its_name_only_when_complete(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "a"
    with RunFolder(target, new_run()) as folder:
        assert not target.exists()
        assert load_run(folder.path).complete is False
        folder.run.passes.append(PassRecord("plain", ["x"], 0, 1.5, "plain.log"))
        folder.complete()
    run = load_run(target)
    assert run.complete
    assert run.folder == target
    assert run.argv == ["python", "ü b.py"]
    assert run.passes[0].duration_s == 1.5
    assert [entry.name for entry in target.parent.iterdir()] == ["a"]


def test_an_interrupted_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), RunFolder(tmp_path / "a", new_run()):
        raise RuntimeError
    assert not (tmp_path / "a").exists()
    assert load_run(tmp_path / "a.incomplete").complete is False


def test_a_stale_incomplete_run_does_not_block_its_name(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "a", new_run()):
        pass
    with RunFolder(tmp_path / "a", new_run()) as again:
        assert again.path.name == "a.incomplete.2"
        again.complete()
    assert (tmp_path / "a.incomplete").is_dir()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(UsageProblem, match="exists already"):
        RunFolder(tmp_path / "a", new_run())


def test_a_dangling_link_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("nowhere")
    with pytest.raises(UsageProblem):
        RunFolder(tmp_path / "a", new_run())


def test_two_runs_with_one_name_do_not_meet(tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path / "a", new_run()),
        pytest.raises(UsageProblem, match="another") as caught,
    ):
        RunFolder(tmp_path / "a", new_run())
    assert "%q{RANK}" in caught.value.hint


def test_a_name_taken_meanwhile_keeps_the_finished_run(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "a", new_run()) as folder:
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "mine").touch()
        with pytest.raises(UsageProblem):
            folder.complete()
        assert folder.path.is_dir()
    assert [entry.name for entry in (tmp_path / "a").iterdir()] == ["mine"]


def test_unknown_keys_are_ignored_and_missing_ones_have_defaults(tmp_path: Path) -> None:
    stored = {"schema": "harness.run/1", "future": 1, "passes": [{"name": "nsys", "new": 2}]}
    (tmp_path / "run.json").write_text(json.dumps(stored))
    run = load_run(tmp_path)
    assert run.name == tmp_path.name
    assert run.passes[0].name == "nsys"
    assert run.complete is False


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "other/1"}'])
def test_what_is_no_run_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(UnreadableReport):
        load_run(tmp_path)


@pytest.mark.parametrize("schema", ["harness.run/2", "harness.run/", "harness.run/1x"])
def test_another_version_of_the_file_is_refused(tmp_path: Path, schema: str) -> None:
    """What it means by ``complete``, or has instead, is not known here."""
    (tmp_path / "run.json").write_text(json.dumps({"schema": schema, "complete": True}))
    with pytest.raises(UnreadableReport, match=f"another version of harness .{schema}; this one"):
        load_run(tmp_path)


def pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make", [Path.mkdir, pipe, lambda path: path.symlink_to(path)])
def test_a_run_json_that_is_no_file_is_not_passed_over(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "run.json")
    (tmp_path / "report.sqlite").touch()
    assert rundir.has_run_json(tmp_path)
    with pytest.raises(UnreadableReport, match=r"run\.json: cannot be read: it is no file"):
        load_run(tmp_path)
    with pytest.raises(UnreadableReport, match=r"run\.json: cannot be read"):
        harness.compare(tmp_path, tmp_path)


def test_no_run_json(tmp_path: Path) -> None:
    with pytest.raises(UnreadableReport, match=r"no run\.json"):
        load_run(tmp_path)


def test_duration_is_the_median_over_captures() -> None:
    run = new_run()
    for capture, seconds in enumerate((3.0, 1.0, 2.0), 1):
        run.passes.append(PassRecord("nsys", [], 0, seconds, "", capture=capture))
    assert run.duration_s("nsys") == 2.0
    assert run.duration_s("torch") is None
    assert [record.capture for record in run.captures()] == [1, 2, 3]


def test_runs_are_listed_oldest_first(tmp_path: Path) -> None:
    for name, created in (("b", "2026-01-01"), ("a", "2026-01-02")):
        run = Run(name=name, argv=[], created=created)
        with RunFolder(tmp_path / name, run) as folder:
            folder.complete()
    assert [run.name for run in rundir.list_runs(tmp_path)] == ["b", "a"]
    assert rundir.list_runs(tmp_path / "nowhere") == []


def test_baselines(tmp_path: Path) -> None:
    assert rundir.read_baselines(tmp_path) == {}
    with pytest.raises(UsageProblem, match="no baseline"):
        rundir.baseline_path(tmp_path, "main")
    rundir.write_baselines(tmp_path, {"main": "run1"})
    with pytest.raises(UnreadableReport, match="gone"):
        rundir.baseline_path(tmp_path, "main")
    (tmp_path / "run1").mkdir()
    assert rundir.baseline_path(tmp_path, "main") == tmp_path / "run1"


@pytest.mark.parametrize(
    "damage",
    [
        {"complete": "false"},
        {"passes": 3},
        {"passes": ["x"]},
        {"passes": [{"files": 1}]},
        {"gpu": "x"},
        {"versions": []},
    ],
)
def test_values_of_the_wrong_kind_are_refused(tmp_path: Path, damage: dict[str, object]) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"schema": "harness.run/1", **damage}))
    with pytest.raises(UnreadableReport, match="damaged"):
        load_run(tmp_path)


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match="cannot be written"):
        RunFolder(tmp_path / "file" / "x", new_run())
