"""LU factors without row exchanges, by halves: products of blocks."""

import torch
from torch import Tensor

from trnblas import gemm
from trnsolver.arguments import nonsingular
from trnsolver.dense.solve_triangular import triangular


def factor_unpivoted(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return an empty P, as in torch, and L and U of ``a`` [..., M, N]; a zero pivot raises."""
    lower, upper = _factor_by_halves(a)
    nonsingular("lu", upper.diagonal(dim1=-2, dim2=-1)[..., : max(0, min(a.shape[-2:]) - 1)])
    return a.new_empty((0,)), lower, upper


def _factor_by_halves(a: Tensor) -> tuple[Tensor, Tensor]:
    m, n = a.shape[-2:]
    k = min(m, n)
    if k <= 1:
        if k == 0:
            return a.new_zeros((*a.shape[:-1], 0)), a.new_zeros((*a.shape[:-2], 0, n))
        head = a[..., :1, :1]
        nonsingular("lu", head[..., 0] if m > 1 else torch.ones_like(head[..., 0]))
        column = torch.cat([torch.ones_like(head), a[..., 1:, :1] / head], -2) if m > 1 else torch.ones_like(head)
        return column, a[..., :1, :]
    h = k // 2
    left, up = _factor_by_halves(a[..., :h])
    right = triangular(left[..., :h, :], a[..., :h, h:], lower=True, unit=True)
    last, down = _factor_by_halves(gemm(-1.0, left[..., h:, :], right, 1.0, a[..., h:, h:]))
    lower = torch.cat([left, torch.cat([left.new_zeros((*left.shape[:-2], h, k - h)), last], -2)], -1)
    return lower, torch.cat([torch.cat([up, right], -1), torch.cat([torch.zeros_like(down[..., :h]), down], -1)], -2)
