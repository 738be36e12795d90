# SPDX-License-Identifier: MIT
"""``harness.report/1`` and ``harness.reports/1``: see docs/json.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from harness.render.records import chunks, records

if TYPE_CHECKING:
    import pandas as pd

    from harness.report import Failure, Report

ONE = "harness.report/1"
SEVERAL = "harness.reports/1"


def render(report: Report) -> Iterator[str]:
    """One report, exactly the contract; ``side_by_side`` follows where a run has both passes."""
    before = {
        "schema": ONE,
        "source": report.source.as_dict(),
        "policy": report.policy,
        "ledger": report.ledger.as_dict() if report.ledger is not None else None,
    }
    warnings = [w.as_dict() for w in report.warnings]
    after: dict[str, Any] = {"warnings": warnings, "view": report.view}
    if report.sides is not None:
        after["side_by_side"] = records(report.sides)
    yield from _document(before, report.rows, after)


def render_several(
    reports: list[Report],
    failures: list[Failure],
    rows: pd.DataFrame,
    *,
    view: str,
    policy: str,
) -> Iterator[str]:
    """Several reports: one list of rows, and what belongs to each report apart."""
    before = {"schema": SEVERAL, "policy": policy, "view": view}
    after = {
        "reports": [
            {
                "name": report.name,
                "source": report.source.as_dict(),
                "ledger": report.ledger.as_dict() if report.ledger is not None else None,
                "warnings": [w.as_dict() for w in report.warnings],
            }
            for report in reports
        ],
        "failed": [failure.as_dict() for failure in failures],
    }
    yield from _document(before, rows, after)


def _document(
    before: Mapping[str, Any], rows: pd.DataFrame, after: Mapping[str, Any]
) -> Iterator[str]:
    yield "{" + "".join(f"{_member(key, value)},\n " for key, value in before.items()) + '"rows": ['
    separator = "\n  "
    for piece in chunks(rows):
        yield separator + ",\n  ".join(_dump(record) for record in records(piece))
        separator = ",\n  "
    yield "]" + "".join(f",\n {_member(key, value)}" for key, value in after.items()) + "}\n"


def _member(key: str, value: Any) -> str:
    return f'"{key}": {_dump(value)}'


def _dump(value: Any) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    except TypeError:
        # orjson refuses lone surrogates, which a name that is not UTF-8 is read as.
        import json

        return json.dumps(value)
