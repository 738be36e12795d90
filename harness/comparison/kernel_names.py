# SPDX-License-Identifier: MIT
"""Kernel names short enough for a sentence, and the word that tells two sets of them apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.names import short_kernel_name

#: Kernels that only say how they walk memory; the functor in their template says what they do.
_WALKERS = re.compile(r"elementwise_kernel|reduce_kernel|multi_tensor_apply|distribution_")
_FUNCTOR = re.compile(r"\b(\w*(?:Functor|Impl|launch_|_kernel_cuda)\w*)\b")
#: Functors that only bind an argument of another one.
_BINDERS = ("AUnaryFunctor", "BUnaryFunctor", "BinaryFunctor")
#: What names of library kernels say about themselves, most telling first.
_WORDS = {
    "tf32": "tf32",
    "bf16": "bf16",
    "e4m3": "fp8",
    "fp8": "fp8",
    "f16": "fp16",
    "h16": "fp16",
    "s8": "int8",
    "flash": "flash-attention",
    "triton": "triton",
    "tensorop": "tensor-core",
    "s1688gemm": "tf32",  # cutlass names TF32 after the instruction's shape
    "sgemm": "fp32",
    "ffma": "fp32",
    "nvjet": "nvjet",
    "cutlass": "cutlass",
    "xmma": "xmma",
    "fused": "fused",
}
LONGEST = 48


def short(demangled: str) -> str:
    """``void at::native::elementwise<...>(int)`` -> ``elementwise``; a generic kernel also names
    its functor: ``CUDAFunctor_add (vectorized_elementwise_kernel)``."""
    name = short_kernel_name(demangled)
    if _WALKERS.search(name):
        inside = demangled.partition("<")[2]
        functor = next((f for f in _FUNCTOR.findall(inside) if f not in _BINDERS), "")
        if functor and functor != name:
            return f"{functor} ({name})"
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def telling_word(appeared: Iterable[str], vanished: Iterable[str]) -> str:
    """A word that every new kernel has in its name and no old one: ``tf32``; "" for none."""
    new, old = ([name.lower() for name in names] for names in (appeared, vanished))
    for piece, word in _WORDS.items():
        has = re.compile(rf"(?<![a-z]){piece}" if piece[0].isalpha() else piece)
        if all(has.search(name) for name in new) and not any(has.search(name) for name in old):
            return word
    return ""


def listed(names: Iterable[str], most: int = 2) -> str:
    """Short names, each once, the rest counted: ``a, b and 3 more``."""
    unique = list(dict.fromkeys(map(short, names)))
    text = ", ".join(unique[:most])
    return text if len(unique) <= most else f"{text} and {len(unique) - most} more"
