# SPDX-License-Identifier: MIT
"""``harness run --nsys`` from the command line, with the real nsys."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from running import PROGRAM, environment, find_nsys, harness, program, ranges_of, strings

from harness.launch import nsys as nsight
from harness.launch.rundir import Run, load_run


@pytest.fixture(scope="session")
def nsys() -> nsight.Nsys:
    return find_nsys()


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
            ["pgrep", "-fx", f"[^ ]*sleep {marker}"], capture_output=True, text=True, check=False
        ).stdout

    deadline = time.monotonic() + 60
    while not sleeping() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert sleeping(), "nsys did not start the program within a minute"
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


EARLY = """
    import nvtx
    with nvtx.annotate("closed-before"):
        pass
    with nvtx.annotate('open "über" \\\\ all'):
        import torch
        with nvtx.annotate("inner"):
            torch.ones(1)
"""


@pytest.mark.nsys
@pytest.mark.usefixtures("nsys")
def test_both_passes_have_the_same_ranges_and_the_true_reason_where_not(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    name = program(tmp_path, EARLY)
    done = harness(tmp_path, "run", "--nsys", "--no-plain", "-q", "-o", "r", "--", sys.executable,
                   name)  # fmt: skip
    assert done.returncode == 0, done.stderr
    done = harness(tmp_path, "report", "r", "--view", "both", "--format", "json")
    rows = {row["path"][-1]: row for row in json.loads(done.stdout)["rows"]}
    for shared in ('open "über" \\ all', "inner"):
        assert (rows[shared]["nsys_instances"], rows[shared]["torch_instances"]) == (1, 1)
    assert rows["closed-before"]["code"] == "before-torch"
    assert "imported torch" in rows["closed-before"]["reason"]
