"""Columns of vectors and a number for each: tensors [N, K] and [K], or on the host an array [N] and Python's numbers.

Solvers are written once for both. One column on the host is what most callers have, and BLAS on arrays spends a tenth
of the time that tensors of one number take.
"""

import math
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.linalg import blas
from torch import Tensor

Columns: TypeAlias = Any
Numbers: TypeAlias = Any

_DOT = {"f": blas.sdot, "d": blas.ddot, "F": blas.cdotc, "D": blas.zdotc}
_GEMV = {"f": blas.sgemv, "d": blas.dgemv, "F": blas.cgemv, "D": blas.zgemv}
_AXPY = {"f": blas.saxpy, "d": blas.daxpy, "F": blas.caxpy, "D": blas.zaxpy}
# squares of float32 leave its range early; for float64 the dot product is faster than BLAS's norm
_NORM = {"f": blas.snrm2, "F": blas.scnrm2}


def inner(x: Columns, y: Columns) -> Numbers:
    """Return ``x.conj() . y``, column by column."""
    return _DOT[x.dtype.char](x, y) if type(x) is np.ndarray else (x.conj() * y).sum(0)


def norms(x: Columns) -> Numbers:
    """Return the length of every column."""
    if type(x) is not np.ndarray:
        return torch.linalg.vector_norm(x, dim=0)
    norm = _NORM.get(x.dtype.char)
    return math.sqrt(inner(x, x).real) if norm is None else norm(x)


def plus(y: Columns, alpha: Numbers, x: Columns) -> Columns:
    """``y + alpha * x``, in the memory of ``y`` on the host."""
    return _AXPY[y.dtype.char](x, y, a=alpha) if type(y) is np.ndarray else y + alpha * x


def quotient(x: Numbers, y: Numbers) -> Numbers:
    """``x / y``, and 0 where ``y`` is 0: a column that is done stays where it is."""
    if not isinstance(y, Tensor):
        return x / y if y else 0.0
    none = y == 0
    return (x / y.masked_fill(none, 1.0)).masked_fill(none, 0.0)


def unit(x: Columns) -> tuple[Columns, Numbers]:
    """Return columns of unit length, and what theirs was; those of length zero stay."""
    size = norms(x)
    return x / (size + (size == 0)), size


def project_out(basis: Columns, w: Columns) -> tuple[Columns, Columns]:
    """Remove from ``w`` [..., N, 1] its part in the space of the rows of ``basis``; return both."""
    if type(basis) is np.ndarray:
        # BLAS stores by columns: it sees the transpose, which ``trans=2`` conjugates and transposes back
        gemv, columns, v = _GEMV[basis.dtype.char], basis.T, w.ravel()
        part = gemv(1.0, columns, v, trans=2)
        return gemv(-1.0, columns, part, beta=1.0, y=v).reshape(w.shape), part.reshape(-1, *w.shape[1:])
    part = basis.conj() @ w
    return w - basis.mT @ part, part


def orthogonal(basis: Columns, w: Columns, near: int = 0) -> tuple[Columns, Columns]:
    """``w`` orthogonal to the rows of ``basis``, and its part in their space; twice is enough.

    A single column is orthogonal already to rows before ``near``, but for rounding: once is enough for those, unless
    little else is left of it.
    """
    w, first = project_out(basis[near:], w)
    w, part = project_out(basis, w)
    if near == 0:
        return w, first + part
    if norms(part) > norms(w):
        w, again = project_out(basis, w)
        part = part + again
    part[near:] += first
    return w, part


def eps(x: Columns) -> float:
    """Return the distance from 1 to the next number."""
    return float((np if isinstance(x, np.ndarray) else torch).finfo(x.dtype).eps)


def hypot(x: Numbers, y: Numbers) -> Numbers:
    """``sqrt(x**2 + y**2)`` without overflow."""
    if isinstance(x, Tensor):
        return torch.hypot(x, torch.as_tensor(y, device=x.device).to(x))
    return math.hypot(x, y)


def root(x: Numbers) -> Numbers:
    """Square root; 0 for what rounding has left below it."""
    return x.clamp_min(0).sqrt() if isinstance(x, Tensor) else math.sqrt(max(x, 0.0))


def smaller(x: Numbers, y: Numbers) -> Numbers:
    """Return the smaller of two, column by column."""
    return torch.minimum(x, y) if isinstance(x, Tensor) else min(x, y)


def some(condition: Tensor | bool) -> bool:
    """Return whether it holds for a column."""
    return bool(condition.any()) if isinstance(condition, Tensor) else condition
