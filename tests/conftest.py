# SPDX-License-Identifier: MIT
"""What holds for every test, how the suite is spread, and which examples hypothesis makes."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

# The suite tries the same examples every time; scripts/fuzz, which sets how many, tries new ones.
settings.register_profile("suite", derandomize=True)
if "HARNESS_EXAMPLES" not in os.environ:
    settings.load_profile("suite")

# nohup and background jobs of a shell start programs with these ignored, and children inherit it:
# then the tests that stop a run would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def nobodys_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width or colours from whoever runs the tests (pytest-xdist sets COLUMNS, too)."""
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One file stays in one process, and the real nsys runs once at a time."""
    for item in items:
        # Two nsys 2022.4 that start at once can fail with "Local Endpoint is not available".
        group = "nsys" if item.get_closest_marker("nsys") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
