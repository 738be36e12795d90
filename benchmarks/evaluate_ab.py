# SPDX-License-Identifier: MIT
"""How often does ``harness compare`` get it right, on recorded captures?

    python benchmarks/evaluate_ab.py OUT

OUT holds a folder of captures a side: A, and any number of planted changes B1, B5, … (see
record_ab.py). Compares every K against K captures (a sample of them beyond --most): A with A, where
``faster`` and ``slower`` are wrong, and A with each B, where the planted range should be found and
no other. Prints a count of each verdict a range.

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
    """At most ``most`` of the pairs, the same ones each time."""
    every = list(pairs)
    return every if len(every) <= most else random.Random(88).sample(every, most)


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


def show(title: str, number: int, found: dict[str, Counter[str]]) -> None:
    total = sum(found.values(), Counter[str]())
    calls = sum(total[word] for word in WRONG)
    share = 100 * calls / max(1, sum(total.values()))
    print(f"\n{title}: {number} comparisons, {share:.2f} % of ranges faster or slower")
    width = max(map(len, found), default=5)
    print(f"  {'':{width}}" + "".join(f"{word:>9}" for word in VERDICTS))
    for name, counts in found.items():
        print(f"  {name:{width}}" + "".join(f"{counts[word]:9}" for word in VERDICTS))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, help="a folder of folders of captures")
    parser.add_argument("-k", type=int, default=3, help="captures a side (default 3)")
    parser.add_argument("--most", type=int, default=2000, help="comparisons of each kind")
    parser.add_argument("--threshold", type=float, default=1.0, metavar="PCT")
    parser.add_argument("--in-turn", action="store_true", help="captures alternate, see above")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    options = Options(threshold=given.threshold / 100)
    sides = {f.name: read(f) for f in sorted(given.out.iterdir()) if f.is_dir()}
    if "A" not in sides:
        print(f"{given.out}: no folder A", file=sys.stderr)
        return 2
    if given.in_turn:
        sides = in_turn(sides)
    results = {}
    for name, captures in sides.items():
        a = sides["A"]
        pairs = same_side(a, given.k) if name == "A" else two_sides(a, captures, given.k)
        chosen = sample(pairs, given.most)
        found = verdicts(chosen, options)
        show(f"A against {name}", len(chosen), found)
        results[name] = {"comparisons": len(chosen), "verdicts": found}
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
