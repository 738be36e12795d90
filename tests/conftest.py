# SPDX-License-Identifier: MIT
"""What holds for every test."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def nobodys_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width or colours from whoever runs the tests (pytest-xdist sets COLUMNS, too)."""
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
