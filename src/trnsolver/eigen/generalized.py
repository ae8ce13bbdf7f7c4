"""Generalised Hermitian eigenproblems."""

from __future__ import annotations

from torch import Tensor

from trnblas import gemm
from trnsci import array_function, check
from trnsolver.arguments import square, triangle
from trnsolver.dense.cholesky import cholesky
from trnsolver.dense.solve_triangular import triangular
from trnsolver.eigen.eigh import Eigh, eigh


@array_function
def eigh_generalized(a: Tensor, b: Tensor, *, kind: int = 1) -> Eigh:
    """Return eigenpairs with ``b`` positive definite: LAPACK's ``sygvd``.

    Args:
        a: [..., N, N], Hermitian; its lower triangle is read.
        b: [..., N, N], Hermitian positive definite; its lower triangle is read.
        kind: 1: ``a @ v = b @ v * w``; 2: ``a @ b @ v = v * w``; 3: ``b @ a @ v = v * w``.

    Returns:
        `Eigh`: values ascend; vectors satisfy ``v.mH @ b @ v = 1`` (kinds 1 and 2), ``v.mH @ inv(b) @ v = 1`` (kind 3).

    Raises:
        NotPositiveDefinite: ``b`` is not.

    Error bound:
        that of `eigh` times the condition number of ``b``.

    Example:
        >>> a, b = torch.diag(torch.tensor([2.0, 3.0])), torch.diag(torch.tensor([2.0, 1.0]))
        >>> eigh_generalized(a, b).values.round(decimals=4)
        tensor([1., 3.])
    """
    square("eigh_generalized", look=False, a=a, b=b)
    triangle("eigh_generalized", True, a=a, b=b)
    check.equal("eigh_generalized", "N", a=a.shape[-1], b=b.shape[-1])
    check.option("eigh_generalized", "kind", kind, (1, 2, 3))
    batch = check.broadcast("eigh_generalized", a=a.shape[:-2], b=b.shape[:-2])
    whole = (a.tril() + a.tril(-1).mH).expand(*batch, *a.shape[-2:])
    factor = cholesky(b.expand(*batch, *b.shape[-2:]))
    if kind == 1:
        half = triangular(factor, whole, lower=True)
        core = triangular(factor, half.mH, lower=True).mH
    else:
        core = gemm(1.0, factor, gemm(1.0, whole, factor), trans_a="c")
    values, y = eigh(0.5 * (core + core.mH))
    if kind == 3:
        return Eigh(values, gemm(1.0, factor, y))
    return Eigh(values, triangular(factor.mH, y, lower=False))
