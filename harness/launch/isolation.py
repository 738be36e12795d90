# SPDX-License-Identifier: MIT
"""Hiding the rest of the machine from nsys.

nsys reads ``/proc`` and writes the name *and the environment of every process it may read* into the
report, the shell that harness was started from included (2022.4 and 2023.4, with ``-t cuda,nvtx``
alone). An allow-list for the program is no use against that; a process namespace of its own is.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping

_NAMESPACE = ("--pid", "--fork", "--mount-proc", "--kill-child")
#: Without root a user namespace is needed to make the others; ids and groups stay what they are.
_AS_USER = ("--user", "--map-current-user", "--keep-caps")
#: nsys names its sessions, sockets and shared memory by process id, and a killed agent leaves them
#: behind. In namespaces the ids are small and the same each time, so that a second nsys fails
#: ("Agent launcher failed") or waits for ever (2022.4: one run in five beside two others). So its
#: files are its own, and the ids start at a random number.
_SET_UP = (
    "mount -t tmpfs -o mode=1777 harness /dev/shm && mkdir -p /tmp/nvidia && "
    "mount -t tmpfs -o mode=1777 harness /tmp/nvidia && "
    'echo "$1" > /proc/sys/kernel/ns_last_pid || exit 1; shift; "$@"; exit $?'
)
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
    first_id = str(1000 + secrets.randbelow(30_000))
    line = (*namespace, "sh", "-c", _SET_UP, "harness", first_id)
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
