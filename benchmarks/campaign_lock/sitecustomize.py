# SPDX-License-Identifier: MIT
"""Lets several recordings share one GPU without meeting on it.

On PYTHONPATH, Python imports this at start. A program that is about to import the module
HARNESS_LOCK_AT (the last thing before it touches the GPU) then waits for the lock HARNESS_LOCK and
holds it until it ends. So one program imports torch, or is exported, while another has the GPU.
"""

import fcntl
import importlib
import os
import sys


class Gate:
    """An import hook that finds nothing, and waits."""

    lock = None

    @classmethod
    def find_spec(cls, fullname, *_):
        if fullname == os.environ["HARNESS_LOCK_AT"]:
            sys.meta_path.remove(cls)
            for name in filter(None, os.environ.get("HARNESS_LOCK_AFTER", "").split(",")):
                importlib.import_module(name)
            cls.lock = open(os.environ["HARNESS_LOCK"], "w")  # noqa: SIM115  (held until the end)
            fcntl.flock(cls.lock, fcntl.LOCK_EX)
        return None


if os.environ.get("HARNESS_LOCK") and os.environ.get("HARNESS_LOCK_AT"):
    sys.meta_path.insert(0, Gate)
