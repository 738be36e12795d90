# SPDX-License-Identifier: MIT
"""torch.ops.harness.fused_chain and the workload on a GPU: ``pytest -m gpu tests/gpu``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from workload.blocks import HIGH, LOW, eager_chain  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"),
    pytest.mark.usefixtures("gpu_operator"),
]

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
#: Of the result in fp32 before it is rounded: one unit in the last place.
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 2**-7, torch.float16: 2**-10}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def gpu_operator() -> None:
    """Build the operator with nvcc (once a machine) and load it into this process."""
    from workload import extension

    if extension.find_nvcc() is None:
        pytest.skip("no nvcc")
    extension.load("cuda")


def op(h: Any, residual: Any) -> Any:
    return torch.ops.harness.fused_chain(h, residual)


def inputs(size: int, dtype: Any = torch.float32, device: str = "cuda") -> tuple[Any, Any]:
    generator = torch.Generator(device).manual_seed(88)
    h = torch.randn(size, generator=generator, device=device) * 2
    residual = torch.rand(size, generator=generator, device=device) * 4 - 2
    return h.to(dtype), residual.to(dtype)


def assert_right(out: Any, h: Any, residual: Any) -> None:
    expected = eager_chain(h.float(), residual.float()).to(h.dtype)
    torch.testing.assert_close(out, expected, rtol=ROUNDING[h.dtype], atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "size",
    [
        *range(1, 34),
        *(tile + near for tile in (1024, 2048, 4096, 8192) for near in (-1, 0, 1)),
        8191 * 1021,
        1 << 24,
        (1 << 25) + 3,  # more than an L2 holds: the other variant
    ],
)
def test_every_tail(size: int, dtype: Any) -> None:
    h, residual = inputs(size, dtype)
    assert_right(op(h, residual), h, residual)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offsets", [(1, 0), (0, 1), (1, 1), (3, 2), (8, 8), (7, 5)])
@pytest.mark.parametrize("size", [1, 17, 4097, 100_003])
def test_views_at_any_alignment(size: int, offsets: tuple[int, int], dtype: Any) -> None:
    h, residual = inputs(size + 8, dtype)
    h, residual = (t[o : o + size] for t, o in zip((h, residual), offsets, strict=True))
    assert_right(op(h, residual), h, residual)


@pytest.mark.parametrize("size", [0, 1])
def test_empty_and_single(size: int) -> None:
    h, residual = inputs(size)
    assert op(h, residual).shape == (size,)


def test_special_values_are_eagers() -> None:
    inf, nan = float("inf"), float("nan")
    h = torch.tensor([nan, inf, -inf, 1e20, -1e20, 3e38, -3e38, 0.0, 1.0, 1.0, 1.0]).cuda()
    residual = torch.tensor([0.0] * 8 + [nan, inf, -inf]).cuda()
    torch.testing.assert_close(op(h, residual), eager_chain(h, residual), equal_nan=True)


def test_it_is_as_close_to_float64_as_eager() -> None:
    h, residual = inputs(1 << 24)
    exact = eager_chain(h.double(), residual.double())
    ours = (op(h, residual).double() - exact).abs().max()
    eager = (eager_chain(h, residual).double() - exact).abs().max()
    print(f"worst difference from float64: fused {ours:.3g}, eager {eager:.3g}")
    assert ours < 1e-6
    assert ours < 3 * eager


def test_every_small_h_in_fp32_tolerance() -> None:
    # A fine grid over the interval in which gelu is neither 0 nor the identity.
    h = torch.linspace(-6, 6, 1 << 24, device="cuda")
    residual = torch.zeros_like(h)
    torch.testing.assert_close(op(h, residual), eager_chain(h, residual), rtol=1e-5, atol=1e-6)


def test_the_cpu_gives_the_same() -> None:
    h, residual = inputs(100_003)
    on_cpu = op(h.cpu(), residual.cpu())
    torch.testing.assert_close(op(h, residual).cpu(), on_cpu, rtol=1e-5, atol=1e-6)
    assert (on_cpu == HIGH).any()
    assert op(h - 100, residual - 100).max() == LOW


def test_it_runs_on_the_current_stream() -> None:
    h, residual = inputs(1 << 22)
    expected = eager_chain(h, residual)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    late = torch.zeros_like(h)
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)  # a kernel on another stream would read zeros
        late.copy_(h)
        out = op(late, residual)
    side.synchronize()
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)


def test_it_can_be_captured_and_replayed() -> None:
    h, residual = inputs(10_001)
    op(h, residual)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = op(h, residual)
    h.copy_(torch.linspace(-3, 3, 10_001, device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    assert_right(out, h, residual)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_it_runs_on_the_tensors_own_device() -> None:
    h, residual = (t.to("cuda:1") for t in inputs(4097))
    with torch.cuda.device(0):
        out = op(h, residual)
    assert out.device == h.device
    assert_right(out, h, residual)


def test_more_than_2_31_elements() -> None:
    size = (1 << 31) + 4097
    if torch.cuda.mem_get_info()[0] < 6 * 2 * size + (4 << 30):
        pytest.skip("not enough memory")
    h = torch.zeros(size, dtype=torch.bfloat16, device="cuda")
    residual = torch.ones(size, dtype=torch.bfloat16, device="cuda")
    for at in (0, (1 << 31) - 1, 1 << 31, size - 1):
        h[at] = 10.0
    out = op(h, residual)
    plain = float(eager_chain(torch.zeros(1), torch.ones(1)).bfloat16())
    for at in (0, (1 << 31) - 1, 1 << 31, size - 1):
        assert float(out[at]) == HIGH
        out[at] = plain
    assert float(out.min()) == plain
    assert float(out.max()) == plain


@pytest.mark.parametrize(
    ("h", "residual", "message"),
    [
        (torch.ones(2).double(), torch.ones(2).double(), "dtype must be"),
        (torch.ones(2), torch.ones(3), "no broadcasting"),
        (torch.ones(2, 3).t(), torch.ones(3, 2), "contiguous"),
    ],
)
def test_what_it_does_not_take_is_named(h: Any, residual: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        op(h.cuda(), residual.cuda())
    with pytest.raises(RuntimeError, match=r"h is on (cuda:0|cpu) but residual is on"):
        op(torch.ones(2), torch.ones(2).cuda())


@pytest.mark.parametrize("dtype", DTYPES)
def test_opcheck(dtype: Any) -> None:
    for grad in (False, True):
        h, residual = inputs(35, dtype)
        arguments = (h.requires_grad_(grad), residual.requires_grad_(grad))
        torch.library.opcheck(torch.ops.harness.fused_chain.default, arguments)


def test_inductor_takes_it_whole() -> None:
    h, residual = inputs(4096)
    compiled = torch.compile(lambda a, b: op(a * 2, b) + 1, fullgraph=True)
    torch.testing.assert_close(
        compiled(h, residual), eager_chain(h * 2, residual) + 1, rtol=1e-5, atol=1e-6
    )


def test_gradients_are_eagers() -> None:
    pairs = []
    for chain in (op, eager_chain):
        h, residual = (t.requires_grad_() for t in inputs(1000))
        (chain(h, residual) * torch.arange(1000.0, device="cuda")).sum().backward()
        pairs.append((h.grad, residual.grad))
    torch.testing.assert_close(pairs[0], pairs[1], rtol=1e-4, atol=1e-3)


def test_one_launch_a_call() -> None:
    assert "fused_chain_kernel" in kernel_of_a_call(4097)


def test_the_variant_follows_the_size() -> None:
    """Hints up to the size of the L2, none beyond."""
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    small, large = (kernel_of_a_call(bytes // 4) for bytes in (l2, l2 + 4))
    assert small != large
    assert "Cache)1" in small
    assert "Cache)0" in large


def kernel_of_a_call(size: int) -> str:
    h, residual = inputs(size)
    op(h, residual)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        op(h, residual)
        torch.cuda.synchronize()
    on_gpu = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    assert len(on_gpu) == 1
    return str(on_gpu[0].name)


@pytest.mark.parametrize(
    "arguments",
    [[], ["--tf32"], ["--dtype", "bf16"], ["--compiled", "--shape", "8192x1024"]],
    ids=" ".join,
)
def test_the_workload_passes(arguments: list[str], tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    done = subprocess.run(
        [sys.executable, "-m", "workload", *arguments, "--json", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    results = json.loads(file.read_text())
    if "--shape" not in arguments:
        assert results["tensor_bytes"] >= 8 * results["machine"]["l2_bytes"]
    if results["dtype"] == "fp32" and "--shape" not in arguments:  # eager bf16 is not at the limit
        model = results["byte_model"]
        assert model["measured_ratio"] == pytest.approx(model["predicted_ratio"], rel=0.05)


def test_emit_nvtx_does_not_double_a_range(tmp_path: Path) -> None:
    nsys = shutil.which("nsys")
    if nsys is None:
        pytest.skip("no nsys")
    code = (
        "import harness, torch\n"
        "x = torch.ones(4, device='cuda')\n"
        "with torch.autograd.profiler.emit_nvtx(), harness.range('only-once'): x + 1\n"
        "torch.cuda.synchronize()\n"
    )
    report = tmp_path / "r"
    subprocess.run(
        [nsys, "profile", "-t", "cuda,nvtx", "--sample=none", "--cpuctxsw=none", "-o", str(report),
         "--export=sqlite", sys.executable, "-c", code],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    import sqlite3

    with sqlite3.connect(report.with_suffix(".sqlite")) as database:
        names = Counter(
            name
            for (name,) in database.execute(
                "SELECT coalesce(value, text) FROM NVTX_EVENTS "
                "LEFT JOIN StringIds ON textId = id WHERE eventType = 59"
            )
        )
    assert sum(n for name, n in names.items() if name and name.startswith("only-once")) == 1
