# SPDX-License-Identifier: MIT
"""Programs under torch.profiler, unchanged: same behaviour, and a trace. Real torch."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.launch import torch_runner
from harness.launch.torch_pass import RUNNER

pytest.importorskip("torch")


@dataclass
class Recorded:
    code: int
    out: str
    err: str
    folder: Path

    @property
    def meta(self) -> dict[str, Any]:
        return json.loads((self.folder / "torch_pass.json").read_text())

    @property
    def trace(self) -> dict[str, Any]:
        with gzip.open(self.folder / "torch_trace.json.gz", "rt") as file:
            return json.load(file)

    @property
    def annotations(self) -> Counter[str]:
        events = self.trace["traceEvents"]
        return Counter(e["name"] for e in events if e.get("cat") == "user_annotation")

    def event(self, name: str) -> dict[str, Any]:
        (found,) = (e for e in self.trace["traceEvents"] if e.get("name") == name)
        return found


def record(tmp_path: Path, *target: str, stdin: str = "", **options: Any) -> Recorded:
    out = tmp_path / "out"
    out.mkdir()
    done = subprocess.run(
        [sys.executable, str(RUNNER), str(out), "", "--", *target],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=240,
        check=False,
        **options,
    )
    return Recorded(done.returncode, done.stdout, done.stderr, out)


def record_code(tmp_path: Path, code: str, *args: str, **options: Any) -> Recorded:
    (tmp_path / "prog ü.py").write_text(textwrap.dedent(code))
    return record(tmp_path, "prog ü.py", *args, **options)


def plain(tmp_path: Path, *target: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *target], capture_output=True, text=True, cwd=tmp_path, check=False
    )


RANGES = """
    import sys, threading
    import torch, nvtx
    from nvtx import annotate

    @annotate("decorated")
    def work(x):
        return x.relu()

    class Late(threading.Thread):
        def run(self):
            with annotate("in a thread"):
                torch.ones(50).add(1)
            nvtx.end_range(started)

    with annotate("outer"), annotate("inner", domain="mine"):
        x = torch.randn(64, 64, requires_grad=True)
        work(x @ x).sum().backward()
        work(x)
    nvtx.push_range("pushed", domain="q"); x + 1; nvtx.pop_range(domain="q")
    nvtx.pop_range()
    started = nvtx.start_range("started")
    late = Late(); late.start(); late.join()
    domain = nvtx.get_domain("of a domain")
    print(sys.argv, __name__, __file__.rpartition("/")[2], sys.path[0])
    import os; os.chdir("/")
    sys.exit(3)
"""


def test_nvtx_ranges_become_record_function_ranges(tmp_path: Path) -> None:
    found = record_code(tmp_path, RANGES, "a b")
    assert found.code == 3, found.err
    assert found.out == f"['prog ü.py', 'a b'] __main__ prog ü.py {tmp_path}\n"
    assert found.annotations == {
        "outer": 1, "inner": 1, "decorated": 2, "pushed": 1, "in a thread": 1, "started": 1,
    }  # fmt: skip
    assert found.meta["problems"] == []
    outer, inner = found.event("outer"), found.event("inner")
    assert outer["ts"] <= inner["ts"]
    assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
    thread = found.event("in a thread")
    assert thread["tid"] != outer["tid"]
    # Operators of other threads are recorded too.
    assert any(
        e["tid"] == thread["tid"]
        for e in found.trace["traceEvents"]
        if e.get("name") == "aten::add"
    )


def test_tables_and_shapes(tmp_path: Path) -> None:
    code = "import torch\nfor n in (3, 3, 5): torch.ones(n).add(torch.ones(n))"
    found = record_code(tmp_path, code)
    rows = json.loads((found.folder / "torch_ops.json").read_text())
    (add,) = (row for row in rows if row["name"] == "aten::add")
    assert (add["count"], add["input_shapes"], add["device_ns"]) == (3, None, 0)
    assert add["cpu_ns"] >= add["self_cpu_ns"] > 0
    by_shape = json.loads((found.folder / "torch_ops_by_shape.json").read_text())
    counts = {
        str(row["input_shapes"]): row["count"] for row in by_shape if row["name"] == "aten::add"
    }
    assert counts == {"[[3], [3], []]": 2, "[[5], [5], []]": 1}
    assert [r["self_cpu_ns"] for r in rows] == sorted(
        (r["self_cpu_ns"] for r in rows), reverse=True
    )
    assert "aten::add" in (found.folder / "torch_ops.txt").read_text()
    assert str(tmp_path) not in json.dumps(found.trace)


def test_harness_ranges_are_not_doubled(tmp_path: Path) -> None:
    code = """
        import threading, torch, harness
        def thread():
            with harness.range("b"): torch.ones(2)
        with harness.range("a"), harness.range("own", domain="d"):
            torch.ones(2)
        t = threading.Thread(target=thread); t.start(); t.join()
    """
    found = record_code(tmp_path, code)
    assert found.code == 0, found.err
    assert found.annotations == {"a": 1, "own": 1, "b": 1}


def test_ranges_of_torch_fail_in_a_cpu_build_as_they_do_without_us(tmp_path: Path) -> None:
    import torch

    if torch.version.cuda is not None:
        pytest.skip("a CUDA build has NVTX")
    found = record_code(tmp_path, "import torch; torch.cuda.nvtx.range_push('x')")
    assert found.code == 1
    assert "NVTX functions not installed" in found.err


def test_an_exception_shows_the_programs_own_frames_and_keeps_the_trace(tmp_path: Path) -> None:
    code = "import torch\ndef f():\n    raise ValueError('böse')\ntorch.ones(2)\nf()\n"
    found = record_code(tmp_path, code)
    assert found.code == 1
    assert plain(tmp_path, "prog ü.py").stderr in found.err
    assert "torch_runner" not in found.err
    assert found.meta["recorded"]
    assert "aten::ones" in str(found.trace)


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.exit('some text')",
        "import sys; sys.exit(7)",
        "def f(:",
        "raise SystemExit",
        "import sys; print(sys.stdin.read()); 1/0",
        "import os; os.kill(os.getpid(), 15)",
        "import sys; sys.excepthook = lambda *a: print('hooked'); 1/0",
        "raise KeyboardInterrupt",
    ],
)
def test_ends_as_it_would_without_us(tmp_path: Path, code: str) -> None:
    found = record_code(tmp_path, code)
    expected = plain(tmp_path, "prog ü.py")
    assert (found.code, found.out) == (expected.returncode, expected.stdout)
    assert found.err == expected.stderr


@pytest.mark.parametrize(
    "target",
    [
        ("-m", "no_such_module"),
        ("-m", "json"),
        ("nothing.py",),
        ("-m", "timeit", "-n1", "-r1"),
        ("-c", "import sys; print(sys.argv, __name__)", "x"),
        ("-m", "this"),
        ("-m", "json.tool"),
    ],
)
def test_modules_and_code_run_as_python_runs_them(tmp_path: Path, target: tuple[str, ...]) -> None:
    found = record(tmp_path, *target, stdin="{}")
    expected = subprocess.run(
        [sys.executable, *target], input="{}", capture_output=True, text=True, cwd=tmp_path,
        check=False,
    )  # fmt: skip
    assert found.code == expected.returncode
    assert found.err == expected.stderr
    if "timeit" not in target:
        assert found.out == expected.stdout


def test_a_program_without_torch_is_named(tmp_path: Path) -> None:
    found = record_code(tmp_path, "print(1)")
    assert (found.code, found.out) == (0, "1\n")
    assert [problem["code"] for problem in found.meta["problems"]] == ["no-torch"]
    assert not (found.folder / "torch_trace.json.gz").exists()


def test_children_work_and_are_not_profiled(tmp_path: Path) -> None:
    code = """
        import multiprocessing as mp, os, torch
        def child(queue):
            queue.put((__name__, int(torch.ones(3).sum())))
        if __name__ == "__main__":
            for method in ("spawn", "fork"):
                context = mp.get_context(method); queue = context.Queue()
                process = context.Process(target=child, args=(queue,)); process.start()
                print(method, queue.get(timeout=120)); process.join(); print(process.exitcode)
            torch.zeros(1)
    """
    found = record_code(tmp_path, code)
    assert found.out == "spawn ('__mp_main__', 3)\n0\nfork ('__main__', 3)\n0\n", found.err
    names = Counter(e.get("name") for e in found.trace["traceEvents"])
    assert names["aten::zeros"] == 1
    assert names["aten::sum"] == 0


FORKS = """
    import ctypes, os, sys
    import torch

    def report():
        print("exit", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)

    if os.fork() == 0:
        torch.ones(3) + 1
        ctypes.CDLL(None).printf(b"C, buffered\\n")
        print("Python, buffered")
        sys.exit(5)
    report()
    if os.fork() == 0:
        raise ValueError("of the fork")
    report()
    if os.fork() != 0:
        report()
"""


def test_a_fork_ends_as_without_the_profiler(tmp_path: Path) -> None:
    found = record_code(tmp_path, FORKS)
    assert (found.code, found.meta["recorded"]) == (0, True)
    assert found.out == plain(tmp_path, "prog ü.py").stdout
    assert sorted(found.out.splitlines()) == sorted(
        ["C, buffered", "Python, buffered", "exit 5", "exit 1", "exit 0"]
    )
    assert found.err.count("ValueError: of the fork") == 1


def test_no_room_for_the_trace(tmp_path: Path) -> None:
    """The bound on a file's size stands in for a full disk."""
    code = """
        import resource, torch
        resource.setrlimit(resource.RLIMIT_FSIZE, (16384, 16384))
        for _ in range(100): torch.zeros(1)
    """
    found = record_code(tmp_path, code)
    assert (found.code, "Traceback" in found.err) == (0, False)
    (problem,) = found.meta["problems"]
    assert problem["code"] == "not-saved"
    assert "could not write the trace (is the disk full?)" in problem["message"]
    assert not list(found.folder.glob("torch_trace*"))
    assert (found.folder / "torch_ops.txt").exists()


def test_no_room_at_all(tmp_path: Path) -> None:
    code = """
        import resource, torch
        resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))
        torch.zeros(1)
    """
    found = record_code(tmp_path, code)
    assert (found.code, "Traceback" in found.err) == (0, False)
    assert "harness: the torch pass could not be saved: [Errno 27]" in found.err
    assert [file.name for file in found.folder.iterdir() if file.suffix != ".tmp"] == []


def test_a_part_of_a_trace_is_not_taken_for_one() -> None:
    assert b"".join(torch_runner.without_trace_name(io.BytesIO(b'{"a": 1}\n'))) == b'{"a": 1}\n'
    with pytest.raises(OSError, match="a part"):
        list(torch_runner.without_trace_name(io.BytesIO(b'{"a": 1')))


@pytest.mark.parametrize(
    ("ending", "code"), [("os._exit(7)", 7), ("os.execv('/bin/true', ['true'])", 0)]
)
def test_ways_out_that_skip_atexit_keep_the_trace(tmp_path: Path, ending: str, code: int) -> None:
    found = record_code(tmp_path, f"import os, torch; torch.ones(2); {ending}")
    assert found.code == code
    assert "aten::ones" in str(found.trace)


def test_work_after_the_end_of_main_is_recorded(tmp_path: Path) -> None:
    code = """
        import atexit, threading, time, torch
        atexit.register(lambda: torch.ones(5).mul(2))
        threading.Thread(target=lambda: (time.sleep(0.3), torch.zeros(4).sub(1))).start()
    """
    found = record_code(tmp_path, code)
    assert {"aten::mul", "aten::sub"} <= {e.get("name") for e in found.trace["traceEvents"]}


def test_a_program_with_its_own_profiler_keeps_it_and_is_named(tmp_path: Path) -> None:
    code = """
        import torch
        torch.ones(3)
        with torch.profiler.profile() as profiler:
            torch.zeros(3)
        print({row.key for row in profiler.key_averages()} >= {"aten::zeros"})
    """
    found = record_code(tmp_path, code)
    assert found.out == "True\n", found.err
    assert [problem["code"] for problem in found.meta["problems"]] == ["own-profiler"]
    assert "aten::ones" in str(found.trace)


def test_settings_made_before_torch_is_imported_count(tmp_path: Path) -> None:
    code = """
        import os, sys
        assert "torch" not in sys.modules and "nvtx" not in sys.modules
        os.environ["OMP_NUM_THREADS"] = "1"
        import torch
        print(torch.get_num_threads())
    """
    assert record_code(tmp_path, code).out == "1\n"


def test_compiled_functions_with_nvtx_ranges_still_run(tmp_path: Path) -> None:
    code = """
        import torch, nvtx
        @torch.compile(backend="eager")
        def f(x):
            nvtx.push_range("in compiled")
            y = x + 1
            nvtx.pop_range()
            return y
        print(f(torch.zeros(1)).item(), f(torch.zeros(1)).item())
    """
    found = record_code(tmp_path, code)
    assert found.out == "1.0 1.0\n", found.err
    assert found.annotations["in compiled"] == 2


def test_the_program_does_not_see_our_modules(tmp_path: Path) -> None:
    (tmp_path / "facts.py").write_text("WHOSE = 'the program'\n")
    code = "import facts, sys; print(facts.WHOSE, 'nvtx_bridge' in sys.modules)"
    assert record_code(tmp_path, code).out == "the program False\n"


def test_the_same_trace_gives_the_same_file() -> None:
    # gzip's header carries neither name nor time.
    import io

    both = []
    for _ in range(2):
        raw = io.BytesIO()
        with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as file:
            file.write(b"x" * 100)
        both.append(raw.getvalue())
    assert both[0] == both[1]
    assert both[0][3:8] == b"\0\0\0\0\0"
