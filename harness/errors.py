# SPDX-License-Identifier: MIT
"""The one exception a user can meet, and the exit codes it carries."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes shared by every command."""

    OK = 0
    FAILED = 1  # the thing measured failed, or regressed beyond the threshold
    USAGE = 2
    NO_ANSWER = 3  # missing, truncated or incomparable data
    TOOL_MISSING = 4
    INTERNAL = 70


class HarnessError(Exception):
    """One line for the user: what is wrong, in which file; ``hint`` says what to do.

    ``exit_code`` becomes the process's exit code; the CLI catches this in one place.
    """

    exit_code: ExitCode = ExitCode.NO_ANSWER

    def __init__(self, message: str, *, hint: str = "", exit_code: ExitCode | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if exit_code is not None:
            self.exit_code = exit_code


class UnreadableReport(HarnessError):
    """The file is not a report, is truncated, or cannot answer the question (exit 3)."""


class ToolMissing(HarnessError):
    """nsys, nvcc or a GPU is needed and was not found (exit 4)."""

    exit_code = ExitCode.TOOL_MISSING


class UsageProblem(HarnessError):
    """The request itself makes no sense (exit 2)."""

    exit_code = ExitCode.USAGE


class LedgerBroken(HarnessError):
    """Self times, outside and unlinked do not add up to the GPU ops: a bug of ours (exit 70)."""

    exit_code = ExitCode.INTERNAL
