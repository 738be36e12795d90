# SPDX-License-Identifier: MIT
"""Chrome trace text to event structs, a few megabytes at a time, whatever its size and layout.

Traces of a million events are 300 MB of text; decoding them whole costs eight times that. Here the
text is cut between events and each piece decoded into structs that hold only what a Trace needs.
A cut is proved, not guessed: a piece that starts at an event and decodes as a complete JSON list
ends at one, since inside a string or a nested object it could not be complete.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import msgspec

from harness.errors import UnreadableReport
from harness.readers.paths import LFS_POINTER, lfs_pointer

CHUNK = 1 << 20  # small enough for its structs to stay in the cache
_CUTS_TRIED = 16

#: Microseconds from here on have no room for three decimals in a double (2**43 * 2**-53 > 0.0005).
EXACT_BELOW = 2.0**43

_LENIENT = json.JSONDecoder(strict=False, parse_float=Decimal)
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_CUT = re.compile(rb"\}\s*,\s*\{")
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
# Kineto prints C++ doubles as they come: "memory bandwidth (GB/s)": inf. Strings match first.
_BARE_FLOAT = re.compile(
    r'"(?:[^"\\]|\\.)*"|[-+]?\b(?:nan|inf|infinity)\b', re.IGNORECASE | re.DOTALL
)
# torch 2.13 does not escape quotes in names. A name ends at its line's end or before the next key.
_NAME = re.compile(
    r'("name"\s*:\s*")((?:\\.|[^\n\\])*?)'
    r'(?="(?:,?[ \t]*\n|\s*,\s*"[^"\n]*"\s*:|\s*\}))'
)
_INNER_QUOTE = re.compile(r'(\\.)|"')
_QUOTE = "\x01"  # stands for such a quote: one byte long, too, and in no name
_SPACE = b" \t\r\n"


Scalar = str | int | float | bool | None
Time = str | int | float | None


class Args(msgspec.Struct, gc=False):
    """The arguments of an event that matter here; -1 where the event has none."""

    correlation: Any = -1
    device: Any = -1
    context: Any = -1
    stream: Any = -1
    bytes: Any = -1
    graph_node: Any = msgspec.field(default=-1, name="graph node id")
    external: Any = msgspec.field(default=-1, name="External id")
    external_2020: Any = msgspec.field(default=-1, name="external id")
    finished: Any = True
    name: Any = None
    labels: Any = None


class Event(msgspec.Struct, gc=False):
    """One trace event; times as written, in microseconds."""

    ph: str | None = None
    cat: str | None = None
    name: Scalar = None
    pid: Scalar = None
    tid: Scalar = None
    ts: Time = None
    dur: Time = None
    id: Scalar = None
    args: Args | None = None


class ExactEvent(Event, gc=False):
    """An event whose times keep every digit of the text."""

    ts: int | Decimal | None = None  # type: ignore[assignment]
    dur: int | Decimal | None = None  # type: ignore[assignment]


_FAST: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[Event])
_EXACT: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[ExactEvent])


class EventFile:
    """The events of one trace file and, once they are consumed, its other top-level keys.

    ``header`` is complete only after ``chunks()`` is exhausted. ``repaired`` counts pieces of text
    that were not valid JSON and were read all the same: bare ``nan``, bare quotes in names, control
    characters. ``foreign`` counts entries of the list that are no events.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, Any] = {}
        self.repaired = 0
        self.foreign = 0
        self._decode: Callable[[memoryview], list[Any]] = _FAST.decode
        self._in_list = False

    def chunks(self) -> Iterator[list[Event]]:
        """Lists of events in file order.

        Raises:
            UnreadableReport: missing, empty, truncated, not JSON, or JSON that is not a trace.
        """
        try:
            with _open(self.path) as file:
                yield from self._chunks(file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UnreadableReport(
                f"{self.path}: damaged gzip file (cut short or overwritten)",
                hint="Copy it again, or record again.",
            ) from error
        except RecursionError as error:
            raise self._not_a_trace() from error
        except OSError as error:
            raise UnreadableReport(f"{self.path}: cannot be read ({error.strerror})") from error

    def _chunks(self, file: IO[bytes]) -> Iterator[list[Event]]:
        # buffer[0] is the list's "[", then whole events and, last, the beginning of one.
        buffer = bytearray(b"[") + self._open_array(file)
        size = CHUNK
        while True:
            more = file.read(max(size - len(buffer), 1))
            buffer += more
            events, used, ended = self._piece(buffer, final=not more)
            if events:
                yield events
            del events  # so that the next piece's structs take the place of these in the cache
            if ended:
                self._close(bytes(buffer[used:]) + file.read())
                return
            if used:
                del buffer[1:used]
                size = CHUNK
            elif more:  # no cut found: look at a longer piece
                size *= 2
            else:
                raise self._truncated()

    def _open_array(self, file: IO[bytes]) -> bytes:
        """Read up to the ``[`` of the event list; returns what follows it."""
        text = file.read(CHUNK).removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE)
        if text.startswith(LFS_POINTER):
            raise lfs_pointer(self.path)
        if not text:
            raise UnreadableReport(f"{self.path}: empty file", hint="Record the trace again.")
        if text.startswith(b"["):  # 2020: the whole file is the list
            self._in_list = True
            return text[1:]
        if not text.startswith(b"{"):
            raise self._not_a_trace()
        while True:
            for match in _ARRAY.finditer(text):
                # In a string or a nested object, what precedes would not close.
                header = _loads(text[: match.start()] + b'"traceEvents": []}')
                if isinstance(header, dict):
                    self.header = header
                    return text[match.end() :]
            more = file.read(len(text))
            if not more:
                raise self._not_a_trace() if _loads(text) is not None else self._truncated()
            text += more

    def _piece(self, buffer: bytearray, *, final: bool) -> tuple[list[Event], int, bool]:
        """Decode a run of whole events at the start of ``buffer``, which is as before afterwards.

        Returns the events, where the next one starts, and whether the list ended instead. Zero:
        no cut was found.
        """
        if final:
            events, end = self._parse(memoryview(buffer))
            return events, end, end > 0
        cut = len(buffer)
        for _ in range(_CUTS_TRIED):
            cut, start = _cut_before(buffer, cut)
            if cut < 0:
                break
            # Close the list in place of the space or comma after the event.
            after, buffer[cut + 1] = buffer[cut + 1], ord("]")
            with memoryview(buffer) as view:
                events, end = self._parse(view[: cut + 2])
            buffer[cut + 1] = after
            if end:
                ended = end < cut + 2
                return events, end if ended else start, ended
        return [], 0, False

    def _parse(self, piece: memoryview) -> tuple[list[Event], int]:
        """The events of a JSON list and the length of its text, 0 if it is not complete."""
        end = len(piece)
        try:
            return self._exactly(piece), end
        except msgspec.ValidationError:
            return self._repair(piece)
        except msgspec.DecodeError as error:
            trailing = _TRAILING.search(str(error))
            if trailing:
                end = int(trailing[1]) - 1
                return self._parse(piece[:end])[0], end
            if "truncated" in str(error):
                return [], 0
            events, end = self._repair(piece)
            self.repaired += end > 0
            return events, end

    def _exactly(self, piece: memoryview) -> list[Event]:
        """Decode, keeping every digit of times too long for a double from the first one seen."""
        events: list[Event] = self._decode(piece)
        if self._decode == _FAST.decode and events:
            for event in (events[0], events[len(events) // 2], events[-1]):
                if isinstance(event.ts, float) and event.ts >= EXACT_BELOW:
                    self._decode = _EXACT.decode
                    return list(self._decode(piece))
        return events

    def _repair(self, piece: memoryview) -> tuple[list[Event], int]:
        """Read text that is not quite JSON, as the standard library's lenient parser does."""
        raw = bytes(piece).decode("utf-8", "surrogateescape")
        for text in (_lenient(raw), _lenient(_requoted(raw))):
            try:
                items, end = _LENIENT.raw_decode(text)
                break
            except (ValueError, RecursionError):
                continue
        else:
            return [], 0
        left = len(text[end:].encode("utf-8", "surrogateescape"))
        events = [_event(item) for item in items if _is_event(item)]
        self.foreign += len(items) - len(events)
        return events, len(piece) - left

    def _close(self, trailer: bytes) -> None:
        """Read the keys after the event list."""
        if self._in_list:
            return
        keys = _loads(b'{"traceEvents": []' + trailer)
        if isinstance(keys, dict):
            keys.pop("traceEvents")
            self.header.update(keys)
        elif not trailer.rstrip(_SPACE).endswith(b"}"):
            raise self._truncated()

    def _truncated(self) -> UnreadableReport:
        return UnreadableReport(
            f"{self.path}: truncated or damaged JSON",
            hint="The program may have been stopped while it wrote the trace: record it again.",
        )

    def _not_a_trace(self) -> UnreadableReport:
        return UnreadableReport(
            f"{self.path}: not a torch.profiler trace (no list of traceEvents)",
            hint="Give what torch.profiler's export_chrome_trace wrote, or a run folder.",
        )


def _open(path: Path) -> IO[bytes]:
    """The file's uncompressed bytes, told by its first two bytes and not by its name."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise UnreadableReport(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UnreadableReport(f"{path}: a folder, not a trace") from None
    if file.peek(2)[:2] == b"\x1f\x8b":
        file.close()
        return gzip.open(path, "rb")  # type: ignore[return-value]
    return file


def _cut_before(buffer: bytearray, end: int) -> tuple[int, int]:
    """The last ``}`` before ``end`` that a comma and a ``{`` follow, and where that ``{`` is."""
    while (cut := buffer.rfind(b"}", 0, end)) >= 0:
        match = _CUT.match(buffer, cut)
        if match:
            return cut, match.end() - 1
        end = cut
    return -1, -1


def _loads(text: bytes) -> Any:
    """Small JSON, or None when it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        try:
            return json.loads(_lenient(text.decode("utf-8", "surrogateescape")), strict=False)
        except (ValueError, RecursionError):
            return None


def _lenient(text: str) -> str:
    """``text`` with bare nan and inf replaced by ``[]``, as long as before."""
    return _BARE_FLOAT.sub(
        lambda found: found[0] if found[0][0] == '"' else "[]".ljust(len(found[0])), text
    )


def _requoted(text: str) -> str:
    """``text`` with bare quotes within names replaced by ``_QUOTE``."""
    return _NAME.sub(
        lambda found: found[1] + _INNER_QUOTE.sub(lambda mark: mark[1] or _QUOTE, found[2]), text
    )


def _is_event(item: Any) -> bool:
    """Has it fields, and a category that can be told?"""
    return isinstance(item, dict) and isinstance(item.get("cat"), str | None)


def _event(item: dict[str, Any]) -> Event:
    args = item.get("args")
    known = args if isinstance(args, dict) else {}
    if isinstance(item.get("name"), str):
        item["name"] = item["name"].replace(_QUOTE, '"')
    texts = {key: item[key] for key in ("ph", "cat") if isinstance(item.get(key), str)}
    values: dict[str, Any] = {
        key: _scalar(item.get(key)) for key in ("name", "pid", "tid", "ts", "dur", "id")
    }
    for key in ("ts", "dur"):
        if isinstance(values[key], bool):
            values[key] = None
    fields = {
        field.name: known[field.encode_name]
        for field in msgspec.structs.fields(Args)
        if field.encode_name in known
    }
    return Event(**texts, **values, args=Args(**fields) if args is not None else None)


def _scalar(value: Any) -> Any:
    return value if isinstance(value, Scalar | Decimal) else str(value)
