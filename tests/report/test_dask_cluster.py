# SPDX-License-Identifier: MIT
"""The same numbers from a Dask cluster: a real scheduler and two worker processes on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import harness
from harness import gather, on_dask
from harness.report import Failure, Request

pytest.importorskip("distributed")

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler's address, and its process and those of the workers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    python = [sys.executable, "-m"]
    commands = [
        [*python, "distributed.cli.dask_scheduler", "--host", address, "--no-dashboard"],
        *[
            [*python, "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny",
             "--no-dashboard", "--name", f"w{i}"]
            for i in range(workers)
        ],
    ]  # fmt: skip
    with (folder / "log").open("w") as log:
        running = [
            subprocess.Popen(
                command,
                cwd=folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            for command in commands
        ]
        try:
            yield address, running
        finally:
            for process in reversed(running):
                process.terminate()
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGCONT)
            for process in running:
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("dask"), workers=2) as (address, _):
        yield address


def report(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", "report", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("view", ["ranges", "ops"])
def test_a_cluster_gives_what_one_process_gives(scheduler: str, view: str) -> None:
    args = (DATA / "aa", "--view", view, "--format", "csv")
    ours = report(*args, "-j", 1)
    theirs = report(*args, "--dask", scheduler)
    assert ours.returncode == 0, ours.stderr
    assert (theirs.returncode, theirs.stdout) == (0, ours.stdout), theirs.stderr
    assert len(ours.stdout.splitlines()) > 12


def test_relative_paths_and_a_failed_report(scheduler: str, tmp_path: Path) -> None:
    done = report(DATA / "h200/blocks.sqlite", tmp_path / "gone.sqlite", "--dask", scheduler,
                  "--format", "json")  # fmt: skip
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert found["reports"][0]["source"]["path"] == str(DATA / "h200/blocks.sqlite")
    assert found["failed"][0]["path"] == str(tmp_path / "gone.sqlite")
    assert "gone.sqlite" in done.stderr


def test_no_scheduler_there() -> None:
    with socket.socket() as taken:  # bound and not listening: nobody answers
        taken.bind(("127.0.0.1", 0))
        done = report(DATA / "aa", "--dask", f"tcp://127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 4
    assert "no Dask scheduler answers" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("address", ["garbage", ":", "http://x:1", "tcp://h:99999", "inproc://x:1"])
def test_what_is_no_address(address: str) -> None:
    done = report(DATA / "h200/blocks.sqlite", "--dask", address)
    assert done.returncode == 2
    assert f"--dask {address}: not the address" in done.stderr
    assert "Traceback" not in done.stderr


def test_tls_that_is_not_set_up() -> None:
    done = report(DATA / "h200/blocks.sqlite", "--dask", "tls://127.0.0.1:1")
    assert done.returncode == 4
    assert "no Dask scheduler answers at tls://" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_of_another_version(scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "__version__", "9.9")
    [outcome] = on_dask.gather_dask(
        [gather.Input(str(DATA / "h200/blocks.sqlite"), "x")], Request(), scheduler
    )
    assert isinstance(outcome, Failure)
    assert outcome.message.endswith("this is 9.9")
    assert outcome.exit_code == 3


def test_a_file_that_only_this_machine_has(
    scheduler: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = gather.Input(str(tmp_path / "gone.sqlite"), "x")
    monkeypatch.setattr(os.path, "exists", lambda path: path == source.path)  # it is here
    [outcome] = on_dask.gather_dask([source], Request(), scheduler)
    assert isinstance(outcome, Failure)
    assert "a Dask worker needs it too" in outcome.hint


@pytest.mark.parametrize("dies", ["scheduler", "worker"])
def test_a_cluster_that_goes_away_is_not_waited_for(
    dies: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sources, _ = gather.inputs([str(DATA / "aa")])
    with cluster(tmp_path, workers=1) as (address, (scheduler, worker)):
        assert report(DATA / "aa", "--dask", address).returncode == 0  # both are up
        monkeypatch.setattr(on_dask, "DASK_SECONDS", 2)
        worker.send_signal(signal.SIGSTOP)  # nothing gets done
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(on_dask.gather_dask, sources, Request(view="ranges"), address)
            time.sleep(1.5)
            (scheduler if dies == "scheduler" else worker).kill()
            outcomes = done.result(timeout=60)
    assert len(outcomes) == len(sources) > 2
    for outcome in outcomes:
        assert isinstance(outcome, Failure)
        assert "has lost its workers or its scheduler" in outcome.message
        assert outcome.exit_code == 3
    assert "Traceback" not in capfd.readouterr().err
