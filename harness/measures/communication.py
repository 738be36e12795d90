# SPDX-License-Identifier: MIT
"""Communication kernels, told apart by name, and how much of them no computation hides."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.attribute.arrays import Ints, Mask
from harness.attribute.engine import Attribution
from harness.measures.rows import Ops, Rows
from harness.measures.totals import totals
from harness.measures.unions import busy, device_groups
from harness.trace import Warning_
from harness.words import agree, plural

#: NCCL and RCCL (since 2.18 ``ncclDevKernel_…``), MSCCL, NVSHMEM, and the all-reduces that PyTorch
#: and vLLM bring along. Namespaces, ``void`` and template arguments around the name do not matter.
_COMMUNICATION = re.compile(
    r"(?:^|[\s:&])(?:nccl|rccl|msccl|nvshmem|cross_device_reduce|multimem_\w+_kernel"
    r"|(?:one|two)_shot_all_reduce)",
    re.IGNORECASE,
)

#: Copies between host and device, as both readers call them.
_HOST_COPY = re.compile(r"Host-to-Device|Device-to-Host")


def is_communication(found: Attribution) -> Mask:
    """Which ops are kernels that move data between GPUs; judged by the base name."""
    moves: Mask = _named(found, _COMMUNICATION) & (Ops.of(found).kind == 0)
    return moves


def _named(found: Attribution, pattern: re.Pattern[str]) -> Mask:
    names = found.trace.gpu_ops["name"].cat
    listed = np.array([bool(pattern.search(str(n))) for n in names.categories], dtype=bool)
    codes = names.codes.to_numpy()
    # A code of -1 is a missing name: the appended False.
    return np.asarray(np.append(listed, False)[codes])


def communication(found: Attribution, rows: Rows) -> dict[str, Ints]:
    """Of each row: communication kernels, their device time, and its exposed part; ns.

    Exposed is the time in which a communication kernel of the row runs and no other kernel of the
    same process and device does, wherever that one was launched; two at once count once.
    """
    moves = is_communication(found)
    if not moves.any():
        nothing = np.zeros(rows.count, np.int64)
        return {"comm_kernels": nothing, "comm_ns": nothing, "exposed_ns": nothing}
    ops = Ops.of(found)
    only = replace(found, keep_op=ops.keep & moves)
    summed = totals(only, rows)
    start, end = _uncovered(found, ops, moves)
    bare = found.trace.gpu_ops.assign(start=start, end=end)
    exposed = busy(replace(only, trace=replace(found.trace, gpu_ops=bare)), rows)
    return {
        "comm_kernels": summed["kernels"],
        "comm_ns": summed["total_kernel_ns"],
        "exposed_ns": exposed,
    }


def nothing_said(found: Attribution) -> list[Warning_]:
    """Why the view shows nothing, where the recording has no communication kernel at all."""
    ops = Ops.of(found)
    if is_communication(found).any() or not len(ops.kind):
        return []
    host = _named(found, _HOST_COPY) & (ops.kind == 1)
    number, ns = int(host.sum()), int((ops.end - ops.start)[host].sum())
    return [
        Warning_(
            "no-communication",
            "no communication kernel (NCCL, RCCL, NVSHMEM, …) was recorded; "
            f"{plural(number, 'copy')} between host and device "
            f"{agree(number, 'takes', 'take')} {ns} ns",
            "gloo and MPI go through the host: of them the GPU sees copies (--view ops has them). "
            "NCCL launches no kernel for one rank.",
        )
    ]


def _uncovered(found: Attribution, ops: Ops, moves: Mask) -> tuple[Ints, Ints]:
    """Starts and ends of all ops on a clock that stands still while a kernel computes.

    On that clock the union of intervals is as long as the part of their union that no computing
    kernel of the device covers. Each process and device has a clock of its own.
    """
    frame = found.trace.gpu_ops
    group = device_groups(frame["process"].to_numpy(), frame["device"].to_numpy())
    start, end = ops.start.copy(), ops.end.copy()
    computes = (ops.kind == 0) & ~moves
    for number in np.unique(group[moves]):
        here = np.flatnonzero(group == number)
        at = here[computes[here]]
        if not len(at):
            continue
        clock = _Clock(ops.start[at], ops.end[at])
        start[here], end[here] = clock(ops.start[here]), clock(ops.end[here])
    return start, end


class _Clock:
    """Time less the time that a set of intervals (ns) has covered by then."""

    def __init__(self, start: Ints, end: Ints) -> None:
        order = np.argsort(start, kind="stable")
        start, end = start[order], np.maximum.accumulate(end[order])
        fresh = np.ones(len(start), dtype=bool)
        fresh[1:] = start[1:] > end[:-1]
        first = np.flatnonzero(fresh)
        self.start = start[first]
        self.end = end[np.append(first[1:], len(start)) - 1]
        length = self.end - self.start
        self.before = np.cumsum(length) - length

    def __call__(self, time: npt.NDArray[Any]) -> Ints:
        at = np.searchsorted(self.start, time, side="right") - 1
        inside = np.minimum(time, self.end[at]) - self.start[at] + self.before[at]
        return np.asarray(time - np.where(at >= 0, inside, 0), dtype=np.int64)
