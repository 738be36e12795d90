# SPDX-License-Identifier: MIT
"""A process namespace for nsys."""

from __future__ import annotations

import os
import subprocess

import pytest

from harness.launch.isolation import prefix


def isolated() -> tuple[str, ...]:
    found = prefix({"PATH": os.environ["PATH"]})
    if not found:
        pytest.skip("this system allows no process namespace")
    return found


def test_only_own_processes_are_seen_and_ids_start_high() -> None:
    script = "echo $$; ls /proc | grep -c '^[0-9]'"
    done = subprocess.run(
        [*isolated(), "sh", "-c", script], capture_output=True, text=True, check=True
    )
    pid, count = map(int, done.stdout.split())
    assert pid > 1000
    assert count <= 6


@pytest.mark.parametrize(("code", "expected"), [("exit 3", 3), ("kill -9 $$", 137), ("true", 0)])
def test_exit_codes_pass_through(code: str, expected: int) -> None:
    assert subprocess.run([*isolated(), "sh", "-c", code], check=False).returncode == expected


def test_arguments_stay_as_they_are() -> None:
    words = ["a b", "$HOME", "'", "", "ü"]
    done = subprocess.run(
        [*isolated(), "printf", "%s|", *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("|")[:-1] == words


def test_ranks_started_one_by_one_are_not_parted() -> None:
    assert prefix({"PATH": os.environ["PATH"], "WORLD_SIZE": "2"}) == ()


def test_without_unshare_there_is_none() -> None:
    assert prefix({"PATH": "/nowhere"}) == ()
