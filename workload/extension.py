# SPDX-License-Identifier: MIT
"""Builds ``fused_chain.cu`` once per machine and loads it as ``torch.ops.harness.fused_chain``."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from harness.errors import ExitCode, HarnessError, ToolMissing

SOURCE_NAME = "fused_chain.cu"
LIBRARY = "harness_fused_chain"

#: g++ keeps the comparisons of the CPU's chain as branches unless floating point may not trap.
_VECTORISE = "-fno-trapping-math"

_loaded: Flavour | None = None


@dataclass(frozen=True)
class Flavour:
    """One way to build the source: ``cuda`` with nvcc, ``cpu`` as plain C++."""

    name: str
    cflags: tuple[str, ...]
    cuda_cflags: tuple[str, ...] = ()


def find_source() -> Path:
    """``fused_chain.cu``: beside this package in a checkout, inside it when installed."""
    here = Path(__file__).resolve().parent
    for candidate in (here.parent / SOURCE_NAME, here / SOURCE_NAME):
        if candidate.is_file():
            return candidate
    raise HarnessError(
        f"{SOURCE_NAME} is neither in {here.parent} nor in {here}",
        hint="Install the package again, or run from a complete checkout.",
        exit_code=ExitCode.INTERNAL,
    )


def find_nvcc() -> str | None:
    """Path of nvcc as torch's builder will look for it, or None."""
    from torch.utils.cpp_extension import CUDA_HOME

    if CUDA_HOME and (Path(CUDA_HOME) / "bin" / "nvcc").is_file():
        return str(Path(CUDA_HOME) / "bin" / "nvcc")
    return None


def flavour_for(device: str) -> Flavour:
    """How to build for ``device`` ("cuda" or "cpu")."""
    if device == "cuda":
        common = ("-O3", "-lineinfo", "-Xcompiler", _VECTORISE)
        return Flavour("cuda", ("-O3",), (*common, *_architectures()))
    # The compiler's baseline is SSE2; torch knows what this CPU has. It is part of the build's
    # key, so a home directory shared by several hosts holds one library for each.
    vector = {"AVX2": ("-mavx2", "-mfma"), "AVX512": ("-mavx2", "-mfma")}
    return Flavour(
        "cpu", ("-O3", _VECTORISE, *vector.get(torch.backends.cpu.get_cpu_capability(), ()))
    )


def _architectures() -> tuple[str, ...]:
    """nvcc's flags for exactly the GPUs in sight.

    With any such flag torch leaves TORCH_CUDA_ARCH_LIST alone: container images set it to what
    torch itself was built for, which may be another architecture, or PTX to compile at start-up.
    """
    count = torch.cuda.device_count()
    found = sorted({torch.cuda.get_device_capability(index) for index in range(count)})
    return tuple(f"-gencode=arch=compute_{x}{y},code=sm_{x}{y}" for x, y in found)


def load(device: str) -> None:
    """Make ``torch.ops.harness.fused_chain`` available for tensors on ``device``.

    Builds on first use and is cheap afterwards. Raises ToolMissing (exit 4) without a compiler,
    HarnessError (exit 70) with the compiler's first error when the build fails.
    """
    global _loaded
    flavour = flavour_for(device)
    if _loaded is not None:
        if _loaded.name != flavour.name and device == "cuda":
            raise HarnessError(
                "fused_chain is already loaded in this process without CUDA",
                hint="Load it for the GPU first: that build also serves the CPU.",
                exit_code=ExitCode.INTERNAL,
            )
        return
    load_library: Any = torch.ops.load_library  # untyped in torch
    load_library(str(build(flavour)))
    _loaded = flavour


def build(flavour: Flavour) -> Path:
    """The shared library for ``flavour``, built unless it is there."""
    source = find_source()
    folder = _build_folder(source, flavour)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(
            f"the operator's build folder {folder} cannot be made: {error.strerror}",
            hint="Set TORCH_EXTENSIONS_DIR to a folder you can write to.",
        ) from error
    library, stamp = folder / f"{LIBRARY}.so", folder / "complete"
    with _exclusive(folder / "harness.lock"):
        # The stamp, not the library: a linker that was killed leaves half a file.
        if not stamp.exists():
            _check_tools(flavour)
            _compile(source, flavour, folder)
            stamp.touch()
    return library


def _build_folder(source: Path, flavour: Flavour) -> Path:
    """In torch's extension folder, one for each source text, flavour, torch and Python."""
    from torch.utils.cpp_extension import get_default_build_root

    root = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root())
    facts = (
        source.read_bytes().hex(),
        str(flavour),
        torch.__version__,
        str(torch.version.cuda),
        sys.version,
    )
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]
    return root / f"{LIBRARY}-{flavour.name}-{key}"


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold ``path`` locked; the lock goes with the process, also when it is killed."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _check_tools(flavour: Flavour) -> None:
    if flavour.name == "cuda" and find_nvcc() is None:
        raise ToolMissing(
            "nvcc is needed to build the GPU operator and was not found (tried CUDA_HOME, "
            "CUDA_PATH, PATH and /usr/local/cuda)",
            hint="Install the CUDA toolkit, set CUDA_HOME, or use --device cpu.",
        )
    compiler = os.environ.get("CXX") or "c++"
    if shutil.which(compiler.split()[0]) is None:
        raise ToolMissing(
            f"a C++ compiler is needed to build the operator and {compiler!r} was not found",
            hint="Install one (apt install g++), or set CXX.",
        )


def _compile(source: Path, flavour: Flavour, folder: Path) -> None:
    from torch.utils import cpp_extension

    (folder / "lock").unlink(missing_ok=True)  # torch waits for ever on a killed build's lock
    text = source
    if flavour.name == "cpu":  # torch would give a .cu file to nvcc
        text = folder / "fused_chain.cpp"
        text.write_text(f'#include "{source}"\n')
    log = folder / "build.log"
    print(f"building {SOURCE_NAME} for {flavour.name} (once, about a minute)", file=sys.stderr)
    try:
        with _ninja_on_path():
            cpp_extension.load(
                name=LIBRARY,
                sources=[str(text)],
                extra_cflags=list(flavour.cflags),
                extra_cuda_cflags=list(flavour.cuda_cflags),
                build_directory=str(folder),
                with_cuda=flavour.name == "cuda",
                is_python_module=False,
            )
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        # torch asks the compiler for its version first, and lets that failure through as it is.
        log.write_text(f"{error}\n")
        raise HarnessError(
            f"building {SOURCE_NAME} for {flavour.name} failed: {first_error(str(error))}",
            hint=f"The full log is {log}",
            exit_code=ExitCode.INTERNAL,
        ) from error


@contextlib.contextmanager
def _ninja_on_path() -> Iterator[None]:
    """torch calls ``ninja`` by name; in a venv that was not activated it is not on PATH."""
    before = os.environ.get("PATH", "")
    with contextlib.suppress(ImportError):
        import ninja

        os.environ["PATH"] = os.pathsep.join(filter(None, (str(ninja.BIN_DIR), before)))
    try:
        if shutil.which("ninja") is None:
            raise ToolMissing(
                "ninja is needed to build the operator and was not found",
                hint="pip install 'nsys-harness[record]', or apt install ninja-build.",
            )
        yield
    finally:
        os.environ["PATH"] = before


def first_error(log: str) -> str:
    """The compiler's first error line in a build log.

    Without one it is the last line of ninja's output, or the first of torch's own refusals (such as
    an nvcc of another CUDA version than torch's).
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    built = bool(lines) and lines[0].startswith("Error building")
    for line in lines[built:]:
        if re.search(r"\b(fatal )?error\b[: ]", line):
            return line
    return lines[-1 if built else 0] if lines else "no output"
