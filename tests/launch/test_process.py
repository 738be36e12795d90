# SPDX-License-Identifier: MIT
"""Running, logging and stopping one child, with real processes."""

from __future__ import annotations

import errno
import io
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from harness.launch import watchdog
from harness.launch.process import Stopped, run_logged, stop_signals
from harness.launch.stdin import Replay
from harness.launch.watchdog import descendants


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


def test_both_streams_are_logged_in_order_and_echoed(tmp_path: Path) -> None:
    echo = io.BytesIO()
    code = "import sys; print('one', flush=True); print('two', file=sys.stderr); sys.exit(3)"
    outcome = run_logged(python(code), env=os.environ, log=tmp_path / "log", echo=echo)
    assert outcome.exit_code == 3
    assert (tmp_path / "log").read_text() == "one\ntwo\n" == echo.getvalue().decode()


def test_a_signal_is_named_and_counted_as_shells_do(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    outcome = run_logged(python(code), env=os.environ, log=tmp_path / "log")
    assert (outcome.exit_code, outcome.signal) == (139, "SIGSEGV")


def test_much_output_is_kept_whole(tmp_path: Path) -> None:
    run_logged(python("print('x' * 3_000_000)"), env=os.environ, log=tmp_path / "log")
    assert (tmp_path / "log").stat().st_size == 3_000_001


def test_only_the_given_environment_reaches_the_child(tmp_path: Path) -> None:
    run_logged(["/usr/bin/env"], env={"A": "1"}, log=tmp_path / "log")
    assert (tmp_path / "log").read_text() == "A=1\n"


def test_a_daemon_left_behind_is_not_waited_for(tmp_path: Path) -> None:
    code = """
        import subprocess
        child = subprocess.Popen(["sleep", "60"], start_new_session=True)
        print(child.pid)
    """
    started = time.monotonic()
    outcome = run_logged(python(code), env=os.environ, log=tmp_path / "log")
    assert time.monotonic() - started < 20
    assert outcome.lingering
    os.kill(int((tmp_path / "log").read_text()), signal.SIGKILL)


def test_nobody_wakes_beside_a_program_that_is_measured(tmp_path: Path) -> None:
    def sleeps() -> int:
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw

    before = sleeps()
    run_logged(["sleep", "2"], env=os.environ, log=tmp_path / "log")
    # A look every 50 ms would be 40; starting it and its end are a handful.
    assert sleeps() - before < 15


def test_without_descriptors_of_processes_all_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(_pid: int) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(os, "pidfd_open", forbidden)
    code = """
        import subprocess
        child = subprocess.Popen(["sleep", "60"], start_new_session=True)
        print(child.pid)
    """
    outcome = run_logged(python(code), env=os.environ, log=tmp_path / "log")
    assert (outcome.exit_code, outcome.lingering) == (0, True)
    os.kill(int((tmp_path / "log").read_text()), signal.SIGKILL)
    outcome = run_logged(python("exit(7)"), env=os.environ, log=tmp_path / "log")
    assert (outcome.exit_code, outcome.lingering) == (7, False)


def test_a_stop_reaches_the_whole_tree(tmp_path: Path) -> None:
    # The grandchild ignores SIGINT and has a group of its own, as under nsys.
    code = """
        import signal, subprocess, sys, time
        child = subprocess.Popen(
            [sys.executable, "-c",
             "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"],
            process_group=0)
        print(child.pid, flush=True)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        time.sleep(60)
    """
    log = tmp_path / "log"
    alarm = (
        "import os, signal, sys, time; time.sleep(1.5); os.kill(int(sys.argv[1]), signal.SIGTERM)"
    )
    killer = subprocess.Popen([sys.executable, "-c", alarm, str(os.getpid())])
    with pytest.raises(Stopped) as caught, stop_signals():
        run_logged(python(code), env=os.environ, log=log)
    killer.wait()
    assert caught.value.signum == signal.SIGTERM
    grandchild = int(log.read_text())
    assert not watchdog.alive(grandchild)


def test_descendants_are_found_through_generations() -> None:
    code = "import subprocess; subprocess.run(['sleep', '20'])"
    child = subprocess.Popen(python(code))
    try:
        deadline = time.monotonic() + 10
        while not (found := descendants(child.pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(found) == 1
        assert found[0] in descendants(os.getpid())
    finally:
        for pid in (*descendants(child.pid), child.pid):
            os.kill(pid, signal.SIGKILL)
        child.wait()


READ = "import sys; print(len(sys.stdin.read()))"


def test_each_pass_reads_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("hello")
    fd = os.open(tmp_path / "in", os.O_RDONLY)
    replay = Replay(fd)
    for _ in range(2):
        with replay.descriptor() as stdin:
            run_logged(python(READ), env=os.environ, log=tmp_path / "log", stdin=stdin)
    os.close(fd)
    assert (tmp_path / "log").read_text() == "5\n5\n"


def test_each_pass_reads_the_same_pipe(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    feeder = subprocess.Popen(python("print('y' * 300_000, end='')"), stdout=writer)
    os.close(writer)
    replay = Replay(reader)
    for _ in range(3):
        with replay.descriptor() as stdin:
            run_logged(python(READ), env=os.environ, log=tmp_path / "log", stdin=stdin)
    os.close(reader)
    feeder.wait()
    assert (tmp_path / "log").read_text() == "300000\n" * 3


def test_a_pipe_that_never_ends_does_not_hold_up_a_program_that_does_not_read(
    tmp_path: Path,
) -> None:
    reader, writer = os.pipe()
    replay = Replay(reader)
    started = time.monotonic()
    for _ in range(2):
        with replay.descriptor() as stdin:
            run_logged(python("print(1)"), env=os.environ, log=tmp_path / "log", stdin=stdin)
    assert time.monotonic() - started < 10
    os.close(writer)
    os.close(reader)
