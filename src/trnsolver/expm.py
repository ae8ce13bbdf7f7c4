"""The matrix exponential by scaling, a Padé quotient and squaring: products, and one system."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import NumericalError, array_function
from trnsolver.arguments import readable, roundoff, square
from trnsolver.lu import lu_op, lu_solve_op

# Degree of the quotient and the 1-norm up to which it is exact to the unit roundoff (Higham 2005).
_SINGLE = (7, 3.925724783138660)
_DOUBLE = (13, 5.371920351148152)


@array_function
def expm(a: Tensor) -> Tensor:
    """Matrix exponential, differentiable; products run on the backend.

    Args:
        a: [..., N, N].

    Raises:
        NumericalError: an entry of the result is larger than the dtype holds.

    Error bound:
        ``norm(x - exact) <= 20 N u max(1, norm(a)) norm(exact)`` for normal matrices.

    Cost:
        ``(16 + 2 s) N**3`` FLOPs with ``s = log2(norm(a) / 5)`` squarings.

    Example:
        >>> expm(torch.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    square("expm", a=a)
    if a.numel() == 0:
        return a.clone()
    if not readable(a):
        made: Tensor = torch.linalg.matrix_exp(a)
        return made
    degree, reach = _SINGLE if roundoff(a.dtype) > 2.0**-30 else _DOUBLE
    norms = torch.linalg.matrix_norm(a.detach(), 1)
    counts = torch.where(norms > reach, (norms / reach).clamp_min(1e-30).log2().ceil(), 0.0)  # [...]
    scaled = a * torch.exp2(-counts).unsqueeze(-1).unsqueeze(-1).to(a.dtype)
    x = _quotient(scaled, degree)
    most = int(counts.max())
    for step in range(most):
        due = (counts > step).unsqueeze(-1).unsqueeze(-1)
        x = torch.where(due, gemm(1.0, x, x), x) if not bool(due.all()) else gemm(1.0, x, x)
    if not bool(torch.isfinite(x.detach()).all()):
        raise NumericalError(
            op="expm",
            message=f"the exponential overflows {a.dtype}: norm(a) is {float(norms.max()):.3g}",
            hint="Subtract a multiple of the identity, whose exponential is known",
        )
    return x


def _quotient(a: Tensor, degree: int) -> Tensor:
    """``inv(v - u) @ (v + u)`` with ``u`` the odd and ``v`` the even terms of the numerator."""
    weights = [_weight(degree, k) for k in range(degree + 1)]
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device).expand(a.shape)
    squares = [eye, gemm(1.0, a, a)]
    for _ in range(2):
        squares.append(gemm(1.0, squares[1], squares[-1]))
    odd = _sum(squares, weights[1:8:2])
    even = _sum(squares, weights[0:8:2])
    if degree == 13:
        odd = odd + gemm(1.0, squares[3], _sum(squares[1:], weights[9::2]))
        even = even + gemm(1.0, squares[3], _sum(squares[1:], weights[8::2]))
    odd = gemm(1.0, a, odd)
    factors, pivots = lu_op(even - odd)
    return lu_solve_op(factors, pivots, even + odd, False)


def _weight(degree: int, k: int) -> float:
    f = math.factorial
    return f(2 * degree - k) * f(degree) / (f(2 * degree) * f(k) * f(degree - k))


def _sum(powers: list[Tensor], weights: list[float]) -> Tensor:
    total = powers[0] * weights[0]
    for power, weight in zip(powers[1:], weights[1:], strict=False):
        total = total + weight * power
    return total
