"""Functions of matrices: exponential, logarithm, square root, sign and polar factors."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import NotConverged, array_function, check
from trnsolver.arguments import matrices, nonsingular, readable, roundoff, square
from trnsolver.eig import schur
from trnsolver.solve import inv
from trnsolver.svd import svd


class Polar(NamedTuple):
    """``a = u @ p`` (right) or ``a = p @ u`` (left)."""

    u: Tensor
    p: Tensor


@array_function
def expm(a: Tensor) -> Tensor:
    """Matrix exponential of ``a`` [..., N, N], differentiable.

    Example:
        >>> expm(torch.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    square("expm", a=a)
    return torch.linalg.matrix_exp(a)


@array_function
def sqrtm(a: Tensor) -> Tensor:
    """Principal square root by the Schur form (Björck and Hammarling).

    Args:
        a: [..., N, N] without eigenvalues on the negative real axis; zero at most once per Jordan block of size 1.

    Returns:
        [..., N, N]: real where ``a`` is real and so is the root, complex otherwise.

    Raises:
        Singular: the matrix is singular and has no square root.

    Error bound:
        ``norm(x @ x - a) <= 20 N u norm(x)**2``.

    Example:
        >>> sqrtm(torch.tensor([[4.0, 0.0], [0.0, 9.0]]))
        tensor([[2., 0.],
                [0., 3.]])
    """
    square("sqrtm", a=a)
    return _by_schur("sqrtm", a, _sqrt_triangular)


@array_function
def logm(a: Tensor) -> Tensor:
    """Principal logarithm: square roots until the matrix is near 1, then a Gauss-Legendre (Padé) quotient.

    Args:
        a: [..., N, N], nonsingular.

    Returns:
        [..., N, N]: real where ``a`` is real and has no negative eigenvalues, complex otherwise.

    Raises:
        Singular: an eigenvalue is zero.

    Example:
        >>> logm(torch.eye(2))
        tensor([[0., 0.],
                [0., 0.]])
    """
    square("logm", a=a)
    return _by_schur("logm", a, _log_triangular)


def _by_schur(op: str, a: Tensor, fn: object) -> Tensor:
    """Apply a function of triangular matrices in complex128, and return to the dtype that holds the result."""
    t, z = schur(a.to(torch.complex128 if a.is_complex() else torch.float64), output="complex")
    n = a.shape[-1]
    flat = [fn(op, one) for one in t.reshape(-1, n, n)] if a.numel() else []  # type: ignore[operator]
    made = torch.stack(flat).reshape(a.shape).to(t.device) if flat else torch.zeros_like(t)
    result = z @ made @ z.mH
    if a.is_complex():
        return result.to(a.dtype)
    imaginary = float(result.imag.abs().max()) if result.numel() else 0.0
    size = float(result.abs().max()) if result.numel() else 0.0
    if imaginary <= 1e3 * n * 2.0**-53 * size:
        return result.real.to(a.dtype)
    return result.to(torch.complex64 if a.dtype == torch.float32 else torch.complex128)


def _sqrt_triangular(op: str, t: Tensor) -> Tensor:
    values = t.numpy()
    n = len(values)
    root = np.zeros_like(values)
    diagonal = np.sqrt(np.diag(values))
    tiny = np.linalg.norm(values) * np.finfo(np.float64).tiny
    for j in range(n):
        root[j, j] = diagonal[j]
        for i in range(j - 1, -1, -1):
            rest = values[i, j] - root[i, i + 1 : j] @ root[i + 1 : j, j]
            below = diagonal[i] + diagonal[j]
            if below == 0:
                if abs(rest) > tiny:
                    nonsingular(op, torch.tensor([1.0] * i + [0.0]))
                continue
            root[i, j] = rest / below
    return torch.from_numpy(root)


def _log_triangular(op: str, t: Tensor) -> Tensor:
    nonsingular(op, t.diagonal())
    n = len(t)
    eye = torch.eye(n, dtype=t.dtype)
    root, halvings = t, 0
    while float(torch.linalg.matrix_norm(root - eye, 1)) > 0.25 and halvings < 100:
        root = _sqrt_triangular(op, root)
        halvings += 1
    x = root - eye
    nodes, weights = np.polynomial.legendre.leggauss(12)
    total = torch.zeros_like(t)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        total += weight * torch.linalg.solve_triangular(eye + node * x, x, upper=True)
    return total * 2.0**halvings


@array_function
def sign(a: Tensor) -> Tensor:
    """Matrix sign: eigenvalues become -1 or 1 by their real part; Newton's iteration with determinantal scaling.

    Args:
        a: [N, N] or batches, without purely imaginary eigenvalues.

    Raises:
        Singular: an eigenvalue is zero.
        NotConverged: an eigenvalue is too close to the imaginary axis.

    Example:
        >>> sign(torch.tensor([[2.0, 1.0], [0.0, -3.0]])).diagonal()
        tensor([ 1., -1.])
    """
    square("sign", a=a)
    n = a.shape[-1]
    if a.numel() == 0:
        return a.clone()
    x, change = a, float("inf")
    for step in range(60):
        y = inv(x)
        if step < 6 and n:
            size = torch.linalg.matrix_norm(y, dim=(-2, -1)) / torch.linalg.matrix_norm(x, dim=(-2, -1))
            mu = size.sqrt().detach().unsqueeze(-1).unsqueeze(-1).to(a.dtype)
        else:
            mu = torch.ones((), dtype=a.dtype, device=a.device)
        following = 0.5 * (mu * x + y / mu)
        if not readable(a):
            x = following
            continue
        change = float((torch.linalg.matrix_norm(following - x) / torch.linalg.matrix_norm(following)).max())
        x = following
        if change <= 10 * n * roundoff(a.dtype):
            return x
    if readable(a):
        raise NotConverged(
            op="sign", iterations=60, residual=change, hint="Eigenvalues near the imaginary axis have no sign"
        )
    return x


@array_function
def polar(a: Tensor, *, side: Literal["right", "left"] = "right") -> Polar:
    """Polar decomposition by the SVD: ``a = u @ p``, or ``a = p @ u``, with ``p`` positive semidefinite.

    Args:
        a: [..., M, N].
        side: where ``p`` stands.

    Returns:
        ``u`` [..., M, N] with orthonormal columns or rows, and ``p`` [..., N, N] (right) or [..., M, M] (left).

    Example:
        >>> polar(torch.tensor([[0.0, -2.0], [3.0, 0.0]])).u.round()
        tensor([[ 0., -1.],
                [ 1.,  0.]])
    """
    matrices("polar", a=a)
    check.option("polar", "side", side, ("right", "left"))
    w, s, vh = svd(a, full_matrices=False)
    u = gemm(1.0, w, vh)
    scale = s.to(a.dtype)
    if side == "right":
        p = gemm(1.0, vh.mH * scale.unsqueeze(-2), vh)
    else:
        p = gemm(1.0, w * scale.unsqueeze(-2), w, trans_b="c")
    return Polar(u, 0.5 * (p + p.mH))
