# SPDX-License-Identifier: MIT
"""Reasons from kernels, names short enough to read, and the sentence on top."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.comparison.explain import blame_nested, explain, summarise
from harness.comparison.kernel_names import listed, short, telling_word
from harness.comparison.result import Fact, Row
from harness.comparison.sides import Capture, KernelUse, Key, Side
from harness.trace import Source

KEY = Key(("step",), "", "push_pop")


def side(uses: dict[str, tuple[float, float]], *, idle: float = 0.0, instances: int = 10) -> Side:
    kernels = {name: KernelUse(count, ns) for name, (count, ns) in uses.items()}
    values = {KEY: np.full(instances, 1000.0)}
    source = Source("x", "nsys")
    return Side("x", "x", (Capture(values, {KEY: kernels}, {KEY: idle}, source),))


def why(old: Side, new: Side) -> tuple[str, ...]:
    """With medians that change as the kernels' times do."""
    before, after = (sum(use.ns for use in s.kernel_use(KEY).values()) for s in (old, new))
    return explain(KEY, old, new, 1000.0, 1000.0 + after - before)


def test_replaced_kernels() -> None:
    told = why(side({"ampere_sgemm_128x64_tn": (1, 900.0)}), side({"gemm_tf32_128": (1, 400.0)}))
    assert told == ("now runs tf32 kernels (gemm_tf32_128 instead of ampere_sgemm_128x64_tn)",)


def test_another_instantiation_of_the_same_kernel() -> None:
    told = why(side({"void k<4>(int)": (1, 9.0)}), side({"void k<8>(int)": (1, 8.0)}))
    assert told == ("now runs other instantiations of k",)


def test_launches_added() -> None:
    told = why(side({"a": (1, 9.0)}), side({"a": (3, 27.0)}))
    assert told == ("runs more kernels an instance (1 \u2192 3)",)
    told = why(side({"a": (1, 9.0), "b": (1, 1.0)}), side({"a": (1, 9.0)}))
    assert told == ("no longer runs b", "runs fewer kernels an instance (2 \u2192 1)")


def test_same_kernels() -> None:
    base = side({"a": (1, 100.0), "b": (1, 200.0)})
    assert why(base, side({"a": (1, 110.0), "b": (1, 220.0)})) == (
        "runs the same kernels, all slower alike",
    )
    assert why(base, side({"a": (1, 100.0), "b": (1, 150.0)})) == (
        "runs the same kernels, b 1.33\u00d7 faster",
    )
    assert why(side({"a": (1, 100.0)}), side({"a": (1, 130.0)})) == (
        "runs the same kernel, slower",
    )


def test_one_slow_instance_does_not_turn_the_words_over() -> None:
    """The medians say 50 ns slower; the base's means hold one instance of a hundredfold time."""
    base, new = side({"a": (1, 9000.0), "b": (1, 200.0)}), side({"a": (1, 150.0), "b": (1, 200.0)})
    assert explain(KEY, base, new, 1000.0, 1050.0) == ("runs the same kernels, slower",)
    assert explain(KEY, new, base, 1050.0, 1000.0) == ("runs the same kernels, faster",)
    only = side({"a": (1, 9000.0)}), side({"a": (1, 150.0)})
    assert explain(KEY, *only, 1000.0, 1050.0) == ("runs the same kernel, slower",)


def test_idle_and_instances() -> None:
    told = why(side({"a": (1, 10.0)}), side({"a": (1, 10.0)}, idle=50_000.0, instances=12))
    assert told == (
        "has more idle between its GPU ops (0.0 \u00b5s \u2192 50.0 \u00b5s an instance)",
        "has 12 instances instead of 10",
    )


@pytest.mark.parametrize(
    ("demangled", "wanted"),
    [
        ("sm80_xmma_gemm_f32f32", "sm80_xmma_gemm_f32f32"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm>(T1::Params)", "cutlass_80_simt_sgemm"),
        (
            "void at::native::vectorized_elementwise_kernel<(int)4,"
            " at::native::CUDAFunctor_add<float>, std::array<char *, (unsigned long)3>>(int, T2)",
            "CUDAFunctor_add (vectorized_elementwise_kernel)",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::AUnaryFunctor<"
            "float, float, float, at::native::binary_internal::MulFunctor<float>>>(int, T2, T3)",
            "MulFunctor (vectorized_elementwise_kernel)",
        ),
    ],
)
def test_short_names(demangled: str, wanted: str) -> None:
    assert short(demangled) == wanted


def test_long_names_are_cut_and_many_counted() -> None:
    assert short("x" * 200) == "x" * 47 + "\u2026"
    assert listed(["a", "b", "c", "a"]) == "a, b and 1 more"


def test_telling_word_is_in_every_new_name_and_in_no_old_one() -> None:
    assert telling_word(["gemm_tf32_a", "b_TF32"], ["sgemm"]) == "tf32"
    assert telling_word(["gemm_tf32_a", "b"], ["sgemm"]) == ""
    assert telling_word(["gemm_tf32_a"], ["gemm_tf32_b"]) == ""
    assert telling_word(["cutlass_80_tensorop_s1688gemm"], ["simt_sgemm"]) == "tensor-core"


def row(path: str, verdict: str, ratio: float | None = 1.0, change: int = 0, **more: Any) -> Row:
    names = tuple(path.split("/"))
    new_ns, style = 1000 + change // 10, "push_pop"
    made = Row(
        names, "", names[-1], 1000, new_ns, ratio, 0.9, 1.1, 0.01, 3, 3, verdict, "", style, "",
        "capture", 0.01, 0.1, 10, 10, change,
    )  # fmt: skip
    return replace(made, **more)


def test_sentence_without_change() -> None:
    rows = [row("a", "same"), row("b", "unsure"), row("c", "same")]
    assert summarise(rows, 0.01, ()) == "no change found: 2 of 3 the same within \u00b11%; 1 unsure"


def test_sentence_starts_at_the_outermost_changed_range_and_blames_the_deepest() -> None:
    rows = [
        row("a", "faster", 0.5, -90, ci_low=0.49, ci_high=0.51),
        row("a/b", "faster", 0.5, -80),
        row("a/b/c", "faster", 0.4, -80, explanation=("now runs triton kernels",)),
        row("a/d", "same"),
        row("e", "slower", 1.2, 10, ci_low=1.15, ci_high=1.25, explanation=("runs more",)),
    ]
    assert summarise(rows, 0.01, ()) == (
        "a 2.00\u00d7 faster (1.96\u20132.04): c now runs triton kernels; d unchanged;"
        " e 1.20\u00d7 slower (1.15\u20131.25): runs more"
    )


def test_a_change_too_small_for_the_parent_is_named_by_itself() -> None:
    rows = [
        row("a", "same"),
        row("a/b", "slower", 1.012, 10, ci_low=1.008, ci_high=1.016),
        row("a/c", "same"),
    ]
    assert summarise(rows, 0.01, ()) == "b (in a) 1.2% slower (0.8\u20131.6%): c unchanged"


def test_sentence_of_incomparable_runs() -> None:
    fact = Fact("GPU", "H100", "H200", True)
    assert summarise([row("a", "unsure")], 0.01, [fact]) == (
        "not comparable, no verdicts: GPU (H100 \u2192 H200) differs"
    )


def test_blame_goes_to_the_nested_range_that_holds_most_of_the_change() -> None:
    rows = [
        row("a", "slower", 1.1, 100),
        row("a/b", "slower", 1.3, 90),
        row("a/c", "slower", 1.1, 10),
    ]
    told = blame_nested(rows)
    assert told[0].explanation == ("90% of the change is in b",)
    assert told[1].explanation == ()
    # Half as many instances: less in all, and still slower each time, by what b is.
    fewer = [
        replace(r, new_instances=5, change_ns=5 * (r.new_ns or 0) - 10 * (r.base_ns or 0))
        for r in rows
    ]
    assert blame_nested(fewer)[0].explanation == ("90% of the change is in b",)
    # A nested range that moved the other way explains nothing.
    assert blame_nested([rows[0], row("a/b", "faster", 0.7, -90)])[0].explanation == ()


def test_more_instances_are_told_although_each_costs_the_same() -> None:
    rows = [row("a", "same", base_instances=10, new_instances=20), row("b", "same")]
    assert summarise(rows, 0.01, ()).endswith("; a has 20 instances instead of 10")
