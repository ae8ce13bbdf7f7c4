"""Bidiagonal form as reflections: LAPACK's ``gebrd``, ``orgbr``, ``ormbr``; and ``larft``, reflections as a block."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import ArgumentError, array_function, check, op, run
from trnsolver.arguments import by_columns, matrices, no_gradient, settled, written
from trnsolver.householder import householder_product, ormqr
from trnsolver.solve_triangular import triangular


class Bidiagonal(NamedTuple):
    """``q.mH @ a @ p`` is real and bidiagonal: ``d`` on its diagonal, ``e`` beside it.

    Attributes:
        factors: [..., M, N], d and e in their places, the reflections of q below them and those of p to their right.
        d: [..., K] with K = min(M, N).
        e: [..., K - 1], above the diagonal for M >= N and below it otherwise.
        tauq: [..., K].
        taup: [..., K].
    """

    factors: Tensor
    d: Tensor
    e: Tensor
    tauq: Tensor
    taup: Tensor

    def dense(self) -> Tensor:
        """The bidiagonal matrix itself, [..., K, K], real."""
        tall = self.factors.shape[-2] >= self.factors.shape[-1]
        return torch.diag_embed(self.d) + torch.diag_embed(self.e, 1 if tall else -1)


@array_function
def gebrd(a: Tensor, *, out: tuple[Tensor, Tensor, Tensor, Tensor, Tensor] | None = None) -> Bidiagonal:
    """Reduce a matrix to bidiagonal form by reflections from both sides: LAPACK's ``gebrd``.

    Args:
        a: [..., M, N].
        out: where the results go, one tensor for each; they must fit and share no memory with an operand.

    Returns:
        `Bidiagonal`, laid out as LAPACK does, for `orgbr` and `ormbr`.

    Error bound:
        ``norm(a - q @ b @ p.mH) <= 20 max(M, N) u norm(a)``.

    Cost:
        ``4 K**2 (max(M, N) - K / 3)`` FLOPs with K = min(M, N), on the host whatever the backend. No gradient.

    Example:
        >>> gebrd(torch.tensor([[3.0, 0.0], [4.0, 0.0]])).d.abs()
        tensor([5., 0.])
    """
    matrices("gebrd", look=False, a=a)
    no_gradient("gebrd", a)
    result = Bidiagonal(*run(Gebrd(a.resolve_conj())))
    settled("gebrd", result.factors, a=a)
    return written("gebrd", out, result, a=a)


@array_function
def orgbr(form: Bidiagonal, vect: Literal["q", "p"] = "q") -> Tensor:
    """Form ``q`` [..., M, K] or ``p.mH`` [..., K, N] from what `gebrd` returned: LAPACK's ``orgbr`` and ``ungbr``.

    Args:
        form: what `gebrd` returned.
        vect: ``q`` or ``p``.

    Error bound:
        ``norm(q.mH @ q - 1) <= 20 max(M, N) u``.

    Example:
        >>> orgbr(gebrd(torch.tensor([[3.0, 0.0], [4.0, 0.0]]))).abs()
        tensor([[0.6000, 0.8000],
                [0.8000, 0.6000]])
    """
    check.option("orgbr", "vect", vect, ("q", "p"))
    vectors, tau, shifted = _reflections(form, vect)
    *batch, m, n = form.factors.shape
    k = min(m, n)
    if k == 0:
        return form.factors.new_zeros((*batch, m, 0) if vect == "q" else (*batch, 0, n))
    if shifted:
        rest = householder_product(vectors, tau) if vectors.shape[-2] else vectors.new_empty((*batch, 0, 0))
        whole = _bordered(rest)[..., :k]
    else:
        whole = householder_product(vectors, tau)
    return whole if vect == "q" else whole.mH.resolve_conj()


@array_function
def ormbr(
    form: Bidiagonal, other: Tensor, vect: Literal["q", "p"] = "q", *, left: bool = True, transpose: bool = False
) -> Tensor:
    """Multiply by the whole ``q`` [..., M, M] or ``p`` [..., N, N] without forming it: LAPACK's ``ormbr``.

    Args:
        form: what `gebrd` returned.
        other: [..., M, P] for q (N for p), or [..., P, M] when ``left`` is false.
        vect: ``q`` or ``p``.
        left: return ``q @ other``; otherwise ``other @ q``.
        transpose: with ``q.mH`` in place of ``q``.

    Error bound:
        ``norm(x - exact) <= 20 max(M, N) u norm(other)``.

    Example:
        >>> a = torch.tensor([[3.0, 0.0], [4.0, 0.0]])
        >>> ormbr(gebrd(a), a, transpose=True).abs()
        tensor([[5., 0.],
                [0., 0.]])
    """
    check.option("ormbr", "vect", vect, ("q", "p"))
    vectors, tau, shifted = _reflections(form, vect)
    if not shifted:
        return ormqr(vectors, tau, other, left, transpose)
    size = form.factors.shape[-2 if vect == "q" else -1]
    check.equal("ormbr", "M" if vect == "q" else "N", form=size, other=other.shape[-2 if left else -1])
    head, rest = (other[..., :1, :], other[..., 1:, :]) if left else (other[..., :1], other[..., 1:])
    rest = ormqr(vectors, tau, rest.contiguous(), left, transpose) if rest.numel() and tau.shape[-1] else rest
    return torch.cat([head, rest], -2 if left else -1)


def _reflections(form: Bidiagonal, vect: str) -> tuple[Tensor, Tensor, bool]:
    """Vectors as columns, their factors, and whether they begin at the second row."""
    factors, tall = form.factors, form.factors.shape[-2] >= form.factors.shape[-1]
    k = min(factors.shape[-2:])
    if vect == "q":
        return (
            (factors, form.tauq, False) if tall else (factors[..., 1:, : max(0, k - 1)], form.tauq[..., : k - 1], True)
        )
    rows = factors.mT.conj().resolve_conj()
    return (rows[..., 1:, : max(0, k - 1)], form.taup[..., : k - 1], True) if tall else (rows, form.taup, False)


def _bordered(x: Tensor) -> Tensor:
    """``diag(1, x)`` for ``x`` [..., N, K]."""
    wide = torch.nn.functional.pad(x, (1, 0, 1, 0))
    corner = torch.zeros_like(wide)
    corner[..., 0, 0] = 1
    return wide + corner


@op(
    "trnsolver::gebrd", host_only="half of its work is products of a matrix with a vector, and every step waits for one"
)
class Gebrd(NamedTuple):
    """Factors, diagonals and the factors of both reflections."""

    a: Tensor  # [..., M, N]

    def fake(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        batch, k = self.a.shape[:-2], min(self.a.shape[-2:])
        real = self.a.new_empty((*batch, k)).real
        tau = self.a.new_empty((*batch, k))
        beside = real.new_empty((*batch, max(0, k - 1)))
        return by_columns(self.a), real.new_empty((*batch, k)), beside, tau, torch.empty_like(tau)

    def cost(self) -> int:
        m, n = self.a.shape[-2:]
        k = min(m, n)
        each = 4 * k * k * max(m, n) - 4 * k**3 // 3
        return self.a.numel() // max(1, m * n) * each * (4 if self.a.is_complex() else 1)

    def pytorch(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        m, n = self.a.shape[-2:]
        if m >= n:
            packed, d, e, tauq, taup = _reduced(self.a)
            return _as_columns(packed), d, e, tauq, taup
        # rows first is columns first of the adjoint
        packed, d, e, taup, tauq = _reduced(self.a.mH)
        return _as_columns(packed.mH.resolve_conj()), d, e, tauq, taup


def _as_columns(x: Tensor) -> Tensor:
    return by_columns(x).copy_(x)


def _reduced(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Upper bidiagonal form of ``a`` with at least as many rows as columns."""
    a = a.clone(memory_format=torch.contiguous_format).resolve_conj()
    n, batch = a.shape[-1], a.shape[:-2]
    d, e = a.new_zeros((*batch, n)).real.clone(), a.new_zeros((*batch, max(0, n - 1))).real.clone()
    tauq, taup = a.new_zeros((*batch, n)), a.new_zeros((*batch, n))
    for i in range(n):
        v, d[..., i], tauq[..., i] = _reflection(a[..., i:, i])
        _applied(a[..., i:, i + 1 :], v, tauq[..., i].conj())
        a[..., i:, i] = v
        a[..., i, i] = d[..., i].to(a.dtype)
        if i + 1 < n:
            u, e[..., i], taup[..., i] = _reflection(a[..., i, i + 1 :].conj().resolve_conj())
            _applied(a[..., i + 1 :, i + 1 :].mH, u, taup[..., i].conj())
            a[..., i, i + 1 :] = u.conj()
            a[..., i, i + 1] = e[..., i].to(a.dtype)
    return a, d, e, tauq, taup


def _applied(block: Tensor, v: Tensor, tau: Tensor) -> None:
    """Replace ``block`` by ``(1 - tau v v.mH) @ block``."""
    if block.numel():
        row = v.unsqueeze(-2).conj() @ block
        block.sub_((tau[..., None, None] * v.unsqueeze(-1)) @ row)


def _reflection(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``v`` with first entry 1, real ``beta``, ``tau``: ``(1 - tau v v.mH).mH @ x = beta e1``, LAPACK's ``larfg``."""
    # in two halves, because the inverse of a subnormal number is beyond the range
    exponent = torch.frexp(x.abs().amax(-1, keepdim=True)).exponent
    first = exponent // 2
    one, other = (torch.exp2(half.to(x.real.dtype)) for half in (first, exponent - first))
    y = x * (1 / one) * (1 / other)
    alpha, rest = y[..., 0], torch.linalg.vector_norm(y[..., 1:], dim=-1)
    real = alpha.real if x.is_complex() else alpha
    idle = (rest == 0) & ((alpha.imag == 0) if x.is_complex() else torch.ones_like(rest, dtype=torch.bool))
    size = torch.sqrt(alpha.abs() ** 2 + rest**2)
    beta = torch.where(idle, real, -torch.where(real >= 0, size, -size))
    below = torch.where(idle, 1.0, beta).to(x.dtype)
    tau = torch.where(idle, torch.zeros_like(alpha), (below - alpha) / below)
    v = y / torch.where(idle, torch.ones_like(alpha), alpha - below).unsqueeze(-1)
    v = torch.where(idle.unsqueeze(-1), torch.zeros_like(v), v)
    v[..., 0] = 1
    return v, beta * one.squeeze(-1) * other.squeeze(-1), tau


@array_function
def larft(
    v: Tensor,
    tau: Tensor,
    *,
    direct: Literal["forward", "backward"] = "forward",
    storev: Literal["columns", "rows"] = "columns",
) -> Tensor:
    """The triangular ``t`` with which a product of reflections is one block, ``1 - v @ t @ v.mH``: LAPACK's ``larft``.

    Args:
        v: [..., M, K], the vectors as columns; [..., K, M] for ``storev="rows"``. For ``forward`` their first K rows
            are read as unit lower triangular, as `geqrf` leaves them; for ``backward`` the last K as unit upper.
        tau: [..., K].
        direct: ``forward``: the product of the first to the last, ``t`` upper triangular; ``backward``: of the last to
            the first, lower triangular.
        storev: how the vectors are stored; rows hold them conjugated, as LAPACK's ``gelqf`` leaves them.

    Returns:
        [..., K, K]. Gradients flow.

    Error bound:
        ``norm(1 - v @ t @ v.mH - product) <= 20 K u`` for reflections that are unitary.

    Cost:
        ``M K**2`` FLOPs, on the backend: a product and a triangular system.

    Example:
        >>> larft(*geqrf(torch.tensor([[3.0], [4.0]])))
        tensor([[1.6000]])
    """
    check.option("larft", "direct", direct, ("forward", "backward"))
    check.option("larft", "storev", storev, ("columns", "rows"))
    matrices("larft", look=False, v=v)
    check.floating("larft", v=v, tau=tau)
    check.same_device("larft", v=v, tau=tau)
    columns = v if storev == "columns" else v.mH
    m, k = columns.shape[-2:]
    if m < k:
        expected = f"at least as long as they are many, but there are {k} of length {m}"
        raise ArgumentError("larft", "shape of v", tuple(v.shape), expected)
    check.equal("larft", "shape of tau", v=(*v.shape[:-2], k), tau=tuple(tau.shape))
    if direct == "backward":
        backward = larft(columns.flip((-2, -1)), tau.flip(-1))
        return backward.flip((-2, -1))
    eye = torch.eye(m, k, dtype=v.dtype, device=v.device)
    unit = columns.tril(-1) + eye
    inner = gemm(1.0, unit, unit, trans_a="c").triu(1)
    # t (1 + inner diag(tau)) = diag(tau): no factor is divided by, for tau may be 0
    system = torch.eye(k, dtype=v.dtype, device=v.device) + inner * tau.unsqueeze(-2)
    return triangular(system.mT, torch.diag_embed(tau).mT, lower=True, unit=True).mT
