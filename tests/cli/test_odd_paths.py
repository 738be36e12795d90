# SPDX-License-Identifier: MIT
"""What people and their scripts hand to a command by mistake: one line, the right exit code."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from running import harness

DATA = Path(__file__).parents[1] / "data" / "h200"
COMMANDS = {
    "report": ["report"],
    "compare": ["compare", str(DATA / "blocks.sqlite")],
    "compare-folder": ["compare"],
    "share": ["share"],
    "doctor": ["doctor"],
    "baseline": ["baseline", "save", "x"],
}


def one_line(err: str) -> None:
    lines = err.rstrip().splitlines()
    assert lines[0].startswith("harness: "), err
    assert len(lines) <= 2, err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["pipe.sqlite", "pipe.json", "socket", "device"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, command: str, kind: str) -> None:
    path = tmp_path / kind
    if kind.startswith("pipe"):
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
    else:
        path = Path("/dev/zero")
    done = harness(tmp_path, *COMMANDS[command], str(path))
    assert done.returncode in (2, 3)
    assert done.stdout == ""
    one_line(done.stderr)
    if command != "baseline":
        assert any(words in done.stderr for words in ("a pipe", "a socket", "a device"))


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_word_is_not_the_current_folder(tmp_path: Path, command: str) -> None:
    (tmp_path / "reports").mkdir()
    done = harness(tmp_path, *COMMANDS[command], "")
    assert (done.returncode, done.stdout) == (2, "")
    one_line(done.stderr)
    assert "'' is not a path" in done.stderr


@pytest.mark.parametrize("command", ["report", "compare", "share", "doctor"])
def test_an_empty_folder_holds_no_recording(tmp_path: Path, command: str) -> None:
    (tmp_path / "empty").mkdir()
    done = harness(tmp_path, *COMMANDS[command], "empty")
    assert done.returncode == 3
    one_line(done.stderr)


@pytest.mark.parametrize("name", ["a.sqlite", "a.json", "a.json.gz", "a.nsys-rep"])
@pytest.mark.parametrize("command", ["report", "compare", "share", "doctor"])
def test_git_lfs_pointers_are_called_so(tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    done = harness(tmp_path, *COMMANDS[command], name)
    assert done.returncode in (2, 3)
    one_line(done.stderr)
    assert "Git LFS pointer" in done.stderr


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"


@pytest.mark.parametrize(
    ("command", "pointers"),
    [
        ("report", ("run.json",)),
        ("share", ("run.json",)),
        ("report", ("report.sqlite", "torch_trace.json.gz")),
        ("share", ("report.sqlite", "torch_trace.json.gz")),
        ("doctor", ("report.sqlite", "torch_trace.json.gz")),
    ],
)
def test_a_run_folder_of_git_lfs_pointers(
    tmp_path: Path, command: str, pointers: tuple[str, ...]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text('{"schema": "harness.run/1", "name": "run", "complete": true}')
    if "report.sqlite" not in pointers:
        shutil.copy(DATA / "blocks.sqlite", run / "report.sqlite")
    for name in pointers:
        (run / name).write_text(POINTER)
    done = harness(tmp_path, command, "run")
    assert (done.returncode, done.stdout) == (3, "")
    one_line(done.stderr)
    assert f"{pointers[0]}: a Git LFS pointer" in done.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["run"]
