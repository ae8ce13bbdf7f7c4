"""SciPy's BLAS on tensors in host memory, where PyTorch has no call for an operation, or a slow one.

An array contiguous by rows is the transpose of one contiguous by columns, which is what BLAS takes, so nothing is
copied: sides and triangles are exchanged instead.
"""

import functools
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.precision import DEFAULT, Precision

REAL = {torch.float32: "s", torch.float64: "d"}
COMPLEX = {torch.complex64: "c", torch.complex128: "z"}
ALL_LETTERS = REAL | COMPLEX


def refusal(
    *tensors: Tensor,
    ndim: int = 2,
    precision: Precision | None = None,
    dtypes: Container[torch.dtype] = REAL,
) -> str | None:
    """Return why SciPy's BLAS does not take these operands, or ``None``: its own limits, beside those of the runtime.

    All have one dtype and at most ``ndim`` axes.
    """
    dtype = tensors[0].dtype
    if dtype not in dtypes:
        return f"there is no such routine for {str(dtype).removeprefix('torch.')}"
    if precision is not None and precision != DEFAULT[dtype]:
        return f"it computes in the precision of the operands, not in {precision!r}"
    for t in tensors:
        if t.ndim > ndim:
            return f"it takes operands of {ndim} axes at most, not a batch of them"
        if t.numel() == 0:
            return "an operand is empty"
    return None


def name(routine: str, like: Tensor) -> str:
    """Return what is called for operands like this one, for plans."""
    return f"scipy.linalg.blas.{ALL_LETTERS[like.dtype]}{routine}"


@functools.cache
def routine(name: str, dtype: torch.dtype) -> Any:
    """Return SciPy's routine for operands of a dtype."""
    # Imported at the first call: half of the time it takes to import this library.
    from scipy.linalg import blas

    return getattr(blas, ALL_LETTERS[dtype] + name)


def rotate(x: Tensor, y: Tensor, matrix: Sequence[complex], *, plane: bool) -> tuple[Tensor, Tensor]:
    """Return ``(m0 x + m1 y, m2 x + m3 y)``; in a ``plane`` rotation ``m3 = m0`` and ``m2 = -m1``."""
    m0, m1, m2, m3 = matrix
    if plane:
        first, second = routine("rot", x.dtype)(x.numpy(), y.numpy(), m0, m1)
    else:
        factors = np.array([-1.0, m0, m2, m1, m3], x.numpy().dtype)
        first, second = routine("rotm", x.dtype)(x.numpy(), y.numpy(), factors)
    return torch.from_numpy(first), torch.from_numpy(second)


def _by_columns(x: Tensor) -> tuple[np.ndarray[Any, Any], bool]:
    """Return memory of ``x`` contiguous by columns, and whether it is then the transpose of ``x``."""
    array = x.numpy()
    if x.is_contiguous():
        return array.T, True
    return (array, False) if array.flags.f_contiguous else (np.ascontiguousarray(array).T, True)


def symmetric_product(alpha: float, a: Tensor, b: Tensor, lower: bool) -> Tensor:
    """Return ``alpha * a @ b`` with one triangle of ``a`` stored."""
    matrix, transposed = _by_columns(a)
    stored = lower != transposed
    if b.shape[1] == 1:
        return torch.from_numpy(routine("symv", a.dtype)(alpha, matrix, b.numpy()[:, 0], lower=stored)[:, None])
    right, across = _by_columns(b)
    product = routine("symm", a.dtype)(alpha, matrix, right, side=across, lower=stored)
    return torch.from_numpy(product.T if across else product)


def hermitian_product(alpha: complex, a: Tensor, x: Tensor, lower: bool) -> Tensor:
    """Return ``alpha * a @ x`` with one triangle of a Hermitian ``a`` stored, and ``x`` one column."""
    (matrix, transposed), column = _by_columns(a), x.numpy()[:, 0]
    multiply = routine("hemv", a.dtype)
    if not transposed:
        return torch.from_numpy(multiply(alpha, matrix, column, lower=lower)[:, None])
    # the transpose of a Hermitian matrix is its conjugate
    product = multiply(complex(alpha).conjugate(), matrix, column.conj(), lower=not lower)
    return torch.from_numpy(np.conjugate(product, out=product)[:, None])


def symmetric_sum(alpha: float, x: Tensor, y: Tensor | None, lower: bool) -> Tensor:
    """Return the triangle of ``alpha * x @ x.T``, or of ``alpha * (x @ y.T + y @ x.T)``, and zeros."""
    left, transposed = _by_columns(x)
    factors = [left]
    if y is not None:
        factors.append(np.ascontiguousarray(y.numpy()).T if transposed else np.asfortranarray(y.numpy()))
    # The result is symmetric, so reading it by rows is asking for the other triangle.
    update = routine("syrk" if y is None else "syr2k", x.dtype)
    return torch.from_numpy(update(alpha, *factors, trans=transposed, lower=not lower).T)


def triangular(stem: str, alpha: float, a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor:
    """Return ``alpha * a @ b`` with ``a`` triangular (``stem`` is trm), or ``alpha * inv(a) @ b`` (trs)."""
    matrix, transposed = _by_columns(a)
    stored = lower != transposed
    if b.shape[1] == 1:
        compute = routine(stem + "v", a.dtype)
        result = compute(matrix, b.numpy()[:, 0], lower=stored, trans=transposed, diag=unit)[:, None]
        return torch.from_numpy(result if alpha == 1 else alpha * result)
    right, across = _by_columns(b)
    # Where b comes transposed, so does the result, and what stands to its right is the transpose of a.
    flags = {"side": across, "lower": stored, "trans_a": transposed != across, "diag": unit}
    result = routine(stem + "m", a.dtype)(alpha, matrix, right, **flags)
    return torch.from_numpy(result.T if across else result)


def rank_one(
    alpha: complex, x: Tensor, y: Tensor | None, a: Tensor | None, lower: bool, *, hermitian: bool = False
) -> Tensor:
    """Return one triangle of ``alpha * x @ x.T + a``, or of ``alpha * (x @ y.T + y @ x.T) + a``; x, y are columns.

    ``hermitian`` conjugates the second factors, and ``alpha`` of the second product.
    """
    vectors = [v.numpy()[:, 0] for v in (x, y) if v is not None]
    if hermitian:
        # the transpose of a Hermitian matrix is its conjugate, in which the vectors change places
        vectors = [v.conj() for v in vectors[::-1]]
    update = routine(("her" if hermitian else "syr") + ("" if y is None else "2"), x.dtype)
    # By columns the matrix is its transpose, so that the other triangle is meant.
    matrix = None if a is None else a.numpy().copy().T
    scale = alpha if hermitian and y is not None else alpha.real
    return torch.from_numpy(update(scale, *vectors, lower=not lower, a=matrix, overwrite_a=True).T)
