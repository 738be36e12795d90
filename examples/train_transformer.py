# SPDX-License-Identifier: MIT
"""Train a small GPT-like model with the ranges step > forward, backward, optimizer.

harness run --nsys -- python examples/train_transformer.py --steps 20
python examples/train_transformer.py --compile          torch.compile the model
python examples/train_transformer.py --cuda-graphs      capture one step, then replay it
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable

import torch
from torch import Tensor
from transformer import SIZES, Size, Transformer, batch

import harness

Step = Callable[[Tensor, Tensor], Tensor]


def make_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, bf16: bool) -> Step:
    """One training step in its three ranges; returns the loss, still on the device."""

    def step(tokens: Tensor, targets: Tensor) -> Tensor:
        with harness.range("forward"), torch.autocast(tokens.device.type, torch.bfloat16, bf16):
            loss: Tensor = model(tokens, targets)
        with harness.range("backward"):
            loss.backward()
        with harness.range("optimizer"):
            optimizer.step()
            # Captured gradients must keep their memory, so they are zeroed and not dropped.
            optimizer.zero_grad(set_to_none=False)
        return loss.detach()

    return step


def capture(step: Step, size: Size, device: torch.device) -> Step:
    """``step`` as one CUDA graph: its ranges are passed once, while capturing."""
    tokens, targets = batch(size, 0, device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), harness.range("warm-up"):
        for _ in range(3):
            step(tokens, targets)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with harness.range("capture"), torch.cuda.graph(graph):
        loss = step(tokens, targets)

    def replay(new_tokens: Tensor, new_targets: Tensor) -> Tensor:
        tokens.copy_(new_tokens)
        targets.copy_(new_targets)
        with harness.range("replay"):
            graph.replay()
        return loss

    return replay


def train(options: argparse.Namespace) -> list[float]:
    """The loss after each step."""
    torch.manual_seed(88)
    device = torch.device(options.device)
    size = SIZES[options.size]
    model: torch.nn.Module = Transformer(size).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-3 if options.size == "tiny" else 3e-4,
        capturable=options.cuda_graphs,
    )  # fmt: skip
    if options.compile:
        model = torch.compile(model)  # type: ignore[assignment]
    step = make_step(model, optimizer, options.dtype == "bf16")
    if options.cuda_graphs:
        step = capture(step, size, device)
    losses = []
    for number in range(options.steps):
        with harness.range("step"):
            with harness.range("data"):
                tokens, targets = batch(size, number, device)
            losses.append(step(tokens, targets).clone())
    return torch.stack(losses).tolist() if losses else []


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    gpu = torch.cuda.is_available()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if gpu else "cpu")
    parser.add_argument("--size", choices=SIZES, default="small" if gpu else "tiny")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32", help="bf16: autocast")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--cuda-graphs", action="store_true", help="replay a captured step")
    options = parser.parse_args(argv)
    if options.device == "cuda" and not gpu:
        parser.error("--device cuda: torch sees no GPU")
    if options.cuda_graphs and options.device != "cuda":
        parser.error("--cuda-graphs needs --device cuda")
    if options.steps < 1:
        parser.error("--steps must be at least 1")
    return options


def main(argv: list[str] | None = None) -> int:
    losses = train(parse(argv))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f} in {len(losses)} steps")
    if not all(map(math.isfinite, losses)):
        print("the loss is not finite", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
