"""Linear combinations of vectors, element by element: axpy, scal, copy, swap."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas import host_blas
from trnblas.arguments import HALF, combine, conjugate, large_pages, rounds, vectors
from trnblas.kernels import axpy as kernels
from trnsci import ArgumentError, array_function, check, op, run
from trnsci.gradient import saves
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
    return _into(out, "axpy", shape, dtype=dtype, xs=[x, y], row=[a, 1.0])


@array_function
def scal(a: complex, x: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return ``a * x``. Error: one rounding.

    Example:
        >>> scal(2.0, torch.ones(2))
        tensor([2., 2.])
    """
    dtype = vectors("scal", x)
    return _into(out, "scal", x.shape, dtype=dtype, xs=[x], row=[check.coefficient("scal", "a", a, dtype)])


@check.hands_on("_copy")
def copy(x: Tensor, y: Tensor | None = None) -> Tensor:
    """Copy ``x`` into ``y`` and return ``y``; without ``y``, return a new tensor.

    Example:
        >>> copy(torch.ones(2))
        tensor([1., 1.])
    """
    return _copy(x, out=y)


@array_function
def _copy(x: Tensor, *, out: Tensor | None) -> Tensor:
    dtype = vectors("copy", x)
    return _into(out, "copy", x.shape, dtype=dtype, xs=[x], row=[1.0])


@array_function
def swap(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return copies of ``y`` and ``x``, exchanged.

    Example:
        >>> swap(torch.zeros(1), torch.ones(1))
        (tensor([1.]), tensor([0.]))
    """
    vectors("swap", x, y)
    same_shape("swap", x, y)
    return run(Rotate(x, y, [0.0, 1.0, 1.0, 0.0]))


def _into(
    out: Tensor | None, name: str, shape: Any, *, dtype: torch.dtype, xs: list[Tensor], row: list[complex]
) -> Tensor:
    if out is not None:
        check.out(name, out, shape=tuple(shape), dtype=dtype, **dict(zip("xy", xs, strict=False)))
    return run(Combine(xs, row), out)


@op("trnblas::combine")
class Combine(NamedTuple):
    """A linear combination of vectors of one shape."""

    xs: list[Tensor]
    row: list[complex]

    def fake(self) -> Tensor:
        return self.xs[0].new_empty(self.xs[0].shape)

    def cost(self) -> int:
        return 2 * len(self.row) * self.xs[0].numel() * (4 if self.xs[0].is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        return rounds(*self.xs) if implementation == "nki" else None

    def pytorch(self) -> Tensor:
        return _sum(self.xs, self.row, large_pages(*self.xs))

    def into(self, out: Tensor) -> None:
        _sum(self.xs, self.row, out)

    def nki(self) -> Tensor:
        return _rows(self.xs, [self.row])[0]

    @saves()
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Any]:
        return {"xs": [run(Combine([grad], [conjugate(a, grad)])) for a in self.row]}


@op("trnblas::rotate")
class Rotate(NamedTuple):
    """``(m0 x + m1 y, m2 x + m3 y)``: both vectors are read once."""

    x: Tensor
    y: Tensor
    matrix: list[complex]

    def fake(self) -> tuple[Tensor, Tensor]:
        return self.x.new_empty(self.x.shape), self.x.new_empty(self.x.shape)

    def cost(self) -> int:
        return 8 * self.x.numel() * (4 if self.x.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        if implementation == "nki":
            return rounds(self.x)
        if implementation == "host":
            if not all(self.matrix):
                return "an exchange or a scaling reads less than a rotation"
            return host_blas.refusal(self.x, self.y, ndim=1)
        return None

    def calls(self, implementation: str) -> str:
        return host_blas.name("rot" if self._plane else "rotm", self.x)

    @property
    def _plane(self) -> bool:
        m0, m1, m2, m3 = self.matrix
        return m0 == m3 and m1 == -m2

    def host(self) -> tuple[Tensor, Tensor]:
        return host_blas.rotate(self.x, self.y, self.matrix, plane=self._plane)

    def pytorch(self) -> tuple[Tensor, Tensor]:
        return _sum([self.x, self.y], self.matrix[:2]), _sum([self.x, self.y], self.matrix[2:])

    def nki(self) -> tuple[Tensor, Tensor]:
        new_x, new_y = _rows([self.x, self.y], [self.matrix[:2], self.matrix[2:]])
        return new_x.clone(), new_y.clone()

    @saves()
    def vjp(self, grad: tuple[Tensor, Tensor], needs: frozenset[str]) -> dict[str, Any]:
        m0, m1, m2, m3 = (conjugate(a, grad[0]) for a in self.matrix)
        of_x, of_y = run(Rotate(*grad, [m0, m2, m1, m3]))
        return {"x": of_x, "y": of_y}


def _sum(xs: list[Tensor], row: list[complex], out: Tensor | None = None) -> Tensor:
    """Return one combination. A factor of 1 costs nothing; a factor of 0 does not read its vector."""
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
        result = combine(x.float(), a, b, y, x.dtype)
        return result if out is None else out.copy_(result)
    return torch.add(x if a == 1 else torch.mul(x, a, out=out), y, alpha=b, out=out)


def _rows(xs: list[Tensor], rows: list[list[complex]]) -> Tensor:
    """Combine vectors on the device, one combination to a row: [R, ...]. A complex vector is two real ones."""
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
    row = torch.tensor(rows, dtype=torch.float32, device="cpu").reshape(1, -1)
    values = row.expand(P_MAX, -1).contiguous()  # [p, R * C]
    flat = [x.reshape(-1) for x in xs]
    if count % P_MAX:
        padding = flat[0].new_zeros(width * P_MAX - count)
        flat = [torch.cat([x, padding]) for x in flat]
    tiles = torch.stack([x.view(P_MAX, width) for x in flat])  # [C, p, width]
    combined: Tensor = launch(kernels.axpy, tiles, values.to(xs[0].device), kinds=kinds)  # [R, p, width]
    return combined.reshape(len(rows), -1)[:, :count].reshape(len(rows), *shape)


def same_shape(name: str, x: Tensor, y: Tensor) -> None:
    """Check that two vectors have one shape."""
    if x.shape != y.shape:
        raise ArgumentError(name, "shape", {"x": tuple(x.shape), "y": tuple(y.shape)})
