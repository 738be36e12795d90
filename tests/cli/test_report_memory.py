# SPDX-License-Identifier: MIT
"""``harness report --memory``."""

from __future__ import annotations

import pytest

from harness.cli.report import memory_size
from harness.errors import UsageProblem


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", 0),
        ("512MiB", 512 << 20),
        ("2GiB", 2 << 30),
        ("2GB", 2 * 10**9),
        ("1.5k", 1500),
        ("9", 9),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert memory_size(text) == size


@pytest.mark.parametrize("text", ["x", "0", "-1GiB", "1 GiB more"])
def test_no_size(text: str) -> None:
    with pytest.raises(UsageProblem, match="is not a size"):
        memory_size(text)
