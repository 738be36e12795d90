# SPDX-License-Identifier: MIT
"""The wheel carries the workload and the operator's source, and finds it there."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build_backend_is_here() -> bool:
    try:
        version = importlib.metadata.version("setuptools")
    except importlib.metadata.PackageNotFoundError:
        return False
    return int(version.split(".")[0]) >= 77


@pytest.mark.skipif(not build_backend_is_here(), reason="needs setuptools 77")
def test_an_installed_wheel_finds_the_operators_source(tmp_path: Path) -> None:
    tree = tmp_path / "tree"  # building in place would leave its folders in the checkout
    tree.mkdir()
    for name in ("harness", "workload"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "fused_chain.cu", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    (tree / "README.md").write_text("read me\n")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "-q",
         "-w", str(tmp_path)],
        cwd=tree, check=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    assert (installed / "workload" / "fused_chain.cu").read_text() == (
        ROOT / "fused_chain.cu"
    ).read_text()
    assert not (installed / "examples").exists()
    assert not (installed / "tests").exists()
    pytest.importorskip("torch")
    code = "from workload.extension import find_source; print(find_source())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=installed, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()) == installed / "workload" / "fused_chain.cu"
