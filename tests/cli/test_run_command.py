# SPDX-License-Identifier: MIT
"""``harness run`` from the command line: exit codes, streams, folders; real processes and nsys."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.launch import nsys as nsight
from harness.launch.rundir import Run, load_run

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
    import sys, time
    import nvtx
    with nvtx.annotate("outer"):
        with nvtx.annotate("inner ü"):
            time.sleep(0.005)
    print("printed", *sys.argv[1:])
"""


def environment(**added: str) -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **added}


def harness(
    folder: Path, *args: str, env: dict[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    options.setdefault("stdin", subprocess.DEVNULL if "input" not in options else None)
    if options["stdin"] is None:
        del options["stdin"]
    return subprocess.run(
        [sys.executable, "-m", "harness", *args],
        cwd=folder,
        env=env or environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        **options,
    )


def program(folder: Path, code: str = PROGRAM, name: str = "prog.py") -> str:
    (folder / name).write_text(textwrap.dedent(code))
    return name


@pytest.fixture(scope="session")
def nsys() -> nsight.Nsys:
    try:
        return nsight.find(None, os.environ)
    except Exception:
        pytest.skip(
            "nsys is not installed (scripts/install-nsys): the real round trip is NOT tested"
        )


def ranges_of(export: Path) -> set[str]:
    with closing(sqlite3.connect(export)) as db:
        rows = db.execute(
            "SELECT coalesce(s.value, n.text) FROM NVTX_EVENTS n LEFT JOIN StringIds s "
            "ON s.id = n.textId WHERE n.eventType IN (59, 60)"
        )
        return {row[0] for row in rows}


def strings(path: Path) -> bytes:
    return path.read_bytes()


# Without nsys.


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


@pytest.mark.nsys
def test_dry_run_prints_commands_a_shell_understands(tmp_path: Path, nsys: nsight.Nsys) -> None:
    name = program(tmp_path, name="a b.py")
    done = harness(tmp_path, "run", "--nsys", "--dry-run", "-o", "r", "--", sys.executable, name)
    assert done.returncode == 0
    lines = [shlex.split(line) for line in done.stdout.splitlines()]
    assert lines[0] == [sys.executable, name]
    assert lines[1][1].endswith("torch_runner.py")
    assert lines[2][-2:] == [sys.executable, name]
    assert lines[3] == [
        nsys.path,
        "export",
        "-t",
        "sqlite",
        "-o",
        "r/report.sqlite",
        "r/report.nsys-rep",
    ]
    assert not (tmp_path / "r").exists()


@pytest.mark.nsys
def test_round_trip(tmp_path: Path, nsys: nsight.Nsys) -> None:
    name = program(tmp_path)
    done = harness(tmp_path, "run", "--nsys", "-o", "r", "--", sys.executable, name)
    assert done.returncode == 0, done.stderr
    run = load_run(tmp_path / "r")
    assert [record.name for record in run.passes] == ["plain", "torch", "nsys"]
    assert run.passes[2].files == ["report.nsys-rep", "report.sqlite"]
    assert run.versions["nsys"] == nsys.version
    assert ranges_of(tmp_path / "r" / "report.sqlite") == {"outer", "inner ü"}
    assert "inner ü" in done.stdout
    assert str(tmp_path) not in (tmp_path / "r" / "run.json").read_text()


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_captures_are_interleaved(tmp_path: Path) -> None:
    args = ("run", "--nsys", "--repeat", "2", "-o", "r", "--", sys.executable, program(tmp_path))
    assert harness(tmp_path, *args).returncode == 0
    run = load_run(tmp_path / "r")
    assert [(p.name, p.capture) for p in run.passes] == [
        ("plain", 1), ("torch", 1), ("nsys", 1), ("plain", 2), ("torch", 2), ("nsys", 2),
    ]  # fmt: skip
    for file in ("report.sqlite", "report.2.sqlite", "report.2.nsys-rep"):
        assert (tmp_path / "r" / file).is_file()


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
@pytest.mark.parametrize(
    ("code", "expected"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", 137)]
)
def test_a_failing_program_keeps_its_report(tmp_path: Path, code: str, expected: int) -> None:
    name = program(tmp_path, PROGRAM + f"    import os; {code}\n")
    args = ("run", "--nsys", "--no-torch", "-o", "r", "--", sys.executable, name)
    assert harness(tmp_path, *args).returncode == expected
    assert "outer" in ranges_of(tmp_path / "r" / "report.sqlite")


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-c", "cudaProfilerApi"], "cudaProfilerStart"),
        (["-c", "nvtx", "-p", "never"], "NAME@DOMAIN"),
    ],
)
def test_a_capture_range_that_never_begins_exits_3(
    tmp_path: Path, words: list[str], said: str
) -> None:
    more = [f"--nsys-arg={word}" for word in words]
    name = program(tmp_path)
    args = ("run", "--nsys", "--no-torch", *more, "-o", "r", "--", sys.executable, name)
    done = harness(tmp_path, *args)
    assert done.returncode == 3, done.stderr
    assert "never began" in done.stderr
    assert said in done.stderr


SECRET = "sesame-0123456789"


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_the_report_holds_neither_withheld_variables_nor_those_of_other_processes(
    tmp_path: Path,
) -> None:
    env = environment(MY_TOKEN=SECRET, CUDA_API_KEY=SECRET, TORCH_LOGS_OUT=f"see {tmp_path}")
    args = ("run", "--nsys", "--no-torch", "-o", "r", "--", sys.executable, program(tmp_path))
    done = harness(tmp_path, *args, env=env)
    run = load_run(tmp_path / "r")
    if not run.options["isolated"]:
        pytest.skip("this system allows no process namespace: nsys sees other processes")
    assert done.returncode == 0
    for file in (tmp_path / "r").iterdir():
        assert SECRET.encode() not in strings(file), file


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_env_passes_one_and_the_report_is_said_to_hold_it(tmp_path: Path) -> None:
    env = environment(MY_TOKEN=SECRET, OTHER_TOKEN="another-" + SECRET)
    code = "import os; print(os.environ.get('MY_TOKEN'), os.environ.get('OTHER_TOKEN'))"
    args = ("run", "--nsys", "--no-torch", "--env", "MY_TOKEN", "-o", "r", "--")
    done = harness(tmp_path, *args, sys.executable, "-c", code, env=env)
    # The same environment in every pass: they are one program.
    assert (tmp_path / "r" / "plain.log").read_text() == f"{SECRET} None\n"
    assert f"{SECRET} None" in (tmp_path / "r" / "nsys.log").read_text()
    assert "look like secrets are in the report: MY_TOKEN" in done.stderr
    assert SECRET not in (tmp_path / "r" / "run.json").read_text()


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_a_daemon_does_not_hold_the_run_up(tmp_path: Path) -> None:
    code = "import subprocess\nsubprocess.Popen(['sleep', '45'], start_new_session=True)\n"
    started = time.monotonic()
    args = ("run", "--nsys", "--no-torch", "--no-plain", "-o", "r", "--", sys.executable)
    done = harness(tmp_path, *args, program(tmp_path, code))
    assert done.returncode == 0
    assert time.monotonic() - started < 40


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_a_stopped_nsys_pass_leaves_no_process(tmp_path: Path) -> None:
    marker = f"3{os.getpid()}"
    started = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "harness",
            "run",
            "--nsys",
            "--no-plain",
            "--no-torch",
            "-o",
            "r",
            "--",
            "sleep",
            marker,
        ],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )

    def sleeping() -> str:
        return subprocess.run(
            ["pgrep", "-fx", f"sleep {marker}"], capture_output=True, text=True, check=False
        ).stdout

    deadline = time.monotonic() + 60
    while not sleeping() and time.monotonic() < deadline:
        time.sleep(0.1)
    started.send_signal(signal.SIGINT)
    started.wait(timeout=60)
    assert started.returncode == 130
    assert not sleeping()
    assert load_run(tmp_path / "r.incomplete").complete is False


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
@pytest.mark.parametrize(
    "command",
    [
        ["-m", "timeit", "-n", "10", "sum(range(10))"],
        ["-m", "torch.utils.collect_env"],
        ["-m", "json.tool", "--help"],
        ["-m", "compileall", "-q", "."],
    ],
)
def test_programs_nobody_here_wrote(tmp_path: Path, command: list[str]) -> None:
    pytest.importorskip("torch")
    done = harness(tmp_path, "run", "--nsys", "-q", "-o", "r", "--", sys.executable, *command)
    assert done.returncode == 0, done.stderr
    run: Run = load_run(tmp_path / "r")
    assert [record.exit_code for record in run.passes] == [0, 0, 0]
    assert (tmp_path / "r" / "report.sqlite").is_file()
    with_torch = "torch.utils.collect_env" in command
    assert (tmp_path / "r" / "torch_trace.json.gz").is_file() == with_torch


@pytest.mark.nsys
def test_debians_missing_link_is_named_and_made_up_for(tmp_path: Path, nsys: nsight.Nsys) -> None:
    """An nsys with no importer beside it, as Debian ships it."""
    importer = nsight.find_importer(nsys.path)
    if importer.path is None or not os.path.realpath(nsys.path).startswith("/usr/lib/"):
        pytest.skip("not Debian's nsys")
    bare = tmp_path / "lib" / "target-linux-x64"
    shutil.copytree(Path(os.path.realpath(nsys.path)).parent, bare, symlinks=True)
    args = ("run", "--nsys", "--nsys-path", str(bare), "--no-torch", "--no-plain", "-o", "r", "--")
    done = harness(tmp_path, *args, sys.executable, program(tmp_path))
    assert done.returncode == 4, done.stderr
    assert "left only a .qdstrm" in done.stderr
    run = load_run(tmp_path / "r")
    assert run.passes[0].files == ["report.qdstrm"]
    assert json.loads((tmp_path / "r" / "run.json").read_text())["complete"] is True
