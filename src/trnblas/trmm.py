"""Products with a triangular matrix: trmm, trmv."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas import host_blas
from trnblas.accuracy import choose_for_size, error_bound, working_dtype
from trnblas.arguments import (
    HALF,
    check_sides,
    combine,
    conjugate,
    flag,
    in_place,
    nonsingular,
    stack,
    transpose_by,
    transposition,
    triangle,
)
from trnblas.gemm import gemm
from trnblas.kernels import trmm as kernels
from trnsci import array_function, check, op, run
from trnsci.accuracy import state_error
from trnsci.gradient import saves
from trnsci.nki import P_MAX, launch
from trnsci.precision import Precision, resolve

# Below this the whole product is cheaper than its parts; a GPU has to be filled first.
_SMALL, _SMALL_GPU = 256, 2048
# Rows whose tiles stay in SBUF; longer ones go through the whole product.
_LARGEST = 8192


@array_function
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
    """Return ``alpha * op(a) @ b``, or ``alpha * b @ op(a)``, with ``a`` triangular.

    Args:
        alpha: a number.
        a: [..., M, M] on the left, [..., N, N] on the right. Only the triangle ``lower`` names is read.
        b: [..., M, N]
        side: ``a`` on the left (0, ``"l"``) or on the right (1, ``"r"``).
        lower: ``a`` is lower triangular (1, ``"l"``) or upper triangular (0, ``"u"``), before ``trans_a``.
        trans_a: ``"n"``, ``"t"`` or ``"c"``.
        diag: 1 or ``"u"``: the diagonal of ``a`` is not read and counts as ones.
        precision: ``fast``, ``fp32``, ``compensated`` or ``fp64``; by default never less precise than the operands.
        out: [..., M, N], memory for the result, shared with no operand.

    Error bound:
        That of `gemm` with the triangle of ``a``.

    Example:
        >>> trmm(1.0, torch.ones(2, 2), torch.eye(2), lower=True)
        tensor([[1., 0.],
                [1., 1.]])
    """
    flags: dict[str, Any] = {"side": side, "lower": lower, "trans": trans_a, "diag": diag}
    return triangular("trmm", Trmm, a, b, alpha=alpha, **flags, precision=precision, out=out)


@array_function
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
    """Return ``op(a) @ x`` with ``a`` [..., N, N] triangular and ``x`` [..., N]; flags as for `trmm`.

    Example:
        >>> trmv(torch.ones(2, 2), torch.ones(2))
        tensor([2., 1.])
    """
    flags: dict[str, Any] = {"lower": lower, "trans": trans, "diag": diag}
    return triangular("trmv", Trmm, a, x, **flags, vector=True, precision=precision, out=out)


def triangular(
    name: str,
    kind: type[Trmm],
    a: Tensor,
    b: Tensor,
    *,
    alpha: complex = 1.0,
    side: bool | int | str = False,
    lower: bool | int | str = False,
    trans: bool | int | str = False,
    diag: bool | int | str = False,
    vector: bool = False,
    precision: Precision | None = None,
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Check the arguments and bring every side and transposition to ``op(a) @ b`` with ``op(a)`` lower or upper."""
    right, is_lower = flag(name, "side", side, "lr"), flag(name, "lower", lower, "ul")
    trans_a, unit = transposition(name, trans, "trans" if vector else "trans_a"), flag(name, "diag", diag, "nu")
    shape = check_sides(name, a, b, None, right, vector="M" if vector else "", out=out)
    dtype = a.dtype
    alpha = check.coefficient(name, "alpha", alpha, dtype)
    policy = resolve(name, precision, dtype)
    if target_error is not None:
        # How far a solution grows is not known beforehand, so that float64 stays in its own range.
        policy = choose_for_size(name, precision, target_error, dtype, solve_bound, None, N=a.shape[-1])
    if vector:
        b, shape = b.unsqueeze(-1), (*shape, 1)
    factor = transpose_by(trans_a, a)
    is_lower = is_lower if trans_a == "n" else not is_lower
    if alpha == 0:
        result = b.new_zeros(shape)
        state_error(0.0)
    elif right:
        # b @ op(a) is the transpose of op(a).T @ b.T.
        result = run(kind(factor.mT, b.mT, alpha, not is_lower, unit, policy)).mT
    else:
        result = run(kind(factor, b, alpha, is_lower, unit, policy))
    if vector:
        result = result.squeeze(-1)
    if kind is not Trmm and not unit:
        nonsingular(name, a, result, lambda matrix: matrix.diagonal(0, -2, -1))
    return result if out is None else out.copy_(result)


def solve_bound(n: int, dtype: torch.dtype, precision: Precision) -> float:
    """Return the guaranteed error of a triangular solve of N rows, relative to ``|inv(a)| |a| |inv(a)| |b|``."""
    # One refinement step leaves what conditioning leaves; what is certain is the error before it.
    plain: Precision = precision
    if precision == "compensated":
        plain = "fp64" if dtype in (torch.float64, torch.complex128) else "fp32"
    # Complex systems are real ones of twice the size, after scaling; either part of either factor may err.
    return (4 if dtype.is_complex else 1) * error_bound(2 * n + P_MAX, dtype, plain)


@op("trnblas::trmm")
class Trmm(NamedTuple):
    """``alpha * a @ b`` with ``a`` triangular; `trnblas.trsm` derives the call with its inverse."""

    a: Tensor  # [..., M, M]
    b: Tensor  # [..., M, N]
    alpha: complex
    lower: bool
    unit: bool
    precision: Precision

    @property
    def routine(self) -> str:
        """BLAS's routine, less the letter for a vector or a matrix."""
        return "trm"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return (*check.broadcast(f"{self.routine}m", a=self.a.shape[:-2], b=self.b.shape[:-2]), *self.b.shape[-2:])

    def fake(self) -> Tensor:
        return self.b.new_empty(self.shape)

    def cost(self) -> int:
        return math.prod(self.shape) * self.a.shape[-1] * (4 if self.a.is_complex() else 1)

    def bound(self, implementation: str) -> float:
        return error_bound(self.a.shape[-1], self.a.dtype, self.precision)

    def limits(self, implementation: str) -> str | None:
        return host_blas.refusal(self.a, self.b, precision=self.precision) if implementation == "host" else None

    def calls(self, implementation: str) -> str:
        return host_blas.name(self.routine + ("v" if self.b.shape[-1] == 1 else "m"), self.a)

    def host(self) -> Tensor:
        return host_blas.triangular(self.routine, self.alpha.real, self.a, self.b, self.lower, self.unit)

    def pytorch(self) -> Tensor:
        a, b = self.a, self.b
        native = self.precision in ("fp32", "fp64") and working_dtype(self.precision, a.dtype) is a.dtype
        if native and a.is_cuda and self.alpha == 1 and a.shape[-1] <= 2 * _SMALL_GPU:
            return triangle(a, self.lower, self.unit) @ b
        if (
            a.shape[-1] <= 2 * (_SMALL_GPU if a.is_cuda else _SMALL)
            or b.shape[-1] < 32
            or not native
            or not in_place(a, b)
        ):
            return gemm(self.alpha, triangle(a, self.lower, self.unit), b, precision=self.precision)
        result = b.new_empty(self.shape)
        _fill(result, a, b, self.lower, self.unit)
        return result if self.alpha == 1 else result.mul_(self.alpha)

    @saves("a", "b")
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        a, b, lower, unit, policy = self.a, self.b, self.lower, self.unit, self.precision
        alpha = conjugate(self.alpha, a)
        gradients = {}
        if "a" in needs:
            whole = gemm(alpha, grad, b, trans_b="c", precision=policy)
            kept = (whole.tril(-1) if lower else whole.triu(1)) if unit else triangle(whole, lower)
            gradients["a"] = kept.sum_to_size(a.shape)
        if "b" in needs:
            gradients["b"] = run(Trmm(a.mH, grad, alpha, not lower, unit, policy)).sum_to_size(b.shape)
        return gradients

    def nki(self) -> Tensor:
        a, b, shape = self.a, self.b, self.shape
        if 0 in shape:
            return b.new_empty(shape)
        if a.is_complex() or self.precision in ("fp64", "compensated") or a.shape[-1] > _LARGEST:
            # Planes and slices are cut from the triangle with its zeros.
            return gemm(self.alpha, triangle(a, self.lower, self.unit), b, precision=self.precision)
        operand = a.dtype if a.dtype in HALF else torch.bfloat16 if self.precision == "fast" else torch.float32
        aT, columns = stack(a.mT.to(operand), shape[:-2]), b.to(operand).expand(shape).reshape(-1, *shape[-2:])
        flags = {"lower": self.lower, "unit": self.unit}
        product: Tensor = launch(kernels.trmm, aT.contiguous(), columns.contiguous(), **flags)
        return combine(product.reshape(shape), self.alpha, 0.0, None, a.dtype)


def _fill(out: Tensor, a: Tensor, b: Tensor, lower: bool, unit: bool) -> None:
    """Halve the triangle until the whole product is cheap; the square beside it is a product."""
    n = a.shape[-1]
    if n <= (_SMALL_GPU if a.is_cuda else _SMALL):
        out.copy_(triangle(a, lower, unit) @ b)
        return
    h = n // 2
    top, bottom = b[..., :h, :], b[..., h:, :]
    _fill(out[..., :h, :], a[..., :h, :h], top, lower, unit)
    _fill(out[..., h:, :], a[..., h:, h:], bottom, lower, unit)
    if lower:
        out[..., h:, :] += a[..., h:, :h] @ top
    else:
        out[..., :h, :] += a[..., :h, h:] @ bottom
