# SPDX-License-Identifier: MIT
"""Hiding the rest of the machine from nsys.

nsys reads ``/proc`` and writes the name *and the environment of every process it may read* into the
report, the shell that harness was started from included (2022.4 and 2023.4, with ``-t cuda,nvtx``
alone). An allow-list for the program is no use against that; a process namespace of its own is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping

_NAMESPACE = ("--pid", "--fork", "--mount-proc", "--kill-child")
#: Without root a user namespace is needed to make the others; ids and groups stay what they are.
_AS_USER = ("--user", "--map-current-user", "--keep-caps")
#: nsys's agent keys its shared memory by process id, small numbers in a namespace, and leaves it
#: behind when killed: the next agent of that number would not start ("Agent launcher failed").
_OWN_SHARED_MEMORY = 'mount -t tmpfs -o mode=1777 harness /dev/shm && exec "$@"'
#: Ranks that are started one by one talk to each other through /dev/shm and process ids.
_RANKS = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")


def prefix(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What to put before a command so that it sees only its own processes.

    () where that is not possible (no ``unshare``, or the kernel or container forbids it) or would
    part this rank from others.
    """
    if any(environ.get(name, "1") not in {"", "1"} for name in _RANKS):
        return ()
    unshare = shutil.which("unshare", path=environ.get("PATH"))
    if unshare is None:
        return ()
    namespace = (unshare, *(() if os.geteuid() == 0 else _AS_USER), *_NAMESPACE)
    line = (*namespace, "sh", "-c", _OWN_SHARED_MEMORY, "harness")
    return line if _works(line) else ()


def _works(line: tuple[str, ...]) -> bool:
    try:
        done = subprocess.run(
            [*line, "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
