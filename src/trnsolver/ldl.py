"""LDL factorisation of symmetric or Hermitian indefinite matrices (Bunch and Kaufman)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnsci import array_function
from trnsci.arrays import to_numpy
from trnsolver.arguments import no_gradient, square, triangle

Matrix = NDArray[Any]


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
        ``N**3 / 3`` FLOPs, on the host whatever the backend and the device of ``a``. No gradient.

    Example:
        >>> ldl(torch.tensor([[0.0, 1.0], [1.0, 0.0]])).d
        tensor([[0., 1.],
                [1., 0.]])
    """
    square("ldl", look=False, a=a)
    triangle("ldl", True, a=a)
    no_gradient("ldl", a)
    n = a.shape[-1]
    packed, pivots = torch.linalg.ldl_factor(a.cpu(), hermitian=hermitian)
    made = [
        _unpacked(one, exchanges.tolist(), hermitian)
        for one, exchanges in zip(to_numpy(packed).reshape(-1, n, n), pivots.reshape(-1, n), strict=True)
        if n
    ]
    if not made:
        order = torch.zeros(a.shape[:-1], dtype=torch.int64, device=a.device)
        return LDL(torch.zeros_like(a), torch.zeros_like(a), order)
    lower, middle, order = (torch.from_numpy(np.stack(each)).to(a.device) for each in zip(*made, strict=True))
    return LDL(lower.reshape(a.shape), middle.reshape(a.shape), order.reshape(a.shape[:-1]))


def _unpacked(packed: Matrix, pivots: list[int], hermitian: bool) -> tuple[Matrix, Matrix, Matrix]:
    """LAPACK's compact form: exchanges of later steps are not applied to earlier columns."""
    n = len(pivots)
    lower = np.tril(packed, -1)
    np.fill_diagonal(lower, 1.0)
    middle = np.diag(np.diagonal(packed)).copy()
    order = np.arange(n)
    k = 0
    while k < n:
        width = 1 if pivots[k] > 0 else 2
        row, other = k + width - 1, abs(pivots[k]) - 1
        if row != other:
            lower[[row, other], :k] = lower[[other, row], :k]
            order[[row, other]] = order[[other, row]]
        if width == 2:
            corner = packed[k + 1, k]
            middle[k + 1, k] = corner
            middle[k, k + 1] = corner.conjugate() if hermitian else corner
            lower[k + 1, k] = 0.0
        k += width
    return lower, middle, order
