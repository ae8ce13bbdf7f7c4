"""The numeric half of a multifrontal factorisation: dense blocks, in batches, by this library's own functions.

Every group of fronts is one Cholesky or LU factorisation of pivot blocks, one or two triangular systems and one
product, which is where the work is; each of these runs where the settings of trnsolver say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm
from trnsci import NotPositiveDefinite, Singular, run
from trnsolver.arguments import first_failure, readable
from trnsolver.dense.cholesky import Cholesky
from trnsolver.dense.lu import LuFactor
from trnsolver.dense.pivots import permutation_of
from trnsolver.dense.solve_triangular import triangular
from trnsolver.sparse_direct.compressed_rows import parity
from trnsolver.sparse_direct.fronts import Analysis, Group


class CholeskyBlocks(NamedTuple):
    """Factors of a group's fronts: [B, G, P, P] lower triangular, and [B, G, Q, P] below."""

    corner: Tensor
    below: Tensor


class LuBlocks(NamedTuple):
    """Factors of a group's fronts: both triangles of the pivot block, its exchanges, what is below, what is right."""

    corner: Tensor
    order: Tensor
    sign: Tensor
    below: Tensor
    right: Tensor


def cholesky_blocks(op: str, analysis: Analysis, values: Tensor) -> list[CholeskyBlocks]:
    """Factor Hermitian positive definite matrices, their entries ``values`` [B, nnz].

    Raises:
        NotPositiveDefinite: a pivot is not positive; ``index`` is its row in ``a``.
    """
    blocks: list[CholeskyBlocks] = []
    updates = _Updates(analysis)
    for g, group in enumerate(analysis.groups):
        front, p = updates.front(group, values), group.shape[1]
        corner, info = run(Cholesky(front[..., :p, :p]))
        failed = first_failure(info)
        if failed is not None:
            (batch, member), row = failed[1], failed[0]
            index = int(analysis.order[group.pivots[member, row]])
            raise NotPositiveDefinite(op=op, index=index, batch=(batch,) if len(values) > 1 else ())
        corner = corner.tril()
        below = front[..., p:, :p]
        below = triangular(corner, below.mH, lower=True).mH if group.shape[2] else below
        if group.heirs:
            updates.keep(g, gemm(-1.0, below, below, 1.0, front[..., p:, p:], trans_b="c"))
        blocks.append(CholeskyBlocks(corner, below))
    return blocks


def lu_blocks(op: str, analysis: Analysis, values: Tensor) -> list[LuBlocks]:
    """Factor general matrices; rows are exchanged within a front only.

    Raises:
        Singular: a pivot is zero; ``index`` is its row in the order of elimination.
    """
    blocks: list[LuBlocks] = []
    updates = _Updates(analysis)
    for g, group in enumerate(analysis.groups):
        front, p = updates.front(group, values), group.shape[1]
        corner, pivots = run(LuFactor(front[..., :p, :p]))
        zero = corner.diagonal(dim1=-2, dim2=-1) == 0
        if readable(zero) and bool(zero.any()):
            batch, member, row = zero.nonzero()[0].tolist()
            index = int(analysis.order[group.pivots[member, row].clamp_max(analysis.n - 1)])
            raise Singular(
                op=op,
                index=index,
                batch=(batch,) if len(values) > 1 else (),
                hint="Rows are exchanged within a front only: method='superlu' exchanges all",
            )
        order = permutation_of(pivots, p)
        swaps = (pivots != torch.arange(1, p + 1, device=pivots.device)).sum(-1)
        rows = front[..., :p, p:].gather(-2, order.unsqueeze(-1).expand(*order.shape, front.shape[-1] - p))
        below, right = front[..., p:, :p], rows
        if group.shape[2]:
            right = triangular(corner, rows, lower=True, unit=True)
            below = triangular(corner.mT, below.mT, lower=True).mT
        if group.heirs:
            updates.keep(g, gemm(-1.0, below, right, 1.0, front[..., p:, p:]))
        blocks.append(LuBlocks(corner, order, 1 - 2 * (swaps % 2), below, right))
    return blocks


class _Updates:
    """Updates of fronts for those above them, until these have taken them."""

    def __init__(self, analysis: Analysis) -> None:
        self._kept: dict[int, Tensor] = {}
        self._left = {g: group.heirs for g, group in enumerate(analysis.groups)}

    def front(self, group: Group, values: Tensor) -> Tensor:
        """Assemble the fronts of a group, [B, G, P + Q, P + Q]."""
        count, p, q = group.shape
        batch, device = len(values), values.device
        front = values.new_zeros((batch, count * (p + q) * (p + q)))
        entries = values.index_select(1, group.source.to(device))
        if values.is_complex():
            entries = torch.where(group.swapped.to(device), entries.conj(), entries)
        front.index_copy_(1, group.target.to(device), entries)
        for below, taken, given in group.inherited:
            update = self._kept[below].reshape(batch, -1)
            front.index_add_(1, given.to(device), update.index_select(1, taken.to(device)))
            self._left[below] -= 1
            if not self._left[below]:
                del self._kept[below]
        if len(group.padding):
            # pivots that were added have the size of their front: a 1 beside entries of 1e-15 hides these from a kernel
            size, padding = front.view(batch, count, -1).abs().amax(-1), group.padding.to(device)
            size = torch.where(size > 0, size, 1.0).to(front.dtype)
            front.index_copy_(1, padding, size.index_select(1, padding // ((p + q) * (p + q))))
        return front.view(batch, count, p + q, p + q)

    def keep(self, g: int, update: Tensor) -> None:
        """Note the update of a group."""
        self._kept[g] = update


def substitute_cholesky(analysis: Analysis, blocks: list[CholeskyBlocks], b: Tensor) -> Tensor:
    """Solve for ``b`` [B, N, K], its rows in the order of elimination."""
    x = _with_spare(b)
    for group, block in zip(analysis.groups, blocks, strict=True):
        y = triangular(block.corner, _rows(x, group.pivots), lower=True)
        _store(x, group, y, block.below)
    for group, block in zip(reversed(analysis.groups), reversed(blocks), strict=True):
        y = _reduce_rows(x, group, block.below.mH)
        _put(x, group.pivots, triangular(block.corner.mH, y, lower=False))
    return x[:, : analysis.n]


def substitute_lu(analysis: Analysis, blocks: list[LuBlocks], b: Tensor, *, transposed: bool) -> Tensor:
    """Solve for ``b`` [B, N, K] with the factors, or with their transposes."""
    x = _with_spare(b)
    for group, block in zip(analysis.groups, blocks, strict=True):
        y = _rows(x, group.pivots)
        if transposed:
            _store(x, group, triangular(block.corner.mT, y, lower=True), block.right.mT)
        else:
            y = y.gather(-2, block.order.unsqueeze(-1).expand(y.shape))
            _store(x, group, triangular(block.corner, y, lower=True, unit=True), block.below)
    for group, block in zip(reversed(analysis.groups), reversed(blocks), strict=True):
        if transposed:
            y = triangular(block.corner.mT, _reduce_rows(x, group, block.below.mT), lower=False, unit=True)
            y = torch.empty_like(y).scatter_(-2, block.order.unsqueeze(-1).expand(y.shape), y)
        else:
            y = triangular(block.corner, _reduce_rows(x, group, block.right), lower=False)
        _put(x, group.pivots, y)
    return x[:, : analysis.n]


def _with_spare(b: Tensor) -> Tensor:
    """One row more, of zeros, for rows that were added to fronts."""
    return torch.cat([b, b.new_zeros((b.shape[0], 1, b.shape[2]))], 1)


def _rows(x: Tensor, rows: Tensor) -> Tensor:
    return x[:, rows.to(x.device)]  # [B, G, P, K]


def _put(x: Tensor, rows: Tensor, y: Tensor) -> None:
    x[:, rows.to(x.device)] = y


def _store(x: Tensor, group: Group, y: Tensor, below: Tensor) -> None:
    """Keep what is solved, and take its part out of the rows below."""
    _put(x, group.pivots, y)
    if group.shape[2]:
        change = gemm(1.0, below, y)
        x.index_add_(1, group.rest.reshape(-1).to(x.device), change.flatten(1, 2), alpha=-1)


def _reduce_rows(x: Tensor, group: Group, right: Tensor) -> Tensor:
    y = _rows(x, group.pivots)
    return gemm(-1.0, right, _rows(x, group.rest), 1.0, y) if group.shape[2] else y


@dataclass(frozen=True, slots=True)
class _Multifrontal:
    """Factors by fronts."""

    op: str
    analysis: Analysis
    blocks: list[Any]
    empty: Tensor

    @property
    def order(self) -> Tensor:
        """The order of elimination."""
        return self.analysis.order

    def diagonal(self) -> Tensor:
        """Return the diagonal of the factor that is not a unit triangle: L of Cholesky, U of LU."""
        diagonals = self.empty.new_zeros((len(self.empty), self.analysis.n + 1))
        for group, block in zip(self.analysis.groups, self.blocks, strict=True):
            diagonals[:, group.pivots.to(diagonals.device)] = block.corner.diagonal(dim1=-2, dim2=-1)
        return diagonals[:, : self.analysis.n]


@dataclass(frozen=True, slots=True)
class MultifrontalCholesky(_Multifrontal):
    """Cholesky factors by fronts."""

    @classmethod
    def of(cls, op: str, analysis: Analysis, values: Tensor) -> MultifrontalCholesky:
        """Factor ``values`` [B, nnz]."""
        return cls(op, analysis, cholesky_blocks(op, analysis, values), values[:, :0])

    @property
    def fill(self) -> int:
        """Entries of the factor of one matrix, without those that round fronts up."""
        return self.analysis.fill

    def refactor(self, values: Tensor) -> MultifrontalCholesky:
        """Factor other values: nothing of the pattern is computed again."""
        return MultifrontalCholesky.of(self.op, self.analysis, values)

    def solve(self, b: Tensor, trans: str) -> Tensor:
        """Solve for ``b`` [B, N, K]; the transpose of a Hermitian matrix is its conjugate."""
        order = self.analysis.order.to(b.device)
        x = substitute_cholesky(self.analysis, self.blocks, _conj(b, trans == "t")[:, order])
        return _conj(torch.empty_like(x).index_copy_(1, order, x), trans == "t")

    def slogdet(self) -> tuple[Tensor, Tensor]:
        """Return signs and logarithms of determinants."""
        diagonal = self.diagonal()
        return diagonal.new_ones(len(diagonal)), 2 * diagonal.abs().log().sum(-1)


@dataclass(frozen=True, slots=True)
class MultifrontalLU(_Multifrontal):
    """LU factors by fronts; ``rows`` is the order of rows that fills the diagonal."""

    rows: Tensor

    @classmethod
    def of(cls, op: str, analysis: Analysis, rows: Tensor, values: Tensor) -> MultifrontalLU:
        """Factor ``values`` [B, nnz]."""
        return cls(op, analysis, lu_blocks(op, analysis, values), values[:, :0], rows)

    @property
    def fill(self) -> int:
        """Entries of both factors of one matrix, without those that round fronts up."""
        return 2 * self.analysis.fill - self.analysis.n

    def refactor(self, values: Tensor) -> MultifrontalLU:
        """Factor other values: nothing of the pattern is computed again."""
        return MultifrontalLU.of(self.op, self.analysis, self.rows, values)

    def solve(self, b: Tensor, trans: str) -> Tensor:
        """Solve for ``b`` [B, N, K]."""
        order = self.analysis.order.to(b.device)
        rows = self.rows.to(b.device)[order]
        if trans == "n":
            x = substitute_lu(self.analysis, self.blocks, b[:, rows], transposed=False)
            return torch.empty_like(x).index_copy_(1, order, x)
        x = substitute_lu(self.analysis, self.blocks, _conj(b, trans == "c")[:, order], transposed=True)
        return _conj(torch.empty_like(x).index_copy_(1, rows, x), trans == "c")

    def slogdet(self) -> tuple[Tensor, Tensor]:
        """Return signs and logarithms of determinants."""
        diagonal = self.diagonal()
        sign = torch.sgn(diagonal).prod(-1) * parity(self.rows.numpy())
        for block in self.blocks:
            sign = sign * block.sign.prod(-1)
        return sign, diagonal.abs().log().sum(-1)


def _conj(x: Tensor, wanted: bool) -> Tensor:
    return x.conj().resolve_conj() if wanted and x.is_complex() else x
