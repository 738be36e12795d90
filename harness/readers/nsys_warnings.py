# SPDX-License-Identifier: MIT
"""What spoils an nsys report: one warning for each, with what to do.

The codes are stable:

==================== ==============================================================
no-nvtx              nothing of NVTX was recorded: not traced, or not used by the program
no-ranges            NVTX was traced (domains, marks), and not one range
no-gpu-ops           no kernel, copy, set or graph launch was recorded
no-launches          GPU ops but no CUDA API calls: every op is unlinked
few-kernels          many kernel launches, few kernels (nsys older than the driver)
process-without-ops  a process launched kernels, and none of them was recorded
graph-level          CUDA graphs were recorded as wholes, not kernel by kernel
clipped              many GPU ops have no launch record in their own process
open-ranges          ranges that never closed
stale-export         the ``.nsys-rep`` beside the ``.sqlite`` is newer
backward-times       rows that end before they start; taken as zero-length
nsys-diagnostic      what nsys itself complained about
two-profilers        another CUPTI client, such as torch.profiler, ran as well
==================== ==============================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.readers import STALE_AFTER_NS, nsys_schema
from harness.readers.columns import Database, Int64
from harness.trace import Trace, Warning_

_RECORD = "Record with nsys profile -t cuda,nvtx (harness run --nsys does)."
_KERNEL_LAUNCH = re.compile(r"^cu(da)?Launch(Cooperative)?Kernel")
#: Complaints about what harness never asks for, or that have a code of their own here.
_HARMLESS = re.compile(
    r"perf event paranoid|IP/backtrace|IP samples|context switch|Does the process use|"
    r"sampling|GPU Metrics|Vulkan|OpenGL|DX1[12]|permissions? to (collect|access)|FTrace",
    re.IGNORECASE,
)
_SECOND_SUBSCRIBER = re.compile(r"MULTIPLE_SUBSCRIBERS|already (been )?subscribed", re.IGNORECASE)


@dataclass(frozen=True)
class Oddities:
    """What the reader had to mend: rows that end before they start, by kind of row."""

    bad_times: dict[str, int] = field(default_factory=dict)


def read_warnings(db: Database, trace: Trace, oddities: Oddities) -> tuple[Warning_, ...]:
    """All warnings about one export, the gravest first."""
    return (
        *_nothing_recorded(db, trace),
        *_too_few_kernels(trace),
        *_graphs(trace),
        *_unlinked(trace),
        *_ranges(trace),
        *_stale(db.path),
        *_mended(oddities),
        *_diagnostics(db),
    )


def partial_warnings(db: Database) -> tuple[Warning_, ...]:
    """Those that need no rows of the recording, for one that is read in parts."""
    return (*_stale(db.path), *_diagnostics(db))


def _nothing_recorded(db: Database, trace: Trace) -> Iterator[Warning_]:
    if not len(trace.ranges):
        yield _no_nvtx(db)
    if not len(trace.gpu_ops):
        yield _no_gpu_ops(trace)
    elif not len(trace.launches):
        yield Warning_(
            "no-launches",
            f"no CUDA API calls were recorded (table {nsys_schema.RUNTIME}): "
            "GPU ops cannot be linked to ranges",
            _RECORD,
        )


def _no_nvtx(db: Database) -> Warning_:
    there = nsys_schema.NVTX in db.tables
    if not there or not db.rows(f"SELECT 1 FROM {nsys_schema.NVTX} LIMIT 1"):
        what = f"{nsys_schema.NVTX} is empty" if there else f"no table {nsys_schema.NVTX}"
        return Warning_(
            "no-nvtx",
            f"no NVTX ranges were recorded ({what})",
            "Annotate the program (harness.range, torch.cuda.nvtx) and record with nsys profile "
            "-t cuda,nvtx.",
        )
    if nsys_schema.domain_names(db):
        return Warning_(
            "no-ranges",
            "NVTX domains were recorded, but not one range",
            "The nvtx package from 0.2.12 on records no ranges under nsys 2022.4, 2023.4 or "
            "2024.2: install nvtx==0.2.11, or use nsys 2025.3 or later.",
        )
    return Warning_(
        "no-ranges",
        f"no NVTX ranges were recorded ({nsys_schema.NVTX} has marks and names only)",
        "Annotate the program with ranges: harness.range, torch.cuda.nvtx.range.",
    )


def _no_gpu_ops(trace: Trace) -> Warning_:
    calls = len(trace.launches)
    if calls:
        return Warning_(
            "no-gpu-ops",
            f"{calls} CUDA API calls were recorded, but no GPU work (no table "
            f"{nsys_schema.KERNEL})",
            "nsys may be older than the driver, another profiler (torch.profiler, ncu, DCGM) may "
            "have held CUPTI, or the capture ended before the GPU did: synchronise before the end.",
        )
    return Warning_(
        "no-gpu-ops",
        f"no GPU work and no CUDA calls were recorded (no table {nsys_schema.KERNEL} or "
        f"{nsys_schema.RUNTIME})",
        f"The program used no GPU, or CUDA was not traced. {_RECORD}",
    )


def _too_few_kernels(trace: Trace) -> Iterator[Warning_]:
    launched = _kernel_launches(trace)
    if launched.empty:
        return
    ops = trace.gpu_ops
    is_kernel = (ops["kind"] == "kernel").to_numpy()
    kernels = ops["process"][is_kernel].value_counts()
    recorded = ops["process"].value_counts()
    # A launch during stream capture makes a graph node, not a kernel.
    captured = trace.graph_nodes["process"].value_counts()
    graphs = ops["process"][(ops["kind"] == "graph").to_numpy()].value_counts()
    silent = [int(p) for p in launched.index if not recorded.get(p, 0) and not captured.get(p, 0)]
    if silent and len(ops):
        pids = ", ".join(str(process & 0xFFFFFF) for process in silent)
        yield Warning_(
            "process-without-ops",
            f"process {pids} launched {int(launched[silent].sum())} kernels and none was recorded",
            "CUPTI serves one client a process: look for another profiler there, or a process "
            "that was killed before nsys could collect its buffers.",
        )
    heard = [p for p in launched.index if p not in silent and not graphs.get(p, 0)]
    wanted = sum(int(launched[p]) - int(captured.get(p, 0)) for p in heard)
    found = sum(int(kernels.get(p, 0)) for p in heard)
    if wanted >= 20 and found < wanted / 2:
        yield Warning_(
            "few-kernels",
            f"{wanted} kernel launches, but only {found} kernels were recorded"
            f"{_versions(trace)}: times are far too low",
            "nsys older than the driver's CUDA drops kernels without failing: use an nsys as new "
            "as the driver (harness doctor compares them).",
        )


def _kernel_launches(trace: Trace) -> pd.Series[int]:
    """Kernel launches a process."""
    names = trace.launches["name"].cat
    wanted = [i for i, name in enumerate(names.categories) if _KERNEL_LAUNCH.match(name)]
    rows = np.isin(names.codes.to_numpy(), wanted)
    thread = trace.launches["thread"].to_numpy()[rows]
    counts = np.bincount(thread, minlength=len(trace.threads))
    by_process = pd.Series(counts, dtype="int64").groupby(trace.threads["process"]).sum()
    return by_process[by_process > 0]


def _versions(trace: Trace) -> str:
    source = trace.source
    parts = [f"nsys {source.version}"] if source.version else []
    if "cuda_driver" in source.facts:
        parts.append(f"driver with CUDA {source.facts['cuda_driver']}")
    return f" ({', '.join(parts)})" if parts else ""


def _graphs(trace: Trace) -> Iterator[Warning_]:
    graphs = int((trace.gpu_ops["kind"] == "graph").sum())
    if graphs:
        yield Warning_(
            "graph-level",
            f"{graphs} CUDA graph launches were recorded as wholes: their kernels were not",
            "Record with nsys profile --cuda-graph-trace=node (harness run --graphs node); it "
            "slows graph launches down, so compare times only with runs recorded alike.",
        )


def _unlinked(trace: Trace) -> Iterator[Warning_]:
    if not len(trace.launches) or not len(trace.gpu_ops):
        return
    ops = trace.gpu_ops
    missing = ~_has_launch(trace)
    count = int(missing.sum())
    if count < 10 or count < len(ops) / 100:
        return
    first = int(trace.launches["start"].min())
    before = int((missing & (ops["start"].to_numpy() < first)).sum())
    why = "; most ran before the first recorded call" if before > count / 2 else ""
    yield Warning_(
        "clipped",
        f"{count} of {len(ops)} GPU ops have no launch record in their process{why}",
        "The capture or export was cut in time, or began while work was queued: they stay "
        "unlinked. Export the whole report, or start the capture after a synchronise.",
    )


def _has_launch(trace: Trace) -> npt.NDArray[np.bool_]:
    """For each op: is there a launch with its process and correlation?"""
    known = trace.launches["correlation"].to_numpy()
    wanted = trace.gpu_ops["correlation"].to_numpy()
    op_process: Int64 = trace.gpu_ops["process"].to_numpy()
    if trace.threads["process"].nunique() == 1:
        only = int(trace.threads["process"].iloc[0])
        mine: npt.NDArray[np.bool_] = op_process == only
        return mine & _found(wanted, known)
    process = trace.threads["process"].to_numpy()[trace.launches["thread"].to_numpy()]
    out = np.zeros(len(wanted), bool)
    for one in pd.unique(op_process).tolist():
        mine = op_process == one
        out[mine] = _found(wanted[mine], known[process == one])
    return out


def _found(wanted: Int64, known: Int64) -> npt.NDArray[np.bool_]:
    """Which of ``wanted`` are among ``known``; by a table where the numbers lie close."""
    if not len(known):
        return np.zeros(len(wanted), bool)
    low, high = int(known.min()), int(known.max())
    if high - low > 16 * len(known) + 1024:
        return np.isin(wanted, known)
    present = np.zeros(high - low + 3, bool)  # with an empty slot at either end
    present[known - (low - 1)] = True
    return present[np.clip(wanted, low - 1, high + 1) - (low - 1)]


def _ranges(trace: Trace) -> Iterator[Warning_]:
    count = int(trace.ranges["open"].sum())
    if count:
        names = trace.ranges["name"][trace.ranges["open"]].unique().tolist()
        shown = ", ".join(repr(name[:40]) for name in names[:3]) + (", …" if len(names) > 3 else "")
        yield Warning_(
            "open-ranges",
            f"{count} of {len(trace.ranges)} ranges never closed ({shown}): they end with the "
            "capture and are left out of per-instance figures",
            "Pop what is pushed, or use with blocks; a crash or the end of the capture also "
            "leaves ranges open.",
        )


def _stale(path: Path) -> Iterator[Warning_]:
    report = path.with_suffix(".nsys-rep")
    try:
        newer = report.stat().st_mtime_ns - path.stat().st_mtime_ns
    except OSError:
        return
    if newer > STALE_AFTER_NS:
        yield Warning_(
            "stale-export",
            f"{report.name} is {newer / 1e9:.0f} s newer than {path.name}: this export may be of "
            "an older recording",
            f"Give {report.name} instead, or export it again with --force-overwrite true.",
        )


def _mended(oddities: Oddities) -> Iterator[Warning_]:
    if oddities.bad_times:
        found = sorted(oddities.bad_times.items())
        what = ", ".join(f"{n} {'GPU ops' if kind == 'ops' else kind}" for kind, n in found)
        yield Warning_(
            "backward-times",
            f"rows that end before they start were taken as zero-length: {what}",
            "The clocks of CPU and GPU were badly matched in this recording: record again.",
        )


def _diagnostics(db: Database) -> Iterator[Warning_]:
    if not db.has("DIAGNOSTIC_EVENT", "severity", "text"):
        return
    # ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 1 info, 2 warning, 3 error, 4 verbose.
    texts = [
        str(text)
        for (text,) in db.rows(
            "SELECT DISTINCT text FROM DIAGNOSTIC_EVENT WHERE severity IN (2, 3) "
            "ORDER BY severity DESC, timestamp LIMIT 100"
        )
    ]
    if any(_SECOND_SUBSCRIBER.search(text) for text in texts):
        yield Warning_(
            "two-profilers",
            "another CUPTI client ran in the program: one of the two recorded no kernels",
            "Do not use torch.profiler in a program that nsys profiles; harness run records each "
            "in a pass of its own.",
        )
    told = [text for text in texts if not _HARMLESS.search(text)]
    for text in told[:5]:
        line = " ".join(text.split())
        yield Warning_("nsys-diagnostic", f"nsys: {line[:300]}", "")
