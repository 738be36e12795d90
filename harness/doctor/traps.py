# SPDX-License-Identifier: MIT
"""Which versions spoil each other, as seen on real machines."""

from __future__ import annotations

import re

#: First nsys release -> newest CUDA it was made for (the toolkit that shipped it).
_NSYS_CUDA = (
    ((2025, 3), (13, 0)),
    ((2025, 1), (12, 9)),
    ((2024, 6), (12, 8)),
    ((2024, 4), (12, 6)),
    ((2024, 2), (12, 5)),
    ((2023, 4), (12, 4)),
    ((2023, 3), (12, 3)),
    ((2023, 2), (12, 2)),
    ((2023, 1), (12, 1)),
    ((2022, 4), (12, 0)),
    ((0, 0), (11, 7)),
)


def numbers(version: str | None) -> tuple[int, ...]:
    """``"2022.4.2.1"`` -> (2022, 4, 2, 1); empty for None."""
    match = re.match(r"\d+(\.\d+)*", version or "")
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def nvtx_records_nothing(nvtx: str | None, nsys: str | None) -> bool:
    """Whether ranges of the ``nvtx`` package vanish under this nsys.

    From 0.2.12 the package asks ``nvtxDomainIsEnabled``, which older nsys do not answer: seen with
    0.2.12 and later under 2022.4, 2023.4 and 2024.2. 0.2.11 works there, 0.2.16 under 2025.3.
    """
    return bool(nvtx and nsys) and numbers(nvtx) >= (0, 2, 12) and numbers(nsys) < (2025,)


def newest_cuda(nsys: str) -> tuple[int, int]:
    """The newest CUDA that an nsys version knows."""
    release = numbers(nsys)[:2]
    return next(cuda for since, cuda in _NSYS_CUDA if release >= since)


def nsys_older_than_cuda(nsys: str, cuda: str) -> bool:
    """Whether the driver's CUDA is a major version that this nsys does not know.

    Seen: 2023.4 on a CUDA 13 driver "succeeds with non-fatal errors" and keeps 2 of hundreds of
    kernels. Newer minor versions of the same major are compatible.
    """
    return numbers(cuda)[:1] > newest_cuda(nsys)[:1]
