"""Linear combinations of vectors, element by element: axpy, scal, copy, swap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnblas import host
from trnblas.arguments import HALF, finished, rounds, vectors
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
    dtype = vectors("axpy", x, y)
    shape = x.shape
    if shape != y.shape:
        check.equal("axpy", "N", x=x.shape[-1], y=y.shape[-1])
        shape = torch.Size(check.broadcast("axpy", x=x.shape, y=y.shape))
        x, y = x.expand(shape), y.expand(shape)
    a = check.coefficient("axpy", "a", a, dtype)
    return _into(out, "axpy", shape, dtype, [x, y], [a, 1.0])


@array_function
def scal(a: complex, x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return ``a * x``. Error: one rounding.

    Example:
        >>> scal(2.0, torch.ones(2))
        tensor([2., 2.])
    """
    dtype = vectors("scal", x)
    return _into(out, "scal", x.shape, dtype, [x], [check.coefficient("scal", "a", a, dtype)])


@array_function
def copy(x: Tensor, y: Tensor | None = None) -> Tensor:
    """Copy ``x`` into ``y`` and return ``y``; without ``y``, return a new tensor.

    Example:
        >>> copy(torch.ones(2))
        tensor([1., 1.])
    """
    dtype = vectors("copy", x)
    return _into(y, "copy", x.shape, dtype, [x], [1.0])


@array_function
def swap(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return copies of ``y`` and ``x``, exchanged.

    Example:
        >>> swap(torch.zeros(1), torch.ones(1))
        (tensor([1.]), tensor([0.]))
    """
    vectors("swap", x, y)
    same_shape("swap", x, y)
    return rotate(x, y, [0.0, 1.0, 1.0, 0.0])


def _into(out: Tensor | None, op: str, shape: Any, dtype: torch.dtype, xs: list[Tensor], row: list[complex]) -> Tensor:
    if out is None:
        return combine(xs, row)
    named = dict(zip("xy", xs, strict=False))
    check.out(op, out, shape=tuple(shape), dtype=dtype, **named)
    return combine.write(out, xs, row)


def _fake(xs: list[Tensor], row: list[complex]) -> Tensor:
    return xs[0].new_empty(xs[0].shape)


def _cost(xs: list[Tensor], row: list[complex]) -> int:
    return 2 * len(row) * xs[0].numel() * (4 if xs[0].is_complex() else 1)


combine = Op("trnblas::combine", fake=_fake, cost=_cost, schema="(Tensor[] xs, Scalar[] row) -> Tensor")


@combine.impl("pytorch")
def _pytorch(xs: list[Tensor], row: list[complex]) -> Tensor:
    return _sum(xs, row)


def _sum(xs: list[Tensor], row: list[complex], out: Tensor | None = None) -> Tensor:
    """One combination. A factor of 1 costs nothing, and a factor of 0 does not read its vector."""
    if len(row) == 2 and row[1] == 1 and row[0] != 0 and xs[0].dtype not in HALF:
        return torch.add(xs[1], xs[0], alpha=row[0], out=out)
    used = [(a, x) for a, x in zip(row, xs, strict=True) if a != 0]
    if not used:
        return torch.mul(torch.zeros_like(xs[0]), 1, out=out)
    if len(used) == 1:
        a, x = used[0]
        if a != 1:
            return torch.mul(x, a, out=out)
        return x.clone() if out is None else out.copy_(x)
    (a, x), (b, y) = used
    if x.dtype in HALF:
        return (
            finished(x.float(), a, b, y, x.dtype) if out is None else out.copy_(finished(x.float(), a, b, y, x.dtype))
        )
    return torch.add(x if a == 1 else torch.mul(x, a, out=out), y, alpha=b, out=out)


@combine.into
def _pytorch_into(out: Tensor, xs: list[Tensor], row: list[complex]) -> None:
    _sum(xs, row, out)


@combine.vjp(saves=())
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    return {"xs": [combine([grad], [_conjugate(a, grad)]) for a in saved.row]}


def _conjugate(a: complex, like: Tensor) -> complex:
    return complex(a).conjugate() if like.is_complex() else complex(a).real


def _limits(xs: list[Tensor], row: list[complex]) -> str | None:
    return rounds(*xs)


@combine.impl("nki", limits=_limits)
def _nki(xs: list[Tensor], row: list[complex]) -> Tensor:
    return _rows(xs, [row])[0]


def _rotate_fake(x: Tensor, y: Tensor, matrix: list[complex]) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape)


def _rotate_cost(x: Tensor, y: Tensor, matrix: list[complex]) -> int:
    return 8 * x.numel() * (4 if x.is_complex() else 1)


# ``(m0 x + m1 y, m2 x + m3 y)``: both vectors are read once.
rotate = Op(
    "trnblas::rotate",
    fake=_rotate_fake,
    cost=_rotate_cost,
    schema="(Tensor x, Tensor y, Scalar[] matrix) -> (Tensor, Tensor)",
)


@rotate.impl("pytorch")
def _rotate_pytorch(x: Tensor, y: Tensor, matrix: list[complex]) -> tuple[Tensor, Tensor]:
    if all(matrix) and host.vectors(x, y):
        return host.rotated(x, y, matrix)  # type: ignore[arg-type]
    xs = [x, y]
    return _sum(xs, matrix[:2]), _sum(xs, matrix[2:])


@rotate.vjp(saves=())
def _rotate_gradient(saved: Saved, grad_x: Tensor, grad_y: Tensor) -> Mapping[str, Any]:
    m0, m1, m2, m3 = (_conjugate(a, grad_x) for a in saved.matrix)
    found_x, found_y = rotate(grad_x, grad_y, [m0, m2, m1, m3])
    return {"x": found_x, "y": found_y}


def _rotate_limits(x: Tensor, y: Tensor, matrix: list[complex]) -> str | None:
    return rounds(x)


@rotate.impl("nki", limits=_rotate_limits)
def _rotate_nki(x: Tensor, y: Tensor, matrix: list[complex]) -> tuple[Tensor, Tensor]:
    new_x, new_y = _rows([x, y], [matrix[:2], matrix[2:]])
    return new_x.clone(), new_y.clone()


def _rows(xs: list[Tensor], rows: list[list[complex]]) -> Tensor:
    """Combinations on the device, one to a row: [R, ...]. Complex vectors are twice as many real ones."""
    if xs[0].numel() == 0:
        return xs[0].new_empty((len(rows), *xs[0].shape))
    if not xs[0].is_complex():
        return _launch(xs, [[complex(a).real for a in row] for row in rows])
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
