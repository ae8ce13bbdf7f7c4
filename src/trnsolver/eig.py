"""Eigenvalues of general matrices, Hessenberg and Schur forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnsci import NotConverged, array_function, check
from trnsci.arrays import to_numpy
from trnsolver import host
from trnsolver.arguments import no_gradient, square


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
    """Eigenvalues and right eigenvectors, of unit length, of a general matrix; always complex.

    Args:
        a: [..., N, N]. Gradients flow where eigenvalues are distinct.

    Returns:
        `Eig`: values [..., N] in no particular order, vectors [..., N, N].

    Error bound:
        ``norm(a @ v - v * w) <= 20 N u norm(a)``.

    Cost:
        about ``25 N**3`` FLOPs, on the host whatever the backend and the device of ``a``: the QR algorithm is a chain
        of small dependent steps.

    Example:
        >>> eig(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).values.imag.sort().values
        tensor([-1.,  1.])
    """
    square("eig", a=a)
    values, vectors = torch.linalg.eig(a.cpu())
    return Eig(values.to(a.device), vectors.to(a.device))


@array_function
def eigvals(a: Tensor) -> Tensor:
    """Eigenvalues [..., N] of a general matrix [..., N, N], complex, on the host like `eig`.

    Example:
        >>> eigvals(torch.tensor([[2.0, 0.0], [0.0, 3.0]])).real.sort().values
        tensor([2., 3.])
    """
    square("eigvals", a=a)
    return torch.linalg.eigvals(a.cpu()).to(a.device)


@array_function
def hessenberg(a: Tensor) -> Hessenberg:
    """Reduce ``a = q @ h @ q.mH`` with ``q`` unitary and ``h`` zero below its first subdiagonal.

    Args:
        a: [..., N, N].

    Error bound:
        ``norm(q @ h @ q.mH - a) <= 20 N u norm(a)``.

    Cost:
        ``14 N**3 / 3`` FLOPs, on the host whatever the backend. No gradient.

    Example:
        >>> hessenberg(torch.eye(2)).h
        tensor([[1., 0.],
                [0., 1.]])
    """
    square("hessenberg", a=a)
    no_gradient("hessenberg", a)
    return Hessenberg(*_each("hessenberg", a, host.hessenberg))


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

    Cost:
        about ``25 N**3`` FLOPs, on the host whatever the backend: SciPy's LAPACK where it is installed, a QR algorithm
        of our own, in float64, elsewhere. No gradient.

    Example:
        >>> schur(torch.tensor([[1.0, 2.0], [0.0, 3.0]])).t.diagonal()
        tensor([1., 3.])
    """
    square("schur", a=a)
    check.option("schur", "output", output, ("real", "complex"))
    no_gradient("schur", a)
    if a.is_complex() or output == "complex":
        wide = torch.promote_types(a.dtype, torch.complex64)
        return Schur(*_each("schur", a, host.complex_schur, wide))
    return Schur(*_each("schur", a, host.real_schur))


def _each(op: str, a: Tensor, fn: Callable[[Any], Any], dtype: torch.dtype | None = None) -> tuple[Tensor, Tensor]:
    """Apply a NumPy function to every matrix."""
    n, kind = a.shape[-1], dtype or a.dtype
    first, second = [], []
    for matrix in to_numpy(a).reshape(-1, n, n) if a.numel() else ():
        try:
            one, two = fn(np.ascontiguousarray(matrix))
        except ArithmeticError as error:
            raise NotConverged(op=op, iterations=30 * n, residual=float(error.args[0])) from None
        first.append(torch.from_numpy(one))
        second.append(torch.from_numpy(two))
    if not first:
        return a.new_zeros(a.shape, dtype=kind), a.new_zeros(a.shape, dtype=kind)
    made = [torch.stack(each).reshape(a.shape).to(a.device, kind) for each in (first, second)]
    return made[0], made[1]
