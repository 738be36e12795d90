# SPDX-License-Identifier: MIT
"""``harness report`` on several inputs, and on inputs that lack something."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from harness import gather

DATA = Path(__file__).parents[1] / "data" / "h200"
AA = Path(__file__).parents[1] / "data" / "aa"

Command = Callable[..., tuple[int, str, str]]


# Several inputs.


def test_several_inputs_are_one_frame(report: Command) -> None:
    code, out, _ = report(DATA / "blocks.sqlite", DATA / "train.sqlite", "--format", "json")
    assert code == 0
    found = json.loads(out)
    assert found["schema"] == "harness.reports/1"
    assert next(iter(found["rows"][0])) == "source"
    assert {row["source"] for row in found["rows"]} == {"blocks.sqlite", "train.sqlite"}
    for name in ("blocks", "train"):
        single = json.loads(report(DATA / f"{name}.sqlite", "--format", "json")[1])
        mine = [
            {column: value for column, value in row.items() if column != "source"}
            for row in found["rows"]
            if row["source"] == f"{name}.sqlite"
        ]
        assert mine == single["rows"]
        (entry,) = (r for r in found["reports"] if r["name"] == f"{name}.sqlite")
        assert entry["ledger"] == single["ledger"]


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/x", "b/x"], ["a/x", "b/x"]),
        (["a/x", "a/x"], ["x", "x#2"]),
        (["a/x", "./a/x", "b/x", "a/x"], ["a/x", "a/x#2", "b/x", "a/x#3"]),
        (["a/x", "a/x", "a/x#2"], ["x", "x#3", "x#2"]),
        (["c/a/x", "d/a/x", "y"], ["c/a/x", "d/a/x", "y"]),
    ],
)
def test_names_are_short_and_never_collide(paths: list[str], names: list[str]) -> None:
    assert gather.unique_names(paths) == names


def test_a_link_beside_what_it_links_to_is_not_a_second_report(
    tmp_path: Path, report: Command
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        shutil.copy(DATA / "blocks.sqlite", tmp_path / name / "report.sqlite")
    (tmp_path / "latest").symlink_to("two")
    (tmp_path / "zzz").symlink_to(tmp_path / "one")
    code, out, _ = report(tmp_path, "--format", "json")
    assert code == 0
    assert [entry["name"] for entry in json.loads(out)["reports"]] == ["one", "two"]
    away = tmp_path / "away"
    away.mkdir()
    for name in ("one", "two"):  # links to elsewhere are all there is of them
        (away / name).symlink_to(tmp_path / name)
    code, out, _ = report(away, "--format", "json")
    assert [entry["name"] for entry in json.loads(out)["reports"]] == ["one", "two"]


def test_a_recording_given_twice_counts_once(
    tmp_path: Path, report: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        Path(name).mkdir()
        shutil.copy(DATA / "blocks.sqlite", f"{name}/report.sqlite")
    Path("one/report.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report ")
    os.utime("one/report.nsys-rep", (0, 0))
    Path("link.sqlite").symlink_to("two/report.sqlite")
    alone = report("one", "two", "--spread", "--format", "csv")
    assert alone[0] == 0
    assert alone[2] == ""
    again = ["one/report.sqlite", "one/report.nsys-rep", "two/", "./two", "link.sqlite"]
    code, out, err = report("one", "two", *again, "--spread", "--format", "csv")
    assert (code, out) == alone[:2]
    assert [line.split()[1] for line in err.splitlines()] == again
    # A pattern that matches a folder and what is in it.
    code, out, _ = report("[o]ne/**", "--format", "csv")
    assert len(out.splitlines()) == 1 + 3


def test_a_failed_input_costs_only_itself(tmp_path: Path, report: Command) -> None:
    broken = tmp_path / "rank3.sqlite"
    broken.write_bytes((DATA / "blocks.sqlite").read_bytes()[:20_000])
    code, out, err = report(DATA / "blocks.sqlite", broken, "--format", "json")
    assert code == 3
    found = json.loads(out)
    assert len(found["rows"]) == 3
    assert [failed["path"] for failed in found["failed"]] == [str(broken)]
    assert "rank3.sqlite" in err
    assert "Traceback" not in err
    code, out, _ = report(DATA / "blocks.sqlite", broken)
    assert code == 3
    assert "Not reported" in out


def test_all_inputs_failed(tmp_path: Path, report: Command) -> None:
    code, out, err = report(tmp_path / "a.sqlite", tmp_path / "b.sqlite")
    assert (code, out) == (3, "")
    assert "none of 2 inputs" in err


def test_files_of_one_name_do_not_collide(tmp_path: Path, report: Command) -> None:
    for rank in ("rank0", "rank1"):
        (tmp_path / rank).mkdir()
        shutil.copy(AA / f"aa{int(rank[-1]) + 1}.sqlite", tmp_path / rank / "report.sqlite")
    files = [tmp_path / rank / "report.sqlite" for rank in ("rank0", "rank1")]
    _, out, _ = report(*files, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(dict.fromkeys(row["source"] for row in rows)) == [
        "rank0/report.sqlite",
        "rank1/report.sqlite",
    ]
    # The folder of run folders stands for its runs, by their names.
    _, out, _ = report(tmp_path, "--format", "csv")
    assert {row["source"] for row in csv.DictReader(io.StringIO(out))} == {"rank0", "rank1"}


def test_processes_give_what_one_process_gives(report: Command) -> None:
    for view in ("ranges", "ops"):
        one = report(AA, "--view", view, "--format", "csv", "-j", "1")
        two = report(AA, "--view", view, "--format", "csv", "-j", "2")
        assert one == two
        assert one[0] == 0


def test_spread_by_hand(report: Command) -> None:
    # Totals of each capture alone; the spread is their minimum, median and maximum.
    alone = {}
    for number in range(1, 5):
        _, out, _ = report(AA / f"aa{number}.sqlite", "--format", "json")
        (row,) = (r for r in json.loads(out)["rows"] if r["path"] == ["eager-block", "gemm"])
        alone[f"aa{number}.sqlite"] = row["total_gpu_ns"]
    _, out, _ = report("--spread", AA, "--format", "json")
    (row,) = (r for r in json.loads(out)["rows"] if r["path"] == ["eager-block", "gemm"])
    times = sorted(alone.values())
    assert (row["min_ns"], row["max_ns"]) == (times[0], times[3])
    assert row["median_ns"] == (times[1] + times[2]) // 2
    assert alone[row["slowest"]] == times[3]
    assert (row["sources"], row["missing"], row["straggler"]) == (4, 0, False)


def test_a_pattern_that_the_shell_left_alone(
    report: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank, folder in enumerate(("a", "a/b", "a/b/c", "[x]")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(AA / "aa1.sqlite", tmp_path / folder / f"rank{rank}.sqlite")
    monkeypatch.chdir(tmp_path)
    expected = {f"rank{rank}.sqlite" for rank in range(4)}
    for pattern in ("**/*.sqlite", f"{tmp_path}/**/*.sqlite", "**/rank?.sql*"):
        code, out, err = report(pattern, "--format", "csv")
        assert code == 0, err
        assert {row["source"] for row in csv.DictReader(io.StringIO(out))} == expected
    assert report("[x]/rank3.sqlite", "--format", "csv")[0] == 0  # a name, not a pattern
    code, _, err = report("**/*.nothing", "--format", "csv")
    assert (code, err) == (3, "harness: **/*.nothing: no such file or folder\n")


@pytest.mark.parametrize("option", ["--dask", "--memory"])
def test_an_empty_variable_is_not_taken_for_nothing(report: Command, option: str) -> None:
    for blank in ("", "  "):
        code, out, err = report(AA, option, blank)
        assert (code, out) == (2, "")
        assert f"{option} '' says nothing" in err


def test_dask_without_the_package_or_a_scheduler(report: Command) -> None:
    code, _, err = report(AA, "--dask", "tcp://127.0.0.1:1")
    assert code == 4
    assert "distributed" in err or "no Dask scheduler answers" in err


# Degraded inputs: still an answer, and the reason.

HOSTILE = [
    "",
    "[red]markup[/red]",
    "esc \x1b[31m\x1b[2J",
    "right \u202e to left",
    "שלום",
    "tab\tand\nnewline",
    "L" * 3000,
    "pipe | tick ` <b>@someone</b>",
    "中" * 200,
]


@pytest.fixture
def cpu_trace(tmp_path: Path) -> Path:
    """A Chrome trace of a program that used no GPU; range i is open for i + 1 ms, twice."""
    events = [
        {"ph": "X", "cat": "user_annotation", "name": name, "pid": 7, "tid": 7,
         "ts": 1_000_000.0 * (i + 1) + 500_000.0 * again, "dur": 1000.0 * (i + 1)}
        for i, name in enumerate(HOSTILE)
        for again in (0, 1)
    ]  # fmt: skip
    file = tmp_path / "cpu.json"
    file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return file


def test_without_gpu_work_cpu_time_is_shown(cpu_trace: Path, report: Command) -> None:
    code, out, _ = report(cpu_trace)
    assert code == 0
    assert "No GPU op was recorded." in out
    (line,) = (line for line in out.splitlines() if "שלום" in line)
    assert line.split()[-5:] == ["2", "10.00", "ms", "5.000", "ms"]


@pytest.mark.parametrize("width", ["40", "100", "300"])
def test_hostile_names_break_no_table(
    width: str, cpu_trace: Path, report: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    _, out, _ = report(cpu_trace)
    assert "\x1b" not in out
    assert "\u202e" not in out
    rows = [line for line in out.splitlines() if line.endswith(" ms")]
    assert len(rows) == len(HOSTILE)
    assert any(line.startswith("(unnamed)") for line in rows)
    assert any(line.startswith("[red]markup") for line in rows)
    assert max(map(cell_len, out.splitlines())) <= int(width)


def test_hostile_names_survive_csv_and_json(cpu_trace: Path, report: Command) -> None:
    _, out, _ = report(cpu_trace, "--format", "csv")
    assert {row["name"] for row in csv.DictReader(io.StringIO(out))} == set(HOSTILE)
    _, out, _ = report(cpu_trace, "--format", "json")
    assert {row["name"] for row in json.loads(out)["rows"]} == set(HOSTILE)


def test_hostile_names_in_markdown_keep_their_cells(cpu_trace: Path, report: Command) -> None:
    _, out, _ = report(cpu_trace, "--format", "markdown")
    rows = [line for line in out.splitlines() if line.startswith("| ")]
    assert len(rows) == len(HOSTILE) + 2
    assert {line.replace("\\|", "").count("|") for line in rows} == {5}


PUBLIC = Path(
    os.environ.get("HARNESS_PUBLIC_DATA", Path(__file__).parents[3] / "shared/data/public")
)


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="strangers' recordings are not here")
@pytest.mark.parametrize("file", sorted(PUBLIC.glob("*.*")), ids=lambda file: file.name)
def test_strangers_recordings(file: Path, report: Command) -> None:
    code, out, err = report(file)
    assert code == 0
    assert "Traceback" not in err
    found = json.loads(report(file, "--format", "json")[1])
    ledger = found["ledger"]
    own = sum(row["self_gpu_ns"] for row in found["rows"])
    assert own + ledger["outside_ns"] + ledger["unlinked_ns"] == ledger["gpu_ns"]
    if not found["rows"]:
        assert "No range was recorded." in out


@pytest.mark.parametrize("option", ["--pid=1", "--filter-time=0:1s", "--domain=x"])
def test_torch_columns_left_out_by_a_filter_are_told(
    run_folder: Path, report: Command, option: str
) -> None:
    code, out, _ = report(run_folder, option, "--format", "json")
    assert code == 0
    told = {w["code"]: w["message"] for w in json.loads(out)["warnings"]}
    assert option.split("=")[0] in told["torch-left-out"]
    code, out, err = report(run_folder, option, "--view", "both")
    assert (code, out) == (2, "")
    assert option.split("=")[0] in err


@pytest.mark.parametrize("column", ["start", "end"])
@pytest.mark.parametrize("rows", ["lacking", "some"])
def test_what_is_left_of_a_damaged_export_is_reported_with_a_warning(
    tmp_path: Path, report: Command, rows: str, column: str
) -> None:
    """As for few kernels: the rest is sound, so the exit code is 0, and what is lost is named."""
    path, table = tmp_path / "report.sqlite", "CUPTI_ACTIVITY_KIND_MEMSET"
    shutil.copyfile(DATA / "train.sqlite", path)
    with sqlite3.connect(path) as db:
        if rows == "lacking":
            db.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        else:
            db.execute(f"CREATE TABLE kept AS SELECT * FROM {table}")
            db.execute(f"DROP TABLE {table}")
            db.execute(f"ALTER TABLE kept RENAME TO {table}")
            db.execute(f"UPDATE {table} SET {column} = NULL WHERE rowid = 2")
    code, out, _ = report(path, "--format", "json")
    assert code == 0
    wanted = {"lacking": "missing-columns", "some": "missing-values"}[rows]
    assert wanted in [one["code"] for one in json.loads(out)["warnings"]]
    memory = json.loads(report(path, "--format", "json", "--memory", "300M")[1])
    assert wanted in [one["code"] for one in memory["warnings"]]
