"""The matrix exponential by scaling, a Padé quotient and squaring: SciPy's, or products and one system."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy
import torch
from scipy.linalg import lapack
from torch import Tensor

from trnblas import gemm
from trnblas.arguments import through
from trnsci import NumericalError, array_function, op, run
from trnsci.analogs import replaces, resembles
from trnsci.planning import remark
from trnsolver.arguments import all_finite, finite, readable, roundoff, square
from trnsolver.array_operands import replaces_arrays
from trnsolver.dense.lu import LuFactor, LuSolve
from trnsolver.scipy_calls import cubes

# Degree of the quotient; the size up to which it is exact to the unit roundoff (Higham 2005; for the long one the
# smaller size of Al-Mohy and Higham 2009); and the binary exponent up to which sixth powers do not overflow.
_SINGLE = (7, 3.925724783138660, 18)
_DOUBLE = (13, 4.25, 150)


# a copy where gradients go on: the gradient of the last step reads its result, which torch's lets a program change
@replaces("aten::linalg_matrix_exp", result=lambda x, *_: x.clone() if x.requires_grad else x)
@resembles("scipy.sparse.linalg.expm_multiply", left="ours forms the exponential, theirs only its product")
@replaces_arrays("scipy.linalg.expm")
@array_function
def expm(a: Tensor) -> Tensor:
    """Return the matrix exponential, differentiable; products run on the backend.

    Args:
        a: [..., N, N].

    Raises:
        NumericalError: an entry of the result is larger than the dtype holds.

    Error bound:
        ``norm(x - exact) <= 20 N u max(1, norm(a)) norm(exact)`` for normal matrices. For others, 20 N u times the
        condition number of the exponential (``scipy.linalg.expm_cond``).

    Cost:
        ``(44 / 3 + 2 s) N**3`` FLOPs with ``s = log2(norm(a) / 5)`` squarings, ``(32 / 3 + 2 s) N**3`` in float32.

    Example:
        >>> expm(torch.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    square("expm", look=False, a=a)
    return run(Expm(a)) if a.numel() else a.clone()


# SciPy halves too seldom: it leaves up to 1200 roundings times norm(a) of 2 and more, too many below 128 rows.
# Smaller matrices are halved before, up to this norm; beyond, how often depends on more than the norm.
_SCIPYS, _NORM = 128, 128.0


@op("trnsolver::expm", traceable=True, composed=True, calls="scipy.linalg.expm")
class Expm(NamedTuple):
    """The exponential of matrices."""

    a: Tensor  # [..., N, N]

    def fake(self) -> Tensor:
        return torch.empty_like(self.a, memory_format=torch.contiguous_format)

    def cost(self) -> int:
        return cubes(self.a, 32 / 3 if roundoff(self.a.dtype) > 2.0**-30 else 44 / 3)

    def limits(self, implementation: str) -> str | None:
        return "SciPy takes matrices one by one" if implementation == "host" and self.a.ndim > 2 else None

    def host(self) -> Tensor:
        a = self.a.numpy()
        if len(a) < _SCIPYS and roundoff(self.a.dtype) < 2.0**-30:
            # of the transpose by rows, which LAPACK reads where it lies
            norm = (lapack.zlange if self.a.is_complex() else lapack.dlange)("I", a.T)
            if not norm < _NORM:
                return self.pytorch()
            halvings = max(0, math.frexp(norm)[1] - 1)
            x = scipy.linalg.expm(a * 0.5**halvings)
            for _ in range(halvings):
                x = x @ x
            return torch.from_numpy(x)
        finite("expm", a=self.a)
        with np.errstate(all="ignore"):
            result = torch.from_numpy(scipy.linalg.expm(a))
        # beyond the square root of the largest number, its powers overflow where the exponential need not
        return result if all_finite(result) else self.pytorch()

    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        return through(self, ("a",), grad, needs)

    def pytorch(self) -> Tensor:
        a = self.a
        finite("expm", a=a)
        degree, reach, room = _SINGLE if roundoff(a.dtype) > 2.0**-30 else _DOUBLE
        if a.is_meta:
            remark(f"and a product for each doubling of norm(a) beyond {reach:.3g}, which a plan does not see")
            return _quotient(a, _powers(a), degree)
        if not readable(a):
            result: Tensor = torch.linalg.matrix_exp(a)
            return result
        norms = _norm(a.detach())
        least = torch.where(norms > 2.0**room, norms.log2().ceil() - room, 0.0)  # [...]
        a = _halve(a, least)
        squares = _powers(a)
        counts = _halvings(a.detach(), [x.detach() for x in squares], degree, reach)  # [...]
        squares = [_halve(x, 2 * k * counts) for k, x in enumerate(squares)]
        x = _quotient(_halve(a, counts), squares, degree)
        counts = counts + least
        for step in range(int(counts.max())):
            due = (counts > step).unsqueeze(-1).unsqueeze(-1)
            x = torch.where(due, gemm(1.0, x, x), x) if not bool(due.all()) else gemm(1.0, x, x)
        if not all_finite(x):
            raise NumericalError(
                op="expm",
                message=f"the exponential overflows {a.dtype}: norm(a) is {float(norms.max()):.3g}",
                hint="Subtract a multiple of the identity, whose exponential is known",
            )
        return x


def _halve(x: Tensor, halvings: Tensor) -> Tensor:
    if not bool(halvings.any()):
        return x
    return x * torch.exp2(-halvings).unsqueeze(-1).unsqueeze(-1).to(x.dtype)


def _powers(a: Tensor) -> list[Tensor]:
    """Return ``a`` to the powers 0, 2, 4 and 6."""
    squares = [torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape), gemm(1.0, a, a)]
    for _ in range(2):
        squares.append(gemm(1.0, squares[1], squares[-1]))
    return squares


def _halvings(a: Tensor, squares: list[Tensor], degree: int, reach: float) -> Tensor:
    """Return how often to halve: as often as the powers ask for, which may be less often than the norm does.

    Halving too often is not harmless: far from normal, what the squarings multiply up is rounding error (Al-Mohy and
    Higham 2009).
    """
    norms = _norm(a)
    usual = _log2_ceil(norms / reach)
    if not bool(usual.any()):
        return usual
    fourth, sixth = (_norm(x) for x in squares[2:])
    fewer = torch.minimum(usual, _log2_ceil(torch.maximum(fourth ** (1 / 4), sixth ** (1 / 6)) / reach))
    if bool((fewer == usual).all()):
        return usual
    # the first term the quotient leaves out, of absolute values, stays below the unit roundoff
    shrunk = _halve(a.abs().double(), fewer)
    size, row = torch.zeros_like(norms, dtype=torch.float64), torch.ones_like(shrunk[..., :1, :])
    for _ in range(2 * degree + 1):
        row = row @ shrunk
        largest = row.amax((-2, -1), keepdim=True).clamp_min(torch.finfo(torch.float64).tiny)
        row = row / largest
        size = size + largest.log2()[..., 0, 0]
    size = size - _norm(shrunk).clamp_min(torch.finfo(torch.float64).tiny).log2()
    first = math.log2(math.comb(2 * degree, degree)) + math.lgamma(2 * degree + 2) / math.log(2)
    more = ((size - first - math.log2(roundoff(a.dtype))) / (2 * degree)).ceil().clamp_min(0.0)
    return torch.minimum(usual, fewer + more.to(fewer.dtype))


def _norm(a: Tensor) -> Tensor:
    """Return the 1-norm; torch's own walks down columns."""
    return a.abs().sum(-2).amax(-1)


def _log2_ceil(ratio: Tensor) -> Tensor:
    return torch.where(ratio > 1, ratio.clamp_min(1.0).log2().ceil(), 0.0)


def _quotient(a: Tensor, squares: list[Tensor], degree: int) -> Tensor:
    """``inv(v - u) @ (v + u)`` with ``u`` the odd and ``v`` the even terms of the numerator."""
    weights = [_weight(degree, k) for k in range(degree + 1)]
    odd = _sum(squares, weights[1:8:2])
    even = _sum(squares, weights[0:8:2])
    if degree == 13:
        odd = odd + gemm(1.0, squares[3], _sum(squares[1:], weights[9::2]))
        even = even + gemm(1.0, squares[3], _sum(squares[1:], weights[8::2]))
    odd = gemm(1.0, a, odd)
    factors, pivots = run(LuFactor(even - odd))
    return run(LuSolve(factors, pivots, even + odd, adjoint=False))


def _weight(degree: int, k: int) -> float:
    f = math.factorial
    return f(2 * degree - k) * f(degree) / (f(2 * degree) * f(k) * f(degree - k))


def _sum(powers: list[Tensor], weights: list[float]) -> Tensor:
    total = powers[1] * weights[1]
    total = torch.add(total, powers[0], alpha=weights[0])
    for power, weight in zip(powers[2:], weights[2:], strict=False):
        total = torch.add(total, power, alpha=weight)
    return total
