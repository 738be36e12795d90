# SPDX-License-Identifier: MIT
"""An extract of a run too large to keep: what docs/h200.md needs of it. See scripts/extract-run."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from campaign_evidence import Recorded, Samples, compare

from harness.comparison import Comparison, Fact, Row
from harness.launch.rundir import load_run
from harness.trace import Warning_

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.attribute import Attribution

#: The key that an extract has beside those of ``run.json``.
KEY = "extract"


class Extracted(Recorded):
    """A run of which ``NAME.json`` is left: its ``run.json``, and under ``extract`` the samples of
    each capture and what ``harness compare`` said of it against other runs."""

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def both(self) -> bool:
        return False

    @cached_property
    def captures(self) -> list[Attribution]:
        """None: the recordings are not at hand."""
        return []

    @cached_property
    def extract(self) -> dict[str, Any]:
        file = self.folder / f"{self.name}.json"
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))[KEY]
        return found

    @cached_property
    def samples(self) -> list[Samples]:
        return [
            {tuple(row["path"]): row["instances_ns"] for row in capture}
            for capture in self.extract["captures"]
        ]

    @property
    def stored(self) -> dict[str, Comparison]:
        return {one["base"]["name"]: _comparison(one) for one in self.extract["comparisons"]}


def extracts(folder: Path) -> list[Extracted]:
    """Every extract in ``folder``."""
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    return [Extracted(load_run(file)) for file in files]


def text_of(run: Recorded, bases: Iterable[Recorded]) -> str:
    """The extract of ``run`` as JSON, with its comparison against each of ``bases``."""
    captures = [
        [{"path": list(path), "instances_ns": values} for path, values in capture.items()]
        for capture in run.samples
    ]
    comparisons = [_stored(compare(base, run)) for base in bases]
    head = {**run.run.as_dict(), KEY: {"captures": [], "comparisons": comparisons}}
    lines = ",\n".join(json.dumps(one) for one in captures)
    return json.dumps(head, indent=1).replace('"captures": []', f'"captures": [\n{lines}\n]') + "\n"


def _stored(found: Comparison) -> dict[str, Any]:
    """``harness.compare/1``, without the folders it was made in."""
    stored = {**found.as_dict(), "forced": found.forced}
    for side in ("base", "new"):
        stored[side] = {"name": stored[side]["name"]}
    return stored


def _comparison(stored: dict[str, Any]) -> Comparison:
    rows = [{**one, "path": tuple(one["path"]), "explanation": tuple(one["explanation"])}
            for one in stored["rows"]]  # fmt: skip
    return Comparison(
        base=stored["base"],
        new=stored["new"],
        threshold=stored["threshold"],
        summary=stored["summary"],
        items=tuple(Row(**one) for one in rows),
        facts=tuple(
            Fact(**{key: one[key] for key in ("name", "base", "new", "blocks")})
            for one in stored["facts"]
        ),
        forced=stored["forced"],
        warnings=tuple(Warning_(**one) for one in stored["warnings"]),
    )
