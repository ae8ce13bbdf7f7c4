"""Linear systems, inverses and determinants."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import NumericalError, array_function, check, run
from trnsci.accuracy import state_error
from trnsci.analogs import Different, Given, given, named_result, refuse_options, replaces
from trnsolver.arguments import (
    all_finite,
    check_result,
    nonsingular,
    readable,
    right_hand_side,
    square,
    to_adjoint_columns,
    write_results,
)
from trnsolver.array_operands import (
    ILL_CONDITIONED,
    INEXACT,
    as_hermitian,
    as_matrix,
    as_right_sides,
    refuse_ill_conditioned,
    replaces_arrays,
)
from trnsolver.dense.cholesky import cholesky, cholesky_solve
from trnsolver.dense.identity import unit_columns
from trnsolver.dense.lu import LuFactor, LuSolve, lu_factor, lu_solve
from trnsolver.dense.pivots import info
from trnsolver.dense.qr import factor_checked
from trnsolver.dense.solve_triangular import triangular
from trnsolver.dense.spd import by_cholesky
from trnsolver.dense.target_error import solve_to


@array_function
def solve(
    a: Tensor,
    b: Tensor,
    *,
    left: bool = True,
    assume: Literal["gen", "pos"] = "gen",
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``a @ x = b``.

    Args:
        a: [..., N, N].
        b: [..., N, K] or [..., N], by torch's rule; [..., K, N] where ``left`` is false.
        left: solve ``a @ x = b``; otherwise ``x @ a = b``.
        assume: ``gen``, or ``pos`` for Hermitian positive definite matrices.
        target_error: relative forward error to reach, by elimination in float64 or by float32 factors corrected with
            accurate residuals; the result is in float64, for one matrix ``a``. The error is verified;
            `trnsci.achieved` returns it.
        out: where the result goes; it must fit and share no memory with an operand.

    Raises:
        Singular: a pivot is zero.
        NotConverged: ``target_error`` could not be verified; ``residual`` is the error that could.

    Error bound:
        backward: ``norm(b - a @ x) <= 20 N u (norm(a) norm(x) + norm(b))``. Where LU's entries grow by more than N,
        for N of 9 and more, the solution is by QR.

    Example:
        >>> solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.ones(2))
        tensor([0.5000, 0.2500])
        >>> solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.ones(2), target_error=1e-12)
        tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    check.flag("solve", left=left)
    check.option("solve", "assume", assume, ("gen", "pos"))
    if target_error is not None:
        for name, given in (("left", not left), ("out", out is not None)):
            check.refuse(given, "solve", name, "given", "left out with target_error")
        result = solve_to(a, b, target_error)
        state_error(result.bound)
        return result.x
    if not left:
        check.tensor("solve", a=a, b=b)
        columns = to_adjoint_columns("solve", a, b)
        rows = solve(a.mH, columns, assume=assume)
        return write_results("solve", out, rows.mH, a=a, b=b)
    square("solve", look=False, a=a)
    vector = right_hand_side("solve", a, b, look=False)
    columns = b.unsqueeze(-1) if vector else b
    x = by_cholesky(a, columns) if assume == "pos" else _solve_by_lu("solve", a, columns)
    check_result("solve", x, a=a.tril if assume == "pos" else a, b=b)
    return write_results("solve", out, x.squeeze(-1) if vector else x, a=a, b=b)


def _no_factors(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return what stands for the factors that torch's own gradient reads, where the gradient is ours."""
    return a.new_empty(0), a.new_empty(0, dtype=torch.int32)


replaces(
    "aten::_linalg_solve_ex",
    by=solve,
    result=lambda x, a, b, **_: (x, *_no_factors(a), info(x, a, "linalg_inv_ex")),
    complete=lambda x, a, b, **_: (x, *lu_factor(a), info(x, a, "linalg_inv_ex")),
)(lambda a, b, *, left=True, check_errors=False: given(solve, a, b, left=left))
replaces("numpy.linalg.solve", by=solve)(lambda a, b: given(solve, as_matrix(a), as_right_sides(a, b)))


def _plan_scipy(a: Any, b: Any, assume_a: str | None = None, **_: Any) -> Given:
    return given(solve, as_matrix(a), as_right_sides(a, b))


@replaces("scipy.linalg.solve", by=solve, planned=_plan_scipy, result=lambda x, a, b, *_, **__: x.reshape(np.shape(b)))
def _read_scipy(a: Any, b: Any, assume_a: str | None, transposed: bool, **_: Any) -> Given:
    refuse_options(transposed=transposed)
    if assume_a not in (None, "gen", "general", "pos", "positive definite"):
        raise Different(f"assume_a={assume_a!r} has no counterpart")
    matrix, columns = as_matrix(a), as_right_sides(a, b)
    if matrix.ndim > 2 or matrix.shape[0] != matrix.shape[1] or columns.shape[0] != matrix.shape[0]:
        raise Different("a stack of systems, or shapes that do not fit")
    columns = columns[:, None] if columns.ndim == 1 else columns
    if assume_a in ("pos", "positive definite"):
        factor = cholesky(as_hermitian(matrix))
        refuse_ill_conditioned(matrix, "pocon", factor, uplo="L")
        return given(cholesky_solve, columns, factor)
    factors, pivots = lu_factor(matrix)
    refuse_ill_conditioned(matrix, "gecon", factors)
    return given(lu_solve, factors, pivots, columns)


def _solve_by_lu(op: str, a: Tensor, b: Tensor) -> Tensor:
    """Solve by LU, or by QR for the matrices of a batch whose factors grew; the others stay as they are."""
    factors, pivots, transposed = _factor_by_layout(a)
    by_lu = LuSolve(factors, pivots, b, transposed)
    grown, diagonal = _find_growth(factors, a), factors.diagonal(0, -2, -1)
    if grown is None:
        nonsingular(op, diagonal, a=a)
        return run(by_lu)
    q, r = factor_checked(a)
    nonsingular(op, torch.where(grown[..., None], r.diagonal(0, -2, -1), diagonal), a=a)
    x = triangular(r, gemm(1.0, q, b, trans_a="c"), lower=False)
    return torch.where(grown[..., None, None], x, run(by_lu))


# Below, entries double so few times that the bound has room for it: 2**(N - 1) is less than 20 N.
_FEW = 9


def _find_growth(factors: Tensor, a: Tensor) -> Tensor | None:
    """Which matrices' entries grew by more than N, or beyond the dtype, where LU is not stable; ``None`` for none."""
    n = a.shape[-1]
    if n < _FEW or a.numel() == 0 or not readable(factors) or not readable(a):
        return None
    a, factors = a.detach(), factors.detach()
    # The first pivot is an entry of the matrix. L's entries, at most 1, count only where that is small.
    axes = (-2, -1)
    size = factors.abs().amax(axes) if a.is_complex() else torch.maximum(factors.amax(axes), -factors.amin(axes))
    if (size / factors[..., 0, 0].abs()).amax().item() <= n:
        return None
    # An operand that is not finite is the caller's to be told of.
    largest = a.abs().amax((-2, -1))
    grown = ~(factors.triu().abs().amax((-2, -1)) / n <= largest) & torch.isfinite(largest)
    return grown if bool(grown.any()) else None


def _factor_by_layout(a: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Factor ``a``, or its transpose where that lies as LAPACK wants it, and copying one matrix is not cheaper."""
    large = a.shape[-1] > 64 or a.ndim > 2
    transposed = large and a.is_cpu and not a.is_complex() and a.is_contiguous()
    return *run(LuFactor(a.mT if transposed else a)), transposed


def _refuse_inexact(value: Any, a: Any, *_: Any, **__: Any) -> Any:
    """Leave inverses alone that SciPy warns of."""
    if a.ndim > 2 or a.size == 0:
        raise Different("a stack of matrices, or an empty one")
    rcond = 1 / (np.linalg.norm(a, 1) * np.linalg.norm(value, 1))
    if not rcond > INEXACT * np.finfo(value.dtype).eps:
        raise Different(ILL_CONDITIONED)
    return value


@replaces_arrays("scipy.linalg.inv", result=_refuse_inexact)
@replaces_arrays("numpy.linalg.inv")
@array_function
def inv(a: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Invert a matrix [..., N, N] by LU.

    Raises:
        Singular: a pivot is zero.

    Error bound:
        each column is a solution with the bound of `solve`.

    Example:
        >>> inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    square("inv", look=False, a=a)
    x = _solve_by_lu("inv", a, unit_columns(a))
    check_result("inv", x, a=a)
    return write_results("inv", out, x, a=a)


class SlogDet(NamedTuple):
    """``det(a) = sign * exp(logabsdet)``."""

    sign: Tensor
    logabsdet: Tensor


@replaces_arrays("numpy.linalg.slogdet", result=named_result("SlogdetResult"))
@array_function
def slogdet(a: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> SlogDet:
    """Sign (or phase) and logarithm of the modulus of the determinant of ``a`` [..., N, N].

    Example:
        >>> slogdet(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        SlogDet(sign=tensor(-1.), logabsdet=tensor(0.))
    """
    square("slogdet", look=False, a=a)
    factors, pivots, _ = _factor_by_layout(a)
    diagonal = factors.diagonal(0, -2, -1)
    logarithm = diagonal.abs().log().sum(-1)
    if not all_finite(logarithm):
        # that of zero is not, either
        check_result("slogdet", diagonal, a=a)
    return write_results("slogdet", out, SlogDet(_apply_parity(torch.sgn(diagonal).prod(-1), pivots), logarithm), a=a)


def _refuse_overflow(value: Any, *_: Any, **__: Any) -> Any:
    """Leave determinants alone that overflow, of which NumPy warns."""
    if not np.isfinite(value).all():
        raise Different("it overflows")
    return value


def _in_double(value: Any, *_: Any, **__: Any) -> Any:
    """Return determinants as SciPy does, whatever the precision of a matrix."""
    return _refuse_overflow(value).astype(np.complex128 if np.iscomplexobj(value) else np.float64)


@replaces_arrays("scipy.linalg.det", result=_in_double)
@replaces_arrays("numpy.linalg.det", result=_refuse_overflow)
@array_function
def det(a: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the determinant of ``a`` [..., N, N]; `slogdet` does not overflow.

    Example:
        >>> det(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor(8.)
    """
    square("det", look=False, a=a)
    factors, pivots, _ = _factor_by_layout(a)
    diagonal = factors.diagonal(0, -2, -1)
    product = diagonal.prod(-1)
    if not all_finite(product):
        check_result("det", diagonal, a=a)
        product = _without_nan(diagonal, product)
    return write_results("det", out, _apply_parity(product, pivots), a=a)


def _without_nan(diagonal: Tensor, product: Tensor) -> Tensor:
    """Keep a product of zero where pivots overflow together and then meet a zero."""
    zero = (diagonal == 0).any(-1)
    if bool((product.isnan() & ~zero).any()):
        raise NumericalError(op="det", message=f"the determinant overflows {diagonal.dtype}", hint="Use slogdet")
    return torch.where(zero, 0.0, product)


def _apply_parity(x: Tensor, pivots: Tensor) -> Tensor:
    """Return ``-x`` where the number of exchanges is odd."""
    if pivots.ndim == 1 and pivots.is_cpu and readable(pivots):
        # NumPy takes a fraction of the time torch does for so little
        exchanged = np.count_nonzero(pivots.numpy() != np.arange(1, len(pivots) + 1, dtype=np.int32))
        return -x if exchanged % 2 else x
    steps = torch.arange(1, pivots.shape[-1] + 1, dtype=torch.int32, device=pivots.device)
    return torch.where((pivots != steps).sum(-1) % 2 == 1, -x, x)


def _factors_by_columns(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors of LAPACK's layout, which torch's gradients of determinants expect."""
    return lu_factor(a.mT if a.is_contiguous() else a)


replaces("aten::linalg_inv_ex", by=inv, result=lambda x, a, **_: (x, info(x, a, "linalg_inv_ex")))(
    lambda a, *, check_errors=False: given(inv, a)
)
replaces(
    "aten::_linalg_det",
    result=lambda value, a: (value, *_no_factors(a)),
    complete=lambda value, a: (value, *_factors_by_columns(a)),
)(det)
replaces(
    "aten::_linalg_slogdet",
    result=lambda value, a: (*value, *_no_factors(a)),
    complete=lambda value, a: (*value, *_factors_by_columns(a)),
)(slogdet)
