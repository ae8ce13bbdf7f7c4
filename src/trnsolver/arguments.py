"""First checks of every public function: shapes, dtypes, values."""

import cmath
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling
from torch.nn import Parameter

from trnsci import (
    ArgumentError,
    DtypeError,
    NotPositiveDefinite,
    NumericalError,
    Singular,
    UnsupportedError,
    check,
)
from trnsci.arrays import HalfPrecision
from trnsci.backends import SCOPE
from trnsci.precision import ROUNDOFF
from trnsci.torch_internals import is_functorch_wrapped_tensor

R = TypeVar("R")

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def matrices(op: str, *, look: bool = True, **values: Any) -> torch.dtype:
    """Every value is a matrix, or a batch of them, of one dtype that factorisations are defined for.

    With ``look``, all entries are finite, too.
    """
    dtype = _common(op, values)
    if look:
        finite(op, **values)
    return dtype


def _common(op: str, values: Mapping[str, Any]) -> torch.dtype:
    """Return the dtype of matrices. One pass in the usual case; `check` finds the words where something is wrong."""
    dtype: torch.dtype | None = None
    for value in values.values():
        if not _dense(value) or value.ndim < 2 or (dtype is not None and value.dtype is not dtype):
            break
        dtype = value.dtype
    else:
        if dtype in DTYPES:
            return dtype
    dtype = check.floating(op, **values)
    refuse_dtype(op, "dtype", dtype)
    check.ndim(op, 2, **values)
    return dtype


def refuse_dtype(op: str, argument: str, dtype: torch.dtype) -> None:
    """Raise unless a dtype holds enough digits to factorise or to iterate."""
    if dtype not in DTYPES:
        kind = HalfPrecision if dtype in (torch.float16, torch.bfloat16) else DtypeError
        raise kind(op=op, argument=argument, got=dtype, expected="float32, float64, complex64 or complex128")


def _dense(x: Any) -> bool:
    """Return whether this is a tensor that torch's linear algebra takes."""
    return type(x) in (Tensor, Parameter) and x.layout is torch.strided and not x.is_nested


def square(op: str, *, look: bool = True, **values: Any) -> torch.dtype:
    """Every value is a square matrix, or a batch of them."""
    dtype = _common(op, values)
    for name, value in values.items():
        shape = value.shape
        if shape[-1] != shape[-2]:
            expected = f"a square matrix, but it has {shape[-2]} rows and {shape[-1]} columns"
            raise ArgumentError(op, f"shape of {name}", tuple(shape), expected)
    if look:
        finite(op, **values)
    return dtype


def readable(x: Tensor) -> bool:
    """Whether values may be looked at: not of tensors of a tracer or of ``torch.func``, nor of those without data."""
    if type(x) not in (Tensor, Parameter) or x.is_meta or is_dynamo_compiling():
        return False
    return not is_functorch_wrapped_tensor(x)


def or_shapes(x: Tensor) -> Tensor:
    """Return the values, or without their data for a plan in the making, which has no pivots to look at."""
    scope = SCOPE.get()
    return x if scope is None or scope.interceptor is None else x.to("meta")


def all_finite(x: Tensor) -> bool:
    """Return whether no entry is infinite or NaN, as far as one may look. One sum decides in the usual case."""
    if not readable(x):
        return True
    if x.requires_grad:
        x = x.detach()
    return cmath.isfinite((x.sum() if x.ndim else x).item()) or bool(torch.isfinite(x).all())


def has_finite_norms(op: str, a: Tensor, read: Callable[[], Tensor] | None = None) -> bool:
    """Check that entries, of the part that ``read`` returns, are finite; return whether no norm overflows."""
    if not readable(a) or torch.linalg.vector_norm(a.detach()).item() < 2.0**126:
        return True
    finite(op, a=a if read is None else read())
    return False


def finite(op: str, **values: Tensor) -> None:
    """No value is infinite or NaN."""
    for name, value in values.items():
        if all_finite(value):
            continue
        bad = (~torch.isfinite(value)).nonzero()
        if len(bad):
            index = tuple(bad[0].tolist())
            raise ArgumentError(
                op=op,
                argument=f"{name}{list(index)}",
                got=value[index].item(),
                expected="a finite number",
                hint="Non-finite entries make every entry of a factorisation meaningless",
            )


def check_result(op: str, result: Tensor, **values: Tensor | Callable[[], Tensor]) -> None:
    """Raise unless the result is finite, and name the operand at fault, or the overflow.

    Operands of which only a part is read come as functions that return it.
    """
    if all_finite(result):
        return
    finite(op, **{name: value if isinstance(value, Tensor) else value() for name, value in values.items()})
    raise NumericalError(
        op=op,
        message=f"the result overflows {result.dtype}",
        hint="The matrix is singular to working precision, or scaled too far from 1: rescale it",
    )


def triangle(op: str, lower: bool, unit: bool = False, **values: Tensor) -> None:
    """Check that the triangle that is read, less its diagonal if that is ``unit``, has no entry infinite or NaN."""
    for name, value in values.items():
        if not all_finite(value):
            finite(op, **{name: value.detach().tril(-int(unit)) if lower else value.detach().triu(int(unit))})


def no_gradient(op: str, a: Tensor) -> None:
    """Raise where a gradient is wanted from a function that has none."""
    dual = forward_ad._current_level >= 0 and forward_ad.unpack_dual(a).tangent is not None
    if dual or (a.requires_grad and torch.is_grad_enabled()):
        reason = f"it has no gradient, and its operand {'has a tangent' if dual else 'requires grad'}"
        raise UnsupportedError(op, [("any", reason)], hint="Detach the operand")


def right_hand_side(op: str, a: Tensor, b: Any, *, look: bool = True) -> bool:
    """Check ``b`` against ``a`` [..., M, N]; say whether ``b`` is a vector, or a batch of vectors: torch's rule."""
    if not _dense(b) or b.dtype is not a.dtype or not b.ndim or not ((a.is_cpu and b.is_cpu) or a.device == b.device):
        check.floating(op, a=a, b=b)
        check.ndim(op, 1, b=b)
        check.same_device(op, a=a, b=b)
    if look:
        finite(op, b=b)
    left, right = a.shape, b.shape
    vector = len(right) == 1 or (len(right) == len(left) - 1 and right == left[:-1])
    rows = right[-1] if vector else right[-2]
    if rows != left[-2]:
        check.equal(op, "M", a=left[-2], b=rows, hint="Right-hand sides are columns")
    if not vector and len(left) + len(right) > 4 and left[:-2] != right[:-2]:
        check.broadcast(op, a=left[:-2], b=right[:-2])
    return vector


def to_adjoint_columns(op: str, a: Tensor, b: Any) -> Tensor:
    """Return ``b.mH`` of the rows ``b`` [..., K, N] of ``x @ a = b``: columns of a system with ``a.mH``."""
    check.floating(op, a=a, b=b)
    check.ndim(op, 2, a=a, b=b)
    if b.shape[-1] != a.shape[-1]:
        check.equal(op, "N", a=a.shape[-1], b=b.shape[-1], hint="With left=False right-hand sides are rows")
    conjugated: Tensor = b.mH
    return conjugated


def by_columns(like: Tensor, shape: tuple[int, ...] | None = None) -> Tensor:
    """Memory for matrices of a shape, by default that of ``like``, stored by columns as LAPACK leaves its results."""
    *batch, m, n = like.shape if shape is None else shape
    return like.new_empty((*batch, n, m)).mT


def first_failure(info: Tensor) -> tuple[int, tuple[int, ...]] | None:
    """Return the index LAPACK reports, from 0, and its position in the batch; ``None`` when all went well."""
    if not readable(info):
        return None
    if info.ndim == 0:
        index = int(info)
        return (index - 1, ()) if index else None
    if not bool(info.any()):
        return None
    batch = tuple(info.nonzero()[0].tolist())
    return int(info[batch]) - 1, batch


def positive_definite(op: str, factor: Tensor, info: Tensor, read: Callable[[], Tensor]) -> None:
    """Raise `NotPositiveDefinite` where a Cholesky factorisation stopped.

    An entry that is not finite stops it, or else leaves such an entry on the diagonal. ``read`` returns the triangle
    that was read.
    """
    if not readable(info):
        return
    failed = first_failure(info)
    total = factor.trace() if factor.ndim == 2 else factor.diagonal(dim1=-2, dim2=-1).sum()
    if failed is not None or not cmath.isfinite(total.item()):
        finite(op, a=read())
    if failed is not None:
        raise NotPositiveDefinite(
            op=op, index=failed[0], batch=failed[1], hint="Use lu_factor or ldl for indefinite matrices"
        )


def divides(x: Tensor) -> bool:
    """Return whether no entry is zero, infinite or NaN."""
    if x.ndim == 1 and x.numel() <= 64:
        # in less time than one function of torch takes
        entries = x.tolist()
        return all(entries) and (cmath.isfinite(sum(entries)) or all(map(cmath.isfinite, entries)))
    # d / d is 1 but for zeros and what is not finite
    return cmath.isfinite((x / x).sum().item()) or bool(((x != 0) & torch.isfinite(x)).all())


def nonsingular(op: str, diagonal: Tensor, **values: Tensor | Callable[[], Tensor]) -> None:
    """Raise `Singular` where the diagonal of a triangular factor has a zero.

    An infinite divisor would leave no trace in a solution: then the operand that has it is named.
    """
    if not readable(diagonal):
        return
    here = diagonal.detach() if diagonal.requires_grad else diagonal
    if divides(here):
        return
    finite(op, **{name: value if isinstance(value, Tensor) else value() for name, value in values.items()})
    zeros = (here == 0).nonzero()
    if not len(zeros):
        raise NumericalError(op=op, message=f"a pivot overflows {diagonal.dtype}", hint="Rescale the matrix")
    *batch, index = zeros[0].tolist()
    raise Singular(op=op, index=index, batch=tuple(batch), hint="Use lstsq or pinv for singular matrices")


# What of a solution is divided by itself in less time than another pass over it takes.
_SOME = 1 << 12


def check_solution(op: str, x: Tensor, matrix: Tensor | None, **values: Tensor | Callable[[], Tensor]) -> None:
    """Raise unless the solution is finite, and the diagonal of ``matrix``, if given, nonzero and finite.

    One that is not leaves an entry of every column infinite, NaN or zero: without such an entry nothing is wrong.
    """
    if matrix is not None and readable(x):
        some = x.detach() if x.numel() <= _SOME else x.detach()[..., 0]
        if not x.numel() or not cmath.isfinite((some / some).sum().item()):
            nonsingular(op, matrix.diagonal(0, -2, -1), **values)
        elif x.numel() <= _SOME:
            return
    check_result(op, x, **values)


def write_results(op: str, out: Any, computed: R, **inputs: Tensor) -> R:
    """Return the results, in the memory given for them if any: everything is checked before anything is written."""
    if out is None:
        return computed
    results = computed if isinstance(computed, tuple) else (computed,)
    targets = tuple(check.sequence(op, "out", out)) if isinstance(computed, tuple) else (out,)
    if len(targets) != len(results):
        raise ArgumentError(op, "number of tensors in out", len(targets), f"{len(results)}, one for each result")
    for i, (target, result) in enumerate(zip(targets, results, strict=True)):
        check.out(op, target, shape=tuple(result.shape), dtype=result.dtype, **inputs)
        inputs[f"out[{i}]"] = target
    for target, result in zip(targets, results, strict=True):
        target.copy_(result)
    if not isinstance(computed, tuple):
        return out
    return type(computed)(*targets) if hasattr(computed, "_fields") else targets  # type: ignore[return-value]


def roundoff(dtype: torch.dtype) -> float:
    """Return the unit roundoff."""
    return ROUNDOFF[dtype]


def double_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of twice the digits: float64 or complex128."""
    return torch.complex128 if dtype.is_complex else torch.float64
