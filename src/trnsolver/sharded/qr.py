"""QR, least squares, singular values and low ranks of sharded matrices, by TSQR.

Matrices come in any placement. Results, on the first axis of the mesh (copies along the others):

| op | gives |
|---|---|
| qr | rows of ``q``, cut along all axes of the mesh that cut rows before; ``r`` on every rank |
| svd, svdvals | rows of ``u`` likewise, or columns of ``vh`` of a wide matrix; the rest on every rank |
| svd_randomized, eigh_randomized | rows of ``u``; the rest on every rank |
| lstsq | everything on every rank |
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from trnblas import gemm
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.errors import UnsupportedError
from trnsolver.arguments import readable
from trnsolver.dense.lstsq import Driver, LeastSquares, lstsq, squares
from trnsolver.dense.qr import QR, qr
from trnsolver.eigen.eigh import eigh
from trnsolver.eigen.randomized import LowRank, eigh_randomized, gaussian, norm_bound, svd_randomized
from trnsolver.eigen.svd import SVD, svd, svdvals


def _check_lstsq(
    a: Tensor, b: Tensor, rcond: float | None, *, driver: Driver | None, target_error: float | None
) -> None:
    if target_error is not None:
        raise UnsupportedError(
            "lstsq", [("distributed", "refinement between ranks is missing, and target_error is given")]
        )
    lstsq(a, b, rcond, driver=driver)


@sharded(lstsq, check=_check_lstsq)
def _lstsq(
    team: Team, a: Part, b: Part, rcond: float | None, driver: Driver | None, target_error: None
) -> LeastSquares:
    """TSQR leaves a small problem with the same singular values, which every rank solves."""
    a, b = _matrix("lstsq", team, a), b.to(team, team.first(0))
    m, n = a.shape
    right = b.local if len(b.shape) > 1 else b.local[:, None]
    q, r = _tall_qr(team, a)
    projected = team.all_reduce(0, gemm(1.0, q.local, right, trans_a="c"))
    if rcond is None and driver != "gels":
        rcond = max(m, n) * torch.finfo(a.dtype).eps
    x, residuals, rank, values = lstsq(r, projected, rcond, driver=driver)
    if m > n and (not readable(rank) or bool((rank == n).all())):
        residuals = team.all_reduce(0, squares(gemm(1.0, a.local, x) - right))
    return LeastSquares(*map(b.replicated, (x if len(b.shape) > 1 else x[:, 0], residuals, rank, values)))  # type: ignore[arg-type]


@sharded(qr, batch={"a": 2})
def _qr(team: Team, a: Part, mode: str) -> QR:
    if mode != "reduced":
        raise UnsupportedError("qr", [("distributed", f"the sharded factorisation is reduced, mode is {mode!r}")])
    q, r = _tall_qr(team, _rows(team, a))
    return QR(q, a.replicated(r))  # type: ignore[arg-type]


@sharded(svd, batch={"a": 2})
def _svd(team: Team, a: Part, full_matrices: bool, method: str) -> SVD:
    if full_matrices or method != "auto":
        reason = f"it is reduced and has one method; full_matrices is {full_matrices}, method is {method!r}"
        raise UnsupportedError("svd", [("distributed", reason)], hint="Pass full_matrices=False")
    if a.shape[0] < a.shape[1]:
        u, s, vh = _svd(team, a.transposed(conj=True), full_matrices, method)
        return SVD(vh.transposed(conj=True), s, u.transposed(conj=True))
    q, r = _tall_qr(team, _rows(team, a))
    u, s, vh = svd(r, full_matrices=False)
    return SVD(q.with_local(gemm(1.0, q.local, u)), a.replicated(s), a.replicated(vh))  # type: ignore[arg-type]


@sharded(svdvals, batch={"a": 2})
def _svdvals(team: Team, a: Part) -> Part:
    a = a if a.shape[0] >= a.shape[1] else a.transposed(conj=True)
    return a.replicated(svdvals(_tall_qr(team, _rows(team, a))[1]))


def _rows(team: Team, a: Part) -> Part:
    """Cut rows, by the axes of the mesh that do so already."""
    return a if 0 in a.places and {*a.places} <= {0, None} else a.to(team, team.first(0))


def _tall_qr(team: Team, a: Part) -> tuple[Part, Tensor]:
    """TSQR: each rank's rows give a small triangle; the triangles together give ``r``, along inner axes first."""
    m, n = a.shape
    q, r = qr(a.local)
    axes = [axis for axis, place in enumerate(a.places) if place == 0]
    spans = [chunks(m, team.size(axes[0]))]
    for axis, before in zip(axes[1:], axes, strict=False):
        spans.append(chunks(spans[-1][team.here(before)][1], team.size(axis)))
    turns: list[Tensor] = []
    for axis, cuts in zip(reversed(axes), reversed(spans), strict=True):
        heights, here = [min(size, n) for _, size in cuts], team.here(axis)
        outer, r = qr(torch.cat(team.all_gather(axis, r.contiguous(), [(height, n) for height in heights])))
        turns.append(outer[sum(heights[:here]) : sum(heights[: here + 1])])
    return a.with_local(gemm(1.0, q, functools.reduce(functools.partial(gemm, 1.0), turns)), (m, len(r))), r


def _down(team: Team, a: Part, q: Part) -> Tensor:
    """``a.mH @ q`` on every rank."""
    return team.all_reduce(0, gemm(1.0, a.local, q.local, trans_a="c"))


def _project(
    op: str, team: Team, a: Part, *, width: int, powers: int, probes: int, seed: int
) -> tuple[Part, Part, Tensor, Tensor]:
    """Return the matrix, a basis of most of its range, the matrix in it, and a bound of what is left out."""
    a = _matrix(op, team, a)
    m, width = a.shape[0], min(*a.shape, width)
    q, _ = _tall_qr(team, a.with_local(gemm(1.0, a.local, gaussian(a.shape, a.local, width, seed)), (m, width)))
    for _ in range(powers):
        back = qr(_down(team, a, q)).q
        q, _ = _tall_qr(team, a.with_local(gemm(1.0, a.local, back), (m, back.shape[1])))
    small = _down(team, a, q).mH
    w = gaussian(a.shape, a.local, probes, seed + 1)
    left = gemm(1.0, a.local, w) - gemm(1.0, q.local, gemm(1.0, small, w))
    squares = team.all_reduce(0, left.abs().square().sum(0))
    return a, q, small, norm_bound(squares.sqrt())


def _low_rank(a: Part, *, u: Part, s: Tensor, vh: Any, error: Tensor) -> LowRank:
    vh = vh if isinstance(vh, Part) else a.replicated(vh)
    return LowRank(u=u, s=a.replicated(s), vh=vh, error=a.replicated(error))  # type: ignore[arg-type]


@sharded(svd_randomized)
def _svd_randomized(
    team: Team, a: Part, k: int, oversampling: int, power_iterations: int, probes: int, seed: int
) -> LowRank:
    options = {"width": k + oversampling, "powers": power_iterations, "probes": probes, "seed": seed}
    a, q, small, error = _project("svd_randomized", team, a, **options)
    u, s, vh = svd(small, full_matrices=False)
    rows = a.with_local(gemm(1.0, q.local, u[:, :k]), (a.shape[0], k))
    return _low_rank(a, u=rows, s=s[:k], vh=vh[:k], error=error)


@sharded(eigh_randomized)
def _eigh_randomized(
    team: Team, a: Part, k: int, oversampling: int, power_iterations: int, probes: int, seed: int
) -> LowRank:
    options = {"width": k + oversampling, "powers": power_iterations, "probes": probes, "seed": seed}
    a, q, small, error = _project("eigh_randomized", team, a, **options)
    core = gemm(1.0, small, q.whole(team))
    values, vectors = eigh(0.5 * (core + core.mH))
    order = values.abs().argsort(-1, descending=True)[:k]
    rows = a.with_local(gemm(1.0, q.local, vectors[:, order]), (a.shape[0], k))
    return _low_rank(a, u=rows, s=values[order], vh=rows.transposed(conj=True), error=error)


def _matrix(op: str, team: Team, a: Part) -> Part:
    if len(a.shape) > 2:
        raise UnsupportedError(op, [("distributed", f"it takes one sharded matrix, the operand has shape {a.shape}")])
    return a.to(team, team.first(0))
