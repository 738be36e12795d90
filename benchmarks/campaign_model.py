# SPDX-License-Identifier: MIT
"""docs/h200.md on the byte model: what it predicts, what was measured, and why they differ."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from campaign_markdown import MISSING, rows_of, shape, table

from harness import summarise

if TYPE_CHECKING:
    from campaign_evidence import Evidence, Recorded

#: The eager chain's operators in the order of their kernels, and the values each moves an element.
EAGER = (("mul", 2), ("sub", 2), ("gelu", 2), ("add", 3), ("clamp", 2))
FUSED_MOVES = 3
#: Beyond this the page says why.
ALLOWED = 0.05
COPY_MOVES = 2
#: Values an element that each way of `fused_chain_h200.json` moves.
MOVES = {
    "copy": COPY_MOVES,
    "fused": FUSED_MOVES,
    "compiled": FUSED_MOVES,
    "eager": sum(count for _, count in EAGER),
}
CHAIN = "chain"
#: Where the times by CUDA events come from, with inputs that no cache holds.
EVENTS = "fused_chain_h200.json"


@dataclass(frozen=True)
class Case:
    """The chain at one shape and precision. ``eager`` and ``fused`` are bandwidths by the byte
    model over that of a device copy, None where no copy was measured."""

    source: str
    shape: str
    math: str
    tensor_bytes: int
    l2_bytes: int
    predicted: float
    measured: float
    eager: float | None
    fused: float | None

    @property
    def off(self) -> float:
        return self.measured / self.predicted - 1

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            f"`{self.source}`",
            self.shape,
            self.math,
            f"{self.predicted:.3f}",
            f"{self.measured:.3f}",
            f"{100 * self.off:+.1f} %",
            _share(self.eager),
            _share(self.fused),
        )


def model(evidence: Evidence) -> str:
    """Eager over fused chain: what the bytes predict, and what was measured."""
    cases = [*filter(None, map(_of_run, evidence.best)), *_of_events(evidence.fused)]
    if not cases:
        return ""
    within = [case for case in cases if abs(case.off) <= ALLOWED]
    return "\n\n".join([
        "## Prediction and measurement",
        "The eager chain over the fused one. Predicted: the values each has to move. Measured: "
        "from runs, the GPU time of the ranges `chain`; from `fused_chain_h200.json`, CUDA events, "
        "with inputs that no cache holds. The last two columns are bandwidths by the byte model "
        "over that of a device copy in the same recording (of extracts: by CUDA events); where "
        "they are equal, the prediction holds.",
        table(("from", "shape", "", "predicted", "measured", "off by", "eager ÷ copy",
               "fused ÷ copy"), [case.cells for case in cases], 3),
        f"{len(within)} of {len(cases)} are within {100 * ALLOWED:.0f} %."
        + (" The others:" if len(within) < len(cases) else ""),
        *["\n".join(f"* {_why(case, cases)}" for case in cases if case not in within)],
    ]).rstrip()  # fmt: skip


def rates(case: dict[str, Any]) -> dict[str, float]:
    """GB/s of each way of a case of `fused_chain_h200.json`, from its times and its bytes alone:
    the rates and ratios that the file holds too are only for its reader."""
    return {way: MOVES[way] * case["tensor_bytes"] / ns for way, ns in case["ns"].items() if ns}


def _of_run(one: Recorded) -> Case | None:
    eager, quick = (one.timings.get((f"{s}-block", CHAIN)) for s in ("eager", "fused"))
    workload = one.run.workload or {}
    if eager is None or quick is None or "byte_model" not in workload:
        return None
    size, copy = workload["tensor_bytes"], _copy(one)
    moves = sum(count for _, count in EAGER)
    return Case(
        one.name,
        shape(one),
        one.math,
        size,
        workload["machine"].get("l2_bytes", 0),
        workload["byte_model"]["predicted_ratio"],
        eager.ns / quick.ns,
        moves / COPY_MOVES * copy / eager.ns if copy else None,
        FUSED_MOVES / COPY_MOVES * copy / quick.ns if copy else None,
    )


def _of_events(fused: dict[str, Any] | None) -> list[Case]:
    if fused is None:
        return []
    found = []
    for case in fused["cases"]:
        rate, ns = rates(case), case["ns"]
        found.append(
            Case(
                EVENTS,
                case["shape"] + (" +1" if case["offset"] else ""),
                case["dtype"],
                case["tensor_bytes"],
                fused["machine"].get("l2_bytes", 0),
                MOVES["eager"] / MOVES["fused"],
                ns["eager"] / ns["fused"],
                rate["eager"] / rate["copy"],
                rate["fused"] / rate["copy"],
            )
        )
    return found


def _copy(one: Recorded) -> float | None:
    """A device copy of one tensor, ns: as nsys saw it, else as the workload timed it."""
    workload = one.run.workload or {}
    size = workload["tensor_bytes"]
    times: list[int] = []
    for capture in one.captures:
        ops = capture.trace.gpu_ops
        mine = ops[(ops["kind"] == "memcpy") & (ops["bytes"] == size)]
        mine = mine[mine["name"].astype(str).str.contains("Device-to-Device")]
        times += (mine["end"] - mine["start"]).tolist()
    if times:
        return float(median(times))
    timed = workload.get("timings", {}).get("copy")
    return float(timed["median_ns"]) if timed else None


def _why(case: Case, cases: list[Case]) -> str:
    """As far as the bandwidths tell."""
    said = f"`{case.source}`, {case.shape} {case.math} ({100 * case.off:+.1f} %): "
    if case.eager is None or case.fused is None:
        return said + "no copy was measured beside it."
    mib = case.tensor_bytes / 2**20
    sizes = f"a tensor has {mib:.0f} MiB and the L2 {case.l2_bytes / 2**20:.0f} MiB"
    if case.source != EVENTS and case.off > 0 and case.tensor_bytes <= case.l2_bytes:
        cold = next((c for c in cases if c.source == EVENTS and c.shape == case.shape
                     and c.tensor_bytes == case.tensor_bytes), None)  # fmt: skip
        return said + (
            f"{sizes}, so h, which the GEMM has just written, is still there when the fused kernel "
            f"reads it: {case.fused:.3f} of the copy's bandwidth, against {case.eager:.3f} of the "
            "eager kernels."
            + (f" With inputs that no cache holds: {100 * cold.off:+.1f} %." if cold else "")
        )
    if FUSED_MOVES * case.tensor_bytes <= case.l2_bytes and case.eager > 1:
        return said + (
            f"{sizes}, so each eager kernel finds in it what the one before wrote: "
            f"{case.eager:.3f} of the copy's bandwidth, against {case.fused:.3f} of the fused "
            "kernel, which reads new inputs."
        )
    peers = [c for c in cases if c.math == "fp32" and c.shape == case.shape and c.eager is not None]
    said += f"the fused kernel reaches {case.fused:.3f} of the copy's bandwidth and the eager "
    said += f"kernels {case.eager:.3f}"
    if peers:
        peer = max(peers, key=lambda c: c.source == case.source)
        said += f", where in fp32 they reach {peer.fused:.3f} and {peer.eager:.3f}"
    return said + "; which of them falls back is in the next table."


def kernel_by_kernel(evidence: Evidence) -> str:
    """Each kernel's bandwidth over the copy's: which of them is not bound by memory."""
    rows, runs = [], []
    for one in evidence.kept:
        found, copy = _kernels(one), _copy(one)
        if not found or not copy:
            continue
        size = (one.run.workload or {})["tensor_bytes"]
        runs.append(one)
        rows.append((shape(one), one.math, f"{COPY_MOVES * size / copy:.0f}",
                     *(_share(moves * copy / COPY_MOVES / ns if ns else None)
                       for moves, ns in found)))  # fmt: skip
    if not rows:
        return ""
    return "\n\n".join([
        "### Kernel by kernel",
        "The chain's kernels, each one's bandwidth by the byte model over the copy's (GB/s, from "
        "the same recording): medians over all instances. Near 1, a kernel moves its bytes as fast "
        "as a copy does; far below, something else bounds it (small tensors: its start and end); "
        "far above, a cache helps.",
        table(("shape", "", "copy GB/s", *(name for name, _ in EAGER), "fused", "compiled"),
              rows, 2),
        "From " + ", ".join(f"`{one.name}`" for one in runs) + ".",
    ])  # fmt: skip


def _kernels(one: Recorded) -> list[tuple[int, float | None]]:
    """(values moved, median ns or None) of the eager chain's kernels, the fused and the
    compiled one; empty when the eager chain has other kernels than expected."""
    eager: list[list[int]] = [[] for _ in EAGER]
    single: dict[str, list[int]] = {"fused": [], "compiled": []}
    for capture in one.captures:
        ops = summarise.ops(capture)
        ops = ops[ops["kind"] == "kernel"].sort_values("start_ns")
        ops = ops.assign(ns=ops["end_ns"] - ops["start_ns"])
        times: dict[tuple[str, ...], list[int]] = {}
        for row in rows_of(ops[["path", "ns"]]):
            times.setdefault(tuple(row.path), []).append(row.ns)
        chain = times.get(("eager-block", CHAIN), [])
        if not chain or len(chain) % len(EAGER):
            return []
        for place, values in enumerate(eager):
            values += chain[place :: len(EAGER)]
        for name, values in single.items():
            values += times.get((f"{name}-block", CHAIN), [])
    found = [(moves, median(values)) for (_, moves), values in zip(EAGER, eager, strict=True)]
    return [*found, *((FUSED_MOVES, median(v) if v else None) for v in single.values())]


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3f}"
