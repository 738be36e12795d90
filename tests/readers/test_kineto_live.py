# SPDX-License-Identifier: MIT
"""Traces that torch.profiler records here, on the CPU, and some that others published."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from harness.readers import kineto

PUBLIC = Path(
    os.environ.get("HARNESS_PUBLIC_DATA", Path(__file__).parents[3] / "shared/data/public")
)

PROGRAM = """
import sys, threading, torch
from torch.profiler import ProfilerActivity, profile, record_function
net, x = torch.nn.Linear(32, 32), torch.randn(8, 32)
NAMES = ['say "hi", "there"', '"', "comma, {brace}", "", "x" * 3000]
def work(name):
    with record_function(name):
        net(x)
with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True) as prof:
    for _ in range(3):
        with record_function("step"):
            with record_function("forward"):
                loss = net(x).sum()
            with record_function("backward"):
                loss.backward()
        prof.step()
    for name in NAMES:
        work(name)
prof.export_chrome_trace(sys.argv[1])
"""


@pytest.fixture(scope="module")
def cpu_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("torch") is None:
        pytest.skip("torch is not installed")
    path = tmp_path_factory.mktemp("kineto") / "cpu.json"
    subprocess.run([sys.executable, "-c", PROGRAM, path], check=True, capture_output=True)
    return path


def annotations(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    # torch 2.13 leaves quotes in names as they are: names without them are compared here.
    text = re.sub(rb'("name": ").*".*(",)', rb"\1quoted\2", text)
    document = json.loads(text, parse_float=Decimal)
    events = document["traceEvents"] if isinstance(document, dict) else document
    return [event for event in events if event.get("cat") == "user_annotation"]


def test_a_cpu_run_has_ranges_with_their_times_and_no_gpu_work(cpu_trace: Path) -> None:
    trace = kineto.read(cpu_trace)
    expected = sorted(
        (e["name"], int(e["ts"] * 1000), int(e["ts"] * 1000) + int(e["dur"] * 1000))
        for e in annotations(cpu_trace)
    )
    rows = trace.ranges
    names = ["quoted" if '"' in name else name for name in rows["name"]]
    assert sorted(zip(names, rows.start, rows.end, strict=True)) == expected
    assert set(names) >= {"step", "forward", "backward"}
    assert len(trace.gpu_ops) == 0
    assert "no-gpu-ops" in [warning.code for warning in trace.warnings]


def test_names_with_quotes_survive_torchs_own_broken_json(cpu_trace: Path) -> None:
    """torch 2.13 writes ``"name": "say "hi", "there"",``: no JSON parser reads that."""
    names = set(kineto.read(cpu_trace).ranges["name"])
    assert names >= {'say "hi", "there"', '"', "comma, {brace}", "", "x" * 3000}


def test_the_report_of_a_cpu_run_still_shows_its_ranges(cpu_trace: Path) -> None:
    from harness import summarise

    rows = summarise.ranges(kineto.read(cpu_trace).attribute())
    names = rows[rows["name"].isin(["step", "forward", "backward"])]
    assert names["instances"].tolist() == [3, 3, 3]
    assert (names["cpu_ns"] > 0).all()
    assert (names["total_gpu_ns"] == 0).all()


def test_a_backward_on_the_calling_thread_makes_no_autograd_thread(cpu_trace: Path) -> None:
    trace = kineto.read(cpu_trace)
    assert len(trace.forward_links) > 0
    assert not trace.threads["autograd"].any()


#: File -> GPU ops that no call in the file launched.
PUBLISHED = {
    "torch_2020_list.json.gz": 765,
    "torch_2021_capitalised.json.gz": 733,
    "torch_gpu_annotations.json.gz": 0,
    "torch_large_integer.json.gz": 1,
    "torch_triton.json.gz": 0,
    "torch_h100_bert.json.gz": 0,
    "torch_mi300_bert.json.gz": 0,
    "torch_b200_overlap.json.gz": 0,
}
GPU = ("kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset")


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_traces_of_every_age_and_vendor(name: str) -> None:
    path = PUBLIC / name
    if not path.exists():
        pytest.skip("public traces are not here")
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    events = document["traceEvents"] if isinstance(document, dict) else document
    ops = [e for e in events if e.get("cat") in GPU]
    calls = {
        e["args"]["correlation"]
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver", "Runtime")
    }
    unlinked = [e for e in ops if e.get("args", {}).get("correlation") not in calls]
    assert len(unlinked) == PUBLISHED[name]
    trace = kineto.read(path)
    ledger = trace.attribute().ledger
    assert ledger.gpu_ops == len(ops)
    assert ledger.gpu_ns == sum(int(e["dur"] * 1000) for e in ops)
    assert ledger.unlinked_ops == len(unlinked)
    assert ledger.unlinked_ns == sum(int(e["dur"] * 1000) for e in unlinked)
    assert len(trace.launches) == len(calls)
    assert len(trace.ranges) == len(annotations(path))
    assert ledger.balanced


def test_kernels_overlapping_within_a_stream_are_reported() -> None:
    path = PUBLIC / "torch_b200_overlap.json.gz"
    if not path.exists():
        pytest.skip("public traces are not here")
    assert [w.code for w in kineto.read(path).warnings] == ["overlapping-kernels"]
