# SPDX-License-Identifier: MIT
"""The campaign's recorders: what they would run, what they keep, and one at a time on the GPU."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import harness
from harness import summarise

ROOT = Path(__file__).parents[2]
RECORDER = ROOT / "scripts" / "record-campaign"
GATE = ROOT / "benchmarks" / "campaign_lock"
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"


def module(name: str) -> Any:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


def test_nine_configurations_and_three_trainings_are_captured_five_times() -> None:
    argv = [sys.executable, str(RECORDER), "out", "--dry-run"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    lines = [shlex.split(line) for line in done.stdout.splitlines()]
    repeated = [line for line in lines if "--repeat" in line]
    assert all(line[line.index("--repeat") + 1] == "5" for line in repeated)
    assert all("--nsys" in line for line in repeated)
    trainings = [line for line in lines if "examples/train_transformer.py" in line]
    assert len(trainings) == 6
    ways = sorted(line[line.index("--steps") + 2 :] for line in trainings if line in repeated)
    assert ways == [[], ["--compile"], ["--cuda-graphs"]]
    workloads = [line for line in repeated if line not in trainings]
    assert all("--compiled" in line for line in workloads)
    spelt = {tuple(line[line.index("--shape") + 1 :]) for line in workloads}
    assert len(spelt) == len(workloads) == 9
    assert {words[0] for words in spelt} == {"8192x1024", "65536x1024", "262144x1024"}


def test_every_kept_recording_is_one_that_the_campaign_makes() -> None:
    """By the command that the page prints for it; the public script is what is found installed."""
    argv = [sys.executable, str(RECORDER), "out", "--dry-run"]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=True, env={**os.environ, "PYTHON": "python3"}
    )
    lines = [shlex.split(line) for line in done.stdout.splitlines()]
    assert any("--build-only" in line for line in lines)
    assert any("overhead.py" in word for line in lines for word in line)
    made = {
        Path(line[line.index("-o") + 1]).name: line[line.index("--") + 1 :]
        for line in lines
        if "-o" in line
    }
    kept = [*(ROOT / "reports").glob("*/run.json")]
    kept += (ROOT / "docs" / "notes" / "data" / "extracts").glob("*.json")
    assert len(kept) > 20
    for file in kept:
        run = json.loads(file.read_text(encoding="utf-8"))
        if run["name"] != "h200-public":
            assert made[run["name"]] == run["argv"]


def test_a_name_that_no_recording_has_is_refused(tmp_path: Path) -> None:
    argv = [sys.executable, str(RECORDER), str(tmp_path / "out"), "--only", "h200-fp32"]
    argv += ["--only", "h200-fp", "--dry-run"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--only: nothing is called h200-fp; --dry-run shows all" in done.stderr


def test_a_slim_run_says_what_the_whole_one_said(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(ROOT / "reports" / "h200-fp32", whole)
    run = json.loads((whole / "run.json").read_text())
    run["host"]["name"] = "machine-of-theirs"
    run["gpu"][0]["uuid"] = UUID
    run["passes"][0]["files"].append("plain.log")
    (whole / "run.json").write_text(json.dumps(run))
    (whole / "plain.log").write_text("kept out")
    size = module("campaign_slim").slim(whole, tmp_path / "slim", "renamed")
    assert size == sum(file.stat().st_size for file in (tmp_path / "slim").iterdir())
    assert size < 500_000
    before, after = (
        summarise.ranges(harness.load(folder).attribute()) for folder in (whole, tmp_path / "slim")
    )
    assert after.equals(before)
    stored = json.loads((tmp_path / "slim" / "run.json").read_text())
    assert stored["name"] == "renamed"
    assert "name" not in stored["host"]
    assert UUID not in json.dumps(stored)
    listed = {name for one in stored["passes"] for name in one["files"]}
    assert listed == {"report.sqlite", "torch_trace.json.gz"}


def test_two_programs_hold_the_gpu_one_after_the_other(tmp_path: Path) -> None:
    """Each writes when it came in and when it left; gated by the import of the module `gated`."""
    (tmp_path / "gated.py").write_text("")
    program = (
        "import json, time; import gated; came = time.monotonic(); time.sleep(0.4);"
        "print(json.dumps([came, time.monotonic()]))"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(GATE), str(tmp_path)]),
        "HARNESS_LOCK": str(tmp_path / "lock"),
        "HARNESS_LOCK_AT": "gated",
        "HARNESS_LOCK_AFTER": "colorsys",
    }
    began = time.monotonic()
    running = [
        subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    spans = sorted(json.loads(one.communicate()[0]) for one in running)
    assert time.monotonic() - began >= 0.8
    assert spans[0][1] <= spans[1][0]


def test_training_scripts_are_tried_in_order_and_nothing_else_is() -> None:
    public = module("campaign_public")
    found = [
        public.Found("torch", Path("/x/torch/utils/benchmark/examples/simple_timeit.py")),
        public.Found("accelerate", Path("/x/accelerate/test_utils/scripts/test_script.py")),
        public.Found("torch", Path("/x/torch/distributed/tensor/examples/convnext_example.py")),
    ]
    tried = public.candidates(found, "python3")
    assert [Path(one.command[1]).stem for one in tried] == [
        "convnext_example",
        "test_script",
    ]
    assert tried[0].environment["WORLD_SIZE"] == "1"
    assert tried[1].environment == {}


@pytest.mark.nsys
def test_what_is_recorded_is_not_recorded_again(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    name = "h200-8192x1024-fp32"
    (tmp_path / name).mkdir()
    argv = [sys.executable, str(RECORDER), str(tmp_path), "--cpu", "--only", name]
    argv += ["--seconds", "1"]
    done = subprocess.run(
        argv, capture_output=True, text=True, env={**os.environ, "PYTHON": sys.executable}
    )
    assert list((tmp_path / name).iterdir()) == []
    # Its neighbour with both profilers is asked for too, and one second is too short for it.
    assert done.returncode == 3, done.stderr
    assert f"left: ['{name}-both']" in done.stderr
