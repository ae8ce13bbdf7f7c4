"""QR factors as reflections: what LAPACK's ``geqrf`` leaves, and products with Q that never form it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg import lapack
from torch import Tensor

from trnblas.host_blas import ALL_LETTERS
from trnsci import ArgumentError, array_function, check, op, run
from trnsci.analogs import replaces
from trnsolver.arguments import by_columns, check_result, matrices, no_gradient, write_results


class Reflectors(NamedTuple):
    """R on and above the diagonal of ``factors``, below it the vectors of the reflections ``1 - tau v v.mH``."""

    factors: Tensor
    tau: Tensor

    @property
    def a(self) -> Tensor:
        """Torch's name for ``factors``."""
        return self.factors


@replaces("aten::geqrf")
@array_function
def geqrf(a: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> Reflectors:
    """Factor ``a = q @ r`` and keep ``q`` as reflections: LAPACK's ``geqrf``, `torch.geqrf`.

    Args:
        a: [..., M, N].
        out: where the results go, one tensor for each; they must fit and share no memory with an operand.

    Returns:
        `Reflectors`: ``factors`` [..., M, N] and ``tau`` [..., min(M, N)], for `householder_product` and `ormqr`.

    Error bound:
        that of `qr`.

    Cost:
        ``2 N**2 (M - N / 3)`` FLOPs, on the host whatever the backend: the kernel of `qr` forms ``q``. No gradient.

    Example:
        >>> geqrf(torch.tensor([[3.0], [4.0]])).factors[0].abs()
        tensor([5.])
    """
    matrices("geqrf", look=False, a=a)
    no_gradient("geqrf", a)
    result = Reflectors(*run(Geqrf(a.resolve_conj())))
    check_result("geqrf", result.factors, a=a)
    return write_results("geqrf", out, result, a=a)


@replaces("aten::linalg_householder_product")
@array_function
def householder_product(factors: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the first N columns of ``q`` from what `geqrf` returned: LAPACK's ``orgqr`` and ``ungqr``.

    Args:
        factors: [..., M, N] with M >= N; what lies on and above its diagonal is not read.
        tau: [..., K] with K <= N.
        out: where the result goes; it must fit and share no memory with an operand.

    Returns:
        [..., M, N]. Gradients flow.

    Error bound:
        ``norm(q.mH @ q - 1) <= 20 M u``.

    Cost:
        ``2 N**2 (M - N / 3)`` FLOPs for K = N, on the host whatever the backend.

    Example:
        >>> householder_product(*geqrf(torch.tensor([[3.0], [4.0]]))).abs()
        tensor([[0.6000],
                [0.8000]])
    """
    _check_reflectors("householder_product", factors, tau, wide=False)
    q = run(HouseholderProduct(factors, tau))
    check_result("householder_product", q, factors=lambda: factors.tril(-1), tau=tau)
    return write_results("householder_product", out, q, factors=factors, tau=tau)


@replaces("aten::ormqr")
@array_function
def ormqr(
    factors: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply by the complete ``q`` [..., M, M] without forming it: LAPACK's ``ormqr`` and ``unmqr``, `torch.ormqr`.

    Args:
        factors: [..., M, N], from `geqrf`; what lies on and above its diagonal is not read.
        tau: [..., K] with K <= min(M, N).
        other: [..., M, P], or [..., P, M] when ``left`` is false.
        left: return ``q @ other``; otherwise ``other @ q``.
        transpose: with ``q.mH`` in place of ``q``.
        out: where the result goes; it must fit and share no memory with an operand.

    Returns:
        The shape of ``other``. Gradients flow.

    Error bound:
        ``norm(x - exact) <= 20 M u norm(other)``.

    Cost:
        ``4 M P K`` FLOPs, on the host whatever the backend; on the device, multiply by ``qr(a).q``.

    Example:
        >>> a = torch.tensor([[3.0], [4.0]])
        >>> ormqr(*geqrf(a), a, transpose=True).abs()
        tensor([[5.],
                [0.]])
    """
    check.option("ormqr", "left", left, (False, True))
    check.option("ormqr", "transpose", transpose, (False, True))
    _check_reflectors("ormqr", factors, tau, wide=True, other=other)
    (*batch, m, _), (*others, rows, columns) = factors.shape, other.shape
    if batch != others or m != (rows if left else columns):
        check.equal("ormqr", "M", factors=m, other=rows if left else columns)
        check.equal("ormqr", "batch shape", factors=tuple(batch), other=tuple(others))
    x = run(Ormqr(factors, tau, other, left, transpose))
    check_result("ormqr", x, factors=lambda: factors.tril(-1), tau=tau, other=other)
    return write_results("ormqr", out, x, factors=factors, tau=tau, other=other)


def _check_reflectors(op: str, factors: Tensor, tau: Tensor, *, wide: bool, **other: Tensor) -> None:
    dtype = matrices(op, look=False, factors=factors, **other)
    if type(tau) is not Tensor or tau.layout is not torch.strided or tau.dtype is not dtype or not tau.ndim:
        check.floating(op, factors=factors, tau=tau)
        check.ndim(op, 1, tau=tau)
    check.same_device(op, factors=factors, tau=tau, **other)
    (*batch, m, n), (*others, k) = factors.shape, tau.shape
    if batch != others:
        check.equal(op, "batch shape", factors=tuple(batch), tau=tuple(others))
    if m < n and not wide:
        expected = f"at least as many rows as columns, but it has {m} and {n}"
        raise ArgumentError(op, "shape of factors", tuple(factors.shape), expected)
    if k > min(m, n):
        expected = f"at most {min(m, n)} of them for factors of {m} rows and {n} columns"
        raise ArgumentError(op, "shape of tau", tuple(tau.shape), expected)


_WHY = "the device multiplies by q itself, which the kernel of qr forms"


@op("trnsolver::geqrf", host_only=_WHY, calls="numpy.linalg.qr")
class Geqrf(NamedTuple):
    """Reflections, and their factors."""

    a: Tensor  # [..., M, N]

    def fake(self) -> tuple[Tensor, Tensor]:
        return by_columns(self.a), self.a.new_empty((*self.a.shape[:-2], min(self.a.shape[-2:])))

    def cost(self) -> int:
        m, n = self.a.shape[-2:]
        k = min(m, n)
        each = 2 * k * k * max(m, n) - 2 * k**3 // 3
        return self.a.numel() // max(1, m * n) * each * (4 if self.a.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        return "real matrices go to torch" if implementation == "host" and not self.a.is_complex() else None

    def host(self) -> tuple[Tensor, Tensor]:
        """As for `qr`: MKL's complex reflections near underflow are wrong."""
        packed, tau = np.linalg.qr(self.a.numpy(), "raw")
        return torch.from_numpy(packed).mT, torch.from_numpy(tau)

    def pytorch(self) -> tuple[Tensor, Tensor]:
        factors, tau = torch.geqrf(self.a)
        return factors, tau


@op("trnsolver::householder_product", host_only=_WHY, traceable=True)
class HouseholderProduct(NamedTuple):
    """The leading columns of ``q``."""

    factors: Tensor  # [..., M, N]
    tau: Tensor  # [..., K]

    def fake(self) -> Tensor:
        return by_columns(self.factors)

    def cost(self) -> int:
        return Geqrf(self.factors).cost()

    def pytorch(self) -> Tensor:
        q: Tensor = torch.linalg.householder_product(self.factors, self.tau)
        return q

    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        _, pull = torch.func.vjp(torch.linalg.householder_product, *self)  # type: ignore[misc]
        return dict(zip(self._fields, pull(grad), strict=True))


@op("trnsolver::ormqr", host_only=_WHY, traceable=True, calls="scipy.linalg.lapack.ormqr")
class Ormqr(NamedTuple):
    """``q @ other``, or another of the four products."""

    factors: Tensor  # [..., M, N]
    tau: Tensor  # [..., K]
    other: Tensor  # [..., M, P]
    left: bool
    transpose: bool

    def fake(self) -> Tensor:
        return by_columns(self.other)

    def cost(self) -> int:
        return 4 * self.other.numel() * self.tau.shape[-1] * (4 if self.other.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        one = self.factors.ndim == 2 and self.other.numel() and self.tau.shape[-1]
        return "SciPy's LAPACK takes one matrix a call" if implementation == "host" and not one else None

    def host(self) -> Tensor:
        factors, tau, other = self.factors.numpy(), self.tau.numpy(), self.other.numpy()
        name, adjoint = ("unmqr", "C") if self.other.is_complex() else ("ormqr", "T")
        how = "L" if self.left else "R", adjoint if self.transpose else "N"
        # without room for blocks LAPACK applies reflections one by one, which is faster for few vectors
        count = other.shape[-1 if self.left else -2]
        room = count if count < 32 else 64 * (count + 65)
        multiply = getattr(lapack, ALL_LETTERS[self.other.dtype] + name)
        x, _, _ = multiply(*how, factors[:, : len(tau)], tau, other, room)
        return torch.from_numpy(x)

    def pytorch(self) -> Tensor:
        if self.other.numel() == 0 or self.tau.shape[-1] == 0:
            return self.other.clone()
        return torch.ormqr(self.factors[..., : self.tau.shape[-1]], self.tau, self.other, self.left, self.transpose)

    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        def product(factors: Tensor, tau: Tensor, other: Tensor) -> Tensor:
            return Ormqr(factors, tau, other, self.left, self.transpose).pytorch()

        _, pull = torch.func.vjp(product, self.factors, self.tau, self.other)  # type: ignore[misc]
        return dict(zip(("factors", "tau", "other"), pull(grad), strict=True))
