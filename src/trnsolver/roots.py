"""Principal square roots and logarithms of general matrices, from the Schur form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from trnsci import Singular, array_function
from trnsolver.arguments import square
from trnsolver.eig import schur

Triangular = Callable[[str, Tensor], Tensor]


@array_function
def sqrtm(a: Tensor) -> Tensor:
    """Principal square root by the Schur form (Björck and Hammarling).

    Args:
        a: [..., N, N] without eigenvalues on the negative real axis; zero at most once per Jordan block of size 1.

    Returns:
        [..., N, N]: real where ``a`` is real and so is the root, complex otherwise. Gradients flow.

    Raises:
        Singular: the matrix is singular and has no square root.

    Error bound:
        ``norm(x @ x - a) <= 20 N u norm(x)**2``.

    Cost:
        about ``30 N**3`` FLOPs in float64, on the host whatever the backend and the device of ``a``.

    Example:
        >>> sqrtm(torch.tensor([[4.0, 0.0], [0.0, 9.0]]))
        tensor([[2., 0.],
                [0., 3.]])
    """
    square("sqrtm", a=a)
    return _applied("sqrtm", a, _sqrt_triangular)


@array_function
def logm(a: Tensor) -> Tensor:
    """Principal logarithm: square roots until the matrix is near 1, then a Gauss-Legendre (Padé) quotient.

    Args:
        a: [..., N, N], nonsingular.

    Returns:
        [..., N, N]: real where ``a`` is real and has no negative eigenvalues, complex otherwise. Gradients flow.

    Raises:
        Singular: an eigenvalue is zero.

    Error bound:
        ``norm(expm(x) - a) <= 20 N u cond(z) norm(a)`` for a diagonalisable matrix with eigenvectors ``z``.

    Cost:
        about ``100 N**3`` FLOPs in float64, on the host whatever the backend and the device of ``a``.

    Example:
        >>> logm(torch.eye(2))
        tensor([[0., 0.],
                [0., 0.]])
    """
    square("logm", a=a)
    return _applied("logm", a, _log_triangular)


def _applied(op: str, a: Tensor, fn: Triangular) -> Tensor:
    if a.requires_grad and torch.is_grad_enabled():
        made: Tensor = _Differentiable.apply(a, op, fn)  # type: ignore[no-untyped-call]
        return made
    return _by_schur(op, a, fn)


class _Differentiable(torch.autograd.Function):
    """The derivative's adjoint at ``a``, applied to ``g``, is the corner of the function of [[a.mH, g], [0, a.mH]]."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, op: str, fn: Triangular) -> Tensor:
        ctx.save_for_backward(a)
        ctx.op, ctx.fn = op, fn
        return _by_schur(op, a, fn)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (a,) = ctx.saved_tensors
        n = a.shape[-1]
        turned = a.mH.to(grad.dtype)
        block = torch.cat([torch.cat([turned, grad], -1), torch.cat([torch.zeros_like(grad), turned], -1)], -2)
        corner = _by_schur(ctx.op, block, ctx.fn)[..., :n, n:]
        return (corner if a.is_complex() else corner.real).to(a.dtype), None, None


def _by_schur(op: str, a: Tensor, fn: Triangular) -> Tensor:
    """Apply a function of triangular matrices in complex128, and return to the dtype that holds the result."""
    wide = torch.complex128 if a.is_complex() else torch.float64
    t, z = schur(a.detach().to("cpu", wide), output="complex")
    n = a.shape[-1]
    flat = [fn(op, one) for one in t.reshape(-1, n, n)] if a.numel() else []
    made = torch.stack(flat).reshape(a.shape) if flat else torch.zeros_like(t)
    result = z @ made @ z.mH
    if a.is_complex():
        return result.to(a.device, a.dtype)
    imaginary = float(result.imag.abs().max()) if result.numel() else 0.0
    size = float(result.abs().max()) if result.numel() else 0.0
    if imaginary <= 1e3 * n * 2.0**-53 * size:
        return result.real.to(a.device, a.dtype)
    return result.to(a.device, torch.promote_types(a.dtype, torch.complex64))


def _sqrt_triangular(op: str, t: Tensor) -> Tensor:
    """Column by column: with r the root of what lies left, ``(r + r_jj) x = t_j``."""
    values = t.numpy()
    n = len(values)
    diagonal = np.sqrt(np.diag(values))
    # On the cut, rounding must not decide between i and -i.
    diagonal = np.where((diagonal.real == 0) & (diagonal.imag < 0), -diagonal, diagonal)
    root = torch.diag(torch.from_numpy(diagonal))
    tiny = float(np.linalg.norm(values)) * np.finfo(np.float64).tiny
    for j in range(1, n):
        shifted = root[:j, :j].clone()
        sums = shifted.diagonal().add_(root[j, j])
        none = sums == 0
        stuck = bool(none.any())
        if stuck:
            sums[none] = 1.0
        x = torch.linalg.solve_triangular(shifted, t[:j, j : j + 1], upper=True)[:, 0]
        if stuck:
            if bool((x[none].abs() > tiny).any()):
                raise Singular(
                    op=op,
                    index=j,
                    message="the matrix is singular and has no square root: a Jordan block of zero",
                    hint="Add a small multiple of the identity",
                )
            x = torch.where(none, 0.0, x)
        root[:j, j] = x
    return root


def _log_triangular(op: str, t: Tensor) -> Tensor:
    diagonal = t.diagonal()
    if bool((diagonal == 0).any()):
        index = int((diagonal == 0).int().argmax())
        raise Singular(op=op, index=index, message=f"eigenvalue {index} is zero, which has no logarithm")
    eye = torch.eye(len(t), dtype=t.dtype)
    root, halvings = t, 0
    while float(torch.linalg.matrix_norm(root - eye, 1)) > 0.25 and halvings < 100:
        root = _sqrt_triangular(op, root)
        halvings += 1
    x = root - eye
    nodes, weights = np.polynomial.legendre.leggauss(12)
    total = torch.zeros_like(t)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        total += weight * torch.linalg.solve_triangular(eye + node * x, x, upper=True)
    made: Tensor = total * 2.0**halvings
    # Close to 1 the diagonal has lost digits that the eigenvalues themselves still have.
    made.diagonal().copy_(diagonal.log())
    return made
