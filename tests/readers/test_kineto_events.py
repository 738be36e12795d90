# SPDX-License-Identifier: MIT
"""Cutting trace text into pieces: any layout, any content, and what is wrong with broken files."""

from __future__ import annotations

import gzip
import json
import textwrap
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import ExitCode, UnreadableReport
from harness.readers import kineto, kineto_events
from harness.readers.kineto_events import EventFile

TRAIN = Path(__file__).parent.parent / "data" / "h200" / "train.trace.json.gz"

#: Texts that look like the places where events meet.
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(['},{"', "}\n  },\n  {", "}]}", '\\"}, {', '"traceEvents": [', "é中🚀", "]}"]),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(-(2**70), 2**70), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=12,
)
EVENTS = st.lists(
    st.fixed_dictionaries(
        {
            "ph": st.sampled_from(["X", "s", "f", "i"]),
            "cat": st.sampled_from(["kernel", "cpu_op", "python_function"]),
            "name": TEXTS,
            "ts": st.integers(0, 2**50),
        },
        optional={"args": st.dictionaries(TEXTS, VALUES, max_size=3), "more": VALUES},
    ),
    max_size=12,
)


def kineto_layout(document: dict[str, Any]) -> str:
    """As Kineto writes it: events at two spaces whatever the depth, args inline."""
    head = json.dumps({k: v for k, v in document.items() if k != "traceEvents"}, indent=2)[:-2]
    body = ",\n".join(
        "  {\n" + textwrap.indent(json.dumps(event)[1:-1], "    ") + "\n  }"
        for event in document["traceEvents"]
    )
    return f'{head},\n  "traceEvents": [\n{body}\n  ],\n  "traceName": "x"\n}}'


LAYOUTS = {
    "compact": lambda d: json.dumps(d, separators=(",", ":")),
    "spaced": json.dumps,
    "indented": lambda d: json.dumps(d, indent=4, ensure_ascii=False),
    "kineto": kineto_layout,
    "list": lambda d: json.dumps(d["traceEvents"]),
}


def names_and_times(path: Path) -> list[tuple[Any, ...]]:
    return [(e.ph, e.cat, e.name, e.ts) for chunk in EventFile(path).chunks() for e in chunk]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    events=EVENTS,
    layout=st.sampled_from(sorted(LAYOUTS)),
    chunk=st.integers(1, 400),
    trailer=VALUES,
)
def test_pieces_hold_the_same_events_as_the_whole(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    events: list[dict[str, Any]],
    layout: str,
    chunk: int,
    trailer: Any,
) -> None:
    document = {"schemaVersion": 1, "a": '"traceEvents": [', "traceEvents": events, "z": trailer}
    path = tmp_path / "trace.json"
    path.write_text(LAYOUTS[layout](document), encoding="utf-8")
    monkeypatch.setattr(kineto_events, "CHUNK", chunk)
    if layout == "list" and not events:
        return  # test_what_is_wrong covers []
    assert names_and_times(path) == [(e["ph"], e["cat"], e["name"], e["ts"]) for e in events]


def test_an_event_longer_than_many_pieces_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of places in one event look like the end of it."""
    long = {"ph": "X", "cat": "cpu_op", "name": "l", "ts": 1, "args": {"x": [{"a": 1}] * 3000}}
    events = [{"ph": "X", "cat": "kernel", "name": "k", "ts": 0}, long, long | {"name": "m"}]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    monkeypatch.setattr(kineto_events, "CHUNK", 256)
    assert [name for _, _, name, _ in names_and_times(path)] == ["k", "l", "m"]


def test_the_other_keys_are_read_wherever_they_are(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"a": {"traceEvents": [1]}, "traceEvents": [], "b": [2], "c": NaN}')
    file = EventFile(path)
    assert list(file.chunks()) == []
    assert file.header["a"] == {"traceEvents": [1]}
    assert file.header["b"] == [2]


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(text)
    return path


KERNEL = '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": %s, "dur": %s%s}'


@pytest.mark.parametrize(
    ("ts", "dur", "start", "length"),
    [
        ("1", "2", 1000, 2000),
        ("5284298684190.096", "0.832", 5284298684190096, 832),
        ("8796093022207.999", "0.001", 8796093022207999, 1),  # the last exact in a double
        # Microseconds since 1970 with three decimals: a double only has quarters there.
        ("1710000000000000.123", "1.017", 1710000000000000123, 1017),
        ("1710000000000000.1", "0", 1710000000000000100, 0),
        ("1710000000000000.0", "0.5", 1710000000000000000, 500),
        ('"12.345"', "1e0", 12345, 1000),
        ("7", "-1", 7000, 0),  # a clock that stepped back
    ],
)
def test_times_become_exact_nanoseconds(
    tmp_path: Path, ts: str, dur: str, start: int, length: int
) -> None:
    text = '{"schemaVersion": 1, "traceEvents": [' + KERNEL % (ts, dur, "") + "]}"
    ops = kineto.read(write(tmp_path, text)).gpu_ops
    assert (ops["start"][0], ops["end"][0]) == (start, start + length)


def test_long_times_after_short_ones_are_exact_too(tmp_path: Path) -> None:
    """Absolute times in a file whose first event (metadata) has time 0."""
    meta = '{"ph": "M", "name": "process_name", "pid": 1, "ts": 0, "args": {"name": "p"}}'
    body = ",".join([meta, KERNEL % ("1710000000000000.123", "1.017", ""), meta])
    ops = kineto.read(write(tmp_path, '{"traceEvents": [' + body + "]}")).gpu_ops
    assert ops["start"].tolist() == [1710000000000000123]


def test_every_recorded_time_survives_unrounded() -> None:
    events = json.loads(gzip.decompress(TRAIN.read_bytes()), parse_float=Decimal)["traceEvents"]
    expected = sorted(int(e["ts"] * 1000) for e in events if e.get("cat") == "kernel")
    ops = kineto.read(TRAIN).gpu_ops
    assert sorted(ops["start"][ops["kind"] == "kernel"]) == expected


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty file"),
        (b"  \n", "empty file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"hello", "not a torch.profiler trace"),
        (b"[]", "no events"),
        (b'{"traceEvents": []}', "no events"),
        (b"[1, 2, null]", "no events"),
        (b"[" + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"]", "not a torch.profiler trace"),
        (b"[{}]", "not one usable event"),
        (b'[{"name": "a", "ts": 1}, {"ph": "X"}]', "not one usable event"),
        (b'[{"ph": "X", "cat": "kernel", "name": "a"}]', "not one usable event"),
        (b'{"a": 1}', "not a torch.profiler trace"),
        (b'{"a": {"traceEvents": [1]}}', "not a torch.profiler trace"),
        (b'{"traceEvents": 5}', "not a torch.profiler trace"),
        (b'{"traceEvents": [', "truncated"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel"', "truncated"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1}', "truncated"),
        (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1}]', "truncated"),
        (b'{"schemaVersion": 1,', "truncated"),
        (b'[{"ph": "X", "cat": "kernel", "ts": 1},', "truncated"),
        (b"\x1f\x8b\x08\x00", "damaged gzip"),
        (gzip.compress(b'{"traceEvents": [' + b" " * 9999, mtime=0)[:-9], "damaged gzip"),
        (gzip.compress(b"", mtime=0), "empty file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    with pytest.raises(UnreadableReport, match=says) as caught:
        kineto.read(path)
    assert caught.value.exit_code == ExitCode.NO_ANSWER
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_missing_files_and_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UnreadableReport, match="no such file"):
        kineto.read(tmp_path / "none.json")
    with pytest.raises(UnreadableReport, match="a folder"):
        kineto.read(tmp_path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_cut_anywhere_is_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, zipped: bool
) -> None:
    monkeypatch.setattr(kineto_events, "CHUNK", 50_000)
    data = TRAIN.read_bytes() if zipped else gzip.decompress(TRAIN.read_bytes())
    path = tmp_path / "cut.json"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(UnreadableReport, match=r"damaged gzip|truncated or damaged"):
        kineto.read(path)


def test_gzip_is_told_by_content_and_not_by_name(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "a.json.gz", tmp_path / "b.json"
    plain.write_bytes(gzip.decompress(TRAIN.read_bytes()))
    zipped.write_bytes(TRAIN.read_bytes())
    assert kineto.read(plain).gpu_ops.equals(kineto.read(zipped).gpu_ops)


@pytest.mark.parametrize("chunk", [120, 1 << 20])
@pytest.mark.parametrize(
    "oddity",
    ['"x": NaN', '"x": inf', '"x": -nan', '"x": [nan, -inf]', '"x": "a\tb"', '"x": 1e999'],
)
def test_text_that_is_not_quite_json_is_read_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oddity: str, chunk: int
) -> None:
    """Kineto prints doubles as C++ does: bandwidths of inf, occupancies of nan."""
    monkeypatch.setattr(kineto_events, "CHUNK", chunk)
    args = ', "args": {"correlation": 9, "stream": 7, ' + oddity + "}"
    body = ", ".join([KERNEL % ("1.5", "2.25", args), KERNEL % ("9.5", "1.0", "")])
    path = write(tmp_path, '{"traceEvents": [' + body + '], "z": nan, "y": [{}, {}]}')
    trace = kineto.read(path)
    assert trace.gpu_ops[["start", "end", "correlation"]].to_numpy().tolist() == [
        [1500, 3750, 9],
        [9500, 10500, -1],
    ]
    if oddity != '"x": 1e999':  # JSON allows it, and nothing here needs its value
        assert "repaired-json" in [warning.code for warning in trace.warnings]


def test_reading_leniently_leaves_texts_alone(tmp_path: Path) -> None:
    args = ', "args": {"x": nan}, "more": "\\"nan, inf"'
    text = (KERNEL % (1, 1, args)).replace('"k"', '"loss: nan, \\", inf"')
    trace = kineto.read(write(tmp_path, '{"traceEvents": [' + text + "]}"))
    assert trace.gpu_ops["demangled"].tolist() == ['loss: nan, ", inf']


def test_odd_events_do_not_stop_the_others(tmp_path: Path) -> None:
    odd = [
        "null",
        "7",
        '{"ph": 5, "cat": ["kernel"], "name": "wrong types"}',
        '{"ph": "X", "cat": "kernel", "name": ["n"], "pid": [], "tid": {}, "ts": 3, "dur": 1}',
        '{"ph": "X", "cat": "cpu_op", "name": ["n"], "pid": [], "tid": {}, "ts": 3, "dur": 1}',
        '{"ph": "f", "cat": "fwdbwd", "name": "n", "pid": [1], "tid": 2, "ts": [3], "id": {}}',
        '{"ph": "X", "cat": "kernel", "name": "list time", "ts": [4]}',
        '{"ph": "M", "name": "thread_name", "pid": 1, "args": {"name": "x", "zzz": ["y"]}}',
        '{"ph": "X", "cat": "kernel", "name": "no time"}',
        '{"ph": "X", "cat": "kernel", "name": "nan time", "ts": NaN}',
        '{"ph": "X", "cat": "kernel", "name": "args", "ts": 4, "dur": 1, "args": [1]}',
        KERNEL % (5, 1, ', "args": {"correlation": 10159970886766084423}'),
    ]
    trace = kineto.read(write(tmp_path, '{"traceEvents": [' + ",".join(odd) + "]}"))
    assert trace.gpu_ops["start"].tolist() == [3000, 4000, 5000]
    undated = [w.message for w in trace.warnings if w.code == "undated-events"]
    assert undated == [
        "4 events without a usable time left out",
        "3 entries of the event list are no events and left out",
    ]


def test_odd_types_are_not_called_invalid_json(tmp_path: Path) -> None:
    text = KERNEL % (1, 1, ', "id": [1]')
    trace = kineto.read(write(tmp_path, '{"traceEvents": [' + text + "]}"))
    assert trace.gpu_ops["start"].tolist() == [1000]
    assert "repaired-json" not in [warning.code for warning in trace.warnings]


def test_a_million_events_would_fit_in_less_than_the_file(tmp_path: Path) -> None:
    """Python memory at its peak stays below the text: nothing holds the whole file."""
    import tracemalloc

    event = KERNEL % (1, 1, ', "args": {"correlation": 1, "grid": "%s"}' % ("x" * 300))
    path = write(tmp_path, '{"traceEvents": [' + ",\n".join([event] * 20_000) + "]}")
    kineto.read(path)
    tracemalloc.start()
    kineto.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size


def test_a_trace_of_another_tool_is_empty_and_says_so(tmp_path: Path) -> None:
    events = '[{"ph": "X", "cat": "blink", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]'
    trace = kineto.read(write(tmp_path, '{"traceEvents": ' + events + "}"))
    assert (len(trace.ranges), len(trace.gpu_ops)) == (0, 0)
    assert [warning.code for warning in trace.warnings] == ["no-torch-events"]


@pytest.mark.parametrize("dur", [-5, "abc", None])
def test_a_kernel_without_a_usable_duration_is_told(tmp_path: Path, dur: object) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": dur}
    whole = kernel | {"ts": 20, "dur": 3, "args": {"correlation": 2}}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [kernel | {"args": {"correlation": 1}}, whole]}))
    trace = kineto.read(path)
    assert (trace.gpu_ops["end"] - trace.gpu_ops["start"]).tolist() == [0, 3000]
    told = [one.message for one in trace.warnings if one.code == "undated-events"]
    assert told == ["1 GPU op without a usable duration counted as 0 ns: times are too low"]
