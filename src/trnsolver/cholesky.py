"""Cholesky factorisation of Hermitian positive definite matrices, and solutions with the factor."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import launch
from trnsolver.arguments import nonsingular, positive_definite, readable, right_hand_side, settled, square, written
from trnsolver.inv_triangular import inv_triangular
from trnsolver.kernels import cholesky as kernels
from trnsolver.solve_triangular import triangular
from trnsolver.tiles import doubling_masks


@array_function
def cholesky(a: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """Factor ``a = l @ l.mH``, or ``a = u.mH @ u``.

    Args:
        a: [..., N, N], Hermitian positive definite. Only its lower triangle is read (the upper one with ``upper``).
        upper: return ``u`` instead of ``l``.
        out: where the result goes; it must fit and share no memory with an operand.

    Raises:
        NotPositiveDefinite: a leading minor is not positive; ``index`` names it.

    Error bound:
        ``norm(l @ l.mH - a) <= 20 N u norm(a)``, with ``u`` the unit roundoff of the dtype.

    Cost:
        ``N**3 / 3`` FLOPs per matrix.

    Example:
        >>> cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    square("cholesky", look=False, a=a)
    factor, info = _cholesky(a.mH if upper else a)
    positive_definite("cholesky", factor, info, lambda: a.triu() if upper else a.tril())
    return written("cholesky", out, factor.mH if upper else factor, a=a)


@array_function
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Solve ``a @ x = b`` with the factor `cholesky` returned; the argument order is torch's.

    Args:
        b: [..., N, K] or [N].
        factor: [..., N, N], lower triangular, or upper triangular with ``upper``.
        upper: which.
        out: where the result goes; it must fit and share no memory with an operand.

    Error bound:
        backward: ``norm(b - a @ x) <= 20 N u (norm(a) norm(x) + norm(b))``.

    Cost:
        ``2 N**2 K`` FLOPs.

    Example:
        >>> cholesky_solve(torch.tensor([2.0, 1.0]), torch.tensor([[2.0, 0.0], [1.0, 1.0]]))
        tensor([0.5000, 0.0000])
    """
    square("cholesky_solve", look=False, factor=factor)
    vector = right_hand_side("cholesky_solve", factor, b, look=False)
    read = functools.partial(torch.triu if upper else torch.tril, factor)
    nonsingular("cholesky_solve", factor.diagonal(dim1=-2, dim2=-1), factor=read)
    x = cholesky_solve_op(b.unsqueeze(-1) if vector else b, factor.mH if upper else factor)
    settled("cholesky_solve", x, b=b, factor=read)
    return written("cholesky_solve", out, x.squeeze(-1) if vector else x, b=b, factor=factor)


@array_function
def cholesky_inverse(factor: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of ``l @ l.mH`` from the factor `cholesky` returned: LAPACK's ``potri``. Exactly Hermitian.

    Args:
        factor: [..., N, N], lower triangular, or upper triangular with ``upper``.
        upper: which.
        out: where the result goes; it must fit and share no memory with an operand.

    Error bound:
        ``norm(x @ a - 1) <= 20 N u norm(x) norm(a)``.

    Cost:
        ``2 N**3 / 3`` FLOPs.

    Example:
        >>> cholesky_inverse(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).diagonal()
        tensor([0.2500, 1.0000])
    """
    square("cholesky_inverse", look=False, factor=factor)
    read = functools.partial(torch.triu if upper else torch.tril, factor)
    nonsingular("cholesky_inverse", factor.diagonal(dim1=-2, dim2=-1), factor=read)
    x = cholesky_inverse_op(factor.mH if upper else factor)
    settled("cholesky_inverse", x, factor=read)
    return written("cholesky_inverse", out, x, factor=factor)


def _fake(a: Tensor) -> tuple[Tensor, Tensor]:
    factor, info = torch.linalg.cholesky_ex(a)
    return factor, info


def _cost(a: Tensor) -> int:
    return a.numel() * a.shape[-1] // 3 * (4 if a.is_complex() else 1)


_cholesky = Op("trnsolver::cholesky", fake=_fake, cost=_cost)


@_cholesky.impl("pytorch")
def _pytorch(a: Tensor) -> tuple[Tensor, Tensor]:
    factor, info = torch.linalg.cholesky_ex(a)
    return factor, info


@_cholesky.impl("nki")
def _nki(a: Tensor) -> tuple[Tensor, Tensor]:
    if a.numel() == 0:
        return _pytorch(a)
    if a.dtype != torch.float32 or a.shape[-1] > kernels.N_MAX:
        return _blocked(a)
    factors: Tensor = launch(kernels.cholesky, a.reshape(-1, *a.shape[-2:]).contiguous(), doubling_masks(a.device))
    factor = factors.reshape(a.shape).tril()
    return factor, _info(factor)


def _info(factor: Tensor) -> Tensor:
    """A pivot that is not positive leaves NaN on the diagonal from there on; the first one is reported, from 1."""
    if not readable(factor):
        return factor.new_zeros(factor.shape[:-2], dtype=torch.int32)
    diagonal = factor.diagonal(dim1=-2, dim2=-1).real
    bad = ~(torch.isfinite(diagonal) & (diagonal > 0))
    return torch.where(bad.any(-1), bad.int().argmax(-1) + 1, 0).int()


def _blocked(a: Tensor) -> tuple[Tensor, Tensor]:
    """Halves: what the kernel cannot hold, and the dtypes it lacks. Products run on the device."""
    n = a.shape[-1]
    limit = kernels.N_MAX if a.dtype == torch.float32 else _LEAF
    if n <= limit:
        return _cholesky(a) if a.dtype == torch.float32 else _pytorch(a)
    half = n // 2
    first, info = _blocked(a[..., :half, :half])
    below = triangular(first, a[..., half:, :half].mH, lower=True).mH
    rest = gemm(-1.0, below, below, 1.0, a[..., half:, half:], trans_b="c")
    last, further = _blocked(rest)
    further = torch.where(further > 0, further + half, further)
    top = torch.cat([first, torch.zeros_like(below.mT)], -1)
    return torch.cat([top, torch.cat([below, last], -1)], -2), torch.where(info > 0, info, further)


_LEAF = 64


@_cholesky.vjp(saves=("result",))
def _gradient(saved: Saved, grad: Tensor, grad_info: Tensor | None) -> Mapping[str, Any]:
    factor = saved.result[0]
    middle = gemm(1.0, factor, grad, trans_a="c")
    phi = middle.tril() - 0.5 * torch.diag_embed(middle.diagonal(dim1=-2, dim2=-1))
    inner = triangular(factor.mH, phi, lower=False)
    whole = triangular(factor.mT, inner.mT, lower=False).mT
    return {"a": 0.5 * (whole + whole.mH)}


def _fake_solve(b: Tensor, factor: Tensor) -> Tensor:
    m, n = b.shape[-2:]
    return b.new_empty((*check.broadcast("cholesky_solve", b=b.shape[:-2], factor=factor.shape[:-2]), n, m)).mT


def _cost_solve(b: Tensor, factor: Tensor) -> int:
    batch = math.prod(check.broadcast("cholesky_solve", b=b.shape[:-2], factor=factor.shape[:-2]))
    return 2 * batch * factor.shape[-1] ** 2 * b.shape[-1] * (4 if b.is_complex() else 1)


cholesky_solve_op = Op("trnsolver::cholesky_solve", fake=_fake_solve, cost=_cost_solve)


@cholesky_solve_op.impl("pytorch")
def _pytorch_solve(b: Tensor, factor: Tensor) -> Tensor:
    return torch.cholesky_solve(b, factor)


@cholesky_solve_op.impl("nki")
def _nki_solve(b: Tensor, factor: Tensor) -> Tensor:
    return triangular(factor.mH, triangular(factor, b, lower=True), lower=False)


@cholesky_solve_op.vjp(saves=("factor", "result"))
def _gradient_solve(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    turned, found = cholesky_solve_op(grad, saved.factor), {}
    if saved.needs("b"):
        found["b"] = turned.sum_to_size(saved.b.shape)
    if saved.needs("factor"):
        outer = gemm(1.0, turned, saved.result, trans_b="c")
        whole = gemm(-1.0, outer + outer.mH, saved.factor.tril())
        found["factor"] = whole.tril().sum_to_size(saved.factor.shape)
    return found


def _fake_inverse(factor: Tensor) -> Tensor:
    return torch.empty_like(factor)


cholesky_inverse_op = Op("trnsolver::cholesky_inverse", fake=_fake_inverse, cost=_cost)


@cholesky_inverse_op.impl("pytorch")
def _pytorch_inverse(factor: Tensor) -> Tensor:
    return torch.cholesky_inverse(factor)


@cholesky_inverse_op.impl("nki")
def _nki_inverse(factor: Tensor) -> Tensor:
    x = inv_triangular(factor, lower=True)
    product = gemm(1.0, x, x, trans_a="c")
    return 0.5 * (product + product.mH)


@cholesky_inverse_op.vjp(saves=("factor", "result"))
def _gradient_inverse(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    inner = gemm(1.0, saved.result, gemm(1.0, grad + grad.mH, saved.result))
    return {"factor": gemm(-1.0, inner, saved.factor.tril()).tril()}
