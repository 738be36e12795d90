# SPDX-License-Identifier: MIT
"""The block, its spellings and the bytes each of them moves.

One block is ``Linear(dim, dim)`` (the range ``gemm``) followed by
``clamp(gelu_tanh(h * 1.5 - 0.25) + residual, -6, 3)`` (the range ``chain``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

import harness

SEED = 88
SCALE, SHIFT, LOW, HIGH = 1.5, 0.25, -6.0, 3.0

#: Values moved for each element. Eager: mul, sub, gelu and clamp read one and write one, the
#: addition reads two. Fused: read h and residual, write out.
EAGER_MOVES = 4 * 2 + 3
FUSED_MOVES = 3

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}

Spelling = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Setting:
    """What to measure: ``shape`` is (rows, dim) of x, residual and every result."""

    shape: tuple[int, int]
    device: torch.device
    dtype: torch.dtype
    #: More elements in the fused block's chain: a planted change. 0 is its baseline, which has the
    #: same memory layout; None is the block as users would write it.
    extra_percent: float | None = None

    @property
    def extra_rows(self) -> int:
        return math.ceil(self.shape[0] * (self.extra_percent or 0.0) / 100)

    @property
    def tensor_bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.itemsize


@dataclass(frozen=True)
class Data:
    """Weights and inputs shared by all spellings; ``residual`` has the extra rows at its end."""

    linear: torch.nn.Linear
    x: Tensor
    residual: Tensor


@dataclass(frozen=True)
class Block:
    """One spelling of the block; ``name`` is its range, ``moves`` the values moved an element."""

    name: str
    gemm: Callable[[Tensor], Tensor]
    chain: Callable[[Tensor], Tensor]
    moves: int
    elements: int

    def run(self, x: Tensor) -> Tensor:
        return self.chain(self.gemm(x))

    def run_in_ranges(self, x: Tensor) -> Tensor:
        with harness.range(self.name):
            with harness.range("gemm"):
                h = self.gemm(x)
            with harness.range("chain"):
                return self.chain(h)


def make_data(setting: Setting) -> Data:
    """Seeded: x is normal, the residual uniform on [-2, 2). Both are drawn in fp32."""
    torch.manual_seed(SEED)
    rows, dim = setting.shape
    linear = torch.nn.Linear(dim, dim, device=setting.device)
    x = torch.randn(rows, dim, device=setting.device)
    residual = torch.rand(rows + setting.extra_rows, dim, device=setting.device) * 4 - 2
    return Data(linear.to(setting.dtype), x.to(setting.dtype), residual.to(setting.dtype))


def eager_chain(h: Tensor, residual: Tensor) -> Tensor:
    """The chain as five operators, each of which reads and writes memory."""
    h = h * SCALE
    h = h - SHIFT
    h = functional.gelu(h, approximate="tanh")
    h = h + residual
    return h.clamp(LOW, HIGH)


def fused_chain(h: Tensor, residual: Tensor) -> Tensor:
    """The chain as one call of the operator that ``workload.extension`` built."""
    result: Tensor = torch.ops.harness.fused_chain(h, residual)
    return result


def compiled_chain() -> Spelling:
    """The eager chain through torch.compile: what a user would pick instead of writing CUDA."""
    compiled: Spelling = torch.compile(eager_chain, fullgraph=True)
    return compiled


def make_blocks(setting: Setting, data: Data, spellings: dict[str, Spelling]) -> list[Block]:
    """A block for each of ``spellings``: the name's first word -> its chain, eager first."""
    rows, dim = setting.shape
    residual = data.residual[:rows]
    blocks = [
        Block(
            f"{name}-block",
            data.linear,
            partial(_swapped, chain, residual),
            EAGER_MOVES if name == "eager" else FUSED_MOVES,
            rows * dim,
        )
        for name, chain in spellings.items()
    ]
    if setting.extra_percent is not None:
        planted = _planted_block(setting, data, spellings["fused"])
        blocks = [planted if block.name == planted.name else block for block in blocks]
    return blocks


def _swapped(chain: Spelling, residual: Tensor, h: Tensor) -> Tensor:
    return chain(h, residual)


def _planted_block(setting: Setting, data: Data, chain: Spelling) -> Block:
    """The fused block with a chain over more rows; its gemm does the same work as before."""
    rows, dim = setting.shape
    padded = data.residual.new_zeros(data.residual.shape)
    weight, bias = data.linear.weight.t(), data.linear.bias

    def gemm(x: Tensor) -> Tensor:
        torch.addmm(bias, x, weight, out=padded[:rows])
        return padded

    return Block(
        "fused-block",
        gemm,
        partial(_swapped, chain, data.residual),
        FUSED_MOVES,
        (rows + setting.extra_rows) * dim,
    )
