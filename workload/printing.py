# SPDX-License-Identifier: MIT
"""What ``python -m workload`` prints."""

from __future__ import annotations

from typing import Any

from workload import blocks, machine
from workload.blocks import Block, Setting
from workload.check import Check
from workload.timing import Timing


def show_setting(found: dict[str, Any], setting: Setting, dtype: str, tf32: bool) -> None:
    rows, dim = setting.shape
    print("\n".join(machine.lines(found)))
    print(
        f"{'shape':<10} {rows} x {dim} {dtype}{' with TF32' if tf32 else ''}, "
        f"{setting.tensor_bytes / machine.MIB:.2f} MiB a tensor"
    )
    if setting.extra_rows:
        print(f"{'planted':<10} {setting.extra_rows} more rows in fused-block's chain "
              f"(+{100 * setting.extra_rows / rows:.3f} %)")  # fmt: skip


def show_checks(checks: list[Check]) -> None:
    for one in checks:
        print(f"\n{one.name} against {one.reference} (rtol {one.rtol:g}, atol {one.atol:g})")
        print(f"  outside {one.outside} of {one.elements}, worst difference {one.worst:.3g}")
        if one.first_position is not None:
            print(f"  first at {one.first_position}: expected {one.first_expected:.9g}, "
                  f"got {one.first_actual:.9g}")  # fmt: skip
        print(f"  on the clamp: {one.at_low} low, {one.at_high} high")
        print(f"  from float64: {one.name} {one.worst_from_float64:.3g}, "
              f"eager {one.eager_worst_from_float64:.3g}")  # fmt: skip


def show_timings(timings: dict[str, Timing], setting: Setting, made: list[Block]) -> None:
    moved = {block.name.replace("-block", "-chain"): block.moves * block.elements for block in made}
    moved["copy"] = 2 * setting.shape[0] * setting.shape[1]
    print(f"\n{'median of ' + str(len(timings['copy'].samples)):<16} {'us':>10} {'GB/s':>8}")
    for name, one in timings.items():
        rate = ""
        if name in moved:
            rate = f"{moved[name] * setting.dtype.itemsize / max(one.median, 1):.0f}"
        print(f"{name:<16} {one.median / 1000:>10.1f} {rate:>8}".rstrip())


def show_model(model: dict[str, float], setting: Setting) -> None:
    print(
        f"\nbyte model: eager moves {blocks.EAGER_MOVES} values an element, fused "
        f"{blocks.FUSED_MOVES}\n  predicted eager/fused chain {model['predicted_ratio']:.2f}"
        f"   measured {model['measured_ratio']:.2f}"
    )
    if setting.device.type != "cuda":
        print("  (it is about memory; on a CPU the arithmetic counts as well)")
