"""Linear combinations of vectors, element by element: axpy, scal, copy, swap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas.arguments import HALF, coefficient, vectors
from trnblas.kernels import axpy as kernels
from trnsci import ArgumentError, Op, array_function, check
from trnsci.gradient import Saved
from trnsci.nki import P_MAX, launch


@array_function
def axpy(x: Tensor, y: Tensor, a: complex = 1.0, *, out: Tensor | None = None) -> Tensor:
    """Return ``a * x + y``.

    Args:
        x: [..., N]
        y: [..., N]; leading axes broadcast.
        a: a number; complex only for complex vectors.
        out: memory for the result, shared with no operand.

    Error bound:
        ``|error| <= g(2) (|a x| + |y|)`` elementwise, ``g(n) = n u / (1 - n u)``.

    Example:
        >>> axpy(torch.ones(2), torch.ones(2), 3.0)
        tensor([4., 4.])
    """
    dtype = vectors("axpy", x=x, y=y)
    check.equal("axpy", "N", x=x.shape[-1], y=y.shape[-1])
    shape = check.broadcast("axpy", x=x.shape, y=y.shape)
    a = coefficient("axpy", "a", a, dtype)
    return _into(out, "axpy", shape, dtype, [x.expand(shape), y.expand(shape)], [a, 1.0])


@array_function
def scal(a: complex, x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return ``a * x``. Error: one rounding.

    Example:
        >>> scal(2.0, torch.ones(2))
        tensor([2., 2.])
    """
    dtype = vectors("scal", x=x)
    return _into(out, "scal", x.shape, dtype, [x], [coefficient("scal", "a", a, dtype)])


@array_function
def copy(x: Tensor, y: Tensor | None = None) -> Tensor:
    """Copy ``x`` into ``y`` and return ``y``; without ``y``, return a new tensor.

    Example:
        >>> copy(torch.ones(2))
        tensor([1., 1.])
    """
    dtype = vectors("copy", x=x)
    return _into(y, "copy", x.shape, dtype, [x], [1.0])


@array_function
def swap(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return copies of ``y`` and ``x``, exchanged.

    Example:
        >>> swap(torch.zeros(1), torch.ones(1))
        (tensor([1.]), tensor([0.]))
    """
    vectors("swap", x=x, y=y)
    check.equal("swap", "shape", x=tuple(x.shape), y=tuple(y.shape))
    new_x, new_y = combine([x, y], [0.0, 1.0, 1.0, 0.0]).unbind(0)
    return new_x, new_y


def _into(out: Tensor | None, op: str, shape: Any, dtype: torch.dtype, xs: list[Tensor], row: list[complex]) -> Tensor:
    if out is None:
        return combine(xs, row)[0]
    named = dict(zip("xy", xs, strict=False))
    check.out(op, out, shape=tuple(shape), dtype=dtype, **named)
    combine.write(out.unsqueeze(0), xs, row)
    return out


def _rows(xs: list[Tensor], coefficients: list[complex]) -> list[list[complex]]:
    width = len(xs)
    return [coefficients[i : i + width] for i in range(0, len(coefficients), width)]


def _fake(xs: list[Tensor], coefficients: list[complex]) -> Tensor:
    return xs[0].new_empty((len(coefficients) // len(xs), *xs[0].shape))


def _cost(xs: list[Tensor], coefficients: list[complex]) -> int:
    return 2 * len(coefficients) * xs[0].numel() * (4 if xs[0].is_complex() else 1)


combine = Op("trnblas::combine", fake=_fake, cost=_cost, schema="(Tensor[] xs, Scalar[] coefficients) -> Tensor")


@combine.impl("pytorch")
def _pytorch(xs: list[Tensor], coefficients: list[complex]) -> Tensor:
    if len(coefficients) == len(xs):
        return _row(xs, coefficients).unsqueeze(0)
    return torch.stack([_row(xs, row) for row in _rows(xs, coefficients)])


def _row(xs: list[Tensor], row: list[complex], out: Tensor | None = None) -> Tensor:
    """One combination. A factor of 1 costs nothing, and a factor of 0 does not read its vector."""
    used = [(a, x) for a, x in zip(row, xs, strict=True) if a != 0]
    used.sort(key=lambda term: term[0] != 1)
    if not used:
        return torch.mul(torch.zeros_like(xs[0]), 1, out=out)
    (a, x), *rest = used
    if not rest:
        if a != 1:
            return torch.mul(x, a, out=out)
        return x.clone() if out is None else out.copy_(x)
    total = x if a == 1 else x * a
    for b, y in rest[:-1]:
        total = torch.add(total, y, alpha=b)
    return torch.add(total, rest[-1][1], alpha=rest[-1][0], out=out)


@combine.into
def _pytorch_into(out: Tensor, xs: list[Tensor], coefficients: list[complex]) -> None:
    for i, row in enumerate(_rows(xs, coefficients)):
        _row(xs, row, out[i])


@combine.vjp(saves=())
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    rows = _rows(saved.xs, [complex(a) for a in saved.coefficients])
    complex_valued = grad.is_complex()
    turned = [(a.conjugate() if complex_valued else a.real) for column in zip(*rows, strict=True) for a in column]
    return {"xs": list(combine(list(grad.unbind(0)), turned).unbind(0))}


@combine.impl("nki", dtypes=(*HALF, torch.float32, torch.complex64))
def _nki(xs: list[Tensor], coefficients: list[complex]) -> Tensor:
    result = _fake(xs, coefficients)
    if result.numel() == 0:
        return result
    rows = _rows(xs, coefficients)
    if xs[0].is_complex():
        planes = [part for x in xs for part in (x.real, x.imag)]
        wide = [
            part
            for row in rows
            for part in (
                [v for a in map(complex, row) for v in (a.real, -a.imag)],
                [v for a in map(complex, row) for v in (a.imag, a.real)],
            )
        ]
        real, imag = _launch(planes, wide).unflatten(0, (-1, 2)).unbind(1)
        return torch.complex(real, imag)
    return _launch(xs, [[complex(a).real for a in row] for row in rows])


def _launch(xs: list[Tensor], rows: list[list[float]]) -> Tensor:
    """Cut vectors over the partitions and combine them there. Zero and one cost nothing, so they are compiled in."""
    shape, count = xs[0].shape, xs[0].numel()
    width = -(-count // P_MAX)
    kinds = tuple(tuple("0" if a == 0 else "1" if a == 1 else "a" for a in row) for row in rows)
    values = torch.tensor(rows, dtype=torch.float32).reshape(1, -1).expand(P_MAX, -1).contiguous()  # [p, R * C]
    flat = [x.reshape(-1) for x in xs]
    if count % P_MAX:
        padding = flat[0].new_zeros(width * P_MAX - count)
        flat = [torch.cat([x, padding]) for x in flat]
    tiles = torch.stack([x.view(P_MAX, width) for x in flat])  # [C, p, width]
    made: Tensor = launch(kernels.axpy, tiles, values.to(xs[0].device), kinds=kinds)  # [R, p, width]
    return made.reshape(len(rows), -1)[:, :count].reshape(len(rows), *shape)


def same_shape(op: str, x: Tensor, y: Tensor) -> None:
    """Two vectors of one shape."""
    if x.shape != y.shape:
        raise ArgumentError(op=op, argument="shape", got={"x": tuple(x.shape), "y": tuple(y.shape)})
