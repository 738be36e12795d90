# SPDX-License-Identifier: MIT
"""Did a change make it cheaper, where, and how sure are we? See docs/comparing.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.comparison.build import DEFAULT_THRESHOLD, Options, build
from harness.comparison.result import Comparison, Fact, Row

if TYPE_CHECKING:
    from harness.comparison.inputs import Given

__all__ = ["Comparison", "Fact", "Row", "compare"]


def compare(
    base: Given,
    new: Given,
    *,
    policy: str = "autograd",
    threshold: float = DEFAULT_THRESHOLD,
    skip: int = 0,
    measure: str = "gpu",
    by: str = "ranges",
    force: bool = False,
) -> Comparison:
    """Compare two runs, recordings or Traces; a list (or a folder) is several captures of a side.

    ``threshold`` is a fraction (0.01: one per cent); ``skip`` leaves out the first instances of
    every path; ``measure`` is gpu or cpu, ``by`` ranges or kernels. ``force`` gives verdicts for
    runs that are not comparable, or incomplete.

    Raises:
        UnreadableReport: a side cannot be read, is incomplete, or has nothing to compare.
    """
    from pathlib import Path

    from harness.comparison.inputs import common_source, side
    from harness.selection import Selection

    options = Options(policy, threshold, Selection(skip=skip), measure, by, force)
    folders = [Path(given) for given in (base, new) if isinstance(given, str | Path)]
    source = common_source(folders) if len(folders) == 2 else "auto"
    return build(side(base, options, source=source), side(new, options, source=source), options)
