# SPDX-License-Identifier: MIT
"""torch.ops.harness.fused_chain on the CPU and on meta tensors."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from workload.blocks import HIGH, LOW, eager_chain  # noqa: E402

pytestmark = pytest.mark.usefixtures("cpu_operator")


def op(h: Any, residual: Any) -> Any:
    return torch.ops.harness.fused_chain(h, residual)


def inputs(*shape: int, dtype: Any = torch.float32, seed: int = 88) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    h = torch.randn(shape, generator=generator) * 2
    residual = torch.rand(shape, generator=generator) * 4 - 2
    return h.to(dtype), residual.to(dtype)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 31, 33, 1000, 65537, 262145])
def test_it_agrees_with_eager_at_any_size(size: int) -> None:
    h, residual = inputs(size)
    torch.testing.assert_close(op(h, residual), eager_chain(h, residual), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3, 5), (1, 1)])
def test_it_keeps_the_shape(shape: tuple[int, ...]) -> None:
    h, residual = inputs(*shape)
    out = op(h, residual)
    assert out.shape == h.shape
    assert out.is_contiguous()


def test_known_values() -> None:
    # By hand: y = h * 1.5 - 0.25. h = 1/6 gives y = 0, so gelu adds nothing; large y is itself.
    h = torch.tensor([1 / 6, 100.0, -100.0, -100.0])
    residual = torch.tensor([1.25, 0.0, -1.0, -50.0])
    torch.testing.assert_close(op(h, residual), torch.tensor([1.25, HIGH, -1.0, LOW]))


def test_special_values_are_eagers() -> None:
    inf, nan = float("inf"), float("nan")
    h = torch.tensor([nan, inf, -inf, 1e20, -1e20, 3e38, -3e38, 0.0, 1.0, 1.0, 1.0])
    residual = torch.tensor([0.0] * 8 + [nan, inf, -inf])
    torch.testing.assert_close(op(h, residual), eager_chain(h, residual), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_is_fp32_rounded_once(dtype: Any) -> None:
    h, residual = inputs(4099, dtype=dtype)
    expected = eager_chain(h.float(), residual.float()).to(dtype)
    out = op(h, residual)
    assert out.dtype == dtype
    # One unit in the last place at most, and that only where fp32's own rounding decides.
    off = (out.float() - expected.float()).abs() > 0
    assert off.float().mean() < 1e-3
    torch.testing.assert_close(out, expected, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


def test_it_is_as_close_to_float64_as_eager() -> None:
    h, residual = inputs(1 << 20)
    exact = eager_chain(h.double(), residual.double())
    ours = (op(h, residual).double() - exact).abs().max()
    eager = (eager_chain(h, residual).double() - exact).abs().max()
    assert ours < 1e-6
    assert ours < 3 * eager


def test_a_view_that_starts_anywhere_is_fine() -> None:
    h, residual = inputs(1000)
    torch.testing.assert_close(op(h[3:], residual[1:-2]), eager_chain(h[3:], residual[1:-2]))


@pytest.mark.parametrize(
    ("h", "residual", "message"),
    [
        (torch.ones(2).double(), torch.ones(2).double(), "float32, bfloat16 or float16.*Double"),
        (torch.ones(2).int(), torch.ones(2).int(), "dtype must be"),
        (torch.ones(2), torch.ones(2).half(), "h is Float but residual is Half"),
        (torch.ones(2, 3), torch.ones(3), r"shape \[2, 3\] but residual has \[3\]"),
        (torch.ones(2, 3).t(), torch.ones(3, 2), r"pass h\.contiguous\(\)"),
        (torch.ones(3, 2), torch.ones(2, 3).t(), r"pass residual\.contiguous\(\)"),
        (torch.ones(2), torch.ones(2, device="meta"), "h is on cpu but residual is on meta"),
        (
            torch.ones(2).to_sparse(),
            torch.ones(2),
            "^fused_chain: h has layout Sparse; pass h",
        ),
        (torch.ones(2), torch.ones(2).to_sparse(), "^fused_chain: residual has layout Sparse"),
        (torch.ones(2).to_mkldnn(), torch.ones(2).to_mkldnn(), "^fused_chain: h has layout Mkldnn"),
    ],
    ids=[
        "float64",
        "int",
        "two dtypes",
        "shapes",
        "h strided",
        "residual strided",
        "devices",
        "h sparse",
        "residual sparse",
        "mkldnn",
    ],
)
def test_what_it_does_not_take_is_named(h: Any, residual: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        op(h, residual)


def test_meta_checks_and_allocates_nothing() -> None:
    h = torch.empty(1 << 40, device="meta")
    assert op(h, h).shape == h.shape
    with pytest.raises(RuntimeError, match="no broadcasting"):
        op(h, torch.empty(2, device="meta"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("grad", [False, True])
def test_opcheck(dtype: Any, grad: bool) -> None:
    h, residual = inputs(5, 7, dtype=dtype)
    arguments = (h.requires_grad_(grad), residual.requires_grad_(grad))
    torch.library.opcheck(torch.ops.harness.fused_chain.default, arguments)


def test_torch_compile_takes_it_whole_also_with_changing_sizes() -> None:
    compiled = torch.compile(lambda h, r: op(h, r) + 1, fullgraph=True, backend="aot_eager")
    for rows in (3, 5, 8):
        h, residual = inputs(rows, 4)
        torch.testing.assert_close(compiled(h, residual), eager_chain(h, residual) + 1)


def test_gradients_are_eagers() -> None:
    h, residual = inputs(64, 3)
    pairs = []
    for chain in (op, eager_chain):
        a, b = h.clone().requires_grad_(), residual.clone().requires_grad_()
        (chain(a, b) * torch.arange(64.0)[:, None]).sum().backward()
        pairs.append((a.grad, b.grad))
    assert (pairs[1][1] == 0).any(), "no output is on the clamp: the test would prove nothing"
    torch.testing.assert_close(pairs[0], pairs[1], rtol=1e-4, atol=1e-5)


def test_only_the_input_that_wants_a_gradient_gets_one() -> None:
    h, residual = inputs(4)
    out = op(h, residual.requires_grad_())
    out.sum().backward()
    assert h.grad is None
    assert residual.grad is not None
    with torch.no_grad():
        assert not op(h, residual).requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_forward_mode_derivatives_are_eagers(dtype: Any) -> None:
    primals, tangents = inputs(64, 3), inputs(64, 3, seed=89)
    wanted = torch.func.jvp(eager_chain, primals, tangents)
    low = [tuple(one.to(dtype) for one in pair) for pair in (primals, tangents)]
    out, tangent = torch.func.jvp(op, *low)
    assert out.dtype == tangent.dtype == dtype
    assert (tangent != 0).any()
    if dtype == torch.float32:
        torch.testing.assert_close((out, tangent), wanted, rtol=1e-4, atol=1e-5)
    else:
        exact = torch.func.jvp(eager_chain, *[tuple(t.float() for t in pair) for pair in low])
        torch.testing.assert_close((out, tangent), tuple(t.to(dtype) for t in exact))


def test_forward_mode_checks_as_the_kernels_do() -> None:
    h, residual = inputs(4)
    with pytest.raises(RuntimeError, match="they must have one dtype"):
        torch.func.jvp(lambda h: op(h, residual.half()), (h,), (h,))
