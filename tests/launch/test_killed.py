# SPDX-License-Identifier: MIT
"""kill -9 of harness ends the program it profiles, and what that started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.launch import nsys as nsight

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
with open("pids.tmp", "w") as file:
    print(os.readlink("/proc/self"), child.pid, file=file)
os.rename("pids.tmp", "pids")
time.sleep(120)
"""


def marked(mark: str) -> list[int]:
    """Processes with ``mark`` in their environment; by this, since pids differ in namespaces."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.nsys
@pytest.mark.parametrize("asked", [["--no-torch"], ["--no-plain"], ["--nsys", "--no-plain"]])
def test_the_program_ends_with_harness(tmp_path: Path, asked: list[str]) -> None:
    if "--nsys" in asked:
        asked = [*asked, "--no-torch", "--env", "HARNESS_TEST_MARK"]
        try:
            nsight.find(None, os.environ)
        except Exception:
            pytest.skip("nsys is not installed (scripts/install-nsys)")
    (tmp_path / "p.py").write_text(PROGRAM)
    mark = f"HARNESS_TEST_MARK={os.getpid()}-{time.monotonic_ns()}"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HARNESS_TEST_MARK": mark.partition("=")[2]}
    command = [sys.executable, "-m", "harness", "run", *asked, "-o", "r", "--"]
    harness = subprocess.Popen(
        [*command, sys.executable, "p.py"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 90
        while not (tmp_path / "pids").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert (tmp_path / "pids").exists()
        assert len(marked(mark)) >= 3
        os.kill(harness.pid, signal.SIGKILL)
        harness.wait()
        deadline = time.monotonic() + 30
        while marked(mark) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert marked(mark) == []
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
