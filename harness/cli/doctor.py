# SPDX-License-Identifier: MIT
"""``harness doctor``."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.given import GivenPath
from harness.cli.output import choose_format, format_options, write
from harness.errors import ExitCode, UnreadableReport, UsageProblem

if TYPE_CHECKING:
    from harness.doctor import Finding

    Groups = list[tuple[str, list[Finding]]]

SCHEMA = "harness.doctor/1"


@click.command("doctor")
@click.argument("report", required=False, type=GivenPath(path_type=Path))
@click.option("--probe", is_flag=True, help="Record one range, and one kernel, and count.")
@click.option("--strict", is_flag=True, help="Exit 1 on warnings too.")
@click.option("--nsys-path", metavar="FILE", help="The nsys to check.")
@format_options
def command(
    report: Path | None,
    probe: bool,
    strict: bool,
    nsys_path: str | None,
    style: str | None,
    output: Path | None,
) -> int:
    """Check this machine, or REPORT (a run folder or a .sqlite), for what would spoil a profile.

    Exit 0 when nothing would, 4 when a tool of this machine cannot be used as it is, 3 when REPORT
    cannot answer. Values of environment variables are never shown, only names.
    """
    if report is None:
        from harness.doctor import check_machine
        from harness.launch.survey import survey

        findings = check_machine(survey(nsys_path, os.environ, Path("reports"), probe))
        groups = [("this machine", findings)]
        failed = ExitCode.TOOL_MISSING
    else:
        if probe or nsys_path:
            raise UsageProblem("--probe and --nsys-path check this machine, not a report")
        groups = _check_report(report)
        failed = ExitCode.NO_ANSWER
    write([_rendered(groups, choose_format(style, output))], output)
    levels = {finding.level for _, findings in groups for finding in findings}
    if "problem" in levels:
        return int(failed)
    return int(ExitCode.FAILED) if strict and "warning" in levels else 0


def _rendered(groups: Groups, style: str) -> str:
    if style == "json":
        return json.dumps(_as_json(groups), indent=2, ensure_ascii=False) + "\n"
    if style == "table":
        lines = [line for name, found in groups for line in (name, *map(_as_text, found))]
        return "\n".join(lines) + "\n"
    from harness.render import plain_rows

    rows = [[name, *finding.as_dict().values()] for name, found in groups for finding in found]
    columns = ["subject", "code", "level", "message", "evidence", "fix"]
    render = plain_rows.as_csv if style == "csv" else plain_rows.as_markdown
    return render(columns, rows)


def _check_report(path: Path) -> Groups:
    from harness.doctor import check_report
    from harness.launch.environment import looks_secret
    from harness.readers.inspect_report import report_facts
    from harness.readers.paths import check_lfs, check_path

    check_path(path)
    files = sorted(path.glob("*.sqlite")) if path.is_dir() else [path]
    if path.suffix == ".nsys-rep":
        check_lfs(path)
        files = [path.with_suffix(".sqlite")]
        if not files[0].is_file():
            raise UnreadableReport(
                f"{path}: not exported yet", hint=f"nsys export -t sqlite {path}, then doctor it."
            )
    if path.name.lower().endswith((".json", ".json.gz")):
        check_lfs(path)
        raise UnreadableReport(
            f"{path}: only nsys recordings can be checked", hint="harness report reads this one."
        )
    if not files:
        raise UnreadableReport(
            f"{path}: no .sqlite in this folder: only nsys recordings can be checked"
        )
    return [(str(file), check_report(report_facts(file, looks_secret))) for file in files]


def _as_json(groups: Groups) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "subjects": [
            {"subject": name, "findings": [finding.as_dict() for finding in findings]}
            for name, findings in groups
        ],
    }


def _as_text(finding: Finding) -> str:
    lines = [f"  {finding.level:8} {finding.message}"]
    for label, text in (("", finding.evidence), ("fix: ", finding.fix)):
        for paragraph in text.splitlines() if text else ():
            lines += textwrap.wrap(
                label + paragraph,
                96,
                initial_indent=" " * 11,
                subsequent_indent=" " * 13,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines)
