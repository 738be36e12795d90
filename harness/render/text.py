# SPDX-License-Identifier: MIT
"""Numbers and names as people read them: units chosen here and nowhere else."""

from __future__ import annotations

import unicodedata

from harness.words import plural_of

#: What an empty range name is shown as; NVTX allows ``range_push("")``.
UNNAMED = "(unnamed)"
SEPARATOR = " / "
MISSING = "-"

_UNITS = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s"))
#: Turn the direction of text around it: a name could disguise the rest of its line.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TO_ASCII = str.maketrans({"µ": "u", "…": "~", "·": "-"})


def duration(ns: float | int | None) -> str:
    """Four significant digits and a unit: ``512 ns``, ``16.01 µs``, ``4.365 ms``, ``1.200 s``."""
    if ns is None or ns != ns:
        return MISSING
    sign, value = ("-", -ns) if ns < 0 else ("", ns)
    for scale, unit in _UNITS:
        number = _four_digits(value / scale, whole=scale == 1)
        if float(number) < 1000 or unit == "s":
            break
    # Seconds have one letter fewer; the blank keeps the digits of a column in line.
    return f"{sign}{number} {unit:>2}"


def _four_digits(value: float, *, whole: bool) -> str:
    if whole:
        return f"{value:.0f}"
    for decimals in (3, 2, 1):
        text = f"{value:.{decimals}f}"
        if len(text) <= 5:
            return text
    return f"{value:.0f}"


def exact(ns: int) -> str:
    """Whole nanoseconds with thousands separated, for figures that must visibly add up."""
    return f"{ns:,} ns"


def count(value: float | int | None) -> str:
    if value is None or value != value:
        return MISSING
    return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else MISSING


def ratio(value: float | None) -> str:
    """``1.003``; large ratios lose digits rather than break a column (``53.2``, ``4e+06``)."""
    if value is None or value != value:
        return MISSING
    if value == float("inf"):
        return "inf"
    if value < 100:
        return f"{value:.3f}"[:5]
    return f"{value:.0f}" if value < 100_000 else f"{value:.0e}"


def plural(number: int, noun: str) -> str:
    """``1 kernel``, ``60 kernels``, ``2 copies``."""
    return f"{count(number)} {noun if number == 1 else plural_of(noun)}"


def printable(name: str) -> str:
    """The name on one line, with nothing that moves the cursor, colours, or turns text around."""
    if name == "":
        return UNNAMED
    if name.isspace() and set(name) == {" "}:
        return f'"{name}"'
    if name.isascii() and name.isprintable():
        return name
    return "".join(map(_printable_char, name))


def printable_lines(text: str) -> str:
    """A message that may have several lines, each of them printable."""
    return "\n".join(printable(line) if line else line for line in text.split("\n"))


def _printable_char(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    category = unicodedata.category(char)
    if char in _BIDI or category in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp"):
        code = ord(char)
        return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    return char


def joined(path: tuple[str, ...] | list[str]) -> str:
    """A path for csv: names as recorded, joined with `` / ``."""
    return SEPARATOR.join(path)


def printable_path(path: tuple[str, ...] | list[str]) -> str:
    return SEPARATOR.join(printable(name) for name in path)


def ascii_only(text: str) -> str:
    """For a terminal whose encoding has no ``µ``: a likeness of ours, escapes for the rest."""
    return text.translate(_TO_ASCII).encode("ascii", "backslashreplace").decode()
