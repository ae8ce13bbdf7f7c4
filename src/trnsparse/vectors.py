"""Sparse vectors: entries of a dense vector by index, and the level-1 operations on them."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci import array_function, check
from trnsparse.structure import as_index, check_length, check_range


@array_function
def gather(y: Tensor, indices: Tensor) -> Tensor:
    """Return ``y[indices]``, the entries of a dense vector that a sparse one holds."""
    return y[_places("gather", indices, y)]


@array_function
def scatter(x: Tensor, indices: Tensor, y: Tensor) -> Tensor:
    """Return a copy of ``y`` with ``y[indices] = x``; indices are distinct."""
    places = _places("scatter", indices, y)
    check_length("scatter", x=x.shape[0], indices=places.numel())
    return y.index_put((places,), x)


@array_function
def axpby(alpha: complex, x: Tensor, indices: Tensor, beta: complex, y: Tensor) -> Tensor:
    """Return ``alpha * x + beta * y`` for a sparse ``x`` and a dense ``y``; repeated indices add up."""
    places = _places("axpby", indices, y)
    check.floating("axpby", x=x, y=y)
    check_length("axpby", x=x.shape[0], indices=places.numel())
    return (y * beta).index_add(0, places, x * alpha)


@array_function
def rot(x: Tensor, indices: Tensor, y: Tensor, c: float, s: complex) -> tuple[Tensor, Tensor]:
    """Rotate a sparse ``x`` with what it meets in ``y``: return ``c x + s y`` and ``y`` with ``c y - conj(s) x``."""
    places = _places("rot", indices, y)
    check.floating("rot", x=x, y=y)
    check_length("rot", x=x.shape[0], indices=places.numel())
    met = y[places]
    conjugate = complex(s).conjugate() if y.is_complex() else s
    return c * x + s * met, y.index_put((places,), c * met - conjugate * x)


@array_function
def dot(x: Tensor, indices: Tensor, y: Tensor) -> Tensor:
    """Return ``sum(x * y[indices])``, without conjugation."""
    places = _places("dot", indices, y)
    check.floating("dot", x=x, y=y)
    check_length("dot", x=x.shape[0], indices=places.numel())
    return torch.dot(x, y[places])


def _places(op: str, indices: Tensor, y: Tensor) -> Tensor:
    places = as_index(op, "indices", indices, y.device)
    check_range(op, "indices", places, y.shape[0])
    return places
