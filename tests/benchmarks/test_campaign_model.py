# SPDX-License-Identifier: MIT
"""docs/h200.md on bandwidths and on what harness adds, beside SQL and figures by hand."""

from __future__ import annotations

import math
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from statistics import median

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
PAGE = (ROOT / "docs" / "h200.md").read_text(encoding="utf-8")
MOVES = {"mul": 2, "sub": 2, "gelu": 2, "add": 3, "clamp": 2}


def cells(section: str, *first: str) -> list[str]:
    text = PAGE.split(f"{section}\n")[1].split("\n#")[0]
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in text.splitlines()
            if line.startswith("|")]  # fmt: skip
    (row,) = [row for row in rows if row[: len(first)] == list(first)]
    return row[len(first) :]


@pytest.mark.parametrize("math_", ["fp32", "bf16"])
def test_each_eager_kernel_beside_the_copy(math_: str) -> None:
    """In bf16 gelu alone is slower than a copy of as many bytes."""
    run = ROOT / "reports" / f"h200-65536x1024-{math_}"
    size = 65536 * 1024 * (4 if math_ == "fp32" else 2)
    chains: list[list[int]] = []
    copies: list[int] = []
    for file in sorted(run.glob("*.sqlite")):
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
            rows = db.execute(
                """SELECT chain.rowid, k.end - k.start FROM NVTX_EVENTS AS block
                   JOIN NVTX_EVENTS AS chain ON chain.start BETWEEN block.start AND block.end
                   JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r
                    ON r.start BETWEEN chain.start AND chain.end
                   JOIN CUPTI_ACTIVITY_KIND_KERNEL AS k ON k.correlationId = r.correlationId
                   WHERE block.text = 'eager-block' AND chain.text = 'chain'
                   ORDER BY chain.start, k.start""").fetchall()  # fmt: skip
            by_chain: dict[int, list[int]] = {}
            for chain, ns in rows:
                by_chain.setdefault(chain, []).append(ns)
            chains += by_chain.values()
            copies += [ns for (ns,) in db.execute(
                "SELECT end - start FROM CUPTI_ACTIVITY_KIND_MEMCPY "
                "WHERE copyKind = 8 AND bytes = ?", (size,))]  # fmt: skip
    assert {len(chain) for chain in chains} == {5}
    copy = median(copies)
    kernels = zip(MOVES.values(), zip(*chains, strict=True), strict=True)
    shares = {name: moves * copy / 2 / median(times)
              for name, (moves, times) in zip(MOVES, kernels, strict=True)}  # fmt: skip
    gb_per_s, *found = cells("### Kernel by kernel", "65536x1024", math_)
    assert gb_per_s == f"{2 * size / copy:.0f}"
    assert found[:5] == [f"{share:.3f}" for share in shares.values()]
    slow = [name for name, share in shares.items() if share < 0.95]
    assert slow == (["gelu"] if math_ == "bf16" else [])


def test_every_case_beyond_five_per_cent_is_explained() -> None:
    section = PAGE.split("## Prediction and measurement\n")[1].split("\n#")[0]
    lines = section.splitlines()
    beyond = [line for line in lines if line.startswith("| `")
              and abs(float(line.split("|")[6].split("%")[0])) > 5]  # fmt: skip
    explained = [line for line in lines if line.startswith("* `")]
    assert len(beyond) == len(explained) > 0
    cases = [line for line in lines if line.startswith("| `")]
    assert f"{len(cases) - len(beyond)} of {len(cases)} are within 5 %" in section


def test_interval_of_what_harness_adds() -> None:
    """Differences 1, 2, 3, 4: mean 2.5, s = 1.291, t(0.975, 3) = 3.182."""
    from campaign_costs import Added

    one = Added("", "", [10.0, 10.0, 10.0, 10.0], [11.0, 12.0, 13.0, 14.0])
    low, high = one.interval
    half = 3.1824 * math.sqrt(5 / 3) / 2
    assert (low, high) == pytest.approx((2.5 - half, 2.5 + half), rel=1e-4)
    assert one.measurable
    assert not Added("", "", [10.0, 10.0], [9.0, 12.0]).measurable
    assert not Added("", "", [10.0], [12.0]).measurable
