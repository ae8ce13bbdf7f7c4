"""The inverse of a triangular matrix, by doubling: inverses of neighbouring blocks give that of the pair."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnblas.trsm import doubling_masks
from trnsci import array_function, check, op, run
from trnsci.gradient import saves
from trnsci.nki import launch
from trnsolver.arguments import all_finite, by_columns, check_result, divides, nonsingular, readable, roundoff, square
from trnsolver.batched.batched_triangular import LEAST_INVERSE, batched_triangular
from trnsolver.batched.batches import pays
from trnsolver.dense.mixed_precision import Parts, correctable, improve_factors, product, single
from trnsolver.kernels import inv_triangular as kernels
from trnsolver.scaling import near_one


@array_function
def inv_triangular(a: Tensor, *, lower: bool = False, unit: bool = False) -> Tensor:
    """Invert a triangular matrix.

    Args:
        a: [..., N, N]. Only the triangle ``lower`` names is read.
        lower: which.
        unit: the diagonal is not read and counts as ones.

    Raises:
        Singular: a diagonal entry is zero; ``index`` names it.

    Error bound:
        ``norm(x @ a - 1) <= 20 N u norm(x) norm(a)``.

    Cost:
        ``N**3 / 3`` FLOPs.

    Example:
        >>> inv_triangular(torch.tensor([[2.0, 0.0], [1.0, 1.0]]), lower=True)
        tensor([[ 0.5000,  0.0000],
                [-0.5000,  1.0000]])
    """
    check.flag("inv_triangular", lower=lower, unit=unit)
    square("inv_triangular", look=False, a=a)
    x = run(InvTriangular(a, bool(unit))) if lower else run(InvTriangular(a.mT, bool(unit))).mT
    # an infinite divisor leaves a zero on the diagonal
    if readable(x) and not (all_finite(x) and (unit or divides(x.detach().diagonal(0, -2, -1)))):
        read = functools.partial(torch.tril if lower else torch.triu, a, -int(unit) if lower else int(unit))
        if not unit:
            nonsingular("inv_triangular", a.diagonal(0, -2, -1), a=read)
        check_result("inv_triangular", x, a=read)
    return x


@op("trnsolver::inv_triangular")
class InvTriangular(NamedTuple):
    """The inverse of a lower triangle."""

    a: Tensor  # [..., N, N]
    unit: bool

    def fake(self) -> Tensor:
        return by_columns(self.a)

    def cost(self) -> int:
        return self.a.numel() * self.a.shape[-1] // 3 * (4 if self.a.is_complex() else 1)

    def pytorch(self) -> Tensor:
        a, unit = self.a, self.unit
        eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
        # BLAS takes less time with the one of a matrix and its transpose that lies by rows
        if a.stride(-1) == 1:
            return torch.linalg.solve_triangular(a, eye, upper=False, unitriangular=unit)
        return torch.linalg.solve_triangular(a.mT, eye, upper=True, unitriangular=unit).mT

    def nki(self) -> Tensor:
        a = self.a
        if a.numel() == 0:
            return self.fake()
        if pays(LEAST_INVERSE, a):
            eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)
            return batched_triangular(a, eye, lower=True, unit=self.unit).tril()
        if correctable(a):
            return _invert_double(a, self.unit)
        if a.dtype != torch.float32 or a.shape[-1] > kernels.N_MAX:
            return _invert_by_halves(a, self.unit)
        upper = a.mT.reshape(-1, *a.shape[-2:]).contiguous()
        inverse: Tensor = launch(kernels.inv_triangular, upper, doubling_masks(a.device), unit=self.unit)
        return inverse.reshape(a.shape).mT.contiguous()

    @saves()
    def vjp(self, grad: Tensor, needs: frozenset[str], result: Tensor) -> dict[str, Tensor]:
        whole = gemm(1.0, gemm(-1.0, result, grad, trans_a="c"), result, trans_b="c")
        return {"a": whole.tril(-1) if self.unit else whole.tril()}


def _invert_double(a: Tensor, unit: bool) -> Tensor:
    """Take Newton's steps from single precision, or invert by halves where they do not suffice."""
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)
    lower = a.tril(-1) + eye if unit else a.tril()
    scale = near_one(lower, -1)

    def find_residuals(parts: Parts) -> Parts:
        return (gemm(-1.0, parts[0], lower * scale, 1.0, eye),)

    def correct_inverse(parts: Parts, rest: Parts) -> Parts:
        return ((parts[0] + product(rest[0], parts[0])).tril(),)

    start = run(InvTriangular(single(lower * scale), False)).to(a.dtype)
    size = torch.linalg.matrix_norm(lower * scale) * torch.linalg.matrix_norm(start)
    (inverse,), good = improve_factors((start,), find_residuals, correct_inverse, (4.0 * roundoff(a.dtype) * size,))
    inverse = inverse * scale.mT
    if a.is_meta or bool(good.all()):
        return inverse
    return torch.where(good[..., None, None], inverse, _invert_by_halves(a, unit))


def _invert_by_halves(a: Tensor, unit: bool) -> Tensor:
    """Invert by halves: sizes the kernel cannot hold, and dtypes it lacks. Products run on the device."""
    n = a.shape[-1]
    limit = kernels.N_MAX if a.dtype == torch.float32 else _LEAF
    if n <= limit:
        call = InvTriangular(a, unit)
        return call.pytorch() if roundoff(a.dtype) < 2.0**-30 else run(call)
    half = n // 2
    first, last = _invert_by_halves(a[..., :half, :half], unit), _invert_by_halves(a[..., half:, half:], unit)
    below = gemm(-1.0, last, gemm(1.0, a[..., half:, :half], first))
    top = torch.cat([first, torch.zeros_like(below.mT)], -1)
    return torch.cat([top, torch.cat([below, last], -1)], -2)


_LEAF = 64
