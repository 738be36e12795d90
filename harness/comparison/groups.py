# SPDX-License-Identifier: MIT
"""Which runs of a folder are alike: one program, on one shape and one kind of GPU.

Options are left out on purpose: they are what people change to see what it does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from harness.launch.pycommand import INTERPRETER, PythonCommand, parse

if TYPE_CHECKING:
    from harness.comparison.result import Comparison
    from harness.launch.rundir import Run

_SCRIPTS = (".py", ".pyz", ".sh")
#: Of a program (it may be code), what is printed.
_SHOWN = 60


@dataclass(frozen=True)
class Kind:
    """What two runs must share to be compared without being named. All empty: not on record."""

    program: str = ""
    shape: str = ""
    gpu: str = ""

    def __str__(self) -> str:
        program = self.program[:_SHOWN] + ("…" if len(self.program) > _SHOWN else "")
        known = [part for part in (program, self.shape, self.gpu) if part]
        return " · ".join(known) or "recordings without a run.json"


#: Of a recording without a ``run.json``.
UNKNOWN = Kind()

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """Runs of one kind, compared with one of them; ``options`` is how each command line differs
    from the base's."""

    kind: Kind
    compared: tuple[Comparison, ...]
    options: tuple[str, ...]


def kind_of(run: Run) -> Kind:
    shape, on_cpu = _workload(run.workload or {})
    gpus = dict.fromkeys(str(gpu["name"]) for gpu in run.gpu if _has_name(gpu))
    return Kind(program_of(run.argv), shape, "" if on_cpu else ", ".join(gpus))


def _has_name(gpu: Any) -> bool:
    return isinstance(gpu, Mapping) and bool(gpu.get("name"))


def _workload(stored: Mapping[str, Any]) -> tuple[str, bool]:
    """Shape, dtype and device of the bundled workload, and whether that is the CPU."""
    if not isinstance(stored, Mapping) or not isinstance(stored.get("shape"), list):
        return "", False
    machine = stored.get("machine")
    device = str(machine.get("device") or "") if isinstance(machine, Mapping) else ""
    device = device.partition(":")[0]  # cuda:0 and cuda:1 run the same kernels
    words = ["x".join(map(str, stored["shape"])), str(stored.get("dtype") or ""), device]
    return " ".join(filter(None, words)), device == "cpu"


def program_of(argv: Sequence[str]) -> str:
    """The script, module or command that ``argv`` runs, without interpreters, launchers
    (``torchrun``) and options.

    Two spellings of one path are two programs: nobody recorded the folder they were given in.
    """
    return _split(argv)[0]


def options_of(argv: Sequence[str]) -> tuple[str, ...]:
    """What follows the program on its command line."""
    return _split(argv)[1]


def _split(argv: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    words = [str(word) for word in argv]
    for place, word in enumerate(words):
        if not INTERPRETER.match(os.path.basename(word)):
            continue
        found = parse(words[place:])
        if isinstance(found, PythonCommand):
            flag, *value = found.target
            # One line: code (-c) may have several.
            program = f"{flag} {' '.join(value[0].split())}" if value else os.path.normpath(flag)
            return program, found.args
        break
    for place, word in enumerate(words):
        if word.endswith(_SCRIPTS):
            return os.path.normpath(word), tuple(words[place + 1 :])
    return (os.path.basename(words[0]), tuple(words[1:])) if words else ("", ())


def alike(kinds: Sequence[tuple[K, T]]) -> list[tuple[K, list[T]]]:
    """Groups of one kind, each in the order given; the group that holds the last item first."""
    groups: dict[K, list[T]] = {}
    for kind, item in kinds:
        members = groups.pop(kind, [])  # moves the group to the end
        groups[kind] = [*members, item]
    return list(reversed(groups.items()))


def changed_options(base: Sequence[str], new: Sequence[str]) -> str:
    """How the options differ: ``--tf32``, and ``without --compiled`` for what is gone."""
    added, gone = _left(new, base), _left(base, new)
    parts = [" ".join(added)] if added else []
    if gone:
        parts.append("without " + " ".join(gone))
    return ", ".join(parts)


def _left(words: Sequence[str], others: Sequence[str]) -> list[str]:
    """``words`` without as many of each as ``others`` has."""
    rest = list(others)
    left = []
    for word in words:
        if word in rest:
            rest.remove(word)
        else:
            left.append(word)
    return left
