# SPDX-License-Identifier: MIT
"""The meaning of every column, in a line each: what ``harness report --explain`` prints.

``docs/columns.md`` is written from here; a test fails when a view has a column that is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import UsageProblem

_PLACE = {
    "pid": "Process id of the program that opened the range.",
    "path": "Names of the enclosing push/pop ranges, outermost first, ending in the range's own"
    " (a list in JSON, joined with ` / ` in csv). A start/end range's path is its own name.",
    "domain": "NVTX domain of the range; empty is the default domain.",
    "name": "The range's own name, as recorded; it can be empty.",
    "style": "`push_pop` (nests per thread and domain) or `start_end` (may overlap and cross"
    " threads).",
}
_COUNTS = {
    "instances": "How often the range was opened; instances never closed count too.",
    "open": "Instances never closed: they end with the capture and are left out of"
    " per-instance statistics.",
    "cpu_ns": "CPU time from opening to closing, summed over instances.",
    "kernels": "Kernels launched inside the range, nested ranges included.",
    "memcpys": "Memory copies launched inside the range, nested ranges included.",
    "memsets": "Memory sets launched inside the range, nested ranges included.",
}
_TIMES = {
    "self_kernels": "Kernels whose innermost range is this one.",
    "self_kernel_ns": "Device time of the kernels whose innermost range is this one.",
    "total_kernel_ns": "Device time of all kernels launched inside the range, nested ranges"
    " included; each kernel once, also under recursion.",
    "self_gpu_ns": "Self time: device time of the GPU ops (kernels, copies, sets, graph"
    " launches) whose innermost range is this one.",
    "total_gpu_ns": "Total time: self time plus that of everything nested in the range; each"
    " GPU op once, also under recursion.",
    "busy_ns": "Busy time: length of the union of the ops' intervals on a device, overlap"
    " counted once, summed over devices.",
    "span_ns": "First op's start to last op's end, over all instances (of one instance: what"
    " `nsys` calls the projected range).",
    "graphs": "CUDA graph launches recorded whole (graph-level trace) inside the range, nested"
    " ranges included; their kernels were not recorded one by one.",
    "idle_ns": "Span less busy time: the device waited, or worked for another range.",
}
_THREAD = {
    "pid": "Process id of the thread that opened the range.",
    "tid": "Thread id of the thread that opened the range.",
}

#: View -> column -> meaning, in the order of the view's columns.
VIEWS: dict[str, dict[str, str]] = {
    "ranges": _PLACE | _COUNTS | _TIMES,
    "names": {k: _PLACE[k] for k in ("domain", "name", "style")} | _THREAD | _COUNTS | _TIMES,
    "kernels": {k: _PLACE[k] for k in ("domain", "name", "style")}
    | _THREAD
    | {
        "kernel": "The kernel's name; `--names short|demangled|mangled` chooses which. Short is"
        " the function's own name, of a kernel that CUTLASS wraps what it wraps.",
        "instances": "How often the range was opened; instances never closed count too.",
        "kernels": "How often this kernel ran for the range (a range claims the kernels of"
        " everything nested in it, as `nvtx_kern_sum` does).",
        "total_ns": "Device time of those kernels.",
        "avg_ns": "Mean device time of one of those kernels.",
        "median_ns": "Median device time of one of those kernels.",
        "min_ns": "Shortest of those kernels.",
        "max_ns": "Longest of those kernels.",
        "stddev_ns": "Sample standard deviation of their device times; 0 for a single kernel.",
    },
    "ops": {
        "kind": "`kernel`, `memcpy`, `memset`, or `graph` (a whole CUDA graph launch).",
        "name": "Kernel name (`--names` chooses which), or what the copy or set does.",
        "start_ns": "Start on the device, on the trace's clock.",
        "end_ns": "End on the device, on the trace's clock.",
        "device": "Device ordinal.",
        "stream": "CUDA stream id.",
        "pid": "Process id of the launching thread.",
        "tid": "Thread id of the launching thread.",
        "correlation": "Correlation id that links op and launch; unique within a process only.",
        "path": "Path of the ranges that claim the op; empty where none does.",
        "rule": "What attributed it: `thread`, `autograd`, `process`; or `outside` (launched with"
        " no range open), or `unlinked` (no launch record in the report).",
        "captured_path": "Path open when the op's CUDA graph node was captured (of a whole graph:"
        " when its capture began); empty where that is not known.",
        "forward_path": "Path in which the forward op ran whose autograd node this op is the"
        " backward of; empty where that is not known.",
    },
    "instances": {
        "process": "Process key, unique within the trace.",
        "pid": _THREAD["pid"],
        "tid": _THREAD["tid"],
        "path": _PLACE["path"],
        "domain": _PLACE["domain"],
        "name": _PLACE["name"],
        "style": _PLACE["style"],
        "start_ns": "When the instance was opened, on the trace's clock.",
        "end_ns": "When it was closed, on the trace's clock.",
        "open": "True when it was never closed: its end is the capture's.",
        "cpu_ns": "CPU time from opening to closing.",
        "kernels": _COUNTS["kernels"],
        "memcpys": _COUNTS["memcpys"],
        "memsets": _COUNTS["memsets"],
        "total_kernel_ns": _TIMES["total_kernel_ns"],
        "total_gpu_ns": _TIMES["total_gpu_ns"],
    },
    "layers": _PLACE
    | {
        "path": f"{_PLACE['path']} Names that `torch.autograd.profiler.emit_nvtx` wrote are cut"
        " before sequence number, call number and sizes, so that one operator is one row.",
        "instances": _COUNTS["instances"],
        "forward_ns": "Device time of the ops launched in the range, nested ranges included, but"
        " for backward ops whose forward range is known.",
        "backward_ns": "Device time of the backward ops whose autograd node was made by a forward"
        " op in the range (sequence numbers of `emit_nvtx`, or torch.profiler's links); those that"
        " the policy leaves outside are not counted.",
        "total_ns": "Forward plus backward.",
        "backward_ops": "How many backward ops were so linked to the range.",
    },
    "latency": _PLACE
    | {k: _COUNTS[k] for k in ("instances", "cpu_ns")}
    | {k: _TIMES[k] for k in ("busy_ns", "span_ns", "idle_ns")}
    | {
        "launch_delay_median_ns": "Median time from the start of the launching API call to the"
        " op's start on the device.",
        "launch_delay_p99_ns": "99th percentile of the time from the start of the launching API"
        " call to the op's start on the device.",
    },
    "communication": _PLACE
    | {k: _COUNTS[k] for k in ("instances", "cpu_ns", "kernels")}
    | {
        "total_gpu_ns": _TIMES["total_gpu_ns"],
        "compute_ns": "Device time of all ops but communication kernels, nested ranges included.",
        "comm_kernels": "Communication kernels (NCCL, RCCL, NVSHMEM and the like, told by their"
        " names) launched inside the range, nested ranges included.",
        "comm_ns": "Device time of those kernels. It holds the time a rank waits for the others.",
        "exposed_ns": "Part of it during which no other kernel of the same process and device ran,"
        " wherever that was launched; kernels that overlap count once.",
    },
    "torch": {
        "name": "Operator, as torch.profiler names it.",
        "input_shapes": "Shapes of its inputs (`--by-shape`); empty when not recorded.",
        "count": "How often it was called.",
        "self_device_ns": "Device time of the kernels it launched itself.",
        "device_ns": "Device time including the operators it calls.",
        "self_cpu_ns": "CPU time without the operators it calls.",
        "cpu_ns": "CPU time including them.",
        "device": "`cpu` for operators; for kernels listed on their own, their device.",
        "annotation": "True for a range of the program: its device time is that of its kernels, or"
        " of the gap they span, and must not be added to theirs.",
    },
    "both": {
        "path": "Path of the range, as nsys recorded it (as torch.profiler did where only it has"
        " it).",
        "nsys_instances": "Instances in the nsys pass.",
        "torch_instances": "Instances in the torch pass.",
        "nsys_kernels": "Kernels launched inside the range in the nsys pass, nested included.",
        "torch_kernels": "The same in the torch pass.",
        "nsys_total_ns": "Total time in the nsys pass.",
        "torch_total_ns": "Total time in the torch pass, the same measure of another execution.",
        "ratio": "torch_total_ns over nsys_total_ns.",
        "nsys_cpu_ns": "CPU time in the nsys pass.",
        "torch_cpu_ns": "CPU time in the torch pass.",
        "code": "Short name of the reason why the two disagree; empty where they agree.",
        "reason": "That reason in a sentence.",
    },
    "spread": {
        "path": _PLACE["path"],
        "domain": _PLACE["domain"],
        "name": _PLACE["name"],
        "style": _PLACE["style"],
        "measure": "What is compared: `GPU` total time; `compute`, that without communication"
        " kernels, where there are any (ranks wait for the slowest in them); or `CPU` time where"
        " no report has GPU time.",
        "sources": "In how many of the reports the range occurs.",
        "missing": "In how many it does not.",
        "kernels_min": "Fewest kernels of any report.",
        "kernels_max": "Most kernels of any report.",
        "min_ns": "Smallest total time of any report that has the range.",
        "median_ns": "Median of the reports' total times.",
        "max_ns": "Largest total time of any report.",
        "slowest": "The report with the largest total time.",
        "excess": "max_ns over median_ns, less one.",
        "straggler": "True when the slowest stands out: far above the median of all (more than"
        " 5 %, and five times the median distance from it).",
    },
}
SOURCE = "The report the row came from, made unique; first column when several are given."

#: Headings of the printed table -> meaning.
HEADINGS: dict[str, str] = {
    "Range": "The range's name, indented under the range that encloses it.",
    "Inst": _COUNTS["instances"],
    "Kernels": _COUNTS["kernels"],
    "Copies": _COUNTS["memcpys"],
    "Sets": _COUNTS["memsets"],
    "Graphs": _TIMES["graphs"],
    "Self": _TIMES["self_gpu_ns"],
    "Total": _TIMES["total_gpu_ns"],
    "Busy": _TIMES["busy_ns"],
    "Share": "Total time over the device time of all GPU ops in the report.",
    "torch: kernels": "Kernels launched inside the same range in the torch pass.",
    "torch: total": "Total time of the same range in the torch pass: another execution.",
    "Ratio": "The torch pass's total time over the nsys pass's.",
    "CPU": _COUNTS["cpu_ns"],
    "torch: inst": "Instances of the same range in the torch pass (where no GPU op was recorded).",
    "torch: CPU": "CPU time of the same range in the torch pass (where no GPU op was recorded).",
    "CPU/inst": "CPU time of one instance on average.",
}


@dataclass(frozen=True)
class Meaning:
    """Where a column occurs and what it means there."""

    views: tuple[str, ...]
    column: str
    text: str


def explain(column: str) -> list[Meaning]:
    """Every meaning of ``column``, alike ones merged; UsageProblem names near misses."""
    wanted = column.strip().casefold()
    found = [meaning for meaning in meanings() if meaning.column.casefold() == wanted]
    if not found:
        names = {name for _, name, _ in _all_columns()}
        near = sorted(name for name in names if wanted and wanted in name.casefold())
        hint = f"Did you mean {', '.join(near)}?" if near else "`--columns` lists them all."
        raise UsageProblem(f"no view has a column {column!r}", hint=hint)
    return found


def meanings() -> list[Meaning]:
    """Every column of every view, alike ones merged."""
    found: dict[tuple[str, str], list[str]] = {}
    for view, name, text in _all_columns():
        found.setdefault((name, text), []).append(view)
    return [Meaning(tuple(views), name, text) for (name, text), views in found.items()]


def _all_columns() -> list[tuple[str, str, str]]:
    rows = [("several inputs", "source", SOURCE)]
    rows += [(view, name, text) for view, cols in VIEWS.items() for name, text in cols.items()]
    return rows + [("table", name, text) for name, text in HEADINGS.items()]


def as_markdown() -> str:
    """The whole of ``docs/columns.md``."""
    out = [
        "# Columns",
        "",
        "Every column of every view of `harness report`. `harness report --explain COLUMN` prints"
        " one of them, `harness report --columns` all. Times are integer nanoseconds in csv and"
        " JSON; the printed table chooses units. This page is written by"
        " `scripts/docs`.",
        "",
        f"With several inputs every view starts with `source`: {SOURCE[0].lower()}{SOURCE[1:]}",
    ]
    for view, cols in VIEWS.items():
        title = "`--spread`" if view == "spread" else f"`--view {view}`"
        out += ["", f"## {title}", "", "| column | meaning |", "|---|---|"]
        out += [f"| `{name}` | {_cell(text)} |" for name, text in cols.items()]
    out += ["", "## Headings of the table", "", "| heading | meaning |", "|---|---|"]
    out += [f"| {name} | {_cell(text)} |" for name, text in HEADINGS.items()]
    return "\n".join(out) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def as_text() -> str:
    """All columns for the terminal, one a line."""
    out = []
    for view, cols in [*VIEWS.items(), ("table", HEADINGS)]:
        out.append(f"{view}:")
        width = max(map(len, cols))
        out += [f"  {name:<{width}}  {text.replace('`', '')}" for name, text in cols.items()]
    return "\n".join(out) + "\n"
