# SPDX-License-Identifier: MIT
"""The gate from the command line where something is missing: what is left decides, or 3."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from running import harness

sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))

from planted import captures, changed, range_called, run_folder

DATA = Path(__file__).parents[1] / "data"
#: Twelve captures of one program, in the order they were made.
AA12 = sorted((DATA / "aa12" / "A").glob("*.sqlite"))
BASE, NEW = AA12[:5], AA12[5:10]


def run(
    target: Path, files: Sequence[Path], day: int, asked: int, failed: Sequence[int] = ()
) -> Path:
    """A run of which ``asked`` captures were asked for; the program exited 1 in ``failed``."""
    folder = run_folder(
        target, files, created=f"2026-01-0{day}T10:00:00+00:00", options={"repeat": asked}
    )
    stored = json.loads((folder / "run.json").read_text())
    for record in stored["passes"]:
        record["exit_code"] = int(record["capture"] in failed)
    (folder / "run.json").write_text(json.dumps(stored))
    return folder


def gate(folder: Path, *args: str) -> tuple[int, str]:
    done = harness(folder, "compare", *args, "--fail-on", "slower")
    assert "Traceback" not in done.stderr
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("asked", "left", "lost", "code"),
    [
        ((5, 5), (5, 5), (), 0),
        ((5, 5), (5, 4), ("new: 4 of 5 captures",), 0),
        ((5, 5), (3, 3), ("base: 3 of 5 captures", "new: 3 of 5 captures"), 0),
        ((3, 3), (3, 2), ("new: 2 of 3 captures",), 3),
        ((3, 3), (2, 3), ("base: 2 of 3 captures",), 3),
        ((3, 3), (1, 1), ("base: 1 of 3 captures", "new: 1 of 3 captures"), 3),
        ((2, 2), (2, 1), ("new: 1 of 2 captures",), 3),
        ((1, 3), (1, 2), ("new: 2 of 3 captures",), 3),
        ((1, 1), (1, 1), (), 0),  # nobody asked for more: instances, and a warning
        ((1, 3), (1, 3), (), 0),
    ],
)
@pytest.mark.parametrize("how", ["never recorded", "failed"])
def test_captures_that_are_missing(
    tmp_path: Path,
    asked: tuple[int, int],
    left: tuple[int, int],
    lost: tuple[str, ...],
    code: int,
    how: str,
) -> None:
    for name, files, n, k, day in zip(
        ("base", "new"), (BASE, NEW), asked, left, (1, 2), strict=True
    ):
        if how == "failed":
            run(tmp_path / name, files[:n], day, n, failed=range(k + 1, n + 1))
        else:
            run(tmp_path / name, files[:k], day, n)
    got, said = gate(tmp_path, "base", "new")
    assert got == code, said
    assert ("passed: no range regressed" in said) == (code == 0)
    for text in lost:
        assert text in said
    if code == 3:
        assert "cannot tell: " in said
        assert "fewer than 3 do not show how runs differ" in said
    if how == "failed" and lost:
        assert "is left out: the program exited 1 in it" in said


def test_a_capture_that_failed_does_not_count_and_blocks_nothing(tmp_path: Path) -> None:
    """A failed program may have done half of its work: its chain is twice as fast here."""
    half = captures(tmp_path / "half", NEW[3:4], "chain", 0.5)
    base = run(tmp_path / "base", BASE[:3], 1, 3)
    new = run(tmp_path / "new", [*NEW[:3], *half], 2, 4, failed=[4])
    done = harness(tmp_path, "compare", str(base), str(new), "--format", "json")
    document = json.loads(done.stdout)
    assert (document["new"]["captures"], document["new"]["captures_asked"]) == (3, 4)
    assert {row["verdict"] for row in document["rows"]} == {"same"}
    assert not any(fact["blocks"] for fact in document["facts"])
    # Where it fails in every capture, that is how the program is.
    always = run(tmp_path / "always", NEW[:3], 2, 3, failed=[1, 2, 3])
    assert gate(tmp_path, str(always), str(new))[0] == 3  # exit code 1 against 0
    again = run(tmp_path / "again", AA12[8:11], 3, 3, failed=[1, 2, 3])
    assert gate(tmp_path, str(always), str(again))[0] == 0


def test_a_regression_is_one_however_few_captures_are_left(tmp_path: Path) -> None:
    slow = captures(tmp_path / "slow", NEW[:2], "chain", 1.2)
    run(tmp_path / "base", BASE[:3], 1, 3)
    run(tmp_path / "new", slow, 2, 3)
    code, said = gate(tmp_path, "base", "new")
    assert code == 1
    assert "regressed: " in said


def test_a_range_that_few_captures_have_is_not_passed(tmp_path: Path) -> None:
    renamed = range_called(NEW[0], tmp_path / "renamed.sqlite", "chain", "other")
    run(tmp_path / "base", BASE[:3], 1, 3)
    run(tmp_path / "new", [renamed, *NEW[1:3]], 2, 3)
    code, said = gate(tmp_path, "base", "new")
    assert code == 3
    assert "chain" in said.split("cannot tell: ")[1]


def test_a_run_against_itself_is_no_test(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    one = run(reports / "one", BASE[:3], 1, 3)
    shutil.copytree(one, reports / "copy")
    for paths in (
        ("reports/one", "reports/one"),
        ("reports/one", "./reports/../reports/one/"),
        ("reports/one", "--baseline", "one"),
        ("reports/one", "reports/copy"),
        (str(BASE[0]), str(BASE[0])),
    ):
        code, said = gate(tmp_path, *paths)
        assert code == 3, (paths, said)
        assert "on both sides: a comparison with itself finds no change" in said
    # Without a gate it is an answer, with a warning.
    done = harness(tmp_path, "compare", "reports/one", "reports/one")
    assert done.returncode == 0
    assert "[same-recording]" in " ".join(done.stdout.split())


def test_an_export_that_counts_time_from_elsewhere_is_the_same_recording(tmp_path: Path) -> None:
    later = BASE[0]
    for table in ("NVTX_EVENTS", *(f"CUPTI_ACTIVITY_KIND_{k}" for k in ("KERNEL", "MEMCPY"))):
        sql = f'UPDATE {table} SET start = start + 1000, "end" = "end" + 1000'
        later = changed(later, tmp_path / table / "later.sqlite", sql)
    for table in ("RUNTIME", "MEMSET"):
        sql = f'UPDATE CUPTI_ACTIVITY_KIND_{table} SET start = start + 1000, "end" = "end" + 1000'
        later = changed(later, tmp_path / table / "later.sqlite", sql)
    code, said = gate(tmp_path, str(BASE[0]), str(later))
    assert code == 3
    assert "1 recording is on both sides" in said


def test_one_shared_capture_is_enough_to_doubt(tmp_path: Path) -> None:
    run(tmp_path / "base", BASE[:3], 1, 3)
    run(tmp_path / "new", [BASE[2], *NEW[:2]], 2, 3)
    assert gate(tmp_path, "base", "new")[0] == 3


def test_copies_of_one_capture_are_not_three(tmp_path: Path) -> None:
    for name, files in (("base", BASE[:3]), ("new", [NEW[0]] * 3)):
        (tmp_path / name).mkdir()
        for number, file in enumerate(files):
            shutil.copyfile(file, tmp_path / name / f"{number}.sqlite")
    code, said = gate(tmp_path, "base", "new")
    assert code == 3
    assert "new: 1 of 3 captures" in said


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Three runs; the chain of the newest is a fifth slower."""
    slow = captures(tmp_path / "slow", AA12[6:9], "chain", 1.2)
    for day, files in enumerate((AA12[:3], AA12[3:6], slow), start=1):
        run(tmp_path / "reports" / f"run-{day}", files, day, 3)
    return tmp_path / "reports"


def rewritten(reports: Path, name: str, **changed: object) -> None:
    file = reports / name / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))


@pytest.mark.parametrize("more", [(), ("--newest",), ("--baseline", "run-1")])
@pytest.mark.parametrize(
    "how", ["incomplete", "damaged", "recording gone", "no date", "not a date"]
)
def test_an_older_run_does_not_pass_in_place_of_the_newest(
    reports: Path, how: str, more: tuple[str, ...]
) -> None:
    assert gate(reports.parent, "reports", *more)[0] == 1
    if how == "incomplete":
        rewritten(reports, "run-3", complete=False)
    elif how == "damaged":
        (reports / "run-3" / "run.json").write_text('{"schema": "harness.run/1", "na')
    elif how == "recording gone":
        for file in (reports / "run-3").glob("*.sqlite"):
            file.unlink()
    else:
        rewritten(reports, "run-3", created="" if how == "no date" else "yesterday")
    code, said = gate(reports.parent, "reports", *more)
    assert code == 3, said
    assert "run-3" in said
    assert "passed" not in said


def test_an_older_run_that_was_cut_short_does_not_stop_the_gate(reports: Path) -> None:
    rewritten(reports, "run-2", complete=False)
    assert gate(reports.parent, "reports")[0] == 1


def test_runs_of_several_time_zones_have_one_order(reports: Path) -> None:
    # Eleven in the morning of the second day, UTC: after run-2, which sorts behind it as a word.
    rewritten(reports, "run-3", created="2026-01-01T23:00:00-12:00")
    assert gate(reports.parent, "reports")[0] == 1


def test_a_link_to_the_newest_run_is_not_another_one_as_new(reports: Path) -> None:
    (reports / "latest").symlink_to("run-3")
    code, said = gate(reports.parent, "reports")
    assert code == 1, said
    (reports / "latest").unlink()
    (reports / "latest").symlink_to("run-2")
    assert gate(reports.parent, "reports")[0] == 1


def test_of_two_runs_made_at_once_neither_is_the_newest(reports: Path) -> None:
    rewritten(reports, "run-2", created="2026-01-03T10:00:00Z")
    code, said = gate(reports.parent, "reports")
    assert code == 3
    assert "run-2, run-3 were made in one second" in said
    done = harness(reports.parent, "compare", "reports", "--newest")
    assert done.returncode == 0, done.stderr


def test_kernels_that_ran_more_often_do_not_pass_one_by_one(tmp_path: Path) -> None:
    """Of the base's GELU, two in three executions were never launched: as fast each, but fewer."""
    gelu = "demangledName IN (SELECT id FROM StringIds WHERE value LIKE '%GeluCUDAKernelImpl%')"
    some = f"{gelu} AND correlationId % 3 > 0"
    kernels = f"FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE {some}"
    calls = (
        "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        f" WHERE correlationId IN (SELECT correlationId {kernels})"
    )
    fewer = []
    for file in BASE[:3]:
        uncalled = changed(file, tmp_path / "uncalled" / file.name, calls)
        fewer.append(changed(uncalled, tmp_path / "fewer" / file.name, f"DELETE {kernels}"))
    run(tmp_path / "base", fewer, 1, 3)
    run(tmp_path / "new", NEW[:3], 2, 3)
    code, said = gate(tmp_path, "base", "new", "--by", "kernels")
    assert code == 3, said
    assert "ran more often" in said
    assert gate(tmp_path, "new", "base", "--by", "kernels")[0] == 0
