# SPDX-License-Identifier: MIT
"""Many reports: one frame, and how far they are apart."""

from __future__ import annotations

import pandas as pd
import pytest

from harness import spread


def rows(times: dict[str, dict[str, int]], measure: str = "total_gpu_ns") -> pd.DataFrame:
    """``{source: {path: ns}}`` to a combined frame of view ranges."""
    return pd.DataFrame(
        [
            {
                "source": source,
                "path": (path,),
                "domain": "",
                "name": path,
                "style": "push_pop",
                "kernels": 10,
                "cpu_ns": 5 * ns,
                "total_gpu_ns": 0,
            }
            | {measure: ns}
            for source, paths in times.items()
            for path, ns in paths.items()
        ]
    )


def test_min_median_max_and_the_slowest() -> None:
    table = spread.spread(
        rows({"r0": {"a": 100}, "r1": {"a": 103}, "r2": {"a": 99}, "r3": {"a": 101}}),
        ["r0", "r1", "r2", "r3"],
    )
    (row,) = table.to_dict("records")
    assert (row["min_ns"], row["median_ns"], row["max_ns"]) == (99, 100, 103)
    assert (row["slowest"], row["straggler"]) == ("r1", False)
    assert row["excess"] == pytest.approx(103 / 100.5 - 1)


def test_a_straggler_is_named() -> None:
    times = {f"r{i}": {"a": 1000 + i, "b": 500 + i} for i in range(8)}
    times["r5"]["a"] = 1300
    table = spread.spread(rows(times), list(times))
    assert table["straggler"].tolist() == [True, False]
    ((name, number, worst),) = spread.stragglers(table)
    assert (name, number) == ("r5", 1)
    assert worst == pytest.approx(1300 / 1003.5 - 1)


def test_wide_scatter_makes_no_straggler() -> None:
    times = {f"r{i}": {"a": 1000 + 100 * i} for i in range(8)}
    assert not spread.spread(rows(times), list(times))["straggler"].any()


def test_of_two_reports_the_slower_stands_out_above_five_percent() -> None:
    near = spread.spread(rows({"r0": {"a": 100}, "r1": {"a": 109}}), ["r0", "r1"])
    far = spread.spread(rows({"r0": {"a": 100}, "r1": {"a": 130}}), ["r0", "r1"])
    assert (near["straggler"].item(), far["straggler"].item()) == (False, True)


def test_a_range_that_some_reports_lack_is_counted_not_zero() -> None:
    table = spread.spread(rows({"r0": {"a": 1, "b": 7}, "r1": {"a": 1}}), ["r0", "r1"])
    row = table.to_dict("records")[1]
    assert (row["sources"], row["missing"], row["min_ns"]) == (1, 1, 7)


def test_without_gpu_time_cpu_time_is_compared() -> None:
    table = spread.spread(rows({"r0": {"a": 10}, "r1": {"a": 30}}, "cpu_ns"), ["r0", "r1"])
    assert table[["measure", "max_ns"]].values.tolist() == [["CPU", 30]]


def test_processes_of_one_report_are_summed() -> None:
    both = pd.concat([rows({"r0": {"a": 10}}), rows({"r0": {"a": 20}})], ignore_index=True)
    table = spread.spread(both, ["r0"])
    assert table[["sources", "max_ns", "kernels_max"]].values.tolist() == [[1, 30, 20]]


def test_no_reports_make_an_empty_table_with_all_columns() -> None:
    table = spread.spread(rows({"r0": {"a": 1}}).head(0), [])
    assert list(table.columns) == list(spread.COLUMNS)
    assert not len(table)


def test_time_spent_waiting_in_communication_makes_no_straggler() -> None:
    # r1 computes longer; r0 waits for it in its all-reduce, so both take the same total time.
    frame = rows({"r0": {"step": 200}, "r1": {"step": 200}})
    frame = frame.assign(compute_ns=[100, 150], comm_ns=[100, 50])
    (row,) = spread.spread(frame, ["r0", "r1"]).to_dict("records")
    assert (row["measure"], row["slowest"], row["straggler"]) == ("compute", "r1", True)
    assert (row["min_ns"], row["median_ns"], row["max_ns"]) == (100, 125, 150)


def test_without_communication_the_whole_gpu_time_is_compared() -> None:
    frame = rows({"r0": {"step": 100}, "r1": {"step": 150}}).assign(compute_ns=0, comm_ns=0)
    (row,) = spread.spread(frame, ["r0", "r1"]).to_dict("records")
    assert (row["measure"], row["max_ns"]) == ("GPU", 150)


def test_the_processes_of_one_report_are_compared() -> None:
    frame = rows({"joint": {"step": 100}, "other": {"step": 150}}).assign(source="joint")
    split = spread.by_process(frame.assign(pid=[11, 12]))
    (row,) = spread.spread(split, ["pid 11", "pid 12"]).to_dict("records")
    assert (row["sources"], row["slowest"], row["max_ns"]) == (2, "pid 12", 150)
    alone = spread.by_process(frame.assign(pid=11))
    assert set(alone["source"]) == {"joint"}
