# SPDX-License-Identifier: MIT
"""A report made part by part warns of what the report made at once warns of."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "readers"))
from nsys_files import Export, global_tid

from harness import readers
from harness.instalments import VIEWS, report_in_parts
from harness.readers.nsys_sqlite import in_parts
from harness.report import Request, build, unread
from harness.trace import POLICIES, Warning_

ROOT = Path(__file__).parents[2]
REPORTS = sorted(
    [*(ROOT / "tests/data").rglob("*.sqlite"), *(ROOT / "reports").rglob("report.sqlite")]
)
MAIN, OTHER = global_tid(10, 10), global_tid(20, 20)


def at_once(path: Path, request: Request) -> tuple[Warning_, ...]:
    return build(readers.load(path, without=unread(request)), request, name="x").warnings


def part_by_part(path: Path, request: Request, rows: int) -> tuple[Warning_, ...]:
    with in_parts(path, rows) as parts:
        *found, note = report_in_parts(parts, request, name="x").warnings
    assert note.code == "in-parts"
    return tuple(found)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_real_report(path: Path) -> None:
    request = Request(details=False)
    rows = max(97, path.stat().st_size // 1000)  # a handful of parts
    assert part_by_part(path, request, rows) == at_once(path, request)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "name",
    ["h200/nested", "h200/train", "recorded/graph-device-launch-graph/report", "aa/aa1"],
)
def test_every_view_and_policy(name: str, policy: str, view: str) -> None:
    request = Request(view=view, policy=policy, details=False)
    path = ROOT / f"tests/data/{name}.sqlite"
    assert part_by_part(path, request, 37) == at_once(path, request)


def program(export: Export, tid: int, launches: int, kernels: int, first: int = 0) -> None:
    export.range(0, 10_000, tid, text="all")
    for i in range(launches):
        export.launch(10 * i, 10 * i + 5, tid, first + i, "cudaLaunchKernel_v7000")
    for i in range(kernels):
        export.kernel(10 * i + 6, 10 * i + 8, tid >> 24 << 24, first + i, "k")


def few_kernels(export: Export) -> None:
    program(export, MAIN, 300, 2)


def a_process_without_ops(export: Export) -> None:
    program(export, MAIN, 30, 30)
    program(export, OTHER, 40, 0)


def captured_launches(export: Export) -> None:
    program(export, MAIN, 300, 2)
    for i in range(298):
        export.add("CUDA_GRAPH_NODE_EVENTS", start=i, end=i, globalTid=MAIN, graphNodeId=i + 1)


def no_gpu_ops(export: Export) -> None:
    program(export, MAIN, 1, 0)


def no_launches(export: Export) -> None:
    program(export, MAIN, 0, 5, first=1)


def nothing(export: Export) -> None:
    export.add("StringIds", id=1, value="x")


def clipped(export: Export) -> None:
    program(export, MAIN, 30, 30, first=1000)
    export.db.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = start + 300, end = end + 300")
    for i in range(40):  # the first 20 ran before the first call
        export.kernel(15 * i, 15 * i + 1, MAIN >> 24 << 24, i + 1, "queued")


def backwards(export: Export) -> None:
    program(export, MAIN, 30, 30)
    export.range(90, 80, MAIN, text="wrong")
    export.db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1 WHERE start > 250")
    export.db.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = start - 1 WHERE start > 280")


def never_closed(export: Export) -> None:
    program(export, MAIN, 30, 30)
    for at, name in ((5, "b"), (150, "a"), (155, "b"), (160, "d"), (170, "c")):
        export.range(at, None, MAIN, text=name)


def ambiguous(export: Export) -> None:
    """Three threads of autograd's, and two that could have called them."""
    program(export, MAIN, 30, 30)
    export.range(0, 10_000, global_tid(10, 11), text="also")
    for i, name in enumerate(("pt_autograd_2", "pt_autograd_0", "pt_autograd_1")):
        tid = global_tid(10, 12 + i)
        export.add("ThreadNames", nameId=export.string(name), priority=1, globalTid=tid)
        export.launch(100 * i + 1, 100 * i + 2, tid, 500 + i, "cudaLaunchKernel_v7000")
        export.kernel(100 * i + 3, 100 * i + 4, MAIN >> 24 << 24, 500 + i, "backward")


ODD = {
    few_kernels: {"few-kernels"},
    a_process_without_ops: {"process-without-ops"},
    captured_launches: set(),
    no_gpu_ops: {"no-gpu-ops"},
    no_launches: {"no-launches"},
    nothing: {"no-nvtx", "no-gpu-ops"},
    clipped: {"clipped"},
    backwards: {"backward-times"},
    never_closed: {"open-ranges"},
    ambiguous: {"ambiguous-backward"},
}


@pytest.mark.parametrize("rows", [7, 10_000])
@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_every_trouble(make: Callable[[Export], None], rows: int, tmp_path: Path) -> None:
    export = Export(tmp_path / "report.sqlite")
    make(export)
    path = export.done()
    found = at_once(path, Request(details=False))
    assert {warning.code for warning in found} == ODD[make]
    assert part_by_part(path, Request(details=False), rows) == found
