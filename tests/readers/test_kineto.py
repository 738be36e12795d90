# SPDX-License-Identifier: MIT
"""The torch.profiler reader against recorded H200 traces, read here by plain json and loops."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.readers import kineto, kineto_events
from harness.trace import GPU_OP_COLUMNS, LAUNCH_COLUMNS, RANGE_COLUMNS, THREAD_COLUMNS, Trace

H200 = Path(__file__).parent.parent / "data" / "h200"
SCENARIOS = ("blocks", "graph", "train")


def recorded(scenario: str) -> list[dict[str, Any]]:
    """The events with times as exact integers of nanoseconds."""
    text = gzip.decompress((H200 / f"{scenario}.trace.json.gz").read_bytes())
    events: list[dict[str, Any]] = json.loads(text, parse_float=Decimal)["traceEvents"]
    for event in events:
        event["start"] = int(Decimal(event["ts"]) * 1000)
        event["end"] = event["start"] + int(Decimal(event.get("dur", 0)) * 1000)
    return events


def of(events: list[dict[str, Any]], *categories: str) -> list[dict[str, Any]]:
    return [event for event in events if event.get("cat") in categories]


def with_threads(rows: pd.DataFrame, trace: Trace) -> pd.DataFrame:
    return rows.join(trace.threads[["pid", "tid"]], on="thread")


@pytest.fixture(params=SCENARIOS)
def scenario(request: pytest.FixtureRequest) -> tuple[list[dict[str, Any]], Trace]:
    return recorded(request.param), kineto.read(H200 / f"{request.param}.trace.json.gz")


def test_every_frame_has_the_contract_columns_and_types(
    scenario: tuple[list[dict[str, Any]], Trace],
) -> None:
    _, trace = scenario
    for frame, columns in (
        (trace.threads, THREAD_COLUMNS),
        (trace.ranges, RANGE_COLUMNS),
        (trace.launches, LAUNCH_COLUMNS),
        (trace.gpu_ops, GPU_OP_COLUMNS),
    ):
        assert list(frame.columns) == list(columns)
        types = {name: str(frame[name].dtype) for name in columns if columns[name] != "object"}
        assert types == {name: dtype for name, dtype in columns.items() if dtype != "object"}


def test_ranges_are_the_user_annotations_and_nothing_else(
    scenario: tuple[list[dict[str, Any]], Trace],
) -> None:
    events, trace = scenario
    expected = Counter(
        (e["pid"], e["tid"], e["name"], e["start"], e["end"]) for e in of(events, "user_annotation")
    )
    rows = with_threads(trace.ranges, trace)
    got = Counter(zip(rows.pid, rows.tid, rows.name, rows.start, rows.end, strict=True))
    assert got == expected
    assert set(trace.ranges["style"]) == {"push_pop"}
    assert set(trace.ranges["domain"]) == {""}
    assert not trace.ranges["open"].any()


def test_launches_are_the_runtime_and_driver_calls(
    scenario: tuple[list[dict[str, Any]], Trace],
) -> None:
    events, trace = scenario
    expected = Counter(
        (e["tid"], e["name"], e["start"], e["end"], e["args"]["correlation"])
        for e in of(events, "cuda_runtime", "cuda_driver")
    )
    rows = with_threads(trace.launches, trace)
    got = Counter(zip(rows.tid, rows.name, rows.start, rows.end, rows.correlation, strict=True))
    assert got == expected


def test_gpu_ops_are_kernels_copies_and_sets_never_annotations(
    scenario: tuple[list[dict[str, Any]], Trace],
) -> None:
    events, trace = scenario
    kinds = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}
    expected = Counter(
        (
            kinds[e["cat"]],
            e["name"],
            e["start"],
            e["end"],
            e["args"]["correlation"],
            e["args"]["stream"],
            e["args"].get("bytes", -1),
        )
        for e in of(events, *kinds)
    )
    ops = trace.gpu_ops
    got = Counter(
        zip(
            ops.kind,
            ops.demangled,
            ops.start,
            ops.end,
            ops.correlation,
            ops.stream,
            ops.bytes,
            strict=True,
        )
    )
    assert got == expected
    pids = {e["pid"] for e in of(events, "cuda_runtime")}
    assert set(ops["process"]) == pids  # and not 0, the device its rows carry


def test_copies_and_sets_are_named_as_in_nsys_reports() -> None:
    ops = kineto.read(H200 / "train.trace.json.gz").gpu_ops
    other = ops[ops["kind"] != "kernel"]
    # 6 "Memcpy HtoD (Pageable -> Device)" and 32 "Memset (Device)" in the file.
    assert Counter(other["name"]) == {"[CUDA memcpy Host-to-Device]": 6, "[CUDA memset]": 32}


def test_the_autograd_thread_is_found_and_named() -> None:
    threads = kineto.read(H200 / "train.trace.json.gz").threads
    assert list(zip(threads.tid, threads.name, threads.autograd, strict=True)) == [
        (1918, "python3", False),
        (1943, "pt_autograd_0", True),
    ]


def test_forward_links_join_the_two_ends_of_each_fwdbwd_flow() -> None:
    events = recorded("train")
    flows = of(events, "fwdbwd")
    forward = {e["id"]: (e["tid"], e["start"]) for e in flows if e["ph"] == "s"}
    backward = {e["id"]: (e["tid"], e["start"]) for e in flows if e["ph"] == "f"}
    nodes = [e for e in of(events, "cpu_op") if e["name"].startswith("autograd::engine::evaluate")]

    def end_of_node(tid: int, time: int) -> int:
        [node] = [e for e in nodes if e["tid"] == tid and e["start"] <= time <= e["end"]]
        return int(node["end"])

    trace = kineto.read(H200 / "train.trace.json.gz")
    links, tid = trace.forward_links, trace.threads["tid"]
    got = {
        ((tid[ft], ftime), (tid[bt], btime), end)
        for ft, ftime, bt, btime, end in links.itertuples(index=False)
    }
    assert got == {(forward[i], backward[i], end_of_node(*backward[i])) for i in forward}
    assert len(links) == 80


def test_links_find_their_operators_across_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = kineto.read(H200 / "train.trace.json.gz").forward_links
    monkeypatch.setattr(kineto_events, "CHUNK", 1500)  # about one event
    assert kineto.read(H200 / "train.trace.json.gz").forward_links.equals(whole)


def brute_force_paths(events: list[dict[str, Any]]) -> dict[tuple[str, ...], list[int]]:
    """Path -> [kernels, ns] (self), by the rules of policy ``autograd``, one op at a time."""
    calls = {e["args"]["correlation"]: e for e in of(events, "cuda_runtime", "cuda_driver")}
    ranges = of(events, "user_annotation")
    backward = {e["tid"] for e in of(events, "fwdbwd") if e["ph"] == "f"}
    out: dict[tuple[str, ...], list[int]] = {}
    for kernel in of(events, "kernel"):
        call = calls[kernel["args"]["correlation"]]
        around = [r for r in ranges if r["start"] <= call["start"] and call["end"] <= r["end"]]
        own = [r for r in around if r["tid"] == call["tid"]]
        chain = own or (around if call["tid"] in backward else [])
        path = tuple(r["name"] for r in sorted(chain, key=lambda r: (r["start"], -r["end"])))
        row = out.setdefault(path, [0, 0])
        row[0] += 1
        row[1] += kernel["end"] - kernel["start"]
    return out


def test_attribution_equals_brute_force(scenario: tuple[list[dict[str, Any]], Trace]) -> None:
    from harness import summarise

    events, trace = scenario
    expected = brute_force_paths(events)
    expected.pop((), None)
    attribution = trace.attribute()
    rows = summarise.ranges(attribution)
    got = {
        tuple(row.path): [row.self_kernels, row.self_kernel_ns]
        for row in rows.itertuples()
        if row.self_kernels
    }
    assert got == expected
    assert attribution.ledger.balanced
    assert attribution.ledger.gpu_ns == sum(
        e["end"] - e["start"] for e in of(events, "kernel", "gpu_memcpy", "gpu_memset")
    )


def test_backward_has_the_structure_that_nsys_recorded() -> None:
    """nsys' train report, another execution: backward 128 kernels (8 + 120) and 24 memsets."""
    from harness import summarise

    attribution = kineto.read(H200 / "train.trace.json.gz").attribute()
    rows = summarise.ranges(attribution).set_index("name")
    assert rows.loc["backward", ["self_kernels", "memsets", "instances"]].tolist() == [128, 24, 8]
    assert attribution.ledger.ops_by_rule["autograd"] == 120 + 24


def test_graph_replays_give_their_kernels_to_the_range_around_the_replay() -> None:
    """As nsys' graph_node report: 60 kernels launched inside graph-replay."""
    from harness import summarise

    rows = summarise.ranges(kineto.read(H200 / "graph.trace.json.gz").attribute())
    rows = rows.set_index("name")
    assert rows.loc["graph-replay", "self_kernels"] == 60
    assert rows.loc["captured-chain", "self_kernels"] == 0


def test_facts_name_the_gpu_and_the_cuda_versions() -> None:
    source = kineto.read(H200 / "blocks.trace.json.gz").source
    assert source.kind == "torch"
    assert source.facts["gpus"][0] == {
        "id": 0,
        "device": 0,
        "name": "NVIDIA H200",
        "memory": 150109880320,
        "sm_count": 132,
        "compute_capability": "9.0",
    }
    assert source.facts["cuda_runtime"] == "13.0"
    assert source.facts["events"] == 633


@pytest.mark.parametrize("name", SCENARIOS)
def test_clean_recordings_raise_no_warnings(name: str) -> None:
    assert kineto.read(H200 / f"{name}.trace.json.gz").warnings == ()
