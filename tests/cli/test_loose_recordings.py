# SPDX-License-Identifier: MIT
"""Folders of recordings that no ``harness run`` wrote: each file, or each folder, is a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from running import harness

DATA = Path(__file__).parents[1] / "data"
#: Folders A, B1 and B5: 6, 5 and 5 captures of a program without and with a planted change.
AB = DATA / "ab"


def pairs(out: str) -> list[tuple[str, str, int, int]]:
    document = json.loads(out)
    return [
        (d["base"]["name"], d["new"]["name"], d["base"]["captures"], d["new"]["captures"])
        for d in (document, *document.get("others", []))
    ]


def test_a_folder_of_folders_of_captures(tmp_path: Path) -> None:
    done = harness(tmp_path, "compare", str(AB), "--baseline", "A", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert pairs(done.stdout) == [("A", "B5", 6, 5), ("A", "B1", 6, 5)]
    for document in (json.loads(done.stdout), *json.loads(done.stdout)["others"]):
        slower = [row["name"] for row in document["rows"] if row["verdict"] == "slower"]
        assert len(slower) == 1  # the planted one
    # Without a baseline, the first by name.
    done = harness(tmp_path, "compare", str(AB), "--format", "json")
    assert pairs(done.stdout)[0][:2] == ("A", "B5")


def test_a_folder_of_captures_with_and_without_their_suffix(tmp_path: Path) -> None:
    for name in ("aa2.sqlite", "aa2"):
        done = harness(
            tmp_path, "compare", str(DATA / "aa"), "--baseline", name, "--format", "json"
        )
        assert done.returncode == 0, done.stderr
        base = {pair[0] for pair in pairs(done.stdout)}
        news = [pair[1] for pair in pairs(done.stdout)]
        assert (base, news) == ({"aa2.sqlite"}, ["aa4.sqlite", "aa3.sqlite", "aa1.sqlite"])


@pytest.mark.parametrize("question", [["--fail-on", "slower"], ["--newest"]])
def test_no_record_of_which_is_the_newest(tmp_path: Path, question: list[str]) -> None:
    for folder in (AB, DATA / "aa"):
        base = ["--baseline", "A"] if folder == AB else []
        done = harness(tmp_path, "compare", str(folder), *base, *question)
        assert (done.returncode, done.stdout) == (2, "")
        assert "which is the newest is not on record" in done.stderr
        assert "harness compare BASE NEW" in done.stderr


def test_a_gate_where_only_one_can_be_meant(tmp_path: Path) -> None:
    for name in ("A", "B5"):
        shutil.copytree(AB / name, tmp_path / "ab" / name)
    done = harness(tmp_path, "compare", "ab", "--baseline", "A", "--fail-on", "slower")
    assert done.returncode == 1, done.stderr
    done = harness(tmp_path, "compare", "ab", "--baseline", "B5", "--fail-on", "slower")
    assert done.returncode == 0, done.stderr


def test_what_holds_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty" / "below").mkdir(parents=True)
    (tmp_path / "empty" / "below" / "settings.json").write_text("{}")
    done = harness(tmp_path, "compare", "empty", "--baseline", "A")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no baseline or run called 'A' in empty" in done.stderr
    assert "No run and no recording is in it" in done.stderr
    done = harness(tmp_path, "compare", "empty")
    assert (done.returncode, done.stdout) == (3, "")
    assert "no run and no recording in it" in done.stderr
    shutil.copy(DATA / "aa" / "aa1.sqlite", tmp_path / "empty")
    done = harness(tmp_path, "compare", "empty")
    assert (done.returncode, done.stdout) == (3, "")
    assert "one recording only (aa1.sqlite)" in done.stderr
