"""Cholesky factorisation of Hermitian positive definite matrices, and solutions with the factor."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm, herk
from trnsci import array_function, check, op, run
from trnsci.analogs import Different, Given, given, replaces
from trnsci.gradient import saves
from trnsci.host import is_transformed, unseen
from trnsci.nki import launch
from trnsolver.arguments import (
    by_columns,
    check_result,
    check_solution,
    nonsingular,
    positive_definite,
    right_hand_side,
    roundoff,
    square,
    write_results,
)
from trnsolver.array_operands import as_hermitian
from trnsolver.batched.batched_cholesky import LEAST, batched_cholesky
from trnsolver.batched.batches import pays
from trnsolver.dense.identity import identity
from trnsolver.dense.inv_triangular import inv_triangular
from trnsolver.dense.mixed_precision import correctable, single
from trnsolver.dense.pivots import info
from trnsolver.dense.refine_factors import improved_cholesky
from trnsolver.dense.solve_triangular import triangular
from trnsolver.kernels import cholesky as kernels
from trnsolver.scaling import near_one


@array_function
def cholesky(a: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """Factor ``a = l @ l.mH``, or ``a = u.mH @ u``.

    Args:
        a: [..., N, N], Hermitian positive definite. Only its lower triangle is read (the upper one with ``upper``).
        upper: return ``u`` instead of ``l``.
        out: where the result goes; it must fit and share no memory with an operand.

    Raises:
        NotPositiveDefinite: a leading minor is not positive; ``index`` names it.

    Error bound:
        ``norm(l @ l.mH - a) <= 20 N u norm(a)``, with ``u`` the unit roundoff of the dtype.

    Cost:
        ``N**3 / 3`` FLOPs per matrix.

    Example:
        >>> cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    check.flag("cholesky", upper=upper)
    square("cholesky", look=False, a=a)
    factor, info = run(Cholesky(a.mH if upper else a))
    positive_definite("cholesky", factor, info, lambda: a.triu() if upper else a.tril())
    return write_results("cholesky", out, factor.mH if upper else factor, a=a)


@replaces(
    "aten::linalg_cholesky_ex",
    by=cholesky,
    result=lambda factor, a, *, upper=False, **_: (factor, info(factor, a.mH if upper else a, "linalg_cholesky_ex")),
)
def _read_torch(a: Tensor, *, upper: bool = False, check_errors: bool = False) -> Given:
    if upper and a.is_complex() and a.requires_grad:
        raise Different("torch's gradient of a complex upper factor is the adjoint of the one here")
    return given(cholesky, a, upper=upper)


replaces("numpy.linalg.cholesky", by=cholesky)(lambda a, upper: given(cholesky, as_hermitian(a), upper=upper))
replaces("scipy.linalg.cholesky", by=cholesky, order="F")(
    lambda a, lower: given(cholesky, as_hermitian(a), upper=not lower)
)


@array_function
@check.hands_on("trsm")
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Solve ``a @ x = b`` with the factor `cholesky` returned; the argument order is torch's.

    Args:
        b: [..., N, K] or [N].
        factor: [..., N, N], lower triangular, or upper triangular with ``upper``.
        upper: which.
        out: where the result goes; it must fit and share no memory with an operand.

    Error bound:
        backward: ``norm(b - a @ x) <= 20 N u (norm(a) norm(x) + norm(b))``.

    Cost:
        ``2 N**2 K`` FLOPs.

    Example:
        >>> cholesky_solve(torch.tensor([2.0, 1.0]), torch.tensor([[2.0, 0.0], [1.0, 1.0]]))
        tensor([0.5000, 0.0000])
    """
    x = _solve_by_factor(b, factor, upper)
    return write_results("cholesky_solve", out, x, b=b, factor=factor)


def _solve_by_factor(b: Tensor, factor: Tensor, upper: bool, *, whole: bool = False) -> Tensor:
    check.flag("cholesky_solve", upper=upper)
    square("cholesky_solve", look=False, factor=factor)
    vector = right_hand_side("cholesky_solve", factor, b, look=False)
    read = functools.partial(torch.triu if upper else torch.tril, factor)
    x = run(CholeskySolve(b.unsqueeze(-1) if vector else b, factor.mH if upper else factor, whole))
    check_solution("cholesky_solve", x, factor, b=b, factor=read)
    return x.squeeze(-1) if vector else x


# the gradient of a factor is a whole matrix in torch, which counts the triangle that is not read
replaces("aten::cholesky_solve", by=cholesky_solve)(
    lambda b, factor, upper=False: given(_solve_by_factor, b, factor, upper, whole=True)
)


def _beside_operand(factor: Any, a: Any, lower: bool = False, **_: Any) -> tuple[Any, bool]:
    """Return what SciPy's ``cho_factor`` does: the factor, and in the other triangle what was there."""
    triangle = np.tri(*a.shape)
    return np.where(triangle if lower else triangle.T, factor, a), lower


@replaces("scipy.linalg.cho_factor", by=cholesky, result=_beside_operand, order="F")
def _read_cho_factor(a: Any, lower: bool) -> Given:
    a = as_hermitian(a)
    if a.ndim > 2:
        raise Different("a stack of matrices")
    return given(cholesky, a, upper=not lower)


@replaces("scipy.linalg.cho_solve", by=cholesky_solve, order="F")
def _read_cho_solve(c_and_lower: Any, b: Any) -> Given:
    factor, lower = c_and_lower
    b = np.asarray(b)
    if factor.ndim > 2 or b.ndim > 2 or b.shape[:1] != factor.shape[:1] or b.dtype != factor.dtype:
        raise Different("a stack of systems, or operands that do not fit")
    return given(cholesky_solve, b, np.tril(factor) if lower else np.triu(factor), upper=not lower)


@array_function
def cholesky_inverse(factor: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of ``l @ l.mH`` from the factor `cholesky` returned: LAPACK's ``potri``. Exactly Hermitian.

    Args:
        factor: [..., N, N], lower triangular, or upper triangular with ``upper``.
        upper: which.
        out: where the result goes; it must fit and share no memory with an operand.

    Error bound:
        ``norm(x @ a - 1) <= 20 N u norm(x) norm(a)``.

    Cost:
        ``2 N**3 / 3`` FLOPs.

    Example:
        >>> cholesky_inverse(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).diagonal()
        tensor([0.2500, 1.0000])
    """
    return write_results("cholesky_inverse", out, _invert_by_factor(factor, upper), factor=factor)


def _invert_by_factor(factor: Tensor, upper: bool, *, whole: bool = False) -> Tensor:
    check.flag("cholesky_inverse", upper=upper)
    square("cholesky_inverse", look=False, factor=factor)
    read = functools.partial(torch.triu if upper else torch.tril, factor)
    nonsingular("cholesky_inverse", factor.diagonal(dim1=-2, dim2=-1), factor=read)
    x = run(CholeskyInverse(factor.mH if upper else factor, whole))
    check_result("cholesky_inverse", x, factor=read)
    return x


replaces("aten::cholesky_inverse", by=cholesky_inverse)(
    lambda factor, upper=False: given(_invert_by_factor, factor, upper, whole=True)
)


@op("trnsolver::cholesky")
class Cholesky(NamedTuple):
    """The lower factor, and the first minor, from 1, that is not positive."""

    a: Tensor  # [..., N, N]

    def fake(self) -> tuple[Tensor, Tensor]:
        return by_columns(self.a), self.a.new_empty(self.a.shape[:-2], dtype=torch.int32)

    def cost(self) -> int:
        return self.a.numel() * self.a.shape[-1] // 3 * (4 if self.a.is_complex() else 1)

    def pytorch(self) -> tuple[Tensor, Tensor]:
        factor, info = torch.linalg.cholesky_ex(self.a)
        return factor, info

    def nki(self) -> tuple[Tensor, Tensor]:
        a = self.a
        if a.numel() == 0:
            return self.pytorch()
        if correctable(a) and not pays(LEAST, a):
            return _factor_double(a)
        near, scale = _unit_diagonal(a)
        factor, info = _single(near)
        return factor / scale, info

    @saves()
    def vjp(
        self, grad: tuple[Tensor, Tensor | None], needs: frozenset[str], result: tuple[Tensor, Tensor]
    ) -> dict[str, Tensor]:
        factor = result[0]
        middle = gemm(1.0, factor, grad[0], trans_a="c")
        phi = middle.tril() - 0.5 * torch.diag_embed(middle.diagonal(dim1=-2, dim2=-1))
        inner = triangular(factor.mH, phi, lower=False)
        whole = triangular(factor.mT, inner.mT, lower=False).mT
        return {"a": 0.5 * (whole + whole.mH)}


def _info(factor: Tensor) -> Tensor:
    """Return the first pivot, from 1, that is not positive: it leaves NaN on the diagonal from there on."""
    if factor.is_meta:
        return factor.new_zeros(factor.shape[:-2], dtype=torch.int32)
    diagonal = factor.diagonal(dim1=-2, dim2=-1).real
    bad = ~(torch.isfinite(diagonal) & (diagonal > 0))
    return torch.where(bad.any(-1), bad.int().argmax(-1) + 1, 0).int()


def _unit_diagonal(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the matrix with rows and columns multiplied by powers of two, which bring its diagonal near 1, and those.

    Products of such entries neither overflow nor vanish, and the factor is the same but for the powers of its rows.
    """
    scale = near_one(a.diagonal(dim1=-2, dim2=-1).real.abs().sqrt().unsqueeze(-1), -1)
    return a * scale * scale.mT, scale


def _single(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factor by one kernel, by columns of a batch, or by halves."""
    if pays(LEAST, a):
        factor = batched_cholesky(a)
        return factor, _info(factor)
    if a.dtype != torch.float32 or a.shape[-1] > kernels.N_MAX:
        return _factor_by_halves(a)
    factors: Tensor = launch(kernels.cholesky, a.reshape(-1, *a.shape[-2:]).contiguous(), identity(a.device))
    factor = factors.reshape(a.shape).tril()
    return factor, _info(factor)


def _factor_double(a: Tensor) -> tuple[Tensor, Tensor]:
    """Correct the factor of single precision, or factor by halves where that does not suffice."""
    near, scale = _unit_diagonal(a.tril() + a.tril(-1).mH)
    start, _ = run(Cholesky(single(near)))
    factor, good = improved_cholesky(near, start)
    factor = factor / scale
    info = torch.zeros(a.shape[:-2], dtype=torch.int32, device=a.device)
    if a.is_meta or bool(good.all()):
        return factor, info
    other, further = _factor_by_halves(a)
    return torch.where(good[..., None, None], factor, other), torch.where(good, info, further)


def _factor_by_halves(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factor by halves: sizes the kernel cannot hold, and dtypes it lacks. Products run on the device."""
    n = a.shape[-1]
    limit = kernels.N_MAX if a.dtype == torch.float32 else _LEAF
    if n <= limit:
        return Cholesky(a).pytorch() if roundoff(a.dtype) < 2.0**-30 else run(Cholesky(a))
    half = n // 2
    first, info = _factor_by_halves(a[..., :half, :half])
    below = triangular(first, a[..., half:, :half].mH, lower=True).mH
    last, further = _factor_by_halves(herk(-1.0, below, 1.0, a[..., half:, half:], lower=True))
    further = torch.where(further > 0, further + half, further)
    top = torch.cat([first, torch.zeros_like(below.mT)], -1)
    return torch.cat([top, torch.cat([below, last], -1)], -2), torch.where(info > 0, info, further)


_LEAF = 64


def _read(factor: Tensor, whole: bool) -> Tensor:
    """Return the factor, and where torch differentiates the triangle that is read: its rules forget which that is."""
    return factor.tril() if not whole and (factor.requires_grad or unseen()) else factor


@op("trnsolver::cholesky_solve")
class CholeskySolve(NamedTuple):
    """``x`` with ``factor @ factor.mH @ x = b``."""

    b: Tensor  # [..., N, K]
    factor: Tensor  # [..., N, N]
    whole: bool = False  # whether the gradient of the factor is a whole matrix, as torch has it

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading axes of the result."""
        return check.broadcast("cholesky_solve", b=self.b.shape[:-2], factor=self.factor.shape[:-2])

    def fake(self) -> Tensor:
        return by_columns(self.b, (*self.batch, *self.b.shape[-2:]))

    def cost(self) -> int:
        flops = 2 * math.prod(self.batch) * self.factor.shape[-1] ** 2 * self.b.shape[-1]
        return flops * (4 if self.b.is_complex() else 1)

    def pytorch(self) -> Tensor:
        return torch.cholesky_solve(self.b, _read(self.factor, self.whole))

    def nki(self) -> Tensor:
        return triangular(self.factor.mH, triangular(self.factor, self.b, lower=True), lower=False)

    @saves("factor")
    def vjp(self, grad: Tensor, needs: frozenset[str], result: Tensor) -> dict[str, Tensor]:
        back, gradients = run(CholeskySolve(grad, self.factor)), {}
        if "b" in needs:
            gradients["b"] = back.sum_to_size(self.b.shape)
        if "factor" in needs:
            outer = gemm(1.0, back, result, trans_b="c")
            whole = gemm(-1.0, outer + outer.mH, self.factor.tril())
            gradients["factor"] = (whole if self.whole else whole.tril()).sum_to_size(self.factor.shape)
        return gradients


@op("trnsolver::cholesky_inverse")
class CholeskyInverse(NamedTuple):
    """The inverse of ``factor @ factor.mH``."""

    factor: Tensor  # [..., N, N]
    whole: bool = False  # as for `CholeskySolve`

    def fake(self) -> Tensor:
        return torch.empty_like(self.factor, memory_format=torch.contiguous_format)

    def cost(self) -> int:
        return Cholesky(self.factor).cost()

    def pytorch(self) -> Tensor:
        if is_transformed():
            # torch's own tangents of the inverse are wrong
            eye = torch.eye(self.factor.shape[-1], dtype=self.factor.dtype, device=self.factor.device)
            return torch.cholesky_solve(eye.expand(self.factor.shape), self.factor.tril())
        return torch.cholesky_inverse(_read(self.factor, self.whole))

    def nki(self) -> Tensor:
        x = inv_triangular(self.factor, lower=True)
        product = gemm(1.0, x, x, trans_a="c")
        return 0.5 * (product + product.mH)

    @saves("factor")
    def vjp(self, grad: Tensor, needs: frozenset[str], result: Tensor) -> dict[str, Tensor]:
        inner = gemm(1.0, result, gemm(1.0, grad + grad.mH, result))
        whole = gemm(-1.0, inner, self.factor.tril())
        return {"factor": whole if self.whole else whole.tril()}
