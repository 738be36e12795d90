# SPDX-License-Identifier: MIT
"""Kernel names: the base name in a demangled C++ signature."""

from __future__ import annotations

import re

_CLOSES = {")": "(", ">": "<", "]": "[", "}": "{"}
_LOCAL = "\0"  # stands for a lambda or unnamed type among the scopes of a name
_OPERATOR_SIGN = re.compile(r"operator\s*(\(\)|\[\]|->\*?|<=>|<<=?|>>=?|[<>]=?)")
_ANONYMOUS = ("(anonymous namespace)", "<unnamed>", "(anonymous)", "{anonymous}")


#: How every signature begins of a kernel that CUTLASS wraps …
WRAPPED = "void cutlass::"
#: … in one of these; and what CUTLASS 3 and flash-attention wrap once more.
_WRAPPERS = re.compile(r"Kernel2?|device_kernel|enable_\w+")


def short_kernel_name(demangled: str) -> str:
    """The kernel's own name: no return type, namespaces, template arguments or parameters.

    Reads both spellings of a signature, CUPTI's (``void at::native::(anonymous namespace)::k<4>``)
    and nsys' (``void at::native::<unnamed>::k<(int)4>``). The body of a lambda is named after the
    function that holds it, a wrapper of CUTLASS after what it wraps (``cutlass_80_simt_sgemm_…``,
    not ``Kernel2``). A name that is no C++ signature (Triton, cuBLAS), or that cannot be taken
    apart, comes back whole.
    """
    name = demangled.strip()
    if not any(mark in name for mark in "(<: "):
        return demangled
    scopes = _flat(name).split("::")
    scopes[0] = scopes[0].split(" ")[-1]
    for scope in reversed(scopes):
        # "void f<int>" and, after a dependent type, "typename T<int>::type f".
        own = scope if scope.startswith("operator") else scope.split(" ")[-1]
        if own and _LOCAL not in own and own != "operator()":
            return _unwrapped(name, own) if name.startswith(WRAPPED) else own
    return demangled


def _unwrapped(signature: str, own: str) -> str:
    """The name of what the wrapper ``own`` is given as its first template argument."""
    while _WRAPPERS.fullmatch(own):
        _, opened, rest = signature.partition(f"{own}<")
        inner = _flat(rest).partition(",")[0].rpartition("::")[2].strip(" >")
        if not opened or not inner.isidentifier():
            break
        signature, own = rest, inner
    return own


def _flat(name: str) -> str:
    """``name`` up to its parameters, without template arguments and without anonymous scopes."""
    out: list[str] = []
    i = 0
    while i < len(name):
        sign = _OPERATOR_SIGN.match(name, i)
        if sign:
            out.append("operator" + sign[1])
            i = sign.end()
        elif name[i] in "(<[{":
            end = _group_end(name, i)
            group, after = name[i:end], name[end : end + 2]
            if group.startswith(("{lambda", "[lambda", "{unnamed", "[unnamed")):
                out.append(_LOCAL)
            elif group[0] == "(" and group not in _ANONYMOUS and after != "::" and out:
                # Parameters. A function's local scope continues: f(int)::{lambda()#1}, and
                # may say const first.
                rest = re.match(r"\s*(?:const|volatile|noexcept|&+|\s)*::", name[end:])
                if not rest:
                    break
                end += rest.end() - 2
            i = end
        else:
            out.append(name[i])
            i += 1
    return "".join(out)


def _group_end(name: str, start: int) -> int:
    """The index past the bracket that closes the one at ``start``; the end if none does."""
    stack: list[str] = []
    for i in range(start, len(name)):
        char = name[i]
        if char in "(<[{":
            stack.append(char)
        elif char in _CLOSES:
            if char == ">" and (stack[-1] != "<" or name[i - 1] == "-"):
                continue  # a comparison within parentheses, or an arrow
            while stack and stack.pop() != _CLOSES[char]:
                pass  # a < that was a comparison
            if not stack:
                return i + 1
    return len(name)
