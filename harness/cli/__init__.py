# SPDX-License-Identifier: MIT
"""The ``harness`` command: parse, call the library once, print."""

from __future__ import annotations

import errno
import importlib
import sys

import click

from harness.cli.output import say
from harness.errors import ExitCode, HarnessError

#: Command -> one-line help. Each lives in ``harness/cli/NAME.py`` as ``command`` and is imported
#: only when it is called, so that ``harness --help`` loads neither pandas nor torch.
COMMANDS = {
    "run": "Profile the bundled workload, or any command, in separate passes.",
    "report": "Show what each NVTX range cost on the GPU.",
    "compare": "Compare two runs, or all runs in a folder, range by range.",
    "baseline": "Save, list and show named baselines.",
    "share": "Write a copy of a run's report without environment and host names.",
    "doctor": "Check this machine, or a report, for what would spoil a profile.",
}


class LazyGroup(click.Group):
    """A click group whose commands are modules, imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"harness.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="nsys-harness", prog_name="harness")
def group() -> None:
    """What each NVTX range of a PyTorch program costs on the GPU, and whether a change made it
    cheaper."""


def _internal(error: Exception) -> None:
    """Python's traceback only for those who ask for it."""
    import os
    import traceback

    if os.environ.get("HARNESS_TRACEBACK"):
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    what = f"{type(error).__name__}: {error}"
    place = f"{os.path.basename(last.filename)}:{last.lineno}"
    say(
        f"internal error: {what} ({place})",
        "Please report this, with what HARNESS_TRACEBACK=1 shows.",
    )


def main(argv: list[str] | None = None) -> None:
    """Entry point: the only place where a HarnessError becomes a line and an exit code."""
    try:
        code = group.main(args=argv, standalone_mode=False)
    except HarnessError as error:
        say(error.message, error.hint)
        sys.exit(int(error.exit_code))
    except click.exceptions.Abort:
        click.echo("harness: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(int(ExitCode.USAGE))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            _internal(error)
            sys.exit(int(ExitCode.INTERNAL))
        say(f"{error.filename or 'output'}: {error.strerror}")
        sys.exit(int(ExitCode.NO_ANSWER))
    except Exception as error:  # exit 1 would say that the thing measured failed
        _internal(error)
        sys.exit(int(ExitCode.INTERNAL))
    sys.exit(int(code) if isinstance(code, int) else 0)
