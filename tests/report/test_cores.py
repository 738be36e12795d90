# SPDX-License-Identifier: MIT
"""How many cores a process may keep busy, and what one of several workers takes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="cores cannot be asked for here"
)

#: A process of its own: what is said holds until it ends.
CODE = """
import os, sys, threading
from harness.cores import cores, use_at_most
print(cores())
use_at_most(int(sys.argv[1]))
print(cores())
from harness.attribute.arrays import in_turns, together
names = together(*[lambda: threading.current_thread().name] * 2)
names += in_turns(lambda _: threading.current_thread().name, range(2))
print(sum(name != "MainThread" for name in names))
"""


@pytest.mark.parametrize(("most", "left"), [(1, 1), (0, 1), (10_000, None)])
def test_a_process_takes_no_more_than_its_share(most: int, left: int | None) -> None:
    given = len(os.sched_getaffinity(0))
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(most)], capture_output=True, text=True, check=True
    )
    before, after, threads = map(int, done.stdout.split())
    assert before == given
    assert after == (left or given)
    assert threads == (4 if after > 1 else 0)
