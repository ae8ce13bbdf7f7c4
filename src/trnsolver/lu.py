"""LU factorisation with partial pivoting, and solutions with the factors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, DtypeError, Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import launch
from trnsolver.arguments import matrices, mirrored, nonsingular, readable, right_hand_side, settled, square, written
from trnsolver.kernels import lu as kernels
from trnsolver.solve_triangular import triangular
from trnsolver.tiles import doubling_masks, near_one
from trnsolver.unpivoted import unpivoted


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

    Error bound:
        ``norm(L @ U - P.T @ a) <= 20 N u g norm(a)``, where ``g``, the growth of entries, is at most ``2**(N - 1)`` and
        near 1 but for matrices made to have it.

    Cost:
        ``2 N**3 / 3`` FLOPs.

    Example:
        >>> lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]])).pivots
        tensor([2, 2], dtype=torch.int32)
    """
    matrices("lu_factor", look=not pivot, a=a)
    if pivot:
        made = LU(*lu_op(a))
        settled("lu_factor", made.factors, a=a)
        return written("lu_factor", out, made, a=a)
    _, lower, upper = unpivoted(a)
    k = lower.shape[-1]
    factors = torch.nn.functional.pad(lower.tril(-1), (0, a.shape[-1] - k))
    factors = factors + torch.nn.functional.pad(upper, (0, 0, 0, a.shape[-2] - k))
    counted = torch.arange(1, k + 1, dtype=torch.int32, device=a.device).expand(*a.shape[:-2], k).contiguous()
    return written("lu_factor", out, LU(factors, counted), a=a)


@array_function
def lu(a: Tensor, *, pivot: bool = True, out: tuple[Tensor, Tensor, Tensor] | None = None) -> PLU:
    """Return P, L, U with ``a = P @ L @ U``: the convention of `torch.linalg.lu` and `scipy.linalg.lu`.

    Args:
        a: [..., M, N].
        pivot: exchange rows. Without, a zero pivot raises, and P is empty, as in torch.
        out: where the results go, one tensor for each; they must fit and share no memory with an operand.

    Returns:
        `PLU`: P [..., M, M], L [..., M, K] with ones on its diagonal, U [..., K, N], where K = min(M, N).

    Example:
        >>> p, l, u = lu(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
        >>> u
        tensor([[2., 2.],
                [0., 1.]])
    """
    matrices("lu", a=a)
    made = PLU(*(torch.lu_unpack(*lu_op(a)) if pivot else unpivoted(a)))
    settled("lu", made.U)
    return written("lu", out, made, a=a)


@array_function
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
    if not left:
        turned = lu_solve(factors, pivots, mirrored("lu_solve", factors, b), adjoint=not adjoint)
        return written("lu_solve", out, turned.mH, factors=factors, b=b)
    square("lu_solve", look=False, factors=factors)
    vector = right_hand_side("lu_solve", factors, b, look=False)
    exchanges("lu_solve", factors, pivots)
    nonsingular("lu_solve", factors.diagonal(dim1=-2, dim2=-1), factors=factors)
    x = lu_solve_op(factors, pivots, b.unsqueeze(-1) if vector else b, adjoint)
    settled("lu_solve", x, factors=factors, b=b)
    return written("lu_solve", out, x.squeeze(-1) if vector else x, factors=factors, b=b)


@array_function
def lu_inverse(factors: Tensor, pivots: Tensor) -> Tensor:
    """The inverse of ``a`` from what `lu_factor` returned: LAPACK's ``getri``.

    Args:
        factors: [..., N, N].
        pivots: [..., N].

    Raises:
        Singular: U has a zero on its diagonal.

    Error bound:
        each column is a solution with the bound of `solve`.

    Cost:
        ``4 N**3 / 3`` FLOPs.

    Example:
        >>> lu_inverse(*lu_factor(torch.tensor([[0.0, 2.0], [4.0, 0.0]])))
        tensor([[0.0000, 0.2500],
                [0.5000, 0.0000]])
    """
    square("lu_inverse", look=False, factors=factors)
    exchanges("lu_inverse", factors, pivots)
    nonsingular("lu_inverse", factors.diagonal(dim1=-2, dim2=-1), factors=factors)
    x = lu_inverse_op(factors, pivots)
    settled("lu_inverse", x, factors=factors)
    return x


def exchanges(op: str, factors: Tensor, pivots: Tensor) -> None:
    """Pivots are those of the factors: one per row, int32, each naming a row."""
    check.tensor(op, pivots=pivots)
    check.same_device(op, factors=factors, pivots=pivots)
    n = factors.shape[-1]
    if pivots.dtype != torch.int32:
        hint = "Pass the pivots lu_factor returned"
        raise DtypeError(op=op, argument="dtype of pivots", got=pivots.dtype, expected="int32", hint=hint)
    if pivots.shape != factors.shape[:-1]:
        expected = f"{tuple(factors.shape[:-1])}, one for each row of the factors"
        raise ArgumentError(op=op, argument="shape of pivots", got=tuple(pivots.shape), expected=expected)
    if pivots.numel() == 0 or not readable(pivots):
        return
    least, most = (int(x) for x in torch.aminmax(pivots))
    if least < 1 or most > n:
        expected = f"rows from 1 to {n}"
        raise ArgumentError(op=op, argument="pivots", got=least if least < 1 else most, expected=expected)


def _fake_solve(factors: Tensor, pivots: Tensor, b: Tensor, adjoint: bool) -> Tensor:
    return torch.linalg.lu_solve(factors, pivots, b, adjoint=adjoint)


def _cost_solve(factors: Tensor, pivots: Tensor, b: Tensor, adjoint: bool) -> int:
    batch = math.prod(check.broadcast("lu_solve", factors=factors.shape[:-2], b=b.shape[:-2]))
    return 2 * batch * factors.shape[-1] ** 2 * b.shape[-1] * (4 if b.is_complex() else 1)


lu_solve_op = Op("trnsolver::lu_solve", fake=_fake_solve, cost=_cost_solve)


@lu_solve_op.impl("pytorch")
def _pytorch_solve(factors: Tensor, pivots: Tensor, b: Tensor, adjoint: bool) -> Tensor:
    return torch.linalg.lu_solve(factors, pivots, b, adjoint=adjoint)


@lu_solve_op.impl("nki")
def _nki_solve(factors: Tensor, pivots: Tensor, b: Tensor, adjoint: bool) -> Tensor:
    batch = check.broadcast("lu_solve", factors=factors.shape[:-2], b=b.shape[:-2])
    columns = b.expand(*batch, *b.shape[-2:])
    order = permutation_of(pivots, factors.shape[-2]).expand(*batch, -1).unsqueeze(-1).expand(columns.shape)
    if adjoint:
        y = triangular(factors.mH, columns, lower=True)
        y = triangular(factors.mH, y, lower=False, unit=True)
        return torch.zeros_like(y).scatter(-2, order, y)
    y = triangular(factors, columns.gather(-2, order), lower=True, unit=True)
    return triangular(factors, y, lower=False)


@lu_solve_op.vjp(saves=("factors", "pivots", "b", "result"))
def _solve_gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    factors, batch = saved.factors, grad.shape[:-2]
    order = permutation_of(saved.pivots, factors.shape[-1]).expand(*batch, -1).unsqueeze(-1).expand(grad.shape)
    found: dict[str, Any] = {}
    if saved.needs("b"):
        turned = lu_solve_op(factors, saved.pivots, grad, not saved.adjoint)
        found["b"] = turned.sum_to_size(saved.b.shape)
    if saved.needs("factors"):
        if saved.adjoint:
            below = triangular(factors, grad.gather(-2, order), lower=True, unit=True)
            above, x = triangular(factors, below, lower=False), saved.result.gather(-2, order)
            y = triangular(factors.mH, saved.b.expand(grad.shape), lower=True)
            lower, upper = gemm(-1.0, x, below, trans_b="c"), gemm(-1.0, y, above, trans_b="c")
        else:
            above = triangular(factors.mH, grad, lower=True)
            below = triangular(factors.mH, above, lower=False, unit=True)
            y = triangular(factors, saved.b.expand(grad.shape).gather(-2, order), lower=True, unit=True)
            lower, upper = gemm(-1.0, below, y, trans_b="c"), gemm(-1.0, above, saved.result, trans_b="c")
        found["factors"] = (lower.tril(-1) + upper.triu()).sum_to_size(factors.shape)
    return found


def _fake_inverse(factors: Tensor, pivots: Tensor) -> Tensor:
    return torch.empty_like(factors, memory_format=torch.contiguous_format).mT


def _cost_inverse(factors: Tensor, pivots: Tensor) -> int:
    return 4 * factors.numel() * factors.shape[-1] // 3 * (4 if factors.is_complex() else 1)


lu_inverse_op = Op("trnsolver::lu_inverse", fake=_fake_inverse, cost=_cost_inverse)


@lu_inverse_op.impl("pytorch")
def _pytorch_inverse(factors: Tensor, pivots: Tensor) -> Tensor:
    return lu_solve_op(factors, pivots, _eye(factors), False)


@lu_inverse_op.impl("nki")
def _nki_inverse(factors: Tensor, pivots: Tensor) -> Tensor:
    return _nki_solve(factors, pivots, _eye(factors), False)


def _eye(like: Tensor) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device).expand(like.shape)


@lu_inverse_op.vjp(saves=("factors", "pivots", "result"))
def _inverse_gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    known = {"b": _eye(grad), "adjoint": False, "factors": saved.factors, "pivots": saved.pivots}
    return _solve_gradient(Saved(known, saved.result, frozenset({"factors"})), grad)


def permutation_of(pivots: Tensor, rows: int) -> Tensor:
    """Rows in the order the exchanges leave them: ``a[permutation] = L @ U``."""
    if rows == 0 or pivots.numel() == 0:
        return torch.arange(rows, device=pivots.device).expand(*pivots.shape[:-1], rows).clone()
    eye = torch.empty((*pivots.shape[:-1], rows, pivots.shape[-1]), device=pivots.device)
    p, _, _ = torch.lu_unpack(eye, pivots, unpack_data=False)
    return p.argmax(-2)


def _fake(a: Tensor) -> tuple[Tensor, Tensor]:
    factors, pivots, _ = torch.linalg.lu_factor_ex(a)
    return factors, pivots


def _cost(a: Tensor) -> int:
    return 2 * a.numel() * min(a.shape[-2:]) // 3 * (4 if a.is_complex() else 1)


lu_op = Op("trnsolver::lu", fake=_fake, cost=_cost)


@lu_op.impl("pytorch")
def _pytorch(a: Tensor) -> tuple[Tensor, Tensor]:
    factors, pivots, _ = torch.linalg.lu_factor_ex(a)
    return factors, pivots


@lu_op.impl("nki")
def _nki(a: Tensor) -> tuple[Tensor, Tensor]:
    if a.numel() == 0:
        return _pytorch(a)
    m, n = a.shape[-2:]
    if a.dtype != torch.float32 or max(m, n) > kernels.N_MAX:
        factors, order = _blocked(a)
        pivots, _ = _exchanges(order[..., : min(m, n)].reshape(-1, min(m, n)), m)
        return factors, pivots.reshape(*a.shape[:-2], min(m, n))
    scale = near_one(a, (-2, -1), beyond=2.0**100)
    flat = (a * scale).reshape(-1, m, n).contiguous()
    rank = torch.arange(m, 0, -1, dtype=torch.float32, device=a.device).unsqueeze(0)
    lower, upper, rows = launch(kernels.lu, flat, rank, doubling_masks(a.device))
    k = min(m, n)
    upper, chosen = _overflowed(lower, upper, m - rows.squeeze(-1).long())
    pivots, order = _exchanges(chosen, m)  # [B, K], [B, M]
    packed = lower.mT.gather(-2, order.unsqueeze(-1).expand(-1, -1, k)).tril(-1)
    whole = torch.zeros_like(flat)
    whole[..., :k] = packed
    whole[..., :k, :] += upper.triu() / scale.reshape(-1, 1, 1)
    return whole.reshape(a.shape), pivots.reshape(*a.shape[:-2], k)


def _overflowed(lower: Tensor, upper: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Where entries grew beyond the dtype: NaN for U, and rows in order, for the kernel has lost its pivots."""
    if lower.is_meta:
        return upper, rows
    lost = ~(torch.isfinite(lower).all(-1) & torch.isfinite(upper).all(-1)).all(-1)  # [B]
    in_order = torch.arange(rows.shape[-1], device=rows.device)
    return upper.masked_fill(lost[:, None, None], torch.nan), torch.where(lost[:, None], in_order, rows)


def _exchanges(wanted: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """Pivots [B, K] that bring these rows [B, K] to the top, and where they leave all M rows [B, M].

    The rows below follow from the exchanges: they are not in their original order.
    """
    batch, k = wanted.shape
    if wanted.is_meta:
        return wanted.new_empty((batch, k), dtype=torch.int32), wanted.new_empty((batch, m))
    pivots, orders = [], []
    for first in wanted.tolist():
        order, where, pivot = list(range(m)), list(range(m)), []
        for i, row in enumerate(first):
            j, other = where[row], order[i]
            order[i], order[j] = row, other
            where[row], where[other] = i, j
            pivot.append(j + 1)
        pivots.append(pivot)
        orders.append(order)
    made = torch.tensor(pivots, dtype=torch.int32, device=wanted.device)
    return made.reshape(batch, k), torch.tensor(orders, device=wanted.device).reshape(batch, m)


def _blocked(a: Tensor) -> tuple[Tensor, Tensor]:
    """Column halves: what the kernel cannot hold, and the dtypes it lacks. Products run on the device."""
    m, n = a.shape[-2:]
    if a.dtype == torch.float32 and max(m, n) <= kernels.N_MAX:
        factors, pivots = lu_op(a)
        return factors, permutation_of(pivots, m)
    if min(m, n) <= _LEAF:
        factors, pivots = _pytorch(a)
        return factors, permutation_of(pivots, m)
    h = min(m, n) // 2
    left, order = _blocked(a[..., :h])
    rest = a[..., h:].gather(-2, order.unsqueeze(-1).expand(*order.shape, n - h))
    right = triangular(left[..., :h, :], rest[..., :h, :], lower=True, unit=True)
    last, further = _blocked(gemm(-1.0, left[..., h:, :], right, 1.0, rest[..., h:, :]))
    below = left[..., h:, :].gather(-2, further.unsqueeze(-1).expand(*further.shape, h))
    order = torch.cat([order[..., :h], order[..., h:].gather(-1, further)], -1)
    top = torch.cat([left[..., :h, :], right], -1)
    return torch.cat([top, torch.cat([below, last], -1)], -2), order


_LEAF = 64


@lu_op.vjp(saves=("result",))
def _gradient(saved: Saved, grad: Tensor, grad_pivots: Tensor | None) -> Mapping[str, Any]:
    factors, pivots = saved.result
    m, n = factors.shape[-2:]
    k = min(m, n)
    if k == 0:
        return {"a": torch.zeros_like(factors)}
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
    turned = triangular(corner, half.mH, lower=False).mH
    if m > n:
        turned = torch.cat([turned, triangular(corner, grad[..., k:, :k].mH, lower=False).mH], -2)
    if n > m:
        turned = torch.cat([turned, triangular(corner.mH, grad[..., :k, k:], lower=False, unit=True)], -1)
    order = permutation_of(pivots, m).unsqueeze(-1).expand(turned.shape)
    return {"a": torch.zeros_like(turned).scatter(-2, order, turned)}
