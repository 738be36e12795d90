# SPDX-License-Identifier: MIT
"""A report: the rows of one view, with the ledger and what a reader needs to trust them.

Pure: Traces in, a Report out. Reports are small and can be sent between processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from harness import summarise
from harness.attribute import RULES
from harness.errors import UsageProblem
from harness.selection import Selection
from harness.trace import Warning_

if TYPE_CHECKING:
    from harness.attribute import Attribution, Ledger
    from harness.launch.rundir import Run
    from harness.trace import Source, Trace

#: Views of one recording; ``torch`` and ``both`` need a run folder.
VIEWS = (
    "ranges", "names", "kernels", "ops", "instances", "layers", "latency",
    "communication", "torch", "both",
)  # fmt: skip
#: How many unattributed kernels the page names.
TOP_OUTSIDE = 5
#: … and how many where no range claims any.
TOP_ALL = 20
#: A first instance this many times the median of the rest is pointed out as warm-up.
WARM_UP_FACTOR = 2.0
#: And its excess must be this much, and this share of all the path's instances together.
WARM_UP_NS = 10_000
WARM_UP_SHARE = 0.05


@dataclass(frozen=True)
class Request:
    """What to report. ``details`` adds what people read: outside work, warm-up, both passes.

    ``memory`` is a budget in bytes, 0 for none."""

    view: str = "ranges"
    policy: str = "autograd"
    names: str = "short"
    selection: Selection = field(default_factory=Selection)
    sort: str = ""
    top: int = 0
    by_shape: bool = False
    details: bool = True
    memory: int = 0


@dataclass(frozen=True)
class Outside:
    """GPU ops of one name that no range claims; ``rule`` is ``outside`` or ``unlinked``."""

    rule: str
    kind: str
    name: str
    ops: int
    total_ns: int
    threads: tuple[str, ...]  # "pid/tid", with the thread's name where recorded


@dataclass(frozen=True)
class WarmUp:
    """A path whose first instance took far longer than the others' median."""

    path: tuple[str, ...]
    measure: str  # "GPU" | "CPU"
    first_ns: int
    median_ns: int


@dataclass(frozen=True)
class Report:
    """Rows of one view of one recording.

    ``rows`` has the view's columns (docs/columns.md); ``omitted`` rows were cut by ``--top``.
    ``sides`` is the join of a run's two recordings (``harness.sidebyside``), one row a path.
    ``run`` is the run folder's ``run.json``.
    """

    name: str
    source: Source
    view: str
    policy: str
    rows: pd.DataFrame
    ledger: Ledger | None
    warnings: tuple[Warning_, ...] = ()
    sort: str = ""
    omitted: int = 0
    outside: tuple[Outside, ...] = ()
    warm_up: tuple[WarmUp, ...] = ()
    sides: pd.DataFrame | None = None
    run: Run | None = None
    selection: Selection = field(default_factory=Selection)


@dataclass(frozen=True)
class Failure:
    """An input that could not be reported."""

    name: str
    path: str
    message: str
    hint: str
    exit_code: int

    def as_dict(self) -> dict[str, str]:
        return {"path": self.path, "message": self.message, "hint": self.hint}


#: What each ``--names`` calls a column of GPU ops.
_NAMES = {"short": "name", "demangled": "demangled", "mangled": "mangled"}


def unread(request: Request) -> frozenset[str]:
    """Columns of GPU ops that a report as asked does not use: a reader may leave them out."""
    if request.view == "ops":
        return frozenset()
    used = {_NAMES[request.names]} if request.view == "kernels" or request.details else set()
    if request.view == "communication":
        used |= {"name"}
    if request.selection.kernel is not None:
        used |= {"name", "demangled"}
    return frozenset({"context", "stream", "bytes", "graph_node", *_NAMES.values()} - used)


def build(
    trace: Trace,
    request: Request,
    *,
    name: str,
    other: Trace | None = None,
    before_torch: frozenset[str] = frozenset(),
) -> Report:
    """The report of ``trace``; ``other`` is the torch pass's trace of the same run, which could
    not see the ranges named ``before_torch``.

    Raises:
        UsageProblem: the view needs a run folder, or ``sort`` names no column.
        LedgerBroken: from the engine; never a wrong table instead.
    """
    from harness.measures.communication import nothing_said
    from harness.measures.layers import backward_unseen
    from harness.sidebyside import join

    attribution = _attributed(trace, request)
    sides = None
    notes: list[Warning_] = []
    if other is not None and (request.details or request.view == "both"):
        apart = one_sided_filters(request.selection)
        if apart and request.view == "both":
            raise UsageProblem(
                f"{', '.join(apart)} cannot select in both passes: {_APART}",
                hint="Leave out --view both, or that filter.",
            )
        if apart:
            without = f"no torch.profiler columns with {', '.join(apart)}: {_APART}"
            notes.append(Warning_("torch-left-out", without))
        else:
            sides = join(attribution, _attributed(other, request), before_torch=before_torch)
    notes += emptied(trace, attribution, request)
    if request.view == "communication" and request.details:
        notes += nothing_said(attribution)
    if request.view == "layers":
        notes += backward_unseen(attribution)
    rows, omitted = arrange(_rows(attribution, request, sides), request)
    details = request.details
    return Report(
        name=name,
        source=trace.source,
        view=request.view,
        policy=request.policy,
        rows=rows,
        ledger=attribution.ledger,
        warnings=tuple(dict.fromkeys([*notes, *attribution.warnings])),
        sort=request.sort,
        omitted=omitted,
        outside=outside_work(attribution, request.names) if details else (),
        warm_up=warm_up(attribution) if details else (),
        sides=sides,
        selection=request.selection,
    )


_APART = "process ids, clocks and domains of the two executions have nothing in common"


def one_sided_filters(selection: Selection) -> list[str]:
    """The filters in use that mean nothing in the recording of another pass."""
    used = {
        "--filter-time": selection.time is not None,
        "--pid": bool(selection.pids),
        "--domain": bool(selection.domains),
    }
    return [option for option, given in used.items() if given]


def emptied(trace: Trace, attribution: Attribution, request: Request) -> list[Warning_]:
    """A warning that names the filter which left nothing, if one did."""
    from harness.emptied import emptied_by, is_empty

    if not request.selection or not is_empty(attribution):
        return []
    found = emptied_by(trace, request.policy, request.selection)
    return [Warning_("nothing-selected", found.message, found.hint)] if found else []


def _attributed(trace: Trace, request: Request) -> Attribution:
    attribution = trace.attribute(policy=request.policy)
    if request.selection:
        from harness import select

        attribution = select.apply(attribution, request.selection)
    return attribution


def _rows(attribution: Attribution, request: Request, sides: pd.DataFrame | None) -> pd.DataFrame:
    view = request.view
    if view == "both":
        if sides is None:
            raise UsageProblem(
                f"{attribution.trace.source.path}: --view both needs a run folder with an nsys and"
                " a torch pass",
                hint="harness run --nsys records both.",
            )
        return sides
    if view in ("kernels", "ops"):
        frame: pd.DataFrame = getattr(summarise, view)(attribution, names=request.names)
        return frame
    if not hasattr(summarise, view):
        raise UsageProblem(f"no view {view!r}", hint=f"Views: {', '.join(VIEWS)}.")
    frame = getattr(summarise, view)(attribution)
    return frame


#: What ``--top`` ranks by when no ``--sort`` is given.
_WEIGHT = {
    "ranges": "total_gpu_ns",
    "names": "total_gpu_ns",
    "kernels": "total_ns",
    "instances": "total_gpu_ns",
    "layers": "total_ns",
    "latency": "busy_ns",
    "communication": "exposed_ns",
    "torch": "self_device_ns",
    "both": "nsys_total_ns",
    "spread": "max_ns",
}
_SHORT = {
    "self": ("self_gpu_ns", "self_device_ns"),
    "total": ("total_gpu_ns", "total_ns", "nsys_total_ns", "device_ns", "max_ns"),
    "busy": ("busy_ns",),
    "span": ("span_ns",),
    "cpu": ("cpu_ns",),
    "idle": ("idle_ns",),
    "start": ("start_ns",),
}


def arrange(rows: pd.DataFrame, request: Request) -> tuple[pd.DataFrame, int]:
    """``rows`` sorted and cut as asked, and how many were cut.

    ``--top`` without ``--sort`` keeps the order of the view: in a tree of ranges the N largest
    totals always hold the ancestors of each other.
    """
    if request.sort:
        column, ascending = sort_column(rows, request.sort)
        rows = rows.sort_values(column, ascending=ascending, kind="stable", ignore_index=True)
        kept = rows.head(request.top) if request.top else rows
    elif request.top and request.top < len(rows):
        weight = _weight(rows, request.view)
        largest = weight.nlargest(request.top, keep="first").index
        kept = rows.loc[sorted(largest)].reset_index(drop=True)
    else:
        kept = rows
    return kept, len(rows) - len(kept)


def _weight(rows: pd.DataFrame, view: str) -> pd.Series[Any]:
    if view == "ops":
        return rows["end_ns"] - rows["start_ns"]
    weight = rows[_WEIGHT[view]]
    if not weight.any() and "cpu_ns" in rows.columns:
        weight = rows["cpu_ns"]  # no GPU op was recorded
    return weight


def sort_column(rows: pd.DataFrame, wanted: str) -> tuple[str, bool]:
    """Column and direction of ``COLUMN[:asc|:desc]``: numbers fall, names rise, unless told."""
    name, _, direction = wanted.partition(":")
    column = next((c for c in (name, *_SHORT.get(name, ())) if c in rows.columns), None)
    if column is None or direction not in ("", "asc", "desc"):
        raise UsageProblem(
            f"cannot sort by {wanted!r}", hint=f"Columns of this view: {', '.join(rows.columns)}."
        )
    falls = rows[column].dtype.kind in "iufb"
    return column, not falls if not direction else direction == "asc"


def outside_work(attribution: Attribution, names: str) -> tuple[Outside, ...]:
    """The largest GPU ops by name that no range claims, and the threads that launched them."""
    kept = np.isin(attribution.rule, [RULES.index("outside"), RULES.index("unlinked")])
    if attribution.keep_op is not None:
        kept &= attribution.keep_op
    ops = attribution.trace.gpu_ops
    if not kept.any():
        return ()
    frame = pd.DataFrame(
        {
            "rule": attribution.rule[kept],
            "kind": ops["kind"][kept],
            "name": ops["name" if names == "short" else names][kept],
            "ns": attribution.duration[kept],
            "thread": attribution.launching_thread[kept],
        }
    )
    by = frame.groupby(["rule", "kind", "name"], observed=True, sort=False)
    sums = by.agg(ops=("ns", "size"), total=("ns", "sum"), threads=("thread", "unique"))
    top = TOP_OUTSIDE if attribution.ledger.attributed_ops else TOP_ALL
    largest = sums.sort_values("total", ascending=False, kind="stable").head(top)
    return tuple(
        Outside(
            RULES[rule],
            str(kind),
            str(name),
            int(count),
            int(total),
            tuple(thread_title(attribution.trace, row) for row in threads if row >= 0),
        )
        for (rule, kind, name), count, total, threads in largest.itertuples()
    )


def thread_title(trace: Trace, row: int) -> str:
    """``pid/tid``, and the thread's name where it was recorded."""
    pid, tid, name = trace.threads[["pid", "tid", "name"]].iloc[row]
    return f"{pid}/{tid} {name}".rstrip()


def warm_up(attribution: Attribution) -> tuple[WarmUp, ...]:
    """Paths whose first instance stands out against three or more closed instances, outermost
    only: GPU time where there is any, CPU time otherwise or where only that stands out."""
    instances = summarise.instances(attribution)
    instances = instances[~instances["open"].astype(bool)].sort_values("start_ns", kind="stable")
    by = [instances["process"], pd.factorize(instances["path"])[0]]
    found: dict[tuple[str, ...], WarmUp] = {}
    for measure, column in (("GPU", "total_gpu_ns"), ("CPU", "cpu_ns")):
        for path, first, median in _standing_out(instances, by, column):
            found.setdefault(path, WarmUp(path, measure, first, median))
    return tuple(
        warm
        for path, warm in found.items()
        if not any(path[:depth] in found for depth in range(1, len(path)))
    )


def _standing_out(
    instances: pd.DataFrame, by: list[Any], column: str
) -> list[tuple[tuple[str, ...], int, int]]:
    later = instances.groupby(by, sort=False).cumcount() > 0
    rest = instances[column].where(later).groupby(by, sort=False).agg(["median", "count", "sum"])
    first = instances[~later]
    first_ns = first[column].to_numpy()
    median = rest["median"].to_numpy()  # in order of first appearance, as ``first`` is
    excess = first_ns - median
    much = (first_ns > WARM_UP_FACTOR * median) & (median > 0) & (rest["count"].to_numpy() > 1)
    much &= (excess > WARM_UP_NS) & (excess > WARM_UP_SHARE * (first_ns + rest["sum"].to_numpy()))
    return [
        (tuple(path), int(ns), int(middle))
        for path, ns, middle in zip(first["path"][much], first_ns[much], median[much], strict=True)
    ]


TORCH_COLUMNS = (
    "name",
    "input_shapes",
    "count",
    "self_device_ns",
    "device_ns",
    "self_cpu_ns",
    "cpu_ns",
    "device",
    "annotation",
)


def torch_table(
    operators: list[Mapping[str, Any]], source: Source, request: Request, name: str
) -> Report:
    """torch.profiler's own table of a run, largest self device time first (CPU without a GPU)."""
    rows = pd.DataFrame(operators, columns=list(TORCH_COLUMNS))
    by = "self_device_ns" if rows["self_device_ns"].any() else "self_cpu_ns"
    rows = rows.sort_values(by, ascending=False, kind="stable", ignore_index=True)
    rows, omitted = arrange(rows, request)
    return Report(
        name=name,
        source=source,
        view="torch",
        policy=request.policy,
        rows=rows,
        ledger=None,
        sort=request.sort,
        omitted=omitted,
    )
