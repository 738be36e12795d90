# SPDX-License-Identifier: MIT
"""The nsys and the torch recording of one run, path by path, and why they disagree where they do.

They are two executions of one program: process ids, clocks and first iterations differ. Paths are
matched by the names that both recordings have, since torch.profiler adds ranges of its own
(``ProfilerStep#3``) and nsys records those of libraries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness import disagreement
from harness.disagreement import Measures, Whole

if TYPE_CHECKING:
    from harness.attribute import Attribution

Path = tuple[str, ...]

COLUMNS = (
    "path",
    "nsys_instances",
    "torch_instances",
    "nsys_kernels",
    "torch_kernels",
    "nsys_total_ns",
    "torch_total_ns",
    "ratio",
    "nsys_cpu_ns",
    "torch_cpu_ns",
    "code",
    "reason",
)


@dataclass(frozen=True)
class Side:
    """One recording: measures by full path, in tree order; and what concerns all of it."""

    paths: Mapping[Path, Measures]
    kernels: int  # kernels recorded at all
    unlinked: int
    processes: int = 1  # that have ranges

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for path in self.paths for name in path)


def join(
    nsys: Attribution, torch: Attribution, *, before_torch: frozenset[str] = frozenset()
) -> pd.DataFrame:
    """One row a path that either recording has: nsys's order, then torch's own.

    ``before_torch`` names ranges that closed before the program imported torch.
    Counts are None where a recording lacks the path; ``ratio`` is torch over nsys; ``code`` and
    ``reason`` are empty where they agree.
    """
    return compare(side(nsys), side(torch), before_torch=before_torch)


def side(attribution: Attribution) -> Side:
    """What one recording says about each path, threads and processes merged."""
    from harness import summarise

    ops = summarise.ops(attribution)
    return assemble(
        ranges=summarise.ranges(attribution),
        instances=summarise.instances(attribution),
        path_kernels=summarise.path_kernels(attribution),
        ops=ops,
    )


def assemble(
    *,
    ranges: pd.DataFrame,
    instances: pd.DataFrame,
    path_kernels: pd.DataFrame,
    ops: pd.DataFrame,
) -> Side:
    """A Side from the frames of ``harness.summarise``."""
    autograd = _nested_counts(ops["path"][(ops["rule"] == "autograd") & (ops["kind"] == "kernel")])
    graphs = _nested_counts(ops["path"][ops["kind"] == "graph"])
    by_kernel: dict[Path, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for path, kernel, count in _tuples(path_kernels, "path", "kernel", "kernels"):
        by_kernel[path][kernel] += int(count)
    each: dict[Path, list[tuple[int, int]]] = defaultdict(list)
    closed = instances[~instances["open"].astype(bool)].sort_values("start_ns", kind="stable")
    for path, kernels, total in _tuples(closed, "path", "kernels", "total_gpu_ns"):
        each[path].append((int(kernels), int(total)))
    sums = [
        "instances",
        "kernels",
        "memcpys",
        "memsets",
        "total_kernel_ns",
        "total_gpu_ns",
        "cpu_ns",
    ]
    domains: dict[Path, str] = {}
    for path, domain in _tuples(ranges, "path", "domain"):
        domains[path] = domain if domains.get(path, domain) == domain else ""
    merged = ranges.groupby("path", sort=False, observed=True)[sums].sum()
    return Side(
        paths={
            path: Measures(
                **{name: int(value) for name, value in zip(sums, values, strict=True)},
                autograd_kernels=autograd.get(path, 0),
                graph_launches=graphs.get(path, 0),
                by_kernel=dict(by_kernel.get(path, {})),
                domain=domains[path],
                each=tuple(each.get(path, ())),
            )
            for path, *values in merged.itertuples()
        },
        kernels=int((ops["kind"] == "kernel").sum()),
        unlinked=int((ops["rule"] == "unlinked").sum()),
        processes=max(int(instances["process"].nunique()), 1),
    )


def _tuples(frame: pd.DataFrame, *columns: str) -> Iterable[tuple[Any, ...]]:
    return zip(*(frame[column].tolist() for column in columns), strict=True)


def _nested_counts(paths: pd.Series[Any]) -> dict[Path, int]:
    """How many of ``paths`` lie at or below each path."""
    counts: dict[Path, int] = defaultdict(int)
    for path, number in paths.value_counts().items():
        for depth in range(1, len(path) + 1):  # type: ignore[arg-type]
            counts[path[:depth]] += int(number)  # type: ignore[index]
    return counts


@dataclass
class _Matched:
    path: Path  # as the first recording that has it spells it
    nsys: list[Measures] = field(default_factory=list)
    torch: list[Measures] = field(default_factory=list)


def match(nsys: Side, torch: Side) -> list[tuple[Path, Measures | None, Measures | None]]:
    """Both sides' measures by matched path: nsys's order first."""
    both = nsys.names & torch.names
    found: dict[Path, _Matched] = {}
    for path, measures in nsys.paths.items():
        found.setdefault(matched_path(path, both), _Matched(path)).nsys.append(measures)
    for path, measures in torch.paths.items():
        found.setdefault(matched_path(path, both), _Matched(path)).torch.append(measures)
    return [
        (pair.path, disagreement.merge(pair.nsys), disagreement.merge(pair.torch))
        for pair in found.values()
    ]


def matched_path(path: Path, both: frozenset[str]) -> Path:
    """``path`` without the elements that only one recording has; its own name always stays."""
    return (*(name for name in path[:-1] if name in both), path[-1])


def compare(nsys: Side, torch: Side, *, before_torch: frozenset[str] = frozenset()) -> pd.DataFrame:
    """The joined rows; see ``join``."""
    pairs = match(nsys, torch)
    whole = Whole(
        nsys_kernels=nsys.kernels,
        torch_kernels=torch.kernels,
        nsys_unlinked=nsys.unlinked,
        torch_unlinked=torch.unlinked,
        scale=disagreement.common_scale((left, right) for _, left, right in pairs),
        nsys_processes=nsys.processes,
        torch_processes=torch.processes,
        before_torch=before_torch,
        foreign_domains=_foreign_domains(nsys, torch),
    )
    rows = [_row(path, left, right, whole) for path, left, right in pairs]
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    integers = [c for c in COLUMNS if c.startswith(("nsys_", "torch_"))]
    return frame.astype(dict.fromkeys(integers, "Int64"))


def _foreign_domains(nsys: Side, torch: Side) -> frozenset[str]:
    """Domains of nsys's ranges (not the default one) of which no range is in torch's recording,
    which has no domains: what a program opens itself the torch pass records under its name."""
    own = {m.domain for path, m in nsys.paths.items() if path[-1] in torch.names}
    return frozenset(m.domain for m in nsys.paths.values() if m.domain) - own


def _row(
    path: Path, nsys: Measures | None, torch: Measures | None, whole: Whole
) -> tuple[Any, ...]:
    code, reason = disagreement.explain(nsys, torch, whole, path[-1])
    ratio = None
    if nsys is not None and torch is not None:
        ratio = disagreement.ratio(nsys.total_gpu_ns, torch.total_gpu_ns)
    return (
        path,
        nsys.instances if nsys else None,
        torch.instances if torch else None,
        nsys.kernels if nsys else None,
        torch.kernels if torch else None,
        nsys.total_gpu_ns if nsys else None,
        torch.total_gpu_ns if torch else None,
        ratio,
        nsys.cpu_ns if nsys else None,
        torch.cpu_ns if torch else None,
        code,
        reason,
    )
