# SPDX-License-Identifier: MIT
"""``harness run`` from the command line: exit codes, streams, folders; real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import environment, harness, program

from harness.launch.rundir import load_run


def test_no_nsys_exits_4_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    done = harness(tmp_path, "run", "--nsys", "--nsys-path", "nowhere", "--", "touch", "ran")
    assert done.returncode == 4
    assert "--nsys-path nowhere" in done.stderr
    assert "install-nsys" in done.stderr
    assert done.stdout == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["bin"]


def test_the_programs_exit_code_is_passed_on_and_its_run_kept(tmp_path: Path) -> None:
    done = harness(tmp_path, "run", "-o", "r", "--", sys.executable, "-c", "raise SystemExit(3)")
    assert done.returncode == 3
    run = load_run(tmp_path / "r")
    assert run.complete
    assert [(p.name, p.exit_code) for p in run.passes] == [("plain", 3), ("torch", 3)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("1/0", 1),
        ("import sys; sys.exit('text')", 1),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.abort()", 134),
    ],
)
def test_crashes(tmp_path: Path, code: str, expected: int) -> None:
    done = harness(tmp_path, "run", "--no-torch", "-o", "r", "--", sys.executable, "-c", code)
    assert done.returncode == expected
    assert load_run(tmp_path / "r").complete
    assert 'Traceback (most recent call last):\n  File "<frozen' not in done.stderr


def test_what_the_program_prints_never_reaches_stdout(tmp_path: Path) -> None:
    name = program(tmp_path)
    done = harness(tmp_path, "run", "--no-torch", "-o", "r", "--", sys.executable, name, "a b")
    assert done.returncode == 0
    assert "printed" not in done.stdout
    assert "printed a b" in done.stderr
    assert (tmp_path / "r" / "plain.log").read_text() == "printed a b\n"
    quiet = harness(tmp_path, "run", "-q", "--no-torch", "-o", "q", "--", sys.executable, name)
    assert "printed" not in quiet.stderr


def test_odd_names(tmp_path: Path) -> None:
    folder = tmp_path / "it's a “folder” ü"
    folder.mkdir()
    name = program(folder, name="a 'b' ü.py")
    target = "reports/x 'y' ü"
    done = harness(
        folder, "run", "--no-torch", "-o", target, "--", sys.executable, name, "$HOME", "a;b", ""
    )
    assert done.returncode == 0, done.stderr
    run = load_run(folder / target)
    assert run.argv[1:] == [name, "$HOME", "a;b", ""]
    assert (folder / target / "plain.log").read_text() == "printed $HOME a;b \n"


@pytest.mark.parametrize(
    "args",
    [
        ["--", "no-such-command"],
        ["--no-plain", "--", "ls"],
        ["--nsys-arg=-x", "--", "ls"],
        ["--graphs", "node", "--", "ls"],
        ["--repeat", "0", "--", "ls"],
        ["-o", "%q{NOT_SET}", "--", "ls"],
        ["-o", "/", "--", "ls"],
        ["--env", "NOT_SET_ANYWHERE", "--", "ls"],
        ["--bogus"],
    ],
)
def test_wrong_usage_exits_2_and_leaves_nothing(tmp_path: Path, args: list[str]) -> None:
    done = harness(tmp_path, "run", *args)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    args = ("run", "--no-torch", "-o", "r", "--", sys.executable, "-c", "print(1)")
    assert harness(tmp_path, *args).returncode == 0
    before = (tmp_path / "r" / "run.json").read_bytes()
    again = harness(tmp_path, *args)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert (tmp_path / "r" / "run.json").read_bytes() == before


def test_ranks_get_names_of_their_own_or_are_refused(tmp_path: Path) -> None:
    code = "import time; time.sleep(3)"
    base = [sys.executable, "-m", "harness", "run", "--no-torch", "-o"]
    for name, expected in (("one", [0, 2]), ("rank%q{RANK}", [0, 0])):
        started = [
            subprocess.Popen(
                [*base, name, "--", sys.executable, "-c", code],
                cwd=tmp_path, env=environment(RANK=str(rank)), stderr=subprocess.PIPE,
            )
            for rank in range(2)
        ]  # fmt: skip
        for process in started:
            process.communicate(timeout=60)
        assert sorted(process.returncode for process in started) == expected
    assert {"one", "rank0", "rank1"} <= {entry.name for entry in tmp_path.iterdir()}


def test_default_name_tells_program_and_time(tmp_path: Path) -> None:
    name = program(tmp_path, "print(1)", "my train.py")
    harness(tmp_path, "run", "--no-torch", "--", sys.executable, name)
    (found,) = (tmp_path / "reports").iterdir()
    assert found.name.startswith("my-train-20")


def test_a_program_that_is_not_python_gets_no_torch_pass_and_hears_why(tmp_path: Path) -> None:
    done = harness(tmp_path, "run", "-o", "r", "--", "sh", "-c", "exit 0")
    assert done.returncode == 0
    assert "no torch pass: sh is not a Python program" in done.stderr
    assert load_run(tmp_path / "r").skipped[0]["pass"] == "torch"


def test_every_pass_reads_the_same_input(tmp_path: Path) -> None:
    code = "import sys; print(len(sys.stdin.read()))"
    done = harness(tmp_path, "run", "-o", "r", "--", sys.executable, "-c", code, input="x" * 70_000)
    assert done.returncode == 0
    assert (tmp_path / "r" / "plain.log").read_text() == "70000\n"
    assert (tmp_path / "r" / "torch.log").read_text() == "70000\n"


@pytest.mark.parametrize(
    ("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_stopped_run_ends_its_program_and_says_incomplete(
    tmp_path: Path, signum: int, code: int
) -> None:
    name = program(tmp_path, "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)")
    started = subprocess.Popen(
        [sys.executable, "-m", "harness", "run", "-o", "r", "--", sys.executable, name],
        cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    log = tmp_path / "r.incomplete" / "plain.log"
    deadline = time.monotonic() + 30
    while not (log.exists() and log.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    started.send_signal(signum)
    _, err = started.communicate(timeout=60)
    assert started.returncode == code
    assert b"marked incomplete" in err
    assert b"Traceback" not in err.replace(
        b'Traceback (most recent call last):\n  File "' + str(tmp_path / name).encode(), b""
    )
    assert not (tmp_path / "r").exists()
    assert load_run(tmp_path / "r.incomplete").complete is False
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.read_text().split()[0]), 0)


def test_a_killed_harness_leaves_an_incomplete_run(tmp_path: Path) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "harness", "run", "-o", "r", "--", "sleep", "5"],
        cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not (tmp_path / "r.incomplete" / "plain.log").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    started.kill()
    started.wait()
    assert load_run(tmp_path / "r.incomplete").complete is False
    assert harness(tmp_path, "run", "-o", "r", "--", "true").returncode == 0
    assert load_run(tmp_path / "r").complete


def test_the_bundled_workload_is_the_default_and_its_results_are_kept(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    args = ("--shape", "64x64", "--runs", "2", "--device", "cpu")
    done = harness(
        tmp_path, "run", "--no-plain", "-o", "r", "--", sys.executable, "-m", "workload", *args
    )
    run = load_run(tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert run.workload is not None
    assert run.workload["pass"] == "torch"
    assert run.workload["shape"] == [64, 64]
    assert not (tmp_path / "r" / "workload.json").exists()
    listed = harness(tmp_path, "run", "--dry-run").stdout.splitlines()
    assert all(" -m workload --json " in line for line in listed)


def test_secrets_are_in_no_file_of_a_run_without_nsys(tmp_path: Path) -> None:
    env = environment(MY_TOKEN="sesame-0123456789")
    harness(tmp_path, "run", "-o", "r", "--", sys.executable, "-c", "import torch", env=env)
    for file in (tmp_path / "r").iterdir():
        assert b"sesame-0123456789" not in file.read_bytes()


# With nsys.


def test_a_file_that_cannot_be_executed(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("not a program")
    done = harness(tmp_path, "run", "-o", "r", "--", "./data.txt")
    assert (done.returncode, done.stdout) == (2, "")
    assert "./data.txt: there, but not a program that can be executed" in done.stderr
    assert "no such command" not in done.stderr
    assert not list(tmp_path.glob("r*"))


def test_a_trace_that_could_not_be_saved_is_told_in_the_exit_code(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = """
        import resource, torch
        resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))
        for _ in range(100): torch.zeros(1)
    """
    name = program(tmp_path, code)
    done = harness(tmp_path, "run", "--no-plain", "-o", "r", "--", sys.executable, name)
    assert (done.returncode, done.stdout) == (3, "")
    assert "is the disk full?" in done.stderr
    assert load_run(tmp_path / "r").complete
