"""Cholesky factors of sharded matrices, and what they and other triangles solve.

Matrices come in any placement. Results, on the first axis of the mesh (copies along the others):

| op | gives |
|---|---|
| cholesky | rows of the lower factor, columns of the upper one; on a grid columns or rows of it are cut as well |
| solve_spd, cholesky_solve, solve_triangular, inv_spd | columns of the solution; a vector is on every rank |

Batches are cut between ranks instead, and each matrix stays whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from trnblas import gemm, trsm
from trnblas.sharded_triangles import solve_triangle
from trnsci.distributed import Part, Team, chunks, sharded
from trnsci.distributed.parts import Places
from trnsci.distributed.rules import by_batch
from trnsci.distributed.team import Wait
from trnsci.errors import NotPositiveDefinite
from trnsolver.dense.cholesky import cholesky, cholesky_solve
from trnsolver.dense.solve_triangular import solve_triangular
from trnsolver.dense.spd import inv_spd, solve_spd

# Rows of a block, at most; blocks are dealt to ranks in turn, eight to each where there are as many rows, so that all
# have work until the end.
_BLOCK, _EACH = 1024, 8
# Strips in which the rest of a triangle is updated: above its diagonal a strip computes what is not needed.
_STRIPS = 4


class Dealt:
    """Rows dealt to the ranks along an axis of the mesh block by block: block b belongs to rank ``b % ranks``.

    Without an axis this rank has all of them.
    """

    def __init__(self, team: Team, n: int, axis: int | None, block: int) -> None:
        self.team, self.axis, self.n, self.block = team, axis, n, block
        self.ranks, self.here = (1, 0) if axis is None else (team.size(axis), team.here(axis))
        rows = torch.arange(n, device="cpu")
        self.owner, self.cut = rows // block % self.ranks, rows // max(1, -(-n // self.ranks))
        self.mine = rows[self.owner == self.here]

    def before(self, block: int) -> int:
        """Return how many of this rank's rows lie before a block."""
        return min(len(self.mine), self.block * len(range(self.here, block, self.ranks)))

    def deal(self, local: Tensor) -> Tensor:
        """Return this rank's rows, in order, of a matrix cut into contiguous rows."""
        owners = self.owner[self.cut == self.here]
        pieces = [local.index_select(0, _indices(owners == rank, local)) for rank in range(self.ranks)]
        return torch.cat(self._exchange(pieces, self.cut[self.mine], local.shape[1]))

    def collect(self, local: Tensor) -> Tensor:
        """Invert `deal`."""
        owners, counts = self.owner[self.cut == self.here], self.cut[self.mine].bincount(minlength=self.ranks)
        received = self._exchange(list(local.split(counts.tolist())), owners, local.shape[1])
        order = torch.cat([(owners == rank).nonzero()[:, 0] for rank in range(self.ranks)]).argsort()
        return torch.cat(received).index_select(0, order.to(local.device))

    def _exchange(self, pieces: Sequence[Tensor], sources: Tensor, width: int) -> list[Tensor]:
        if self.axis is None:
            return list(pieces)
        counts = sources.bincount(minlength=self.ranks).tolist()
        return self.team.all_to_all(self.axis, [x.contiguous() for x in pieces], [(rows, width) for rows in counts])


def _indices(kept: Tensor, like: Tensor) -> Tensor:
    return kept.nonzero()[:, 0].to(like.device)


def deal_grid(team: Team, a: Part) -> tuple[Dealt, Dealt, Tensor]:
    """Return how rows and columns are dealt to the first two axes of the mesh, and what this rank has of a matrix."""
    across = 1 if len(team.shape) > 1 else None
    most = max(team.size(0), 1 if across is None else team.size(1))
    block = max(1, min(_BLOCK, -(-a.shape[0] // (_EACH * most))))
    rows, columns = (Dealt(team, a.shape[0], axis, block) for axis in (0, across))
    local = rows.deal(a.to(team, grid_places(team)).local)
    return rows, columns, columns.deal(local.mT.contiguous()).mT.contiguous()


def collect_grid(rows: Dealt, columns: Dealt, local: Tensor) -> Tensor:
    """Invert `deal_grid`, up to the placement."""
    return rows.collect(columns.collect(local.mT.contiguous()).mT.contiguous())


def grid_places(team: Team) -> Places:
    """Return the placement that cuts rows along the first axis of the mesh and columns along the second."""
    return (0, 1, None)[: len(team.shape)] + (None,) * (len(team.shape) - 3)


@sharded(cholesky, batch={"a": 2})
def _cholesky(team: Team, a: Part, upper: bool) -> Part:
    # the triangle that is read is the one that is asked for
    factor = _lower_factor(team, a.transposed(conj=True) if upper else a)
    return factor.transposed(conj=True) if upper else factor


def _lower_factor(team: Team, a: Part) -> Part:
    """Factor right-looking, on blocks dealt to a grid; the next panel travels while this one updates the rest."""
    rows, columns, local = deal_grid(team, a)
    blocks = -(-a.shape[0] // rows.block)
    following = _Panel(team, rows, columns, local, 0) if blocks else None
    while following is not None:
        panel, following = following, None
        panel.receive()
        ahead, end = columns.before(panel.index + 2), len(columns.mine)
        if panel.index + 1 < blocks:
            panel.update(panel.at, ahead)
            following = _Panel(team, rows, columns, local, panel.index + 1)
        step = max(1, -(-(end - ahead) // _STRIPS))
        for start in range(ahead, end, step):
            panel.update(start, min(start + step, end))
            if following is not None:
                following.pass_on()
    factor = a.with_local(collect_grid(rows, columns, local), places=grid_places(team))
    starts = factor.layout.starts(team.coordinate)
    return factor.with_local(torch.tril(factor.local, starts[0] - starts[1]))


class _Panel:
    """A block of columns: its owners factor it, and it travels along the rows of the grid.

    Attributes:
        index: of the block.
        at: how many of this rank's columns are done with it.
        left: the factor's rows below the block that are this rank's.
        right: those that are this rank's columns.
    """

    def __init__(self, team: Team, rows: Dealt, columns: Dealt, local: Tensor, index: int) -> None:
        self.team, self.rows, self.columns, self.local, self.index = team, rows, columns, local, index
        self.top, self.at = rows.before(index + 1), columns.before(index + 1)
        self.width = width = min(rows.block, rows.n - index * rows.block)
        row, column = index % rows.ranks, index % columns.ranks
        own, panel = columns.here == column, None
        block = slice(self.at - width, self.at)
        corner = local.new_zeros((width + 1, width)) if rows.here == row else None
        if own and rows.here == row:
            corner = _factor_corner(local[self.top - width : self.top, block])
        # ranks of other columns take part in a message without content, so that all count the same ones
        corner = team.broadcast(0, corner, (width + 1, width), local.dtype, row)()
        if own:
            if rows.here == row:
                local[self.top - width : self.top, block] = corner[:width]
            if _failure(corner) < 0:
                below = local[self.top :, block]
                local[self.top :, block] = trsm(1.0, corner[:width], below, side=True, lower=True, trans_a="c")
            panel = torch.cat([local[self.top :, block], corner[width:]])
        shape = (len(rows.mine) - self.top + 1, width)
        self._coming: Wait | None = Wait(lambda: panel)
        if columns.axis is not None:
            self._coming = team.broadcast(columns.axis, panel, shape, local.dtype, column)
        self._pieces: list[Wait] = []

    def pass_on(self) -> None:
        """Wait for the panel, and start exchanging the rows of it that are columns of another rank's update."""
        if self._coming is None:
            return
        panel, self._coming = self._coming(), None
        if (failed := _failure(panel)) >= 0:
            raise NotPositiveDefinite(op="cholesky", index=self.index * self.rows.block + failed)
        self.left = panel[:-1]
        owners, offered = self.rows.owner[self.columns.mine[self.at :]], self.rows.mine[self.top :]
        mine = self.left.index_select(0, _indices(self.columns.owner[offered] == self.columns.here, self.left))
        # ranks of the grid's column that have some of these rows
        common = math.gcd(self.rows.ranks, self.columns.ranks)
        sources = range(self.columns.here % common, self.rows.ranks, common)
        order = [(owners == rank).nonzero()[:, 0] for rank in sources]
        shapes = [(len(at), self.width) for at in order]
        self._order = torch.cat(order).argsort().to(mine.device)
        if common == 1:
            self._pieces = [self.team.start_all_gather(0, mine, shapes)]
        else:
            each = zip(sources, shapes, strict=True)
            self._pieces = [self.team.broadcast(0, mine, shape, mine.dtype, rank) for rank, shape in each]

    def receive(self) -> None:
        """Wait for everything that the update needs."""
        self.pass_on()
        arrived = [wait() for wait in self._pieces]
        pieces = arrived[0] if isinstance(arrived[0], list) else arrived
        self.right = torch.cat(pieces).index_select(0, self._order) if len(pieces) > 1 else pieces[0]

    def update(self, start: int, stop: int) -> None:
        """Subtract the panel's share from some of this rank's columns, from the diagonal of the first of them on."""
        if start < stop:
            first = int(torch.searchsorted(self.rows.mine, self.columns.mine[start]))
            target = self.local[first:, start:stop]
            left, right = self.left[first - self.top :], self.right[start - self.at : stop - self.at]
            target.copy_(gemm(-1.0, left, right, 1.0, target, trans_b="c"))


def _factor_corner(corner: Tensor) -> Tensor:
    """Return the factor of a diagonal block, and below it how far the factorisation came."""
    failed = -1
    try:
        factor = cholesky(corner)
    except NotPositiveDefinite as error:
        failed, factor = error.index, torch.zeros_like(corner)
    return torch.cat([factor, torch.full_like(corner[:1], float(failed))])


def _failure(panel: Tensor) -> int:
    return -1 if panel.is_meta else int(panel[-1, 0].real)


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
