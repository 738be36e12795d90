# SPDX-License-Identifier: MIT
"""Two GPUs of one model differ by per cents: who compares is told which they were, or that nobody
knows; a shared copy tells them apart without naming them."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from planted import AA, GPU, changed, run_folder

import harness
from harness.cli import main
from harness.comparison import Comparison
from harness.comparison.gate import judge
from harness.gpu_ids import pseudonym, replace_uuids, same_gpus
from harness.launch.share import share

UUID = GPU["uuid"].removeprefix("GPU-")
OTHER = "d61ad9fe-f5d5-a939-d9cd-21a405e287be"
SAID = "7 % apart on two H200s"
EARLY, LATE = "2026-01-01T10:00:00+00:00", "2026-01-01T11:00:00+00:00"


def anonymous(folder: Path, files: list[Path], created: str) -> Path:
    """A run whose GPU's UUID is nowhere on record, as older slim copies are."""
    sql = "UPDATE TARGET_INFO_GPU SET uuid = ''"
    copies = [changed(f, folder.parents[1] / "src" / f.name, sql) for f in files]
    return run_folder(folder, copies, created=created, gpu=[{**GPU, "uuid": None}])


def codes(comparison: Comparison) -> set[str]:
    return {warning.code for warning in comparison.warnings}


def uuids(comparison: Comparison) -> list[str]:
    return [fact.name for fact in comparison.blocked]


@pytest.fixture
def unknown(tmp_path: Path) -> tuple[Path, Path]:
    runs = tmp_path / "runs"
    return anonymous(runs / "a", AA[:2], EARLY), anonymous(runs / "b", AA[2:], LATE)


@pytest.mark.parametrize("style", ["table", "markdown", "json"])
def test_a_gpu_that_is_not_on_record_is_told(
    unknown: tuple[Path, Path], style: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for paths in (unknown, (unknown[0].parent,)):
        with pytest.raises(SystemExit) as stop:
            main(["compare", *map(str, paths), "--format", style])
        assert stop.value.code == 0
        said = " ".join(capsys.readouterr().out.split())
        assert said.count(SAID) == 1
        assert "unknown-gpu" in said.replace("\\", "")


def test_a_gate_that_passes_says_that_the_gpu_is_not_known(unknown: tuple[Path, Path]) -> None:
    outcome = judge(harness.compare(*unknown), 0.05)
    assert outcome.message.endswith("(which GPU is not on record for both sides)")


def test_one_silent_side_is_enough_and_cpu_time_does_not_care(
    unknown: tuple[Path, Path], tmp_path: Path
) -> None:
    known = run_folder(tmp_path / "k", AA[1:], created=LATE)
    assert "unknown-gpu" in codes(harness.compare(unknown[0], known))
    assert "unknown-gpu" not in codes(harness.compare(AA[0], known))
    assert "unknown-gpu" not in codes(harness.compare(*unknown, measure="cpu"))


def test_a_recording_knows_what_its_run_json_does_not(tmp_path: Path) -> None:
    """run.json without a UUID against a loose recording of another GPU."""
    silent = [{**GPU, "uuid": None}]
    base = run_folder(tmp_path / "a", AA[:3], created=EARLY, gpu=silent)
    sql = "UPDATE TARGET_INFO_GPU SET uuid = ?"
    other = [changed(f, tmp_path / "o" / f.name, sql, (OTHER,)) for f in AA[1:]]
    assert uuids(harness.compare(base, other)) == ["GPU UUID", "GPU at work"]
    assert uuids(harness.compare(base, AA[1:])) == []


def test_pseudonyms() -> None:
    name = pseudonym(UUID)
    assert name == pseudonym(f"GPU-{UUID.upper()}") == pseudonym(name)
    assert name != pseudonym(OTHER)
    assert UUID not in name
    assert pseudonym("") == ""
    assert same_gpus(f"{UUID}, {OTHER}", f"{name}, GPU-{OTHER}")
    assert not same_gpus(UUID, pseudonym(OTHER))
    text = replace_uuids(f"CUDA_VISIBLE_DEVICES=GPU-{UUID} {UUID} 2", [UUID, "2"])
    assert text == f"CUDA_VISIBLE_DEVICES={name} {name} 2"


def slimmed(run: Path, out: Path) -> Path:
    path = str(Path(__file__).parents[2] / "scripts" / "slim-recording")
    loader = importlib.machinery.SourceFileLoader("slim_recording", path)
    spec = importlib.util.spec_from_loader("slim_recording", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    module.slim(run, out)
    return out


def shared(run: Path, out: Path) -> Path:
    return share(run, out).folder


def recorded(tmp_path: Path, name: str, uuid: str, files: list[Path], created: str) -> Path:
    sql = "UPDATE TARGET_INFO_GPU SET uuid = ?"
    copies = [changed(f, tmp_path / f"{name}-src" / f.name, sql, (uuid,)) for f in files]
    host = {"name": "h", "cpu": "x"}
    gpu = [{**GPU, "uuid": f"GPU-{uuid}"}]
    run = run_folder(tmp_path / name, copies, created=created, gpu=gpu, host=host)
    stored = json.loads((run / "run.json").read_text())
    stored["passes"][0]["gpu_after"] = [{"uuid": f"GPU-{uuid}"}]
    stored["argv"] = ["env", f"CUDA_VISIBLE_DEVICES=GPU-{uuid}", "python"]
    (run / "run.json").write_text(json.dumps(stored))
    return run


@pytest.mark.parametrize("copy", [shared, slimmed])
def test_a_copy_that_is_handed_on_tells_gpus_apart_without_naming_them(
    tmp_path: Path, copy: Any
) -> None:
    base = recorded(tmp_path, "a", UUID, AA[:2], EARLY)
    same = recorded(tmp_path, "b", UUID, AA[2:], LATE)
    other = recorded(tmp_path, "c", OTHER, AA[2:], LATE)
    a, b, c = (copy(run, tmp_path / f"{run.name}-copy") for run in (base, same, other))
    for folder, uuid in ((a, UUID), (b, UUID), (c, OTHER)):
        for file in folder.iterdir():
            assert uuid.encode() not in file.read_bytes().lower()
        assert json.loads((folder / "run.json").read_text())["gpu"][0]["uuid"] == pseudonym(uuid)
        with closing(sqlite3.connect(folder / "report.sqlite")) as db:
            assert db.execute("SELECT uuid FROM TARGET_INFO_GPU").fetchall() == [(pseudonym(uuid),)]
    assert uuids(harness.compare(a, b)) == []
    assert "unknown-gpu" not in codes(harness.compare(a, b))
    assert uuids(harness.compare(a, c)) == ["GPU UUID", "GPU at work"]
    # The original and the copy are of one GPU, and a copy of a copy is as the copy.
    assert uuids(harness.compare(base, b)) == []
    again = share(a, tmp_path / "again").folder
    assert uuids(harness.compare(again, b)) == []
