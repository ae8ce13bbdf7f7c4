"""The trace of a matrix that is known by its products, estimated from random vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from trnsci import ArgumentError, array_function, check
from trnsci.arrays import Answer, from_numpy
from trnsolver.arguments import refuse_dtype
from trnsolver.dense.qr import qr
from trnsolver.krylov.operators import Matrix, Operator, operator


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEstimate(Answer):
    """An estimate of a trace, and how far it may be off.

    Attributes:
        value: the estimate, without bias.
        error: half of the interval that holds the trace in 68.3 of 100 cases, from the spread of the samples and
            Student's distribution; samples are taken to be normal, which they are nearly.
        products: columns that the matrix was multiplied with.
    """

    value: Tensor
    error: Tensor
    products: int


@array_function
def trace(
    a: Matrix,
    *,
    products: int = 60,
    method: Literal["hutch++", "hutchinson"] = "hutch++",
    like: Tensor | None = None,
    seed: int = 0,
) -> TraceEstimate:
    """Estimate the trace of a square matrix from its products with random vectors of signs.

    ``hutchinson`` takes the mean of ``z.T @ a @ z`` (Hutchinson 1990); its error falls with the root of ``products``.
    ``hutch++`` spends a third of them on a space that holds the largest eigenvalues, whose part of the trace is exact,
    and samples the rest (Meyer, Musco, Musco and Woodruff 2021): for a positive semidefinite matrix its error falls
    with ``products`` itself, and a matrix of lower rank than that third has none but rounding.

    Args:
        a: [N, N]: a matrix, dense or sparse, a ``LinearOperator``, or a function of columns [N, K].
        products: columns to multiply with, at least 6; with as many as rows, or more, the trace is exact.
        method: ``hutch++`` or ``hutchinson``.
        like: a vector [N] of the size, dtype and device of the products, for a function and operators without a dtype.
        seed: of the random vectors; the estimate is a function of it.

    Cost:
        ``2 N**2 products`` FLOPs for a dense matrix, and ``4 N (products / 3)**2`` for ``hutch++``.

    Example:
        >>> trace(torch.diag(torch.tensor([3.0, 2.0, 1.0]))).value
        tensor(6.)
    """
    products = check.integer("trace", "products", products, 6)
    check.option("trace", "method", method, ("hutch++", "hutchinson"))
    check.integer("trace", "seed", seed)
    matrix = operator("trace", a)
    n, like = _vector(a, matrix, like)
    if matrix.shape is not None and matrix.shape != (n, n):
        raise ArgumentError("trace", "shape of a", matrix.shape, f"a square matrix of {n} rows, as like has")
    source = torch.Generator().manual_seed(seed)
    if products >= n:
        unit = torch.eye(n, dtype=like.dtype, device=like.device)
        value = matrix.apply(unit).diagonal().sum()
        return TraceEstimate(value=value / matrix.scale, error=torch.zeros_like(value.real), products=n)
    known: Tensor | float = 0.0
    count = products
    probes = _signs(n, products // 3 if method == "hutch++" else products, like, source)
    if method == "hutch++":
        basis = qr(matrix.apply(probes)).q
        image = matrix.apply(basis)
        known = (basis.conj() * image).sum()
        count = products - 2 * basis.shape[1]
        probes = _signs(n, count, like, source)
        probes = probes - basis @ (basis.mH @ probes)
    samples = (probes.conj() * matrix.apply(probes)).sum(0)
    value = known + samples.mean()
    from scipy.special import ndtr, stdtrit

    # of complex samples the spread of both parts; few samples know their own spread badly
    error = float(stdtrit(count - 1, ndtr(1.0))) * (samples.detach().var() / count) ** 0.5
    return TraceEstimate(value=value / matrix.scale, error=error / matrix.scale, products=products)


def _vector(a: Any, matrix: Operator, like: Tensor | None) -> tuple[int, Tensor]:
    """Return the rows of a matrix, and a tensor of its dtype and device."""
    if like is None:
        known = [a] if isinstance(a, Tensor) else matrix.operands()
        if not known and isinstance(getattr(a, "dtype", None), np.dtype):
            known = [from_numpy(np.empty(0, a.dtype))]
        if not known or matrix.shape is None:
            raise ArgumentError("trace", "like", None, "a vector [N], because a shows neither size nor dtype")
        return matrix.shape[0], known[0]
    check.tensor("trace", like=like)
    check.refuse(like.ndim != 1, "trace", "shape of like", tuple(like.shape), "a vector: [N]")
    refuse_dtype("trace", "dtype of like", like.dtype)
    return like.shape[0], like


def _signs(n: int, columns: int, like: Tensor, source: torch.Generator) -> Tensor:
    """Draw columns of plus and minus one, the same on every device."""
    return (2.0 * torch.randint(2, (n, columns), generator=source, device="cpu") - 1.0).to(like.device, like.dtype)
