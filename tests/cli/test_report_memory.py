# SPDX-License-Identifier: MIT
"""``harness report --memory``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness import gather
from harness.cli.report import memory_size
from harness.errors import UsageProblem

TRAIN = Path(__file__).parents[1] / "data/h200/train.sqlite"


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


@pytest.mark.parametrize(("size", "told"), [("1", True), ("200MiB", True), ("3GiB", False)])
def test_a_budget_that_cannot_be_kept_is_told(
    report: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    size: str,
    told: bool,
) -> None:
    monkeypatch.setattr(gather, "EXPORT_MEMORY", 10**9)  # in parts, however small
    code, out, err = report(TRAIN, "--memory", size, "--format", "csv")
    assert code == 0
    assert out == report(TRAIN, "--format", "csv")[1]
    assert "in-parts" in err
    assert ("cannot be kept" in err) == told
