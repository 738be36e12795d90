# SPDX-License-Identifier: MIT
"""Counts kept in blocks are the counts of everything."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from harness.instalments import counts


@pytest.mark.parametrize("seed", range(5))
def test_blocks_equal_a_counter(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "_BLOCK", 20)
    monkeypatch.setattr(counts, "_WAITING", 30)
    rng = np.random.default_rng(seed)
    kept, expected = counts.Counts(), Counter()
    for size in rng.integers(0, 100, 20):
        group = rng.integers(0, 9, size) << rng.integers(0, 40)
        value = rng.integers(-3, 5, size)
        kept.add(group, value)
        expected.update(zip(group.tolist(), value.tolist(), strict=True))
    group, value, number = kept.all()
    pairs = list(zip(group.tolist(), value.tolist(), strict=True))
    assert pairs == sorted(expected)
    assert dict(zip(pairs, number.tolist(), strict=True)) == dict(expected)


def test_nothing_counted() -> None:
    assert [len(column) for column in counts.Counts().all()] == [0, 0, 0]
