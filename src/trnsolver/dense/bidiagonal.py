"""Bidiagonal form as reflections: LAPACK's ``gebrd``, ``orgbr``, ``ormbr``; and ``larft``, reflections as a block."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from scipy.linalg import cython_lapack
from torch import Tensor

from trnblas import gemm
from trnblas.host_blas import ALL_LETTERS
from trnsci import ArgumentError, array_function, check, op, run
from trnsolver.arguments import by_columns, check_result, matrices, no_gradient, write_results
from trnsolver.dense.householder import householder_product, ormqr
from trnsolver.dense.solve_triangular import triangular
from trnsolver.scipy_calls import compute


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
        """Return the bidiagonal matrix itself, [..., K, K], real."""
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
    check_result("gebrd", result.factors, a=a)
    return write_results("gebrd", out, result, a=a)


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
        whole = _border_with_one(rest)[..., :k]
    else:
        whole = householder_product(vectors, tau)
    return whole if vect == "q" else whole.mH.resolve_conj()


@array_function
@check.hands_on("orgbr", "ormqr")
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
    """Return vectors as columns, their factors, and whether they begin at the second row."""
    check.kind("orgbr", "form", form, Bidiagonal, "what gebrd returned")
    factors, tall = form.factors, form.factors.shape[-2] >= form.factors.shape[-1]
    k = min(factors.shape[-2:])
    if vect == "q":
        return (
            (factors, form.tauq, False) if tall else (factors[..., 1:, : max(0, k - 1)], form.tauq[..., : k - 1], True)
        )
    rows = factors.mT.conj().resolve_conj()
    return (rows[..., 1:, : max(0, k - 1)], form.taup[..., : k - 1], True) if tall else (rows, form.taup, False)


def _border_with_one(x: Tensor) -> Tensor:
    """Return ``diag(1, x)`` for ``x`` [..., N, K]."""
    wide = torch.nn.functional.pad(x, (1, 0, 1, 0))
    corner = torch.zeros_like(wide)
    corner[..., 0, 0] = 1
    return wide + corner


@op(
    "trnsolver::gebrd",
    host_only="half of its work is products of a matrix with a vector, and every step waits for one",
    calls="scipy.linalg.cython_lapack.gebrd",
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

    def host(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        results, (m, n) = self.fake(), self.a.shape[-2:]
        if self.a.numel():
            results[0].copy_(self.a)
            work = self.a.new_empty(32 * (m + n))
            # wide enough for either kind of LAPACK's integers: of small ones the first bytes are the whole
            rows, columns, room, info = (ctypes.byref(ctypes.c_int64(size)) for size in (m, n, len(work), 0))
            reduce, count = _gebrd(self.a.dtype), self.a.numel() // (m * n)
            for parts in zip(*(x.reshape(count, -1) for x in (results[0].mT, *results[1:])), strict=True):
                factors, *others = (x.data_ptr() for x in parts)
                reduce(rows, columns, factors, rows, *others, work.data_ptr(), room, info)
        return results

    def pytorch(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        factors, d, e, tauq, taup = compute(self)
        return factors, d, e, tauq, taup


@functools.cache
def _gebrd(dtype: torch.dtype) -> Callable[..., None]:
    """Return LAPACK's own routine, which SciPy hands to Cython only: by the address it keeps for that."""
    capsule = cython_lapack.__pyx_capi__[f"{ALL_LETTERS[dtype]}gebrd"]
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
    address = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 11)(address(capsule, name(capsule)))


@array_function
def larft(
    v: Tensor,
    tau: Tensor,
    *,
    direct: Literal["forward", "backward"] = "forward",
    storev: Literal["columns", "rows"] = "columns",
) -> Tensor:
    """Compute the triangular ``t`` of a product of reflections as one block, ``1 - v @ t @ v.mH``: LAPACK's ``larft``.

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
