# SPDX-License-Identifier: MIT
"""Pseudonyms of GPU UUIDs: whether two are the same GPU can be told, and which it is cannot."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

#: Shorter texts would match by chance.
_SHORTEST = 16
_PSEUDONYM = re.compile(r"(gpu-)?anon-([0-9a-f]{16})")


def plain(uuid: str) -> str:
    """nvidia-smi writes ``GPU-a838…``, nsys the bare number."""
    return uuid.strip().lower().removeprefix("gpu-")


def pseudonym(uuid: str) -> str:
    """``GPU-anon-`` and a hash of the UUID, however it is written; of a pseudonym itself, and of
    nothing nothing."""
    bare = plain(uuid)
    if not bare:
        return ""
    found = _PSEUDONYM.fullmatch(bare)
    digest = found[2] if found else hashlib.sha256(f"GPU {bare}".encode()).hexdigest()[:16]
    return f"GPU-anon-{digest}"


def replace_uuids(text: str, uuids: Iterable[str]) -> str:
    """Text with pseudonyms in place of the UUIDs, with ``GPU-`` before them or not."""
    for uuid in uuids:
        bare = plain(uuid)
        if len(bare) >= _SHORTEST and pseudonym(uuid) != f"GPU-{bare}":
            text = re.sub(rf"(GPU-)?{re.escape(bare)}", pseudonym(uuid), text, flags=re.I)
    return text


def same_gpus(one: str, other: str) -> bool:
    """Whether two lists (``UUID, UUID``) name the same GPUs, by UUID or by pseudonym."""
    a, b = ([pseudonym(uuid) for uuid in text.split(", ")] for text in (one, other))
    return a == b
