"""What every public function checks first: shapes, dtypes, values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnsci import (
    ArgumentError,
    DtypeError,
    NotPositiveDefinite,
    NumericalError,
    Singular,
    UnsupportedError,
    check,
)

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)

ROUNDOFF = {
    torch.float32: 2.0**-24,
    torch.complex64: 2.0**-24,
    torch.float64: 2.0**-53,
    torch.complex128: 2.0**-53,
}


def matrices(op: str, *, look: bool = True, **values: Any) -> torch.dtype:
    """Every value is a matrix, or a batch of them, of one dtype that factorisations are defined for.

    With ``look``, all entries are finite, too.
    """
    dtype = check.floating(op, **values)
    if dtype not in DTYPES:
        raise DtypeError(
            op=op,
            argument="dtype",
            got=dtype,
            expected="float32, float64, complex64 or complex128",
            hint="Convert with .float(): half precision holds too few digits to factorise",
        )
    check.ndim(op, 2, **values)
    if look:
        finite(op, **values)
    return dtype


def square(op: str, *, look: bool = True, **values: Any) -> torch.dtype:
    """Every value is a square matrix, or a batch of them."""
    dtype = matrices(op, look=look, **values)
    for name, value in values.items():
        rows, columns = value.shape[-2:]
        if rows != columns:
            raise ArgumentError(
                op=op,
                argument=f"shape of {name}",
                got=tuple(value.shape),
                expected=f"a square matrix, but it has {rows} rows and {columns} columns",
            )
    return dtype


def readable(x: Tensor) -> bool:
    """Whether values may be looked at: not while tracing, on meta tensors or under ``torch.func``."""
    if x.is_meta or torch.compiler.is_compiling():
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(x)


def finite(op: str, **values: Tensor) -> None:
    """No value is infinite or NaN. One sum decides in the usual case."""
    for name, value in values.items():
        if value.numel() == 0 or not readable(value):
            continue
        total = value.detach().sum().item()
        if math.isfinite(total.real) and math.isfinite(total.imag):
            continue
        bad = (~torch.isfinite(value)).nonzero()
        if len(bad):
            place = tuple(bad[0].tolist())
            raise ArgumentError(
                op=op,
                argument=f"{name}{list(place)}",
                got=value[place].item(),
                expected="a finite number",
                hint="Non-finite entries make every entry of a factorisation meaningless",
            )


def settled(op: str, result: Tensor, diagonal: Tensor | None = None, **values: Tensor | Callable[[], Tensor]) -> None:
    """The result is finite. Where it is not, the operand to blame is named, or the overflow.

    Operands of which only a part is read come as functions that return it. A zero on ``diagonal`` explains all.
    """
    if result.numel() == 0 or not readable(result):
        return
    total = result.detach().sum().item()
    if math.isfinite(total.real) and math.isfinite(total.imag):
        return
    if bool(torch.isfinite(result.detach()).all()):
        return
    if diagonal is not None:
        nonsingular(op, diagonal)
    finite(op, **{name: value if isinstance(value, Tensor) else value() for name, value in values.items()})
    raise NumericalError(
        op=op,
        message=f"the result overflows {result.dtype}",
        hint="The matrix is singular to working precision, or scaled too far from 1: use lstsq, or rescale",
    )


def triangle(op: str, lower: bool, **values: Tensor) -> None:
    """The triangle that is read has no entry infinite or NaN."""
    for name, value in values.items():
        if value.numel() == 0 or not readable(value):
            continue
        total = value.detach().sum().item()
        if not (math.isfinite(total.real) and math.isfinite(total.imag)):
            finite(op, **{name: value.detach().tril() if lower else value.detach().triu()})


def no_gradient(op: str, a: Tensor) -> None:
    """Raise where a gradient is wanted from a function that has none."""
    if a.requires_grad and torch.is_grad_enabled():
        reason = "it has no gradient, and its operand requires grad"
        raise UnsupportedError(op=op, reasons=[("any", reason)], hint="Detach the operand")


def right_hand_side(op: str, a: Tensor, b: Any, *, look: bool = True) -> bool:
    """Check ``b`` against ``a`` [..., M, N]; say whether ``b`` is a vector, or a batch of vectors: torch's rule."""
    check.floating(op, a=a, b=b)
    check.same_device(op, a=a, b=b)
    if look:
        finite(op, b=b)
    check.ndim(op, 1, b=b)
    vector = bool(b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]))
    rows = b.shape[-1] if vector else b.shape[-2]
    if rows != a.shape[-2]:
        check.equal(op, "M", a=a.shape[-2], b=rows, hint="Right-hand sides are columns")
    if not vector:
        check.broadcast(op, a=a.shape[:-2], b=b.shape[:-2])
    return vector


def first_failure(info: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """The index LAPACK reports, from 0, and its place in the batch; ``None`` when all went well."""
    if not readable(info) or not bool(info.any()):
        return None
    if info.ndim == 0:
        return int(info) - 1, ()
    batch = tuple(info.nonzero()[0].tolist())
    return int(info[batch]) - 1, batch


def positive_definite(op: str, info: Tensor, a: Tensor) -> None:
    """Raise `NotPositiveDefinite` where a Cholesky factorisation stopped, which it does at entries not finite, too."""
    failed = first_failure(info)
    if failed is not None:
        finite(op, a=a)
        raise NotPositiveDefinite(
            op=op, index=failed[0], batch=failed[1], hint="Use lu_factor or ldl for indefinite matrices"
        )


def nonsingular(op: str, diagonal: Tensor) -> None:
    """Raise `Singular` where the diagonal of a triangular factor has a zero."""
    if not readable(diagonal) or bool((diagonal != 0).all()):
        return
    *batch, index = (diagonal == 0).nonzero()[0].tolist()
    raise Singular(op=op, index=index, batch=tuple(batch), hint="Use lstsq or pinv for singular matrices")


def roundoff(dtype: torch.dtype) -> float:
    """The unit roundoff."""
    return ROUNDOFF[dtype]


def widened(dtype: torch.dtype) -> torch.dtype:
    """The dtype of twice the digits: float64 or complex128."""
    return torch.complex128 if dtype.is_complex else torch.float64
