"""Cholesky factorisation of Hermitian positive definite matrices, and solutions with the factor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas import gemm, trsm
from trnsci import Op, array_function
from trnsci.gradient import Saved
from trnsci.nki import launch
from trnsolver.arguments import positive_definite, readable, right_hand_side, square
from trnsolver.kernels import cholesky as kernels
from trnsolver.tiles import doubling_masks


@array_function
def cholesky(a: Tensor, *, upper: bool = False) -> Tensor:
    """Factor ``a = l @ l.mH``, or ``a = u.mH @ u``.

    Args:
        a: [..., N, N], Hermitian positive definite. Only its lower triangle is read (the upper one with ``upper``).
        upper: return ``u`` instead of ``l``.

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
    positive_definite("cholesky", info, a)
    return factor.mH if upper else factor


@array_function
def cholesky_solve(b: Tensor, factor: Tensor, *, upper: bool = False) -> Tensor:
    """Solve ``a @ x = b`` with the factor `cholesky` returned; the argument order is torch's.

    Args:
        b: [..., N, K] or [N].
        factor: [..., N, N], lower triangular, or upper triangular with ``upper``.
        upper: which.

    Example:
        >>> cholesky_solve(torch.tensor([2.0, 1.0]), torch.tensor([[2.0, 0.0], [1.0, 1.0]]))
        tensor([0.5000, 0.0000])
    """
    square("cholesky_solve", factor=factor)
    vector = right_hand_side("cholesky_solve", factor, b)
    lower = factor.mH if upper else factor
    columns = b.unsqueeze(-1) if vector else b
    x = trsm(1.0, lower, trsm(1.0, lower, columns, lower=True), lower=True, trans_a="c")
    return x.squeeze(-1) if vector else x


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
    below = trsm(1.0, first, a[..., half:, :half], side="r", lower=True, trans_a="c")
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
    inner = trsm(1.0, factor, phi, lower=True, trans_a="c")
    whole = trsm(1.0, factor, inner, side="r", lower=True)
    return {"a": 0.5 * (whole + whole.mH)}
