# SPDX-License-Identifier: MIT
"""scripts/record-examples makes what tests/data/recorded holds: its run.json files say so."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "data" / "recorded"
NAMES = sorted(path.name for path in RECORDED.iterdir() if path.is_dir())


def printed(*names: str) -> list[list[str]]:
    done = subprocess.run(
        ["bash", "scripts/record-examples", "-n", "OUT", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "PYTHON": "python3"},
    )
    return [shlex.split(line) for line in done.stdout.splitlines()]


def test_every_recording_and_no_other() -> None:
    runs = [words for words in printed() if ["-m", "harness", "run"] in triples(words)]
    names = [Path(words[words.index("-o") + 1]).name for words in runs]
    ranks = [name.replace("%q{RANK}", rank) for name in names for rank in "01"]
    assert sorted(set(ranks)) == NAMES


def triples(words: list[str]) -> list[list[str]]:
    return [words[at : at + 3] for at in range(len(words))]


@pytest.mark.parametrize("name", NAMES)
def test_as_its_run_json_says(name: str) -> None:
    run = json.loads((RECORDED / name / "run.json").read_text())
    of_rank = re.fullmatch(r"(.*-straggler)-(\d)", name)
    *build, command, slim = printed(of_rank[1] if of_rank else name)[: None if not of_rank else 2]
    if of_rank:
        slim = printed(of_rank[1])[1 + int(of_rank[2])]
        assert command[:4] == ["torchrun", "--nproc-per-node", "2", "--no-python"]
        command = command[4:]
    at = command.index("--")
    options, program = command[4:at], command[at + 1 :]
    # Folders were taken out of the recorded command lines.
    assert [Path(program[0]).name, *program[1:]] == run["argv"]
    graphs = options[options.index("--graphs") + 1] if "--graphs" in options else None
    assert graphs == run["options"]["graphs"]
    passes = ["torch", "nsys"] if "--no-torch" not in options else ["nsys"]
    assert [one["name"] for one in run["passes"]] == passes
    assert "--no-plain" in options
    added = options[options.index("--env") + 1 :][:1] if "--env" in options else []
    assert added == run["options"]["environment_added"]
    assert slim[1:4] == ["scripts/slim-recording", f"OUT/{name}", f"OUT/small/{name}"]
    assert bool(build) == (run["argv"][0] == "graphs")


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        printed("no-such")
    assert caught.value.returncode == 2
