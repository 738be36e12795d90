# SPDX-License-Identifier: MIT
from __future__ import annotations

import shutil

import pytest


@pytest.fixture(scope="session")
def cpu_operator() -> None:
    """Build ``fused_chain`` for the CPU (once a machine) and load it into this process."""
    pytest.importorskip("torch")
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    from workload import extension

    extension.load("cpu")
