"""Factorisations and solvers on spread matrices: cholesky, solve_spd, qr, svd_randomized, eigh_randomized, cg.

Matrices come in any placement. Results, on the first axis of the mesh (copies along the others):

| op | gives |
|---|---|
| cholesky | rows of the lower factor, columns of the upper one |
| solve_spd | columns of the solution; a vector is on every rank |
| qr | rows of ``q``; ``r`` on every rank |
| svd_randomized, eigh_randomized | rows of ``u``; the rest on every rank |
| cg | rows of the solution |

Batches are cut between ranks instead, and each matrix stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnblas import gemm, trsm
from trnblas.sharded import solve_triangle
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.errors import NotPositiveDefinite, UnsupportedError
from trnsolver.arguments import right_hand_side, square
from trnsolver.cg import cg
from trnsolver.cholesky import cholesky
from trnsolver.eigh import eigh
from trnsolver.operators import Result
from trnsolver.qr import QR, qr
from trnsolver.randomized import LowRank, eigh_randomized, gaussian, norm_bound, svd_randomized
from trnsolver.spd import solve_spd
from trnsolver.svd import svd

# Rows of a block; blocks are dealt to ranks in turn, so that each has work until the end.
_BLOCK = 256


def _by_batch(team: Team, fn: Callable[..., Any], *parts: Part) -> Any:
    """Cut the first batch axis and leave every matrix whole."""
    local = fn(*(part.to(team, team.first(0)).local for part in parts))
    places = team.first(0)

    def whole(made: Tensor) -> Part:
        return parts[0].with_local(made, (parts[0].shape[0], *made.shape[1:]), places)

    if isinstance(local, Tensor):
        return whole(local)
    return type(local)(*map(whole, local))


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
        made = local.new_empty(len(cuts[self.here]), local.shape[1])
        for rows, piece in zip(self.rows, received, strict=True):
            places = [row - cuts[self.here].start for row in rows if row in cuts[self.here]]
            made[places] = piece
        return made

    def _exchange(self, pieces: Sequence[Tensor], cuts: Sequence[range], width: int, *, dealing: bool) -> list[Tensor]:
        count = [[sum(row in cut for row in rows) for rows in self.rows] for cut in cuts]
        received = [count[r][self.here] if dealing else count[self.here][r] for r in range(self.ranks)]
        return self.team.all_to_all(0, pieces, [(rows, width) for rows in received])


@sharded(cholesky)
def _cholesky(team: Team, a: Part, upper: bool) -> Part:
    if len(a.shape) > 2:
        return _by_batch(team, lambda x: cholesky(x, upper=upper), a)
    # the triangle that is read is the one that is asked for
    factor = _lower_factor(team, a.transposed(conj=True) if upper else a)
    return factor.transposed(conj=True) if upper else factor


def _lower_factor(team: Team, a: Part) -> Part:
    """Right-looking, on rows dealt block by block: factor a block, solve below it, update the rest."""
    a = a.to(team, team.first(0))
    n = a.shape[0]
    deal = Dealt(team, n)
    local = deal.deal(a)
    for number, block in enumerate(deal.blocks):
        owner, width = number % deal.ranks, len(block)
        columns = slice(block.start, block.stop)
        done = len(deal.rows[deal.here]) - len(deal.below(deal.here, number))
        corner = _corner(team, local, deal, number, done)
        factor = corner[:width]
        if owner == deal.here:
            local[done - width : done, columns] = factor
        panel = trsm(1.0, factor, local[done:, columns], side=True, lower=True, trans_a="c")
        local[done:, columns] = panel
        counts = [deal.below(rank, number) for rank in range(deal.ranks)]
        pieces = team.all_gather(0, panel.contiguous(), [(len(rows), width) for rows in counts])
        whole = panel.new_empty(n - block.stop, width)
        for rows, piece in zip(counts, pieces, strict=True):
            whole[[row - block.stop for row in rows]] = piece
        at = done
        for other in range(number + 1, len(deal.blocks)):
            if other % deal.ranks != deal.here:
                continue
            until, reach = at + len(deal.blocks[other]), deal.blocks[other].stop
            target = local[at:until, block.stop : reach]
            target += gemm(-1.0, panel[at - done : until - done], whole[: reach - block.stop], trans_b="c")
            at = until
    made = deal.collect(local)
    start = chunks(n, team.size(0))[team.here(0)][0]
    return a.with_local(torch.tril(made, start))


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
    if len(a.shape) > 2:
        return _by_batch(team, solve_spd, a, b)
    vector = len(b.shape) == 1
    if vector:
        whole = b.whole(team)
        b = b.with_local(whole[:, None], (*b.shape, 1), (None,) * len(b.places))
    factor = _lower_factor(team, a)
    x = solve_triangle(team, 1.0, factor, b, True, "n", False, {})
    x = solve_triangle(team, 1.0, factor, x, True, "c", False, {})
    if vector:
        return x.with_local(x.whole(team)[:, 0], (x.shape[0],), (None,) * len(b.places))
    return x


@sharded(qr)
def _qr(team: Team, a: Part, mode: str) -> QR:
    if mode != "reduced":
        raise UnsupportedError(
            op="qr", reasons=[("distributed", f"the sharded factorisation is reduced, mode is {mode!r}")]
        )
    if len(a.shape) > 2:
        return _by_batch(team, qr, a)
    q, r = _tall_qr(team, a.to(team, team.first(0)))
    copies = a.with_local(r, tuple(r.shape), (None,) * len(a.places))
    return QR(q, copies)  # type: ignore[arg-type]


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


def _missed(team: Team, a: Part, q: Part, small: Tensor, probes: int, seed: int) -> Tensor:
    w = gaussian(a.shape, a.local, probes, seed + 1)
    left = gemm(1.0, a.local, w) - gemm(1.0, q.local, gemm(1.0, small, w))
    squares = team.all_reduce(0, left.abs().square().sum(0))
    return norm_bound(squares.sqrt())


def _low_rank(team: Team, a: Part, u: Part, s: Tensor, vh: Any, error: Tensor) -> LowRank:
    def copies(x: Tensor) -> Part:
        return a.with_local(x, tuple(x.shape), (None,) * len(a.places))

    vh = vh if isinstance(vh, Part) else copies(vh)
    return LowRank(u=u, s=copies(s), vh=vh, error=copies(error))  # type: ignore[arg-type]


@sharded(svd_randomized)
def _svd_randomized(
    team: Team, a: Part, k: int, oversampling: int, power_iterations: int, probes: int, seed: int
) -> LowRank:
    a = _matrix("svd_randomized", team, a)
    q = _range(team, a, min(*a.shape, k + oversampling), power_iterations, seed)
    small = _down(team, a, q).mH
    u, s, vh = svd(small, full_matrices=False)
    rows = a.with_local(gemm(1.0, q.local, u[:, :k]), (a.shape[0], k))
    return _low_rank(team, a, rows, s[:k], vh[:k], _missed(team, a, q, small, probes, seed))


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
    error = _missed(team, a, q, small, probes, seed)
    return _low_rank(team, a, rows, values[order], rows.transposed(conj=True), error)


def _matrix(op: str, team: Team, a: Part) -> Part:
    if len(a.shape) > 2:
        raise UnsupportedError(
            op=op, reasons=[("distributed", f"it takes one spread matrix, the operand has shape {a.shape}")]
        )
    return a.to(team, team.first(0))


def _check_cg(a: Tensor, b: Tensor, **options: Any) -> None:
    """Shapes and dtypes; values steer everything else."""
    square("cg", look=False, a=a)
    right_hand_side("cg", a, b)


@sharded(cg, check=_check_cg)
def _cg(
    team: Team, a: Part, b: Part, x0: Part | None, tol: float, maxiter: int | None, preconditioner: Any, callback: Any
) -> Result:
    """Each rank keeps its rows of everything; a step gathers the direction and adds three numbers per column."""
    a = a.to(team, team.first(0))
    vector = len(b.shape) == 1
    rows = b.to(team, team.first(0))
    right = rows.local[:, None] if vector else rows.local
    sizes = [size for _, size in chunks(a.shape[0], team.size(0))]

    def apply(x: Tensor) -> Tensor:
        pieces = team.all_gather(0, x.contiguous(), [(size, x.shape[1]) for size in sizes])
        return gemm(1.0, a.local, torch.cat(pieces))

    def inner(x: Tensor, y: Tensor) -> Tensor:
        return team.all_reduce(0, (x.conj() * y).sum(0))

    if x0 is None:
        x = torch.zeros_like(right)
    else:
        start = x0.to(team, team.first(0)).local
        x = (start[:, None] if vector else start).clone()
    scale = inner(right, right).real.sqrt()
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    limit = 10 * a.shape[0] if maxiter is None else maxiter
    r = right - apply(x)
    z = r if preconditioner is None else preconditioner(r)
    d, rz = z, inner(r, z)
    history: list[float] = []

    def converged() -> bool:
        if r.is_meta:
            # a plan counts one step: data decides how many there are
            history.append(0.0 if history else 2 * tol)
            return len(history) > 1
        history.append(float((inner(r, r).real.sqrt() / scale).amax()) if r.shape[1] else 0.0)
        if callback is not None:
            callback(len(history) - 1, history[-1])
        return history[-1] <= tol

    done = converged()
    while not done and len(history) <= limit:
        q = apply(d)
        bottom = inner(d, q)
        alpha = torch.where(bottom == 0, torch.zeros_like(bottom), rz / bottom)
        x, r = x + alpha * d, r - alpha * q
        done = converged()
        z = r if preconditioner is None else preconditioner(r)
        before, rz = rz, inner(r, z)
        d = z + torch.where(before == 0, torch.zeros_like(before), rz / before) * d
    found = rows.with_local(x[:, 0] if vector else x)
    return Result(
        x=found,  # type: ignore[arg-type]
        converged=done,
        iterations=len(history) - 1,
        residuals=tuple(history),
        op="cg",
    )
