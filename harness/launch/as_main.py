# SPDX-License-Identifier: MIT
"""Run a script, module or piece of code as ``__main__``, as the interpreter itself would.

Loaded by ``torch_runner.py`` in the program's process: standard library only.
"""

from __future__ import annotations

import builtins
import importlib.util
import io
import os
import runpy
import sys
import traceback
import types
from typing import Any


def new_main(**attributes: Any) -> types.ModuleType:
    """A fresh ``__main__``, for good: pickling and multiprocessing look it up by name."""
    main = types.ModuleType("__main__")
    main.__dict__.update({"__builtins__": builtins, "__package__": None, **attributes})
    sys.modules["__main__"] = main
    return main


def run_script(path: str, args: list[str], safe_path: bool) -> None:
    sys.argv = [path, *args]
    if not os.path.exists(path):
        raise NotStarted(
            f"can't open file {os.path.abspath(path)!r}: [Errno 2] No such file or directory", 2
        )
    if os.path.isdir(path) or not is_source(path):
        runpy.run_path(path, run_name="__main__")
        return
    if not safe_path:
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    full = os.path.abspath(path)
    with io.open_code(full) as file:
        code = compile(file.read(), full, "exec", dont_inherit=True)
    main = new_main(__file__=full, __cached__=None, __spec__=None)
    exec(code, main.__dict__)


def is_source(path: str) -> bool:
    """Whether Python would read it as text: not a zip archive and not compiled."""
    with open(path, "rb") as file:
        start = file.read(4)
    return not start.startswith(b"PK\x03\x04") and start[2:4] != b"\r\n"


def run_module(name: str, args: list[str], safe_path: bool) -> None:
    sys.argv = ["-m", *args]
    if not safe_path:
        sys.path.insert(0, os.getcwd())
    spec = find_module(name)
    loader: Any = spec.loader
    code = loader.get_code(spec.name)
    if code is None:
        raise NotStarted(f"No code object available for {spec.name}")
    sys.argv[0] = spec.origin
    main = new_main(__file__=spec.origin, __cached__=spec.cached, __spec__=spec, __loader__=loader)
    main.__package__ = spec.parent
    exec(code, main.__dict__)


class NotStarted(Exception):
    """Python would print this line and exit with this code."""

    def __init__(self, line: str, code: int = 1) -> None:
        super().__init__(line)
        self.code = code


def find_module(name: str) -> Any:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise NotStarted(
            f"Error while finding module specification for {name!r} "
            f"({type(error).__name__}: {error})"
        ) from error
    if spec is not None and spec.submodule_search_locations is not None:
        inner = importlib.util.find_spec(name + ".__main__")
        if inner is None:
            raise NotStarted(
                f"No module named {name}.__main__; {name!r} is a package "
                "and cannot be directly executed"
            )
        return inner
    if spec is None or spec.loader is None:
        raise NotStarted(f"No module named {name}")
    return spec


def run_code(code: str, args: list[str], safe_path: bool) -> None:
    sys.argv = ["-c", *args]
    if not safe_path:
        sys.path.insert(0, "")
    main = new_main(__spec__=None)
    exec(compile(code, "<string>", "exec", dont_inherit=True), main.__dict__)


def run_program(target: list[str]) -> None:
    safe_path = bool(getattr(sys.flags, "safe_path", False) or sys.flags.isolated)
    if target[0] == "-m":
        run_module(target[1], target[2:], safe_path)
    elif target[0] == "-c":
        run_code(target[1], target[2:], safe_path)
    else:
        run_script(target[0], target[1:], safe_path)


def own_frames_removed(
    trace: types.TracebackType | None, hidden: tuple[str, ...]
) -> types.TracebackType | None:
    """The part of a traceback that begins in the program."""
    while trace is not None and trace.tb_frame.f_code.co_filename in hidden:
        trace = trace.tb_next
    return trace


def report_uncaught(error: BaseException, hidden: tuple[str, ...]) -> None:
    """As Python does, through the program's own ``sys.excepthook``."""
    trace = own_frames_removed(error.__traceback__, (*hidden, __file__, runpy.__file__))
    if isinstance(error, SyntaxError) and trace is None:
        error = error.with_traceback(None)
    try:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except Exception:
        traceback.print_exception(type(error), error, trace)
