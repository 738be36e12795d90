# SPDX-License-Identifier: MIT
"""How often does ``harness compare`` get it right, on recorded captures?

    python benchmarks/evaluate_ab.py tests/data/aa tests/data/aa12/A    # captures of one program
    python benchmarks/evaluate_ab.py OUT                                # a campaign

A folder of recordings holds captures of one program. OUT holds a folder of captures a side: A, and
any number of planted changes B1, B5, … (see record_ab.py). Compares every K against K captures (or,
with --most N, a sample of N of them): A with A, where ``faster`` and ``slower`` are wrong, and A
with each B, where the planted range should be found and no other. Prints a count of each verdict.
Of fewer than 2K captures of one program, every two different choices of K are compared.

Captures that do not say when they were made are compared as two samples. With --in-turn they are
taken to be made as record_ab.py makes them (A, B1, B5, A, …), and drift that neighbours share is
taken out where a comparison's captures alternate.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from harness.comparison.build import Options, build
from harness.comparison.inputs import loose_recordings
from harness.comparison.sides import Capture, Side, capture
from harness.comparison.verdict import VERDICTS
from harness.errors import HarnessError
from harness.readers import load

WRONG = ("faster", "slower")
_FIRST = 10**18  # any time will do
Captures = tuple[Capture, ...]


def read(folder: Path) -> list[Capture]:
    return [capture(load(file).attribute()) for file in loose_recordings(folder)]


def in_turn(sides: dict[str, list[Capture]]) -> dict[str, list[Capture]]:
    """The captures with times as record_ab.py makes them, one after the other."""
    return {
        name: [
            replace(one, started=_FIRST + number * len(sides) + place)
            for number, one in enumerate(captures)
        ]
        for place, (name, captures) in enumerate(sides.items())
    }


def overlapping(captures: Sequence[Capture], k: int) -> Iterator[tuple[Captures, Captures]]:
    """Every two different sets of k captures, both ways round, for fewer than 2k captures."""
    yield from itertools.permutations(itertools.combinations(captures, k), 2)


def same_side(captures: Sequence[Capture], k: int) -> Iterator[tuple[Captures, Captures]]:
    """Every two disjoint sets of k captures, each pair once."""
    for chosen in itertools.combinations(range(len(captures)), 2 * k):
        for first in itertools.combinations(chosen, k):
            if first[0] == chosen[0]:  # the other half of the pairs are the same, swapped
                rest = [i for i in chosen if i not in first]
                yield tuple(captures[i] for i in first), tuple(captures[i] for i in rest)


def two_sides(
    base: Sequence[Capture], new: Sequence[Capture], k: int
) -> Iterator[tuple[Captures, Captures]]:
    """Every k of one side with every k of the other."""
    yield from itertools.product(itertools.combinations(base, k), itertools.combinations(new, k))


def sample(
    pairs: Iterator[tuple[Captures, Captures]], most: int
) -> list[tuple[Captures, Captures]]:
    """At most ``most`` of the pairs (0: all), the same ones each time."""
    every = list(pairs)
    return every if not most or len(every) <= most else random.Random(88).sample(every, most)


def verdicts(
    pairs: Sequence[tuple[Captures, Captures]], options: Options
) -> dict[str, Counter[str]]:
    """Range -> how often it got each verdict."""
    found: dict[str, Counter[str]] = {}
    for base, new in pairs:
        comparison = build(Side("A", "A", base), Side("B", "B", new), options)
        for row in comparison.items:
            found.setdefault(" / ".join(row.path), Counter())[row.verdict] += 1
    return found


def wrong(found: dict[str, Counter[str]]) -> tuple[int, int]:
    """How many ranges were called faster or slower, and how many were compared."""
    total = sum(found.values(), Counter[str]())
    return sum(total[word] for word in WRONG), sum(total.values())


def show(title: str, number: int, found: dict[str, Counter[str]], unchanged: bool) -> None:
    calls, total = wrong(found)
    what = "wrong verdicts" if unchanged else "ranges faster or slower"
    print(f"\n{title}: {number} comparisons, {100 * calls / max(1, total):.2f} % {what}", end=" ")
    print(f"({calls} of {total})")
    width = max(map(len, found), default=5)
    print(f"  {'':{width}}" + "".join(f"{word:>9}" for word in VERDICTS))
    for name, counts in found.items():
        print(f"  {name:{width}}" + "".join(f"{counts[word]:9}" for word in VERDICTS))


def sides_of(folder: Path) -> dict[str, list[Capture]]:
    """Side -> captures: those in ``folder`` itself are of one program."""
    if loose_recordings(folder):
        return {"A": read(folder)}
    return {f.name: read(f) for f in sorted(folder.iterdir()) if f.is_dir()}


def evaluate(folder: Path, given: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Compare and print; side -> what was found."""
    sides = sides_of(folder)
    if given.in_turn:
        sides = in_turn(sides)
    a, k = sides["A"], given.k
    results: dict[str, dict[str, object]] = {}
    for name, captures in sides.items():
        title = f"{folder}: A against {name}"
        if name != "A":
            pairs = two_sides(a, captures, k)
        elif len(a) >= 2 * k:
            pairs = same_side(a, k)
        else:
            pairs = overlapping(a, k)
            title += f" (pairs share captures: there are {len(a)})"
        chosen = sample(pairs, given.most)
        found = verdicts(chosen, Options(threshold=given.threshold / 100))
        show(title, len(chosen), found, unchanged=name == "A")
        results[name] = {"comparisons": len(chosen), "verdicts": found}
        if name == "A":
            results[name]["wrong"], results[name]["ranges"] = wrong(found)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "out", type=Path, nargs="+", help="a folder of captures, or of folders of captures"
    )
    parser.add_argument("-k", type=int, default=3, help="captures a side (default 3)")
    parser.add_argument(
        "--most", type=int, default=0, metavar="N", help="comparisons of each kind (0: all)"
    )
    parser.add_argument("--threshold", type=float, default=1.0, metavar="PCT")
    parser.add_argument("--in-turn", action="store_true", help="captures alternate, see above")
    parser.add_argument("--json", type=Path, metavar="FILE", help="of one folder")
    given = parser.parse_args()
    for folder in given.out:
        inside = folder / "A" if (folder / "A").is_dir() else folder
        number = len(loose_recordings(inside)) if inside.is_dir() else 0
        if number <= given.k:
            print(
                f"{folder}: needs more than {given.k} recordings in it or in its folder A, has"
                f" {number}",
                file=sys.stderr,
            )
            return 2
    try:
        results = [evaluate(folder, given) for folder in given.out]
    except HarnessError as error:
        print(error.message, file=sys.stderr)
        return int(error.exit_code)
    if given.json:
        given.json.write_text(json.dumps(results[0], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
