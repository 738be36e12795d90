# SPDX-License-Identifier: MIT
"""One program under nsys and under torch.profiler: each disagreement has a named reason."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
from recordings import BOTH, RECORDED

from harness.cli.report import command


def both(name: str) -> list[dict[str, Any]]:
    arguments = [str(RECORDED / name), "--view", "both", "--format", "json"]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False, standalone_mode=False)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    return rows


@pytest.mark.parametrize("name", BOTH)
def test_every_difference_in_kernels_has_a_reason(name: str) -> None:
    rows = both(name)
    assert rows
    for row in rows:
        assert row["code"] != "unexplained", row
        if row["nsys_kernels"] != row["torch_kernels"]:
            assert row["code"], row
            assert row["reason"], row


def codes(name: str) -> dict[str, str]:
    return {" / ".join(row["path"]): row["code"] for row in both(name)}


def test_graphs_as_wholes_are_named() -> None:
    found = codes("graph-ranges-whole")
    for path in ("replay", "replay-again", "replay-other", "nested / replay-other"):
        assert found[path] == "graph-replay"


def test_graph_nodes_agree() -> None:
    for row in both("graph-ranges"):
        assert row["nsys_kernels"] == row["torch_kernels"]


def test_steps_under_emit_nvtx_are_instances_that_torch_did_not_see() -> None:
    """torch.profiler stops recording when emit_nvtx takes over: two of the six steps are there."""
    found = {" / ".join(row["path"]): row for row in both("emit-nvtx")}
    for path in ("step", "step / forward", "step / optimizer"):
        row = found[path]
        assert (row["nsys_instances"], row["torch_instances"]) == (6, 2)
        assert row["nsys_kernels"] == 3 * row["torch_kernels"]
        assert row["code"] == "instances"


def test_other_processes_are_missing_from_a_torch_trace() -> None:
    assert set(codes("two-processes").values()) == {"missing-range"}


@pytest.mark.parametrize("name", ["two-streams", "threads", "train"])
def test_plain_programs_agree_kernel_by_kernel(name: str) -> None:
    shared = [row for row in both(name) if None not in (row["nsys_kernels"], row["torch_kernels"])]
    assert shared
    assert all(row["nsys_kernels"] == row["torch_kernels"] for row in shared)
