"""SciPy's BLAS on tensors in host memory, where PyTorch has no call for an operation, or a slow one.

An array contiguous by rows is the transpose of one contiguous by columns, which is what BLAS takes, so nothing is
copied: sides and triangles are exchanged instead.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.precision import DEFAULT, Precision

_LETTERS = {torch.float32: "s", torch.float64: "d"}
ALL_LETTERS = _LETTERS | {torch.complex64: "c", torch.complex128: "z"}


def refusal(
    *tensors: Tensor,
    ndim: int = 2,
    precision: Precision | None = None,
    dtypes: Container[torch.dtype] = _LETTERS,
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
def _routine(name: str) -> Any:
    # Imported at the first call: half of the time it takes to import this library.
    from scipy.linalg import blas

    return getattr(blas, name)


def rotated(x: Tensor, y: Tensor, matrix: Sequence[complex], *, plane: bool) -> tuple[Tensor, Tensor]:
    """Return ``(m0 x + m1 y, m2 x + m3 y)``; in a ``plane`` rotation ``m3 = m0`` and ``m2 = -m1``."""
    m0, m1, m2, m3 = matrix
    if plane:
        results = call("rot", x, x.numpy(), y.numpy(), m0, m1)
    else:
        results = call("rotm", x, x.numpy(), y.numpy(), np.array([-1.0, m0, m2, m1, m3], x.numpy().dtype))
    return torch.from_numpy(results[0]), torch.from_numpy(results[1])


def call(name: str, like: Tensor, *args: Any, **options: Any) -> Any:
    """Run a routine of the precision of ``like``."""
    return _routine(ALL_LETTERS[like.dtype] + name)(*args, **options)


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
    if b.ndim == 1 or b.shape[1] == 1:
        product = call("symv", a, alpha, matrix, b.numpy().reshape(-1), lower=stored)
        return torch.from_numpy(product.reshape(b.shape))
    right, across = _by_columns(b)
    product = call("symm", a, alpha, matrix, right, side=int(across), lower=stored)
    return torch.from_numpy(product.T if across else product)


def symmetric_sum(alpha: float, x: Tensor, y: Tensor | None, lower: bool) -> Tensor:
    """Return the triangle of ``alpha * x @ x.T``, or of ``alpha * (x @ y.T + y @ x.T)``, and zeros."""
    left, transposed = _by_columns(x)
    factors = [left]
    if y is not None:
        factors.append(np.ascontiguousarray(y.numpy()).T if transposed else np.asfortranarray(y.numpy()))
    # The result is symmetric, so reading it by rows is asking for the other triangle.
    routine = "syrk" if y is None else "syr2k"
    return torch.from_numpy(call(routine, x, alpha, *factors, trans=int(transposed), lower=not lower).T)


def triangular(routine: str, alpha: float, a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor:
    """Return ``alpha * a @ b`` with ``a`` triangular (``routine`` is trm), or ``alpha * inv(a) @ b`` (trs)."""
    matrix, transposed = _by_columns(a)
    flags = {"lower": lower != transposed, "diag": int(unit)}
    if b.ndim == 1 or b.shape[1] == 1:
        result = call(routine + "v", a, matrix, b.numpy().reshape(-1), trans=int(transposed), **flags)
        return torch.from_numpy((result if alpha == 1 else alpha * result).reshape(b.shape))
    right, across = _by_columns(b)
    # Where b comes transposed, so does the result, and what stands to its right is the transpose of a.
    side = {"side": int(across), "trans_a": int(transposed != across)}
    result = call(routine + "m", a, alpha, matrix, right, **side, **flags)
    return torch.from_numpy(result.T if across else result)


def rank_one(alpha: float, x: Tensor, y: Tensor | None, a: Tensor | None, lower: bool) -> Tensor:
    """Return one triangle of ``alpha * x @ x.T + a``, or of ``alpha * (x @ y.T + y @ x.T) + a``; x, y are columns."""
    # By columns the matrix is its transpose, so that the other triangle is meant.
    options = {"lower": not lower} | ({} if a is None else {"a": np.ascontiguousarray(a.numpy()).T})
    vectors = [v.numpy()[:, 0] for v in (x, y) if v is not None]
    return torch.from_numpy(call("syr" if y is None else "syr2", x, alpha, *vectors, **options).T)
