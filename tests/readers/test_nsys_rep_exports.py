# SPDX-License-Identifier: MIT
"""What ``nsys export`` may leave, by programs that do what versions that are not here were seen to
do."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harness.errors import UnreadableReport
from harness.launch.nsys import Nsys
from harness.launch.passes import export
from harness.launch.rundir import PassRecord
from harness.readers import load

DATA = Path(__file__).parents[1] / "data/h200"
REPORT = b"NVIDIA Tegra Profiler Report 1.\n"


class Installed:
    """An nsys that exports ``leaves`` and ends with ``code``, saying ``says``."""

    def __init__(self, folder: Path, version: str, leaves: Path, code: int = 0, says: str = ""):
        folder.mkdir()
        self.nsys = Nsys(str(folder / "nsys"), version)
        self.log = folder / "log"
        (folder / "nsys").write_text(
            f"""#!/bin/sh
[ "$1" = --version ] && exec echo "NVIDIA Nsight Systems version {version}"
[ "$2" = --help ] && exit 0
while [ "$1" != -o ]; do shift; done
cp '{leaves}' "$2"
echo "$2" >> '{self.log}'
echo '{says}'
exit {code}
"""
        )
        (folder / "nsys").chmod(0o755)

    @property
    def exports(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """What 2023.4.4 leaves of a report of 2025.3.1, with exit code 1."""
    path = tmp_path / "half"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        db.execute("INSERT INTO StringIds VALUES (0, 'cudaLaunchKernel')")
    return path


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "run" / "report.nsys-rep"
    path.parent.mkdir()
    path.write_bytes(REPORT)
    return path


def test_an_export_that_failed_half_way_is_no_export(
    report: Path, half: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "std::exception::what: ProtobufParseException"
    old = Installed(tmp_path / "old", "2023.4.4.54", half, 1, said)
    monkeypatch.setenv("HARNESS_NSYS", old.nsys.path)
    with pytest.raises(UnreadableReport, match=r"another version of nsys, which nsys 2023\.4\.4"):
        load(report)
    assert [file.name for file in report.parent.iterdir()] == [report.name]
    record = PassRecord("nsys", [], 0, 1.0, "nsys.log")
    assert [problem["code"] for problem in export(old.nsys, report.parent, record)] == ["no-export"]
    assert record.files == []
    assert not report.with_suffix(".sqlite").exists()


def test_a_newer_nsys_exports_again(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Installed(tmp_path / "old", "2023.4.4.54", DATA / "memops.sqlite")
    new = Installed(tmp_path / "new", "2025.3.1.90", DATA / "blocks.sqlite")

    def ops(nsys: Installed) -> int:
        monkeypatch.setenv("HARNESS_NSYS", nsys.nsys.path)
        return len(load(report).gpu_ops)

    first = ops(old)
    assert (ops(old), old.exports) == (first, 1)
    assert ops(new) == 82 != first
    assert (ops(old), ops(new)) == (82, 82)  # what the newer one made stays
    assert (old.exports, new.exports) == (1, 1)


def test_a_newer_nsys_that_cannot_export_leaves_what_is_kept(
    report: Path, half: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Installed(tmp_path / "old", "2023.4.4.54", DATA / "blocks.sqlite")
    new = Installed(tmp_path / "new", "2025.3.1.90", half, 1)
    for one in (old, new, old):
        monkeypatch.setenv("HARNESS_NSYS", one.nsys.path)
        assert len(load(report).gpu_ops) == 82
    assert old.exports == 1


def test_an_export_kept_by_an_earlier_version_of_harness_is_made_anew(
    report: Path, half: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys = Installed(tmp_path / "nsys", "2023.4.4.54", DATA / "blocks.sqlite")
    monkeypatch.setenv("HARNESS_NSYS", nsys.nsys.path)
    load(report)
    kept = report.parent / f".{report.name}.harness-export"
    with closing(sqlite3.connect(kept)) as db:
        [stamp] = db.execute("SELECT size, mtime_ns, inode, tables FROM HARNESS_STAMP")
    shutil.copyfile(half, kept)
    with closing(sqlite3.connect(kept)) as db, db:
        db.execute("CREATE TABLE HARNESS_STAMP (size, mtime_ns, inode, tables)")
        db.execute("INSERT INTO HARNESS_STAMP VALUES (?, ?, ?, ?)", stamp)
    assert len(load(report).gpu_ops) == 82
