"""Elementwise ``+ - * / **`` of a sparse matrix with numbers, dense tensors and sparse matrices, by SciPy's rules."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci import check
from trnsci.arrays import from_numpy, to_numpy
from trnsci.errors import ArgumentError
from trnsparse.arguments import dense, same_kind, sparse
from trnsparse.coo import COOMatrix
from trnsparse.matrix import SparseMatrix, is_sparse
from trnsparse.products import add, convert_like, multiply

Number = bool | int | float | complex | np.number | np.bool_


def combine(a: SparseMatrix, b: Any, alpha: int = 1, beta: int = 1) -> Any:
    """Return ``alpha * a + beta * b``: sparse where ``b`` is or is the number 0, and dense where ``b`` is."""
    if is_sparse(b):
        return add(a, b, alpha=alpha, beta=beta)
    arrays, b = isinstance(b, np.ndarray), _operand(b)
    if b is NotImplemented:
        return b
    name = "add" if alpha == beta else "subtract"
    if _is_number(b):
        if isinstance(b, Tensor):
            check.data(name, b=b)
        if bool(b != 0):
            expected = "0, a dense tensor or a sparse matrix"
            raise ArgumentError(name, "b", b, expected, hint="The sum would have no zeros; add it to to_dense()")
        return a.with_values(a.values * alpha)
    _broadcast(name, a, b)
    x = a.to_dense()
    result = torch.sub(b, x) if alpha < 0 else torch.add(x, b, alpha=beta)
    return to_numpy(result) if arrays else result


def times(a: SparseMatrix, b: Any) -> Any:
    """Return the elementwise product, sparse and in the format of ``a``; rows and columns are broadcast."""
    if not is_sparse(b):
        return _entrywise("multiply", torch.mul, a, b)
    b = sparse("multiply", "b", b)
    if a.shape == b.shape:
        return multiply(a, b)
    same_kind("multiply", a=a, b=b)
    shape = _broadcast("multiply", a, b)
    left, right = _expand(a, shape), b.to_coo()
    # a row or a column is small as a dense tensor; whether an entry is stored there decides, not whether it is 0
    stored = right.with_values(torch.ones_like(right.values, dtype=torch.float32)).to_dense().expand(shape) != 0
    kept = left.select(stored[left.row, left.col])
    factors = right.to_dense().expand(shape)[kept.row, kept.col]
    return convert_like(a, kept.with_values(kept.values * factors))


def over(a: SparseMatrix, b: Any) -> Any:
    """Return the elementwise quotient: sparse where ``b`` is a number or dense, dense where ``b`` is sparse.

    By a dense ``b`` only the entries of ``a`` are divided. By a sparse ``b`` every element is, and 0 / 0 is NaN.
    """
    if not is_sparse(b):
        return _entrywise("divide", torch.true_divide, a, b)
    b = sparse("divide", "b", b)
    same_kind("divide", a=a, b=b)
    check.equal("divide", "shape", a=a.shape, b=b.shape)
    return a.to_dense() / b.to_dense()


def under(a: SparseMatrix, b: Any) -> Any:
    """Return ``b / a`` of a sparse ``b``; numbers and dense tensors are not divided by absent entries."""
    return over(sparse("divide", "a", b), a) if is_sparse(b) else NotImplemented


def power(a: SparseMatrix, exponent: Any) -> Any:
    """Return every stored entry to a power that is a number and not 0, of which absent entries would become 1."""
    exponent = _operand(exponent)
    if exponent is NotImplemented:
        return exponent
    if isinstance(exponent, Tensor):
        check.refuse(exponent.ndim != 0, "power", "exponent", tuple(exponent.shape), "a number")
        check.data("power", exponent=exponent)
    check.refuse(
        bool(exponent == 0), "power", "exponent", exponent, "a number other than 0, which would fill the matrix"
    )
    a = a._summed()
    return a.with_values(a.values**exponent)


def _operand(b: Any) -> Any:
    """Return a number or a tensor; ``NotImplemented`` for anything else."""
    if isinstance(b, np.ndarray):
        b = from_numpy(b)
    if isinstance(b, Number | Tensor):
        return b.item() if isinstance(b, np.generic) else b
    return NotImplemented


def _is_number(b: Any) -> bool:
    return not isinstance(b, Tensor) or b.ndim == 0


def _entrywise(name: str, operate: Callable[..., Tensor], a: SparseMatrix, b: Any) -> Any:
    """Return ``operate`` of the stored entries and the elements of a number or a dense tensor beside them."""
    b = _operand(b)
    if b is NotImplemented:
        return b
    if _is_number(b):
        return a.with_values(operate(a.values, b))
    shape = _broadcast(name, a, b)
    coo = _expand(a, shape)
    return convert_like(a, coo.with_values(operate(coo.values, b.expand(shape)[coo.row, coo.col])))


def _broadcast(name: str, a: SparseMatrix, b: SparseMatrix | Tensor) -> tuple[int, int]:
    """Return the shape of both together, a matrix."""
    if isinstance(b, Tensor):
        dense(name, b=b)
        if b.device != a.device:
            check.same_device(name, a=a.values, b=b)
    try:
        shape = torch.broadcast_shapes(a.shape, b.shape)
    except RuntimeError:
        shape = torch.Size()
    if len(shape) != 2:
        got = {"a": a.shape, "b": tuple(b.shape)}
        raise ArgumentError(name, "shape", got, hint="Sizes have to agree or be 1, in at most two dimensions")
    return shape[0], shape[1]


def _expand(a: SparseMatrix, shape: tuple[int, int]) -> COOMatrix:
    """Return entries repeated along the axes on which ``a`` has one row or column and ``shape`` has more."""
    coo = a.to_coo()
    (m, n), entries = shape, coo.nnz
    row, col, values = coo.row, coo.col, coo.values
    if coo.shape[1] != n:
        col = torch.arange(n, device=col.device).repeat(entries)
        row, values = row.repeat_interleave(n), values.repeat_interleave(n)
    if coo.shape[0] != m:
        row = torch.arange(m, device=row.device).repeat_interleave(row.numel())
        col, values = col.repeat(m), values.repeat(m)
    return COOMatrix.sorted(row, col, values, shape)


__all__ = ["combine", "over", "power", "times", "under"]
