# SPDX-License-Identifier: MIT
"""``harness run --nsys`` on a real GPU: both profilers see the same kernels in the same ranges."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from harness.launch import facts
from harness.launch.rundir import load_run

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)


def harness(folder: Path, *args: str, **added: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", *args],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), **added},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


def one(path: Path, query: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute(query).fetchone()[0])


PROGRAM = """
    import torch
    x = torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()
    for _ in range(10):
        with torch.cuda.nvtx.range("ten"):
            x.add_(1)
            x.mul_(2)
    torch.cuda.synchronize()
"""


def test_gpu_facts() -> None:
    (first, *_) = facts.query_gpus()
    assert first["uuid"].startswith("GPU-")
    assert first["memory_mib"] > 0
    assert first["clock_sm_max_mhz"] > 0


@pytest.mark.nsys
def test_both_profilers_count_the_same_kernels(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(textwrap.dedent(PROGRAM))
    done = harness(
        tmp_path, "run", "--nsys", "-o", "r", "--", sys.executable, "p.py",
        MY_TOKEN="sesame-0123456789",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    run = load_run(tmp_path / "r")
    assert [record.exit_code for record in run.passes] == [0, 0, 0]
    assert [record.problems for record in run.passes] == [[], [], []]
    assert run.gpu[0]["sm_count"] > 0
    export = tmp_path / "r" / "report.sqlite"
    assert one(export, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") >= 20
    for trace in ("report.sqlite", "torch_trace.json.gz"):
        report = harness(tmp_path, "report", f"r/{trace}", "--format", "json")
        (row,) = (r for r in json.loads(report.stdout)["rows"] if r["name"] == "ten")
        assert (row["instances"], row["kernels"]) == (10, 20), trace
    for file in (tmp_path / "r").iterdir():
        assert b"sesame-0123456789" not in file.read_bytes(), file


@pytest.mark.nsys
@pytest.mark.parametrize(("mode", "kernels"), [("node", True), ("graph", False)])
def test_graphs_are_recorded_as_asked(tmp_path: Path, mode: str, kernels: bool) -> None:
    code = """
        import torch
        x = torch.ones(1024, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x + 1
        for _ in range(5):
            graph.replay()
        torch.cuda.synchronize()
    """
    (tmp_path / "g.py").write_text(textwrap.dedent(code))
    args = ("run", "--nsys", "--no-torch", "--no-plain", "--graphs", mode, "-o", "r", "--")
    assert harness(tmp_path, *args, sys.executable, "g.py").returncode == 0
    export = tmp_path / "r" / "report.sqlite"
    column = "SELECT count(*) FROM pragma_table_info('CUPTI_ACTIVITY_KIND_KERNEL') WHERE name = "
    nodes = 0
    if one(export, column + "'graphNodeId'"):
        nodes = one(
            export, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphNodeId IS NOT NULL"
        )
    assert (nodes == 5) is kernels


@pytest.mark.nsys
def test_capture_by_the_profiler_api(tmp_path: Path) -> None:
    code = textwrap.dedent(PROGRAM).replace("for _", "torch.cuda.profiler.start()\nfor _")
    (tmp_path / "p.py").write_text(code + "torch.cuda.profiler.stop()\n")
    args = (
        "run",
        "--nsys",
        "--no-torch",
        "--no-plain",
        "--nsys-arg=--capture-range=cudaProfilerApi",
    )
    done = harness(tmp_path, *args, "-o", "r", "--", sys.executable, "p.py")
    assert done.returncode == 0, done.stderr
    assert (
        one(tmp_path / "r" / "report.sqlite", "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")
        == 20
    )


@pytest.mark.nsys
def test_doctor_probe_sees_range_and_kernel(tmp_path: Path) -> None:
    if shutil.which("nsys") is None:
        pytest.skip("nsys is not on PATH")
    done = harness(tmp_path, "doctor", "--probe", "--format", "json")
    findings = json.loads(done.stdout)["subjects"][0]["findings"]
    assert next(f for f in findings if f["code"] == "probe")["level"] == "ok", findings
