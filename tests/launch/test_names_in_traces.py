# SPDX-License-Identifier: MIT
"""Names and moments that torch.profiler's trace would lose, through the runner and back."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import readers
from harness.trace_names import decoded, encoded

pytest.importorskip("torch")
pytest.importorskip("nvtx")

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "harness" / "launch" / "torch_runner.py"
NAMES = ['a"b', "c\\d", "e\nf", "g\th", 'k", "ph": "Z', "lü", "50%", "%:x", "{p}", "ok"]


@given(st.text())
def test_a_name_comes_back_as_it_was(name: str) -> None:
    assert decoded(encoded(name)) == name
    assert encoded(name).isascii()
    assert not set(encoded(name)) & set('"\\\n\t')


def record(folder: Path, code: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, str(RUNNER), str(folder), "", "--", "-c", code],
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads((folder / "torch_pass.json").read_text())
    return found


def names(folder: Path) -> list[str]:
    trace = readers.load(folder / "torch_trace.json.gz")
    return trace.ranges.sort_values("start")["name"].astype(str).tolist()


@pytest.mark.parametrize(
    "opened", ["nvtx.annotate(n)", "harness.range(n)"], ids=["package", "harness"]
)
def test_every_name_is_in_the_trace(tmp_path: Path, opened: str) -> None:
    code = f"import nvtx, torch, harness\nfor n in {NAMES!r}:\n with {opened}: torch.ones(1)"
    record(tmp_path, code)
    json.loads(gzip.decompress((tmp_path / "torch_trace.json.gz").read_bytes()))
    assert names(tmp_path) == NAMES
    rows = json.loads((tmp_path / "torch_ops.json").read_text())
    assert set(NAMES) <= {row["name"] for row in rows}


def test_ranges_open_when_torch_is_imported_are_recorded(tmp_path: Path) -> None:
    code = """
import nvtx
with nvtx.annotate("early"):
    pass
@nvtx.annotate("main")
def main():
    with nvtx.annotate("outer", domain="d"):
        handle = nvtx.start_range("started")
        import torch
        with nvtx.annotate("inner"):
            torch.ones(1)
        nvtx.end_range(handle)
main()
"""
    meta = record(tmp_path, code)
    assert sorted(names(tmp_path)) == ["inner", "main", "outer", "started"]
    assert names(tmp_path)[-1] == "inner"
    paths = readers.load(tmp_path / "torch_trace.json.gz").attribute()
    from harness import summarise

    assert ("started", "main", "outer", "inner") in set(summarise.ranges(paths)["path"])
    assert meta["before_torch"] == {"early": 1}
    assert meta["open_at_import"] == ["started", "main", "outer"]


def test_so_are_those_of_harness_range(tmp_path: Path) -> None:
    code = """
import harness
with harness.range("early"):
    pass
with harness.range("outer"):
    import torch
    with harness.range("inner"):
        torch.ones(1)
"""
    meta = record(tmp_path, code)
    assert names(tmp_path) == ["outer", "inner"]
    assert meta["before_torch"] == {"early": 1}
