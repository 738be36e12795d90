# SPDX-License-Identifier: MIT
"""What a comparison answers: rows, one sentence, and what to know before trusting either."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

import pandas as pd

from harness.comparison.verdict import VERDICTS
from harness.selection import Selection
from harness.trace import Warning_

SCHEMA = "harness.compare/1"
#: Code of the warning that something was compared with itself.
SAME_RECORDING = "same-recording"
#: Code of the warning that the two sides may be of two GPUs.
UNKNOWN_GPU = "unknown-gpu"
#: Code of the warning that kernels ran more often, which no time of one execution shows.
MORE_EXECUTIONS = "more-executions"
#: Code of the warning that GPU work outside all ranges grew, which no range shows.
OUTSIDE_GREW = "outside-grew"
#: Code of the warning that a mean grew and its median did not.
FEW_SLOW = "few-slow"
#: Code of the warning that the slowest process got slower, which the median of all does not show.
SLOW_PROCESS = "slow-process"


@dataclass(frozen=True)
class Row:
    """One range path, or one kernel under its innermost range. Times are ns per instance (of a
    kernel: per execution); None where a side has no such range or nothing can be said.

    ``n_base`` and ``n_new`` count the values of each sample, whose unit is ``unit``.
    ``change_ns`` is the change of a whole capture, which the table is sorted by.
    """

    path: tuple[str, ...]
    domain: str
    name: str
    base_ns: int | None
    new_ns: int | None
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    n_base: int
    n_new: int
    verdict: str
    reason: str
    style: str
    kernel: str
    unit: str  # "capture" | "instance" | "": not compared
    p_adjusted: float | None
    p_rank: float | None
    base_instances: float  # mean a capture
    new_instances: float
    change_ns: int
    explanation: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "path": list(self.path), "explanation": list(self.explanation)}


#: Columns of ``Comparison.rows``, of the csv and of each JSON row, in order.
COLUMNS = tuple(item.name for item in fields(Row))


@dataclass(frozen=True)
class Fact:
    """Something recorded about both sides. ``blocks``: it differs and could explain a change;
    ``close``: it differs within its tolerance."""

    name: str
    base: str
    new: str
    blocks: bool = False
    close: bool = False

    @property
    def differs(self) -> bool:
        return bool(self.base and self.new and self.base != self.new and not self.close)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "base": self.base,
            "new": self.new,
            "blocks": self.blocks,
            "differs": self.differs,
        }


@dataclass(frozen=True)
class Growth:
    """Growth that no row shows. ``most`` is the largest that the data allows, as a fraction; inf
    where there was nothing before."""

    warning: Warning_
    most: float


@dataclass(frozen=True)
class Comparison:
    """``rows`` has a DataFrame's row per range, most changed first. ``in_turn``: the captures of
    both sides alternate in time, and the drift they share is not in the intervals."""

    base: dict[str, Any]
    new: dict[str, Any]
    threshold: float
    summary: str
    items: tuple[Row, ...]
    policy: str = "autograd"
    measure: str = "gpu"
    by: str = "ranges"
    facts: tuple[Fact, ...] = ()
    forced: bool = False
    selection: Selection = field(default_factory=Selection)
    in_turn: bool = False
    warnings: tuple[Warning_, ...] = field(default=())
    growths: tuple[Growth, ...] = field(default=())  # each one's warning is in ``warnings`` too

    @cached_property
    def rows(self) -> pd.DataFrame:
        """The rows as a frame; ``path`` and ``explanation`` hold tuples."""
        data = {name: [getattr(item, name) for item in self.items] for name in COLUMNS}
        return pd.DataFrame(data, columns=list(COLUMNS))

    @property
    def blocked(self) -> tuple[Fact, ...]:
        """The facts that forbid a verdict (none under ``--force``)."""
        return () if self.forced else tuple(fact for fact in self.facts if fact.blocks)

    def counts(self) -> dict[str, int]:
        """How many rows got each verdict, in the order of VERDICTS."""
        words = [item.verdict for item in self.items]
        return {word: words.count(word) for word in VERDICTS}

    def as_dict(self) -> dict[str, Any]:
        """``harness.compare/1``."""
        return {
            "schema": SCHEMA,
            "base": self.base,
            "new": self.new,
            "threshold": self.threshold,
            "summary": self.summary,
            "policy": self.policy,
            "measure": self.measure,
            "by": self.by,
            "in_turn": self.in_turn,
            "counts": self.counts(),
            "facts": [fact.as_dict() for fact in self.facts],
            "rows": [item.as_dict() for item in self.items],
            "warnings": [warning.as_dict() for warning in self.warnings],
        }
