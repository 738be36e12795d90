# SPDX-License-Identifier: MIT
"""``harness compare`` from the command line: every verdict, format and exit code, on run folders
made of real captures of an H200."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))

from planted import AA, DATA, GPU, captures, kernels_called, range_called, run_folder, scaled

from harness.cli import main
from harness.launch.rundir import Run, RunFolder, write_baselines

Result = tuple[int, str, str]
Command = Callable[..., Result]


@pytest.fixture
def compare(capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Runs ``harness compare ARGS`` and returns exit code, stdout, stderr."""

    def call(*args: object) -> Result:
        with pytest.raises(SystemExit) as stop:
            main(["compare", *map(str, args)])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return int(stop.value.code or 0), out.decode(), err.decode()

    return call


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs of three captures each, oldest first: before, a faster gemm, a slower
    chain; one on another GPU; one that was interrupted."""
    root = tmp_path_factory.mktemp("compare")
    reports = root / "reports"
    run_folder(reports / "before", AA[:3], created="2026-01-01T10:00:00+00:00")
    faster = captures(root / "faster", AA[1:], "gemm", 1 / 1.7)
    for file in faster:
        kernels_called(file, "gemm", "gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32")
    run_folder(reports / "tf32", faster, created="2026-01-02T10:00:00+00:00")
    slower = captures(root / "slower", AA[1:], "chain", 1.05)
    run_folder(reports / "slower-chain", slower, created="2026-01-03T10:00:00+00:00")
    with RunFolder(reports / "broken", Run("broken", ["x"], "2025-12-31T10:00:00+00:00")) as folder:
        shutil.copyfile(AA[0], folder.path / "report.sqlite")
    return reports


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("elsewhere")
    other = [{**GPU, "uuid": "GPU-0000"}]
    alike = captures(root / "alike", AA[1:], "chain", 1.0005)
    return run_folder(root / "other-gpu", alike, created="2026-01-05T10:00:00+00:00", gpu=other)


def words(document: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["verdict"] for row in document["rows"]}


def test_table(compare: Command, reports: Path) -> None:
    code, out, err = compare(reports / "before", reports / "tf32")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("eager-block 1.49\u00d7 faster (1.49\u20131.49): gemm now runs tf32")
    assert "chain unchanged" in " ".join(lines[:4])
    assert "before \u2192 tf32 \u00b7 3 against 3 captures" in out
    table = [line for line in lines if line.startswith("eager-block /")]
    assert "/ gemm" in table[0]  # most changed first
    assert table[0].split()[-1] == "faster"
    assert table[1].split()[-1] == "same"
    assert max(map(cell_len, lines)) <= 100
    assert "\x1b" not in out  # plain when piped
    assert err == ""


def test_json_is_the_contract(compare: Command, reports: Path) -> None:
    code, out, _ = compare(reports / "before", reports / "slower-chain", "--format", "json")
    assert code == 0
    document = json.loads(out)
    assert document["schema"] == "harness.compare/1"
    assert document["threshold"] == 0.01
    assert document["base"]["name"] == "before"
    assert document["new"]["captures"] == 3
    assert words(document) == {"chain": "slower", "eager-block": "slower", "gemm": "same"}
    chain = document["rows"][0]
    assert chain["path"] == ["eager-block", "chain"]
    assert chain["ci_low"] < chain["ratio"] < chain["ci_high"]
    assert chain["ratio"] == pytest.approx(1.05, abs=0.005)
    assert (chain["n_base"], chain["n_new"]) == (3, 3)
    assert 0 < chain["p"] <= chain["p_adjusted"] < 0.05
    # Three against three: no rank test gets below one in ten.
    assert chain["p_rank"] == pytest.approx(0.1)


def test_csv_has_the_json_names(compare: Command, reports: Path) -> None:
    pair = (reports / "before", reports / "tf32")
    _, out, _ = compare(*pair, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    document = json.loads(compare(*pair, "--format", "json")[1])
    assert list(rows[0]) == list(document["rows"][0])
    assert [row["path"] for row in rows] == [" / ".join(r["path"]) for r in document["rows"]]
    assert [int(row["base_ns"]) for row in rows] == [r["base_ns"] for r in document["rows"]]


def test_markdown_fits_a_comment(compare: Command, reports: Path) -> None:
    code, out, _ = compare(reports / "before", reports / "tf32", "--format", "markdown")
    assert code == 0
    assert out.startswith("### eager-block 1.49\u00d7 faster")
    assert "| Range | Base | New | Ratio |" in out
    assert "| `eager-block / gemm` |" in out
    assert "```text" in out
    assert len(out) < 65_536


def test_output_file_decides_the_format(compare: Command, reports: Path, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    code, out, _ = compare(reports / "before", reports / "tf32", "-o", target)
    assert (code, out) == (0, "")
    assert json.loads(target.read_text())["schema"] == "harness.compare/1"


def test_verdict_unsure(compare: Command, tmp_path: Path) -> None:
    factors = zip(AA, (0.988, 1, 1.012), strict=False)
    loud = [scaled(f, tmp_path / "loud" / f.name, "chain", k) for f, k in factors]
    base = run_folder(tmp_path / "loud-run", loud, created="2026-01-01T00:00:00+00:00")
    new = run_folder(tmp_path / "quiet-run", AA[:3], created="2026-01-02T00:00:00+00:00")
    code, out, _ = compare(base, new)
    assert code == 0
    assert "captures a side would settle it" in " ".join(out.split())
    assert compare(base, new, "--fail-on", "slower")[0] == 3  # fails closed


def test_verdicts_new_and_gone(compare: Command, reports: Path, tmp_path: Path) -> None:
    renamed = [range_called(f, tmp_path / f.name, "eager-block", "block") for f in AA[:3]]
    new = run_folder(tmp_path / "renamed", renamed, created="2026-01-02T00:00:00+00:00")
    _, out, _ = compare(reports / "before", new, "--format", "json")
    found = {tuple(row["path"]): row["verdict"] for row in json.loads(out)["rows"]}
    assert found["block",] == "new"
    assert found["eager-block",] == "gone"
    # Nothing that contains them was compared: the gate cannot tell.
    assert compare(reports / "before", new, "--fail-on", "slower")[0] == 3


@pytest.mark.parametrize(
    ("new", "rule", "code"),
    [
        ("tf32", "slower", 0),
        ("slower-chain", "slower", 1),
        ("slower-chain", "slower:4", 1),
        ("slower-chain", "slower:10", 0),
        ("slower-chain", "slower:5", None),  # 5 % planted: 1 or 3 by a hair, never a pass
    ],
)
def test_gate(compare: Command, reports: Path, new: str, rule: str, code: int | None) -> None:
    got, out, _ = compare(reports / "before", reports / new, "--fail-on", rule)
    assert got == code if code is not None else got in (1, 3)
    assert ("regressed: " in out) == (got == 1)


def test_gate_says_so_on_stderr_when_stdout_is_for_machines(
    compare: Command, reports: Path
) -> None:
    pair = (reports / "before", reports / "slower-chain")
    code, out, err = compare(*pair, "--fail-on", "slower", "--format", "json")
    assert code == 1
    assert json.loads(out)["gate"]["exit_code"] == 1
    assert "regressed: eager-block / chain, eager-block" in err


def test_other_gpu_is_not_compared_unless_forced(
    compare: Command, reports: Path, elsewhere: Path
) -> None:
    """The same workload ran 7 % apart on two H200s."""
    code, out, _ = compare(reports / "before", elsewhere, "--format", "json")
    document = json.loads(out)
    assert code == 0
    assert set(words(document).values()) == {"unsure"}
    assert "GPU UUID" in document["rows"][0]["reason"]
    assert document["summary"].startswith("not comparable, no verdicts: GPU UUID")
    assert compare(reports / "before", elsewhere, "--fail-on", "slower")[0] == 3
    code, out, _ = compare(reports / "before", elsewhere, "--force", "--format", "json")
    assert set(words(json.loads(out)).values()) == {"same"}
    assert "forced" in {warning["code"] for warning in json.loads(out)["warnings"]}
    assert compare(reports / "before", elsewhere, "--force", "--fail-on", "slower")[0] == 0


def test_folder_compares_all_runs_with_the_oldest_newest_first(
    compare: Command, reports: Path
) -> None:
    code, out, _ = compare(reports, "--format", "json")
    document = json.loads(out)
    assert code == 0
    assert (document["base"]["name"], document["new"]["name"]) == ("before", "slower-chain")
    assert [other["new"]["name"] for other in document["others"]] == ["tf32"]
    assert "broken.incomplete is incomplete: left out" in {
        warning["message"] for warning in document["warnings"]
    }
    _, table, _ = compare(reports, "--all")
    assert table.index("before \u2192 slower-chain") < table.index("before \u2192 tf32")
    _, table, _ = compare(reports, "--newest")
    assert "tf32" not in table
    _, text, _ = compare(reports, "--format", "csv")
    assert {row["new"] for row in csv.DictReader(io.StringIO(text))} == {"slower-chain", "tf32"}


def test_the_gate_is_about_the_newest_run(compare: Command, reports: Path) -> None:
    assert compare(reports, "--fail-on", "slower")[0] == 1
    assert compare(reports / "tf32", "--baseline", "before", "--fail-on", "slower")[0] == 0


def test_baselines(compare: Command, reports: Path, tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    shutil.copytree(reports, folder)
    write_baselines(folder, {"main": "tf32"})
    for name in ("main", "tf32"):
        _, out, _ = compare(folder, "--baseline", name, "--newest", "--format", "json")
        document = json.loads(out)
        assert (document["base"]["name"], document["new"]["name"]) == ("tf32", "slower-chain")
    # The only saved baseline is meant when none is named.
    assert json.loads(compare(folder, "--format", "json")[1])["base"]["name"] == "tf32"
    _, out, _ = compare(folder / "before", "--baseline", "main", "--format", "json")
    assert json.loads(out)["base"]["name"] == "tf32"
    code, _, err = compare(folder, "--baseline", "nope")
    assert code == 2
    assert "There are: main, before, tf32, slower-chain" in err


def test_incomplete_runs_are_not_compared_silently(compare: Command, reports: Path) -> None:
    broken = reports / "broken.incomplete"
    code, out, err = compare(reports / "before", broken)
    assert (code, out) == (3, "")
    assert "incomplete" in err
    code, out, _ = compare(reports / "before", broken, "--force", "--format", "json")
    assert code == 0
    assert "incomplete-run" in {warning["code"] for warning in json.loads(out)["warnings"]}


def test_single_recordings_say_what_their_interval_lacks(compare: Command) -> None:
    code, out, _ = compare(AA[0], AA[1])
    assert code == 0
    assert "drift from one run to the next is not in the" in " ".join(out.split())
    assert "--repeat 3" in out


def test_folder_of_recordings_is_one_side_or_many_runs(compare: Command) -> None:
    _, out, _ = compare(DATA / "aa", DATA / "aa", "--format", "json")
    assert json.loads(out)["base"]["captures"] == 4
    _, out, _ = compare(DATA / "aa", "--format", "json")
    document = json.loads(out)
    assert (document["base"]["name"], document["new"]["name"]) == ("aa1.sqlite", "aa4.sqlite")
    assert len(document["others"]) == 2


def test_by_kernels(compare: Command, reports: Path) -> None:
    pair = (reports / "before", reports / "slower-chain")
    code, out, _ = compare(*pair, "--by", "kernels")
    assert code == 0
    assert "chain: CUDAFunctor_add (vec" in out
    assert "gemm: sm80_xmma_gemm" in out
    _, out, _ = compare(*pair, "--by", "kernels", "--top", 2)
    assert "4 more rows (--top 0 shows all)" in out


def test_step_summary(
    compare: Command, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = (reports / "before", reports / "tf32")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    code, out, err = compare(*pair, "--github")
    assert (code, out) == (2, "")
    assert "GITHUB_STEP_SUMMARY" in err
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    code, out, _ = compare(*pair, "--github")
    assert code == 0
    assert out.startswith("eager-block")
    assert summary.read_text().startswith("before\n### eager-block 1.49")


def test_a_summary_that_cannot_be_written_does_not_change_the_answer(
    compare: Command, reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "summary.md"))
    for name, limit, expected in (
        ("slower-chain", "slower:2", 1),
        ("slower-chain", "slower:500", 0),
        ("tf32", "slower:2", 0),
        ("before", "slower:2", 3),
    ):
        code, out, err = compare(reports / "before", reports / name, "--github", "--fail-on", limit)
        assert code == expected
        assert "Gate" in out
        assert "cannot be written" in err
    # Nobody asked a gate: the summary is what was asked for.
    code, out, err = compare(reports / "before", reports / "slower-chain", "--github")
    assert code == 3
    assert out
    assert "cannot be written" in err


def test_a_path_that_is_not_there(compare: Command, reports: Path) -> None:
    for name, told in (("nowhere", "no such file"), ("tf3", "Did you mean")):
        code, out, err = compare(reports / "before", reports / name)
        assert (code, out) == (3, "")
        assert told in err


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((), "got 0 paths"),
        (("{before}",), "what is it compared with"),
        (("{before}", "{before}", "{before}"), "got 3 paths"),
        (("{before}", "{reports}/tf32", "--fail-on", "worse"), "not understood"),
        (("{before}", "{reports}/tf32", "--newest"), "folder of runs"),
        (("{before}", "{reports}/tf32", "--threshold", "0"), "threshold"),
        (("{before}", "{reports}/tf32", "--threshold", "nan"), "threshold"),
        # Everything is within it: a gate would pass whatever is measured.
        (("{before}", "{reports}/tf32", "--threshold", "100"), "threshold"),
        (("{before}", "{reports}/tf32", "--policy", "any"), "policy"),
    ],
)
def test_wrong_usage(compare: Command, reports: Path, args: tuple[str, ...], told: str) -> None:
    given = [arg.format(before=reports / "before", reports=reports) for arg in args]
    code, out, err = compare(*given)
    assert (code, out) == (2, "")
    assert told in err
    assert "Traceback" not in err


def test_data_that_cannot_answer(compare: Command, reports: Path, tmp_path: Path) -> None:
    text = tmp_path / "notes.sqlite"
    text.write_text("not a database")
    assert compare(reports / "before", text)[0] == 3
    empty = tmp_path / "empty"
    empty.mkdir()
    for args in ((reports / "before", empty), (empty,)):
        code, out, err = compare(*args)
        assert (code, out) == (3, "")
        assert str(empty) in err


def test_hostile_names(compare: Command, reports: Path, tmp_path: Path) -> None:
    name = "</td>|`x`\n\x1b[31m@all \u202egnirts"
    renamed = [range_called(f, tmp_path / f.name, "chain", name) for f in AA[:3]]
    new = run_folder(tmp_path / "hostile", renamed, created="2026-01-02T00:00:00+00:00")
    for format_ in ("table", "markdown"):
        _, out, _ = compare(reports / "before", new, "--format", format_)
        assert "\x1b" not in out
        assert "\u202e" not in out
    assert "@all" not in out.split("```")[0].replace("`</td>", "") or "@\u200ball" in out
    _, out, _ = compare(reports / "before", new, "--format", "json")
    assert name in {row["name"] for row in json.loads(out)["rows"]}


def test_as_a_program(reports: Path) -> None:
    """The real command, into a pipe that closes early and into one that does not."""
    argv = [sys.executable, "-m", "harness", "compare"]
    done = subprocess.run(
        [*argv, reports / "before", reports / "slower-chain", "--fail-on", "slower"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "regressed: eager-block / chain" in done.stdout
    assert done.stderr == ""
