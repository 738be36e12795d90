# SPDX-License-Identifier: MIT
"""Do two spellings of the chain agree, element by element?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from workload import blocks

#: dtype -> (rtol, atol). fp32 compares with the eager spelling as it is. The others compare with
#: the eager spelling in fp32, rounded once: eager bf16 rounds after each of its five operators, and
#: where gelu and residual cancel it is off by more than the fused operator.
TOLERANCES = {
    torch.float32: (1e-5, 1e-6),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float16: (1e-3, 1e-5),
}

_CHUNK = 1 << 24  # elements compared at once: 1 GiB tensors need no gigabytes of temporaries


@dataclass(frozen=True)
class Check:
    """How far ``name`` is from the eager chain. Differences are absolute, positions flat."""

    name: str
    reference: str
    rtol: float
    atol: float
    elements: int
    outside: int  # |actual - expected| > atol + rtol * |expected|, or NaN on one side only
    worst: float
    first_position: int | None  # the first disagreement, with both values
    first_expected: float | None
    first_actual: float | None
    at_low: int  # outputs on the clamp's lower bound
    at_high: int
    worst_from_float64: float  # against the chain in float64 of the same h
    eager_worst_from_float64: float

    @property
    def passed(self) -> bool:
        return self.outside == 0

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}


def check(name: str, chain: Callable[[Tensor, Tensor], Tensor], h: Tensor, r: Tensor) -> Check:
    """Compare ``chain(h, r)`` with the eager chain; h and r have the same shape."""
    rtol, atol = TOLERANCES[h.dtype]
    low_precision = h.dtype != torch.float32
    outside = at_low = at_high = 0
    worst = worst_from_float64 = eager_worst = 0.0
    first: tuple[int, float, float] | None = None
    actual_all = chain(h, r).flatten()
    h, r = h.flatten(), r.flatten()
    for start in range(0, h.numel(), _CHUNK):
        part = slice(start, start + _CHUNK)
        actual, exact = actual_all[part], blocks.eager_chain(h[part].double(), r[part].double())
        eager = blocks.eager_chain(h[part], r[part])
        expected = eager
        if low_precision:
            expected = blocks.eager_chain(h[part].float(), r[part].float()).to(h.dtype)
        wrong = ~torch.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
        outside += int(wrong.sum())
        if first is None and bool(wrong.any()):
            at = int(wrong.nonzero()[0])
            first = (start + at, float(expected[at]), float(actual[at]))
        worst = max(worst, _worst(actual, expected))
        worst_from_float64 = max(worst_from_float64, _worst(actual, exact))
        eager_worst = max(eager_worst, _worst(eager, exact))
        at_low += int((actual == blocks.LOW).sum())
        at_high += int((actual == blocks.HIGH).sum())
    position, expected_value, actual_value = first or (None, None, None)
    return Check(
        name=name,
        reference="the eager chain in fp32, rounded once" if low_precision else "the eager chain",
        rtol=rtol,
        atol=atol,
        elements=h.numel(),
        outside=outside,
        worst=worst,
        first_position=position,
        first_expected=expected_value,
        first_actual=actual_value,
        at_low=at_low,
        at_high=at_high,
        worst_from_float64=worst_from_float64,
        eager_worst_from_float64=eager_worst,
    )


def _worst(actual: Tensor, expected: Tensor) -> float:
    return float((actual.double() - expected.double()).abs().nan_to_num(0.0).max())
