# SPDX-License-Identifier: MIT
"""Running one child process: output kept in a log, stopped with all it started."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from harness.launch.watchdog import Watchdog, stop_tree

#: A daemon that the program left behind may hold the output pipe open for ever.
LINGER_S = 1.0

#: Between two calls of ``tick``; and between two looks at the child where the system has no
#: descriptor of a process.
TICK_S = 1.0
LOOK_S = 0.25


class Stopped(BaseException):
    """harness was told to stop by a signal. Not an Exception: nothing may swallow it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum


@dataclass(frozen=True)
class Outcome:
    """How a child ended. ``exit_code`` follows the shell: 128 + N after signal N."""

    exit_code: int
    duration_s: float
    signal: str | None = None
    lingering: bool = False  # something it started still holds its output open


@contextlib.contextmanager
def stop_signals() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into ``Stopped`` while the block runs."""

    def handler(signum: int, _frame: FrameType | None) -> None:
        raise Stopped(signum)

    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {s: signal.getsignal(s) for s in wanted}
    for signum in wanted:
        if before[signum] is not signal.SIG_IGN:  # nohup and background jobs stay as they are
            signal.signal(signum, handler)
    try:
        yield
    finally:
        for signum, old in before.items():
            signal.signal(signum, old)


def run_logged(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    log: Path,
    echo: IO[bytes] | None = None,
    stdin: int | None = None,
    watch: Watchdog | None = None,
    tick: Callable[[], None] | None = None,
) -> Outcome:
    """Run ``argv``; what it prints (both streams, in order) goes to ``log`` and to ``echo``.

    The child has a process group of its own, except when it reads a terminal: only the
    foreground group may. ``watch`` ends it should harness itself be killed; ``tick`` is called
    every TICK_S or sooner while it runs. Otherwise this process sleeps: a measured program should
    have nobody waking up beside it.

    Raises:
        Stopped: after the child and its descendants have been stopped.
        OSError: the command could not be started.
    """
    own_group = not (stdin is not None and os.isatty(stdin))
    started = time.monotonic()
    with log.open("ab") as sink:
        child = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0 if own_group else None,
        )

        def write(data: bytes) -> None:
            sink.write(data)
            sink.flush()
            if echo is not None:
                with contextlib.suppress(OSError):
                    echo.write(data)
                    echo.flush()

        try:
            if watch is not None:
                watch.guard(child.pid, own_group)
            lingering = _pump(child, write, tick)
            code = child.wait()
            duration = time.monotonic() - started
        except Stopped:
            # SIGINT first, so that programs and nsys may clean up; then harder.
            stop_tree(child.pid, own_group, lambda: child.poll() is None)
            raise
        finally:
            if watch is not None:
                watch.release()
            if child.stdout is not None:
                child.stdout.close()
    if code < 0:
        name = signal.Signals(-code).name
        return Outcome(128 - code, duration, name, lingering)
    return Outcome(code, duration, None, lingering)


def _pump(
    child: subprocess.Popen[bytes],
    write: Callable[[bytes], None],
    tick: Callable[[], None] | None,
) -> bool:
    """Copy output until it ends, or until the child has been gone for LINGER_S."""
    assert child.stdout is not None
    output = child.stdout.fileno()
    gone_at: float | None = None
    with selectors.DefaultSelector() as selector, _ends(child.pid) as end:
        selector.register(output, selectors.EVENT_READ)
        if end is not None:
            selector.register(end, selectors.EVENT_READ)
        pauses = [*([LOOK_S] if end is None else []), *([TICK_S] if tick is not None else [])]
        while True:
            left = [] if gone_at is None else [max(0.0, gone_at + LINGER_S - time.monotonic())]
            ready = {key.fd for key, _ in selector.select(min(pauses + left, default=None))}
            if tick is not None:
                tick()
            if output in ready:
                data = os.read(output, 1 << 16)
                if not data:
                    return False
                write(data)
            if gone_at is None and (child.poll() is not None if end is None else end in ready):
                gone_at = time.monotonic()
                if end is not None:
                    selector.unregister(end)
            if gone_at is not None and time.monotonic() - gone_at >= LINGER_S:
                return True


@contextlib.contextmanager
def _ends(pid: int) -> Iterator[int | None]:
    """A descriptor that is readable once a child has ended; None where there is none of the kind
    (not Linux, or before 5.3, or forbidden in a container)."""
    try:
        descriptor = os.pidfd_open(pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
