# SPDX-License-Identifier: MIT
"""What a path that a user gave is, before anything opens it: a pipe must not be waited for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from harness.errors import UnreadableReport

LFS_POINTER = b"version https://git-lfs.github.com/"
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def check_path(path: str | Path) -> None:
    """Refuse what cannot be a recording or a folder of them.

    Raises:
        UnreadableReport: nothing is there, or a pipe, a socket, a device, or an unreadable file.
    """
    if not str(path):
        raise UnreadableReport(
            "'' is not a path", hint="A variable of the shell may be empty; . is this folder."
        )
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise UnreadableReport(f"{path}: no such file or folder") from None
    except PermissionError:
        raise UnreadableReport(f"{path}: permission denied") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableReport(f"{path}: cannot be read: {reason}") from None
    for is_kind, words in _KINDS:
        if is_kind(mode):
            raise UnreadableReport(
                f"{path}: {words}, not a file", hint="Write it to a file first, and give that."
            )


def once(entries: Iterable[Path]) -> list[Path]:
    """Each entry of a folder once: a link, such as ``latest``, to another of them is left out."""
    entries = list(entries)
    own = {entry.resolve() for entry in entries if not entry.is_symlink()}
    found: list[Path] = []
    for entry in entries:
        if entry.is_symlink():
            if (target := entry.resolve()) in own:
                continue
            own.add(target)
        found.append(entry)
    return found


def is_lfs_pointer(path: str | Path) -> bool:
    """Whether Git LFS's note about a file is there instead of the file."""
    try:
        with open(path, "rb") as file:
            return file.read(len(LFS_POINTER)) == LFS_POINTER
    except OSError:
        return False


def lfs_pointer(path: str | Path) -> UnreadableReport:
    """The error for a file that is a Git LFS pointer."""
    return UnreadableReport(
        f"{path}: a Git LFS pointer, not the file itself", hint="Run git lfs pull."
    )


def check_lfs(path: str | Path) -> None:
    """Raises UnreadableReport where ``path`` is a Git LFS pointer."""
    if is_lfs_pointer(path):
        raise lfs_pointer(path)
