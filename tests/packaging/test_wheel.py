# SPDX-License-Identifier: MIT
"""What someone gets who installs the wheel, away from any checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = ROOT / "tests/data/h200/blocks.sqlite"


@dataclass(frozen=True)
class Installed:
    """A virtual environment outside any checkout, and an empty folder to work in."""

    venv: Path
    cwd: Path

    @property
    def python(self) -> Path:
        return self.venv / "bin/python"

    def run(self, *argv: str | Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        keep = ("PATH", "LANG", "TMPDIR", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
        environment = {name: os.environ[name] for name in keep if name in os.environ}
        environment["HOME"] = str(self.cwd)  # no cache of the developer's either
        environment["PATH"] = f"{self.venv / 'bin'}:{environment['PATH']}"
        return subprocess.run(
            [str(part) for part in argv],
            cwd=self.cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )


def _run(*argv: str | Path) -> None:
    done = subprocess.run([str(part) for part in argv], capture_output=True, text=True)
    assert done.returncode == 0, f"{argv}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By way of the source distribution, so that a file missing there is missed here."""
    base = tmp_path_factory.mktemp("wheel")
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    tracked = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        if name.startswith(("reports/", "tests/data/")) or not (ROOT / name).is_file():
            continue
        target = base / "tree" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    # No isolation: setuptools is already here, and a fresh copy would be downloaded each time.
    _run(sys.executable, "-m", "build", "--no-isolation", "-o", base / "dist", base / "tree")
    (built,) = (base / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="session")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel without extras: what someone installs who only reads reports."""
    base = tmp_path_factory.mktemp("bare")
    _run(sys.executable, "-m", "venv", base / "venv")
    pip = (base / "venv/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
    _run(*pip, wheel)
    (base / "cwd").mkdir()
    return Installed(base / "venv", base / "cwd")


@pytest.fixture(scope="session")
def recording(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, with torch, ninja and nvtx borrowed from the environment that runs the tests.

    Installing torch again would take minutes. Only the search path is borrowed: an editable
    install's hook is not followed, so `harness` and `workload` can only come from the wheel.
    """
    pytest.importorskip("torch")
    base = tmp_path_factory.mktemp("recording")
    _run(sys.executable, "-m", "venv", base / "venv")
    pip = (base / "venv/bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check")
    _run(*pip, "--no-deps", wheel)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    borrowed = base / "venv/lib" / version / "site-packages/borrowed.pth"
    borrowed.write_text(sysconfig.get_path("purelib") + "\n")
    (base / "cwd").mkdir()
    return Installed(base / "venv", base / "cwd")


def test_wheel_carries_the_packages_the_operator_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    info = f"{wheel.name.split('-')[0]}-{wheel.name.split('-')[1]}.dist-info"
    assert tops == {"harness", "workload", info}
    assert "workload/fused_chain.cu" in names
    assert wheel.name.startswith("nsys_harness-")


def test_without_extras_there_is_no_torch_and_help_needs_neither_it_nor_pandas(
    bare: Installed,
) -> None:
    assert bare.run(bare.python, "-c", "import torch").returncode == 1
    code = (
        "import sys\nfrom harness.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit as e: assert not e.code\n"
        "heavy = {'torch', 'pandas', 'numpy'} & sys.modules.keys()\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = bare.run(bare.python, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage:")
    assert done.stderr.strip() == "[]"


def test_without_extras_a_report_is_read(bare: Installed) -> None:
    """Numbers from NVIDIA's nvtx_kern_sum for this report (tests/data/h200/nsys_stats)."""
    shutil.copy(BLOCKS, bare.cwd / "blocks.sqlite")
    done = bare.run(
        bare.venv / "bin/harness", "report", "blocks.sqlite", "--view", "names", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    totals = {row["name"]: (row["total_kernel_ns"], row["kernels"]) for row in document["rows"]}
    assert totals["eager-block"] == (4_364_564, 60)
    assert totals["chain"] == (876_029, 50)
    assert document["ledger"]["balanced"] is True


def test_without_extras_a_comparison_is_made(bare: Installed) -> None:
    for n in (1, 2):
        shutil.copy(ROOT / f"tests/data/aa/aa{n}.sqlite", bare.cwd)
    done = bare.run(bare.venv / "bin/harness", "compare", "aa1.sqlite", "aa2.sqlite")
    assert done.returncode == 0, done.stderr
    assert "chain" in done.stdout


def test_without_extras_recording_says_which_extra_is_missing(bare: Installed) -> None:
    done = bare.run(bare.venv / "bin/harness", "run", "-o", "none")
    assert done.returncode == 4, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    assert "nsys-harness[record]" in done.stderr
    assert not (bare.cwd / "none").exists()


def test_from_the_wheel_the_bundled_workload_is_recorded_and_reported(
    recording: Installed,
) -> None:
    code = "import harness, workload; print(harness.__file__); print(workload.__file__)"
    where = recording.run(recording.python, "-c", code).stdout.split()
    assert len(where) == 2
    assert all(path.startswith(str(recording.venv)) for path in where), where

    harness = recording.venv / "bin/harness"
    command = ("python", "-m", "workload", "--device", "cpu", "--shape", "256x128", "--runs", "2")
    done = recording.run(harness, "run", "-o", "first", "--", *command, timeout=600)
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    assert "PASS" in done.stdout + done.stderr
    passes = json.loads((recording.cwd / "first/run.json").read_text())["passes"]
    assert [(p["name"], p["exit_code"]) for p in passes] == [("plain", 0), ("torch", 0)]

    done = recording.run(harness, "report", "first", "--format", "json")
    assert done.returncode == 0, done.stderr
    paths = {tuple(row["path"]) for row in json.loads(done.stdout)["rows"]}
    assert {("eager-block",), ("eager-block", "chain"), ("fused-block", "gemm")} <= paths


PROGRAM = """
import nvtx
with nvtx.annotate("step"), nvtx.annotate("inner"):
    sum(range(10_000))
"""


def test_from_the_wheel_a_program_is_recorded_with_nsys_and_compared(recording: Installed) -> None:
    (recording.cwd / "script.py").write_text(PROGRAM)
    harness = recording.venv / "bin/harness"
    for name in ("one", "two"):
        done = recording.run(
            harness, "run", "--nsys", "--no-plain", "--no-torch", "-o", f"reports/{name}", "--",
            "python", "script.py",
        )  # fmt: skip
        if done.returncode == 4:
            assert "nsys (Nsight Systems) was not found" in done.stderr
            pytest.skip("nsys is not installed (scripts/install-nsys)")
        assert done.returncode == 0, done.stderr
    done = recording.run(harness, "report", "reports/one", "--format", "json")
    paths = [row["path"] for row in json.loads(done.stdout)["rows"]]
    assert paths == [["step"], ["step", "inner"]]
    options = ("--measure", "cpu", "--format", "json")
    done = recording.run(harness, "compare", "reports", *options)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["base"]["name"], document["new"]["name"]) == ("one", "two")
    assert {row["name"] for row in document["rows"]} == {"step", "inner"}


def test_without_extras_a_folder_of_recorded_runs_is_compared(bare: Installed) -> None:
    for name in ("h200-fp32", "h200-tf32"):
        shutil.copytree(ROOT / "reports" / name, bare.cwd / "runs" / name)
    done = bare.run(bare.venv / "bin/harness", "compare", "runs")
    assert done.returncode == 0, done.stderr
    assert "h200-fp32 → h200-tf32" in done.stdout
    done = bare.run(bare.venv / "bin/harness", "report", "runs/h200-fp32")
    assert "eager-block" in done.stdout
