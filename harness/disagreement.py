# SPDX-License-Identifier: MIT
"""Why two recordings of one range disagree: counts before times, the first cause that fits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, median, stdev, variance

from harness.words import agree, plural

#: Times further apart than this need a reason.
TOLERANCE = 0.02
#: Ranges that all scale alike within this are explained by the clock.
SCALE_SPREAD = 0.02

#: The device's timestamps tick every 32 ns: an op's time is not known better than a few ticks.
SHORT_NS = 100

#: Fewest instances a side whose spread says something.
SPREAD_INSTANCES = 3
#: Share of the differences that chance makes and that are called chance.
CONFIDENCE = 0.95

#: Ranges that PyTorch opens under its profiler only; the last kind is what torch.compile does.
_TORCH_OWN = re.compile(
    r"ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)#|.*_data: (\w+=[^,]*, )*compile_id="
)

NSYS, TORCH = "nsys", "torch.profiler"


@dataclass(frozen=True)
class Measures:
    """What one recording says about one path. Times in ns; nested ranges included.

    ``autograd_kernels`` came by rule `autograd`; ``graph_launches`` are CUDA graphs recorded whole;
    ``each`` is (kernels, total time) of every closed instance by start.
    """

    instances: int = 0
    kernels: int = 0
    memcpys: int = 0
    memsets: int = 0
    total_kernel_ns: int = 0
    total_gpu_ns: int = 0
    cpu_ns: int = 0
    autograd_kernels: int = 0
    graph_launches: int = 0
    by_kernel: Mapping[str, int] = field(default_factory=dict)
    each: tuple[tuple[int, int], ...] = ()
    domain: str = ""


@dataclass(frozen=True)
class Whole:
    """What concerns every path: kernels in each recording; the factor all times share, if any."""

    nsys_kernels: int = 0
    torch_kernels: int = 0
    nsys_unlinked: int = 0
    torch_unlinked: int = 0
    scale: float | None = None
    nsys_processes: int = 1
    torch_processes: int = 1
    before_torch: frozenset[str] = frozenset()  # ranges that closed before torch was imported
    foreign_domains: frozenset[str] = frozenset()  # of nsys's, those without a range in torch's


Reason = tuple[str, str]
AGREED: Reason = ("", "")


def merge(parts: list[Measures]) -> Measures | None:
    """Measures of paths that match as one: threads, processes or domains apart in the recording."""
    if len(parts) < 2:
        return parts[0] if parts else None
    sums = {
        name: sum(getattr(part, name) for part in parts)
        for name in Measures.__dataclass_fields__
        if name not in ("by_kernel", "each", "domain")
    }
    kernels: Counter[str] = Counter()
    for part in parts:
        kernels.update(part.by_kernel)
    # The parts' instances ran side by side: which came first is not known, so keep none.
    domains = {part.domain for part in parts}
    return Measures(**sums, by_kernel=kernels, domain=domains.pop() if len(domains) == 1 else "")


def ratio(nsys_ns: int, torch_ns: int) -> float | None:
    """torch over nsys; None where neither has time, infinite where only torch has."""
    if not nsys_ns:
        return float("inf") if torch_ns else None
    return torch_ns / nsys_ns


def common_scale(pairs: Iterable[tuple[Measures | None, Measures | None]]) -> float | None:
    """The factor by which all paths with equal kernels differ; None when it is not one factor."""
    ratios = [
        torch.total_kernel_ns / nsys.total_kernel_ns
        for nsys, torch in pairs
        if nsys and torch and nsys.total_kernel_ns and nsys.by_kernel == torch.by_kernel
    ]
    if len(ratios) < 2:
        return None
    middle = median(ratios)
    alike = all(abs(r / middle - 1) <= SCALE_SPREAD for r in ratios) if middle else False
    return middle if alike and abs(middle - 1) > TOLERANCE else None


def explain(nsys: Measures | None, torch: Measures | None, whole: Whole, name: str = "") -> Reason:
    """(code, sentence), both empty where counts are equal and times within TOLERANCE.

    ``name`` is the range's own: some are known to be torch.profiler's.
    """
    if nsys is None or torch is None:
        return _only_one(nsys, torch, name, whole)
    if _counts(nsys) != _counts(torch):
        checks = _COUNT_CHECKS
    elif nsys.instances != torch.instances:
        return (
            "instances",
            f"opened {plural(nsys.instances, 'time')} under {NSYS} and {torch.instances} under"
            f" {TORCH}, with"
            " as many GPU ops altogether",
        )
    elif _apart(nsys.total_gpu_ns, torch.total_gpu_ns):
        checks = _TIME_CHECKS
    else:
        return AGREED
    return next(reason for check in checks if (reason := check(nsys, torch, whole)))


def _counts(m: Measures) -> tuple[int, int, int, int]:
    return m.kernels, m.memcpys, m.memsets, m.graph_launches


def _apart(nsys_ns: float, torch_ns: float) -> bool:
    if not nsys_ns or not torch_ns:
        return bool(nsys_ns or torch_ns)
    return abs(torch_ns / nsys_ns - 1) > TOLERANCE


def _only_one(nsys: Measures | None, torch: Measures | None, name: str, whole: Whole) -> Reason:
    if nsys is None and torch is None:
        return AGREED
    if nsys is None and _TORCH_OWN.match(name):
        return "torch-own", "torch.profiler adds this range itself"
    if torch is None and name in whole.before_torch:
        return (
            "before-torch",
            f"it closed before the program imported torch: {TORCH} had not started",
        )
    have, lack = (NSYS, TORCH) if torch is None else (TORCH, NSYS)
    if torch is None and whole.nsys_processes > whole.torch_processes:
        return (
            "missing-range",
            f"only {NSYS} has this range, of {whole.nsys_processes} processes; {TORCH} records the"
            " program's own process and none that it starts",
        )
    if nsys is not None and nsys.domain in whole.foreign_domains:
        return (
            "library-own",
            f"opened in the NVTX domain {nsys.domain}, of which {TORCH} has no range: libraries"
            " call NVTX from C++, out of its sight",
        )
    return "missing-range", f"only {have} has this range; {lack} did not record it"


def _nothing_recorded(nsys: Measures, torch: Measures, whole: Whole) -> Reason | None:
    for name, kernels, other in (
        (TORCH, whole.torch_kernels, whole.nsys_kernels),
        (NSYS, whole.nsys_kernels, whole.torch_kernels),
    ):
        if not kernels and other and nsys.kernels != torch.kernels:
            return (
                "no-kernels",
                f"{name} recorded no kernel at all: another tool may have held the GPU's profiler"
                " interface (CUPTI serves one)",
            )
    return None


def _other_instances(nsys: Measures, torch: Measures, _: Whole) -> Reason | None:
    if nsys.instances == torch.instances or not (nsys.instances and torch.instances):
        return None
    if nsys.kernels * torch.instances != torch.kernels * nsys.instances:
        return None
    return (
        "instances",
        f"ran {plural(nsys.instances, 'time')} under {NSYS} and {torch.instances} under {TORCH},"
        " with as many kernels each time",
    )


def _graph_replay(nsys: Measures, torch: Measures, _: Whole) -> Reason | None:
    for whole_name, whole, other_name, other in (
        (NSYS, nsys, TORCH, torch),
        (TORCH, torch, NSYS, nsys),
    ):
        if whole.graph_launches > other.graph_launches and other.kernels > whole.kernels:
            return (
                "graph-replay",
                f"{whole_name} recorded {plural(whole.graph_launches, 'graph launch')} whole,"
                f" {other_name} the {plural(other.kernels - whole.kernels, 'kernel')} in them"
                " (harness run --graphs node records both alike)",
            )
    return None


def _autograd_thread(nsys: Measures, torch: Measures, _: Whole) -> Reason | None:
    missing = nsys.kernels - torch.kernels
    if not missing or nsys.autograd_kernels - torch.autograd_kernels != missing:
        return None
    have, lack = (NSYS, TORCH) if missing > 0 else (TORCH, NSYS)
    return (
        "autograd-thread",
        f"{plural(abs(missing), 'kernel')} of the autograd thread could be given to this range in"
        f" the {have} recording only; in the {lack} one nothing ties that thread to it",
    )


def _first_instance_counts(nsys: Measures, torch: Measures, _: Whole) -> Reason | None:
    ours, theirs = [k for k, _ in nsys.each], [k for k, _ in torch.each]
    if len(ours) < 2 or len(ours) != len(theirs) or ours[1:] != theirs[1:]:
        return None
    if ours[0] == theirs[0]:
        return None
    return (
        "warm-up",
        f"the first instance launched {plural(ours[0], 'kernel')} under {NSYS} and {theirs[0]}"
        f" under {TORCH}; {_others(len(ours) - 1)}",
    )


def _copies(nsys: Measures, torch: Measures, _: Whole) -> Reason | None:
    if nsys.kernels != torch.kernels or nsys.graph_launches != torch.graph_launches:
        return None
    parts = [
        f"{plural(ours, noun)} under {NSYS} and {theirs} under {TORCH}"
        for ours, theirs, noun in (
            (nsys.memcpys, torch.memcpys, "memory copy"),
            (nsys.memsets, torch.memsets, "memory set"),
        )
        if ours != theirs
    ]
    return "copies", ", ".join(parts) + "; kernel counts agree"


def _other_kernels(nsys: Measures, torch: Measures, whole: Whole) -> Reason | None:
    ours, theirs = Counter(nsys.by_kernel), Counter(torch.by_kernel)
    more, fewer = ours - theirs, theirs - ours
    if more and fewer:
        return (
            "other-kernels",
            f"only under {NSYS}: {_top(more)}; only under {TORCH}: {_top(fewer)}",
        )
    if not more and not fewer:
        return None
    lack, missing = (TORCH, more) if more else (NSYS, fewer)
    unlinked = whole.torch_unlinked if more else whole.nsys_unlinked
    have = agree(unlinked, "has", "have")
    hint = f"; {unlinked} of its GPU ops {have} no launch record" if unlinked else ""
    return "missing-kernels", f"{lack} lacks {_top(missing)}{hint}"


def _counts_unexplained(nsys: Measures, torch: Measures, _: Whole) -> Reason:
    return (
        "unexplained",
        f"{plural(nsys.kernels, 'kernel')} under {NSYS} and {torch.kernels} under {TORCH}",
    )


def _first_instance_time(nsys: Measures, torch: Measures, _: Whole) -> Reason | None:
    if min(len(nsys.each), len(torch.each)) < 2:
        return None
    ours = sum(ns for _, ns in nsys.each[1:])
    theirs = sum(ns for _, ns in torch.each[1:])
    if _apart(ours, theirs) or not _apart(nsys.each[0][1], torch.each[0][1]):
        return None
    return (
        "warm-up",
        f"the first instance took {_us(nsys.each[0][1])} under {NSYS} and"
        f" {_us(torch.each[0][1])} under {TORCH};"
        f" {_others(min(len(nsys.each), len(torch.each)) - 1)}"
        + (f" ({theirs / ours:.3f})" if ours else ""),
    )


def _clock(nsys: Measures, torch: Measures, whole: Whole) -> Reason | None:
    if whole.scale is None or nsys.by_kernel != torch.by_kernel or not nsys.total_kernel_ns:
        return None
    if abs(torch.total_kernel_ns / nsys.total_kernel_ns / whole.scale - 1) > SCALE_SPREAD:
        return None
    return (
        "clock-drift",
        f"all ranges took {whole.scale:.3f} times as long under {TORCH}, with the same kernels:"
        " the GPU's clock differed between the two executions",
    )


def _copies_time(nsys: Measures, torch: Measures, _: Whole) -> Reason | None:
    if _apart(nsys.total_kernel_ns, torch.total_kernel_ns):
        return None
    return "copies", "kernel times agree; memory copies or sets took different times"


def _short(nsys: Measures, torch: Measures, _: Whole) -> Reason | None:
    ops = nsys.kernels + nsys.memcpys + nsys.memsets + nsys.graph_launches
    if not ops or abs(nsys.total_gpu_ns - torch.total_gpu_ns) / ops > SHORT_NS:
        return None
    return (
        "short-ops",
        f"GPU ops of {_us(nsys.total_gpu_ns // ops)} on average: the times differ by less than"
        f" {SHORT_NS} ns an op",
    )


def _within_spread(nsys: Measures, torch: Measures, _: Whole) -> Reason | None:
    """The instances of one recording differ so much that the two means could be one (Welch)."""
    from harness.comparison.distributions import t_quantile

    samples = [[ns for _, ns in m.each] for m in (nsys, torch)]
    if min(map(len, samples)) < SPREAD_INSTANCES:
        return None
    ours, theirs = map(fmean, samples)
    parts = [variance(times) / len(times) for times in samples]
    if not sum(parts):
        return None
    error = sum(parts) ** 0.5
    spread = sum(p**2 / (len(times) - 1) for p, times in zip(parts, samples, strict=True))
    if abs(ours - theirs) > t_quantile(CONFIDENCE, int(sum(parts) ** 2 / spread)) * error:
        return None
    return (
        "within-spread",
        f"an instance took {_us(ours)} ± {_us(stdev(samples[0]))} under {NSYS} and"
        f" {_us(theirs)} ± {_us(stdev(samples[1]))} under {TORCH} (mean and standard deviation of"
        f" {len(samples[0])} and {len(samples[1])}): a difference of {_us(abs(ours - theirs))} may"
        f" be chance (standard error {_us(error)})",
    )


def _others(number: int) -> str:
    return "the other one agrees" if number == 1 else f"the other {number} agree"


def _varies(nsys: Measures, torch: Measures, _: Whole) -> Reason:
    spreads = [_spread(m) for m in (nsys, torch) if len(m.each) > 2]
    within = f"; instances vary by {100 * max(spreads):.1f} % within one" if spreads else ""
    return "varies", f"same counts, different times in the two executions{within}"


def _spread(m: Measures) -> float:
    times = [ns for _, ns in m.each]
    middle = median(times)
    return median(abs(ns - middle) for ns in times) / middle if middle else 0.0


Check = Callable[[Measures, Measures, Whole], Reason | None]
_COUNT_CHECKS: tuple[Check, ...] = (
    _graph_replay,  # before no-kernels: a program may run nothing but graphs
    _nothing_recorded,
    _other_instances,
    _autograd_thread,
    _first_instance_counts,
    _copies,
    _other_kernels,
    _counts_unexplained,
)
_TIME_CHECKS: tuple[Check, ...] = (
    _clock,
    _first_instance_time,
    _other_kernels,
    _within_spread,
    _short,
    _copies_time,
    _varies,
)


def _us(ns: float) -> str:
    return f"{ns / 1000:.1f} µs" if ns >= 10_000 else f"{ns / 1000:.2f} µs"


def _top(kernels: Counter[str], limit: int = 2) -> str:
    shown = [f"{count} x {name[:60]}" for name, count in kernels.most_common(limit)]
    rest = sum(kernels.values()) - sum(count for _, count in kernels.most_common(limit))
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
