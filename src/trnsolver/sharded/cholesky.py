"""Cholesky factors of sharded matrices, and what they and other triangles solve.

Matrices come in any placement. Results, on the first axis of the mesh (copies along the others):

| op | gives |
|---|---|
| cholesky | rows of the lower factor, columns of the upper one |
| solve_spd, cholesky_solve, solve_triangular, inv_spd | columns of the solution; a vector is on every rank |

Batches are cut between ranks instead, and each matrix stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from trnblas import gemm, trsm
from trnblas.sharded_triangles import solve_triangle
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.distributed.rules import by_batch
from trnsci.errors import NotPositiveDefinite
from trnsolver.dense.cholesky import cholesky, cholesky_solve
from trnsolver.dense.solve_triangular import solve_triangular
from trnsolver.dense.spd import inv_spd, solve_spd

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
        """Return a rank's rows after a block."""
        return [row for row in self.rows[rank] if row >= self.blocks[block].stop]

    def deal(self, part: Part) -> Tensor:
        """Return this rank's rows, in order, of a matrix cut into contiguous rows."""
        cuts = [range(start, start + size) for start, size in chunks(self.n, self.ranks)]
        mine = cuts[self.here]
        pieces = [part.local[[row - mine.start for row in rows if row in mine]] for rows in self.rows]
        return torch.cat(self._exchange(pieces, cuts, part.shape[1], dealing=True))

    def collect(self, local: Tensor) -> Tensor:
        """Return the inverse of `deal`."""
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


@sharded(cholesky, batch={"a": 2})
def _cholesky(team: Team, a: Part, upper: bool) -> Part:
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
    """Return the factor of a diagonal block on every rank, and below it how far the factorisation came."""
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
    return solve_columns(team, solve_spd, lambda x: _with_factor(team, _lower_factor(team, a), x), a, b)


def solve_columns(team: Team, alone: Callable[..., Tensor], between: Callable[[Part], Part], a: Part, b: Part) -> Part:
    """Solve batches by the function itself, one matrix by a sharded solver of columns, vectors as columns."""
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
    return solve_columns(team, lambda f, x: cholesky_solve(x, f), lambda x: _with_factor(team, factor, x), factor, b)


@sharded(inv_spd, batch={"a": 2})
def _inv_spd(team: Team, a: Part) -> Part:
    x = _with_factor(team, _lower_factor(team, a), unit_columns(team, a))
    # exactly Hermitian, as the function promises
    mirrored = x.transposed(conj=True).to(team, team.first(1)).local
    return x.with_local(0.5 * (x.local + mirrored.resolve_conj()))


def unit_columns(team: Team, a: Part) -> Part:
    """Return this rank's columns of the identity, like ``a``."""
    start, size = chunks(a.shape[0], team.size(0))[team.here(0)]
    local = torch.zeros((a.shape[0], size), dtype=a.dtype, device=a.local.device)
    local.diagonal(-start).fill_(1)
    return a.with_local(local, places=team.first(1))


@sharded(solve_triangular, batch={"a": 2, "b": 2})
def _solve_triangular(team: Team, a: Part, b: Part, upper: bool, left: bool, unitriangular: bool) -> Part:
    if left:
        return solve_triangle(team, 1.0, a, b, down=not upper, unit=unitriangular)
    return solve_triangle(team, 1.0, a, b.transposed(), down=not upper, kind="t", unit=unitriangular).transposed()
