# SPDX-License-Identifier: MIT
"""Numbers and the words that go with them, for messages."""

from __future__ import annotations

_ES = ("s", "x", "ch", "sh")


def plural_of(noun: str) -> str:
    """``kernels``, ``memory copies``, ``graph launches``: of the last word."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(_ES) else "s")


def plural(number: int, noun: str) -> str:
    """``1 kernel``, ``60 kernels``."""
    return f"{number} {noun if number == 1 else plural_of(noun)}"


def agree(number: int, one: str, several: str) -> str:
    """The verb (or pronoun) of that many: ``agree(1, "was", "were")``."""
    return one if number == 1 else several
