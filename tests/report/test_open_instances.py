# SPDX-License-Identifier: MIT
"""What ``instances`` says of ranges that never closed: the same in every view, and as explained."""

from __future__ import annotations

from pathlib import Path

import harness
from harness import summarise
from harness.columns import VIEWS

CRASH = Path(__file__).parents[1] / "data" / "h200" / "crash.sqlite"


def test_a_range_that_never_closed_counts_as_an_instance_and_the_columns_say_so() -> None:
    # SQL: one row named in-flight, whose end is that of the capture.
    found = harness.load(CRASH).attribute()
    for view in ("ranges", "names", "latency", "layers"):
        rows = getattr(summarise, view)(found)
        assert rows.loc[rows["name"] == "in-flight", "instances"].tolist()[:1] == [1], view
        assert "never closed count too" in VIEWS[view]["instances"]
    whole = summarise.instances(found)
    assert whole.loc[whole["name"] == "in-flight", "open"].tolist() == [True]
