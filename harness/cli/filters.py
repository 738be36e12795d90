# SPDX-License-Identifier: MIT
"""Options that select a part of a report, shared by the commands that offer them.

They appear once the engine can apply them (``harness.select``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from harness.errors import UsageProblem
from harness.selection import Selection, available

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"": 1, "ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_TIME = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|)\s*")

_OPTIONS = (
    click.option("--skip", type=click.IntRange(min=0), default=0, metavar="N",
                 help="Leave out the first N instances of each path (warm-up)."),
    click.option("--steady", is_flag=True,
                 help="Leave out each path's instances before they settle."),
    click.option("--filter-time", "filter_time", metavar="A:B",
                 help="Keep what was launched A to B after the first event (ns, or with a unit:"
                 " 1.5s:2s); either side may be empty."),
    click.option("--range", "range_", metavar="REGEX", help="Keep work under ranges so named."),
    click.option("--domain", "domains", multiple=True, metavar="NAME",
                 help="Keep ranges of this NVTX domain ('' is the default one; repeatable)."),
    click.option("--kernel", metavar="REGEX", help="Keep kernels so named."),
    click.option("--device", "devices", type=int, multiple=True, metavar="N",
                 help="Keep GPU ops of this device (repeatable)."),
    click.option("--pid", "pids", type=int, multiple=True, metavar="PID",
                 help="Keep this process (repeatable)."),
)  # fmt: skip


def filter_options(function: F) -> F:
    """Add the filters to a command; it gets them by name, for ``selection_from``."""
    if not available():
        return function
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def selection_from(options: Mapping[str, Any]) -> Selection:
    """The Selection that the options spell.

    Raises:
        UsageProblem: a time or a regular expression does not parse.
    """
    if "skip" not in options:
        return Selection()
    return Selection(
        skip=options["skip"],
        steady=options["steady"],
        time=parse_window(options["filter_time"]),
        range=_pattern("--range", options["range_"]),
        domains=options["domains"],
        kernel=_pattern("--kernel", options["kernel"]),
        devices=options["devices"],
        pids=options["pids"],
    )


def parse_window(text: str | None) -> tuple[int | None, int | None] | None:
    """``A:B`` in ns; an empty side is None."""
    if text is None:
        return None
    sides = text.split(":")
    if len(sides) != 2:
        raise UsageProblem(f"--filter-time {text!r} is not A:B", hint="For example 1.5s:2s.")
    start, end = (_time(side, text) for side in sides)
    if start is not None and end is not None and start >= end:
        raise UsageProblem(f"--filter-time {text!r} ends before it starts")
    return start, end


def _time(side: str, text: str) -> int | None:
    if not side.strip():
        return None
    match = _TIME.fullmatch(side)
    if match is None:
        raise UsageProblem(
            f"--filter-time {text!r}: {side!r} is not a time", hint="For example 1.5s:2s."
        )
    number, unit = match.groups()
    # Decimal places of a large time must not pass through a float.
    whole, _, fraction = number.partition(".")
    scale = _UNITS[unit]
    sign = -1 if whole.startswith("-") else 1
    return int(whole) * scale + sign * int(int(fraction or 0) * scale / 10 ** len(fraction))


def _pattern(option: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        re.compile(text)
    except re.error as error:
        raise UsageProblem(f"{option} {text!r} is not a regular expression: {error}") from error
    return text
