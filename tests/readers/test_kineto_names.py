# SPDX-License-Identifier: MIT
"""Short kernel names, against nsys' own shortName of every recorded kernel."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from harness.names import short_kernel_name
from harness.readers import load

DATA = Path(__file__).parent.parent / "data"
PUBLIC = Path(
    os.environ.get("HARNESS_PUBLIC_DATA", Path(__file__).parents[3] / "shared/data/public")
)

PAIRS = """
    SELECT DISTINCT short.value, demangled.value FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel
    JOIN StringIds AS short ON short.id = kernel.shortName
    JOIN StringIds AS demangled ON demangled.id = kernel.demangledName
"""


def recorded_pairs(folder: Path) -> set[tuple[str, str]]:
    pairs: set[tuple[str, str]] = set()
    for path in sorted(folder.glob("**/*.sqlite")):
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
            if {"CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"} <= tables:
                pairs.update(db.execute(PAIRS))
    return pairs


@pytest.mark.parametrize("folder", [DATA, PUBLIC], ids=["recorded here", "public"])
def test_short_names_are_those_nsys_stores(folder: Path) -> None:
    pairs = recorded_pairs(folder)
    if not pairs:
        pytest.skip(f"no reports with kernels in {folder}")
    assert len(pairs) > 20
    wrong = {d: (short_kernel_name(d), s) for s, d in pairs if short_kernel_name(d) != s}
    # nsys stores the same name for every kernel that CUTLASS wraps.
    assert {s for d, (_, s) in wrong.items() if d.startswith("void cutlass::")} <= {"Kernel2"}
    assert {d: w for d, w in wrong.items() if not d.startswith("void cutlass::Kernel2<")} == {}


def test_both_profilers_tell_the_kernels_that_cutlass_wraps_apart() -> None:
    """Three in the recorded training loop; nsys stores ``Kernel2`` for each."""
    kernels = {"cutlass_80_simt_sgemm_128x256_8x4_nt_align1"}
    kernels |= {f"cutlass_80_simt_sgemm_256x128_8x4_{way}_align1" for way in ("nn", "nt")}
    counts = []
    for name in ("report.sqlite", "torch_trace.json.gz"):
        ops = load(DATA / "recorded" / "train" / name).gpu_ops
        found = ops["name"][ops["name"].isin(kernels)]
        counts.append(found.astype(str).value_counts().to_dict())
        assert "Kernel2" not in set(ops["name"])
        assert set(found) == kernels
    # By SQL: 26, 24 and 12 (nvtx_kern_sum.csv beside the report says so too).
    assert sorted(counts[0].values()) == [12, 24, 26]
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("demangled", "short"),
    [
        ("triton_poi_fused_add_cos_sin_0", "triton_poi_fused_add_cos_sin_0"),
        ("nvjet_tst_64x16_2cta_h_bz_bias_TNT", "nvjet_tst_64x16_2cta_h_bz_bias_TNT"),
        ("ncclDevKernel_AllGather_RING(ncclStorage<4096ul>)", "ncclDevKernel_AllGather_RING"),
        # CUPTI's spelling and nsys' of the same kernel.
        ("void at::native::(anonymous namespace)::k<float, 4>(float const*)", "k"),
        ("void at::native::<unnamed>::k<float, (int)4>(const float *)", "k"),
        ("void (anonymous namespace)::softmax<float, 10, true>(float*)", "softmax"),
        # A lambda's own name says nothing: the function that holds it does.
        ("void f::launch(int)::{lambda(int)#1}::operator()(int) const", "launch"),
        ("f::launch(A *) const::[lambda(float) (instance 1)]::operator ()(float) const", "launch"),
        # CUTLASS wraps: what is wrapped says which kernel it is.
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_nt>(T1::Params)", "cutlass_80_simt_sgemm_nt"),
        ("void cutlass::Kernel<cutlass::gemm::Gemm<float, (int)4>, X>(T1::Params)", "Gemm"),
        (
            "void cutlass::device_kernel<at::enable_3x_for_sm9x<g::Universal<A, B>>>(T1)",
            "Universal",
        ),
        ("void cutlass::device_kernel<flash::enable_sm90<flash::Fwd<(int)2>>>(T1)", "Fwd"),
        ("void cutlass::Kernel2<(int)4>(int)", "Kernel2"),
        ("void cutlass::Kernel2<", "Kernel2"),
        ("void mine::Kernel2<foo>(int)", "Kernel2"),
        # Return types that are templates, comparisons and arrows among the arguments.
        ("std::enable_if<(((8)>(0)))&&v::T<c10::B>::exists, void>::type v::norm<8>(int)", "norm"),
        ("void k<decltype(a()->b), (4<8)>(int)", "k"),
        ("void k<A::operator()(int) const::{lambda()#1}, 2>(A)", "k"),
        ("unsigned long long ns::count(int)", "count"),
        ("bool ns::operator<(ns::T, ns::T)", "operator<"),
        ("k", "k"),
        ("", ""),
        ("(((", "((("),
        ("a<b", "a"),
    ],
)
def test_short_names_of_signatures(demangled: str, short: str) -> None:
    assert short_kernel_name(demangled) == short
