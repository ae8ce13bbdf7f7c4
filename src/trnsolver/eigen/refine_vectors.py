"""Eigenvectors and singular vectors of double precision by products (after Ogita and Aishima)."""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from trnblas import gemm
from trnsolver.dense.mixed_precision import product, single

_ROUNDS = 10
# What a plan counts, which has no data to refine.
_USUAL = 2


def improve_eigenvectors(a: Tensor, x: Tensor, trajectory: list[float] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Refine until nothing is gained; return eigenvalues, ascending, eigenvectors, and what is left off the diagonal.

    ``x`` is close to orthonormal eigenvectors of the Hermitian ``a``. Pairs with a gap rotate to first order, which
    squares what is left off the diagonal; relative to ``a``, its largest part goes to ``trajectory`` in every round.
    Eigenvalues the approximation cannot tell apart form a cluster; its block, shifted and scaled, is an eigenproblem
    of its own.
    """

    def core(parts: tuple[Tensor, ...], matrix: Tensor) -> Tensor:
        s = gemm(1.0, parts[0], gemm(1.0, matrix, parts[0]), trans_a="c")
        return 0.5 * (s + s.mH)

    def rotate(parts: tuple[Tensor, ...], s: Tensor) -> tuple[Tensor, ...]:
        return (_rotate_clusters(parts[0], s),)

    (vectors,), values, left = _improve(a, (x,), core, rotate, trajectory)
    order = values.argsort(-1)
    return values.gather(-1, order), vectors.gather(-1, order.unsqueeze(-2).expand(vectors.shape)), left


Svd = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


def improve_singular_vectors(a: Tensor, u: Tensor, v: Tensor, svd: Svd) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Refine ``u`` and ``v`` of square ``a``; return ``u``, the diagonal of ``u.mH a v``, ``v``, and what is off it.

    ``svd`` decomposes blocks of small values in single precision.
    """

    def core(parts: tuple[Tensor, ...], matrix: Tensor) -> Tensor:
        return gemm(1.0, parts[0], gemm(1.0, matrix, parts[1]), trans_a="c")

    def rotate(parts: tuple[Tensor, ...], t: Tensor) -> tuple[Tensor, ...]:
        return _rotate_both(parts, t, svd)

    (u, v), values, left = _improve(a, (u, v), core, rotate, None)
    return u, values, v, left


Parts = tuple[Tensor, ...]


def _improve(
    a: Tensor,
    parts: Parts,
    core: Callable[[Parts, Tensor], Tensor],
    rotate: Callable[[Parts, Tensor], Parts],
    trajectory: list[float] | None,
) -> tuple[Parts, Tensor, Tensor]:
    n, batch = a.shape[-1], a.shape[:-2]
    values, left = a.new_zeros(a.shape[:-1], dtype=a.dtype.to_real()), a.new_zeros(batch, dtype=a.dtype.to_real())
    if a.is_meta:
        for _ in range(_USUAL):
            core(tuple(_orthonormal(x)[0] for x in parts), a)
            for x in parts:
                product(x, x)
        core(parts, a)
        return parts, values, left
    wholes = [torch.empty_like(x) for x in parts]
    for at in itertools.product(*map(range, batch)):
        kept, values[at], left[at] = _one(a[at], tuple(x[at] for x in parts), core, rotate, trajectory)
        for whole, x in zip(wholes, kept, strict=True):
            whole[at] = x
    return tuple(wholes), values, left if n else left.zero_()


def _one(
    a: Tensor,
    parts: Parts,
    core: Callable[[Parts, Tensor], Tensor],
    rotate: Callable[[Parts, Tensor], Parts],
    trajectory: list[float] | None,
) -> tuple[Parts, Tensor, float]:
    n = a.shape[-1]
    size = float(torch.linalg.matrix_norm(a)) or 1.0
    best, stalled = float("inf"), 0
    kept, values = parts, a.new_zeros(n, dtype=a.dtype.to_real())
    for _ in range(_ROUNDS):
        parts, skew = zip(*map(_orthonormal, parts), strict=True)
        s = core(parts, a)
        diagonal = s.diagonal().real.contiguous()
        left = max(float(torch.linalg.matrix_norm(s - torch.diag(diagonal).to(s.dtype))) / size, *skew)
        if trajectory is not None:
            trajectory.append(left)
        # a round that only takes clusters apart gains little
        stalled = 0 if left <= 0.5 * best else stalled + 1
        if left < best:
            best, kept, values = left, parts, diagonal
        if left <= 4 * n**0.5 * 2.0**-53 or stalled == 2 or not left < float("inf"):
            break
        parts = rotate(parts, s)
    return kept, values, best


def _orthonormal(x: Tensor) -> tuple[Tensor, float]:
    """Iterate by Newton-Schulz, until columns are orthonormal to roundoff; also how far they are from it."""
    eye, skew = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device).expand(x.shape), 0.0
    for _ in range(1 if x.is_meta else _ROUNDS):
        defect = gemm(-1.0, x, x, 1.0, eye, trans_a="c")
        skew = 0.0 if x.is_meta else float(torch.linalg.matrix_norm(defect))
        if not x.is_meta and skew <= x.shape[-1] ** 0.5 * 2.0**-52:
            break
        x = x + 0.5 * product(x, defect)
    return x, skew


def _clusters(values: Tensor, least: float) -> list[Tensor]:
    """Return indices of values that no gap separates, of more than one each."""
    order = values.argsort()
    starts = [0, *(torch.nonzero(values[order].diff() > least).flatten() + 1).tolist(), len(values)]
    return [order[first:last] for first, last in itertools.pairwise(starts) if last - first > 1]


def _rotate_clusters(x: Tensor, s: Tensor) -> Tensor:
    n, diagonal = len(s), s.diagonal().real
    off = s - torch.diag(diagonal).to(s.dtype)
    gaps = diagonal.unsqueeze(0) - diagonal.unsqueeze(1)
    least = 8 * n**0.5 * float(off.abs().max())
    turn = torch.where(gaps.abs() > least, off / torch.where(gaps == 0, 1.0, gaps), 0.0)
    clusters = _clusters(diagonal, least)
    for members in clusters:
        turn[members.unsqueeze(1), members] = 0.0
    x = x + product(x, turn)
    for members in clusters:
        x[:, members] = gemm(1.0, x[:, members], _cluster(s[members.unsqueeze(1), members]))
    return x


def _rotate_both(parts: Parts, t: Tensor, svd: Svd) -> Parts:
    """Return the same for ``t = u.mH a v``.

    ``u`` turns by ``f`` and ``v`` by ``g``, both skew, so that ``t + t g - f t`` has only squares off its diagonal.
    """
    (u, v), n = parts, len(t)
    phases = torch.where(t.diagonal() == 0, 1.0, torch.sgn(t.diagonal()))
    u, t = u * phases, t * phases.conj().unsqueeze(-1)
    s = t.diagonal().real
    off = t - torch.diag(s).to(t.dtype)
    rows, columns = s.unsqueeze(1), s.unsqueeze(0)
    least = 8 * n**0.5 * float(off.abs().max())
    apart = (rows - columns).abs() > least
    gaps = torch.where(apart, columns.square() - rows.square(), 1.0)
    f, g = (torch.where(apart, (rows * x + columns * y) / gaps, 0.0) for x, y in ((off.mH, off), (off, off.mH)))
    clusters = _clusters(s, least)
    for members in clusters:
        f[members.unsqueeze(1), members] = 0.0
        g[members.unsqueeze(1), members] = 0.0
    u, v = u + product(u, f), v + product(v, g)
    for members in clusters:
        left, right = _block(t[members.unsqueeze(1), members], least, svd)
        u[:, members], v[:, members] = gemm(1.0, u[:, members], left), gemm(1.0, v[:, members], right)
    return u, v


def _block(t: Tensor, least: float, svd: Svd) -> tuple[Tensor, Tensor]:
    """Return rotations that diagonalise a block of singular values that are nearly equal, or nearly zero."""
    k, value = len(t), float(t.diagonal().real.mean())
    eye = torch.eye(k, dtype=t.dtype, device=t.device)
    if not t.any():
        return eye, eye
    if value <= 16 * k * least:
        u, _, vh = svd(single(t / t.abs().max()))
        return u.to(t.dtype), vh.mH.to(t.dtype)
    # A multiple of the identity and little else: the skew part turns one side, the rest both.
    little = t - value * eye
    both = _cluster(0.5 * (little + little.mH))
    return gemm(1.0, eye + (little - little.mH) / (2 * value), both), both


def _cluster(block: Tensor) -> Tensor:
    """Return eigenvectors of a nearly scalar block, in single precision after shift and scale."""
    from trnsolver.eigen.eigh import eigh

    middle = block.diagonal().real.mean()
    shifted = block - middle * torch.eye(len(block), dtype=block.dtype, device=block.device)
    size = float(shifted.abs().max())
    if size == 0.0:
        return torch.eye(len(block), dtype=block.dtype, device=block.device)
    return eigh(single(shifted / size)).vectors.to(block.dtype)
