# SPDX-License-Identifier: MIT
"""``harness report`` from the command line, on real recordings of an H200."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from harness.cli import main

DATA = Path(__file__).parents[1] / "data" / "h200"
AA = Path(__file__).parents[1] / "data" / "aa"
SNAPSHOTS = Path(__file__).parent / "snapshots"

Result = tuple[int, str, str]
Command = Callable[..., Result]


@pytest.fixture
def report(capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Runs ``harness report ARGS`` and returns exit code, stdout, stderr."""

    def call(*args: object) -> Result:
        with pytest.raises(SystemExit) as stop:
            main(["report", *map(str, args)])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return int(stop.value.code or 0), out.decode(), err.decode()

    return call


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    harness = f"{sys.executable} -m harness report"
    return subprocess.run(
        ["bash", "-c", command.replace("harness report", harness)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """The train scenario as a run folder: both recordings, and a ``run.json``."""
    folder = tmp_path / "train"
    folder.mkdir()
    shutil.copy(DATA / "train.sqlite", folder / "report.sqlite")
    shutil.copy(DATA / "train.trace.json.gz", folder / "torch_trace.json.gz")
    passes = [
        {"name": name, "argv": [], "exit_code": 0, "duration_s": seconds, "log": f"{name}.log"}
        for name, seconds in (("plain", 8.0), ("torch", 10.0), ("nsys", 12.0))
    ]
    run = {
        "schema": "harness.run/1",
        "name": "train",
        "complete": True,
        "argv": ["python", "train.py"],
        "created": "2026-01-02T03:04:05+00:00",
        "gpu": [{"name": "NVIDIA H200", "driver": "580.95.05"}],
        "versions": {"torch": "2.11.0", "cuda": "13.0"},
        "passes": passes,
        "workload": None,
    }
    (folder / "run.json").write_text(json.dumps(run))
    operators = [
        {"name": "aten::mm", "input_shapes": None, "count": 3, "self_device_ns": 700,
         "device_ns": 700, "self_cpu_ns": 40, "cpu_ns": 60},
        {"name": "aten::add", "input_shapes": None, "count": 2, "self_device_ns": 900,
         "device_ns": 900, "self_cpu_ns": 20, "cpu_ns": 20},
    ]  # fmt: skip
    (folder / "torch_ops.json").write_text(json.dumps(operators))
    by_shape = [
        dict(operators[1], input_shapes=shape, count=1, self_device_ns=450)
        for shape in ("[[8, 4], [8, 4]]", "[[2], [2]]")
    ]
    (folder / "torch_ops_by_shape.json").write_text(json.dumps(by_shape))
    return folder


# What people see: snapshots at 100 columns. HARNESS_UPDATE_SNAPSHOTS=1 rewrites them.


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("blocks", ["blocks.sqlite"]),
        ("train", ["train.sqlite"]),
        ("nested", ["nested.sqlite"]),
        ("graph_graph", ["graph_graph.sqlite"]),
        ("memops", ["memops.sqlite"]),
        ("crash", ["crash.sqlite"]),
        ("train_torch", ["train.trace.json.gz"]),
        ("train_kernels", ["train.sqlite", "--view", "kernels", "--top", "8"]),
        ("train_ops", ["train.sqlite", "--view", "ops", "--top", "5"]),
        ("train_names_sorted", ["train.sqlite", "--view", "names", "--sort", "self"]),
        ("train_ranges_sorted", ["train.sqlite", "--sort", "self", "--top", "3"]),
        ("two_reports", ["blocks.sqlite", "train.sqlite"]),
    ],
)
def test_snapshot(
    name: str, args: list[str], report: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(DATA)
    monkeypatch.setenv("COLUMNS", "100")
    code, out, _ = report(*args)
    assert code == 0
    check_snapshot(name, out)


def test_snapshot_of_a_run(
    run_folder: Path, report: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    check_snapshot("run", report(run_folder)[1])
    check_snapshot("run_markdown", report(run_folder, "--format", "markdown")[1])


def test_snapshot_of_a_spread(report: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    check_snapshot("spread", report("--spread", AA)[1])


def check_snapshot(name: str, out: str) -> None:
    file = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("HARNESS_UPDATE_SNAPSHOTS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(out, encoding="utf-8")
    assert out == file.read_text(encoding="utf-8")
    assert "\x1b" not in out


# The numbers in them, against figures worked out by hand (tests/data) and by NVIDIA.


def test_blocks_by_hand(report: Command) -> None:
    # Data README: kernels alone; the copies (530 239 ns) are outside too.
    _, out, _ = report(DATA / "blocks.sqlite", "--format", "json")
    found = json.loads(out)
    times = {tuple(r["path"]): (r["total_kernel_ns"], r["kernels"]) for r in found["rows"]}
    assert times == {
        ("eager-block",): (4_364_564, 60),
        ("eager-block", "gemm"): (3_488_535, 10),
        ("eager-block", "chain"): (876_029, 50),
    }
    ledger = found["ledger"]
    assert ledger["outside_ns"] == 1_365_885 + 530_239
    assert ledger["balanced"] is True
    assert (found["schema"], found["policy"]) == ("harness.report/1", "autograd")
    assert found["source"]["kind"] == "nsys"
    assert found["source"]["version"].startswith("2025.3")


def test_backward_by_hand(report: Command) -> None:
    # Issue and data README: 5 600 ns by rule thread, 2 492 569 by autograd, 24 memsets.
    _, out, _ = report(DATA / "train.sqlite", "--format", "csv")
    rows = {row["path"]: row for row in csv.DictReader(io.StringIO(out))}
    backward = rows["step / backward"]
    assert int(backward["self_kernel_ns"]) == 5_600 + 2_492_569
    assert (backward["kernels"], backward["memsets"]) == ("128", "24")


@pytest.mark.parametrize("name", ["blocks", "memops", "crash", "graph_node"])
def test_kernels_equal_nvidias_table(name: str, report: Command) -> None:
    _, out, _ = report(
        DATA / f"{name}.sqlite", "--view", "kernels", "--policy", "thread",
        "--names", "demangled", "--format", "csv",
    )  # fmt: skip
    ours = sorted(
        (row["name"], row["pid"], row["kernel"], int(row["kernels"]), int(row["total_ns"]))
        for row in csv.DictReader(io.StringIO(out))
    )
    with (DATA / "nsys_stats" / f"{name}.nvtx_kern_sum.csv").open() as file:
        theirs = sorted(
            (
                row["NVTX Range"].removeprefix(":"),
                row["PID"],
                row["Kernel Name"],
                int(row["Kern Inst"]),
                int(row["Total Time (ns)"]),
            )
            for row in csv.DictReader(line for line in file if line.strip())
        )
    assert theirs
    assert ours == theirs


@pytest.mark.parametrize("policy", ["thread", "autograd", "process"])
@pytest.mark.parametrize("name", ["nested", "train", "graph_graph", "memops"])
def test_the_ledger_adds_up_from_the_rows(name: str, policy: str, report: Command) -> None:
    _, out, _ = report(DATA / f"{name}.sqlite", "--policy", policy, "--format", "json")
    found = json.loads(out)
    ledger = found["ledger"]
    own = sum(row["self_gpu_ns"] for row in found["rows"])
    assert own == ledger["attributed_ns"] == sum(ledger["by_rule"].values())
    assert own + ledger["outside_ns"] + ledger["unlinked_ns"] == ledger["gpu_ns"]
    _, out, _ = report(
        DATA / f"{name}.sqlite", "--policy", policy, "--view", "ops", "--format", "csv"
    )
    ops = list(csv.DictReader(io.StringIO(out)))
    assert len(ops) == ledger["gpu_ops"]
    assert sum(int(op["end_ns"]) - int(op["start_ns"]) for op in ops) == ledger["gpu_ns"]


def test_csv_and_json_hold_the_same(report: Command) -> None:
    for view in ("ranges", "names", "kernels", "ops", "instances"):
        _, as_csv, _ = report(DATA / "nested.sqlite", "--view", view, "--format", "csv")
        _, as_json, _ = report(DATA / "nested.sqlite", "--view", view, "--format", "json")
        rows = json.loads(as_json)["rows"]
        table = list(csv.reader(io.StringIO(as_csv)))
        assert table[0] == list(rows[0])
        assert table[1:] == [[flat(value) for value in row.values()] for row in rows]


def flat(value: Any) -> str:
    if isinstance(value, list):
        return " / ".join(value)
    return "" if value is None else str(value)


def test_odd_names_survive(report: Command) -> None:
    _, out, _ = report(DATA / "nested.sqlite", "--format", "json")
    names = {row["name"] for row in json.loads(out)["rows"]}
    assert {"", 'quote " comma , newline \n tab \t end', "é中文🚀", "L" * 3000} <= names


# Sorting and cutting.


def test_top_keeps_the_tree_and_its_ancestors(report: Command) -> None:
    _, out, _ = report(DATA / "train.sqlite", "--top", "2", "--format", "json")
    assert [row["path"] for row in json.loads(out)["rows"]] == [["step"], ["step", "backward"]]


def test_csv_is_never_cut_unless_asked(report: Command) -> None:
    _, out, _ = report(DATA / "train.sqlite", "--view", "ops", "--format", "csv")
    assert len(out.splitlines()) == 309  # 308 ops
    _, out, _ = report(DATA / "train.sqlite", "--view", "ops")
    assert "268 more rows not shown" in out


def test_sort_directions(report: Command) -> None:
    def order(sort: str) -> list[str]:
        _, out, _ = report(DATA / "train.sqlite", "--sort", sort, "--format", "csv")
        return [row["name"] for row in csv.DictReader(io.StringIO(out))]

    assert order("total") == ["step", "backward", "forward", "optimizer"]
    assert order("total_gpu_ns:asc") == ["optimizer", "forward", "backward", "step"]
    assert order("name") == ["backward", "forward", "optimizer", "step"]


def test_sort_by_what_is_no_column(report: Command) -> None:
    code, _, err = report(DATA / "train.sqlite", "--sort", "speed")
    assert code == 2
    assert "cannot sort by 'speed'" in err
    assert "total_gpu_ns" in err


# A run folder: both recordings.


def test_json_of_a_run_has_both_recordings(run_folder: Path, report: Command) -> None:
    _, out, _ = report(run_folder, "--format", "json")
    found = json.loads(out)
    assert found["source"]["path"] == str(run_folder / "report.sqlite")
    both = {tuple(row["path"]): row for row in found["side_by_side"]}
    row = both["step", "backward"]
    assert (row["nsys_kernels"], row["torch_kernels"]) == (128, 128)
    assert abs(row["ratio"] - 1) < 0.03
    assert both["step", "optimizer", "Optimizer.step#Adam.step"]["code"] == "torch-own"


def test_view_torch(run_folder: Path, report: Command) -> None:
    _, out, _ = report(run_folder, "--view", "torch", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["name"], row["self_device_ns"]) for row in rows] == [
        ("aten::add", "900"),
        ("aten::mm", "700"),
    ]
    _, out, _ = report(run_folder, "--view", "torch", "--by-shape")
    assert "[[8, 4], [8, 4]]" in out
    assert "[[2], [2]]" in out


def test_view_torch_without_the_tables(report: Command) -> None:
    code, out, err = report(DATA / "train.sqlite", "--view", "torch")
    assert (code, out) == (3, "")
    assert "torch_ops.json" in err
    assert "torch pass" in err


def test_view_both_needs_a_run(report: Command) -> None:
    code, _, err = report(DATA / "train.sqlite", "--view", "both")
    assert code == 2
    assert "run folder" in err


def test_an_interrupted_run_says_so(run_folder: Path, report: Command) -> None:
    run = json.loads((run_folder / "run.json").read_text())
    run["complete"] = False
    run["passes"][2]["exit_code"] = 3
    run["skipped"] = [{"pass": "torch", "reason": "torch is not installed"}]
    (run_folder / "run.json").write_text(json.dumps(run))
    _, out, _ = report(run_folder)
    assert "INCOMPLETE" in out
    assert "The nsys pass exited with 3: see nsys.log" in out
    assert "No torch pass: torch is not installed" in out


def test_show_run_prints_the_default_table(
    run_folder: Path, report: Command, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from harness.cli.report import show_run

    show_run(run_folder)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out.decode() == report(run_folder)[1]


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


def test_dask_without_the_package_or_a_scheduler(report: Command) -> None:
    code, _, err = report(AA, "--dask", "tcp://127.0.0.1:1")
    assert code == 4
    assert "distributed" in err or "no Dask scheduler answers" in err


# Where the output goes.


def test_a_file_gets_the_format_of_its_suffix(tmp_path: Path, report: Command) -> None:
    code, out, _ = report(DATA / "blocks.sqlite", "-o", tmp_path / "r.json")
    assert (code, out) == (0, "")
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == "harness.report/1"
    report(DATA / "blocks.sqlite", "-o", tmp_path / "r.md")
    assert (tmp_path / "r.md").read_text().startswith("### blocks.sqlite")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["r.json", "r.md"]


def test_an_unwritable_file(tmp_path: Path, report: Command) -> None:
    code, _, err = report(DATA / "blocks.sqlite", "-o", tmp_path / "no" / "r.json")
    assert code == 3
    assert "cannot be written" in err


def test_a_failed_report_leaves_no_file(tmp_path: Path, report: Command) -> None:
    code, _, _ = report(tmp_path / "absent.sqlite", "-o", tmp_path / "r.json")
    assert code == 3
    assert list(tmp_path.iterdir()) == []


def test_piped_output_is_plain() -> None:
    done = shell(f"harness report {DATA}/blocks.sqlite | cat", TERM="xterm-256color", COLUMNS="")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_head_ends_it_quietly() -> None:
    done = shell(
        "set -o pipefail; for i in 1 2 3; do "
        f"harness report {DATA}/train.sqlite --view ops --format json | head -c 100; "
        "echo; done"
    )
    assert done.stderr == ""
    assert done.stdout.count('{"schema": "harness.report/1"') == 3


def test_an_ascii_terminal_is_no_accident() -> None:
    done = shell(f"harness report {DATA}/nested.sqlite", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "us" in done.stdout


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_colour_on_a_terminal(environment: dict[str, str], coloured: bool) -> None:
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "harness", "report", str(DATA / "blocks.sqlite")],
        stdout=theirs,
        env={**env, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    out = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not piece:
            break
        out += piece
    assert done.wait() == 0
    assert (b"\x1b[" in out) is coloured


# Usage and help.


def test_nothing_to_report(report: Command) -> None:
    code, out, err = report()
    assert (code, out) == (2, "")
    assert "nothing to report" in err


@pytest.mark.parametrize(
    "args",
    [
        ["--view", "everything"],
        ["--policy", "guess"],
        ["--by-shape"],
        ["--spread", "--view", "ops"],
        ["--top", "-1"],
    ],
)
def test_wrong_usage(args: list[str], report: Command) -> None:
    code, out, err = report(DATA / "blocks.sqlite", *args)
    assert (code, out) == (2, "")
    assert err
    assert "Traceback" not in err


def test_explain_a_column(report: Command) -> None:
    code, out, _ = report("--explain", "busy_ns")
    assert code == 0
    assert "union" in out
    assert report("--explain", "Share")[0] == 0
    code, _, err = report("--explain", "total_gpu")
    assert code == 2
    assert "total_gpu_ns" in err
    assert "busy_ns" in report("--columns")[1]


def test_neither_torch_nor_rich_for_csv() -> None:
    script = (
        "import sys; from harness.cli import main\n"
        "try: main(['report', sys.argv[1], '--format', 'csv'])\n"
        "except SystemExit: pass\n"
        "bad = {'torch', 'rich'} & set(sys.modules)\n"
        "assert not bad, bad"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(DATA / "blocks.sqlite")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_help_needs_no_pandas() -> None:
    script = (
        "import sys; from harness.cli import main\n"
        "try: main(['report', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'pandas', 'numpy', 'torch', 'rich'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_small_report_takes_less_than_a_second() -> None:
    # CPU time, the best of three: what it takes on a machine that does nothing else.
    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert shell(f"harness report {DATA}/blocks.sqlite").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(once() for _ in range(3)) < 1.0


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


# Filters.


def ledger_and_rows(report: Command, *args: str) -> tuple[dict[str, Any], dict[str, Any]]:
    code, out, _ = report(DATA / "train.sqlite", *args, "--format", "json")
    assert code == 0
    found = json.loads(out)
    ledger = found["ledger"]
    assert ledger["gpu_ns"] == (
        ledger["attributed_ns"] + ledger["outside_ns"] + ledger["unlinked_ns"] + ledger["hidden_ns"]
    )
    assert ledger["attributed_ns"] == sum(row["self_gpu_ns"] for row in found["rows"])
    return ledger, {" / ".join(row["path"]): row for row in found["rows"]}


def test_skip_leaves_out_the_first_instances(report: Command) -> None:
    ledger, rows = ledger_and_rows(report, "--skip", "3")
    assert {row["instances"] for row in rows.values()} == {5}
    # scenarios.py: 16 backward kernels and 3 sets a step; three of eight steps are left out.
    assert (rows["step / backward"]["kernels"], rows["step / backward"]["memsets"]) == (80, 15)
    assert ledger["hidden_ops"] == 120


def test_a_range_filter_keeps_the_path_readable(report: Command) -> None:
    _, out, _ = report(DATA / "train.sqlite", "--range", "^forw")
    assert "\nstep / forward" in out
    assert "Selected: ranges matching ^forw" in out
    assert "hidden" in out


@pytest.mark.parametrize(
    "args",
    [
        ["--kernel", "gemm"],
        ["--device", "0"],
        ["--device", "7"],
        ["--pid", "558"],
        ["--pid", "1"],
        ["--domain", ""],
        ["--domain", "nope"],
        ["--steady"],
        ["--filter-time", "0:8.8s"],
        ["--filter-time", "9s:"],
        ["--skip", "100"],
        ["--range", "backward", "--kernel", "gemm", "--skip", "1"],
    ],
)
def test_the_ledger_balances_under_every_filter(args: list[str], report: Command) -> None:
    ledger_and_rows(report, *args)
    assert report(DATA / "train.sqlite", *args)[0] == 0


@pytest.mark.parametrize(
    "args",
    [["--range", "("], ["--kernel", "["], ["--filter-time", "5"], ["--filter-time", "x:y"],
     ["--filter-time", "2s:1s"]],
)  # fmt: skip
def test_a_filter_that_does_not_parse(args: list[str], report: Command) -> None:
    code, out, err = report(DATA / "train.sqlite", *args)
    assert (code, out) == (2, "")
    assert args[0] in err


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("1.5s:2s", (1_500_000_000, 2_000_000_000)),
        (":100", (None, 100)),
        ("0.1us:", (100, None)),
        ("1.000000001s:9223372036s", (1_000_000_001, 9_223_372_036_000_000_000)),
        (":", (None, None)),
    ],
)
def test_times_of_a_filter(text: str, window: tuple[int | None, int | None]) -> None:
    from harness.cli.filters import parse_window

    assert parse_window(text) == window
