# SPDX-License-Identifier: MIT
"""The nsys command line, whole, and what is made of the files nsys leaves: no nsys needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import ToolMissing, UsageProblem
from harness.launch import nsys
from harness.launch.nsys import Importer

WHOLE = Importer("/x/QdstrmImporter", True)


def test_profile_command_line() -> None:
    assert nsys.profile_command(
        "/opt/nsys", Path("reports/a/report"), ["python", "t.py", "x y"]
    ) == [
        "/opt/nsys",
        "profile",
        "-t",
        "cuda,nvtx",
        "--sample=none",
        "--cpuctxsw=none",
        "--wait=primary",
        "-o",
        "reports/a/report",
        "python",
        "t.py",
        "x y",
    ]


def test_own_arguments_come_last_so_that_they_win() -> None:
    line = nsys.profile_command(
        "nsys", Path("r"), ["prog"], graphs="node", extra=["-t", "cuda,nvtx,osrt"]
    )
    assert line[-4:] == ["r", "-t", "cuda,nvtx,osrt", "prog"]
    assert "--cuda-graph-trace=node" in line


def test_a_percent_sign_in_the_name_is_not_expanded_by_nsys() -> None:
    line = nsys.profile_command("nsys", Path("50%/report"), ["p"])
    assert line[line.index("-o") + 1] == "50%%/report"


def test_nothing_is_ever_overwritten() -> None:
    assert not any("force" in word for word in nsys.profile_command("n", Path("r"), ["p"]))
    for word in ("-f", "--force-overwrite=true", "-o", "--output=x", "-ox"):
        with pytest.raises(UsageProblem):
            nsys.check_arguments([word])
    nsys.check_arguments(["--trace-fork-before-exec=true", "-c", "nvtx"])


@pytest.mark.parametrize(
    ("words", "limited"),
    [
        ([], None),
        (["-c", "nvtx"], "nvtx"),
        (["--capture-range=cudaProfilerApi"], "cudaProfilerApi"),
        (["--capture-range", "nvtx"], "nvtx"),
        (["-cnvtx"], "nvtx"),
        (["-c", "none"], None),
        (["--capture-range-end=stop"], None),
    ],
)
def test_capture_range_is_recognised(words: list[str], limited: str | None) -> None:
    assert nsys.capture_range(words) == limited


def test_a_start_that_failed_is_told_from_a_run_that_failed(tmp_path: Path) -> None:
    # The line nsys 2022.4.2 printed when another nsys was starting.
    log = "[QuadDCommon::tag_message*] = Local Endpoint is not available."
    assert nsys.never_started(tmp_path, "report", log)
    assert not nsys.never_started(tmp_path, "report", "Traceback (most recent call last):")
    assert nsys.never_started(tmp_path, "report", "End of file\n")  # all that 2022.4.2 said, once
    assert not nsys.never_started(tmp_path, "report", "EOFError: End of file\n")
    assert not nsys.never_started(tmp_path, "report", "step 1\nEnd of file\n")
    for line in ("The proxy is not started.", "[boost::errinfo_api_function_*] = sem_open"):
        assert nsys.never_started(tmp_path, "report", f"Generating x\n{line}\n\n")
        left = nsys.judge_recording(
            tmp_path, "report", line, nsys.find_importer("nsys"), ["-cnvtx"]
        )
        assert left.message == f"nsys failed before it started the program: {line}"
    assert not nsys.never_started(tmp_path, "report", "why: The proxy is not started.\n")
    (tmp_path / "report.qdstrm").touch()  # the program ran: once is enough
    assert not nsys.never_started(tmp_path, "report", log)


def test_the_program_outlives_its_captured_range() -> None:
    line = nsys.profile_command("nsys", Path("r"), ["p"], extra=["--capture-range=cudaProfilerApi"])
    assert "--capture-range-end=stop" in line
    own = ["-c", "cudaProfilerApi", "--capture-range-end=repeat"]
    line = nsys.profile_command("nsys", Path("r"), ["p"], extra=own)
    assert [w for w in line if w.startswith("--capture-range-end")] == [own[-1]]
    assert not any("capture-range" in w for w in nsys.profile_command("nsys", Path("r"), ["p"]))


def test_capture_by_nvtx_accepts_strings_that_are_not_registered() -> None:
    # nsys only recognises registered strings by default; PyTorch's are not.
    name = "NSYS_NVTX_PROFILER_REGISTER_ONLY"
    assert nsys.capture_environment(["-c", "nvtx"], {}) == {name: "0"}
    assert nsys.capture_environment(["-c", "nvtx"], {name: "1"}) == {}
    assert nsys.capture_environment(["-c", "cudaProfilerApi"], {}) == {}


def test_a_report_is_judged_by_its_file(tmp_path: Path) -> None:
    assert nsys.judge_recording(tmp_path, "report", "", WHOLE, []).code == "nothing"
    (tmp_path / "report.nsys-rep").touch()
    assert nsys.judge_recording(tmp_path, "report", "", WHOLE, []).code == "nothing"
    (tmp_path / "report.nsys-rep").write_bytes(b"x")
    assert nsys.judge_recording(tmp_path, "report", "", WHOLE, []).code == "report"


def test_only_a_qdstrm_is_explained(tmp_path: Path) -> None:
    (tmp_path / "report.qdstrm").write_bytes(b"x")
    for importer, said in (
        (Importer(None, False), "no importer"),
        (Importer("/usr/lib/x", False), "Debian keeps apart"),
        (Importer("/x", True, ("libdw.so.1",)), "lacks libraries: libdw.so.1"),
        (WHOLE, "its importer failed"),
    ):
        left = nsys.judge_recording(tmp_path, "report", "", importer, [])
        assert left.code == "recording-only"
        assert said in left.message
        assert left.hint


def test_a_capture_range_that_never_began_is_the_likely_reason(tmp_path: Path) -> None:
    left = nsys.judge_recording(
        tmp_path, "report", "Generated:\n", WHOLE, ["-c", "cudaProfilerApi"]
    )
    assert left.code == "nothing"
    assert "cudaProfilerApi" in left.message
    assert "torch.cuda.profiler.start()" in left.hint


def test_nsys_own_complaint_is_quoted(tmp_path: Path) -> None:
    left = nsys.judge_recording(tmp_path, "report", "a\nAgent launcher failed.\nb\n", WHOLE, [])
    assert "Agent launcher failed." in left.message


def test_the_newest_of_several_versions_is_tried_first() -> None:
    paths = ["/o/2022.4.2/nsys", "/o/2025.10.1/nsys", "/o/2025.9.1/nsys"]
    assert sorted(paths, key=nsys._numbers, reverse=True)[0] == "/o/2025.10.1/nsys"


def test_missing_nsys_lists_what_was_tried_and_how_to_install(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing) as caught:
        nsys.find(str(tmp_path / "nowhere"), {"PATH": ""})
    assert "--nsys-path" in caught.value.message
    assert "install-nsys" in caught.value.hint
    assert caught.value.exit_code == 4


def test_a_named_nsys_that_does_not_work_is_not_replaced_by_another(tmp_path: Path) -> None:
    fake = tmp_path / "nsys"
    fake.write_text("#!/bin/sh\necho hello\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(ToolMissing) as caught:
        nsys.find(None, {"HARNESS_NSYS": str(fake), "PATH": "/usr/bin"})
    assert "prints no version (hello)" in caught.value.message
