# SPDX-License-Identifier: MIT
"""The benchmark's made reports are what they claim: well-formed, and with a known answer."""

from __future__ import annotations

import importlib.util
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import harness

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks/make_report.py"
SHAPES = (
    "default", "deep", "one-range", "no-ranges", "many-threads", "many-names", "overlap", "mixed",
)  # fmt: skip


def make(path: Path, *arguments: str) -> Path:
    argv = [sys.executable, str(SCRIPT), str(path), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


@contextmanager
def connect(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        yield db


@pytest.fixture(scope="module", params=SHAPES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    return make(folder / "r.sqlite", "--kernels", "4000", "--shape", request.param)


def test_every_kernel_has_one_launch_in_its_process_that_ended_before_it(made: Path) -> None:
    with connect(made) as db:
        calls = {
            (tid >> 24, correlation): end
            for tid, correlation, end in db.execute(
                'SELECT globalTid, correlationId, "end" FROM CUPTI_ACTIVITY_KIND_RUNTIME'
            )
        }
        total = db.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()[0]
        assert len(calls) == total  # ids are unique within a process
        kernels = db.execute(
            "SELECT globalPid, correlationId, start FROM CUPTI_ACTIVITY_KIND_KERNEL"
        ).fetchall()
        assert 3900 <= len(kernels) <= 4100
        assert all(calls[pid >> 24, correlation] < start for pid, correlation, start in kernels)


def test_kernels_of_a_stream_do_not_overlap(made: Path) -> None:
    with connect(made) as db:
        last: dict[tuple[int, int], int] = {}
        kernels = "CUPTI_ACTIVITY_KIND_KERNEL"
        rows = db.execute(f'SELECT globalPid, streamId, start, "end" FROM {kernels} ORDER BY start')
        for pid, stream, start, end in rows:
            assert start >= last.get((pid, stream), 0)
            assert end > start
            last[pid, stream] = end


def test_ranges_of_a_thread_nest(made: Path) -> None:
    with connect(made) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        if "NVTX_EVENTS" not in tables:  # lazy, as in nsys's own exports
            return
        open_: dict[int, list[int]] = {}
        rows = db.execute('SELECT globalTid, start, "end" FROM NVTX_EVENTS ORDER BY start')
        for tid, start, end in rows:
            stack = open_.setdefault(tid, [])
            while stack and stack[-1] <= start:
                stack.pop()
            assert not stack or end <= stack[-1]
            stack.append(end)


def test_report_balances_and_its_sums_are_sql_s(made: Path) -> None:
    attribution = harness.load(made).attribute()
    with connect(made) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        device = [
            f"CUPTI_ACTIVITY_KIND_{kind}"
            for kind in ("KERNEL", "MEMCPY", "MEMSET")
            if f"CUPTI_ACTIVITY_KIND_{kind}" in tables
        ]
        expected = sum(
            db.execute(f'SELECT sum("end" - start) FROM {table}').fetchone()[0] for table in device
        )
    assert attribution.ledger.balanced
    assert attribution.ledger.gpu_ns == expected
    assert attribution.ledger.unlinked_ns == 0
    # The first hundredth of each thread's launches comes before its first range.
    assert attribution.ledger.outside_ns > 0


def test_the_same_options_make_the_same_file(tmp_path: Path) -> None:
    options = ("--kernels", "2000", "--shape", "mixed", "--registered")
    first, second = (make(tmp_path / f"{n}.sqlite", *options).read_bytes() for n in (1, 2))
    assert first == second
    other = make(tmp_path / "3.sqlite", *options, "--seed", "2").read_bytes()
    assert other != first


def test_the_default_has_the_proportions_it_is_named_for() -> None:
    """1.6 M kernels to 3.2 M API calls to 1.2 M ranges: 1 to 2 to 0.75."""
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        spec = importlib.util.spec_from_file_location("make_report", SCRIPT)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPT.parent))
    made = module.make_spec("default")
    assert (made.kernels, made.api_per_kernel, made.ranges) == (1_600_000, 2, 1_200_000)
    assert sum(made.levels()) * made.threads == pytest.approx(1_200_000, rel=0.001)


def test_impossible_sizes_are_refused(tmp_path: Path) -> None:
    argv = [sys.executable, str(SCRIPT), str(tmp_path / "x.sqlite"), "--kernels", "0"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 2
    assert "start at 1" in done.stderr


@pytest.mark.parametrize(
    "options", [["--graphs=2"], ["--streams=0"], ["--branching=0"], ["--seed=-1"], ["--ranges=-1"]]
)
def test_what_no_report_can_have_is_refused(tmp_path: Path, options: list[str]) -> None:
    argv = [sys.executable, str(SCRIPT), str(tmp_path / "x"), "--kernels=10", *options]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "none" / "x.sqlite"
    argv = [sys.executable, str(SCRIPT), str(path), "--kernels=10"]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(f"make_report: {path} cannot be written: ")
    assert len(done.stderr.splitlines()) == 1
