# SPDX-License-Identifier: MIT
"""What spoils an nsys report: one warning for each, with what to do.

The codes are stable:

==================== ==============================================================
missing-values       rows that lack a time or an id: left out of every figure
missing-names        names that are not in the file, or no thread's
missing-columns      a table has rows that cannot be read: times or ids are missing
no-nvtx              nothing of NVTX was recorded: not traced, or not used by the program
no-ranges            NVTX was traced (domains, marks), and not one range
no-gpu-ops           no kernel, copy, set or graph launch was recorded
no-launches          GPU ops but no CUDA API calls: every op is unlinked
few-kernels          many kernel launches, few kernels (nsys older than the driver)
few-copies           many API calls that copy, few copies recorded
few-sets             many API calls that set memory, few sets recorded
process-without-ops  a process launched kernels, and none of them was recorded
graph-level          CUDA graphs were recorded as wholes, not kernel by kernel
clipped              many GPU ops have no launch record in their own process
open-ranges          ranges that never closed
stale-export         the ``.nsys-rep`` beside the ``.sqlite`` is newer
unfinished-write     a program's journal of changes lies beside the ``.sqlite``
backward-times       rows that end before they start; taken as zero-length
nsys-diagnostic      what nsys itself complained about
two-profilers        another CUPTI client, such as torch.profiler, ran as well
==================== ==============================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.readers import STALE_AFTER_NS, nsys_schema
from harness.readers.columns import Database
from harness.readers.nsys_lost_names import read_lost_names
from harness.readers.nsys_tally import RangeTally, Tally
from harness.trace import Source, Warning_
from harness.words import agree, plural

_RECORD = "Record with nsys profile -t cuda,nvtx (harness run --nsys does)."
#: Complaints about what harness never asks for, or that have a code of their own here.
_HARMLESS = re.compile(
    r"perf event paranoid|IP/backtrace|IP samples|context switch|Does the process use|"
    r"sampling|GPU Metrics|Vulkan|OpenGL|DX1[12]|permissions? to (collect|access)|FTrace",
    re.IGNORECASE,
)
_NOT_STARTED = re.compile(r"CUDA profiling might (have not|not have) been started", re.IGNORECASE)
_IDLE = (
    "Nothing is missing if these use no GPU, such as the workers that torch.compile starts; the "
    "GPU work of others was recorded."
)
_SECOND_SUBSCRIBER = re.compile(r"MULTIPLE_SUBSCRIBERS|already (been )?subscribed", re.IGNORECASE)


def read_warnings(db: Database, source: Source, tally: Tally) -> tuple[Warning_, ...]:
    """All warnings about one export, the gravest first."""
    return (
        *_missing_columns(db),
        *_missing_values(tally.dropped),
        *read_lost_names(db, tally),
        *_nothing_recorded(db, tally),
        *_too_few_kernels(source, tally),
        *_too_few("few-copies", ("copy", "copies"), tally, tally.copy_calls_of, tally.copies_of),
        *_too_few("few-sets", ("set", "sets"), tally, tally.set_calls_of, tally.sets_of),
        *_graphs(tally),
        *_unlinked(tally),
        *_ranges(tally.ranges),
        *_stale(db.path),
        *_unfinished(db.path),
        *_mended(tally.bad_times),
        *_diagnostics(db, tally),
    )


def _missing_columns(db: Database) -> Iterator[Warning_]:
    for table, columns in nsys_schema.lacking(db).items():
        yield Warning_(
            "missing-columns",
            f"{table} has no {agree(len(columns), 'column', 'columns')} {', '.join(columns)}: "
            "its rows are left out of every figure",
            "Export the report again with nsys export --type sqlite --force-overwrite true.",
        )


def _missing_values(dropped: Mapping[str, int]) -> Iterator[Warning_]:
    lacking = {
        **dict.fromkeys(nsys_schema.OP_TABLES.values(), "start or end"),
        nsys_schema.RUNTIME: "start, end or globalTid",
        nsys_schema.NVTX: "start, eventType or globalTid",
        nsys_schema.GRAPH_NODES: "start, globalTid or graphNodeId",
        nsys_schema.GRAPH_EVENTS: "start, globalTid or a graph's number",
    }
    for table, columns in lacking.items():
        if number := dropped.get(table):
            yield Warning_(
                "missing-values",
                f"{table}: {plural(number, 'row')} without {columns}: "
                f"{agree(number, 'it is', 'they are')} left out of every figure",
                "Export the report again with nsys export --type sqlite --force-overwrite true.",
            )


def _nothing_recorded(db: Database, tally: Tally) -> Iterator[Warning_]:
    if not tally.ranges.ranges:
        yield _no_nvtx(db)
    if not tally.ops:
        yield _no_gpu_ops(tally.launches)
    elif not tally.launches:
        yield Warning_(
            "no-launches",
            f"no CUDA API calls were recorded (table {nsys_schema.RUNTIME}): "
            "GPU ops cannot be linked to ranges",
            _RECORD,
        )


def _no_nvtx(db: Database) -> Warning_:
    there = nsys_schema.NVTX in db.tables
    if not there or not db.rows(f"SELECT 1 FROM {nsys_schema.NVTX} LIMIT 1", "i"):
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


def _no_gpu_ops(calls: int) -> Warning_:
    if calls:
        return Warning_(
            "no-gpu-ops",
            f"{plural(calls, 'CUDA API call')} {agree(calls, 'was', 'were')} recorded, but no GPU "
            f"work (no table {nsys_schema.KERNEL})",
            "nsys may be older than the driver, another profiler (torch.profiler, ncu, DCGM) may "
            "have held CUPTI, or the capture ended before the GPU did: synchronise before the end.",
        )
    return Warning_(
        "no-gpu-ops",
        f"no GPU work and no CUDA calls were recorded (no table {nsys_schema.KERNEL} or "
        f"{nsys_schema.RUNTIME})",
        f"The program used no GPU, or CUDA was not traced. {_RECORD}",
    )


def _too_few_kernels(source: Source, tally: Tally) -> Iterator[Warning_]:
    launched = tally.kernel_launches_of
    # A launch during stream capture makes a graph node, not a kernel.
    captured = tally.nodes_of
    silent = sorted(p for p in launched if not tally.ops_of.get(p) and not captured.get(p))
    if silent and tally.ops:
        pids = ", ".join(str(process & 0xFFFFFF) for process in silent)
        number = sum(launched[process] for process in silent)
        yield Warning_(
            "process-without-ops",
            f"process {pids} launched {plural(number, 'kernel')} and none was recorded",
            "CUPTI serves one client a process: look for another profiler there, or a process "
            "that was killed before nsys could collect its buffers.",
        )
    heard = [p for p in launched if p not in silent and not tally.graphs_of.get(p)]
    wanted = sum(launched[p] - captured.get(p, 0) for p in heard)
    found = sum(tally.kernels_of.get(p, 0) for p in heard)
    if wanted >= 20 and found < wanted / 2:
        yield Warning_(
            "few-kernels",
            f"{wanted} kernel launches, but only {plural(found, 'kernel')} "
            f"{agree(found, 'was', 'were')} recorded{_versions(source)}: times are far too low",
            "nsys older than the driver's CUDA drops kernels without failing: use an nsys as new "
            "as the driver (harness doctor compares them).",
        )


def _too_few(
    code: str,
    word: tuple[str, str],
    tally: Tally,
    calls_of: Mapping[int, int],
    ops_of: Mapping[int, int],
) -> Iterator[Warning_]:
    """Copies or sets that are missing: none at all, or less than half of many.

    A call during stream capture makes a graph node, and a graph recorded as a whole hides what is
    in it: processes with either say nothing. One without any op has a warning of its own.
    """
    graphs = {**tally.graphs_of, **tally.nodes_of}
    heard = [p for p in calls_of if tally.ops_of.get(p) and not graphs.get(p)]
    wanted = sum(calls_of[p] for p in heard)
    found = sum(ops_of.get(p, 0) for p in heard)
    if (wanted and not found) or (wanted >= 20 and found < wanted / 2):
        calls = f"{wanted} API {agree(wanted, 'call', 'calls')} for a {word[0]}"
        yield Warning_(
            code,
            f"{calls}, but {found or 'no'} {agree(found, *word)} "
            f"{agree(found, 'was', 'were')} recorded: times are too low",
            "Their table was lost, or the recording was cut: export the .nsys-rep again "
            "(nsys export -t sqlite), or record again.",
        )


def _versions(source: Source) -> str:
    parts = [f"nsys {source.version}"] if source.version else []
    if "cuda_driver" in source.facts:
        parts.append(f"driver with CUDA {source.facts['cuda_driver']}")
    return f" ({', '.join(parts)})" if parts else ""


def _graphs(tally: Tally) -> Iterator[Warning_]:
    number = tally.graphs
    if number:
        whole = agree(number, "was recorded as a whole", "were recorded as wholes")
        yield Warning_(
            "graph-level",
            f"{plural(number, 'CUDA graph launch')} {whole}: "
            f"{agree(number, 'its', 'their')} kernels were not",
            "Record with nsys profile --cuda-graph-trace=node (harness run --graphs node); it "
            "slows graph launches down, so compare times only with runs recorded alike.",
        )


def _unlinked(tally: Tally) -> Iterator[Warning_]:
    count = tally.unlinked
    if not tally.launches or count < 10 or count < tally.ops / 100:
        return
    why = "; most ran before the first recorded call" if tally.early > count / 2 else ""
    yield Warning_(
        "clipped",
        f"{count} of {tally.ops} GPU ops have no launch record in their process{why}",
        "The capture or export was cut in time, or began while work was queued: they stay "
        "unlinked. Export the whole report, or start the capture after a synchronise.",
    )


def _ranges(ranges: RangeTally) -> Iterator[Warning_]:
    count, names = ranges.open, ranges.open_names
    if count:
        shown = ", ".join(repr(name[:40]) for name in names[:3]) + (", …" if len(names) > 3 else "")
        of = f"{count} of {plural(ranges.ranges, 'range')}"
        yield Warning_(
            "open-ranges",
            f"{of} never closed ({shown}): {agree(count, 'it ends', 'they end')} with the "
            f"capture and {agree(count, 'is', 'are')} left out of per-instance figures",
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


def _unfinished(path: Path) -> Iterator[Warning_]:
    # A report is opened as one that nobody writes to (``columns.uri``): without its journal.
    for suffix, what in ("-wal", "changes in it are not read"), ("-journal", "some may be missing"):
        journal = path.with_name(path.name + suffix)
        try:
            size = journal.stat().st_size
        except OSError:
            continue
        if size:
            yield Warning_(
                "unfinished-write",
                f"{journal.name} lies beside {path.name}: a program writes to it, or was stopped "
                f"while it did; {what}",
                "Let that program end, or export the report again with nsys export --type sqlite "
                "--force-overwrite true.",
            )


def _mended(bad_times: Mapping[str, int]) -> Iterator[Warning_]:
    if bad_times:
        nouns = {"ops": "GPU op", "ranges": "range", "launches": "launch"}
        what = ", ".join(plural(n, nouns[kind]) for kind, n in sorted(bad_times.items()))
        yield Warning_(
            "backward-times",
            f"rows that end before they start were taken as zero-length: {what}",
            "The clocks of CPU and GPU were badly matched in this recording: record again.",
        )


def _diagnostics(db: Database, tally: Tally) -> Iterator[Warning_]:
    if not db.has("DIAGNOSTIC_EVENT", "severity", "text"):
        return
    order = ", timestamp" if db.has("DIAGNOSTIC_EVENT", "timestamp") else ""
    # ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 1 info, 2 warning, 3 error, 4 verbose.
    texts = [
        text or ""
        for (text,) in db.rows(
            "SELECT DISTINCT text FROM DIAGNOSTIC_EVENT WHERE severity IN (2, 3) "
            f"ORDER BY severity DESC{order} LIMIT 100",
            "t",
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
        line = f"nsys: {' '.join(text.split())[:300]}"
        if _NOT_STARTED.search(text) and _of_idle_processes(db, text, tally):
            yield Warning_("nsys-diagnostic", f"{line} (of processes that launched nothing)", _IDLE)
        else:
            yield Warning_("nsys-diagnostic", line, "")


def _of_idle_processes(db: Database, text: str, tally: Tally) -> bool:
    """Whether other processes than those that this is said of launched, and these nothing.

    2025.3 says it of every process that loads its library and never uses CUDA.
    """
    if not db.has("DIAGNOSTIC_EVENT", "globalPid") or not tally.launchers:
        return False
    rows = db.rows("SELECT DISTINCT text, globalPid >> 24 FROM DIAGNOSTIC_EVENT", "ti")
    said = {process for other, process in rows if other == text}
    return said.isdisjoint(process for process, _ in tally.launchers)
