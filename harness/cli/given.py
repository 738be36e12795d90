# SPDX-License-Identifier: MIT
"""A path as an argument: Path("") would be the current folder, which nobody meant."""

from __future__ import annotations

import os
from typing import Any

import click

from harness.errors import UsageProblem


class GivenPath(click.Path):
    """``click.Path`` that takes an empty word for what it is: a mistake."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if not os.fspath(value):
            name = param.get_error_hint(ctx) if param is not None and ctx is not None else "a path"
            raise UsageProblem(
                f"{name}: '' is not a path",
                hint="A variable of the shell may be empty; . is the current folder.",
            )
        return super().convert(value, param, ctx)
