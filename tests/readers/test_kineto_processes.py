# SPDX-License-Identifier: MIT
"""Torch traces with several processes, odd threads, mirrored rows, and what is warned about.

The traces here are written by hand, event by event; the expected figures are in the tests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.readers import kineto
from harness.trace import Trace


def call(pid: Any, tid: Any, ts: float, correlation: int, **more: Any) -> dict[str, Any]:
    args = {"correlation": correlation} | more.pop("args", {})
    base = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "dur": 2}
    return base | {"pid": pid, "tid": tid, "ts": ts, "args": args} | more


def kernel(device: Any, ts: float, correlation: int, dur: float = 5, **more: Any) -> dict[str, Any]:
    args = {"device": device, "stream": 7, "context": 1, "correlation": correlation}
    base = {"ph": "X", "cat": "kernel", "name": "void n::k<float>(int)", "pid": device, "tid": 7}
    return base | {"ts": ts, "dur": dur, "args": args | more.pop("args", {})} | more


def annotation(pid: Any, tid: Any, ts: float, dur: float, name: str = "r") -> dict[str, Any]:
    row = {"ph": "X", "cat": "user_annotation", "name": name, "pid": pid, "tid": tid}
    return row | {"ts": ts, "dur": dur}


def link(phase: str, pid: int, tid: int, ts: float, number: int) -> dict[str, Any]:
    row = {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": number}
    return row | {"pid": pid, "tid": tid, "ts": ts}


def thread_name(pid: Any, tid: Any, name: str) -> dict[str, Any]:
    row = {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "ts": 0}
    return row | {"args": {"name": name}}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read(*events: dict[str, Any], **keys: Any) -> Trace:
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"schemaVersion": 1, **keys, "traceEvents": events}))
        return kineto.read(path)

    return read


def codes(trace: Trace) -> list[str]:
    return [warning.code for warning in trace.warnings]


def test_ranks_merged_into_one_file_keep_their_kernels(read: Any) -> None:
    """Two ranks in lockstep: the same correlation ids, External ids and nearly the same times."""
    events = []
    for rank, pid in enumerate((500, 600)):
        for i in range(20):
            start = 100.0 * i + rank
            events += [annotation(pid, pid, start, 50, f"rank{rank}")]
            events += [call(pid, pid, start + 1, i + 1, args={"External id": i})]
            events += [kernel(rank, start + 10, i + 1, args={"External id": i})]
    # Only rank 1 launches these: that is how its device is known.
    events += [call(600, 600, 5000, 77), kernel(1, 5010, 77)]
    trace = read(*events)
    owner = dict(zip(trace.gpu_ops["device"], trace.gpu_ops["process"], strict=True))
    assert trace.gpu_ops.groupby("device")["process"].nunique().tolist() == [1, 1]
    assert owner == {0: 500, 1: 600}
    ledger = trace.attribute("thread").ledger
    assert ledger.attributed_ns == 40 * 5000
    assert ledger.outside_ns == 5000


def test_one_process_with_two_gpus_owns_both(read: Any) -> None:
    trace = read(call(9, 9, 1, 1), kernel(0, 5, 1), call(9, 9, 11, 2), kernel(1, 15, 2))
    assert trace.gpu_ops["process"].tolist() == [9, 9]


def test_two_processes_on_one_gpu_are_told_apart_by_correlation(read: Any) -> None:
    events = [call(5, 5, 1, 1), kernel(0, 3, 1), call(6, 6, 11, 2), kernel(0, 13, 2)]
    assert read(*events).gpu_ops["process"].tolist() == [5, 6]


def test_a_colliding_id_goes_to_the_process_that_launched_before(read: Any) -> None:
    """Process 6 owns the device by most ops, but its call 1 comes after the kernel."""
    events = [call(5, 5, 1, 1), kernel(0, 3, 1), call(6, 6, 90, 1)]
    events += [e for i in range(2, 9) for e in (call(6, 6, i * 100, i), kernel(0, i * 100 + 9, i))]
    assert read(*events).gpu_ops["process"].tolist() == [5] + [6] * 7


def test_ops_without_a_launch_keep_their_correlation_and_are_unlinked(read: Any) -> None:
    trace = read(call(5, 5, 1, 1), kernel(0, 3, 1), kernel(0, 9, 44))
    assert trace.gpu_ops["correlation"].tolist() == [1, 44]
    assert trace.attribute().ledger.unlinked_ns == 5000


def test_several_processes_none_of_which_launched_an_op(read: Any) -> None:
    trace = read(call(5, 5, 1, 1), call(6, 6, 2, 2), kernel(0, 9, 44))
    assert trace.gpu_ops["process"].tolist() == [-1]
    assert trace.attribute().ledger.unlinked_ns == 5000


def test_pids_and_tids_written_as_text_are_the_same_threads(read: Any) -> None:
    """2020 wrote tids as text in events and as numbers in flows."""
    events = [annotation(5, "4093687616", 0, 50), call("5", 4093687616, 1, 1), kernel(0, 3, 1)]
    trace = read(*events, thread_name(5, "4093687616", "thread 0 (python)"))
    assert trace.threads[["pid", "tid", "name"]].to_numpy().tolist() == [
        [5, 4093687616, "python"],
    ]
    assert trace.attribute("thread").ledger.attributed_ns == 5000


def test_pids_that_are_words_become_stable_numbers(read: Any) -> None:
    events = [annotation("rank0", "main", 0, 9), annotation("rank1", "main", 0, 9)]
    first, again = read(*events), read(*events[::-1])
    assert first.threads["process"].nunique() == 2
    assert set(first.threads["pid"]) == set(again.threads["pid"])
    assert (first.threads["pid"] < 0).all()  # never a real pid


def test_only_threads_that_links_reach_from_others_are_autograd(read: Any) -> None:
    trace = read(
        *(annotation(1, 1, 0, 9), annotation(1, 2, 0, 9), annotation(1, 3, 0, 9)),
        *(link("s", 1, 1, 1, 1), link("f", 1, 2, 2, 1)),
        *(link("s", 1, 3, 1, 2), link("f", 1, 3, 2, 2)),  # backward on its own thread
        *(link("s", 1, 2, 3, 3), link("f", 1, 1, 4, 3)),  # never a main thread
    )
    assert dict(zip(trace.threads.tid, trace.threads.autograd, strict=True)) == {
        1: False,
        2: True,
        3: False,
    }
    assert len(trace.forward_links) == 3


def test_link_ids_are_per_process(read: Any) -> None:
    trace = read(
        *(link("s", 1, 1, 10, 7), link("f", 1, 11, 20, 7)),
        *(link("s", 2, 2, 30, 7), link("f", 2, 22, 40, 7), link("s", 2, 2, 50, 8)),
        annotation(1, 1, 0, 9),
    )
    times = trace.forward_links[["forward_time", "backward_time"]].to_numpy().tolist()
    assert times == [[10000, 20000], [30000, 40000]]


def test_a_link_lasts_as_long_as_its_node_its_operator_or_the_recording(read: Any) -> None:
    node = {"ph": "X", "cat": "cpu_op", "name": "AddBackward0", "pid": 1, "tid": 2, "ts": 20.25}
    engine = node | {"name": "autograd::engine::evaluate_function: MulBackward0"}
    trace = read(
        *(node | {"dur": 8.5}, node | {"dur": 1, "name": "aten::add"}),
        *(link("s", 1, 1, 1, 1), link("f", 1, 2, 20.25, 1)),
        *(engine | {"ts": 31, "dur": 5}, node | {"ts": 32, "dur": 2}),
        *(link("s", 1, 1, 2, 2), link("f", 1, 2, 32, 2)),
        *(link("s", 1, 1, 2, 3), link("f", 1, 2, 40, 3), annotation(1, 1, 0, 90)),
    )
    assert trace.forward_links["backward_end"].tolist() == [28750, 36000, 90000]


def test_a_thread_named_pt_autograd_is_one_whatever_it_is_called_later(read: Any) -> None:
    trace = read(
        *(thread_name(1, 2, "thread 2 (pt_autograd_0)"), thread_name(1, 2, "thread 2 (python)")),
        *(call(1, 2, 1, 1), kernel(0, 3, 1)),
    )
    assert trace.threads[["name", "autograd"]].to_numpy().tolist() == [["pt_autograd_0", True]]


def test_without_links_and_names_the_engines_own_rows_tell(read: Any) -> None:
    """As in torch 1.x traces: neither fwdbwd flows nor thread names."""
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    operator = {"ph": "X", "cat": "cpu_op", "name": node, "pid": 1, "ts": 1, "dur": 1}
    trace = read(
        *(operator | {"tid": 2}, operator | {"tid": 1}),
        *(annotation(1, 1, 0, 50, "backward"), call(1, 2, 5, 1), kernel(0, 9, 1)),
    )
    assert dict(zip(trace.threads.tid, trace.threads.autograd, strict=True)) == {1: False, 2: True}
    assert trace.attribute().ledger.by_rule["autograd"] == 5000


def test_begin_and_end_events_are_ranges_and_ops_too(read: Any) -> None:
    b = {"ph": "B", "cat": "user_annotation", "pid": 1, "tid": 1}
    e = {"ph": "E", "pid": 1, "tid": 1}
    trace = read(
        *(b | {"name": "outer", "ts": 0.5}, b | {"name": "inner", "ts": 2.25}),
        *(call(1, 1, 3, 1), kernel(0, 40, 1)),
        *(e | {"ts": 6.75}, e | {"ts": 9}, e | {"ts": 10}, b | {"name": "never ended", "ts": 20}),
    )
    rows = trace.ranges.set_index("name")[["start", "end", "open"]]
    assert rows.loc["inner"].tolist() == [2250, 6750, False]
    assert rows.loc["outer"].tolist() == [500, 9000, False]
    assert rows.loc["never ended"].tolist() == [20000, 45000, True]  # the last thing recorded


def test_unfinished_annotations_are_open(read: Any) -> None:
    unfinished = annotation(1, 1, 5, 1) | {"args": {"finished": False}}
    undated = {k: v for k, v in annotation(1, 1, 6, 0, "u").items() if k != "dur"}
    end = {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 80}
    trace = read(unfinished, undated, end)
    assert trace.ranges["open"].tolist() == [True, True]
    assert trace.ranges["end"].tolist() == [80000, 80000]


def test_annotations_mirrored_on_the_gpu_are_no_ranges(read: Any) -> None:
    """Under their own category, and under the CPU's on a stream's row."""
    trace = read(
        *(annotation(1, 1, 0, 10), annotation(0, 7, 5, 3)),
        annotation(0, 7, 5, 3) | {"cat": "gpu_user_annotation"},
        *(call(1, 1, 1, 1), kernel(0, 5, 1)),
    )
    assert trace.ranges[["start", "end"]].to_numpy().tolist() == [[0, 10000]]
    assert len(trace.gpu_ops) == 1


def test_a_container_whose_pid_looks_like_a_gpu_keeps_its_ranges(read: Any) -> None:
    trace = read(annotation(0, 7, 0, 10), call(0, 7, 1, 1), kernel(0, 5, 1))
    assert len(trace.ranges) == 1


def test_events_in_the_file_twice_count_once(read: Any) -> None:
    once = [annotation(1, 1, 0, 10), call(1, 1, 1, 1), kernel(0, 5, 1)]
    trace = read(*once, *once)
    assert (len(trace.ranges), len(trace.launches), len(trace.gpu_ops)) == (1, 1, 1)
    assert "duplicate-events" in codes(trace)


def test_a_driver_call_inside_a_runtime_call_launches_once(read: Any) -> None:
    inner = call(1, 1, 2, 1, cat="cuda_driver", name="cuLaunchKernel", dur=1)
    trace = read(inner, call(1, 1, 1, 1, dur=5), kernel(0, 9, 1))
    assert trace.launches["name"].tolist() == ["cudaLaunchKernel"]


def test_graph_kernels_carry_their_node(read: Any) -> None:
    replay = call(1, 1, 1, 1, name="cudaGraphLaunch")
    trace = read(replay, *(kernel(0, 5, 1, args={"graph id": 3, "graph node id": 44}),))
    assert trace.gpu_ops["graph_node"].tolist() == [44]


def test_cuda_calls_without_any_kernel_mean_another_profiler(read: Any) -> None:
    assert codes(read(annotation(1, 1, 0, 9), call(1, 1, 1, 1))) == ["no-kernels"]


def test_launches_that_lost_their_kernels_are_counted(read: Any) -> None:
    """Not those made while a CUDA graph was captured: they run nothing."""
    begin = call(1, 1, 20, 2, name="cudaStreamBeginCapture")
    end = call(1, 1, 40, 4, name="cudaStreamEndCapture")
    events = [annotation(1, 1, 0, 9), call(1, 1, 1, 1), kernel(0, 5, 1)]
    events += [begin, call(1, 1, 30, 3), end]
    assert codes(read(*events)) == []
    trace = read(*events, call(1, 1, 50, 5), call(1, 1, 60, 6))
    assert codes(trace) == ["launches-without-ops"]
    assert trace.warnings[0].message.startswith("2 kernel launches")


def test_overlap_within_a_stream_is_said(read: Any) -> None:
    events = [annotation(1, 1, 0, 9), call(1, 1, 1, 1), call(1, 1, 2, 2), call(1, 1, 3, 3)]
    kernels = [kernel(0, 10, 1, dur=30), kernel(0, 12, 2, dur=2), kernel(0, 20, 3, dur=2)]
    trace = read(*events, *kernels)
    assert codes(trace) == ["overlapping-kernels"]
    assert trace.warnings[0].message.startswith("2 of 3 kernels")
    other = kernel(0, 12, 2, dur=2)
    other["args"]["stream"] = 9
    assert codes(read(*events[:3], kernel(0, 10, 1, dur=30), other)) == []


def test_an_empty_recording_is_a_trace_with_nothing_in_it(read: Any) -> None:
    trace = read()
    assert codes(trace) == ["no-ranges", "no-gpu-ops"]
    assert trace.attribute().ledger.gpu_ops == 0


def test_rank_and_world_size_are_facts(read: Any) -> None:
    facts = read(annotation(1, 1, 0, 9), distributedInfo={"rank": 3, "world_size": 8}).source.facts
    assert (facts["rank"], facts["world_size"]) == (3, 8)


def test_versions_read_as_people_write_them(read: Any) -> None:
    keys = {"cuda_driver_version": 12090, "hip_runtime_version": 60443483}
    facts = read(annotation(1, 1, 0, 9), **keys).source.facts
    assert (facts["cuda_driver"], facts["hip_runtime"]) == ("12.9", "6.4.43483")
