# SPDX-License-Identifier: MIT
"""Run a Python program under torch.profiler without a change to its code.

    PYTHON torch_runner.py OUT TAG -- script.py ARGS…
    PYTHON torch_runner.py OUT TAG -- -m module ARGS…
    PYTHON torch_runner.py OUT TAG -- -c code ARGS…

This file is given by path to the *program's* interpreter, which need not have harness installed:
it uses the standard library, the program's own torch, and its neighbours ``nvtx_bridge.py``,
``as_main.py``, ``torch_tables.py`` and ``../trace_names.py``.
The profiler starts when the program imports torch (what it sets in ``os.environ`` before that
still counts) and stops when the process ends. Left in OUT: ``torch_traceTAG.json.gz``, the tables
``torch_opsTAG.txt``/``.json`` and ``torch_ops_by_shapeTAG.txt``/``.json``, and what happened in
``torch_passTAG.json``.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import gzip
import importlib.util
import io
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

#: Above this many events torch's tables are left out.
TABLE_LIMIT = 2_000_000
#: Traces above this many bytes are packed as fast as zlib can.
LARGE_TRACE = 1 << 25
#: Names of ranges that closed too early to be recorded; more are not told one by one.
MISSED_LIMIT = 100


def nanoseconds(microseconds: float) -> int:
    return round(microseconds * 1000)


class Recorder:
    """torch.profiler around the life of this process; every method may be called at any time."""

    def __init__(self, out: str, tag: str) -> None:
        self.out, self.tag = os.path.abspath(out), tag  # the program may change folder
        self.pid = os.getpid()
        self.profiler: Any = None
        self.torch: Any = None
        self.running = False
        self.finished = False
        self.started = False  # the profiler, once: it may have stopped since
        self.decoded: Any = str
        self.averages: Any = None
        self.events: list[Any] = []  # torch's own objects, once the profiler has stopped
        self.meta: dict[str, Any] = {"recorded": False, "problems": []}

    def path(self, stem: str, suffix: str) -> str:
        return os.path.join(self.out, f"{stem}{self.tag}{suffix}")

    def problem(self, code: str, message: str) -> None:
        self.meta["problems"].append({"code": code, "message": message})

    def missed(self, name: str) -> None:
        """A range closed before the program imported torch: no profiler was there to see it."""
        missed = self.meta.setdefault("before_torch", {})
        if name in missed or len(missed) < MISSED_LIMIT:
            missed[name] = missed.get(name, 0) + 1

    def cut(self, names: list[str]) -> None:
        """Ranges that were open already when the profiler started."""
        if names and self.active:
            self.meta["open_at_import"] = names[:MISSED_LIMIT]

    @property
    def active(self) -> bool:
        return self.running and os.getpid() == self.pid

    def start(self, torch: Any) -> None:
        self.torch = torch
        try:
            self._start(torch)
        except Exception as error:
            self.problem("profiler-not-started", f"torch.profiler did not start: {error}")

    def _start(self, torch: Any) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        options: dict[str, Any] = {}
        with contextlib.suppress(Exception):
            # Without it only the thread that imported torch, and autograd's, are recorded.
            from torch._C._profiler import (  # type: ignore[import-not-found,unused-ignore]
                _ExperimentalConfig,
            )

            options["experimental_config"] = _ExperimentalConfig(profile_all_threads=True)
        self.profiler = torch.profiler.profile(activities=activities, record_shapes=True, **options)
        self.profiler.start()
        self.running = self.started = True
        self._yield_to_other_profilers(torch.autograd.profiler)

    def _yield_to_other_profilers(self, module: Any) -> None:
        """One process has one torch profiler. When the program starts its own, ours stops."""
        ours = getattr(self.profiler, "profiler", None)

        def wrap(owner: Any, method: str) -> None:
            original = getattr(owner, method, None)
            if original is None:
                return

            def wrapper(other: Any, *args: Any, **kwargs: Any) -> Any:
                if other is not ours and self.active and getattr(other, "enabled", True):
                    self.problem(
                        "own-profiler",
                        "the program starts torch.profiler itself; "
                        "the torch pass recorded only what ran before",
                    )
                    self.stop()
                return original(other, *args, **kwargs)

            setattr(owner, method, wrapper)

        wrap(module.profile, "_prepare_trace")
        wrap(module.emit_nvtx, "__enter__")

    def stop(self) -> None:
        if not self.active:
            return
        self.running = False
        try:
            self.profiler.stop()
            self.meta["recorded"] = True
        except Exception as error:
            self.problem("profiler-not-stopped", f"torch.profiler did not stop cleanly: {error}")

    def finish(self) -> None:
        """Stop and save, once, and only in the process that started."""
        if self.finished or os.getpid() != self.pid:
            return
        self.finished = True
        begun = time.monotonic()
        # torch makes several Python objects an event; the collector walks them all, again and
        # again, and finds nothing: without it the tables take a third to a tenth of the time.
        gc.disable()
        self.stop()
        if self.torch is None:
            self.problem("no-torch", "the program never imported torch: nothing to record")
        else:
            self._describe()
        if self.meta["recorded"]:
            self._announce()
            for save in (self._save_trace, self._save_tables):
                try:
                    save()
                except Exception as error:
                    self.problem("not-saved", f"{save.__name__[6:]}: {error}")
        self.meta["saving_s"] = round(time.monotonic() - begun, 3)
        try:
            self._write("torch_pass", ".json", json.dumps(self.meta))
        except OSError as error:
            sys.stderr.write(f"harness: the torch pass could not be saved: {error}\n")

    def _announce(self) -> None:
        """Leave word of how many events there are, for the one who waits for this process."""
        with contextlib.suppress(Exception):
            self.events = self.profiler.profiler.kineto_results.events()
            self.meta["events"] = len(self.events)
            temporary = self.path("torch_saving", ".tmp.part")
            with open(temporary, "w", encoding="utf-8") as file:
                file.write(str(self.meta["events"]))
            os.replace(temporary, self.path("torch_saving", ".tmp"))

    def _describe(self) -> None:
        torch = self.torch
        self.meta["torch"] = str(getattr(torch, "__version__", ""))
        self.meta["cuda"] = getattr(getattr(torch, "version", None), "cuda", None)
        self.meta["devices"] = []
        with contextlib.suppress(Exception):
            if torch.cuda.is_initialized():
                for index in range(torch.cuda.device_count()):
                    facts = torch.cuda.get_device_properties(index)
                    self.meta["devices"].append(
                        {
                            "name": facts.name,
                            "uuid": str(getattr(facts, "uuid", "")),
                            "sm_count": facts.multi_processor_count,
                            "memory_bytes": facts.total_memory,
                            "l2_bytes": getattr(facts, "L2_cache_size", None),
                            "capability": f"{facts.major}.{facts.minor}",
                        }
                    )

    def _save_trace(self) -> None:
        plain = self.path("torch_trace", ".json.tmp")
        try:
            self.profiler.export_chrome_trace(plain)
            if not os.path.exists(plain):  # Kineto says why in the log only
                raise OSError("torch.profiler could not write the trace (is the disk full?)")
            with (
                open(plain, "rb") as source,
                whole(self.path("torch_trace", ".json.gz")) as packed,
                open(packed, "wb") as raw,
                # No name and no time in the header: the same trace gives the same file.
                gzip.GzipFile("", "wb", packing(plain), fileobj=raw, mtime=0) as target,
            ):
                for chunk in without_trace_name(source):
                    target.write(chunk)
        finally:
            discard(plain)
            discard(plain + ".tmp")  # Kineto's own, which it leaves when the disk is full

    def _save_tables(self) -> None:
        count = len(self.events)
        if count > TABLE_LIMIT:
            self.problem("no-tables", f"{count} events are too many for torch's operator tables")
            return
        both = self.averages(self.torch, self.profiler.profiler, self.events)
        stems = (("torch_ops", False), ("torch_ops_by_shape", True))
        for (stem, by_shape), averages in zip(stems, both, strict=True):
            for average in averages:
                average.key = self.decoded(average.key)
            rows = [operator_row(average, by_shape) for average in averages]
            on_device = any(row["self_device_ns"] for row in rows)
            rows.sort(key=lambda row: -row["self_device_ns" if on_device else "self_cpu_ns"])
            self._write(stem, ".json", json.dumps(rows, indent=1))
            self._write(stem, ".txt", operator_table(averages, on_device))

    def _write(self, stem: str, suffix: str, text: str) -> None:
        with whole(self.path(stem, suffix)) as path, open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")


@contextlib.contextmanager
def whole(path: str) -> Iterator[str]:
    """A file to write, which gets its name once it is complete; of one that fails nothing stays."""
    temporary = path + ".tmp"
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        discard(temporary)


def discard(path: str) -> None:
    """Emptied first: Kineto keeps the file open that it could not write, and so the disk full."""
    with contextlib.suppress(OSError):
        os.truncate(path, 0)
        os.remove(path)


def packing(file: str) -> int:
    """How hard to pack a trace: level 1 takes a third of the time of 6, and some more room."""
    return 1 if os.path.getsize(file) > LARGE_TRACE else 6


def without_trace_name(source: io.BufferedReader) -> Any:
    """The trace in chunks; its ``traceName``, the last key, loses the folder it was written to."""
    tail = b""
    while chunk := source.read(1 << 20):
        tail += chunk
        yield tail[:-4096]
        tail = tail[-4096:]
    if not tail.rstrip().endswith(b"}"):  # Kineto says so in the log only
        raise OSError("torch.profiler wrote a part of the trace (is the disk full?)")
    yield re.sub(rb'("traceName": ")[^"]*"', rb'\1torch_trace.json"', tail)


def operator_row(average: Any, by_shape: bool) -> dict[str, Any]:
    """One row of torch's table. ``device`` names where the row's own time was spent."""

    def device(kind: str) -> float:
        # self_cuda_time_total before torch 2.4, self_device_time_total since.
        for name in (f"{kind}device_time_total", f"{kind}cuda_time_total"):
            if hasattr(average, name):
                return float(getattr(average, name))
        return 0.0

    return {
        "name": average.key,
        "input_shapes": list(average.input_shapes or []) if by_shape else None,
        "count": average.count,
        "self_device_ns": nanoseconds(device("self_")),
        "device_ns": nanoseconds(device("")),
        "self_cpu_ns": nanoseconds(average.self_cpu_time_total),
        "cpu_ns": nanoseconds(average.cpu_time_total),
        "device": str(getattr(average, "device_type", "")).rpartition(".")[2].lower(),
        "annotation": bool(getattr(average, "is_user_annotation", False)),
    }


def operator_table(averages: Any, on_device: bool) -> str:
    keys = ("self_device_time_total", "self_cuda_time_total") if on_device else ()
    for key in (*keys, "self_cpu_time_total"):
        with contextlib.suppress(AttributeError, KeyError):
            return str(averages.table(sort_by=key, row_limit=200, max_name_column_width=80))
    return str(averages.table(row_limit=200))


def after_import(name: str, action: Any) -> None:
    """Call ``action(module)`` as soon as the top-level package ``name`` has been imported."""
    if name in sys.modules:
        action(sys.modules[name])
        return

    class Finder:
        @staticmethod
        def find_spec(fullname: str, path: Any = None, target: Any = None) -> Any:
            if fullname != name:
                return None
            for finder in sys.meta_path:
                if finder is Finder or not hasattr(finder, "find_spec"):
                    continue
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    break
            else:
                return None
            if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                notify(spec.loader)
            return spec

    def notify(loader: Any) -> None:
        original = loader.exec_module

        def exec_module(module: Any) -> None:
            with contextlib.suppress(AttributeError):
                del loader.exec_module  # reloading is the program's own affair
            original(module)
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(Finder)
            action(module)

        loader.exec_module = exec_module

    sys.meta_path.insert(0, Finder)


def save_before_leaving(recorder: Recorder) -> None:
    """Ways out that skip ``atexit``: os._exit, and os.exec* which replaces the program."""

    def wrap(name: str, message: str) -> None:
        original = getattr(os, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if os.getpid() == recorder.pid and not recorder.finished:
                if message:
                    recorder.problem("replaced", message)
                recorder.finish()
            return original(*args, **kwargs)

        setattr(os, name, wrapper)

    replaced = "the program replaced itself (os.exec); what followed was not recorded"
    wrap("_exit", "")
    wrap("execv", replaced)
    wrap("execve", replaced)


def let_forks_leave(recorder: Recorder) -> None:
    """A fork has none of Kineto's threads, and one of torch's destructors waits for one at exit
    (libkineto::ConfigLoader, torch 2.13). What the fork has printed is flushed as exit() would;
    the destructors that it inherited are left out."""

    def skip_destructors() -> None:
        if not recorder.started:
            return
        with contextlib.suppress(OSError, AttributeError):  # a libc without on_exit
            libc = ctypes.CDLL(None)
            leave = ctypes.cast(libc._exit, ctypes.c_void_p)
            flush = ctypes.cast(libc.fcloseall, ctypes.c_void_p)
            libc.on_exit(leave, None)  # called last, with the exit code
            libc.on_exit(flush, None)

    os.register_at_fork(after_in_child=skip_destructors)


def main() -> None:
    out, tag, separator, *target = sys.argv[1:]
    assert separator == "--"
    here = os.path.dirname(os.path.realpath(__file__))
    bridge = load_neighbour(here, "nvtx_bridge")
    as_main = load_neighbour(here, "as_main")
    tables = load_neighbour(here, "torch_tables")
    trace_names = load_neighbour(os.path.dirname(here), "trace_names")
    # Python put this file's folder first; the program must not import from it.
    if sys.path and os.path.realpath(sys.path[0] or ".") == here:
        del sys.path[0]
    recorder = Recorder(out, tag)
    atexit.register(recorder.finish)  # registered first, so called last
    save_before_leaving(recorder)
    let_forks_leave(recorder)
    recorder.decoded, recorder.averages = trace_names.decoded, tables.averages
    records = bridge.Records(recorder, trace_names.encoded)

    def on_torch(torch: Any) -> None:
        recorder.start(torch)
        bridge.bridge_torch(torch, records)
        with contextlib.suppress(KeyError, AttributeError):  # not loaded, or of another version
            sys.modules["harness.ranges"].record_open()
        records.begin()

    after_import("torch", on_torch)
    after_import("nvtx", lambda nvtx: bridge.bridge_package(nvtx, records))
    started = time.perf_counter_ns()
    try:
        as_main.run_program(target)
    except SystemExit:
        raise
    except as_main.NotStarted as error:
        sys.stderr.write(f"{sys.executable}: {error}\n")
        sys.exit(error.code)
    except BaseException as error:
        as_main.report_uncaught(error, hidden=(__file__,))
        if isinstance(error, KeyboardInterrupt):
            recorder.finish()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        sys.exit(1)
    finally:
        recorder.meta["main_ns"] = time.perf_counter_ns() - started


def load_neighbour(folder: str, name: str) -> Any:
    path = os.path.join(folder, name + ".py")
    spec = importlib.util.spec_from_file_location("_harness_" + name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
