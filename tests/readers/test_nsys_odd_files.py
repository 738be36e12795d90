# SPDX-License-Identifier: MIT
"""Files that cannot be read: each is one line, exit code 3, and what to do."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from nsys_files import DATA, Export, garble_schema, global_tid

from harness.errors import ExitCode, HarnessError
from harness.readers import load, nsys_sqlite
from harness.readers.inspect_report import columns, opened

BLOCKS = DATA / "h200/blocks.sqlite"


def complaint(path: Path) -> str:
    with pytest.raises(HarnessError) as caught:
        load(path)
    assert caught.value.exit_code == ExitCode.NO_ANSWER
    assert caught.value.message.startswith(f"{path}: ")
    assert "\n" not in caught.value.message
    return caught.value.message.removeprefix(f"{path}: ")


def test_missing(tmp_path: Path) -> None:
    assert complaint(tmp_path / "nope.sqlite") == "no such file or folder"


def test_empty_as_a_failed_export_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    path.touch()
    assert complaint(path) == "empty file"


def test_not_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "text.sqlite"
    path.write_text("hello, " * 100)
    assert complaint(path) == "not a SQLite file"


def test_git_lfs_pointer(tmp_path: Path) -> None:
    path = tmp_path / "pointer.sqlite"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n")
    assert "Git LFS pointer" in complaint(path)


def test_sqlite_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "cookies.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE cookies (id INTEGER)")
    assert complaint(path) == "a SQLite file, but not an nsys export"


@pytest.mark.parametrize("engine", ["auto", "adbc", "stdlib"])
@pytest.mark.parametrize("kept", [10, 100, 4096, 20_000, 100_000, 200_000, 300_000])
def test_cut_short(tmp_path: Path, kept: int, engine: str) -> None:
    path = tmp_path / "cut.sqlite"
    path.write_bytes(BLOCKS.read_bytes()[:kept])
    with pytest.raises(HarnessError) as caught:
        nsys_sqlite.read(path, engine=engine)
    assert caught.value.exit_code == ExitCode.NO_ANSWER
    assert "damaged SQLite file" in caught.value.message


def test_overwritten_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "holes.sqlite"
    data = bytearray(BLOCKS.read_bytes())
    data[8192:200_000] = b"\xaa" * (200_000 - 8192)
    path.write_bytes(data)
    assert "damaged SQLite file" in complaint(path)


def test_a_garbled_schema_that_is_not_utf8(tmp_path: Path) -> None:
    path = Path(shutil.copy(BLOCKS, tmp_path / "report.sqlite"))
    garble_schema(path)
    assert "damaged SQLite file" in complaint(path)
    with pytest.raises(HarnessError, match="not a readable nsys export"), opened(path) as db:
        columns(db, "StringIds")


def test_text_where_a_number_belongs(tmp_path: Path) -> None:
    export = Export(tmp_path / "text.sqlite")
    export.kernel(1, 2, global_tid(1), 1, "k")
    export.db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon'")
    assert "unexpected value in CUPTI_ACTIVITY_KIND_KERNEL" in complaint(export.done())


@pytest.mark.parametrize("value", ["soon", b"\x00\xff"])
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("ThreadNames", "nameId"),
        ("ThreadNames", "globalTid"),
        ("ANALYSIS_DETAILS", "duration"),
        ("TARGET_INFO_GPU", "cuDevice"),
    ],
)
def test_no_number_in_a_small_table(
    tmp_path: Path, table: str, column: str, value: str | bytes
) -> None:
    path = shutil.copyfile(BLOCKS, tmp_path / "odd.sqlite")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {table} SET {column} = ?", (value,))
    assert f"unexpected value in {table}" in complaint(path)


@pytest.mark.parametrize("value", [7, 1.5, b"a\xff"])
def test_no_text_where_text_belongs(tmp_path: Path, value: object) -> None:
    path = shutil.copyfile(BLOCKS, tmp_path / "odd.sqlite")
    with closing(sqlite3.connect(path)) as db, db:
        for table, column in (
            ("StringIds", "value"),
            ("ENUM_CUDA_MEMCPY_OPER", "label"),
            ("META_DATA_CAPTURE", "value"),
            ("TARGET_INFO_GPU", "name"),
        ):
            db.execute(f"UPDATE {table} SET {column} = ?", (value,))
    trace = nsys_sqlite.read(path)
    wanted = {7: "7", 1.5: "1.5", b"a\xff": "a\ufffd"}[value]
    assert set(trace.launches["name"]) == {wanted}


def test_folder_that_is_no_run(tmp_path: Path) -> None:
    assert complaint(tmp_path).startswith("not a run folder")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter, which pytest's are not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def test_permission_denied(open_folder: Path) -> None:
    path = Path(shutil.copy(BLOCKS, open_folder))
    path.chmod(0)
    assert _as_nobody(path) == f"{path}: permission denied"


def test_a_folder_that_may_not_be_entered(open_folder: Path) -> None:
    path = Path(shutil.copy(BLOCKS, open_folder))
    open_folder.chmod(0o700)
    assert _as_nobody(path) == f"{path}: permission denied"


def test_a_read_only_file_in_a_read_only_folder(open_folder: Path) -> None:
    path = Path(shutil.copy(BLOCKS, open_folder))
    path.chmod(0o444)
    open_folder.chmod(0o555)
    assert _as_nobody(path) == "82"


@pytest.mark.parametrize("name", ["50%.sqlite", "a?b#c.sqlite", "with space & quote'.sqlite"])
def test_names_that_mean_something_in_a_uri(tmp_path: Path, name: str) -> None:
    shutil.copy(BLOCKS, tmp_path / name)
    assert len(nsys_sqlite.read(tmp_path / name, engine="adbc").gpu_ops) == 82
    assert len(nsys_sqlite.read(tmp_path / name, engine="stdlib").gpu_ops) == 82


def test_a_report_that_another_program_has_locked(tmp_path: Path) -> None:
    path = Path(shutil.copy(BLOCKS, tmp_path))
    path.chmod(0o644)
    with sqlite3.connect(path, isolation_level=None) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        assert len(load(path).gpu_ops) == 82


def test_write_ahead_log_mode(tmp_path: Path) -> None:
    path = Path(shutil.copy(BLOCKS, tmp_path))
    path.chmod(0o644)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
    db.close()
    assert len(load(path).gpu_ops) == 82
    assert [file.name for file in tmp_path.iterdir()] == ["blocks.sqlite"]


def test_changes_that_wait_in_a_write_ahead_log_are_told(tmp_path: Path) -> None:
    path = Path(shutil.copy(BLOCKS, tmp_path))
    path.chmod(0o644)
    with closing(sqlite3.connect(path)) as writer, closing(sqlite3.connect(path)) as holder:
        writer.execute("PRAGMA journal_mode = WAL")
        holder.execute("SELECT count(*) FROM StringIds").fetchone()
        with writer:
            writer.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
        trace = load(path)
    assert len(trace.gpu_ops) == 82
    (warning,) = [one for one in trace.warnings if one.code == "unfinished-write"]
    assert "blocks.sqlite-wal lies beside blocks.sqlite" in warning.message


def test_a_journal_left_by_a_killed_writer_is_told(tmp_path: Path) -> None:
    path = Path(shutil.copy(BLOCKS, tmp_path))
    path.chmod(0o644)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA cache_size = 1")  # what changes goes to the file before it commits
        writer.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = start + 1")
        codes = [one.code for one in load(path).warnings]
        assert codes == ["unfinished-write"]
        writer.rollback()
    assert not load(path).warnings


def test_a_reader_leaves_nothing_behind(tmp_path: Path) -> None:
    path = Path(shutil.copy(BLOCKS, tmp_path))
    before = path.stat()
    load(path)
    assert [file.name for file in tmp_path.iterdir()] == ["blocks.sqlite"]
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def _as_nobody(path: Path) -> str:
    """What a user without privileges gets to see: root may read everything."""
    code = (
        "import os, sys\n"
        "import pandas, sqlite3, adbc_driver_sqlite, harness.readers.nsys_sqlite\n"
        "from harness.errors import HarnessError\n"
        "from harness.readers import load\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: print(len(load(sys.argv[1]).gpu_ops))\n"
        "except HarnessError as error: print(error.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
