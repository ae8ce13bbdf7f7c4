"""Sparse vectors: entries of a dense vector by index, and the level-1 operations on them."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci import array_function, check
from trnsci.backends import on_host
from trnsparse.arguments import check_ndim, dense, same_kind
from trnsparse.indices import as_index, check_length, check_range


@array_function
def gather(y: Tensor, indices: Tensor) -> Tensor:
    """Return ``y[indices]``, the entries of a dense vector that a sparse one holds."""
    return y[_positions("gather", indices, y)]


@array_function
def scatter(x: Tensor, indices: Tensor, y: Tensor) -> Tensor:
    """Return a copy of ``y`` with ``y[indices] = x``; indices are distinct."""
    positions = _positions("scatter", indices, y, x)
    return y.index_put((positions,), x)


@array_function
def axpby(alpha: complex, x: Tensor, indices: Tensor, beta: complex, y: Tensor) -> Tensor:
    """Return ``alpha * x + beta * y`` for a sparse ``x`` and a dense ``y``; repeated indices add up."""
    positions = _positions("axpby", indices, y, x)
    check.floating("axpby", x=x, y=y)
    alpha, beta = (check.coefficient("axpby", *each, y.dtype) for each in (("alpha", alpha), ("beta", beta)))
    return (y * beta).index_add(0, positions, x * alpha)


@array_function
def rot(x: Tensor, indices: Tensor, y: Tensor, c: float, s: complex) -> tuple[Tensor, Tensor]:
    """Rotate a sparse ``x`` with what it meets in ``y``: return ``c x + s y`` and ``y`` with ``c y - conj(s) x``."""
    positions = _positions("rot", indices, y, x)
    check.floating("rot", x=x, y=y)
    c, s = check.real("rot", "c", c), check.coefficient("rot", "s", s, y.dtype)
    met, conjugate = y[positions], s.conjugate()
    return c * x + s * met, y.index_put((positions,), c * met - conjugate * x)


@array_function
def dot(x: Tensor, indices: Tensor, y: Tensor) -> Tensor:
    """Return ``sum(x * y[indices])``, without conjugation."""
    positions = _positions("dot", indices, y, x)
    check.floating("dot", x=x, y=y)
    return torch.dot(x, y[positions])


def _positions(op: str, indices: Tensor, y: Tensor, x: Tensor | None = None) -> Tensor:
    """Return the indices, checked against the dense vector and the values of the sparse one."""
    on_host(f"trnsparse.vectors.{op}")
    dense(op, y=y)
    check_ndim(op, y=(y, "[N]"))
    positions = as_index(op, "indices", indices, y.device, hint="")
    if not y.is_meta and not positions.is_meta:
        check_range(op, "indices", positions, y.shape[0])
    if x is not None:
        dense(op, x=x)
        same_kind(op, x=x, y=y)
        check_ndim(op, x=(x, "[entries]"))
        check_length(op, x=x.shape[0], indices=positions.shape[0])
        if x.device != y.device:
            check.data(op, x=x, y=y)
    return positions
