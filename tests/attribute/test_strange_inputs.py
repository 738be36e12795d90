# SPDX-License-Identifier: MIT
"""Programs nobody writes, files nobody should have: an answer that adds up, or a plain refusal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "readers"))
from nsys_files import Export, global_tid
from programs import as_trace
from reference import Launch, Op, Program, Range, Reference, Thread

import harness
from harness import select, summarise
from harness.attribute import RULES, attribute
from harness.cli.report import command
from harness.errors import UnreadableReport
from harness.instalments import report_in_parts
from harness.measures import unions
from harness.readers.nsys_sqlite import in_parts, iter_chunks
from harness.report import Request
from harness.selection import Selection

FAR = 1 << 61
THREADS = [Thread(0, 0, False), Thread(0, 1, True), Thread(1, 0, False)]
VIEWS = ("ranges", "names", "kernels", "ops", "instances", "layers", "latency", "path_kernels")
SELECTIONS = (
    Selection(), Selection(skip=1), Selection(steady=True), Selection(range="a"),
    Selection(kernel="k"), Selection(time=(0, 5)), Selection(domains=("",)),
    Selection(devices=(0,)), Selection(pids=(1000,)), Selection(skip=1, range="s", time=(None, 10)),
)  # fmt: skip


def pushed(start: int, end: int, name: str = "a", domain: str = "", thread: int = 0) -> Range:
    return Range(0, thread, start, end, name, domain, "push_pop", False)


def started(start: int, end: int, name: str = "s", thread: int = 0) -> Range:
    return Range(0, thread, start, end, name, "", "start_end", False)


def kernel(start: int, end: int, correlation: int = 1, process: int = 0) -> Op:
    return Op(0, "kernel", start, end, process, correlation, 0, "k")


CASES: dict[str, tuple[list[Range], list[Launch], list[Op]]] = {
    "empty": ([], [], []),
    "ranges only": ([pushed(0, 5), pushed(1, 2, thread=1), started(0, 9)], [], []),
    "ops only": ([], [], [kernel(0, 5), kernel(3, 9)]),
    "launches only": ([], [Launch(0, 0, 1, 2, 1)], []),
    "negative": (
        [pushed(-100, -5), pushed(-50, -10)],
        [Launch(0, 0, -40, -30, 1)],
        [kernel(-9, -1)],
    ),
    "far": (
        [pushed(-FAR, FAR), pushed(1 - FAR, FAR - 1, "b"), started(0, FAR)],
        [Launch(0, 0, 5, 6, 1), Launch(1, 0, -FAR, 1 - FAR, 2)],
        [kernel(10, 20), kernel(FAR - 5, FAR, 2)],
    ),
    "far apart": (
        [pushed(0, 1), pushed(FAR - 2, FAR, thread=1), pushed(-FAR, 5 - FAR, thread=2)],
        [Launch(0, 0, 0, 1, 1)],
        [kernel(3, 5)],
    ),
    "all at one moment": (
        [pushed(5, 5, "a"), started(5, 5), pushed(5, 5, "b"), started(5, 5, "t"), pushed(5, 5)],
        [Launch(0, 0, 5, 5, 1)],
        [kernel(5, 5), kernel(5, 5)],
    ),
    "domains cross": (
        [pushed(0, 10, "a", "x"), pushed(5, 15, "b", "y"), pushed(10, 20, "c", "x")],
        [Launch(0, 0, 7, 8, 1), Launch(1, 0, 12, 13, 2), Launch(2, 0, 10, 10, 3)],
        [kernel(9, 10), kernel(15, 16, 2), kernel(16, 17, 3)],
    ),
    "correlation ids repeat": (
        [pushed(0, 9), pushed(10, 19, "b")],
        [Launch(0, 0, 3, 4, 1), Launch(1, 0, 12, 13, 1), Launch(2, 2, 1, 2, 1)],
        [kernel(5, 6), kernel(15, 16), kernel(0, 1), kernel(4, 5, process=1)],
    ),
    "correlation ids at the edge": (
        [pushed(0, 9)],
        [Launch(0, 0, 3, 4, 2**63 - 1), Launch(1, 0, 4, 5, 0)],
        [kernel(5, 6, 2**63 - 1), kernel(6, 7, 0), kernel(6, 7, -1), kernel(6, 7, -(2**63))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@pytest.mark.parametrize("name", CASES)
def test_strange_programs_equal_the_reference(name: str, policy: str) -> None:
    ranges, launches, ops = CASES[name]
    made = Program(
        THREADS,
        [Range(i, *list(vars(r).values())[1:]) for i, r in enumerate(ranges)],
        launches,
        [Op(i, *list(vars(op).values())[1:]) for i, op in enumerate(ops)],
    )
    whole = attribute(as_trace(made), policy)
    paths = list(summarise.op_paths(whole))
    for row, outcome in enumerate(Reference(made, policy).outcomes):
        assert (RULES[whole.rule[row]], paths[row]) == (outcome.rule, outcome.path)
    for selection in SELECTIONS:
        found = select.apply(whole, selection) if selection else whole
        assert found.ledger.balanced
        own = int(summarise.ranges(found)["self_gpu_ns"].sum())
        assert own == found.ledger.attributed_ns
        for view in VIEWS:
            getattr(summarise, view)(found)


PID, TID = global_tid(42), global_tid(42, 42)


def written(path: Path, fill: Callable[[Export], None]) -> Path:
    export = Export(path / "report.sqlite")
    fill(export)
    return export.done()


@pytest.mark.parametrize(
    ("start", "end"), [(-(2**63), 2**63 - 1), (0, 2**63 - 1), (-(2**63), 0), (0, 2**62)]
)
def test_times_no_clock_shows_are_refused(tmp_path: Path, start: int, end: int) -> None:
    def fill(export: Export) -> None:
        export.range(0, 50, TID, text="a")
        export.launch(5, 6, TID, 1, "cudaLaunchKernel")
        export.kernel(start, end, PID, 1, "k")

    path = written(tmp_path, fill)
    with pytest.raises(UnreadableReport, match="no clock shows such times") as caught:
        harness.load(path)
    assert caught.value.exit_code == 3


def eight_long_kernels(export: Export) -> None:
    for number in range(8):
        export.launch(5, 6, TID, number + 1, "cudaLaunchKernel")
        export.kernel(0, FAR - 1, PID, number + 1, "k")


def test_durations_that_overflow_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableReport, match="centuries"):
        harness.load(written(tmp_path, eight_long_kernels))


def test_ranges_that_overflow_together_are_refused(tmp_path: Path) -> None:
    def fill(export: Export) -> None:
        for number in range(8):
            export.range(number, FAR - 1, TID, text="a")
        export.launch(5, 6, TID, 1, "cudaLaunchKernel")
        export.kernel(7, 9, PID, 1, "k")

    path = written(tmp_path, fill)
    with pytest.raises(UnreadableReport, match="ranges that last centuries"):
        harness.load(path)
    with pytest.raises(UnreadableReport, match="ranges that last centuries"):
        list(iter_chunks(path, 1))


def test_durations_of_parts_that_overflow_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableReport, match="GPU ops that last centuries"):
        list(iter_chunks(written(tmp_path, eight_long_kernels), 1))


@pytest.mark.parametrize("many", [False, True])
def test_one_time_far_from_the_others_on_several_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    """Device d: two ops of 60 ns that overlap by 20, and d + 1 of them 1 ns each; one op began at 0
    where all others show Unix time."""
    now, devices = 1_700_000_000 * 10**9, 40
    if many:
        monkeypatch.setattr(unions, "_LARGE", 1)
        monkeypatch.setattr(unions, "_PART", 10**6)

    def fill(export: Export) -> None:
        export.range(now, now + 10**6, TID, text="a")
        number, on_device = 0, list[tuple[int, int]]()
        for device in range(devices):
            for start, end in [
                (0, 60),
                (40, 100),
                *((200 + i, 201 + i) for i in range(device + 1)),
            ]:
                number += 1
                export.launch(now + number, now + number, TID, number, "cudaLaunchKernel")
                export.kernel(now + start, now + end, PID, number, "k")
                on_device.append((device, number))
        export.launch(now + 5, now + 5, TID, number + 1, "cudaLaunchKernel")
        export.kernel(0, 7, PID, number + 1, "k")
        on_device.append((3, number + 1))
        export.db.executemany(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = ? WHERE correlationId = ?", on_device
        )

    path = written(tmp_path, fill)
    row = summarise.ranges(harness.load(path).attribute()).iloc[0]
    wanted = 100 * devices + sum(range(1, devices + 1)) + 7
    assert (row["busy_ns"], row["total_gpu_ns"]) == (wanted, wanted + 20 * devices)
    with in_parts(path, 30) as parts:
        found = report_in_parts(parts, Request(view="ranges"), name="x")
    assert found.rows["busy_ns"].tolist() == [wanted]


def test_unix_times_in_ns_are_fine(tmp_path: Path) -> None:
    now = time.time_ns()

    def fill(export: Export) -> None:
        export.range(now, now + 50, TID, text="a")
        export.launch(now + 5, now + 6, TID, 1, "cudaLaunchKernel")
        export.kernel(now + 9, now + 12, PID, 1, "k")

    ledger = harness.load(written(tmp_path, fill)).attribute().ledger
    assert (ledger.attributed_ns, ledger.gpu_ns) == (3, 3)


def test_a_hundred_thousand_ranges_a_thousand_deep(tmp_path: Path) -> None:
    """Every level holds one kernel a block: totals fall by one block's kernel a level."""
    blocks, depth = 100, 1000

    def fill(export: Export) -> None:
        export.db.executemany(
            "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text, domainId)"
            f" VALUES (?, ?, 59, {TID}, ?, 0)",
            [
                (block * 10_000 + level, block * 10_000 + 9_000 - level, f"level {level}")
                for block in range(blocks)
                for level in range(depth)
            ],
        )
        for block in range(blocks):
            for level in (0, 499, 999):
                number = 10 * block + level % 10 + 1 + (level > 500)
                at = block * 10_000 + level
                export.launch(at, at, TID, number, "cudaLaunchKernel")
                export.kernel(at + 2000, at + 2003, PID, number, "k")

    found = harness.load(written(tmp_path, fill)).attribute()
    table = summarise.ranges(found)
    assert len(table) == depth
    assert set(table["instances"]) == {blocks}
    kernels = table["kernels"].tolist()
    assert kernels == [3 * blocks] + [2 * blocks] * 499 + [blocks] * 500
    assert found.ledger.attributed_ns == 3 * 3 * blocks


def test_an_empty_report_on_the_command_line(tmp_path: Path) -> None:
    path = written(tmp_path, lambda _: None)
    for view in ("ranges", "names", "kernels", "ops", "instances", "layers", "latency"):
        for more in ([], ["--skip", "1"], ["--steady"], ["--range", "x"], ["--filter-time", "1:2"]):
            arguments = [str(path), "--view", view, "--format", "csv", *more]
            done = CliRunner().invoke(
                command, arguments, catch_exceptions=False, standalone_mode=False
            )
            assert done.stdout.count("\n") == 1
