# SPDX-License-Identifier: MIT
"""The documents of compare say what the code does, and their workflow works as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from planted import AA, captures, run_folder, scaled

from harness.comparison.result import COLUMNS
from harness.comparison.verdict import VERDICTS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def workflow(name: str) -> str:
    """The yaml block after ``<!-- name -->``."""
    text = (DOCS / "github-actions.md").read_text()
    found = re.search(rf"<!-- {name} -->\n```yaml\n(.*?)```", text, re.S)
    assert found
    return found[1]


def step(name: str, title: str) -> str:
    """The command of a step whose ``run`` is folded (``>-``)."""
    found = re.search(rf"- name: {title}\n +run: >-\n((?: {{10}}.*\n)+)", workflow(name))
    assert found
    return " ".join(found[1].split())


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment as a step has it, with ``harness`` on PATH."""
    program = tmp_path / "bin" / "harness"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m harness "$@"\n')
    program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }


def run(command: str, folder: Path, environment: dict[str, str]) -> int:
    return subprocess.run(["bash", "-ec", command], cwd=folder, env=environment).returncode


@pytest.mark.parametrize(("factor", "code"), [(1.001, 0), (1.08, 1)])
def test_workflow_of_recorded_runs(
    tmp_path: Path, shell: dict[str, str], factor: float, code: int
) -> None:
    reports = tmp_path / "reports"
    run_folder(reports / "first", AA[:3], created="2026-01-01T10:00:00+00:00")
    planted = captures(tmp_path / "planted", AA[1:], "chain", factor)
    run_folder(reports / "second", planted, created="2026-01-02T10:00:00+00:00")
    assert run("harness baseline save main reports/first", tmp_path, shell) == 0
    command = step("recorded", "Compare the newest run with the baseline")
    assert run(command, tmp_path, shell) == code
    comment = (tmp_path / "comparison.md").read_text()
    assert comment.startswith("### ")
    assert (tmp_path / "summary.md").read_text().startswith(comment)


def test_workflow_of_a_gpu_runner_compares_what_it_recorded(
    tmp_path: Path, shell: dict[str, str]
) -> None:
    for side in ("base", "new"):
        (tmp_path / "captures" / side).mkdir(parents=True)
        for number, file in enumerate(AA, start=1):
            target = tmp_path / "captures" / side / f"{number}.sqlite"
            scaled(file, target, "chain", 1.001 if side == "new" else 1.0)
    command = step("record", "Compare").replace("new/.venv/bin/harness", "harness")
    assert run(command, tmp_path, shell) == 0
    assert "no change found" in (tmp_path / "summary.md").read_text()


def test_workflow_of_a_gpu_runner_records_with_options_that_exist(shell: dict[str, str]) -> None:
    options = re.findall(
        r"--[a-z-]+", re.search(r"harness run (.*?)-o", workflow("record"), re.S)[1]
    )
    assert "--nsys" in options
    command = f"harness run {' '.join(options)} --dry-run"
    done = subprocess.run(
        ["bash", "-ec", command], env=shell, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 4)  # 4: no nsys on this machine, so nothing to print
    assert "no such option" not in done.stderr.lower()


def test_workflows_are_yaml() -> None:
    yaml = pytest.importorskip("yaml")
    for name in ("recorded", "record"):
        document = yaml.safe_load(workflow(name))
        (job,) = document["jobs"].values()
        assert all("run" in made or "uses" in made for made in job["steps"])


def test_every_column_and_verdict_is_documented() -> None:
    text = (DOCS / "comparing.md").read_text()
    for name in (*COLUMNS, *VERDICTS):
        assert f"`{name}`" in text, name
