# SPDX-License-Identifier: MIT
"""Train the small transformer on several GPUs or processes, gradients all-reduced in buckets.

    torchrun --nproc-per-node 2 examples/train_ddp.py --steps 10
    harness run --nsys -- torchrun --nproc-per-node 2 examples/train_ddp.py
    torchrun --nproc-per-node 2 examples/train_ddp.py --backend gloo --device cpu
    torchrun --nproc-per-node 2 examples/train_ddp.py --straggler 1     rank 1 gets twice the work

NCCL where each process has a GPU of its own, else gloo. All processes end with equal weights, or
this exits 1.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformer import SIZES, Transformer, batch

import harness


def choose(options: argparse.Namespace) -> tuple[torch.device, str]:
    """(device, backend) of this process."""
    local, count = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    kind = options.device or ("cuda" if gpus else "cpu")
    device = torch.device("cpu") if kind == "cpu" else torch.device("cuda", local % max(gpus, 1))
    own_gpu = kind == "cuda" and gpus >= count
    return device, options.backend or ("nccl" if own_gpu else "gloo")


def train(options: argparse.Namespace, device: torch.device) -> float:
    """The last loss of this rank."""
    torch.manual_seed(88)
    size = SIZES[options.size or ("small" if device.type == "cuda" else "tiny")]
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == options.straggler:
        size = dataclasses.replace(size, batch=2 * size.batch)
    model = DistributedDataParallel(
        Transformer(size).to(device),
        device_ids=[device.index] if device.type == "cuda" else None,
        bucket_cap_mb=options.bucket_mb,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loss = torch.zeros(())
    for number in range(options.steps):
        with harness.range("step"):
            with harness.range("data"):
                tokens, targets = batch(size, number * world + rank, device)
            with harness.range("forward"):
                loss = model(tokens, targets)
            with harness.range("backward"):
                loss.backward()
            with harness.range("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
    return float(loss.detach()) if weights_agree(model) else float("nan")


def weights_agree(model: torch.nn.Module) -> bool:
    """Whether all ranks hold the same weights: their largest and smallest checksum are equal."""
    with torch.no_grad():
        total = torch.stack([p.double().sum() for p in model.parameters()]).sum()
    high, low = total.clone(), total.clone()
    dist.all_reduce(high, dist.ReduceOp.MAX)
    dist.all_reduce(low, dist.ReduceOp.MIN)
    return bool(high == low)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--backend", choices=("nccl", "gloo"))
    parser.add_argument("--size", choices=SIZES)
    parser.add_argument("--bucket-mb", type=float, default=4.0, help="gradient bucket, MiB")
    parser.add_argument("--straggler", type=int, default=-1, metavar="RANK")
    options = parser.parse_args(argv)
    if "LOCAL_RANK" not in os.environ:
        parser.error("start it with torchrun: torchrun --nproc-per-node 2 examples/train_ddp.py")
    device, backend = choose(options)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend)
    try:
        loss = train(options, device)
        rank = dist.get_rank()
        if rank == 0:
            print(f"{dist.get_world_size()} ranks, {backend} on {device.type}: loss {loss:.4f}")
    finally:
        # The DDP model sits in a reference cycle. Freed as late as the interpreter's exit, it
        # aborts the process in 1 of 3 runs ("terminate called", torch 2.13 with gloo).
        gc.collect()
        dist.destroy_process_group()
    if loss != loss:
        print(f"rank {rank}: the ranks' weights differ", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
