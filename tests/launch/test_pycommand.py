# SPDX-License-Identifier: MIT
"""Reading command lines: Python programs, and why others are none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.launch.pycommand import NotPython, PythonCommand, parse, runnable


@pytest.mark.parametrize(
    ("line", "options", "target", "args"),
    [
        ("python train.py --steps 20", (), ("train.py",), ("--steps", "20")),
        ("python3.11 -u train.py", ("-u",), ("train.py",), ()),
        ("/venv/bin/python -m pkg.mod a b", (), ("-m", "pkg.mod"), ("a", "b")),
        ("python -mpkg x", (), ("-m", "pkg"), ("x",)),
        ("python -um pkg x", ("-u",), ("-m", "pkg"), ("x",)),
        ("python -c print(1) -x", (), ("-c", "print(1)"), ("-x",)),
        ("python -W error -X dev -B s.py", ("-W", "error", "-X", "dev", "-B"), ("s.py",), ()),
        ("python -Werror s.py", ("-W", "error"), ("s.py",), ()),
        ("python -X importtime s.py -h", ("-X", "importtime"), ("s.py",), ("-h",)),
        ("python -- s.py -m", (), ("s.py",), ("-m",)),
        ("python -IBu s.py", ("-IBu",), ("s.py",), ()),
    ],
)
def test_interpreter_lines(
    line: str, options: tuple[str, ...], target: tuple[str, ...], args: tuple[str, ...]
) -> None:
    words = line.split()
    assert parse(words) == PythonCommand(words[0], options, target, args)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("python", "standard input"),
        ("python -", "standard input"),
        ("python -i s.py", "standard input"),
        ("python -V", "version or help"),
        ("python -hu", "version or help"),
        ("python -m", "needs a value"),
        ("python -m torch.distributed.run t.py", "other processes"),
        ("torchrun --nproc-per-node 2 t.py", "other processes"),
        ("mpirun -n 2 python t.py", "other processes"),
        ("ls -l", "not a Python program"),
        ("pythonic t.py", "not a Python program"),
    ],
)
def test_what_cannot_be_profiled_says_why(line: str, reason: str) -> None:
    found = parse(line.split())
    assert isinstance(found, NotPython)
    assert reason in found.reason


def test_a_script_with_a_python_shebang_is_a_python_program(tmp_path: Path) -> None:
    script = tmp_path / "my tool"
    script.write_text(f"#!{sys.executable} -B\nprint(1)\n")
    script.chmod(0o755)
    assert parse([str(script), "x"]) == PythonCommand(
        sys.executable, ("-B",), (str(script),), ("x",)
    )


def test_env_shebang_is_looked_through(tmp_path: Path) -> None:
    script = tmp_path / "tool"
    script.write_text("#!/usr/bin/env python3\nprint(1)\n")
    script.chmod(0o755)
    assert parse([str(script)]) == PythonCommand("python3", (), (str(script),), ())


def test_a_shell_script_is_no_python_program(tmp_path: Path) -> None:
    script = tmp_path / "go.sh"
    script.write_text("#!/bin/sh\nexec python train.py\n")
    script.chmod(0o755)
    assert isinstance(parse([str(script)]), NotPython)


def test_a_script_that_cannot_be_executed_runs_with_our_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")
    assert runnable([str(script), "a"]) == [sys.executable, str(script), "a"]
    script.chmod(0o755)
    assert runnable([str(script), "a"]) == [str(script), "a"]


def test_no_such_command() -> None:
    assert runnable(["no-such-command-anywhere"]) is None
