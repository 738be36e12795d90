# SPDX-License-Identifier: MIT
"""Units and names as people read them."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from harness.render import text


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.000 µs"),
        (16_012, "16.01 µs"),
        (876_029, "876.0 µs"),
        (999_949, "999.9 µs"),
        (999_950, "1.000 ms"),  # would round to 1000 µs
        (4_364_564, "4.365 ms"),
        (999_999_999, "1.000  s"),
        (75_600_000_000, "75.60  s"),
        (123_456_000_000_000, "123456  s"),
        (-1_500, "-1.500 µs"),
        (None, "-"),
        (float("nan"), "-"),
    ],
)
def test_duration_has_four_digits_and_a_unit(ns: float | None, shown: str) -> None:
    assert text.duration(ns) == shown


def test_durations_of_one_column_keep_their_digits_in_line() -> None:
    shown = [text.duration(ns) for ns in (1_234, 16_012, 876_029, 4_364_564, 2_000_000_000)]
    assert {len(item) for item in shown} == {8}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0024, "1.002"),
        (53.26, "53.26"),
        (0.0123, "0.012"),
        (100.4, "100"),
        (4_000_000.0, "4e+06"),
        (float("inf"), "inf"),
        (None, "-"),
    ],
)
def test_ratio_never_breaks_a_column(value: float | None, shown: str) -> None:
    assert text.ratio(value) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", "(unnamed)"),
        ("  ", '"  "'),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("null\x00", "null\\x00"),
        ("c1\x9b31m", "c1\\x9b31m"),
        ("right\u202eleft", "right\\u202eleft"),
        ("\u2066isolate", "\\u2066isolate"),
        ("line\u2028separator", "line\\u2028separator"),
        ("broken\udc80utf8", "broken\\udc80utf8"),
        ("[red]markup[/red]", "[red]markup[/red]"),
        ("é中文🚀", "é中文🚀"),
        ("שלום", "שלום"),
    ],
)
def test_names_stay_on_their_line(name: str, shown: str) -> None:
    assert text.printable(name) == shown


def test_escaped_names_have_no_control_characters() -> None:
    everything = "".join(map(chr, range(0x110000)))
    shown = text.printable(everything)
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)
    assert cell_len(shown) > 0


def test_ascii_terminals_get_a_likeness() -> None:
    assert text.ascii_only("16.01 µs · é") == "16.01 us - \\xe9"
