"""The ``precision=`` vocabulary: what arithmetic a result is computed in, whatever dtype it is stored in."""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.compiler import is_compiling

from trnsci import host
from trnsci.errors import ArgumentError, DtypeError

Precision = Literal["fast", "fp32", "compensated", "fp64"]

PRECISIONS: tuple[Precision, ...] = ("fast", "fp32", "compensated", "fp64")

# What a dtype is computed in unless another policy is asked for: its own arithmetic.
DEFAULT: dict[torch.dtype, Precision] = {
    torch.float16: "fast",
    torch.bfloat16: "fast",
    torch.float32: "fp32",
    torch.complex64: "fp32",
    torch.float64: "fp64",
    torch.complex128: "fp64",
}

# Unit roundoff: half the distance from 1 to the next number, which is the relative error of one rounding.
ROUNDOFF: dict[torch.dtype, float] = {
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24,
    torch.complex64: 2.0**-24,
    torch.float64: 2.0**-53,
    torch.complex128: 2.0**-53,
}


def resolve(op: str, precision: str | None, dtype: torch.dtype) -> Precision:
    """Return the policy in force: by default (``None``) one that is never less precise than operands of ``dtype``."""
    if precision is None and dtype in DEFAULT:
        return DEFAULT[dtype]
    if precision is None:
        raise DtypeError(op, "dtype", dtype, "float16, bfloat16, float32, float64, complex64 or complex128")
    if type(precision) is str and precision in (*PRECISIONS, "kahan"):
        return "compensated" if precision == "kahan" else precision  # type: ignore[return-value]
    raise ArgumentError(op, "precision", precision, "one of " + ", ".join(map(repr, (*PRECISIONS, "kahan"))))


def arithmetic(precision: Precision, dtype: torch.dtype) -> torch.dtype:
    """Return the dtype PyTorch computes in to honour a policy for operands of ``dtype``."""
    if precision == "fast" and dtype in (torch.float16, torch.bfloat16):
        return dtype
    narrow, wide = (torch.complex64, torch.complex128) if dtype.is_complex else (torch.float32, torch.float64)
    return wide if precision == "fp64" else narrow


def to_bfloat16_values(x: Tensor) -> Tensor:
    """Round to the nearest bfloat16 and keep the dtype. The gradient passes unrounded, as it does on the device."""
    if not x.requires_grad and not is_compiling() and host.unseen() is None:
        return _Round.forward(x)
    return _Round.apply(x)  # type: ignore[no-untyped-call]


class _Round(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        if x.is_complex():
            return torch.view_as_complex(_Round.forward(torch.view_as_real(x.resolve_conj())))
        return x.to(torch.bfloat16).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad
