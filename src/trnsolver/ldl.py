"""LDL factorisation of symmetric or Hermitian indefinite matrices (Bunch and Kaufman)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trnsci import array_function
from trnsolver.arguments import square


class LDL(NamedTuple):
    """``a[order][:, order] = l @ d @ l.mH`` (``l.mT`` when not Hermitian)."""

    l: Tensor  # noqa: E741
    d: Tensor
    order: Tensor


@array_function
def ldl(a: Tensor, *, hermitian: bool = True) -> LDL:
    """Factor an indefinite matrix with symmetric exchanges.

    Args:
        a: [..., N, N]; its lower triangle is read.
        hermitian: for complex matrices: Hermitian, or else symmetric.

    Returns:
        ``l`` [..., N, N] lower triangular with ones on its diagonal, ``d`` block diagonal with blocks of 1 and 2 rows,
        and ``order`` [..., N].

    Error bound:
        ``norm(l @ d @ l.mH - a[order][:, order]) <= 20 N u norm(l) norm(d) norm(l)``.

    Cost:
        ``N**3 / 3`` FLOPs.

    Example:
        >>> ldl(torch.tensor([[0.0, 1.0], [1.0, 0.0]])).d
        tensor([[0., 1.],
                [1., 0.]])
    """
    square("ldl", a=a)
    n = a.shape[-1]
    packed, pivots = torch.linalg.ldl_factor(a, hermitian=hermitian)
    parts = (
        [
            _unpacked(one, exchanges.tolist(), hermitian)
            for one, exchanges in zip(packed.reshape(-1, n, n), pivots.reshape(-1, n), strict=True)
        ]
        if packed.numel()
        else []
    )
    if not parts:
        return LDL(torch.zeros_like(a), torch.zeros_like(a), torch.zeros(a.shape[:-1], dtype=torch.int64))
    lower, middle, order = (torch.stack(each) for each in zip(*parts, strict=True))
    return LDL(lower.reshape(a.shape), middle.reshape(a.shape), order.reshape(a.shape[:-1]))


def _unpacked(packed: Tensor, pivots: list[int], hermitian: bool) -> tuple[Tensor, Tensor, Tensor]:
    """LAPACK's compact form: exchanges of later steps are not applied to earlier columns."""
    n = len(pivots)
    lower = packed.tril(-1) + torch.eye(n, dtype=packed.dtype, device=packed.device)
    middle = torch.diag(packed.diagonal())
    order = list(range(n))
    k = 0
    while k < n:
        width = 1 if pivots[k] > 0 else 2
        row, other = k + width - 1, abs(pivots[k]) - 1
        if row != other:
            lower[[row, other], :k] = lower[[other, row], :k]
            order[row], order[other] = order[other], order[row]
        if width == 2:
            corner = packed[k + 1, k]
            middle[k + 1, k] = corner
            middle[k, k + 1] = corner.conj() if hermitian else corner
            lower[k + 1, k] = 0.0
        k += width
    return lower, middle, torch.tensor(order, device=packed.device)
