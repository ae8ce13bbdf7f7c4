"""QR of sparse matrices, multifrontal: reflections of dense fronts along the column elimination tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from trnblas import gemm
from trnsci import Singular, UnsupportedError, run
from trnsolver.arguments import readable, roundoff
from trnsolver.dense.householder import Geqrf, Ormqr
from trnsolver.dense.solve_triangular import triangular
from trnsolver.sparse_direct.compressed_rows import Compressed, Index
from trnsolver.sparse_direct.fronts import Supernodes, supernodes


@dataclass(frozen=True, slots=True)
class Front:
    """A supernode: ``width`` columns from ``start``, further ``columns``, rows that begin in it, supernodes below."""

    start: int
    width: int
    columns: Tensor
    rows: Tensor
    source: Tensor
    target: Tensor
    below: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fronts:
    """Fronts, as the pattern decides them."""

    shape: tuple[int, int]
    order: Tensor
    fronts: tuple[Front, ...]
    local: tuple[Tensor, ...]
    fill: int


def analyse_qr(a: Compressed, order: Index) -> Fronts:
    """Plan the QR factorisation of ``a[:, order]``: the pattern of R is that of the Cholesky factor of ``a.T @ a``."""
    m, n = a.shape
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    pattern = sp.csr_array((np.ones(len(a.indices)), place[a.indices], a.indptr), shape=a.shape)
    gram = sp.coo_array(sp.csr_array(pattern.T) @ pattern)
    nodes = supernodes(n, gram.row.astype(np.int64), gram.col.astype(np.int64))
    order = order[np.argsort(nodes.relabel)]
    column = nodes.relabel[place[a.indices]]
    leading = np.full(m, n)
    np.minimum.at(leading, a.rows, column)
    owner = np.repeat(np.arange(len(nodes.starts)), np.diff([*nodes.starts, n]))
    return _fronts(a, order, nodes, column=column, leading=leading, owner=owner)


def _fronts(a: Compressed, order: Index, nodes: Supernodes, *, column: Index, leading: Index, owner: Index) -> Fronts:
    m, n = a.shape
    home = np.where(leading < n, owner[np.minimum(leading, n - 1)], len(nodes.starts)) if n else np.zeros(m, np.int64)
    by = np.argsort(home, kind="stable")
    bounds = np.searchsorted(home[by], np.arange(len(nodes.starts) + 1))
    below: list[list[int]] = [[] for _ in nodes.starts]
    local: list[Tensor] = []
    for s, above in enumerate(nodes.heir.tolist()):
        rows = nodes.structures[s]
        if above >= 0:
            below[above].append(s)
            start, end = nodes.starts[above], nodes.ends[above]
            inside = np.where(rows < end, rows - start, end - start + np.searchsorted(nodes.structures[above], rows))
            local.append(torch.from_numpy(inside))
        else:
            local.append(torch.empty(0, dtype=torch.int64, device="cpu"))
    fronts, fill = [], 0
    for s, (start, end) in enumerate(zip(nodes.starts, nodes.ends, strict=True)):
        rows, wide = by[bounds[s] : bounds[s + 1]], nodes.structures[s]
        counts = a.indptr[rows + 1] - a.indptr[rows]
        source = np.concatenate([np.arange(a.indptr[r], a.indptr[r + 1]) for r in rows] or [np.zeros(0, np.int64)])
        where = column[source]
        where = np.where(where < end, where - start, end - start + np.searchsorted(wide, where))
        target = np.repeat(np.arange(len(rows)), counts) * (end - start + len(wide)) + where
        parts = [torch.from_numpy(np.asarray(part)) for part in (wide, rows, source, target)]
        fronts.append(Front(start, end - start, parts[0], parts[1], parts[2], parts[3], tuple(below[s])))
        fill += (end - start) * (end - start + 1) // 2 + (end - start) * len(wide)
    return Fronts((m, n), torch.from_numpy(order.copy()), tuple(fronts), tuple(local), fill)


@dataclass(frozen=True, slots=True)
class SparseQR:
    """R by supernodes, and Q as the reflections of every front."""

    op: str
    plan: Fronts
    reflections: tuple[tuple[Tensor, Tensor], ...]
    triangle: tuple[tuple[Tensor, Tensor], ...]
    empty: Tensor

    @classmethod
    def of(cls, op: str, plan: Fronts, values: Tensor) -> SparseQR:
        """Factor ``values`` [B, nnz]."""
        reflections, triangle = [], []
        left: dict[int, Tensor] = {}
        batch = len(values)
        for s, front in enumerate(plan.fronts):
            wide = front.width + len(front.columns)
            own = values.new_zeros((batch, len(front.rows) * wide))
            target, source = front.target.to(own.device), front.source.to(own.device)
            own.index_copy_(1, target, values.index_select(1, source))
            parts = [own.view(batch, len(front.rows), wide)]
            for child in front.below:
                rest = left.pop(child)
                part = rest.new_zeros((*rest.shape[:-1], wide))
                parts.append(part.index_copy_(-1, plan.local[child].to(part.device), rest))
            stacked = torch.cat(parts, -2) if len(parts) > 1 else parts[0]
            factors, tau = run(Geqrf(stacked)) if stacked.numel() else (stacked, stacked.new_zeros((batch, 0)))
            r = factors[..., :wide, :].triu()
            if r.shape[-2] < front.width:
                r = torch.cat([r, r.new_zeros((batch, front.width - r.shape[-2], wide))], -2)
            reflections.append((factors, tau))
            triangle.append((r[..., : front.width, : front.width], r[..., : front.width, front.width :]))
            left[s] = r[..., front.width :, front.width :]
        return cls(op, plan, tuple(reflections), tuple(triangle), values[:, :0])

    @property
    def fill(self) -> int:
        """Entries of R."""
        return self.plan.fill

    @property
    def order(self) -> Tensor:
        """The order of elimination."""
        return self.plan.order

    def refactor(self, values: Tensor) -> SparseQR:
        """Factor other values of the same pattern."""
        return SparseQR.of(self.op, self.plan, values)

    def diagonal(self) -> Tensor:
        """Return the diagonal of R."""
        return torch.cat([self.empty, *(corner.diagonal(dim1=-2, dim2=-1) for corner, _ in self.triangle)], -1)

    def slogdet(self) -> tuple[Tensor, Tensor]:
        """Refuse: reflections leave the sign open."""
        reason = "reflections do not give the sign of a determinant"
        raise UnsupportedError(f"{self.op}.slogdet", [("qr", reason)], hint="Use kind='lu'")

    def solve(self, b: Tensor, trans: str) -> Tensor:
        """Least squares for ``b`` [B, M, K]; the shortest solution of the transposed system for ``b`` [B, N, K]."""
        self._full_rank()
        if trans == "n":
            return self._back(self._rotate_rows(b))
        x = self._scatter_rows(self._forward(b.conj().resolve_conj() if trans == "t" else b))
        return x.conj().resolve_conj() if trans == "t" else x

    def _full_rank(self) -> None:
        size = self.diagonal().abs()
        small = size <= max(self.plan.shape) * roundoff(size.dtype) * size.amax(-1, keepdim=True)
        if self.plan.shape[1] and readable(small) and bool(small.any()):
            batch, column = small.nonzero()[0].tolist()
            index = int(self.plan.order[column])
            raise Singular(
                op=self.op,
                index=index,
                batch=(batch,) if len(size) > 1 else (),
                message=f"column {index} depends on others to working precision",
                hint="lsqr and lsmr give the shortest of several solutions",
            )

    def _rotate_rows(self, b: Tensor) -> list[Tensor]:
        """Return the rows of ``q.mH @ b`` that belong to each supernode."""
        tops: list[Tensor] = []
        left: dict[int, Tensor] = {}
        for s, (front, (factors, tau)) in enumerate(zip(self.plan.fronts, self.reflections, strict=True)):
            c = torch.cat([b[:, front.rows], *(left.pop(child) for child in front.below)], -2)
            if tau.shape[-1] and c.numel():
                c = run(Ormqr(factors, tau, c, left=True, transpose=True))
            tops.append(c[:, : front.width])
            left[s] = c[:, front.width : front.width + len(front.columns)]
        return tops

    def _scatter_rows(self, tops: list[Tensor]) -> Tensor:
        """Multiply ``q`` with the rows of each supernode: the inverse of `_rotate_rows`."""
        x = tops[0].new_zeros((len(tops[0]), self.plan.shape[0], tops[0].shape[-1]))
        left: dict[int, Tensor] = {}
        for s in range(len(tops) - 1, -1, -1):
            front, (factors, tau) = self.plan.fronts[s], self.reflections[s]
            rows = factors.shape[-2]
            c = x.new_zeros((len(x), rows, x.shape[-1]))
            c[:, : front.width] = tops[s]
            passed = left.pop(s, c[:, :0])
            c[:, front.width : front.width + passed.shape[1]] = passed
            if tau.shape[-1] and c.numel():
                c = run(Ormqr(factors, tau, c, left=True, transpose=False))
            at = len(front.rows)
            x[:, front.rows] = c[:, :at]
            for child in front.below:
                height = self._count_passed_rows(child)
                left[child] = c[:, at : at + height]
                at += height
        return x

    def _count_passed_rows(self, child: int) -> int:
        """Count the rows that a supernode leaves to the one above."""
        front, (factors, _) = self.plan.fronts[child], self.reflections[child]
        return max(0, min(factors.shape[-2], front.width + len(front.columns)) - front.width)

    def _back(self, tops: list[Tensor]) -> Tensor:
        n = self.plan.shape[1]
        x = tops[0].new_zeros((len(tops[0]), n, tops[0].shape[-1]))
        for front, (corner, right), top in zip(
            reversed(self.plan.fronts), reversed(self.triangle), reversed(tops), strict=True
        ):
            known = gemm(-1.0, right, x[:, front.columns], 1.0, top) if len(front.columns) else top
            x[:, front.start : front.start + front.width] = triangular(corner, known, lower=False)
        return torch.empty_like(x).index_copy_(1, self.plan.order.to(x.device), x)

    def _forward(self, b: Tensor) -> list[Tensor]:
        x, tops = b[:, self.plan.order], []
        for front, (corner, right) in zip(self.plan.fronts, self.triangle, strict=True):
            top = triangular(corner.mH, x[:, front.start : front.start + front.width], lower=True)
            if len(front.columns):
                x.index_add_(1, front.columns.to(x.device), gemm(-1.0, right.mH, top))
            tops.append(top)
        return tops
