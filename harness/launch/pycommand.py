# SPDX-License-Identifier: MIT
"""Reading a command line: is it a Python program, which interpreter, which script or module."""

from __future__ import annotations

import os
import re
import shutil
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

INTERPRETER = re.compile(r"python(\d+(\.\d+)*)?t?$")
#: Interpreter options that take a value, joined or as the next word.
_WITH_VALUE = "WX"
#: Programs that start the real one in processes of their own, where torch.profiler is not.
LAUNCHERS = frozenset(
    {"torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "srun", "horovodrun"}
)
LAUNCHER_MODULES = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"}
)


@dataclass(frozen=True)
class PythonCommand:
    """``interpreter options target args``; target: (script,), ("-m", module) or ("-c", code)."""

    interpreter: str
    options: tuple[str, ...]
    target: tuple[str, ...]
    args: tuple[str, ...]

    @property
    def module(self) -> str | None:
        return self.target[1] if self.target[0] == "-m" else None


@dataclass(frozen=True)
class NotPython:
    """Why torch.profiler cannot be put around a command."""

    reason: str


def parse(argv: Sequence[str], search_path: str | None = None) -> PythonCommand | NotPython:
    """The Python program that ``argv`` runs, or why it is none that can be profiled.

    A file with a Python ``#!`` line counts, so console scripts do too. ``search_path`` is the PATH
    to find commands on (default: the process's own).
    """
    name = os.path.basename(argv[0])
    if name in LAUNCHERS:
        return _launcher(name)
    if INTERPRETER.match(name):
        return _interpreter_line(argv)
    found = shutil.which(argv[0], path=search_path)
    path = found or argv[0]
    shebang = _python_shebang(path)
    if shebang is not None:
        return PythonCommand(shebang[0], tuple(shebang[1:]), (path,), tuple(argv[1:]))
    if path.endswith((".py", ".pyz")) or _is_zip_app(path):
        return PythonCommand(sys.executable, (), (path,), tuple(argv[1:]))
    return NotPython(f"{name} is not a Python program")


def _launcher(name: str) -> NotPython:
    return NotPython(
        f"{name} starts the program in other processes, and torch.profiler sees only its own"
    )


def _interpreter_line(argv: Sequence[str]) -> PythonCommand | NotPython:
    options: list[str] = []
    rest = list(argv[1:])
    while rest:
        word = rest.pop(0)
        if word == "-" or (word.startswith("-") and "i" in _flags(word)):
            return NotPython("the program is read from standard input")
        if word == "--":
            break
        if word.startswith("--"):
            options.append(word)
            if word == "--check-hash-based-pycs" and rest:
                options.append(rest.pop(0))
            continue
        if not word.startswith("-"):
            rest.insert(0, word)
            break
        flags = _flags(word)
        if set(flags) & set("Vh?"):
            return NotPython("python only prints its version or help")
        last = word[1 + len(flags) :]  # what follows the flags: "", or a letter with a value
        if not last:
            options.append(word)
            continue
        if flags:
            options.append("-" + flags)
        letter, value = last[0], last[1:]
        if not value:
            if not rest:
                return NotPython(f"python -{letter} needs a value")
            value = rest.pop(0)
        if letter in "mc":
            return _finish(argv[0], options, ("-" + letter, value), rest)
        options.extend(["-" + letter, value])
    if not rest:
        return NotPython("the program is read from standard input")
    return _finish(argv[0], options, (rest[0],), rest[1:])


def _flags(word: str) -> str:
    """The leading letters of ``-uBm`` that take no value."""
    flags = ""
    for letter in word[1:]:
        if letter in _WITH_VALUE + "mc":
            break
        flags += letter
    return flags


def _finish(
    interpreter: str, options: list[str], target: tuple[str, ...], args: list[str]
) -> PythonCommand | NotPython:
    module = target[1] if target[0] == "-m" else None
    if module in LAUNCHER_MODULES:
        return _launcher(f"python -m {module}")
    return PythonCommand(interpreter, tuple(options), target, tuple(args))


def _python_shebang(path: str) -> list[str] | None:
    """``["/venv/bin/python", "-E"]`` of a file that starts with such a line."""
    try:
        with open(path, "rb") as file:
            if file.read(2) != b"#!":
                return None
            line = file.readline(4096).decode("utf-8", "replace").split()
    except OSError:
        return None
    if line and os.path.basename(line[0]) == "env":
        line = [word for word in line[1:] if word != "-S"]
    if line and INTERPRETER.match(os.path.basename(line[0])):
        return line
    return None


def _is_zip_app(path: str) -> bool:
    return (
        (Path(path) / "__main__.py").is_file()
        if Path(path).is_dir()
        else Path(path).is_file() and zipfile.is_zipfile(path)
    )


def runnable(argv: Sequence[str], search_path: str | None = None) -> list[str] | None:
    """``argv`` as it can be executed, or None when there is no such command.

    ``train.py ARGS`` runs with our own interpreter where the file cannot be executed itself.
    """
    if shutil.which(argv[0], path=search_path) is not None:
        return list(argv)
    if argv[0].endswith(".py") and Path(argv[0]).is_file():
        return [sys.executable, *argv]
    return None
