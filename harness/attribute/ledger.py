# SPDX-License-Identifier: MIT
"""The ledger: every nanosecond of every GPU op is in exactly one place, or we stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.errors import LedgerBroken


@dataclass(frozen=True)
class Ledger:
    """Device time (ns) and counts of one attribution; see ``balanced``.

    ``hidden_*`` is what a selection left out; it is zero without one.
    """

    gpu_ops: int
    gpu_ns: int
    attributed_ns: int
    outside_ns: int
    unlinked_ns: int
    by_rule: dict[str, int]
    attributed_ops: int = 0
    outside_ops: int = 0
    unlinked_ops: int = 0
    hidden_ops: int = 0
    hidden_ns: int = 0
    ops_by_rule: dict[str, int] = field(default_factory=dict)
    ambiguous_ops: int = 0
    ambiguous_ns: int = 0
    outside_kernels: int = 0  # of outside_ops, the kernels; without copies, sets and graphs
    outside_kernel_ns: int = 0

    @property
    def balanced(self) -> bool:
        """Self over ranges + outside + unlinked (+ hidden) equals the sum over all GPU ops."""
        ns = self.attributed_ns + self.outside_ns + self.unlinked_ns + self.hidden_ns
        ops = self.attributed_ops + self.outside_ops + self.unlinked_ops + self.hidden_ops
        return (
            ns == self.gpu_ns
            and ops == self.gpu_ops
            and sum(self.by_rule.values()) == self.attributed_ns
        )

    def check(self, where: str) -> Ledger:
        """Return self, or raise LedgerBroken (exit 70) naming the report."""
        if not self.balanced:
            raise LedgerBroken(
                f"{where}: the ledger does not balance: {self.as_dict()}",
                hint="This is a bug in harness; please report it with this line.",
            )
        return self

    def as_dict(self) -> dict[str, Any]:
        return {
            "gpu_ops": self.gpu_ops,
            "gpu_ns": self.gpu_ns,
            "attributed_ns": self.attributed_ns,
            "outside_ns": self.outside_ns,
            "unlinked_ns": self.unlinked_ns,
            "by_rule": dict(self.by_rule),
            "balanced": self.balanced,
            "attributed_ops": self.attributed_ops,
            "outside_ops": self.outside_ops,
            "unlinked_ops": self.unlinked_ops,
            "hidden_ops": self.hidden_ops,
            "hidden_ns": self.hidden_ns,
            "ops_by_rule": dict(self.ops_by_rule),
            "ambiguous_ops": self.ambiguous_ops,
            "ambiguous_ns": self.ambiguous_ns,
            "outside_kernels": self.outside_kernels,
            "outside_kernel_ns": self.outside_kernel_ns,
        }
