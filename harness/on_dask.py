# SPDX-License-Identifier: MIT
"""Files to Reports on a Dask cluster: the same numbers as on this machine."""

from __future__ import annotations

import importlib
import logging
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import harness
from harness.errors import ExitCode, ToolMissing, UsageProblem
from harness.gather import Input, try_read

if TYPE_CHECKING:
    from harness.report import Failure, Report, Request

#: How long to wait for a scheduler, and then for its first worker.
DASK_SECONDS = 10
#: What ``Client`` takes for an address and can reach; of others it leaves half an object behind,
#: which complains when it is deleted.
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ucx|wss?)://)?(?:\[[^\]\s]+\]|[^\s/:\[\]]+):([0-9]{1,5})")


def gather_dask(sources: list[Input], request: Request, address: str) -> list[Report | Failure]:
    """As ``gather``, on the Dask cluster whose scheduler is at ``address``.

    The workers need this package and must see the files under the same absolute paths.

    Raises:
        UsageProblem: not an address.
        ToolMissing: no cluster there, or no package to ask it with.
    """
    if not (match := _ADDRESS.fullmatch(address)) or not 0 < int(match[1]) < 1 << 16:
        raise UsageProblem(
            f"--dask {address}: not the address of a scheduler", hint="For example tcp://HOST:8786."
        )
    try:
        # By name: the package has no types, and type checking must not need it.
        distributed = importlib.import_module("distributed")
    except ImportError as error:
        raise ToolMissing(
            "--dask needs the package distributed, which is not installed",
            hint="pip install 'nsys-harness[dask]'",
        ) from error
    for name in ("distributed", "distributed.client"):
        # It prints tracebacks when a cluster goes away; what is lost is said once, by us.
        logging.getLogger(name).setLevel(logging.CRITICAL)
    absolute = [Input(os.path.abspath(source.path), source.name) for source in sources]
    with _client(distributed, address) as client:
        task = {"request": request, "version": harness.__version__}
        futures = client.map(_try_there, absolute, **task, pure=False, retries=1)
        outcomes = _future_outcomes(client, futures, sources, address)
    return [_as_given(outcome, source) for outcome, source in zip(outcomes, sources, strict=True)]


def _try_there(source: Input, request: Request, version: str) -> Report | Failure:
    """What a worker does: ``try_read``, with the code that the others have."""
    from harness.report import Failure

    if version != harness.__version__:
        return Failure(
            source.name,
            source.path,
            f"{source.path}: a Dask worker has harness {harness.__version__}, this is {version}",
            "The workers need the same version of this package.",
            int(ExitCode.NO_ANSWER),
        )
    return try_read(source, request)


def _client(distributed: Any, address: str) -> Any:
    secure = address.startswith(("tls:", "wss:"))
    if secure and not distributed.Security().get_connection_args("client").get("ssl_context"):
        raise ToolMissing(
            f"no Dask scheduler answers at {address}: Dask has no certificates to say who we are",
            hint="Set distributed.comm.tls in the configuration of Dask.",
        )
    try:
        client = distributed.Client(address, timeout=f"{DASK_SECONDS}s", set_as_default=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise ToolMissing(
            f"no Dask scheduler answers at {address}: {_first_line(error)}",
            hint="Start one with `dask scheduler`, workers with `dask worker ADDRESS`.",
        ) from error
    try:
        client.wait_for_workers(1, timeout=DASK_SECONDS)
    except TimeoutError as error:
        client.close()
        raise ToolMissing(
            f"the Dask scheduler at {address} has no workers",
            hint=f"Start some with `dask worker {address}`.",
        ) from error
    return client


def _future_outcomes(
    client: Any, futures: list[Any], sources: list[Input], address: str
) -> list[Report | Failure]:
    """Wait for all; a cluster without workers is not waited for longer than to begin with."""
    from harness.report import Failure

    outcomes: list[Report | Failure] = []
    lost = False
    for future, source in zip(futures, sources, strict=True):
        lost = lost or not _done(client, future)
        if not lost or future.status == "finished":
            outcomes.append(_future_outcome(future, source))
            continue
        outcomes.append(
            Failure(
                source.name,
                source.path,
                f"{source.path}: not done: the Dask cluster at {address} has lost its workers or"
                " its scheduler",
                "Look at what they printed.",
                int(ExitCode.NO_ANSWER),
            )
        )
    return outcomes


def _done(client: Any, future: Any) -> bool:
    """Wait for it; False when nobody is left to do it."""
    while True:
        try:
            future.exception(timeout=DASK_SECONDS)
        except TimeoutError:
            try:
                client.wait_for_workers(1, timeout=DASK_SECONDS)
            except Exception:  # of several kinds where the scheduler has gone
                return False
        except Exception:
            return False
        else:
            return bool(future.status in ("finished", "error"))


def _future_outcome(future: Any, source: Input) -> Report | Failure:
    from harness.report import Failure

    error = future.exception()
    if error is None:
        outcome: Report | Failure = future.result()
        return outcome
    return Failure(
        source.name,
        source.path,
        f"{source.path}: the Dask cluster could not do it: {_first_line(error)}",
        "The scheduler and workers need the same version of this package.",
        int(ExitCode.NO_ANSWER),
    )


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _as_given(outcome: Report | Failure, source: Input) -> Report | Failure:
    from harness.report import Failure

    if isinstance(outcome, Failure):
        if "no such file" in outcome.message and os.path.exists(source.path):
            hint = "It is here, but a Dask worker needs it too, under the same absolute path."
            outcome = replace(outcome, hint=hint)
        return replace(outcome, path=source.path)
    where = outcome.source.path.replace(os.path.abspath(source.path), source.path, 1)
    return replace(outcome, source=replace(outcome.source, path=where))
