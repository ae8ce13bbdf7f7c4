"""Eigenvalues of general matrices, Hessenberg and Schur forms."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnsci import NotConverged, array_function, check
from trnsci.arrays import to_numpy
from trnsolver.arguments import square
from trnsolver.francis import complex_schur, real_schur, real_to_complex, reduce_to_hessenberg


class Eig(NamedTuple):
    """``a @ vectors = vectors * values``, complex."""

    values: Tensor
    vectors: Tensor


class Schur(NamedTuple):
    """``a = z @ t @ z.mH``."""

    t: Tensor
    z: Tensor


class Hessenberg(NamedTuple):
    """``a = q @ h @ q.mH``."""

    h: Tensor
    q: Tensor


@array_function
def eig(a: Tensor) -> Eig:
    """Eigenvalues and right eigenvectors, of unit length, of a general matrix [..., N, N]; always complex.

    Gradients flow where eigenvalues are distinct. There is no kernel: the QR algorithm is a chain of small dependent
    steps, which the host does better.

    Example:
        >>> eig(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).values.imag.sort().values
        tensor([-1.,  1.])
    """
    square("eig", a=a)
    return Eig(*torch.linalg.eig(a))


@array_function
def eigvals(a: Tensor) -> Tensor:
    """Eigenvalues [..., N] of a general matrix, complex.

    Example:
        >>> eigvals(torch.tensor([[2.0, 0.0], [0.0, 3.0]])).real.sort().values
        tensor([2., 3.])
    """
    square("eigvals", a=a)
    return torch.linalg.eigvals(a)


@array_function
def hessenberg(a: Tensor) -> Hessenberg:
    """Reduce ``a = q @ h @ q.mH`` with ``q`` unitary and ``h`` zero below its first subdiagonal.

    Args:
        a: [..., N, N].

    Error bound:
        ``norm(q @ h @ q.mH - a) <= 20 N u norm(a)``.

    Example:
        >>> hessenberg(torch.eye(2)).h
        tensor([[1., 0.],
                [0., 1.]])
    """
    square("hessenberg", a=a)
    return Hessenberg(*_each(a, reduce_to_hessenberg))


@array_function
def schur(a: Tensor, *, output: Literal["real", "complex"] = "real") -> Schur:
    """Schur form ``a = z @ t @ z.mH``.

    Args:
        a: [..., N, N].
        output: ``real``: for real ``a``, ``t`` has blocks of 2 rows on its diagonal for complex pairs; ``complex``:
            ``t`` is upper triangular. Complex matrices always give the latter.

    Raises:
        NotConverged: the QR algorithm met a block it could not split.

    Error bound:
        ``norm(z @ t @ z.mH - a) <= 20 N u norm(a)``.

    Example:
        >>> schur(torch.tensor([[1.0, 2.0], [0.0, 3.0]])).t.diagonal()
        tensor([1., 3.])
    """
    square("schur", a=a)
    check.option("schur", "output", output, ("real", "complex"))
    if a.is_complex():
        return Schur(*_each(a, complex_schur))
    if output == "real":
        return Schur(*_each(a, real_schur))
    wide = torch.complex64 if a.dtype == torch.float32 else torch.complex128
    t, z = _each(a, lambda x: real_to_complex(*real_schur(x)), wide)
    return Schur(t, z)


def _each(a: Tensor, fn: object, dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    """Apply a NumPy function to every matrix; it computes in float64 and answers are rounded once."""
    n = a.shape[-1]
    first, second = [], []
    for matrix in a.detach().reshape(-1, n, n) if a.numel() else ():
        wide = to_numpy(matrix).astype(np.complex128 if a.is_complex() else np.float64)
        try:
            one, two = fn(wide)  # type: ignore[operator]
        except ArithmeticError as error:
            raise NotConverged(op="schur", iterations=30 * n, residual=float(error.args[0])) from None
        first.append(torch.from_numpy(one))
        second.append(torch.from_numpy(two))
    kind = dtype or a.dtype
    if not first:
        return a.new_zeros(a.shape, dtype=kind), a.new_zeros(a.shape, dtype=kind)
    return (
        torch.stack(first).reshape(a.shape).to(kind).to(a.device),
        torch.stack(second).reshape(a.shape).to(kind).to(a.device),
    )
