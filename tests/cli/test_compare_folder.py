# SPDX-License-Identifier: MIT
"""A folder of runs of several programs and shapes: like is compared with like."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.cells import cell_len
from running import harness

sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))

from planted import AA, GPU, captures, run_folder

from harness.comparison.groups import alike, changed_options, options_of, program_of
from harness.launch.rundir import write_baselines

REPORTS = Path(__file__).parents[2] / "reports"
BUNDLED = ("python3", "-m", "workload")


def recorded(
    target: Path, files: Sequence[Path], day: int, argv: Sequence[str], **facts: object
) -> None:
    run_folder(target, files, created=f"2026-01-{day:02}T10:00:00+00:00", **facts)
    file = target / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "argv": list(argv)}))


def shape(rows: int, device: str = "cuda:0") -> dict[str, object]:
    return {"workload": {"shape": [rows, 8], "dtype": "fp32", "machine": {"device": device}}}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two shapes of the bundled workload, two programs, one run on another kind of GPU."""
    root = tmp_path_factory.mktemp("folder")
    folder = root / "reports"
    slower = captures(root / "slower", AA[1:], "chain", 1.05)
    recorded(folder / "small", AA[:3], 1, BUNDLED, **shape(4))
    recorded(folder / "big", AA[:3], 2, [*BUNDLED, "--shape", "8x8"], **shape(8))
    recorded(folder / "train", AA[:3], 3, ["python", "train.py", "--steps", "4"])
    recorded(folder / "small-tf32", slower, 4, [*BUNDLED, "--tf32"], **shape(4))
    recorded(folder / "train-8", AA[1:], 5, ["python3.12", "-u", "./train.py", "--steps", "8"])
    other = {"gpu": [{**GPU, "name": "NVIDIA B200"}]}
    recorded(folder / "elsewhere", AA[:3], 6, BUNDLED, **shape(4), **other)
    return folder


def pairs(document: dict[str, object]) -> list[tuple[str, str]]:
    others = document.get("others", [])
    assert isinstance(others, list)
    return [(each["base"]["name"], each["new"]["name"]) for each in (document, *others)]


def test_only_runs_of_one_program_shape_and_gpu_are_compared(reports: Path) -> None:
    done = harness(reports.parent, "compare", "reports", "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "harness.compare/1"
    assert pairs(document) == [("train", "train-8"), ("small", "small-tf32")]
    assert document["alone"] == ["big", "elsewhere"]


def test_the_overview_has_a_line_a_run_and_names_who_is_alone(reports: Path) -> None:
    done = harness(reports.parent, "compare", "reports", "--all")
    lines = done.stdout.splitlines()
    assert lines[0] == "reports: 6 runs, 2 groups of one program, shape and GPU each, 2 comparisons"
    assert lines[1] == "alone: big, elsewhere"
    assert "train.py · NVIDIA H200: against train" in lines
    assert "-m workload · 4x8 fp32 cuda · NVIDIA H200: against small" in lines
    (line,) = (line for line in lines if line.startswith("small-tf32 "))
    # chain 5 % longer, and its block with it; gemm not.
    assert " ".join(line.split()) == "small-tf32 2 1 eager-block / chain 1.051 --tf32"
    (line,) = (line for line in lines if line.startswith("train-8 "))
    assert line.endswith("8, without 4")
    assert done.stdout.index("train → train-8") < done.stdout.index("small → small-tf32")
    assert max(map(cell_len, lines)) <= 100


def test_below_the_overview_is_the_newest_comparison_and_a_word_of_the_others(
    reports: Path,
) -> None:
    done = harness(reports.parent, "compare", "reports")
    assert "train → train-8" in done.stdout
    assert "small → small-tf32" not in done.stdout
    assert "--all shows the other one," in done.stdout
    every = harness(reports.parent, "compare", "reports", "--all").stdout
    assert "small → small-tf32" in every
    assert "--all" not in every
    for more in (
        ("small", "small-tf32"),
        ("small", "--baseline", "small-tf32"),
        (".", "--newest"),
        (".", "--fail-on", "slower"),
    ):
        refused = harness(reports, "compare", *more, "--all")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "--all" in refused.stderr


def test_a_link_to_another_run_of_the_folder_is_not_a_run_of_its_own(
    reports: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "small").symlink_to(reports / "small")
    (folder / "small-tf32").symlink_to(reports / "small-tf32")
    shutil.copytree(reports / "train", folder / "train")
    (folder / "latest").symlink_to("train")  # sorts before its target, and is left out for it
    done = harness(tmp_path, "compare", "reports", "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert pairs(document) == [("small", "small-tf32")]
    assert document["alone"] == ["train"]


def test_markdown_and_csv_have_the_same_comparisons(reports: Path) -> None:
    done = harness(reports.parent, "compare", "reports", "--format", "markdown")
    assert done.stdout.startswith("### reports: 6 runs")
    assert "| `small-tf32` |" in done.stdout
    done = harness(reports.parent, "compare", "reports", "--format", "csv")
    rows = csv.DictReader(io.StringIO(done.stdout))
    assert {(row["base"], row["new"]) for row in rows} == {
        ("train", "train-8"), ("small", "small-tf32"),
    }  # fmt: skip
    assert "alone: big, elsewhere" in done.stderr


def test_a_named_baseline_is_compared_with_every_run(reports: Path) -> None:
    done = harness(reports.parent, "compare", "reports", "--baseline", "small", "--format", "json")
    document = json.loads(done.stdout)
    assert [new for _, new in pairs(document)] == [
        "elsewhere", "train-8", "small-tf32", "train", "big",
    ]  # fmt: skip
    assert "alone" not in document


def test_a_question_about_a_run_with_none_like_it_has_no_answer(reports: Path) -> None:
    for question in (("--newest",), ("--fail-on", "slower")):
        done = harness(reports.parent, "compare", "reports", *question)
        assert (done.returncode, done.stdout) == (3, "")
        assert "the newest run, elsewhere, is the only one of its program" in done.stderr
        assert "NVIDIA B200" in done.stderr


def test_a_gate_is_about_the_newest_run_and_those_like_it(reports: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    for name in ("small", "train", "small-tf32"):
        (folder / name).symlink_to(reports / name)
    done = harness(tmp_path, "compare", "reports", "--fail-on", "slower", "--format", "json")
    assert done.returncode == 1
    assert pairs(json.loads(done.stdout)) == [("small", "small-tf32")]
    # With a saved baseline the gate is against that, whatever the newest run is: none is weaker.
    write_baselines(folder, {"main": "train"})
    done = harness(tmp_path, "compare", "reports", "--newest", "--format", "json")
    assert pairs(json.loads(done.stdout)) == [("train", "small-tf32")]


def test_a_saved_baseline_is_that_of_its_own_group(reports: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    for run in reports.iterdir():
        (folder / run.name).symlink_to(run)
    write_baselines(folder, {"main": "small-tf32"})
    done = harness(tmp_path, "compare", "reports", "--format", "json")
    assert pairs(json.loads(done.stdout)) == [("train", "train-8"), ("small-tf32", "small")]


def test_no_two_alike(reports: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    for name in ("big", "train"):
        (folder / name).symlink_to(reports / name)
    done = harness(tmp_path, "compare", "reports")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no two of its 2 runs are of one program" in done.stderr
    assert "harness compare BASE NEW" in done.stderr


def test_one_pair_is_shown_in_full_below_the_overview(reports: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    for name in ("small", "small-tf32", "train"):
        (folder / name).symlink_to(reports / name)
    done = harness(tmp_path, "compare", "reports")
    assert "alone: train" in done.stdout
    assert "\nWhy\n" in done.stdout
    (folder / "train").unlink()  # nothing to give an overview of
    done = harness(tmp_path, "compare", "reports")
    assert "alone" not in done.stdout
    assert not done.stdout.startswith("reports:")


def test_the_recorded_runs_of_this_repository() -> None:
    """What quickstart ends with: every pair is comparable, and it fits a few screens."""
    done = harness(REPORTS.parent, "compare", "reports")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) < 120  # with the warnings of all
    assert any(line.startswith("h200-tf32 ") for line in done.stdout.splitlines())
    # Whom a warning is about; what several say alike is said once.
    assert "\nh200-train → h200-train-graphs: 26 ranges without GPU work" in done.stdout
    assert done.stdout.count("which GPU it was is not on record") == 1
    assert done.stdout.count("[nsys-diagnostic]") == 2
    done = harness(REPORTS.parent, "compare", "reports", "--all")
    assert done.returncode == 0, done.stderr
    assert "h200-fp32 → h200-tf32" in done.stdout
    warned = " ".join(done.stdout[done.stdout.rindex("\nWarnings") :].split())
    assert " more: " not in warned
    assert "h200-fp32 → h200-tf32: 1 and 1 capture: " in warned
    assert "not comparable" not in done.stdout
    screens = 40 * (1 + done.stdout.count(" → h200"))
    assert len(done.stdout.splitlines()) < screens


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        ("python train.py --steps 3", "train.py"),
        ("/usr/bin/python3.12 -u -X dev ./train.py", "train.py"),
        ("python -m pkg.train --lr 1", "-m pkg.train"),
        ("torchrun --nproc-per-node 2 train.py --lr 1", "train.py"),
        ("python -m torch.distributed.run --nproc-per-node 2 train.py", "train.py"),
        ("env A=1 python examples/train.py", "examples/train.py"),
        ("uv run train.py", "train.py"),
        ("bash -e run.sh 3", "run.sh"),
        ("/opt/tool/bin/infer --batch 3", "infer"),
        ("", ""),
    ],
)
def test_the_program_of_a_command_line(argv: str, program: str) -> None:
    assert program_of(argv.split()) == program


def test_groups_keep_order_and_the_newest_comes_first() -> None:
    kinds = [program_of(["python", name]) for name in ("a.py", "b.py", "a.py", "c.py", "b.py")]
    found = alike(list(zip(kinds, range(5), strict=True)))
    assert found == [("b.py", [1, 4]), ("c.py", [3]), ("a.py", [0, 2])]


@pytest.mark.parametrize(
    ("base", "new", "said"),
    [
        ("python t.py", "python3 -u ./t.py --tf32", "--tf32"),
        ("python t.py --a 1 --b 1", "python t.py --a 2 --b 1", "2, without 1"),
        ("torchrun -n 2 t.py --compiled", "python -m x", "without --compiled"),
        ("infer 3", "bin/infer 3", ""),
    ],
)
def test_changed_options(base: str, new: str, said: str) -> None:
    given = (options_of(command.split()) for command in (base, new))
    assert changed_options(*given) == said
