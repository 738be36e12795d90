# SPDX-License-Identifier: MIT
"""A small GPT-like model and endless data for it, shared by the training examples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

import harness


@dataclass(frozen=True)
class Size:
    """Model and batch; ``tiny`` trains in seconds on a CPU."""

    layers: int
    width: int
    heads: int
    context: int
    batch: int
    vocabulary: int


SIZES = {
    "tiny": Size(layers=2, width=64, heads=2, context=32, batch=8, vocabulary=64),
    "small": Size(layers=6, width=512, heads=8, context=512, batch=8, vocabulary=4096),
}


class Layer(nn.Module):
    """Pre-norm attention and MLP."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)
        self.mlp = nn.Sequential(
            nn.Linear(size.width, 4 * size.width),
            nn.GELU(approximate="tanh"),
            nn.Linear(4 * size.width, size.width),
        )

    def attention(self, x: Tensor) -> Tensor:
        batch, context, width = x.shape
        q, k, v = (
            part.view(batch, context, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, context, width))
        return out

    def forward(self, x: Tensor) -> Tensor:
        with harness.range("attention"):
            x = x + self.attention(self.norm_attention(x))
        with harness.range("mlp"):
            out: Tensor = x + self.mlp(self.norm_mlp(x))
            return out


class Transformer(nn.Module):
    """Token indices (batch, context) -> mean cross-entropy of the next tokens (a scalar)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Parameter(torch.zeros(size.context, size.width))
        self.layers = nn.ModuleList(Layer(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        with harness.range("embed"):
            x = self.tokens(tokens) + self.positions
        for number, layer in enumerate(self.layers):
            with harness.range(f"layer {number}"):
                x = layer(x)
        with harness.range("head"):
            logits = self.head(self.norm(x))
            return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def batch(size: Size, seed: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Counting modulo the vocabulary: (tokens, next tokens), learnable in a few steps."""
    generator = torch.Generator().manual_seed(seed)
    start = torch.randint(size.vocabulary, (size.batch, 1), generator=generator)
    sequence = (start + torch.arange(size.context + 1)) % size.vocabulary
    sequence = sequence.to(device)
    return sequence[:, :-1].contiguous(), sequence[:, 1:].contiguous()
