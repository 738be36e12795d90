# SPDX-License-Identifier: MIT
"""``.nsys-rep`` files: recorded and exported by the real nsys where there is one."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from nsys_files import garble_schema

from harness import summarise
from harness.errors import ExitCode, HarnessError, ToolMissing, UnreadableReport
from harness.launch.nsys import Nsys, find
from harness.readers import load, nsys_rep

PROGRAM = """
import nvtx
with nvtx.annotate("outer"):
    with nvtx.annotate("inner", domain="lib"):
        pass
nvtx.push_range("open")
"""
HEADER = b"NVIDIA Tegra Profiler Report "


def _nsys() -> Nsys | None:
    try:
        return find(None, os.environ)
    except ToolMissing:
        return None


NSYS = _nsys()
needs_nsys = [
    pytest.mark.nsys,
    pytest.mark.skipif(NSYS is None, reason="nsys is not installed"),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a real program, recorded by the nsys that is installed here."""
    assert NSYS is not None
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "program.py").write_text(PROGRAM)
    report = folder / "report.nsys-rep"
    command = [NSYS.path, "profile", "-t", "nvtx", "--sample=none", "--cpuctxsw=none"]
    said = ""
    for _ in range(3):
        # Two nsys that start at one moment: "Local Endpoint is not available" (2022.4).
        done = subprocess.run(
            [*command, "-o", str(report), sys.executable, str(folder / "program.py")],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
        )
        said += done.stdout + done.stderr
        if report.is_file():
            break
    assert report.is_file(), said
    return report


@pytest.fixture
def report(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copy2(recorded, tmp_path))


def kept(report: Path) -> Path:
    return report.parent / f".{report.name}.harness-export"


class TestRoundTrip:
    pytestmark = needs_nsys

    def test_ranges_of_a_real_program(self, report: Path) -> None:
        trace = load(report)
        columns = ["name", "domain", "style", "open"]
        assert list(trace.ranges[columns].itertuples(index=False, name=None)) == [
            ("outer", "", "push_pop", False),
            ("inner", "lib", "push_pop", False),
            ("open", "", "push_pop", True),
        ]
        assert trace.source.path == str(report)
        assert NSYS is not None
        assert trace.source.version == NSYS.version

    def test_the_export_is_kept_and_used_again(
        self, report: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = load(report)
        assert sorted(file.name for file in report.parent.iterdir()) == [
            ".report.nsys-rep.harness-export",
            "report.nsys-rep",
        ]
        monkeypatch.setenv("HARNESS_NSYS", "/nowhere")
        assert load(report).ranges.equals(first.ranges)

    def test_another_report_under_the_name_is_exported_again(self, report: Path) -> None:
        load(report)
        before = kept(report).stat().st_ino
        load(report)
        assert kept(report).stat().st_ino == before
        other = report.with_name("other")
        shutil.copy(report, other)
        other.replace(report)
        load(report)
        assert kept(report).stat().st_ino != before

    def test_a_newer_sqlite_beside_it_is_used(self, report: Path) -> None:
        load(report)
        beside = report.with_suffix(".sqlite")
        shutil.copy(kept(report), beside)
        kept(report).unlink()
        with sqlite3.connect(beside) as db:
            db.execute("UPDATE NVTX_EVENTS SET text = 'changed', textId = NULL")
        assert set(load(report).ranges["name"]) == {"changed"}
        now = report.stat().st_mtime_ns
        os.utime(beside, ns=(now, now - 1))
        assert set(load(report).ranges["name"]) == {"outer", "inner", "open"}

    def test_a_folder_that_cannot_be_written(
        self, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Root may write everywhere, so the place beside the report is one that cannot exist.
        places = nsys_rep._places
        monkeypatch.setattr(nsys_rep, "_places", lambda path: [path / "x", *places(path)[1:]])
        first = load(report)
        assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["report.nsys-rep"]
        [export] = (tmp_path / "cache").rglob("*.harness-export")
        assert export.parent.parent == tmp_path / "cache/nsys-harness"
        monkeypatch.setenv("HARNESS_NSYS", "/nowhere")
        assert load(report).ranges.equals(first.ranges)

    def test_nowhere_to_keep_it(
        self, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(nsys_rep, "_places", lambda path: [path / "x"])
        assert len(load(report).ranges) == 3
        assert [file.name for file in tmp_path.iterdir()] == ["report.nsys-rep"]

    def test_several_at_once_export_once(
        self, report: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs = []
        real = nsys_rep._run_export

        def counted(*args: object) -> Path:
            runs.append(args)
            return real(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(nsys_rep, "_run_export", counted)
        with ThreadPoolExecutor(4) as pool:
            traces = list(pool.map(load, [report] * 4))
        assert len(runs) == 1
        assert all(trace.ranges.equals(traces[0].ranges) for trace in traces)

    def test_a_damaged_kept_export_is_made_anew(self, report: Path) -> None:
        load(report)
        kept(report).write_bytes(b"rubbish")
        assert len(load(report).ranges) == 3

    def test_a_kept_export_with_a_garbled_schema_is_made_anew(self, report: Path) -> None:
        load(report)
        garble_schema(kept(report))
        assert len(load(report).ranges) == 3

    def test_a_kept_export_whose_rows_are_damaged_does_not_stay(self, report: Path) -> None:
        load(report)
        with closing(sqlite3.connect(kept(report))) as db:
            [(root,)] = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'NVTX_EVENTS'")
            [(size,)] = db.execute("PRAGMA page_size")
        with kept(report).open("r+b") as file:
            file.seek((root - 1) * size)
            file.write(b"\xff" * 64)
        with pytest.raises(UnreadableReport, match="damaged") as caught:
            load(report)
        assert "run the command again" in (caught.value.hint or "")
        assert len(load(report).ranges) == 3

    def test_a_folder_where_the_export_would_be_kept(self, report: Path, tmp_path: Path) -> None:
        kept(report).mkdir()
        assert len(load(report).ranges) == 3
        assert len(list((tmp_path / "cache").rglob("*.harness-export"))) == 1

    def test_a_kept_export_of_fewer_tables_is_made_anew(
        self, report: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as before:
            before.setattr(nsys_rep, "_TABLES", nsys_rep._TABLES[:2])
            load(report)
        inode = kept(report).stat().st_ino
        load(report)
        assert kept(report).stat().st_ino != inode

    def test_cut_short(self, report: Path) -> None:
        report.write_bytes(report.read_bytes()[:20_000])
        with pytest.raises(UnreadableReport, match="could not export it"):
            load(report)
        assert [file.name for file in report.parent.iterdir()] == ["report.nsys-rep"]

    def test_cuda_rows_in_this_version_s_own_tables(self, report: Path) -> None:
        """A real capture of NVTX, and the CUDA rows that a machine without a GPU cannot record."""
        assert NSYS is not None
        export = report.with_name("full.sqlite")
        subprocess.run(
            [NSYS.path, "export", "-t", "sqlite", "-l", "false", "-o", str(export), str(report)],
            capture_output=True,
            check=True,
        )
        with sqlite3.connect(export) as db:
            start, end, tid = db.execute(
                "SELECT start, end, globalTid FROM NVTX_EVENTS "
                "WHERE eventType = 59 AND domainId > 0"
            ).fetchone()
            names = [(10**6, "cudaLaunchKernel"), (10**6 + 1, "k"), (10**6 + 2, "void k(int)")]
            db.executemany("INSERT INTO StringIds VALUES (?, ?)", names)
            self._insert(
                db, "CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, globalTid=tid,
                correlationId=5, nameId=10**6,
            )  # fmt: skip
            self._insert(
                db, "CUPTI_ACTIVITY_KIND_KERNEL", start=end, end=end + 1234, correlationId=5,
                globalPid=tid >> 24 << 24, shortName=10**6 + 1, demangledName=10**6 + 2,
            )  # fmt: skip
        trace = load(export)
        assert trace.gpu_ops["demangled"].tolist() == ["void k(int)"]
        ops = summarise.ops(trace.attribute("thread"))
        assert ops["path"].tolist() == [("outer", "inner")]
        assert (ops["end_ns"] - ops["start_ns"]).tolist() == [1234]

    @staticmethod
    def _insert(db: sqlite3.Connection, table: str, **values: int) -> None:
        for _, name, _, required, default, _ in db.execute(f"PRAGMA table_info({table})"):
            if required and default is None:
                values.setdefault(name, 0)
        marks = ", ".join("?" * len(values))
        db.execute(
            f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values())
        )

    def test_written_by_a_newer_nsys(self, report: Path) -> None:
        assert NSYS is not None
        report.write_bytes(HEADER + b"2099@1@2@3-990000000000v0.\n" + report.read_bytes()[30:])
        with pytest.raises(UnreadableReport) as caught:
            load(report)
        assert "written by nsys 2099.1.2.3" in caught.value.message
        assert f"nsys {NSYS.version}" in caught.value.message
        assert "2099.1 or later" in caught.value.hint


def test_without_nsys_an_older_export_is_better_than_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_NSYS", "/nowhere")
    data = Path(__file__).parents[1] / "data/h200/blocks.sqlite"
    export = Path(shutil.copy(data, tmp_path / "report.sqlite"))
    report = tmp_path / "report.nsys-rep"
    report.write_bytes(HEADER + b"1.\n")
    now = report.stat().st_mtime_ns
    os.utime(export, ns=(now, now - 60_000_000_000))
    trace = load(report)
    assert len(trace.gpu_ops) == 82
    assert [warning.code for warning in trace.warnings] == ["stale-export"]


def test_without_nsys_and_without_an_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_NSYS", "/nowhere")
    report = tmp_path / "report.nsys-rep"
    report.write_bytes(HEADER + b"1.\n")
    with pytest.raises(ToolMissing, match=r"its export report\.sqlite is not beside it") as caught:
        load(report)
    assert caught.value.exit_code == ExitCode.TOOL_MISSING
    assert caught.value.hint.startswith("Copy report.sqlite from where the run was recorded. Inst")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "no such file"),
        (b"", "empty file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"something else", "not an Nsight Systems report"),
    ],
)
def test_files_that_are_no_report(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    report = tmp_path / "report.nsys-rep"
    if content is not None:
        report.write_bytes(content)
    with pytest.raises(HarnessError, match=complaint) as caught:
        load(report)
    assert caught.value.exit_code == ExitCode.NO_ANSWER


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("[QuadDCommon::tag_message*] = database or disk is full", "Make room"),
        ("write: No space left on device", "Make room"),
        ("Importer error: unexpected end of file", "cut short"),
    ],
)
def test_the_hint_fits_what_nsys_export_said(said: str, hint: str) -> None:
    error = nsys_rep._export_failed(Nsys("nsys", "2022.4.2.1"), Path("r.nsys-rep"), "", said)
    assert hint in (error.hint or "")
