# SPDX-License-Identifier: MIT
"""Names of ranges that survive torch.profiler's trace.

torch 2.13 writes ``"`` into its JSON unescaped, turns ``\\`` into ``/``, drops line ends and calls
a range whose name has any other byte outside printable ASCII ``unknown``. Such a name is handed to
``record_function`` percent-encoded behind a mark; the reader takes it back to what it was.
Standard library only: ``launch/torch_runner.py`` loads this file by its path.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

MARK = "%:"
_SAFE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in '"\\%')


def encoded(name: str) -> str:
    """``name`` as it is, where the trace keeps it; else marked and percent-encoded."""
    kept = name.isascii() and name.isprintable() and not ('"' in name or "\\" in name)
    if kept and not name.startswith(MARK):
        return name
    return MARK + quote(name, safe=_SAFE, errors="surrogatepass")


def decoded(name: str) -> str:
    """What ``encoded`` was given; any other name as it is."""
    if not name.startswith(MARK):
        return name
    return unquote(name.removeprefix(MARK), errors="replace")
