"""Factorisations and solvers on sharded matrices.

Matrices come in any placement. Results, on the first axis of the mesh (copies along the others):

| op | gives |
|---|---|
| cholesky | rows of the lower factor, columns of the upper one |
| solve_spd, cholesky_solve, solve_triangular, inv_spd | columns of the solution; a vector is on every rank |
| qr | rows of ``q``; ``r`` on every rank |
| svd_randomized, eigh_randomized | rows of ``u``; the rest on every rank |
| lstsq | everything on every rank |

Batches are cut between ranks instead, and each matrix stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnblas import gemm, trsm
from trnblas.sharded import by_batch
from trnblas.sharded_triangles import solve_triangle
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.errors import NotPositiveDefinite, UnsupportedError
from trnsolver.arguments import readable
from trnsolver.cholesky import cholesky, cholesky_solve
from trnsolver.eigh import eigh
from trnsolver.lstsq import Driver, LeastSquares, lstsq, squares
from trnsolver.qr import QR, qr
from trnsolver.randomized import LowRank, eigh_randomized, gaussian, norm_bound, svd_randomized
from trnsolver.solve_triangular import solve_triangular
from trnsolver.spd import inv_spd, solve_spd
from trnsolver.svd import svd

# Rows of a block; blocks are dealt to ranks in turn, so that each has work until the end.
_BLOCK = 256


class Dealt:
    """Rows dealt to ranks block by block: block b belongs to rank ``b % ranks``."""

    def __init__(self, team: Team, n: int) -> None:
        self.ranks, self.here = team.size(0), team.here(0)
        self.block = max(1, min(_BLOCK, -(-n // (12 * self.ranks))))
        self.n, self.team = n, team
        self.blocks = [range(at, min(n, at + self.block)) for at in range(0, n, self.block)]
        self.rows = [self._rows(rank) for rank in range(self.ranks)]

    def _rows(self, rank: int) -> list[int]:
        return [row for block in self.blocks[rank :: self.ranks] for row in block]

    def below(self, rank: int, block: int) -> list[int]:
        """A rank's rows after a block."""
        return [row for row in self.rows[rank] if row >= self.blocks[block].stop]

    def deal(self, part: Part) -> Tensor:
        """Return this rank's rows, in order, of a matrix cut into contiguous rows."""
        cuts = [range(start, start + size) for start, size in chunks(self.n, self.ranks)]
        mine = cuts[self.here]
        pieces = [part.local[[row - mine.start for row in rows if row in mine]] for rows in self.rows]
        return torch.cat(self._exchange(pieces, cuts, part.shape[1], dealing=True))

    def collect(self, local: Tensor) -> Tensor:
        """The inverse of `deal`."""
        cuts = [range(start, start + size) for start, size in chunks(self.n, self.ranks)]
        own = self.rows[self.here]
        pieces = [local[[at for at, row in enumerate(own) if row in cut]] for cut in cuts]
        received = self._exchange(pieces, cuts, local.shape[1], dealing=False)
        collected = local.new_empty(len(cuts[self.here]), local.shape[1])
        for rows, piece in zip(self.rows, received, strict=True):
            places = [row - cuts[self.here].start for row in rows if row in cuts[self.here]]
            collected[places] = piece
        return collected

    def _exchange(self, pieces: Sequence[Tensor], cuts: Sequence[range], width: int, *, dealing: bool) -> list[Tensor]:
        count = [[sum(row in cut for row in rows) for rows in self.rows] for cut in cuts]
        received = [count[r][self.here] if dealing else count[self.here][r] for r in range(self.ranks)]
        return self.team.all_to_all(0, pieces, [(rows, width) for rows in received])


@sharded(cholesky)
def _cholesky(team: Team, a: Part, upper: bool) -> Part:
    if len(a.shape) > 2:
        return by_batch(team, lambda x: cholesky(x, upper=upper), a)
    # the triangle that is read is the one that is asked for
    factor = _lower_factor(team, a.transposed(conj=True) if upper else a)
    return factor.transposed(conj=True) if upper else factor


def _lower_factor(team: Team, a: Part) -> Part:
    """Right-looking, on rows dealt block by block: factor a block, solve below it, update the rest."""
    a = a.to(team, team.first(0))
    n = a.shape[0]
    deal = Dealt(team, n)
    local = deal.deal(a)
    for index, block in enumerate(deal.blocks):
        owner, width = index % deal.ranks, len(block)
        columns = slice(block.start, block.stop)
        done = len(deal.rows[deal.here]) - len(deal.below(deal.here, index))
        corner = _corner(team, local, deal, index, done)
        factor = corner[:width]
        if owner == deal.here:
            local[done - width : done, columns] = factor
        panel = trsm(1.0, factor, local[done:, columns], side=True, lower=True, trans_a="c")
        local[done:, columns] = panel
        counts = [deal.below(rank, index) for rank in range(deal.ranks)]
        pieces = team.all_gather(0, panel.contiguous(), [(len(rows), width) for rows in counts])
        whole = panel.new_empty(n - block.stop, width)
        for rows, piece in zip(counts, pieces, strict=True):
            whole[[row - block.stop for row in rows]] = piece
        at = done
        for other in range(index + 1, len(deal.blocks)):
            if other % deal.ranks != deal.here:
                continue
            until, reach = at + len(deal.blocks[other]), deal.blocks[other].stop
            target = local[at:until, block.stop : reach]
            target += gemm(-1.0, panel[at - done : until - done], whole[: reach - block.stop], trans_b="c")
            at = until
    factor = deal.collect(local)
    start = chunks(n, team.size(0))[team.here(0)][0]
    return a.with_local(torch.tril(factor, start))


def _corner(team: Team, local: Tensor, deal: Dealt, number: int, done: int) -> Tensor:
    """The factor of a diagonal block on every rank, and below it how far the factorisation came."""
    block, owner = deal.blocks[number], number % deal.ranks
    width = len(block)
    sent = None
    if owner == deal.here:
        failed = -1
        corner = local[done - width : done, block.start : block.stop]
        try:
            factor = cholesky(corner)
        except NotPositiveDefinite as error:
            failed, factor = error.index, torch.zeros_like(corner)
        status = torch.full((1, width), float(failed), dtype=local.dtype, device=local.device)
        sent = torch.cat([factor, status])
    corner = team.broadcast(0, sent, (width + 1, width), local.dtype, owner)()
    failed = -1 if corner.is_meta else int(corner[width, 0].real)
    if failed >= 0:
        raise NotPositiveDefinite(op="cholesky", index=block.start + failed)
    return corner


@sharded(solve_spd)
def _solve_spd(team: Team, a: Part, b: Part) -> Part:
    return _solved(team, solve_spd, lambda x: _with_factor(team, _lower_factor(team, a), x), a, b)


def _solved(team: Team, alone: Callable[..., Tensor], between: Callable[[Part], Part], a: Part, b: Part) -> Part:
    """Batches by the function itself, one matrix by a sharded solver of columns; vectors are columns on the way."""
    vector = len(b.shape) == 1 or b.shape == a.shape[:-1]
    if vector:
        b = b.with_local(b.local.unsqueeze(-1), (*b.shape, 1))
    one = len(a.shape) == 2 and len(b.shape) == 2
    x = between(b) if one else by_batch(team, alone, a, b)
    if vector and one:
        x = x.to(team, (None,) * len(x.places))
    return x.with_local(x.local.squeeze(-1), x.shape[:-1]) if vector else x


def _with_factor(team: Team, factor: Part, b: Part) -> Part:
    """Solve with a lower factor and its adjoint."""
    x = solve_triangle(team, 1.0, factor, b, down=True)
    return solve_triangle(team, 1.0, factor, x, down=True, kind="c")


@sharded(cholesky_solve)
def _cholesky_solve(team: Team, b: Part, factor: Part, upper: bool) -> Part:
    factor = factor.transposed(conj=True) if upper else factor
    return _solved(team, lambda f, x: cholesky_solve(x, f), lambda x: _with_factor(team, factor, x), factor, b)


@sharded(inv_spd)
def _inv_spd(team: Team, a: Part) -> Part:
    if len(a.shape) > 2:
        return by_batch(team, inv_spd, a)
    x = _with_factor(team, _lower_factor(team, a), unit_columns(team, a))
    # exactly Hermitian, as the function promises
    mirrored = x.transposed(conj=True).to(team, team.first(1)).local
    return x.with_local(0.5 * (x.local + mirrored.resolve_conj()))


def unit_columns(team: Team, a: Part) -> Part:
    """This rank's columns of the identity, like ``a``."""
    start, size = chunks(a.shape[0], team.size(0))[team.here(0)]
    local = torch.zeros((a.shape[0], size), dtype=a.dtype, device=a.local.device)
    local.diagonal(-start).fill_(1)
    return a.with_local(local, places=team.first(1))


@sharded(solve_triangular)
def _solve_triangular(team: Team, a: Part, b: Part, upper: bool, left: bool, unitriangular: bool) -> Part:
    if len(a.shape) > 2 or len(b.shape) > 2:
        flags: dict[str, Any] = {"upper": upper, "left": left, "unitriangular": unitriangular}
        return by_batch(team, lambda x, y: solve_triangular(x, y, **flags), a, b)
    if left:
        return solve_triangle(team, 1.0, a, b, down=not upper, unit=unitriangular)
    return solve_triangle(team, 1.0, a, b.transposed(), down=not upper, kind="t", unit=unitriangular).transposed()


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


@sharded(qr)
def _qr(team: Team, a: Part, mode: str) -> QR:
    if mode != "reduced":
        raise UnsupportedError("qr", [("distributed", f"the sharded factorisation is reduced, mode is {mode!r}")])
    if len(a.shape) > 2:
        return by_batch(team, qr, a)
    q, r = _tall_qr(team, a.to(team, team.first(0)))
    return QR(q, a.replicated(r))  # type: ignore[arg-type]


def _tall_qr(team: Team, a: Part) -> tuple[Part, Tensor]:
    """TSQR: each rank's rows give a small triangle, the triangles together give ``r``."""
    m, n = a.shape
    q, r = qr(a.local)
    cuts = chunks(m, team.size(0))
    heights = [min(size, n) for _, size in cuts]
    stacked = torch.cat(team.all_gather(0, r.contiguous(), [(height, n) for height in heights]))
    outer, r = qr(stacked)
    start = sum(heights[: team.here(0)])
    local = gemm(1.0, q, outer[start : start + heights[team.here(0)]])
    return a.with_local(local, (m, outer.shape[1]), team.first(0)), r


def _down(team: Team, a: Part, q: Part) -> Tensor:
    """``a.mH @ q`` on every rank."""
    return team.all_reduce(0, gemm(1.0, a.local, q.local, trans_a="c"))


def _range(team: Team, a: Part, width: int, powers: int, seed: int) -> Part:
    q, _ = _tall_qr(
        team, a.with_local(gemm(1.0, a.local, gaussian(a.shape, a.local, width, seed)), (a.shape[0], width))
    )
    for _ in range(powers):
        back = qr(_down(team, a, q)).q
        q, _ = _tall_qr(team, a.with_local(gemm(1.0, a.local, back), (a.shape[0], back.shape[1])))
    return q


def _missed(team: Team, a: Part, q: Part, small: Tensor, *, probes: int, seed: int) -> Tensor:
    w = gaussian(a.shape, a.local, probes, seed + 1)
    left = gemm(1.0, a.local, w) - gemm(1.0, q.local, gemm(1.0, small, w))
    squares = team.all_reduce(0, left.abs().square().sum(0))
    return norm_bound(squares.sqrt())


def _low_rank(team: Team, a: Part, *, u: Part, s: Tensor, vh: Any, error: Tensor) -> LowRank:
    vh = vh if isinstance(vh, Part) else a.replicated(vh)
    return LowRank(u=u, s=a.replicated(s), vh=vh, error=a.replicated(error))  # type: ignore[arg-type]


@sharded(svd_randomized)
def _svd_randomized(
    team: Team, a: Part, k: int, oversampling: int, power_iterations: int, probes: int, seed: int
) -> LowRank:
    a = _matrix("svd_randomized", team, a)
    q = _range(team, a, min(*a.shape, k + oversampling), power_iterations, seed)
    small = _down(team, a, q).mH
    u, s, vh = svd(small, full_matrices=False)
    rows = a.with_local(gemm(1.0, q.local, u[:, :k]), (a.shape[0], k))
    return _low_rank(team, a, u=rows, s=s[:k], vh=vh[:k], error=_missed(team, a, q, small, probes=probes, seed=seed))


@sharded(eigh_randomized)
def _eigh_randomized(
    team: Team, a: Part, k: int, oversampling: int, power_iterations: int, probes: int, seed: int
) -> LowRank:
    a = _matrix("eigh_randomized", team, a)
    q = _range(team, a, min(*a.shape, k + oversampling), power_iterations, seed)
    small = _down(team, a, q).mH
    core = gemm(1.0, small, q.whole(team))
    values, vectors = eigh(0.5 * (core + core.mH))
    order = values.abs().argsort(-1, descending=True)[:k]
    rows = a.with_local(gemm(1.0, q.local, vectors[:, order]), (a.shape[0], k))
    error = _missed(team, a, q, small, probes=probes, seed=seed)
    return _low_rank(team, a, u=rows, s=values[order], vh=rows.transposed(conj=True), error=error)


def _matrix(op: str, team: Team, a: Part) -> Part:
    if len(a.shape) > 2:
        raise UnsupportedError(op, [("distributed", f"it takes one sharded matrix, the operand has shape {a.shape}")])
    return a.to(team, team.first(0))
