# SPDX-License-Identifier: MIT
"""What every file of the tree owes its readers, and the pages that are made from the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import COMMANDS

ROOT = Path(__file__).parents[2]
LONGEST_FILE = 450
SOURCES = {".py", ".cu", ".cpp", ".h", ".sh", ".css", ".js", ".yml", ".yaml"}


def tracked() -> list[Path]:
    """Files that git tracks, or would: what the next commit could hold."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(ROOT / name for name in set(done.stdout.split("\0")) if (ROOT / name).is_file())


@pytest.fixture(scope="module")
def files() -> list[Path]:
    try:
        return tracked()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")


def is_source(path: Path) -> bool:
    if path.is_relative_to(ROOT / "tests/data"):
        return False
    return path.suffix in SOURCES or (path.suffix == "" and path.read_bytes()[:2] == b"#!")


def test_sources_name_their_licence(files: list[Path]) -> None:
    missing = [
        str(path.relative_to(ROOT))
        for path in files
        if is_source(path) and "SPDX-License-Identifier: MIT" not in path.read_text()[:400]
    ]
    assert not missing


def test_no_file_needs_much_scrolling(files: list[Path]) -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in files
        if is_source(path) and (lines := len(path.read_text().splitlines())) > LONGEST_FILE
    }
    assert not long


def test_pages_made_from_the_code_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/docs"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_section(command: str) -> None:
    page = (ROOT / "docs/cli.md").read_text()
    assert f"\n## harness {command}\n" in page
    assert COMMANDS[command] in " ".join(page.split())


def test_scripts_can_be_run_and_say_what_they_are(files: list[Path]) -> None:
    scripts = [path for path in files if path.parent in (ROOT / "scripts", ROOT / ".ci")]
    assert scripts
    for path in scripts:
        assert path.stat().st_mode & 0o111, f"{path.name} is not executable"
        assert path.read_text().startswith(("#!/usr/bin/env bash\n", "#!/usr/bin/env python3\n"))
