import pytest
import torch

from tests.together import together
from trnsci import ArgumentError, DtypeError
from trnsci.precision import arithmetic, resolve, to_bfloat16_values
from trnsci.testing import gaussian

F16, BF16, F32, F64, C64, C128 = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip


@together(
    ("dtype", "policy"), [(F16, "fast"), (BF16, "fast"), (F32, "fp32"), (C64, "fp32"), (F64, "fp64"), (C128, "fp64")]
)
def test_defaults_never_lose_precision(dtype, policy):
    assert resolve("op", None, dtype) == policy
    assert arithmetic(policy, dtype) == dtype


@together(("policy", "dtype", "work"), [
        ("fast", F32, F32), ("fast", F64, F32), ("fast", C128, C64), ("fp32", F64, F32), ("fp32", BF16, F32),
        ("fp64", F32, F64), ("fp64", C64, C128), ("fp64", F16, F64), ("compensated", F32, F32),
    ])  # fmt: skip
def test_arithmetic(policy, dtype, work):
    assert arithmetic(policy, dtype) == work


def test_names():
    assert resolve("op", "kahan", F32) == "compensated"
    with pytest.raises(ArgumentError) as caught:
        resolve("gemm", "double", F32)
    text = "gemm: precision is 'double', expected one of 'fast', 'fp32', 'compensated', 'fp64', 'kahan'."
    assert str(caught.value) == text
    with pytest.raises(DtypeError, match="dtype is float8_e4m3fn"):
        resolve("gemm", None, torch.float8_e4m3fn)


@pytest.mark.parametrize("dtype", [F32, F64, C64], ids=str)
def test_rounding_to_bfloat16_passes_gradients_unrounded(dtype):
    x = gaussian((50,), 1, dtype).requires_grad_()
    rounded = to_bfloat16_values(x)
    parts = torch.view_as_real(x.detach()) if dtype.is_complex else x.detach()
    expected = parts.to(BF16).to(parts.dtype)
    assert torch.equal(torch.view_as_real(rounded) if dtype.is_complex else rounded, expected)
    (grad,) = torch.autograd.grad(rounded, x, torch.full_like(x, 1 + 2**-20))
    assert torch.equal(grad, torch.full_like(x, 1 + 2**-20))


def test_rounding_keeps_infinities_and_nan():
    x = torch.tensor([torch.inf, -torch.inf, torch.nan, 3.4e38])
    assert to_bfloat16_values(x)[:2].tolist() == [torch.inf, -torch.inf]
    assert to_bfloat16_values(x)[2].isnan()
