"""LU factorisation with partial pivoting, and solutions with the factors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import array_function, check, op, run
from trnsci.analogs import PLAIN, Different, Given, given, refuse_options, replaces
from trnsci.gradient import saves
from trnsci.nki import launch
from trnsci.predict import on_host
from trnsolver.arguments import (
    all_finite,
    by_columns,
    check_result,
    check_solution,
    matrices,
    nonsingular,
    right_hand_side,
    square,
    to_adjoint_columns,
    write_results,
)
from trnsolver.array_operands import as_matrix, replaces_arrays
from trnsolver.batched.batched_lu import LEAST, batched_lu
from trnsolver.batched.batches import pays
from trnsolver.dense.identity import identity, unit_columns
from trnsolver.dense.mixed_precision import correctable, single
from trnsolver.dense.pivots import belong, exchanges, info, permutation_of, pivots_of, row_tiles, rows_each, within
from trnsolver.dense.refine_factors import improved_lu
from trnsolver.dense.solve_triangular import triangular
from trnsolver.dense.unpivoted import factor_unpivoted
from trnsolver.kernels import lu as kernels
from trnsolver.scaling import near_one


class LU(NamedTuple):
    """``a[permutation] = L @ U``: ``factors`` holds both, L without its diagonal; ``pivots`` are LAPACK's, from 1."""

    factors: Tensor
    pivots: Tensor

    @property
    def LU(self) -> Tensor:
        """Torch's name for ``factors``."""
        return self.factors


class PLU(NamedTuple):
    """``a = P @ L @ U``."""

    P: Tensor
    L: Tensor
    U: Tensor


def _from_zero(value: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    """Return factors and pivots as SciPy does, which warns of a zero on the diagonal."""
    factors, pivots = value
    if not factors.diagonal(axis1=-2, axis2=-1).all():
        raise Different("the matrix is singular")
    return factors, pivots - 1


@replaces_arrays("scipy.linalg.lu_factor", result=_from_zero, order="F")
@array_function
def lu_factor(a: Tensor, *, pivot: bool = True, out: tuple[Tensor, Tensor] | None = None) -> LU:
    """Factor ``a`` with row exchanges: LAPACK's ``getrf``.

    Args:
        a: [..., M, N].
        pivot: exchange rows. Without, a zero pivot raises, and ``pivots`` count up.
        out: where the results go, one tensor for each; they must fit and share no memory with an operand.

    Returns:
        `LU`: ``factors`` [..., M, N] and ``pivots`` [..., min(M, N)], int32, from 1: row ``i`` was exchanged with
        row ``pivots[i] - 1``, as in torch. A singular matrix has a factor, with a zero on the diagonal of U.

    Raises:
        NumericalError: entries of U grow beyond the dtype, where LAPACK returns infinities.

    Error bound:
        ``norm(L @ U - P.T @ a) <= 20 N u g norm(a)``, where ``g``, the growth of entries, is at most ``2**(N - 1)`` and
        near 1 but for matrices made to have it.

    Cost:
        ``2 N**3 / 3`` FLOPs.

    Example:
        >>> lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]])).pivots
        tensor([2, 2], dtype=torch.int32)
    """
    check.flag("lu_factor", pivot=pivot)
    matrices("lu_factor", look=not pivot, a=a)
    if pivot:
        return write_results("lu_factor", out, _exchange_rows("lu_factor", a), a=a)
    _, lower, upper = factor_unpivoted(a)
    k = lower.shape[-1]
    factors = torch.nn.functional.pad(lower.tril(-1), (0, a.shape[-1] - k))
    factors = factors + torch.nn.functional.pad(upper, (0, 0, 0, a.shape[-2] - k))
    counted = torch.arange(1, k + 1, dtype=torch.int32, device=a.device).expand(*a.shape[:-2], k).contiguous()
    return write_results("lu_factor", out, LU(factors, counted), a=a)


def _exchange_rows(op: str, a: Tensor) -> LU:
    """Factor with row exchanges, near 1 where LAPACK divides by a pivot whose reciprocal overflows."""
    result = LU(*run(LuFactor(a)))
    if all_finite(result.factors):
        return result
    power = near_one(a, (-2, -1))
    factors, pivots = run(LuFactor(a * power))
    factors = factors.tril(-1) + factors.triu() / power
    check_result(op, factors, a=a)
    return LU(factors, pivots)


def _with_info(value: LU, a: Tensor, **_: Any) -> tuple[Tensor, ...]:
    # ours factors singular matrices too, but on the device not to LAPACK's last pivot
    if type(a) in PLAIN and not bool(value[0].diagonal(dim1=-2, dim2=-1).all()):
        raise Different("the matrix is singular")
    return *value, info(value[0], a, "linalg_lu_factor_ex")


replaces("aten::linalg_lu_factor_ex", by=lu_factor, result=_with_info)(
    lambda a, *, pivot=True, check_errors=False: given(lu_factor, a, pivot=pivot)
)


@replaces("aten::linalg_lu")
@array_function
def lu(a: Tensor, *, pivot: bool = True, out: tuple[Tensor, Tensor, Tensor] | None = None) -> PLU:
    """Return P, L, U with ``a = P @ L @ U``: the convention of `torch.linalg.lu` and `scipy.linalg.lu`.

    Args:
        a: [..., M, N].
        pivot: exchange rows. Without, a zero pivot raises, and P is empty, as in torch.
        out: where the results go, one tensor for each; they must fit and share no memory with an operand.

    Returns:
        `PLU`: P [..., M, M], L [..., M, K] with ones on its diagonal, U [..., K, N], where K = min(M, N).

    Raises:
        NumericalError: entries of U grow beyond the dtype, where LAPACK returns infinities.

    Example:
        >>> p, l, u = lu(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
        >>> u
        tensor([[2., 2.],
                [0., 1.]])
    """
    check.flag("lu", pivot=pivot)
    matrices("lu", look=not pivot, a=a)
    if pivot:
        return write_results("lu", out, PLU(*torch.lu_unpack(*_exchange_rows("lu", a))), a=a)
    result = PLU(*factor_unpivoted(a))
    check_result("lu", result.U, a=a)
    return write_results("lu", out, result, a=a)


@replaces("aten::linalg_lu_solve")
@array_function
@check.hands_on("trsm")
def lu_solve(
    factors: Tensor,
    pivots: Tensor,
    b: Tensor,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``a @ x = b`` with what `lu_factor` returned; with ``adjoint``, ``a.mH @ x = b``.

    Args:
        factors: [..., N, N].
        pivots: [..., N].
        b: [..., N, K] or [..., N]; [..., K, N] where ``left`` is false.
        left: solve ``a @ x = b``; otherwise ``x @ a = b``.
        adjoint: solve with the conjugate transpose.
        out: where the result goes; it must fit and share no memory with an operand.

    Raises:
        Singular: U has a zero on its diagonal.

    Example:
        >>> a = torch.tensor([[1.0, 2.0], [2.0, 2.0]])
        >>> lu_solve(*lu_factor(a), torch.tensor([3.0, 4.0]))
        tensor([1., 1.])
    """
    check.flag("lu_solve", left=left, adjoint=adjoint)
    if not left:
        rows = lu_solve(factors, pivots, to_adjoint_columns("lu_solve", factors, b), adjoint=not adjoint)
        return write_results("lu_solve", out, rows.mH, factors=factors, b=b)
    square("lu_solve", look=False, factors=factors)
    vector = right_hand_side("lu_solve", factors, b, look=False)
    x = _solve_with_factors(
        "lu_solve", LuSolve(factors, pivots, b.unsqueeze(-1) if vector else b, adjoint), factors=factors, b=b
    )
    return write_results("lu_solve", out, x.squeeze(-1) if vector else x, factors=factors, b=b)


@replaces("scipy.linalg.lu_solve", by=lu_solve, order="F")
def _read_scipy(lu_and_piv: Any, b: Any, trans: int) -> Given:
    refuse_options(trans=trans)
    factors, pivots = lu_and_piv
    b = np.asarray(b)
    if b.ndim == 1 or np.ndim(factors) > 2:
        raise Different("its right-hand side is a vector, or its factors are a stack")
    return given(lu_solve, as_matrix(factors), np.asarray(pivots, np.int32) + 1, b)


@array_function
@check.hands_on("trsm")
def lu_inverse(factors: Tensor, pivots: Tensor) -> Tensor:
    """Return the inverse of ``a`` from what `lu_factor` returned: LAPACK's ``getri``.

    Args:
        factors: [..., N, N].
        pivots: [..., N].

    Raises:
        Singular: U has a zero on its diagonal.

    Error bound:
        each column is a solution with the bound of `solve`.

    Cost:
        ``2 N**3`` FLOPs.

    Example:
        >>> lu_inverse(*lu_factor(torch.tensor([[0.0, 2.0], [4.0, 0.0]])))
        tensor([[0.0000, 0.2500],
                [0.5000, 0.0000]])
    """
    square("lu_inverse", look=False, factors=factors)
    return _solve_with_factors("lu_inverse", LuSolve(factors, pivots, unit_columns(factors), False), factors=factors)


def _solve_with_factors(op: str, call: LuSolve, **operands: Tensor) -> Tensor:
    """Solve with factors that are checked, and pivots that are not."""
    factors, pivots, _, adjoint = call
    belong(op, factors, pivots)
    if not pivots.is_cpu:
        within(op, pivots)
    if adjoint:
        # its divisors come first, and the other triangle mixes what they leave
        nonsingular(op, factors.diagonal(0, -2, -1), factors=factors)
    try:
        x = run(call)
    except RuntimeError:
        # torch looks at pivots of the host before LAPACK follows them
        within(op, pivots)
        raise
    check_solution(op, x, None if adjoint else factors, **operands)
    return x


@op("trnsolver::lu_solve")
class LuSolve(NamedTuple):
    """``x`` with ``a @ x = b``, or ``a.mH @ x = b``, from the factors of ``a``."""

    factors: Tensor  # [..., N, N]
    pivots: Tensor  # [..., N]
    b: Tensor  # [..., N, K]
    adjoint: bool

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading axes of the result."""
        return check.broadcast("lu_solve", factors=self.factors.shape[:-2], b=self.b.shape[:-2])

    def fake(self) -> Tensor:
        return by_columns(self.b, (*self.batch, *self.b.shape[-2:]))

    def cost(self) -> int:
        flops = 2 * math.prod(self.batch) * self.factors.shape[-1] ** 2 * self.b.shape[-1]
        return flops * (4 if self.b.is_complex() else 1)

    def pytorch(self) -> Tensor:
        x: Tensor = torch.linalg.lu_solve(self.factors, self.pivots, self.b, adjoint=self.adjoint)
        return x

    def _order(self, like: Tensor) -> Tensor:
        """Return the order of rows, for every column of ``like``."""
        order = permutation_of(self.pivots, self.factors.shape[-2])
        return order.expand(*like.shape[:-2], -1).unsqueeze(-1).expand(like.shape)

    def nki(self) -> Tensor:
        factors, columns = self.factors, self.b.expand(*self.batch, *self.b.shape[-2:])
        if self.adjoint:
            y = triangular(factors.mH, columns, lower=True)
            y = triangular(factors.mH, y, lower=False, unit=True)
            return torch.zeros_like(y).scatter(-2, self._order(y), y)
        y = triangular(factors, columns.gather(-2, self._order(columns)), lower=True, unit=True)
        return triangular(factors, y, lower=False)

    def vjp(self, grad: Tensor, needs: frozenset[str], result: Tensor) -> dict[str, Tensor]:
        factors, gradients = self.factors, {}
        if "b" in needs:
            back = run(self._replace(b=grad, adjoint=not self.adjoint))
            gradients["b"] = back.sum_to_size(self.b.shape)
        if "factors" in needs:
            gradients["factors"] = self._of_factors(grad, result).sum_to_size(factors.shape)
        return gradients

    def _of_factors(self, grad: Tensor, result: Tensor) -> Tensor:
        factors, order, b = self.factors, self._order(grad), self.b.expand(grad.shape)
        if self.adjoint:
            below = triangular(factors, grad.gather(-2, order), lower=True, unit=True)
            above, x = triangular(factors, below, lower=False), result.gather(-2, order)
            y = triangular(factors.mH, b, lower=True)
            lower, upper = gemm(-1.0, x, below, trans_b="c"), gemm(-1.0, y, above, trans_b="c")
        else:
            above = triangular(factors.mH, grad, lower=True)
            below = triangular(factors.mH, above, lower=False, unit=True)
            y = triangular(factors, b.gather(-2, order), lower=True, unit=True)
            lower, upper = gemm(-1.0, below, y, trans_b="c"), gemm(-1.0, above, result, trans_b="c")
        return lower.tril(-1) + upper.triu()


@op("trnsolver::lu")
class LuFactor(NamedTuple):
    """Factors and pivots of ``getrf``."""

    a: Tensor  # [..., M, N]

    def fake(self) -> tuple[Tensor, Tensor]:
        a = self.a
        return by_columns(a), a.new_empty((*a.shape[:-2], min(a.shape[-2:])), dtype=torch.int32)

    def cost(self) -> int:
        return 2 * self.a.numel() * min(self.a.shape[-2:]) // 3 * (4 if self.a.is_complex() else 1)

    def pytorch(self) -> tuple[Tensor, Tensor]:
        factors, pivots, _ = torch.linalg.lu_factor_ex(self.a)
        return factors, pivots

    def nki(self) -> tuple[Tensor, Tensor]:
        a = self.a
        m, n = a.shape[-2:]
        k = min(m, n)
        if a.numel() == 0:
            return self.pytorch()
        if pays(LEAST, a):
            return batched_lu(a)
        if correctable(a):
            return _factor_double(a)
        if not _fits(a):
            factors, order = _factor_by_halves(a)
            return factors, pivots_of(order, k)
        scale = near_one(a, (-2, -1))
        flat = (a * scale).reshape(-1, m, n)
        rank, index, live = row_tiles(m, a.device)
        padded = torch.nn.functional.pad(flat, (0, 0, 0, live.numel() - m))
        # one program serves all heights that share tiles
        high = m if m < n else live.numel()
        lower, upper, rows = launch(kernels.lu, padded, rank, index, live, identity(a.device), rows=high)
        lower = lower[..., :m, :]
        upper, chosen = _mark_overflow(lower, upper, rows.squeeze(-1))
        pivots, order = exchanges(chosen, m)  # [B, K], [B, M]
        packed = lower.gather(-2, order.unsqueeze(-1).expand(-1, -1, k)).tril(-1)
        whole = torch.zeros_like(flat)
        whole[..., :k] = packed
        whole[..., :k, :] += upper.triu() / scale.reshape(-1, 1, 1)
        return whole.reshape(a.shape), pivots.reshape(*a.shape[:-2], k)

    @saves()
    def vjp(
        self, grad: tuple[Tensor, Tensor | None], needs: frozenset[str], result: tuple[Tensor, Tensor]
    ) -> dict[str, Tensor]:
        return {"a": _gradient(*result, grad[0])}


def _fits(a: Tensor) -> bool:
    """Return whether the kernel takes ``a`` [..., M, N]."""
    m, n = a.shape[-2:]
    small = m <= kernels.M_MAX and n <= kernels.N_MAX and rows_each(m) * n <= kernels.HELD
    return small and a.dtype == torch.float32


def _factor_double(a: Tensor) -> tuple[Tensor, Tensor]:
    """Correct factors of single precision, whose pivots stay, or factor by halves where they do not suffice."""
    m, n = a.shape[-2:]
    scale = near_one(a, (-2, -1))
    near = a * scale
    start, pivots = run(LuFactor(single(near)))
    order = permutation_of(pivots, m)
    factors, good = improved_lu(near.gather(-2, order.unsqueeze(-1).expand(a.shape)), start)
    factors = factors.tril(-1) + factors.triu() / scale
    if a.is_meta or bool(good.all()):
        return factors, pivots
    other, further = _factor_by_halves(a)
    exchanged = torch.where(good[..., None], pivots, pivots_of(further, min(m, n)))
    return torch.where(good[..., None, None], factors, other), exchanged


def _mark_overflow(lower: Tensor, upper: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Set U to NaN and rows in order where entries grew beyond the dtype: the kernel has lost its pivots."""
    if lower.is_meta:
        return upper, rows.long()
    lost = ~(torch.isfinite(lower).all(-1).all(-1) & torch.isfinite(upper).all(-1).all(-1))  # [B]
    in_order = torch.arange(rows.shape[-1], device=rows.device)
    chosen = torch.where(lost[:, None], 0.0, rows).long()
    return upper.masked_fill(lost[:, None, None], torch.nan), torch.where(lost[:, None], in_order, chosen)


def _factor_by_halves(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factor by column halves: sizes the kernel cannot hold, and dtypes it lacks, whose panels run on the host."""
    m, n = a.shape[-2:]
    if _fits(a):
        factors, pivots = run(LuFactor(a))
        return factors, permutation_of(pivots, m)
    if n > m:
        left, order = _factor_by_halves(a[..., :m])
        rest = a[..., m:].gather(-2, order.unsqueeze(-1).expand(*order.shape, n - m))
        return torch.cat([left, triangular(left, rest, lower=True, unit=True)], -1), order
    if n <= _LEAF:
        factors, pivots = run(LuFactor(a)) if pays(LEAST, a) else on_host(LuFactor(a))
        return factors, permutation_of(pivots, m)
    h = n // 2
    left, order = _factor_by_halves(a[..., :h])
    rest = a[..., h:].gather(-2, order.unsqueeze(-1).expand(*order.shape, n - h))
    right = triangular(left[..., :h, :], rest[..., :h, :], lower=True, unit=True)
    last, further = _factor_by_halves(gemm(-1.0, left[..., h:, :], right, 1.0, rest[..., h:, :]))
    below = left[..., h:, :].gather(-2, further.unsqueeze(-1).expand(*further.shape, h))
    order = torch.cat([order[..., :h], order[..., h:].gather(-1, further)], -1)
    top = torch.cat([left[..., :h, :], right], -1)
    return torch.cat([top, torch.cat([below, last], -1)], -2), order


_LEAF = 64


def _gradient(factors: Tensor, pivots: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient of the factored matrix from that of its factors."""
    m, n = factors.shape[-2:]
    k = min(m, n)
    if k == 0:
        return torch.zeros_like(factors)
    corner, down, right = factors[..., :k, :k], factors[..., k:, :k], factors[..., :k, k:]
    lower = corner.tril(-1) + torch.eye(k, dtype=corner.dtype, device=corner.device)
    inner_l = gemm(1.0, lower, grad[..., :k, :k].tril(-1), trans_a="c")
    inner_u = gemm(1.0, grad[..., :k, :k].triu(), corner.triu(), trans_b="c")
    # Rows or columns beyond the square follow from its factors, and pull on them.
    if m > n:
        inner_u = gemm(-1.0, down, grad[..., k:, :k], 1.0, inner_u, trans_a="c")
    if n > m:
        inner_l = gemm(-1.0, grad[..., :k, k:], right, 1.0, inner_l, trans_b="c")
    half = triangular(corner.mH, inner_l.tril(-1) + inner_u.triu(), lower=False, unit=True)
    whole = triangular(corner, half.mH, lower=False).mH
    if m > n:
        whole = torch.cat([whole, triangular(corner, grad[..., k:, :k].mH, lower=False).mH], -2)
    if n > m:
        whole = torch.cat([whole, triangular(corner.mH, grad[..., :k, k:], lower=False, unit=True)], -1)
    order = permutation_of(pivots, m).unsqueeze(-1).expand(whole.shape)
    return torch.zeros_like(whole).scatter(-2, order, whole)
