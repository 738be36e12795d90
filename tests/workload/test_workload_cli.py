# SPDX-License-Identifier: MIT
"""``python -m workload`` on the CPU: what it prints, writes and returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from workload import blocks, extension, machine  # noqa: E402
from workload.__main__ import main  # noqa: E402

SMALL = ["--device", "cpu", "--shape", "257x32", "--runs", "3", "--warmups", "1"]


@pytest.mark.usefixtures("cpu_operator")
def test_pass_and_its_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    assert main([*SMALL, "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "PASS"
    for word in ("torch", "CUDA_HOME", "GPU", "257 x 32", "MiB a tensor", "3.67"):
        assert word in out
    results = json.loads(file.read_text())
    assert results["schema"] == "harness.workload/1"
    assert results["shape"] == [257, 32]
    assert results["passed"] is True
    assert results["checks"][0]["elements"] == 257 * 32
    assert results["checks"][0]["outside"] == 0
    assert results["byte_model"]["predicted_ratio"] == pytest.approx(11 / 3)
    expected = {"eager-block", "fused-block", "eager-chain", "fused-chain", "copy"}
    assert set(results["timings"]) == expected
    for timing in results["timings"].values():
        assert len(timing["samples_ns"]) == 3
        assert min(timing["samples_ns"]) <= timing["median_ns"] <= max(timing["samples_ns"])


@pytest.mark.usefixtures("cpu_operator")
def test_spellings_that_disagree_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # The eager chain now clamps at 0.5, the operator still at 3.
    monkeypatch.setattr(blocks, "HIGH", 0.5)
    file = tmp_path / "results.json"
    assert main([*SMALL, "--json", str(file)]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "FAIL"
    assert "first at" in out
    result = json.loads(file.read_text())["checks"][0]
    assert result["outside"] > 100
    assert result["first_expected"] == 0.5
    assert result["first_actual"] > 0.5
    assert not result["passed"]


@pytest.mark.usefixtures("cpu_operator")
def test_ranges_nest_and_alternate() -> None:
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu]) as profile:
        assert main([*SMALL]) == 0
    names = [event.name for event in profile.events() if event.is_user_annotation]
    one = ["eager-block", "gemm", "chain", "fused-block", "gemm", "chain"]
    assert names == one * 3


@pytest.mark.usefixtures("cpu_operator")
def test_a_planted_change_adds_elements_to_one_chain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    shape = ["--device", "cpu", "--shape", "1000x32", "--runs", "2"]
    assert main([*shape, "--extra-elements", "5", "--json", str(file)]) == 0
    assert "50 more rows in fused-block's chain (+5.000 %)" in capsys.readouterr().out
    results = json.loads(file.read_text())
    assert results["extra_rows"] == 50
    assert results["byte_model"]["predicted_ratio"] == pytest.approx(11 / 3 / 1.05)


@pytest.mark.usefixtures("cpu_operator")
def test_the_planted_block_computes_what_the_others_do() -> None:
    setting = blocks.Setting((100, 8), torch.device("cpu"), torch.float32, extra_percent=10)
    with torch.no_grad():
        data = blocks.make_data(setting)
        spellings = {"eager": blocks.eager_chain, "fused": blocks.fused_chain}
        eager, fused = blocks.make_blocks(setting, data, spellings)
        assert fused.run(data.x).shape == (110, 8)
        assert fused.elements == 880
        torch.testing.assert_close(fused.run(data.x)[:100], eager.run(data.x))


def test_data_are_the_same_every_time_and_in_their_intervals() -> None:
    setting = blocks.Setting((500, 8), torch.device("cpu"), torch.float32)
    first, second = blocks.make_data(setting), blocks.make_data(setting)
    assert torch.equal(first.x, second.x)
    assert torch.equal(first.linear.weight, second.linear.weight)
    assert -2 <= float(first.residual.min()) < -1.9
    assert 1.9 < float(first.residual.max()) < 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "8192"], "ROWSxDIM"),
        (["--shape", "0x4"], "ROWSxDIM"),
        (["--dtype", "fp64"], "'fp32', 'bf16', 'fp16'"),
        (["--runs", "0"], "--runs"),
        (["--nope"], "--nope"),
        (["extra"], "extra"),
        (["--tf32", "--dtype", "bf16"], "--tf32"),
        (["--json", "/no/such/folder/x.json"], "no folder"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_asking_for_a_gpu_that_is_not_there_is_exit_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cuda"]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert "--device cuda" in err
    assert "--device cpu" in err


def run_module(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m workload`` in a process of its own, with an empty extension folder."""
    root = Path(__file__).resolve().parents[2]
    return subprocess.run(
        [sys.executable, "-m", "workload", *SMALL],
        cwd=root,
        env={**os.environ, "TORCH_EXTENSIONS_DIR": str(folder), **environment},
        capture_output=True,
        text=True,
    )


def test_no_compiler_is_exit_4(tmp_path: Path) -> None:
    done = run_module(tmp_path, CXX="no-such-compiler")
    assert done.returncode == 4
    assert "'no-such-compiler' was not found" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_compiler_that_does_not_even_tell_its_version_is_one_line(tmp_path: Path) -> None:
    done = run_module(tmp_path, CXX="false")
    assert done.returncode == 70
    assert "failed: " in done.stderr
    assert "'--version']' returned non-zero exit status 1" in done.stderr
    assert "Traceback" not in done.stderr


# Weights of 40 PB, and a size that no integer holds.
@pytest.mark.parametrize("shape", ["8x100000000", "8x99999999999"])
def test_a_shape_that_no_memory_holds_is_one_line(
    shape: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--device", "cpu", "--shape", shape]) == 3
    assert "the memory is too small for this shape" in capsys.readouterr().err


def test_a_build_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = run_module(file)
    assert done.returncode == 3
    assert f"{file}" in done.stderr
    assert "TORCH_EXTENSIONS_DIR" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failed_build_shows_the_first_error_and_the_log(tmp_path: Path) -> None:
    compiler = tmp_path / "broken-c++"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *fused_chain*) '
        'echo "x.cpp:1:2: error: first"; echo "x.cpp:3:4: error: second"; exit 1;; esac\n'
        'exec c++ "$@"\n'
    )
    compiler.chmod(0o755)
    done = run_module(tmp_path, CXX=str(compiler))
    assert done.returncode == 70
    assert "failed: x.cpp:1:2: error: first" in done.stderr
    log = Path(done.stderr.rsplit("The full log is ", 1)[1].strip())
    assert "error: second" in log.read_text()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("log", "first"),
    [
        ("Error building extension 'x': [1/2] c++\na.cu(3): error: bad\nb: error: later",
         "a.cu(3): error: bad"),
        ("a.h:1:10: fatal error: b.h: No such file", "a.h:1:10: fatal error: b.h: No such file"),
        ("Error building extension 'x'\nnothing known\nlast words\n", "last words"),
        ("\nThe CUDA version (12) mismatches\nPlease", "The CUDA version (12) mismatches"),
        ("", "no output"),
    ],
)  # fmt: skip
def test_first_error(log: str, first: str) -> None:
    assert extension.first_error(log) == first


@pytest.mark.parametrize(
    ("l2", "free", "itemsize", "rows"),
    [
        (60 << 20, 139 << 30, 4, 131072),  # an H200: 480 MiB needed, 512 taken
        (50 << 20, 80 << 30, 4, 131072),  # 400 MiB needed
        (32 << 20, 80 << 30, 4, 65536),  # 256 MiB needed, exactly
        (60 << 20, 139 << 30, 2, 262144),
        (96 << 20, 8 << 30, 4, 131072),  # 768 MiB wanted, a dozen of 512 MiB fit
        (4 << 20, 1 << 30, 4, 8192),
    ],
)
def test_the_default_shape_is_eight_times_the_l2_where_that_fits(
    l2: int, free: int, itemsize: int, rows: int
) -> None:
    assert machine.fitting_shape(l2, free, itemsize) == (rows, 1024)


def test_builds_of_other_sources_and_devices_have_other_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    source, other = tmp_path / "a.cu", tmp_path / "b.cu"
    source.write_text("a")
    other.write_text("b")
    folders = {
        extension._build_folder(file, extension.flavour_for(device))
        for file in (source, other)
        for device in ("cpu", "cuda")
    }
    assert len(folders) == 4


def test_it_is_built_for_the_gpus_in_sight_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils import cpp_extension

    cards = [(9, 0), (8, 6), (9, 0)]
    monkeypatch.setattr("torch.cuda.device_count", lambda: len(cards))
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda index: cards[index])
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "7.5+PTX")
    flags = extension.flavour_for("cuda").cuda_cflags
    assert [flag for flag in flags if "arch" in flag] == [
        "-gencode=arch=compute_86,code=sm_86",
        "-gencode=arch=compute_90,code=sm_90",
    ]
    assert cpp_extension._get_cuda_arch_flags(list(flags)) == []  # what torch adds of its own
