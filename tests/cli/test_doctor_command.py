# SPDX-License-Identifier: MIT
"""``harness doctor``, ``share`` and ``baseline`` from the command line, on real files."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from harness.cli import main

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "h200"
SECRET = "sesame-0123456789"


def harness(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "harness", *args],
        cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    """A real report with an environment put back, in the three places where nsys writes one."""
    path = tmp_path / "leaky.sqlite"
    shutil.copy(DATA / "train.sqlite", path)
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', ?)",
            (f'HF_TOKEN="{SECRET}-a"',),
        )
        db.execute(
            "INSERT INTO TARGET_INFO_SYSTEM_ENV (devStateName, nameEnum, name, value) "
            "VALUES ('', 0, 'DeviceEnvironment', ?)",
            (f"PATH=/bin\0MY_PASSWORD={SECRET}-b",),
        )
        db.execute(
            "INSERT INTO StringIds (id, value) VALUES (99999901, ?)",
            (f"SHELL=/bin/sh\0AWS_SECRET_ACCESS_KEY={SECRET}-c\0X=1",),
        )
        db.execute(
            "INSERT INTO TARGET_INFO_SYSTEM_ENV (devStateName, nameEnum, name, value) "
            "VALUES ('', 0, 'Hostname', 'gamma-ray-7')"
        )
        db.execute("INSERT INTO StringIds (id, value) VALUES (99999902, '/home/alice/gamma-ray-7')")
        db.execute("UPDATE PROCESSES SET name = '/home/alice/bin/python'")
        db.commit()
    return path


def test_machine(tmp_path: Path) -> None:
    done = harness(tmp_path, "doctor", "--format", "json")
    assert done.returncode in (0, 4), done.stderr
    answer = json.loads(done.stdout)
    assert answer["schema"] == "harness.doctor/1"
    codes = {finding["code"] for finding in answer["subjects"][0]["findings"]}
    assert {"nsys", "gpu", "torch", "nvtx", "nvcc", "disk"} <= codes


def test_a_missing_nsys_lists_where_it_was_looked_for(tmp_path: Path) -> None:
    done = harness(tmp_path, "doctor", "--nsys-path", "nowhere")
    assert "--nsys-path nowhere" in done.stdout
    assert "install-nsys" in done.stdout


@pytest.mark.nsys
def test_probe_records_a_real_range(tmp_path: Path) -> None:
    if shutil.which("nsys") is None:
        pytest.skip("nsys is not installed (scripts/install-nsys)")
    done = harness(tmp_path, "doctor", "--probe", "--format", "json")
    findings = json.loads(done.stdout)["subjects"][0]["findings"]
    (probe,) = (finding for finding in findings if finding["code"] == "probe")
    assert probe["level"] == "ok", probe
    assert probe["evidence"].startswith("1 ranges")


def test_names_of_secrets_are_shown_and_values_never(tmp_path: Path, leaky: Path) -> None:
    done = harness(tmp_path, "doctor", str(leaky))
    assert done.returncode == 0
    assert "AWS_SECRET_ACCESS_KEY, HF_TOKEN, MY_PASSWORD" in done.stdout
    assert "sesame" not in done.stdout + done.stderr
    assert harness(tmp_path, "doctor", "--strict", str(leaky)).returncode == 1


def test_a_healthy_report(tmp_path: Path) -> None:
    done = harness(tmp_path, "doctor", "--strict", str(DATA / "train.sqlite"))
    assert done.returncode == 0
    # train: 270 kernels, counted with SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL.
    assert "270 kernel launches, 270 kernels" in done.stdout


def test_lost_kernels_and_stale_exports_exit_3(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    shutil.copy(DATA / "train.sqlite", path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid > 2")
        db.commit()
    done = harness(tmp_path, "doctor", str(path))
    assert done.returncode == 3
    assert "270 kernel launches, 2 kernels" in done.stdout
    fresh = tmp_path / "s.sqlite"
    shutil.copy(DATA / "train.sqlite", fresh)
    (tmp_path / "s.nsys-rep").touch()
    os.utime(fresh, (1, 1))
    done = harness(tmp_path, "doctor", str(fresh))
    assert done.returncode == 3
    assert "older than its .nsys-rep" in done.stdout


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0broken"])
def test_what_is_no_report_exits_3(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.sqlite").write_bytes(content)
    done = harness(tmp_path, "doctor", "x.sqlite")
    assert done.returncode == 3
    assert "x.sqlite" in done.stderr
    assert "Traceback" not in done.stderr


def test_share_takes_out_what_gives_away_and_keeps_the_measurement(
    tmp_path: Path, leaky: Path
) -> None:
    done = harness(tmp_path, "share", str(leaky), "-o", "out")
    assert done.returncode == 0, done.stderr
    copy = tmp_path / "out" / "leaky.sqlite"
    raw = copy.read_bytes()
    for text in (b"sesame", b"gamma-ray", b"alice", b"HF_TOKEN", b"MY_PASSWORD", b"AWS_SECRET"):
        assert text not in raw
    reports = [harness(tmp_path, "report", str(path), "--format", "json") for path in (leaky, copy)]
    before, after = (json.loads(report.stdout) for report in reports)
    assert before["ledger"] == after["ledger"]
    assert before["rows"] == after["rows"]
    assert harness(tmp_path, "doctor", "--strict", str(copy)).returncode == 0


def test_share_of_a_run_leaves_out_what_cannot_be_scrubbed(tmp_path: Path, leaky: Path) -> None:
    run = tmp_path / "reports" / "r"
    run.mkdir(parents=True)
    shutil.copy(leaky, run / "report.sqlite")
    (run / "report.nsys-rep").write_bytes(b"x")
    (run / "nsys.log").write_text("printed")
    stored = {
        "schema": "harness.run/1",
        "complete": True,
        "host": {"name": "gamma-ray-7", "cpu": "x"},
        "argv": ["/home/alice/venv/bin/python", "t.py", "--api-key", SECRET, f"--token={SECRET}"],
    }
    (run / "run.json").write_text(json.dumps(stored))
    done = harness(tmp_path, "share", "reports/r")
    assert done.returncode == 0, done.stderr
    assert "report.nsys-rep: carries the environment and cannot be scrubbed" in done.stderr
    out = tmp_path / "reports" / "r-shared"
    assert {entry.name for entry in out.iterdir()} == {"run.json", "report.sqlite"}
    text = (out / "run.json").read_text()
    assert not any(word in text for word in ("alice", "gamma", "sesame"))
    assert json.loads(text)["argv"][:3] == ["python", "t.py", "--api-key"]
    assert harness(tmp_path, "share", "reports/r").returncode == 2


def test_a_nsys_rep_alone_cannot_be_shared(tmp_path: Path) -> None:
    (tmp_path / "r.nsys-rep").write_bytes(b"x")
    done = harness(tmp_path, "share", "r.nsys-rep")
    assert done.returncode == 2
    assert "cannot be scrubbed" in done.stderr


def test_baselines(tmp_path: Path) -> None:
    assert harness(tmp_path, "baseline", "save", "main").returncode == 3
    for name, created, complete in (("a", "1", True), ("b", "2", True), ("c", "3", False)):
        folder = tmp_path / "reports" / name
        folder.mkdir(parents=True)
        stored = {"schema": "harness.run/1", "name": name, "created": created, "complete": complete}
        (folder / "run.json").write_text(json.dumps(stored))
        shutil.copy(DATA / "blocks.sqlite", folder / "report.sqlite")
    assert harness(tmp_path, "baseline", "save", "main").stdout == "main -> b\n"
    assert harness(tmp_path, "baseline", "save", "old", "reports/a").returncode == 0
    assert harness(tmp_path, "baseline", "save", "bad", "c").returncode == 3
    assert harness(tmp_path, "baseline", "save", "a/b", "a").returncode == 2
    listed = harness(tmp_path, "baseline", "list", "--format", "json")
    assert json.loads(listed.stdout) == {"main": "b", "old": "a"}
    shown = harness(tmp_path, "baseline", "show", "main", "--format", "json")
    assert json.loads(shown.stdout)["path"] == "reports/b"
    assert harness(tmp_path, "baseline", "show", "nope").returncode == 2
    shutil.rmtree(tmp_path / "reports" / "b")
    assert "(gone)" in harness(tmp_path, "baseline", "list").stdout
    assert harness(tmp_path, "baseline", "show", "main").returncode == 3


@pytest.mark.parametrize("command", ["doctor", "share", "report", "compare"])
def test_what_is_missing_exits_3(tmp_path: Path, command: str) -> None:
    other = [str(DATA / "train.sqlite")] if command == "compare" else []
    done = harness(tmp_path, command, *other, "nowhere.sqlite")
    assert (done.returncode, done.stdout) == (3, "")
    assert "nowhere.sqlite: no such file" in done.stderr


@pytest.mark.parametrize("content", [b"", b"not a database"])
def test_what_is_no_export_is_not_shared(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.sqlite").write_bytes(content)
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as db:
        db.execute("CREATE TABLE passwords (text)")
    for name in ("x.sqlite", "other.sqlite"):
        done = harness(tmp_path, "share", name, "-o", "out")
        assert (done.returncode, done.stdout) == (3, ""), name
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("style", ["csv", "markdown", "json", "table"])
def test_every_format_and_file(tmp_path: Path, style: str) -> None:
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "baselines.json").write_text('{"main": "a"}')
    for args in (["doctor", str(DATA / "train.sqlite")], ["baseline", "list"]):
        shown = harness(tmp_path, *args, "--format", style)
        assert (shown.returncode, shown.stderr) == (0, "")
        written = harness(tmp_path, *args, "--format", style, "-o", "out")
        assert (written.returncode, written.stdout) == (0, "")
        assert (tmp_path / "out").read_text() == shown.stdout
    assert {
        "csv": "name,run,state\nmain,a,(gone)\n",
        "markdown": "| name | run | state |\n| --- | --- | --- |\n| main | a | (gone) |\n",
        "json": '{\n  "main": "a"\n}\n',
        "table": "main  a  (gone)\n",
    }[style] == shown.stdout


def test_a_bug_is_exit_70_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.launch.rundir.read_baselines", lambda _: 1 / 0)
    with pytest.raises(SystemExit) as stop:
        main(["baseline", "list", "--reports", str(tmp_path)])
    assert stop.value.code == 70
    err = capsys.readouterr().err
    assert err.startswith("harness: internal error: ZeroDivisionError")
    assert "Traceback" not in err
