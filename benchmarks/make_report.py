# SPDX-License-Identifier: MIT
"""Make an Nsight Systems SQLite export of a chosen size, in the schema of 2025.3.

    python benchmarks/make_report.py big.sqlite                       1.6 M kernels, about 320 MB
    python benchmarks/make_report.py huge.sqlite --kernels 16_000_000 ranges grow with the kernels
    python benchmarks/make_report.py deep.sqlite --shape deep --kernels 160_000

The same options always give the same file, byte for byte.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from timeline import CALLS, GRAPH_NODES, KERNEL_NAMES, Spec, Timeline

SCHEMA = Path(__file__).with_name("schema_2025_3.sql")
RANGES_PER_KERNEL = 0.75

#: Shape -> what it changes in the default; options given on the command line win.
SHAPES: dict[str, dict[str, Any]] = {
    "default": {},
    "deep": {"nesting": 1000, "branching": 1, "names": 1000},
    "one-range": {"ranges": 1, "nesting": 1, "threads": 1},
    "no-ranges": {"ranges": 0},
    "many-threads": {"threads": 4000},
    "many-names": {"names": 100_000},
    "overlap": {"streams": 4},
    "mixed": {"processes": 2, "threads": 4, "autograd": True, "graphs": 0.2, "streams": 2},
}

LAZY_TABLES = (
    "NVTX_EVENTS",
    "CUDA_GRAPH_NODE_EVENTS",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
)


class Strings:
    """StringIds: one id per distinct text."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.ids.setdefault(text, len(self.ids))


class Writer:
    """Inserts columns (arrays, or one value for all rows) into tables of the schema."""

    def __init__(self, path: Path) -> None:
        self.db = sqlite3.connect(path, isolation_level=None)
        # Speed only: a half-made file is thrown away, never read.
        self.db.executescript("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;")
        self.db.executescript(SCHEMA.read_text())
        self.db.execute("BEGIN")
        self.columns = {
            table: self.db.execute(f"PRAGMA table_info({table})").fetchall()
            for (table,) in self.db.execute("SELECT name FROM sqlite_master WHERE type='table'")
        }

    def insert(self, table: str, **data: Any) -> None:
        """Columns not given are NULL, or 0 where the schema forbids NULL."""
        unknown = data.keys() - {column[1] for column in self.columns[table]}
        if unknown:
            raise ValueError(f"{table} has no {sorted(unknown)}")
        values, arrays = [], []
        for _, name, kind, not_null, _, _ in self.columns[table]:
            value = data.get(name)
            if isinstance(value, np.ndarray):
                values.append("?")
                arrays.append(value.tolist())
            elif value is None:
                values.append(("''" if kind == "TEXT" else "0") if not_null else "NULL")
            else:
                values.append("?")
                arrays.append(value)
        length = max((len(a) for a in arrays if isinstance(a, list)), default=1)
        rows = zip(*(a if isinstance(a, list) else [a] * length for a in arrays), strict=True)
        self.db.executemany(f"INSERT INTO {table} VALUES ({', '.join(values)})", rows)

    def finish(self) -> None:
        for table in LAZY_TABLES:  # nsys does not write tables that would be empty
            if not self.db.execute(f"SELECT EXISTS(SELECT 1 FROM {table})").fetchone()[0]:
                self.db.execute(f"DROP TABLE {table}")
        self.db.execute("COMMIT")
        self.db.close()


def make_report(path: Path, spec: Spec) -> dict[str, int]:
    """Write the report; returns how many rows each of its large tables has."""
    partial = path.with_name(path.name + ".partial")
    partial.unlink(missing_ok=True)
    try:
        counts = _write(partial, spec)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return counts


def _write(path: Path, spec: Spec) -> dict[str, int]:
    timeline, writer, strings = Timeline(spec), Writer(path), Strings()
    _write_strings_first(strings)
    counts = {"kernels": 0, "api": 0, "ranges": 0}
    range_names = np.array([f"op_{n:06d}" if n else "step" for n in range(spec.names)], object)
    for window in timeline.windows():
        _write_ranges(writer, timeline, strings, range_names, window["ranges"])
        _write_work(writer, timeline, strings, window)
        for name in counts:
            counts[name] += len(window[name].get("start", ()))
    if timeline.replays:
        _write_graph_nodes(writer, timeline, strings)
    _write_machine(writer, timeline, strings)
    writer.insert("StringIds", id=np.arange(len(strings.ids)), value=np.array(list(strings.ids)))
    writer.finish()
    return counts


def _write_strings_first(strings: Strings) -> None:
    for name, _ in CALLS:
        strings(name)
    for n in range(KERNEL_NAMES):
        for text in kernel_names(n):
            strings(text)


def kernel_names(n: int) -> tuple[str, str, str]:
    """(short, demangled, mangled), of the length that PyTorch's templates have."""
    short = f"vectorized_elementwise_kernel_{n:02d}"
    demangled = (
        f"void at::native::{short}<(int){n % 8}, at::native::AddFunctor<float>, "
        "std::array<char *, (unsigned long)3>>(int, T2, T3)"
    )
    return (
        short,
        demangled,
        f"_ZN2at6native{len(short)}{short}ILi{n % 8}ENS0_10AddFunctorIfEEEEviT0_",
    )


def _write_ranges(
    writer: Writer, timeline: Timeline, strings: Strings, names: Any, ranges: dict[str, Any]
) -> None:
    if not ranges or not len(ranges["start"]):
        return
    text: dict[str, Any] = {"text": names[ranges["name"]]}
    if timeline.spec.registered:
        ids = np.array([strings(name) for name in names])
        text = {"textId": ids[ranges["name"]]}
    writer.insert(
        "NVTX_EVENTS",
        start=ranges["start"],
        end=ranges["end"],
        eventType=59,
        globalTid=timeline.threads.global_tid[ranges["thread"]],
        domainId=0,
        **text,
    )


def _write_work(writer: Writer, timeline: Timeline, strings: Strings, window: Any) -> None:
    api, threads = window["api"], timeline.threads
    writer.insert(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        start=api["start"],
        end=api["end"],
        eventClass=np.array([kind for _, kind in CALLS])[api["call"]],
        globalTid=threads.global_tid[api["thread"]],
        correlationId=api["correlation"],
        nameId=np.array([strings(name) for name, _ in CALLS])[api["call"]],
        returnValue=0,
    )
    kernels = window["kernels"]
    ids = np.array([[strings(text) for text in kernel_names(n)] for n in range(KERNEL_NAMES)])
    node = kernels["node"]
    writer.insert(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        **_device_columns(timeline, kernels, stream=kernels["stream"]),
        shortName=ids[kernels["kernel"], 0],
        demangledName=ids[kernels["kernel"], 1],
        mangledName=ids[kernels["kernel"], 2],
        launchType=1,
        cacheConfig=1,
        registersPerThread=40,
        gridX=132, gridY=1, gridZ=1, blockX=256, blockY=1, blockZ=1,
        localMemoryTotal=155713536,
        gridId=kernels["correlation"],
        sharedMemoryExecuted=32768,
        graphNodeId=None if not timeline.replays else _nodes(node),
        sharedMemoryLimitConfig=0,
    )  # fmt: skip
    for table, rows, extra in (
        ("CUPTI_ACTIVITY_KIND_MEMCPY", window["copies"], {"copyKind": 1, "copyCount": 1}),
        ("CUPTI_ACTIVITY_KIND_MEMSET", window["sets"], {"memKind": 2}),
    ):
        if len(rows["start"]):
            stream = 8 + 2 * threads.index[rows["thread"]] * timeline.spec.streams
            columns = _device_columns(timeline, rows, stream=stream)
            writer.insert(table, **columns, bytes=4096, **extra)


def _device_columns(timeline: Timeline, rows: dict[str, Any], stream: Any) -> dict[str, Any]:
    return {
        "start": rows["start"],
        "end": rows["end"],
        "deviceId": timeline.threads.process[rows["thread"]] % 8,
        "contextId": 1,
        "greenContextId": 0,
        "streamId": stream,
        "correlationId": rows["correlation"],
        "globalPid": timeline.threads.global_pid[rows["thread"]],
    }


EXECUTABLE_GRAPH = 2 << 32  # nsys numbers nodes (graph << 32) + index


def _nodes(node: Any) -> Any:
    nodes = np.where(node >= 0, EXECUTABLE_GRAPH + node, -1).astype(object)
    nodes[node < 0] = None
    return nodes


def _write_graph_nodes(writer: Writer, timeline: Timeline, strings: Strings) -> None:
    """Per process: the nodes made during capture, and their clones in the executable graph."""
    number = np.arange(GRAPH_NODES)
    for thread in np.flatnonzero(timeline.threads.index == 0):
        for offset, graph, original in ((100_000, 1, None), (200_000, 2, number + (1 << 32))):
            writer.insert(
                "CUDA_GRAPH_NODE_EVENTS",
                start=1_000 * number + offset,
                end=1_000 * number + offset,
                eventClass=77,
                globalTid=int(timeline.threads.global_tid[thread]),
                nameId=strings("kernel"),
                graphNodeId=number + (graph << 32),
                originalGraphNodeId=original,
            )


def _write_machine(writer: Writer, timeline: Timeline, strings: Strings) -> None:
    spec, threads = timeline.spec, timeline.threads
    thread_name = [
        strings("pt_autograd_0" if index == spec.threads else "python3") for index in threads.index
    ]
    writer.insert(
        "ThreadNames", nameId=np.array(thread_name), priority=20, globalTid=threads.global_tid
    )
    for pid in sorted(set(threads.pid.tolist())):
        writer.insert("PROCESSES", globalPid=(1 << 48) | (pid << 24), pid=pid, name="python3")
    for process in range(spec.processes):
        gpu, pid = process % 8, 5_000 + process * 10_000
        writer.insert("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=gpu, pid=pid)
        if process < 8:
            writer.insert(
                "TARGET_INFO_GPU", vmId=1 << 48, id=gpu, cuDevice=gpu, name="NVIDIA H200",
                chipName="GH100", smCount=132, totalMemory=150109880320, l2CacheSize=62914560,
                clockRate=1980000000, computeMajor=9, computeMinor=0,
            )  # fmt: skip
    end = timeline.end
    writer.insert("ANALYSIS_DETAILS", globalVid=1 << 48, duration=end, startTime=0, stopTime=end)
    for name, value in (
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        ("EXPORT_PRODUCT_VERSION", "2025.3.2.0"),
        ("EXPORT_SCHEMA_VERSION", "3.20.3"),
        ("EXPORT_SCHEMA_VERSION_MAJOR", "3"),
        ("EXPORT_SCHEMA_VERSION_MINOR", "20"),
        ("EXPORT_SCHEMA_VERSION_MICRO", "3"),
    ):
        writer.insert("META_DATA_EXPORT", name=name, value=value)
    writer.insert("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value="made by make_report.py")


def parse(argv: list[str]) -> tuple[Path, Spec]:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("report", type=Path, help="the .sqlite file to write")
    parser.add_argument("--shape", choices=SHAPES, default="default")
    for field in fields(Spec):
        flag = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
        else:
            kind = float if isinstance(field.default, float) else int
            parser.add_argument(flag, type=kind, default=None, help=f"default {field.default}")
    options = vars(parser.parse_args(argv))
    path, shape = options.pop("report"), options.pop("shape")
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return path, make_spec(shape, **given)
    except ValueError as error:
        parser.error(str(error))


def make_spec(shape: str = "default", **given: Any) -> Spec:
    """The spec of a named shape; ranges follow the kernels unless they are given."""
    changes = {**SHAPES[shape], **given}
    kernels = changes.get("kernels", Spec.kernels)
    changes.setdefault("ranges", round(kernels * RANGES_PER_KERNEL))
    return Spec(**{"kernels": kernels, **changes})


def main() -> None:
    path, spec = parse(sys.argv[1:])
    try:
        counts = make_report(path, spec)
    except (OSError, sqlite3.Error) as error:
        sys.exit(f"make_report: {path} cannot be written: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    megabytes = path.stat().st_size / 1e6
    print(f"{path}: {', '.join(f'{n} {what}' for what, n in counts.items())}, {megabytes:.0f} MB")


if __name__ == "__main__":
    main()
