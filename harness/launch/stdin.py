# SPDX-License-Identifier: MIT
"""Standard input for a program that is run several times.

Each pass must read the same bytes: a file is rewound, a pipe is copied as it is read. A terminal
stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import tempfile
import threading
from collections.abc import Iterator


class Replay:
    """Gives every pass a file descriptor to read from, positioned at the start."""

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._ended = False
        self._spool = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as this)
        try:
            mode = os.fstat(fd).st_mode
        except OSError:  # closed
            mode = stat.S_IFCHR
        self._file = stat.S_ISREG(mode)
        self._pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._tty = self._closed(fd) is False and os.isatty(fd)
        self._offset = os.lseek(fd, 0, os.SEEK_CUR) if self._file else 0

    @staticmethod
    def _closed(fd: int) -> bool:
        try:
            os.fstat(fd)
        except OSError:
            return True
        return False

    @contextlib.contextmanager
    def descriptor(self) -> Iterator[int | None]:
        """A descriptor for one child; None stands for ``/dev/null``."""
        if self._tty:
            yield self._fd
        elif self._file:
            os.lseek(self._fd, self._offset, os.SEEK_SET)
            yield self._fd
        elif self._pipe:
            with self._copied() as fd:
                yield fd
        else:
            yield None

    @contextlib.contextmanager
    def _copied(self) -> Iterator[int]:
        """A pipe fed with what earlier passes were given, then with what still comes in."""
        reader, writer = os.pipe()
        wake_reader, wake_writer = os.pipe()
        thread = threading.Thread(target=self._feed, args=(writer, wake_reader), daemon=True)
        thread.start()
        try:
            yield reader
        finally:
            os.close(reader)
            os.write(wake_writer, b"x")
            thread.join(timeout=5)
            for fd in (wake_reader, wake_writer):
                os.close(fd)

    def _feed(self, writer: int, wake: int) -> None:
        try:
            os.set_blocking(writer, False)
            self._spool.seek(0)
            while data := self._spool.read(1 << 16):
                if not _write_all(writer, data, wake):
                    return
            while not self._ended:
                ready, _, _ = select.select([self._fd, wake], [], [])
                if wake in ready:
                    return
                data = os.read(self._fd, 1 << 16)
                self._ended = not data
                self._spool.seek(0, os.SEEK_END)
                self._spool.write(data)
                if data and not _write_all(writer, data, wake):
                    return
        except OSError:
            return  # the child closed its end, or never read
        finally:
            os.close(writer)


def _write_all(writer: int, data: bytes, wake: int) -> bool:
    """Write everything, unless woken because the child is gone."""
    while data:
        ready, writable, _ = select.select([wake], [writer], [])
        if ready:
            return False
        if writable:
            data = data[os.write(writer, data) :]
    return True
