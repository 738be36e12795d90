# SPDX-License-Identifier: MIT
"""Training scripts that installed packages carry, to be run unchanged."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

#: Package -> patterns below its folder, the ones worth trying first.
PLACES = {
    "torch": (
        "distributed/tensor/examples/*.py",
        "distributed/checkpoint/examples/*.py",
        "utils/benchmark/examples/*.py",
    ),
    "accelerate": ("test_utils/scripts/*.py",),
    "lightning": ("pytorch/demos/*.py",),
    "pytorch_lightning": ("demos/*.py",),
    "torch_geometric": ("**/examples/**/*.py",),
    "torchvision": ("**/examples/**/*.py", "**/references/**/*.py"),
    "e3nn": ("**/examples/**/*.py",),
    "timm": ("**/train*.py",),
}
#: Ends of paths, in the order they are tried; all of them train something.
WANTED = (
    "torch/distributed/tensor/examples/convnext_example.py",
    "accelerate/test_utils/scripts/test_script.py",
    "accelerate/test_utils/scripts/test_sync.py",
    "torch/distributed/checkpoint/examples/stateful_example.py",
)
#: A job of one rank, as a launcher would describe it.
ONE_RANK = {
    "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29588",
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    source: str  # the package
    path: Path


@dataclass(frozen=True)
class Candidate:
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


def discover() -> list[Found]:
    """The example scripts of the packages installed here; those that can be started only."""
    found: list[Found] = []
    for package, patterns in PLACES.items():
        spec = find_spec(package)
        for root in map(Path, (spec.submodule_search_locations or ()) if spec else ()):
            paths = sorted({path for pattern in patterns for path in root.glob(pattern)})
            found += [Found(package, p) for p in paths if "__main__" in p.read_text("utf-8")]
    return found


def candidates(found: list[Found], python: str) -> list[Candidate]:
    """Commands for those of WANTED that are here, as the only rank of a job where they need one."""
    made: list[Candidate] = []
    for end in WANTED:
        for one in found:
            if str(one.path).endswith("/" + end):
                ranks = {} if end.startswith("accelerate/") else ONE_RANK
                made.append(Candidate((python, str(one.path)), ranks))
    return made


def worth(run: Path) -> bool:
    """Whether some pass of the run recorded GPU work (or, without a GPU, a range)."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    import harness
    from harness.errors import HarnessError

    try:
        trace = harness.load(run)
    except HarnessError:
        return False
    return len(trace.gpu_ops) > 0 or (not _has_gpu(run) and len(trace.ranges) > 0)


def _has_gpu(run: Path) -> bool:
    return bool(json.loads((run / "run.json").read_text())["gpu"])


def rename(run: Path, target: Path) -> None:
    """The recording takes its final name, in ``run.json`` too."""
    stored = json.loads((run / "run.json").read_text())
    stored["name"] = target.name
    (run / "run.json").write_text(json.dumps(stored, indent=1) + "\n")
    run.rename(target)
