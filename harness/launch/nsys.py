# SPDX-License-Identifier: MIT
"""Finding Nsight Systems, profiling and exporting with it, and judging by what it leaves.

nsys exits with the program's code and may still leave nothing, or only a ``.qdstrm``;
``nsys export`` may leave an empty file. So files decide, not exit codes alone.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ToolMissing, UsageProblem

#: Looked at after PATH, in this order; of several versions the newest first.
PLACES = (
    "/opt/nvidia/nsight-systems/*/bin/nsys",
    "/opt/nvidia/nsight-systems/*/target-linux-x64/nsys",
    "/opt/nvidia/nsight-systems-cli/*/bin/nsys",
    "/opt/nvidia/nsight-systems-cli/*/target-linux-x64/nsys",
    "/usr/local/cuda/bin/nsys",
    "/usr/local/cuda-*/bin/nsys",
    "/opt/nvidia/nsight-compute/*/host/target-linux-x64/nsys",
)
#: Debian puts the importer here, where nsys does not look.
DEBIAN_IMPORTERS = (
    "/usr/lib/nsight-systems/host-linux-x64/QdstrmImporter",
    "/usr/lib/x86_64-linux-gnu/nsight-systems/host-linux-x64/QdstrmImporter",
)
INSTALL_HINT = (
    "Install it: scripts/install-nsys (Debian), or NVIDIA's package nsight-systems "
    "(developer.nvidia.com/nsight-systems). Installed elsewhere: --nsys-path FILE or HARNESS_NSYS."
)
_VERSION = re.compile(r"\b(20\d\d(?:\.\d+)+)")


@dataclass(frozen=True)
class Nsys:
    """A working nsys."""

    path: str
    version: str  # "2025.3.1.90"

    @property
    def release(self) -> tuple[int, ...]:
        """(2025, 3): what behaviour depends on."""
        return tuple(int(part) for part in self.version.split(".")[:2])


def find(option: str | None, environ: Mapping[str, str]) -> Nsys:
    """The nsys to use: ``option`` (``--nsys-path``), HARNESS_NSYS, PATH, the usual places.

    Raises:
        ToolMissing: none works; the message lists each place and what was wrong there.
    """
    tried: list[str] = []
    for label, path in _candidates(option, environ):
        if path is None:
            tried.append(f"{label}: nothing there")
            continue
        found = probe(path)
        if isinstance(found, Nsys):
            return found
        tried.append(f"{label}: {found}")
    raise ToolMissing(
        "nsys (Nsight Systems) was not found; looked at\n" + "\n".join(f"    {t}" for t in tried),
        hint=INSTALL_HINT,
    )


def first(environ: Mapping[str, str]) -> str | None:
    """The file that ``find`` would try first, not started."""
    return next((path for _, path in _candidates(None, environ) if path is not None), None)


def _candidates(option: str | None, environ: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """(where, path or None) in order. What the user named is not silently replaced by another."""
    for label, named in (("--nsys-path", option), ("HARNESS_NSYS", environ.get("HARNESS_NSYS"))):
        if named:
            return [(f"{label} {named}", _in_folder(named))]
    found: list[tuple[str, str | None]] = [("PATH", shutil.which("nsys", path=environ.get("PATH")))]
    for pattern in PLACES:
        hits = sorted(glob.glob(pattern), key=_numbers, reverse=True)
        found.extend((hit, hit) for hit in hits)
        if not hits:
            found.append((pattern, None))
    return found


def _in_folder(named: str) -> str | None:
    path = Path(named).expanduser()
    for candidate in (
        path,
        path / "nsys",
        path / "bin" / "nsys",
        path / "target-linux-x64" / "nsys",
    ):
        if candidate.is_file():
            return str(candidate)
    return shutil.which(named)


def _numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]


def probe(path: str) -> Nsys | str:
    """The nsys at ``path``, or why it does not work."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start: {error}"
    match = _VERSION.search(done.stdout + done.stderr)
    if match is None:
        line = (done.stderr or done.stdout).strip().splitlines()
        return f"prints no version ({line[0] if line else f'exit {done.returncode}'})"
    return Nsys(path, match.group(1))


def profile_command(
    nsys: str,
    output: Path,
    command: Sequence[str],
    *,
    graphs: str | None = None,
    extra: Sequence[str] = (),
) -> list[str]:
    """The nsys command line: ``output`` without suffix; ``extra`` comes last, so that it wins.

    CPU sampling and context switches are off: they need kernel permissions that containers lack.
    """
    line = [nsys, "profile", "-t", "cuda,nvtx", "--sample=none", "--cpuctxsw=none"]
    # The other passes end with the program too; nsys's default waits for daemons it left behind,
    # perhaps for ever (2022.4, 2023.4).
    line.append("--wait=primary")
    if graphs is not None:
        line.append(f"--cuda-graph-trace={graphs}")
    if capture_range(extra) and not any(w.startswith("--capture-range-end") for w in extra):
        # nsys's own default, stop-shutdown, kills the program where the captured range ends.
        line.append("--capture-range-end=stop")
    # nsys expands %h, %p, %q{…} in -o; a name that contains % means itself.
    line.extend(["-o", str(output).replace("%", "%%")])
    return [*line, *extra, *command]


def export_command(nsys: str, report: Path, output: Path) -> list[str]:
    return [nsys, "export", "-t", "sqlite", "-o", str(output), str(report)]


def check_arguments(extra: Sequence[str]) -> None:
    """Refuse arguments that would send the report elsewhere or overwrite one.

    Raises:
        UsageProblem
    """
    for word in extra:
        name = word.split("=")[0]
        if name in {"-o", "--output"} or re.match(r"-o[^-]", word):
            raise UsageProblem(
                f"--nsys-arg {word}: harness run decides where the report goes",
                hint="Name the run with -o; the report is in its folder.",
            )
        if name in {"-f", "--force-overwrite"}:
            raise UsageProblem(f"--nsys-arg {word}: a run is never overwritten")


def capture_range(extra: Sequence[str]) -> str | None:
    """``cudaProfilerApi``, ``nvtx`` or ``hotkey`` when ``extra`` limits the capture so."""
    words = list(extra)
    for index, word in enumerate(words):
        name, _, value = word.partition("=")
        if name in {"-c", "--capture-range"}:
            value = value or (words[index + 1] if index + 1 < len(words) else "")
        elif re.match(r"-c[a-z]", word):
            value = word[2:]
        else:
            continue
        return None if value in {"", "none"} else value
    return None


def capture_environment(extra: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """What ``-c nvtx`` needs: nsys only recognises registered strings there, and PyTorch's ranges,
    like most programs', are not registered."""
    name = "NSYS_NVTX_PROFILER_REGISTER_ONLY"
    if capture_range(extra) == "nvtx" and name not in environ:
        return {name: "0"}
    return {}


def supports_graph_option(nsys: Nsys) -> bool:
    done = subprocess.run(
        [nsys.path, "profile", "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    return "--cuda-graph-trace" in done.stdout + done.stderr


# The importer: turns what was recorded (.qdstrm) into the report (.nsys-rep).


@dataclass(frozen=True)
class Importer:
    path: str | None
    beside_nsys: bool  # where nsys itself looks
    missing_libraries: tuple[str, ...] = ()


def find_importer(nsys: str) -> Importer:
    root = Path(os.path.realpath(nsys)).parent.parent
    beside = root / "host-linux-x64" / "QdstrmImporter"
    if beside.is_file():
        return Importer(str(beside), True, missing_libraries(str(beside)))
    # Only Debian's own nsys belongs to Debian's importer: another version's would not do.
    for path in DEBIAN_IMPORTERS if root.is_relative_to("/usr/lib") else ():
        if os.path.isfile(path):
            return Importer(path, False, missing_libraries(path))
    return Importer(None, False)


def missing_libraries(binary: str) -> tuple[str, ...]:
    """Shared libraries that ``ldd`` does not find."""
    try:
        done = subprocess.run(
            ["ldd", binary], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(re.findall(r"^\s*(\S+) => not found", done.stdout, re.MULTILINE))


def importer_problem(importer: Importer) -> tuple[str, str] | None:
    """(what is wrong, what to do) with an importer, or None."""
    if importer.path is None:
        return (
            "nsys has no importer (host-linux-x64/QdstrmImporter) beside it",
            "Install the full nsight-systems package, not only its target part.",
        )
    if importer.missing_libraries:
        missing = ", ".join(importer.missing_libraries)
        return (
            f"nsys's importer lacks libraries: {missing}",
            f"Install them (Debian: {_packages(importer.missing_libraries)}): ldd {importer.path}",
        )
    if not importer.beside_nsys:
        return (
            f"nsys does not find its importer, which Debian keeps apart ({importer.path})",
            "Run scripts/install-nsys: it links host-linux-x64 beside nsys's target-linux-x64.",
        )
    return None


def _packages(libraries: Sequence[str]) -> str:
    known = {"libdw.so.1": "libdw1", "libpfm.so.4": "libpfm4", "libssh.so.4": "libssh-4"}
    return " ".join(known.get(library, library) for library in libraries)


def import_command(importer: str, recording: Path, output: Path) -> list[str]:
    return [importer, "-i", str(recording), "-o", str(output)]


@dataclass(frozen=True)
class Left:
    """What nsys left behind. ``code`` is stable: report | recording-only | nothing."""

    code: str
    message: str = ""
    hint: str = ""


def judge_recording(
    folder: Path, stem: str, log: str, importer: Importer, extra: Sequence[str]
) -> Left:
    """What a finished ``nsys profile -o folder/stem`` achieved, from its files and its log."""
    if _not_empty(folder / f"{stem}.nsys-rep"):
        return Left("report")
    if _not_empty(folder / f"{stem}.qdstrm"):
        problem = importer_problem(importer)
        what, hint = problem or ("its importer failed", "The log says more.")
        return Left("recording-only", f"nsys left only a .qdstrm: {what}", hint)
    if never_started(folder, stem, log):
        said = next((line for line in log.splitlines() if _NEVER_STARTED.search(line)), "").strip()
        return Left(
            "nothing",
            f"nsys failed before it started the program: {said}",
            "Another nsys that starts or ends at the same moment does this: try again.",
        )
    limited = capture_range(extra)
    if limited is not None:
        return Left("nothing", f"the capture range ({limited}) never began", _range_hint(limited))
    lines = [line.strip() for line in log.splitlines() if _COMPLAINT.search(line)]
    said = f": {lines[-1]}" if lines else ""
    return Left("nothing", f"nsys left no report{said}", "The log says more.")


#: nsys's own words where it gave up before it started the program; seen with 2022.4 and 2023.4
#: when another nsys starts or ends at the same moment.
_NEVER_STARTED = re.compile(
    r"Local Endpoint is not available|Agent launcher (failed|exited|exceeded)"
    r"|^The proxy is not started\.$|errinfo_api_function_\*\] = sem_open$|\A\s*End of file\s*\Z",
    re.MULTILINE,
)


def never_started(folder: Path, stem: str, log: str) -> bool:
    """Whether nsys failed before it started the program, so that trying again repeats nothing."""
    left = any((folder / f"{stem}{suffix}").exists() for suffix in (".nsys-rep", ".qdstrm"))
    return not left and _NEVER_STARTED.search(log) is not None


_COMPLAINT = re.compile(r"\b(error|fail|fatal|cannot|unable|no reports|permission)", re.IGNORECASE)


def _range_hint(limited: str) -> str:
    if limited == "cudaProfilerApi":
        return (
            "The program must call torch.cuda.profiler.start() (cudaProfilerStart), in a process "
            "that nsys traces, and must not end before."
        )
    if limited == "nvtx":
        return (
            "The program must open a push/pop range with exactly the name and domain of "
            "--nvtx-capture (NAME@DOMAIN; NAME alone is the default domain)."
        )
    return "Nothing started the capture before the program ended."


def _not_empty(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0
