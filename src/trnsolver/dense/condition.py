"""Condition numbers: exact ones, and estimates from factors."""

from __future__ import annotations

import torch
from scipy.linalg import lapack
from torch import Tensor

from trnblas.host_blas import ALL_LETTERS
from trnsci import array_function, check
from trnsolver.arguments import matrices, square, write_results
from trnsolver.dense.lu import LU, lu_factor
from trnsolver.eigen.svd import svdvals
from trnsolver.scaling import near_one
from trnsolver.scipy_calls import in_memory


@array_function
def cond(a: Tensor, p: int | float | str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the condition number ``norm(a) * norm(inv(a))``.

    Args:
        a: [..., M, N]; square unless ``p`` is ``None``, 2 or -2.
        p: ``None`` or 2: ratio of the extreme singular values; -2: its inverse; 1, -1, inf, -inf, ``"fro"``, ``"nuc"``.
        out: where the result goes; it must fit and share no memory with an operand.

    Returns:
        [...]: infinite for singular matrices.

    Example:
        >>> cond(torch.tensor([[4.0, 0.0], [0.0, 2.0]]))
        tensor(2.)
    """
    check.option("cond", "p", p, (None, 2, -2, 1, -1, float("inf"), float("-inf"), "fro", "nuc"))
    if p in (None, 2, -2):
        matrices("cond", a=a)
        s = svdvals(a)
        if s.shape[-1] == 0:
            return write_results("cond", out, s.new_zeros(a.shape[:-2]), a=a)
        return write_results("cond", out, s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1], a=a)
    square("cond", a=a)
    if a.shape[-1] == 0:
        return write_results("cond", out, torch.zeros_like(a.real).sum((-2, -1)), a=a)
    # a multiple has the same, and its inverse and norms stay in range
    near = a * near_one(a.detach(), (-2, -1), beyond=2.0**40)
    # torch's own cannot be differentiated: it writes into the inverse it has saved
    inverse, info = torch.linalg.inv_ex(near)
    sizes = [torch.linalg.matrix_norm(x, p) for x in (near, torch.where((info != 0)[..., None, None], 1.0, inverse))]
    return write_results("cond", out, torch.where(info != 0, float("inf"), sizes[0] * sizes[1]), a=a)


@array_function
def cond_estimate(a: Tensor) -> Tensor:
    """Estimate the 1-norm condition number of ``a`` [N, N] from its LU factors, at the cost of a few solves.

    The estimate (Hager and Higham) is a lower bound, nearly always within a factor of 3.

    Example:
        >>> cond_estimate(torch.tensor([[4.0, 0.0], [0.0, 2.0]]))
        tensor(2., dtype=torch.float64)
    """
    square("cond_estimate", a=a)
    check.data("cond_estimate", wrapped=True, a=a)
    check.equal("cond_estimate", "dimensions", a=a.ndim, matrix=2)
    a = a * near_one(a, (-2, -1), beyond=2.0**40)
    factors = lu_factor(a)
    if bool((factors.factors.diagonal() == 0).any()):
        return torch.tensor(float("inf"), dtype=torch.float64, device=a.device)
    return torch.tensor(condition_from_factors(a, factors), dtype=torch.float64, device=a.device)


def condition_from_factors(a: Tensor, factors: LU) -> float:
    """Estimate ``norm(inv(a), 1) * norm(a, 1)`` by LAPACK, in host memory (Hager and Higham)."""
    if a.shape[-1] == 0:
        return 0.0
    norm = float(a.abs().sum(-2).max())
    here = in_memory(factors.factors)
    reciprocal, _ = getattr(lapack, f"{ALL_LETTERS[here.dtype]}gecon")(here.numpy(), norm)
    return 1.0 / reciprocal if reciprocal > 0 else float("inf")
