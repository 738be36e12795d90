# SPDX-License-Identifier: MIT
"""Ends the profiled program should harness itself be killed (kill -9, out of memory).

    PYTHON -I -S watchdog.py

A process of its own, in a session of its own, told on stdin what to guard: ``PID GROUP\\n`` while
that child runs, ``-\\n`` when it has ended. The end of stdin without ``-`` means that harness died.
PR_SET_PDEATHSIG would not do: it reaches the child alone, and under nsys the program is a child of
that. Standard library only, and nothing of harness.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

#: From SIGINT to SIGTERM to SIGKILL.
GRACE_S = 5.0


class Watchdog:
    """The watching process. As a context manager: there as long as the block runs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Watchdog:
        # Without it a run is as good, so it may fail to start.
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        return self

    def guard(self, pid: int, group: bool) -> None:
        self._tell(f"{pid} {int(group)}\n")

    def release(self) -> None:
        self._tell("-\n")

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()

    def __exit__(self, *exc: object) -> None:
        if self._process is None or self._process.stdin is None:
            return
        self._tell("-\n")
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def stop_tree(pid: int, group: bool, running: Callable[[], bool]) -> None:
    """End a process and all it started: SIGINT, SIGTERM, SIGKILL, GRACE_S seconds apart."""
    others: list[int] = []
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        # nsys puts the program into a group of its own. Once its parent is gone it is nobody's
        # descendant any more, so those found in an earlier round are kept.
        others += [found for found in descendants(pid) if found not in others]
        targets = [found for found in others if alive(found)]
        if running():
            targets.append(pid)
        if group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signum)
        for target in targets:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if not (group and os.getpgid(target) == pid):
                    os.kill(target, signum)
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            if not running() and not any(alive(found) for found in others):
                return
            time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    """Processes started by ``pid``, directly or not, that have not been re-parented."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found.extend(children)
        waiting.extend(children)
    return found


def main() -> None:
    guarded: tuple[int, bool] | None = None
    for line in sys.stdin:
        words = line.split()
        guarded = (int(words[0]), words[1] == "1") if len(words) == 2 else None
    if guarded is not None:
        pid, group = guarded
        stop_tree(pid, group, lambda: alive(pid))


if __name__ == "__main__":
    main()
