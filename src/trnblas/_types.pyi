"""Types of trnblas: written by ``python -m tools.stubs`` from the signatures in the source."""

from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor

from trnblas.epilogue import Epilogue
from trnsci.arrays import Array
from trnsci.config import BackendName
from trnsci.precision import Precision

@overload
def asum(
    x: Tensor, *, precision: Precision | None = None, target_error: float | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the sum of ``|x|`` over the last axis; ``|Re| + |Im|`` for complex vectors, as BLAS does."""

@overload
def asum(
    x: Array, *, precision: Precision | None = None, target_error: float | None = None, out: Array | None = None
) -> Array:
    """Return the sum of ``|x|`` over the last axis; ``|Re| + |Im|`` for complex vectors, as BLAS does."""

@overload
def asum(
    x: Tensor | Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return the sum of ``|x|`` over the last axis; ``|Re| + |Im|`` for complex vectors, as BLAS does."""

@overload
def axpy(x: Tensor, y: Tensor, a: complex = 1.0, *, out: Tensor | None = None) -> Tensor:
    """Return ``a * x + y``."""

@overload
def axpy(x: Array, y: Array, a: complex = 1.0, *, out: Array | None = None) -> Array:
    """Return ``a * x + y``."""

@overload
def axpy(x: Tensor | Array, y: Tensor | Array, a: complex = 1.0, *, out: Tensor | Array | None = None) -> Tensor:
    """Return ``a * x + y``."""

@overload
def copy(x: Tensor, y: Tensor | None = None) -> Tensor:
    """Copy ``x`` into ``y`` and return ``y``; without ``y``, return a new tensor."""

@overload
def copy(x: Array, y: Array | None = None) -> Array:
    """Copy ``x`` into ``y`` and return ``y``; without ``y``, return a new tensor."""

@overload
def copy(x: Tensor | Array, y: Tensor | Array | None = None) -> Tensor:
    """Copy ``x`` into ``y`` and return ``y``; without ``y``, return a new tensor."""

@overload
def dgmm(a: Tensor, x: Tensor, side: bool | int | str = True, *, out: Tensor | None = None) -> Tensor:
    """Return ``a @ diag(x)``, or ``diag(x) @ a``."""

@overload
def dgmm(a: Array, x: Array, side: bool | int | str = True, *, out: Array | None = None) -> Array:
    """Return ``a @ diag(x)``, or ``diag(x) @ a``."""

@overload
def dgmm(
    a: Tensor | Array, x: Tensor | Array, side: bool | int | str = True, *, out: Tensor | Array | None = None
) -> Tensor:
    """Return ``a @ diag(x)``, or ``diag(x) @ a``."""

@overload
def dot(
    x: Tensor,
    y: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``sum(x * y)`` over the last axis, without conjugation."""

@overload
def dot(
    x: Array,
    y: Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``sum(x * y)`` over the last axis, without conjugation."""

@overload
def dot(
    x: Tensor | Array,
    y: Tensor | Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``sum(x * y)`` over the last axis, without conjugation."""

@overload
def dotc(
    x: Tensor,
    y: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``sum(conj(x) * y)`` over the last axis; arguments and bound as for `dot`."""

@overload
def dotc(
    x: Array,
    y: Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``sum(conj(x) * y)`` over the last axis; arguments and bound as for `dot`."""

@overload
def dotc(
    x: Tensor | Array,
    y: Tensor | Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``sum(conj(x) * y)`` over the last axis; arguments and bound as for `dot`."""

@overload
def dotu(
    x: Tensor,
    y: Tensor,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``sum(x * y)``: `dot` under BLAS's name for complex vectors."""

@overload
def dotu(
    x: Array,
    y: Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``sum(x * y)``: `dot` under BLAS's name for complex vectors."""

@overload
def dotu(
    x: Tensor | Array,
    y: Tensor | Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``sum(x * y)``: `dot` under BLAS's name for complex vectors."""

@overload
def gbmv(
    m: int,
    n: int,
    kl: int,
    ku: int,
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    trans: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(A) @ x + beta * y`` with A [M, N] of ``kl`` diagonals below and ``ku`` above the main one."""

@overload
def gbmv(
    m: int,
    n: int,
    kl: int,
    ku: int,
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    trans: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * op(A) @ x + beta * y`` with A [M, N] of ``kl`` diagonals below and ``ku`` above the main one."""

@overload
def gbmv(
    m: int,
    n: int,
    kl: int,
    ku: int,
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    trans: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * op(A) @ x + beta * y`` with A [M, N] of ``kl`` diagonals below and ``ku`` above the main one."""

@overload
def geam(
    alpha: complex,
    a: Tensor,
    beta: complex,
    b: Tensor,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(a) + beta * op(b)``."""

@overload
def geam(
    alpha: complex,
    a: Array,
    beta: complex,
    b: Array,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * op(a) + beta * op(b)``."""

@overload
def geam(
    alpha: complex,
    a: Tensor | Array,
    beta: complex,
    b: Tensor | Array,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * op(a) + beta * op(b)``."""

@overload
def gemm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    epilogue: Epilogue | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply matrices: ``alpha * op(a) @ op(b) + beta * c``."""

@overload
def gemm(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    epilogue: Epilogue | None = None,
    out: Array | None = None,
) -> Array:
    """Multiply matrices: ``alpha * op(a) @ op(b) + beta * c``."""

@overload
def gemm(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    epilogue: Epilogue | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Multiply matrices: ``alpha * op(a) @ op(b) + beta * c``."""

@overload
def gemm_int(
    a: Tensor,
    b: Tensor,
    *,
    zero_a: int = 0,
    zero_b: int = 0,
    bias: Tensor | None = None,
    c: Tensor | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply matrices of 8-bit integers exactly: ``(op(a) - zero_a) @ (op(b) - zero_b) + c + bias``, in int32."""

@overload
def gemm_int(
    a: Array,
    b: Array,
    *,
    zero_a: int = 0,
    zero_b: int = 0,
    bias: Array | None = None,
    c: Array | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    out: Array | None = None,
) -> Array:
    """Multiply matrices of 8-bit integers exactly: ``(op(a) - zero_a) @ (op(b) - zero_b) + c + bias``, in int32."""

@overload
def gemm_int(
    a: Tensor | Array,
    b: Tensor | Array,
    *,
    zero_a: int = 0,
    zero_b: int = 0,
    bias: Tensor | Array | None = None,
    c: Tensor | Array | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Multiply matrices of 8-bit integers exactly: ``(op(a) - zero_a) @ (op(b) - zero_b) + c + bias``, in int32."""

@overload
def gemm_scaled(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor | float = 1.0,
    scale_b: Tensor | float = 1.0,
    *,
    bias: Tensor | None = None,
    dtype: torch.dtype = ...,
) -> Tensor:
    """Multiply FP8 matrices with scales: ``(scale_a * a) @ (scale_b * b) + bias``."""

@overload
def gemm_scaled(
    a: Array,
    b: Array,
    scale_a: Array | float = 1.0,
    scale_b: Array | float = 1.0,
    *,
    bias: Array | None = None,
    dtype: torch.dtype = ...,
) -> Array:
    """Multiply FP8 matrices with scales: ``(scale_a * a) @ (scale_b * b) + bias``."""

@overload
def gemm_scaled(
    a: Tensor | Array,
    b: Tensor | Array,
    scale_a: Tensor | Array | float = 1.0,
    scale_b: Tensor | Array | float = 1.0,
    *,
    bias: Tensor | Array | None = None,
    dtype: torch.dtype = ...,
) -> Tensor:
    """Multiply FP8 matrices with scales: ``(scale_a * a) @ (scale_b * b) + bias``."""

@overload
def gemv(
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    trans: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(a) @ x + beta * y``."""

@overload
def gemv(
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    trans: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * op(a) @ x + beta * y``."""

@overload
def gemv(
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    trans: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * op(a) @ x + beta * y``."""

@overload
def ger(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ``alpha * outer(x, y) + a``, without conjugation."""

@overload
def ger(alpha: complex, x: Array, y: Array, a: Array | None = None, *, out: Array | None = None) -> Array:
    """Return ``alpha * outer(x, y) + a``, without conjugation."""

@overload
def ger(
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, y) + a``, without conjugation."""

@overload
def gerc(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ``alpha * outer(x, conj(y)) + a``; arguments as for `ger`."""

@overload
def gerc(alpha: complex, x: Array, y: Array, a: Array | None = None, *, out: Array | None = None) -> Array:
    """Return ``alpha * outer(x, conj(y)) + a``; arguments as for `ger`."""

@overload
def gerc(
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, conj(y)) + a``; arguments as for `ger`."""

@overload
def geru(alpha: complex, x: Tensor, y: Tensor, a: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return ``alpha * outer(x, y) + a``: `ger` under BLAS's name for complex vectors."""

@overload
def geru(alpha: complex, x: Array, y: Array, a: Array | None = None, *, out: Array | None = None) -> Array:
    """Return ``alpha * outer(x, y) + a``: `ger` under BLAS's name for complex vectors."""

@overload
def geru(
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, y) + a``: `ger` under BLAS's name for complex vectors."""

def get_backend() -> BackendName:
    """Return the backend of trnblas in force here."""

@overload
def grouped_gemm(
    alpha: complex,
    a: Sequence[Tensor],
    b: Sequence[Tensor],
    beta: complex = 0.0,
    c: Sequence[Tensor] | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
) -> list[Tensor]:
    """Return ``alpha * op(a[g]) @ op(b[g]) + beta * c[g]`` for every g, all in one program on the device."""

@overload
def grouped_gemm(
    alpha: complex,
    a: Sequence[Array],
    b: Sequence[Array],
    beta: complex = 0.0,
    c: Sequence[Array] | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
) -> list[Array]:
    """Return ``alpha * op(a[g]) @ op(b[g]) + beta * c[g]`` for every g, all in one program on the device."""

@overload
def grouped_gemm(
    alpha: complex,
    a: Sequence[Tensor | Array],
    b: Sequence[Tensor | Array],
    beta: complex = 0.0,
    c: Sequence[Tensor | Array] | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    *,
    precision: Precision | None = None,
) -> list[Tensor]:
    """Return ``alpha * op(a[g]) @ op(b[g]) + beta * c[g]`` for every g, all in one program on the device."""

@overload
def hbmv(
    k: int,
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * A @ x + beta * y`` with A Hermitian; the imaginary diagonal is not read. As `sbmv` otherwise."""

@overload
def hbmv(
    k: int,
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * A @ x + beta * y`` with A Hermitian; the imaginary diagonal is not read. As `sbmv` otherwise."""

@overload
def hbmv(
    k: int,
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * A @ x + beta * y`` with A Hermitian; the imaginary diagonal is not read. As `sbmv` otherwise."""

@overload
def hemm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ b + beta * c`` with ``a`` Hermitian; imaginary parts of its diagonal are not read."""

@overload
def hemm(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * a @ b + beta * c`` with ``a`` Hermitian; imaginary parts of its diagonal are not read."""

@overload
def hemm(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * a @ b + beta * c`` with ``a`` Hermitian; imaginary parts of its diagonal are not read."""

@overload
def hemv(
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ x + beta * y`` with ``a`` Hermitian; arguments as for `symv`."""

@overload
def hemv(
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * a @ x + beta * y`` with ``a`` Hermitian; arguments as for `symv`."""

@overload
def hemv(
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * a @ x + beta * y`` with ``a`` Hermitian; arguments as for `symv`."""

@overload
def her(
    alpha: complex, x: Tensor, lower: bool | int | str = False, a: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Return one triangle of ``alpha * outer(x, conj(x)) + a``, ``alpha`` and the diagonal real; otherwise as `syr`."""

@overload
def her(
    alpha: complex, x: Array, lower: bool | int | str = False, a: Array | None = None, *, out: Array | None = None
) -> Array:
    """Return one triangle of ``alpha * outer(x, conj(x)) + a``, ``alpha`` and the diagonal real; otherwise as `syr`."""

@overload
def her(
    alpha: complex,
    x: Tensor | Array,
    lower: bool | int | str = False,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * outer(x, conj(x)) + a``, ``alpha`` and the diagonal real; otherwise as `syr`."""

@overload
def her2(
    alpha: complex,
    x: Tensor,
    y: Tensor,
    lower: bool | int | str = False,
    a: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``; else as `syr`."""

@overload
def her2(
    alpha: complex,
    x: Array,
    y: Array,
    lower: bool | int | str = False,
    a: Array | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """Return one triangle of ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``; else as `syr`."""

@overload
def her2(
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    lower: bool | int | str = False,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``; else as `syr`."""

@overload
def her2k(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(b).mH + conj(alpha) * op(b) @ op(a).mH + beta * c``."""

@overload
def her2k(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array:
    """Return one triangle of ``alpha * op(a) @ op(b).mH + conj(alpha) * op(b) @ op(a).mH + beta * c``."""

@overload
def her2k(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(b).mH + conj(alpha) * op(b) @ op(a).mH + beta * c``."""

@overload
def herk(
    alpha: complex,
    a: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(a).mH + beta * c``, with real coefficients and a real diagonal."""

@overload
def herk(
    alpha: complex,
    a: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array:
    """Return one triangle of ``alpha * op(a) @ op(a).mH + beta * c``, with real coefficients and a real diagonal."""

@overload
def herk(
    alpha: complex,
    a: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(a).mH + beta * c``, with real coefficients and a real diagonal."""

@overload
def hpmv(
    n: int,
    alpha: complex,
    ap: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ x + beta * y`` with ``a`` Hermitian and packed; arguments as for `spmv`."""

@overload
def hpmv(
    n: int,
    alpha: complex,
    ap: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * a @ x + beta * y`` with ``a`` Hermitian and packed; arguments as for `spmv`."""

@overload
def hpmv(
    n: int,
    alpha: complex,
    ap: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * a @ x + beta * y`` with ``a`` Hermitian and packed; arguments as for `spmv`."""

@overload
def hpr(
    n: int, alpha: complex, x: Tensor, ap: Tensor, lower: bool | int | str = False, *, out: Tensor | None = None
) -> Tensor:
    """Return ``alpha * outer(x, conj(x)) + a``, packed like ``ap``."""

@overload
def hpr(
    n: int, alpha: complex, x: Array, ap: Array, lower: bool | int | str = False, *, out: Array | None = None
) -> Array:
    """Return ``alpha * outer(x, conj(x)) + a``, packed like ``ap``."""

@overload
def hpr(
    n: int,
    alpha: complex,
    x: Tensor | Array,
    ap: Tensor | Array,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, conj(x)) + a``, packed like ``ap``."""

@overload
def hpr2(
    n: int,
    alpha: complex,
    x: Tensor,
    y: Tensor,
    ap: Tensor,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``, packed like ``ap``."""

@overload
def hpr2(
    n: int, alpha: complex, x: Array, y: Array, ap: Array, lower: bool | int | str = False, *, out: Array | None = None
) -> Array:
    """Return ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``, packed like ``ap``."""

@overload
def hpr2(
    n: int,
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    ap: Tensor | Array,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, conj(y)) + conj(alpha) * outer(y, conj(x)) + a``, packed like ``ap``."""

@overload
def iamax(x: Tensor) -> Tensor:
    """Return the position (from 0) of the first element of largest ``|x|``; ``|Re| + |Im|`` for complex vectors."""

@overload
def iamax(x: Array) -> Array:
    """Return the position (from 0) of the first element of largest ``|x|``; ``|Re| + |Im|`` for complex vectors."""

@overload
def iamin(x: Tensor) -> Tensor:
    """Return the position (from 0) of the first element of smallest ``|x|``; a NaN counts as smaller than any
    number."""

@overload
def iamin(x: Array) -> Array:
    """Return the position (from 0) of the first element of smallest ``|x|``; a NaN counts as smaller than any
    number."""

@overload
def matmul(a: Tensor, b: Tensor, *, precision: Precision | None = None, out: Tensor | None = None) -> Tensor:
    """Return ``a @ b`` as ``numpy.matmul`` does: vectors are rows or columns, leading axes of batches broadcast."""

@overload
def matmul(a: Array, b: Array, *, precision: Precision | None = None, out: Array | None = None) -> Array:
    """Return ``a @ b`` as ``numpy.matmul`` does: vectors are rows or columns, leading axes of batches broadcast."""

@overload
def matmul(
    a: Tensor | Array, b: Tensor | Array, *, precision: Precision | None = None, out: Tensor | Array | None = None
) -> Tensor:
    """Return ``a @ b`` as ``numpy.matmul`` does: vectors are rows or columns, leading axes of batches broadcast."""

@overload
def mp2_energy(
    t_flat: Tensor,
    eps_occ_chunk: Tensor,
    eps_occ_full: Tensor,
    eps_vir: Tensor,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Tensor:
    """Return the energy of a chunk of occupied orbitals: the sum of `mp2_pairs`, a number."""

@overload
def mp2_energy(
    t_flat: Array,
    eps_occ_chunk: Array,
    eps_occ_full: Array,
    eps_vir: Array,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Array:
    """Return the energy of a chunk of occupied orbitals: the sum of `mp2_pairs`, a number."""

@overload
def mp2_energy(
    t_flat: Tensor | Array,
    eps_occ_chunk: Tensor | Array,
    eps_occ_full: Tensor | Array,
    eps_vir: Tensor | Array,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Tensor:
    """Return the energy of a chunk of occupied orbitals: the sum of `mp2_pairs`, a number."""

@overload
def mp2_pairs(
    t_flat: Tensor,
    eps_occ_chunk: Tensor,
    eps_occ_full: Tensor,
    eps_vir: Tensor,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Tensor:
    """Return the energy of every pair of occupied orbitals, ``sum over ab of T (2 T - T') / D``."""

@overload
def mp2_pairs(
    t_flat: Array,
    eps_occ_chunk: Array,
    eps_occ_full: Array,
    eps_vir: Array,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Array:
    """Return the energy of every pair of occupied orbitals, ``sum over ab of T (2 T - T') / D``."""

@overload
def mp2_pairs(
    t_flat: Tensor | Array,
    eps_occ_chunk: Tensor | Array,
    eps_occ_full: Tensor | Array,
    eps_vir: Tensor | Array,
    *,
    symmetric: bool = False,
    first: int = 0,
    target_error: float = 1e-07,
) -> Tensor:
    """Return the energy of every pair of occupied orbitals, ``sum over ab of T (2 T - T') / D``."""

@overload
def nrm2(
    x: Tensor, *, precision: Precision | None = None, target_error: float | None = None, out: Tensor | None = None
) -> Tensor:
    """Return the Euclidean norm over the last axis, safe from overflow and underflow; arguments as for `asum`."""

@overload
def nrm2(
    x: Array, *, precision: Precision | None = None, target_error: float | None = None, out: Array | None = None
) -> Array:
    """Return the Euclidean norm over the last axis, safe from overflow and underflow; arguments as for `asum`."""

@overload
def nrm2(
    x: Tensor | Array,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return the Euclidean norm over the last axis, safe from overflow and underflow; arguments as for `asum`."""

@overload
def rot(x: Tensor, y: Tensor, c: float, s: complex) -> tuple[Tensor, Tensor]:
    """Apply a plane rotation: ``(c x + s y, c y - conj(s) x)``."""

@overload
def rot(x: Array, y: Array, c: float, s: complex) -> tuple[Array, Array]:
    """Apply a plane rotation: ``(c x + s y, c y - conj(s) x)``."""

@overload
def rot(x: Tensor | Array, y: Tensor | Array, c: float, s: complex) -> tuple[Tensor, Tensor]:
    """Apply a plane rotation: ``(c x + s y, c y - conj(s) x)``."""

@overload
def rotg(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Make the plane rotation that zeroes ``b``: ``[[c, s], [-conj(s), c]] @ [a, b] = [r, 0]``."""

@overload
def rotg(a: Array, b: Array) -> tuple[Array, Array]:
    """Make the plane rotation that zeroes ``b``: ``[[c, s], [-conj(s), c]] @ [a, b] = [r, 0]``."""

@overload
def rotg(a: Tensor | Array, b: Tensor | Array) -> tuple[Tensor, Tensor]:
    """Make the plane rotation that zeroes ``b``: ``[[c, s], [-conj(s), c]] @ [a, b] = [r, 0]``."""

@overload
def rotm(x: Tensor, y: Tensor, param: Tensor) -> tuple[Tensor, Tensor]:
    """Apply a modified Givens rotation ``H = [[h11, h12], [h21, h22]]``: ``(h11 x + h12 y, h21 x + h22 y)``."""

@overload
def rotm(x: Array, y: Array, param: Array) -> tuple[Array, Array]:
    """Apply a modified Givens rotation ``H = [[h11, h12], [h21, h22]]``: ``(h11 x + h12 y, h21 x + h22 y)``."""

@overload
def rotm(x: Tensor | Array, y: Tensor | Array, param: Tensor | Array) -> tuple[Tensor, Tensor]:
    """Apply a modified Givens rotation ``H = [[h11, h12], [h21, h22]]``: ``(h11 x + h12 y, h21 x + h22 y)``."""

@overload
def sbmv(
    k: int,
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * A @ x + beta * y`` with A symmetric, ``k`` diagonals beside the main one, one side stored."""

@overload
def sbmv(
    k: int,
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * A @ x + beta * y`` with A symmetric, ``k`` diagonals beside the main one, one side stored."""

@overload
def sbmv(
    k: int,
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * A @ x + beta * y`` with A symmetric, ``k`` diagonals beside the main one, one side stored."""

@overload
def scal(a: complex, x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return ``a * x``. Error: one rounding."""

@overload
def scal(a: complex, x: Array, *, out: Array | None = None) -> Array:
    """Return ``a * x``. Error: one rounding."""

@overload
def scal(a: complex, x: Tensor | Array, *, out: Tensor | Array | None = None) -> Tensor:
    """Return ``a * x``. Error: one rounding."""

def set_backend(backend: BackendName | None, *, strict: bool = True) -> None:
    """Set the backend of trnblas: ``auto``, ``nki``, ``simulator`` or ``pytorch``."""

@overload
def spmv(
    n: int,
    alpha: complex,
    ap: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ x + beta * y`` with ``a`` symmetric and packed: ``ap`` is [..., N (N + 1) / 2]."""

@overload
def spmv(
    n: int,
    alpha: complex,
    ap: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * a @ x + beta * y`` with ``a`` symmetric and packed: ``ap`` is [..., N (N + 1) / 2]."""

@overload
def spmv(
    n: int,
    alpha: complex,
    ap: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * a @ x + beta * y`` with ``a`` symmetric and packed: ``ap`` is [..., N (N + 1) / 2]."""

@overload
def spr(
    n: int, alpha: complex, x: Tensor, ap: Tensor, lower: bool | int | str = False, *, out: Tensor | None = None
) -> Tensor:
    """Return ``alpha * outer(x, x) + a``, packed like ``ap``."""

@overload
def spr(
    n: int, alpha: complex, x: Array, ap: Array, lower: bool | int | str = False, *, out: Array | None = None
) -> Array:
    """Return ``alpha * outer(x, x) + a``, packed like ``ap``."""

@overload
def spr(
    n: int,
    alpha: complex,
    x: Tensor | Array,
    ap: Tensor | Array,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * outer(x, x) + a``, packed like ``ap``."""

@overload
def spr2(
    n: int,
    alpha: complex,
    x: Tensor,
    y: Tensor,
    ap: Tensor,
    lower: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * (outer(x, y) + outer(y, x)) + a``, packed like ``ap``."""

@overload
def spr2(
    n: int, alpha: complex, x: Array, y: Array, ap: Array, lower: bool | int | str = False, *, out: Array | None = None
) -> Array:
    """Return ``alpha * (outer(x, y) + outer(y, x)) + a``, packed like ``ap``."""

@overload
def spr2(
    n: int,
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    ap: Tensor | Array,
    lower: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * (outer(x, y) + outer(y, x)) + a``, packed like ``ap``."""

@overload
def swap(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return copies of ``y`` and ``x``, exchanged."""

@overload
def swap(x: Array, y: Array) -> tuple[Array, Array]:
    """Return copies of ``y`` and ``x``, exchanged."""

@overload
def swap(x: Tensor | Array, y: Tensor | Array) -> tuple[Tensor, Tensor]:
    """Return copies of ``y`` and ``x``, exchanged."""

@overload
def symm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ b + beta * c``, or ``alpha * b @ a + beta * c``, with ``a`` symmetric."""

@overload
def symm(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * a @ b + beta * c``, or ``alpha * b @ a + beta * c``, with ``a`` symmetric."""

@overload
def symm(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * a @ b + beta * c``, or ``alpha * b @ a + beta * c``, with ``a`` symmetric."""

@overload
def symv(
    alpha: complex,
    a: Tensor,
    x: Tensor,
    beta: complex = 0.0,
    y: Tensor | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * a @ x + beta * y`` with ``a`` [..., N, N] symmetric, one triangle stored."""

@overload
def symv(
    alpha: complex,
    a: Array,
    x: Array,
    beta: complex = 0.0,
    y: Array | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * a @ x + beta * y`` with ``a`` [..., N, N] symmetric, one triangle stored."""

@overload
def symv(
    alpha: complex,
    a: Tensor | Array,
    x: Tensor | Array,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * a @ x + beta * y`` with ``a`` [..., N, N] symmetric, one triangle stored."""

@overload
def syr(
    alpha: complex, x: Tensor, lower: bool | int | str = False, a: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Return one triangle of ``alpha * outer(x, x) + a``; ``x`` is [..., N] and ``a`` [..., N, N]."""

@overload
def syr(
    alpha: complex, x: Array, lower: bool | int | str = False, a: Array | None = None, *, out: Array | None = None
) -> Array:
    """Return one triangle of ``alpha * outer(x, x) + a``; ``x`` is [..., N] and ``a`` [..., N, N]."""

@overload
def syr(
    alpha: complex,
    x: Tensor | Array,
    lower: bool | int | str = False,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * outer(x, x) + a``; ``x`` is [..., N] and ``a`` [..., N, N]."""

@overload
def syr2(
    alpha: complex,
    x: Tensor,
    y: Tensor,
    lower: bool | int | str = False,
    a: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * (outer(x, y) + outer(y, x)) + a``; otherwise as `syr`."""

@overload
def syr2(
    alpha: complex,
    x: Array,
    y: Array,
    lower: bool | int | str = False,
    a: Array | None = None,
    *,
    out: Array | None = None,
) -> Array:
    """Return one triangle of ``alpha * (outer(x, y) + outer(y, x)) + a``; otherwise as `syr`."""

@overload
def syr2(
    alpha: complex,
    x: Tensor | Array,
    y: Tensor | Array,
    lower: bool | int | str = False,
    a: Tensor | Array | None = None,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * (outer(x, y) + outer(y, x)) + a``; otherwise as `syr`."""

@overload
def syr2k(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * (op(a) @ op(b).T + op(b) @ op(a).T) + beta * c``; arguments as for `syrk`."""

@overload
def syr2k(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array:
    """Return one triangle of ``alpha * (op(a) @ op(b).T + op(b) @ op(a).T) + beta * c``; arguments as for `syrk`."""

@overload
def syr2k(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * (op(a) @ op(b).T + op(b) @ op(a).T) + beta * c``; arguments as for `syrk`."""

@overload
def syrk(
    alpha: complex,
    a: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(a).T + beta * c``."""

@overload
def syrk(
    alpha: complex,
    a: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array:
    """Return one triangle of ``alpha * op(a) @ op(a).T + beta * c``."""

@overload
def syrk(
    alpha: complex,
    a: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(a).T + beta * c``."""

@overload
def syrkx(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(b).T + beta * c``, for products known to be symmetric."""

@overload
def syrkx(
    alpha: complex,
    a: Array,
    b: Array,
    beta: complex = 0.0,
    c: Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array:
    """Return one triangle of ``alpha * op(a) @ op(b).T + beta * c``, for products known to be symmetric."""

@overload
def syrkx(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans: bool | int | str = False,
    lower: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return one triangle of ``alpha * op(a) @ op(b).T + beta * c``, for products known to be symmetric."""

@overload
def tbmv(
    k: int,
    a: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``op(A) @ x`` with A triangular of ``k`` diagonals beside the main one, stored as for `sbmv`."""

@overload
def tbmv(
    k: int,
    a: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array:
    """Return ``op(A) @ x`` with A triangular of ``k`` diagonals beside the main one, stored as for `sbmv`."""

@overload
def tbmv(
    k: int,
    a: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``op(A) @ x`` with A triangular of ``k`` diagonals beside the main one, stored as for `sbmv`."""

@overload
def tbsv(
    k: int,
    a: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``op(A) @ y = x`` with A triangular of ``k`` diagonals beside the main one, stored as for `sbmv`."""

@overload
def tbsv(
    k: int,
    a: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array:
    """Solve ``op(A) @ y = x`` with A triangular of ``k`` diagonals beside the main one, stored as for `sbmv`."""

@overload
def tbsv(
    k: int,
    a: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Solve ``op(A) @ y = x`` with A triangular of ``k`` diagonals beside the main one, stored as for `sbmv`."""

@overload
def tpmv(
    n: int,
    ap: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``op(a) @ x`` with ``a`` triangular and packed; flags as for `trmv`."""

@overload
def tpmv(
    n: int,
    ap: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array:
    """Return ``op(a) @ x`` with ``a`` triangular and packed; flags as for `trmv`."""

@overload
def tpmv(
    n: int,
    ap: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``op(a) @ x`` with ``a`` triangular and packed; flags as for `trmv`."""

@overload
def tpsv(
    n: int,
    ap: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``op(a) @ y = x`` with ``a`` triangular and packed; flags as for `trsv`."""

@overload
def tpsv(
    n: int,
    ap: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Array | None = None,
) -> Array:
    """Solve ``op(a) @ y = x`` with ``a`` triangular and packed; flags as for `trsv`."""

@overload
def tpsv(
    n: int,
    ap: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Solve ``op(a) @ y = x`` with ``a`` triangular and packed; flags as for `trsv`."""

@overload
def trmm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(a) @ b``, or ``alpha * b @ op(a)``, with ``a`` triangular."""

@overload
def trmm(
    alpha: complex,
    a: Array,
    b: Array,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``alpha * op(a) @ b``, or ``alpha * b @ op(a)``, with ``a`` triangular."""

@overload
def trmm(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``alpha * op(a) @ b``, or ``alpha * b @ op(a)``, with ``a`` triangular."""

@overload
def trmv(
    a: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``op(a) @ x`` with ``a`` [..., N, N] triangular and ``x`` [..., N]; flags as for `trmm`."""

@overload
def trmv(
    a: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``op(a) @ x`` with ``a`` [..., N, N] triangular and ``x`` [..., N]; flags as for `trmm`."""

@overload
def trmv(
    a: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``op(a) @ x`` with ``a`` [..., N, N] triangular and ``x`` [..., N]; flags as for `trmm`."""

@overload
def trsm(
    alpha: complex,
    a: Tensor,
    b: Tensor,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``op(a) @ x = alpha * b``, or ``x @ op(a) = alpha * b``, with ``a`` triangular."""

@overload
def trsm(
    alpha: complex,
    a: Array,
    b: Array,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Array | None = None,
) -> Array:
    """Solve ``op(a) @ x = alpha * b``, or ``x @ op(a) = alpha * b``, with ``a`` triangular."""

@overload
def trsm(
    alpha: complex,
    a: Tensor | Array,
    b: Tensor | Array,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans_a: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Solve ``op(a) @ x = alpha * b``, or ``x @ op(a) = alpha * b``, with ``a`` triangular."""

@overload
def trsv(
    a: Tensor,
    x: Tensor,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``op(a) @ y = x`` with ``a`` [..., N, N] triangular and ``x`` [..., N]; flags as for `trsm`."""

@overload
def trsv(
    a: Array,
    x: Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Array | None = None,
) -> Array:
    """Solve ``op(a) @ y = x`` with ``a`` [..., N, N] triangular and ``x`` [..., N]; flags as for `trsm`."""

@overload
def trsv(
    a: Tensor | Array,
    x: Tensor | Array,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    *,
    precision: Precision | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Solve ``op(a) @ y = x`` with ``a`` [..., N, N] triangular and ``x`` [..., N]; flags as for `trsm`."""
