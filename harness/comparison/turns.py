# SPDX-License-Identifier: MIT
"""Captures of two sides recorded in turn: a difference that is free of the drift they share.

Neighbours in time share clocks and temperature. An interval from each side's own scatter counts
that drift as noise of both, and is too wide. So the logs are regressed on the side and on time:
blocks of neighbours, each with its own level and slope (analysis of covariance in randomised
blocks). The design rests on when the captures were made, never on their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Captures a block: too few to bend within it, enough for a level, a slope and a difference.
_BLOCK = 5
#: Sides that time tells apart cost more than this factor of variance: those were not in turn.
_MOST_COST = 1.25
#: Rounding noise in place of a side that blocks and slopes explain entirely.
_NOTHING = 1e-9


@dataclass(frozen=True)
class InTurn:
    """How logs of base and then of new (each in order of ``Sample.values``) are compared.

    ``weights @ logs`` is the shift of new against base, and its variance ``factor`` times that of
    one log, of which ``residuals @ logs`` is left after the regression, with ``df`` degrees of
    freedom.
    """

    weights: Floats
    residuals: Floats
    factor: float
    df: int

    def shift(self, logs: Floats) -> float:
        return float(self.weights @ logs)

    def variance(self, logs: Floats) -> float:
        """Variance of one log."""
        # Centred first: what rounding leaves of large logs is not noise of the captures.
        left = self.residuals @ (logs - logs.mean())
        return float(left @ left) / self.df


@lru_cache(maxsize=256)
def in_turn(base: Sequence[int], new: Sequence[int]) -> InTurn | None:
    """The design for captures that began at these times (ns, any epoch); None unless the sides
    alternate so closely that time does not tell them apart."""
    times = np.array([*base, *new], dtype=np.int64)
    if not len(base) or not len(new) or len(np.unique(times)) < len(times):
        return None  # no two captures of one GPU begin at once: these are not times
    blocks = max(1, len(times) // _BLOCK)
    df = len(times) - 2 * blocks - 1
    if df < 1:
        return None
    within = _within_blocks(times, blocks)
    side = within @ np.repeat([0.0, 1.0], [len(base), len(new)])
    square = float(side @ side)
    if square * _MOST_COST * (1.0 / len(base) + 1.0 / len(new)) < 1.0 or square < _NOTHING:
        return None
    return InTurn(side / square, within - np.outer(side, side) / square, 1.0 / square, df)


def _within_blocks(times: npt.NDArray[np.int64], blocks: int) -> Floats:
    """The matrix that takes each block's level and slope out of a column."""
    out = np.zeros((len(times), len(times)))
    for block in np.array_split(np.argsort(times), blocks):
        t = (times[block] - times[block[0]]).astype(np.float64)
        t -= t.mean()
        out[np.ix_(block, block)] = np.eye(len(block)) - 1.0 / len(block) - np.outer(t, t) / (t @ t)
    return out
