# SPDX-License-Identifier: MIT
"""docs/h200.md: every figure on it is computed here from what was recorded."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from campaign_costs import overhead
from campaign_evidence import Evidence, Recorded, Timing, compare, distinct, kernels
from campaign_extract import extracts
from campaign_markdown import (
    MISSING,
    TO,
    duration,
    escaped,
    in_its_words,
    names,
    percent,
    recorded,
    rows_of,
    shape,
    table,
)  # fmt: skip
from campaign_model import kernel_by_kernel, model, rates
from campaign_public import WANTED
from campaign_trainings import trainings

from harness import disagreement, summarise
from harness.launch.rundir import list_runs
from harness.render.text import printable_path

if TYPE_CHECKING:
    from harness.comparison import Comparison, Row

#: How far apart the two profilers may be before the page names the range.
AGREE = disagreement.TOLERANCE
SPELLINGS = ("eager", "fused", "compiled")
INTRODUCTION = """\
# What the H200 says

Made by `scripts/h200-page` from the recorded runs in `reports/` and the figures in
`docs/notes/data/`; no figure is typed by hand, and a test fails when the page is not what the data
say. To record it anew: `scripts/record-campaign` and `benchmarks/fused_chain.py`, on a machine with
one GPU and nsys."""


def read(root: Path) -> Evidence:
    """What the repository at ``root`` holds. Only runs on a GPU count."""
    runs = [Recorded(run) for run in list_runs(root / "reports") if run.complete and run.gpu]
    data = root / "docs" / "notes" / "data"
    return Evidence(
        tuple(sorted(runs, key=lambda one: one.name)),
        tuple(extracts(data / "extracts")),
        _json(data / "fused_chain_h200.json"),
        _json(data / "overhead_h200.json"),
    )


def _json(file: Path) -> dict[str, Any] | None:
    if not file.is_file():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def page(root: Path) -> str:
    """The whole page for the repository at ``root``; sections without data are left out."""
    evidence = read(root)
    sections = (
        machine,
        fused,
        model,
        kernel_by_kernel,
        spellings,
        precisions,
        agreement,
        trainings,
        others,
        overhead,
    )
    parts = [INTRODUCTION, *filter(None, (section(evidence) for section in sections))]
    return "\n\n".join(parts) + "\n"


def machine(evidence: Evidence) -> str:
    runs = evidence.runs
    rows = [
        ("GPU", distinct(gpu.get("name") for one in runs for gpu in one.run.gpu)),
        ("driver", distinct(gpu.get("driver") for one in runs for gpu in one.run.gpu)),
        *((key, distinct(one.run.versions.get(key) for one in runs))
          for key in ("torch", "cuda", "python", "nsys")),
        ("CPU", distinct(one.run.host.get("cpu") for one in runs)),
        ("runs", [str(len(runs))]),
        ("captures under nsys", [str(sum(len(one.run.captures()) for one in runs))]),
        ("runs kept as extracts", [str(len(evidence.extracts))]),
    ]  # fmt: skip
    return "## The machine\n\n" + table(("", ""), [(k, ", ".join(v)) for k, v in rows], 2)


def fused(evidence: Evidence) -> str:
    """The fused kernel's three ratios, at the shapes of one row length."""
    if evidence.fused is None:
        return ""
    cases = [_measured(case) for case in evidence.fused["cases"]]
    plain = [c for c in cases if (c["dtype"], c["offset"]) == ("fp32", 0)]
    five = [c for c in plain if c["shape"].endswith("x1024")]
    rows = [
        (
            c["shape"],
            f"{c['tensor_bytes'] / 2**20:.0f}",
            f"{c['copy']:.0f}",
            f"{c['fused']:.0f}",
            *(f"{c[key]:.3f}" for key in ("fused_to_copy", "compiled_to_fused", "eager_to_fused")),
        )
        for c in five
    ]
    worst = {
        key: min(cases, key=lambda c: c[key]) for key in ("fused_to_copy", "compiled_to_fused")
    }

    def where(key: str) -> str:
        case = worst[key]
        views = " on unaligned views" if case["offset"] else ""
        return f"{case[key]:.3f} ({case['shape']} {case['dtype']}{views})"

    return "\n\n".join([
        "## The fused operator",
        "`python benchmarks/fused_chain.py --json docs/notes/data/fused_chain_h200.json`; fp32, "
        "medians of CUDA events. GB/s by the byte model: the bytes that have to be read and "
        "written once, over the time. A copy moves 2 tensors, the operator in one kernel (fused, "
        "compiled) 3, eager, in five kernels, 11. The first ratio is of bandwidths, above 1 where "
        "the operator is the better; the two others are of times, above 1 where fused is the "
        "quicker.",
        table(("shape", "MiB a tensor", "copy GB/s", "fused GB/s", "bandwidth ÷ copy's",
               "compiled's time ÷ fused", "eager's time ÷ fused"), rows),
        f"Over all {len(cases)} cases measured (odd sizes, unaligned views, bf16 and fp16 "
        f"included) the least bandwidth in copies is {where('fused_to_copy')}, the least gain over "
        f"torch.compile {where('compiled_to_fused')}.",
    ])  # fmt: skip


def _measured(case: dict[str, Any]) -> dict[str, Any]:
    """A case with its bandwidths and ratios as its times and bytes give them."""
    rate, ns = rates(case), case["ns"]
    return {
        **case,
        "copy": rate["copy"],
        "fused": rate["fused"],
        "fused_to_copy": rate["fused"] / rate["copy"],
        "compiled_to_fused": ns["compiled"] / ns["fused"],
        "eager_to_fused": ns["eager"] / ns["fused"],
    }


def spellings(evidence: Evidence) -> str:
    """Per shape and precision: gemm, and each spelling's chain and block."""
    runs = [one for one in evidence.best if ("eager-block", "chain") in one.timings]
    if not runs:
        return ""
    rows = []
    for one in runs:
        found = one.timings
        rows.append((
            shape(one), one.math, str(len(one.samples)), _cell(found.get(("eager-block", "gemm"))),
            *(_cell(found.get((f"{s}-block", "chain"))) for s in SPELLINGS),
            *(_cell(found.get((f"{s}-block",))) for s in SPELLINGS),
            _between(one),
        ))  # fmt: skip
    return "\n\n".join([
        "## Eager, fused, compiled",
        "GPU time of one instance of each range: the median of the captures' medians. Spread: the "
        "largest difference between two captures' medians, of all these ranges, as a share of the "
        "median. A capture is one execution under nsys; an instance is one passage of a range.",
        table(("shape", "", "captures", "gemm", *(f"{s} chain" for s in SPELLINGS),
               *(f"{s} block" for s in SPELLINGS), "spread"), rows, 2),
        *_compiled_quicker(runs),
        recorded(runs, "`harness report reports/NAME`"),
        *_extracted(evidence),
    ])  # fmt: skip


def _extracted(evidence: Evidence) -> list[str]:
    runs = [one for one in evidence.extracts if one.run.workload]
    if not runs:
        return []
    return [
        f"Of {names(runs)}, each close to 3 MB, the repository keeps no recording but "
        "`docs/notes/data/extracts/NAME.json`, written by `scripts/extract-run`: the GPU time of "
        "every instance, and what `harness compare` said."
    ]


def _compiled_quicker(runs: list[Recorded]) -> list[str]:
    """Where torch.compile's kernel took less time than the fused one: it is said, not left to
    be found in the table."""
    said, number = [], 0
    for one in runs:
        quick, compiled = (one.timings.get((f"{s}-block", "chain")) for s in ("fused", "compiled"))
        if quick is None or compiled is None:
            continue
        number += 1
        if compiled.ns < quick.ns:
            said.append(
                f"{shape(one)} {one.math} ({compiled.ns / quick.ns:.3f} of its time; between "
                f"captures the two spread by {percent(compiled.spread, 2)} and "
                f"{percent(quick.spread, 2)})"
            )
    if not said:
        return []
    return [
        f"In {len(said)} of {number} of these the compiled chain took less time than the fused "
        f"one: {', '.join(said)}."
    ]


def _between(one: Recorded) -> str:
    """The largest spread between captures, of the blocks' ranges."""
    if len(one.samples) < 2:
        return MISSING
    found = one.timings.items()
    return percent(max(t.spread for path, t in found if path[0].endswith("-block")), 2)


def _cell(timing: Timing | None) -> str:
    return duration(timing.ns) if timing is not None else MISSING


def precisions(evidence: Evidence) -> str:
    """fp32 against TF32 and bf16: compare's table, and its own sentence."""
    pairs = evidence.pairs()
    if not pairs:
        return ""
    rows, sentences, any_forced = [], [], False
    for base, new in pairs:
        found = compare(base, new)
        any_forced |= found.forced
        rows.append((shape(base), f"{base.math} → {new.math}",
                     *(_verdict(found, f"{s}-block") for s in SPELLINGS)))  # fmt: skip
        sentences.append(in_its_words(f"reports/{base.name}", f"reports/{new.name}", found))
    return "\n\n".join([
        "## fp32, TF32, bf16",
        "The new time over the base's, with the 95 % interval, for each block.",
        table(("shape", "", *(f"{s} block" for s in SPELLINGS)), rows, 2),
        "In compare's own words"
        + (" (`--force`: what differs is what is asked about, or follows from it):"
           if any_forced else ":"),
        *sentences,
    ])  # fmt: skip


def _verdict(comparison: Comparison, name: str) -> str:
    row: Row | None = next((r for r in comparison.items if r.path == (name,)), None)
    if row is None or row.ratio is None:
        return MISSING
    ends = [row.ci_low, row.ci_high]
    known = [end for end in ends if end is not None and math.isfinite(end)]
    interval = f" ({known[0]:.3f}{TO}{known[1]:.3f})" if len(known) == 2 else ""
    return f"{row.ratio:.3f}{interval} {row.verdict}"


def agreement(evidence: Evidence) -> str:
    """nsys and torch.profiler, range by range; every exception with its reason."""
    runs = [one for one in evidence.runs if one.both]
    if not runs:
        return ""
    rows, exceptions = [], []
    for one in runs:
        sides = rows_of(one.sides)
        shared = [row for row in sides if not _alone(row)]
        (n_nsys, _), (n_torch, _) = kernels(one.captures[0]), kernels(one.torch)
        rows.append((f"`{one.name}`", *(str(n) for n in (
            len(shared), sum(map(_equal, shared)), sum(map(_near, shared)),
            len(sides) - len(shared), n_nsys, n_torch,
        ))))  # fmt: skip
        odd = [row for row in sides if not (_equal(row) and _near(row))]
        exceptions += _exceptions(one, odd, evidence.repeated(one))
    parts = [
        "## Do the two profilers agree?",
        "Two executions of one program, joined by range path. Equal: as many kernels in both. "
        f"Near: GPU times within {percent(AGREE, 0)}. The last two columns are whole recordings.",
        table(("run", "ranges in both", "equal", "near", "in one only", "kernels nsys",
               "kernels torch"), rows),
    ]  # fmt: skip
    if exceptions:
        parts += [
            "Every exception, with the reason and its code as `--view both` gives them. Ranges "
            "that only one of them has are counted:",
            table(("run", "range", "kernels", "times torch ÷ nsys", "why"), exceptions, 5),
        ]
    else:
        parts.append("There is no exception.")
    return "\n\n".join([*parts, recorded(runs, "`harness report reports/NAME --view both`")])


def _exceptions(one: Recorded, odd: list[Any], repeated: Recorded | None) -> list[tuple[str, ...]]:
    """A row a range that both have; one row for all that lack in one of them for one reason."""
    found = [_exception(one, row, repeated) for row in odd if not _alone(row)]
    groups: dict[tuple[str, str], list[Any]] = {}
    for row in filter(_alone, odd):
        groups.setdefault((row.reason, row.code), []).append(row)
    for (reason, code), rows in groups.items():
        first = f"`{printable_path(rows[0].path)}`"
        label = first if len(rows) == 1 else f"{len(rows)} ranges, such as {first}"
        found.append((f"`{one.name}`", escaped(label), MISSING, MISSING, _why(reason, code)))
    return found


def _alone(row: Any) -> bool:
    """Whether only one of the two recordings has the range."""
    return _number(row.nsys_kernels) is None or _number(row.torch_kernels) is None


def _equal(row: Any) -> bool:
    return bool(_number(row.nsys_kernels) == _number(row.torch_kernels) is not None)


def _near(row: Any) -> bool:
    if not _number(row.nsys_total_ns) and not _number(row.torch_total_ns):
        return _number(row.nsys_total_ns) is not None and _number(row.torch_total_ns) is not None
    return bool(not pd.isna(row.ratio) and abs(row.ratio - 1) <= AGREE)


def _number(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def _exception(one: Recorded, row: Any, repeated: Recorded | None) -> tuple[str, ...]:
    counts = f"{_number(row.nsys_kernels)} / {_number(row.torch_kernels)}"
    ratio = MISSING if pd.isna(row.ratio) else f"{row.ratio:.3f}"
    name = escaped(f"`{printable_path(row.path)}`")
    alone = repeated.timings.get(tuple(row.path)) if repeated is not None else None
    also = ""
    if alone is not None and repeated is not None:
        also = (
            f"; of {len(repeated.samples)} captures by nsys alone (`{repeated.name}`) the medians "
            f"spread by {percent(alone.spread)}"
        )
        if not pd.isna(row.ratio) and abs(row.ratio - 1) > alone.spread:
            also += ", less than this difference: what causes it is not known"
    return f"`{one.name}`", name, counts, ratio, _why(row.reason, row.code) + also


def _why(reason: str, code: str) -> str:
    return escaped(f"{reason} [{code}]")


def _carried(program: str) -> str:
    """The path below site-packages of a script that the campaign took from a package."""
    return next((path for path in WANTED if path.split("/")[-1] == program), program)


def others(evidence: Evidence) -> str:
    """Public scripts, run unchanged: where their GPU time went."""
    named = ("workload", "train_transformer.py", "train_ddp.py", "scenarios.py")
    runs = [one for one in evidence.runs if one.program not in named]
    if not runs:
        return ""
    parts = ["## A public script, unchanged"]
    for one in runs:
        ledger = one.captures[0].ledger
        top = summarise.kernels(one.captures[0]).groupby("kernel", observed=True)
        sums = top[["kernels", "total_ns"]].sum().sort_values("total_ns", ascending=False)
        rows = [(f"`{escaped(str(r.Index)[:80])}`", str(r.kernels), duration(r.total_ns))
                for r in rows_of(sums.head(5))]  # fmt: skip
        parts += [
            f"`{_carried(one.program)}` as the installed package carries it: "
            f"{ledger.gpu_ops} GPU ops, {duration(ledger.gpu_ns)}; "
            f"{percent(ledger.attributed_ns / max(ledger.gpu_ns, 1))} inside ranges, "
            f"{percent(ledger.outside_ns / max(ledger.gpu_ns, 1))} outside, "
            f"{percent(ledger.unlinked_ns / max(ledger.gpu_ns, 1))} unlinked.",
            table(("kernel", "executions", "GPU time"), rows),
        ]
    return "\n\n".join([*parts, recorded(runs, "`harness report reports/NAME`")])
