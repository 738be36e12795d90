# SPDX-License-Identifier: MIT
"""The examples run on a CPU; what they need of a GPU they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_the_transformer_learns() -> None:
    done = run(sys.executable, "examples/train_transformer.py", "--steps", "20")
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"loss ([\d.]+) -> ([\d.]+) in 20 steps\n", done.stdout)
    assert found is not None
    # ln(64) = 4.16 is a guess among 64 tokens; which comes next is soon known.
    assert float(found[1]) == pytest.approx(4.16, abs=0.3)
    assert float(found[2]) < 1


@pytest.mark.parametrize("arguments", [["--cuda-graphs"], ["--steps", "0"], ["--device", "cuda"]])
def test_what_the_transformer_cannot_do_is_exit_2(arguments: list[str]) -> None:
    done = run(sys.executable, "examples/train_transformer.py", *arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_two_processes_train_one_model() -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = run(*launch, "examples/train_ddp.py", "--steps", "2", "--straggler", "1")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"2 ranks, gloo on cpu: loss [\d.]+\n", done.stdout)


def test_ddp_without_torchrun_says_so() -> None:
    done = run(sys.executable, "examples/train_ddp.py")
    assert done.returncode == 2
    assert "torchrun" in done.stderr


def test_scenarios_are_named_and_need_a_gpu() -> None:
    done = run(sys.executable, "examples/scenarios.py", "no-such")
    assert done.returncode == 2
    assert "graph-ranges" in done.stderr
    assert run(sys.executable, "examples/scenarios.py", "threads").returncode == 4
