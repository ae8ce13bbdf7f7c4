"""Triangular systems, backward stable on every backend."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm, trsm
from trnsci import array_function, check, op, run
from trnsci.analogs import Different, Given, given, replaces
from trnsci.gradient import saves
from trnsolver.arguments import by_columns, check_solution, matrices, roundoff, square, write_results
from trnsolver.array_operands import as_matrix
from trnsolver.batched.batched_triangular import LEAST, batched_triangular
from trnsolver.batched.batches import pays
from trnsolver.dense.inv_triangular import InvTriangular
from trnsolver.dense.mixed_precision import Parts, correctable, improve_factors, product, single
from trnsolver.kernels.batched_triangular import K_MAX
from trnsolver.scaling import near_one


@replaces("aten::linalg_solve_triangular")
@array_function
@check.hands_on("trsm")
def solve_triangular(
    a: Tensor,
    b: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Solve with a triangular matrix: the arguments of `torch.linalg.solve_triangular`.

    Args:
        a: [..., N, N]; only the triangle ``upper`` names is read.
        b: [..., N, K], or [..., K, N] when ``left`` is false.
        upper: ``a`` is upper triangular.
        left: solve ``a @ x = b``; otherwise ``x @ a = b``.
        unitriangular: the diagonal counts as ones.
        out: where the result goes; it must fit and share no memory with an operand.

    Raises:
        Singular: a diagonal entry is zero.

    Error bound:
        backward: ``norm(b - a @ x) <= 20 N u norm(a) norm(x)``.

    Cost:
        ``N**2 K`` FLOPs; twice that and a product on chip, for the correction.

    Example:
        >>> solve_triangular(torch.tensor([[2.0, 0.0], [2.0, 1.0]]), torch.ones(2, 1), upper=False)
        tensor([[0.5000],
                [0.0000]])
    """
    check.flag("solve_triangular", upper=upper, left=left, unitriangular=unitriangular)
    matrices("solve_triangular", look=False, a=a, b=b)
    (*batch, m, n), (*others, rows, columns) = a.shape, b.shape
    if m != n:
        square("solve_triangular", look=False, a=a)
    if n != (rows if left else columns):
        check.equal("solve_triangular", "N", a=n, b=rows if left else columns)
    if not (a.is_cpu and b.is_cpu):
        check.same_device("solve_triangular", a=a, b=b)
    if batch != others:
        check.broadcast("solve_triangular", a=tuple(batch), b=tuple(others))
    read = functools.partial(torch.triu if upper else torch.tril, a)
    if left:
        x = triangular(a, b, lower=not upper, unit=bool(unitriangular))
    else:
        x = triangular(a.mT, b.mT, lower=upper, unit=bool(unitriangular))
    check_solution("solve_triangular", x, None if unitriangular else a, b=b, a=read)
    return write_results("solve_triangular", out, x if left else x.mT, a=a, b=b)


@replaces("aten::triangular_solve", by=solve_triangular, result=lambda x, b, a, *_, **__: (x, a.clone()))
def _read_torch(
    b: Tensor, a: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Given:
    matrix = a.mT if transpose else a
    return given(solve_triangular, matrix, b, upper=upper != transpose, unitriangular=unitriangular)


@replaces("scipy.linalg.solve_triangular", by=solve_triangular, order="F")
def _read_scipy(a: Any, b: Any, trans: Any, lower: bool, unit_diagonal: bool) -> Given:
    if trans not in (0, "N"):
        raise Different(f"trans={trans!r} has no counterpart")
    a, b = as_matrix(a), np.asarray(b)
    if b.ndim == 1:
        raise Different("its right-hand side is a vector")
    return given(solve_triangular, a, b, upper=not lower, unitriangular=unit_diagonal)


def triangular(a: Tensor, b: Tensor, *, lower: bool, unit: bool = False) -> Tensor:
    """Solve ``a @ x = b`` with checked operands; what the other functions of the library call."""
    return run(SolveTriangular(a, b, lower, unit))


@op("trnsolver::solve_triangular")
class SolveTriangular(NamedTuple):
    """``x`` with ``a @ x = b``."""

    a: Tensor  # [..., N, N]
    b: Tensor  # [..., N, K]
    lower: bool
    unit: bool

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading axes of the result."""
        return check.broadcast("solve_triangular", a=self.a.shape[:-2], b=self.b.shape[:-2])

    def fake(self) -> Tensor:
        return by_columns(self.b, (*self.batch, *self.b.shape[-2:]))

    def cost(self) -> int:
        flops = math.prod(self.batch) * self.a.shape[-1] * self.b.shape[-1] * self.b.shape[-2]
        return flops * (4 if self.a.is_complex() else 1)

    def pytorch(self) -> Tensor:
        x: Tensor = torch.linalg.solve_triangular(self.a, self.b, upper=not self.lower, unitriangular=self.unit)
        return x

    def nki(self) -> Tensor:
        """Substitution for batches; else by inverses of diagonal tiles, stable only with one correction."""
        a, b = self.a, self.b
        if b.numel() == 0 or a.numel() == 0:
            return torch.zeros_like(self.fake())
        matrices = a.expand(*self.batch, *a.shape[-2:])
        if pays(LEAST, matrices) and b.shape[-1] <= K_MAX:
            return batched_triangular(matrices, b.expand(*self.batch, *b.shape[-2:]), lower=self.lower, unit=self.unit)
        if correctable(a):
            return self._solve_double()
        return self._by_tiles()

    def _by_tiles(self) -> Tensor:
        a, b = self.a, self.b
        x = trsm(1.0, a, b, lower=self.lower, diag=self.unit)
        return x + trsm(1.0, a, self._find_residual(x), lower=self.lower, diag=self.unit)

    def _solve_double(self) -> Tensor:
        """Correct with the inverse of single precision, or solve by tiles where that does not suffice."""
        n, off = self.a.shape[-1], 1 if self.unit else 0
        whole = self.a.tril(-off) if self.lower else self.a.triu(off)
        if self.unit:
            whole = whole + torch.eye(n, dtype=whole.dtype, device=whole.device)
        rows = near_one(whole, -1)
        near, right = whole * rows, self.b * rows
        columns = near_one(right, -2)
        right = right * columns
        inverse = run(InvTriangular(single(near if self.lower else near.mT), unit=False)).to(near.dtype)
        inverse = inverse if self.lower else inverse.mT

        def find_residuals(parts: Parts) -> Parts:
            return (gemm(-1.0, near, parts[0], 1.0, right),)

        def correct_solution(parts: Parts, rest: Parts) -> Parts:
            return (parts[0] + product(inverse, rest[0]),)

        x = product(inverse, right)
        longest = torch.linalg.vector_norm(x, dim=-2).amax(-1)
        allowed = 5.0 * n**0.5 * roundoff(x.dtype) * torch.linalg.matrix_norm(near) * longest
        (x,), good = improve_factors((x,), find_residuals, correct_solution, (allowed,))
        x = x / columns
        if x.is_meta or bool(good.all()):
            return x
        return torch.where(good[..., None, None], x, self._by_tiles())

    def _find_residual(self, x: Tensor) -> Tensor:
        off = 1 if self.unit else 0
        kept = self.a.tril(-off) if self.lower else self.a.triu(off)
        right = self.b.expand(x.shape) - x if self.unit else self.b.expand(x.shape)
        return gemm(-1.0, kept, x, 1.0, right)

    @saves("a")
    def vjp(self, grad: Tensor, needs: frozenset[str], result: Tensor) -> dict[str, Tensor]:
        back = triangular(self.a.mH, grad, lower=not self.lower, unit=self.unit)
        gradients: dict[str, Tensor] = {}
        if "b" in needs:
            gradients["b"] = back.sum_to_size(self.b.shape)
        if "a" in needs:
            whole = gemm(-1.0, back, result, trans_b="c")
            off = 1 if self.unit else 0
            gradients["a"] = (whole.tril(-off) if self.lower else whole.triu(off)).sum_to_size(self.a.shape)
        return gradients
