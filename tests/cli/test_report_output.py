# SPDX-License-Identifier: MIT
"""``harness report``: where its output goes, what it refuses, how long it takes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data" / "h200"

Command = Callable[..., tuple[int, str, str]]


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    harness = f"{sys.executable} -m harness report"
    return subprocess.run(
        ["bash", "-c", command.replace("harness report", harness)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


# Where the output goes.


def test_a_file_gets_the_format_of_its_suffix(tmp_path: Path, report: Command) -> None:
    code, out, _ = report(DATA / "blocks.sqlite", "-o", tmp_path / "r.json")
    assert (code, out) == (0, "")
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == "harness.report/1"
    report(DATA / "blocks.sqlite", "-o", tmp_path / "r.md")
    assert (tmp_path / "r.md").read_text().startswith("### blocks.sqlite")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["r.json", "r.md"]


def test_an_unwritable_file(tmp_path: Path, report: Command) -> None:
    code, _, err = report(DATA / "blocks.sqlite", "-o", tmp_path / "no" / "r.json")
    assert code == 3
    assert "cannot be written" in err


def test_a_failed_report_leaves_no_file(tmp_path: Path, report: Command) -> None:
    code, _, _ = report(tmp_path / "absent.sqlite", "-o", tmp_path / "r.json")
    assert code == 3
    assert list(tmp_path.iterdir()) == []


def test_piped_output_is_plain() -> None:
    done = shell(f"harness report {DATA}/blocks.sqlite | cat", TERM="xterm-256color", COLUMNS="")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_head_ends_it_quietly() -> None:
    done = shell(
        "set -o pipefail; for i in 1 2 3; do "
        f"harness report {DATA}/train.sqlite --view ops --format json | head -c 100; "
        "echo; done"
    )
    assert done.stderr == ""
    assert done.stdout.count('{"schema": "harness.report/1"') == 3


def test_an_ascii_terminal_is_no_accident() -> None:
    done = shell(f"harness report {DATA}/nested.sqlite", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "us" in done.stdout


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colour_on_a_terminal(environment: dict[str, str], coloured: bool) -> None:
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "harness", "report", str(DATA / "blocks.sqlite")],
        stdout=theirs,
        env={**env, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    out = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        out += piece
    assert done.wait() == 0
    assert (b"\x1b[" in out) is coloured


# Usage and help.


def test_nothing_to_report(report: Command) -> None:
    code, out, err = report()
    assert (code, out) == (2, "")
    assert "nothing to report" in err


@pytest.mark.parametrize(
    "args",
    [
        ["--view", "everything"],
        ["--policy", "guess"],
        ["--by-shape"],
        ["--spread", "--view", "ops"],
        ["--top", "-1"],
    ],
)
def test_wrong_usage(args: list[str], report: Command) -> None:
    code, out, err = report(DATA / "blocks.sqlite", *args)
    assert (code, out) == (2, "")
    assert err
    assert "Traceback" not in err


def test_explain_a_column(report: Command) -> None:
    code, out, _ = report("--explain", "busy_ns")
    assert code == 0
    assert "union" in out
    assert report("--explain", "Share")[0] == 0
    code, _, err = report("--explain", "total_gpu")
    assert code == 2
    assert "total_gpu_ns" in err
    assert "busy_ns" in report("--columns")[1]


def test_neither_torch_nor_rich_for_csv() -> None:
    script = (
        "import sys; from harness.cli import main\n"
        "try: main(['report', sys.argv[1], '--format', 'csv'])\n"
        "except SystemExit: pass\n"
        "bad = {'torch', 'rich'} & set(sys.modules)\n"
        "assert not bad, bad"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(DATA / "blocks.sqlite")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_help_needs_no_pandas() -> None:
    script = (
        "import sys; from harness.cli import main\n"
        "try: main(['report', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'pandas', 'numpy', 'torch', 'rich'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_output_writes_through_a_pipe_and_a_link(tmp_path: Path) -> None:
    """A rename would put a file in their place: as root, ``-o /dev/null`` would end /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "kept.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("kept.txt")
    command = f"harness report {DATA}/blocks.sqlite -o {tmp_path}"
    done = shell(f"{command}/pipe & head -c 14 {tmp_path}/pipe; wait; {command}/link.txt")
    assert (done.returncode, done.stdout) == (0, "blocks.sqlite ")
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "kept.txt").read_text().startswith("blocks.sqlite ")


def test_a_full_or_closed_stdout_is_an_error() -> None:
    for where in (">/dev/full", ">&-"):
        done = shell(f"harness report {DATA}/blocks.sqlite {where}")
        assert done.returncode == 3, where
        assert done.stderr.startswith("harness: stdout"), where
        assert "Traceback" not in done.stderr
