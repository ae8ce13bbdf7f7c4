"""Krylov spaces that restart from their best vectors (Stewart; for Hermitian operators Wu and Simon)."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from trnblas import gemm
from trnsci import NotConverged
from trnsci.arrays import to_numpy
from trnsolver.eigen.missed_eigenvalues import Guard, Known, Reals, find_missed, heights_for
from trnsolver.krylov.operators import Apply
from trnsolver.krylov.vectors import Columns, eps, norms, orthogonal, unit

Matrix = NDArray[Any]
Draw = Callable[[], Columns]
# Up to so many rows the space may be everything: that costs less than a search for pairs that a smaller one misses.
WHOLE = 64


class Ritz(NamedTuple):
    """Eigenpairs of an operator in a space, best first."""

    values: Matrix  # [M]
    vectors: Matrix  # [M, M], in the basis
    heights: Reals  # [M]
    sizes: Reals  # [M], of residuals
    scale: float


class Krylov:
    """Rows ``v`` of an orthonormal basis and the operator in it: ``a @ v.T = v.T @ h[:m] + basis[m] * h[m]``."""

    def __init__(self, apply: Apply, draw: Draw, *, size: int, hermitian: bool) -> None:
        first, _ = unit(draw())
        self.apply, self.draw, self.hermitian, self.rows = apply, draw, hermitian, len(first)
        self.basis: Columns = first[None]
        self.h: Matrix = np.zeros((1, 0), _on_host(first[:0]).dtype)
        self.grow(size)
        self.m = self.kept = self.products = 0
        self.largest = 0.0

    def extend(self, until: int) -> None:
        """Grow the basis to ``until`` rows."""
        least = 10 * eps(self.basis)
        for j in range(self.m, until):
            # a Hermitian operator couples a vector to its neighbours, the first one to all that were kept
            near = j - 1 if self.hermitian and j > self.kept else 0
            w, column = orthogonal(self.basis[: j + 1], self.apply(self.basis[j]), near)
            self.h[: j + 1, j] = _on_host(column)
            self.m, self.products = j + 1, self.products + 1
            length = norms(w)
            self.largest = max(self.largest, float(norms(column) + length))
            if float(length) > least * self.largest:
                self.h[j + 1, j] = length
            elif self.m == self.rows:
                return
            else:
                # An invariant space, but for rounding: go on with a new direction, which nothing couples to.
                w, _ = orthogonal(self.basis[: j + 1], self.draw())
                length = norms(w)
            self.basis[j + 1] = w / length

    def ritz(self, op: str, heights_of: Callable[[Matrix], Reals]) -> Ritz:
        """Return the eigenpairs in the space."""
        core, coupling = self.h[: self.m, : self.m], self.h[self.m, : self.m]
        if not np.isfinite(core).all():
            message = f"broke down after {self.products} products: one of them is not finite"
            raise NotConverged(op=op, iterations=self.products, residual=math.nan, message=message)
        values, vectors = np.linalg.eigh(0.5 * (core + core.conj().T)) if self.hermitian else np.linalg.eig(core)
        heights = heights_of(values)
        # conjugates stay neighbours
        order = np.argsort(-heights, kind="stable")
        vectors = vectors[:, order]
        return Ritz(values[order], vectors, heights[order], abs(coupling @ vectors), float(abs(values).max()) or 1.0)

    def restart(self, ritz: Ritz, keep: int, *, fresh: bool) -> None:
        """Keep the space of the best pairs, and go on from the last vector or, ``fresh``, from a random one."""
        values, vectors = ritz.values[:keep], ritz.vectors[:, :keep]
        if not self.hermitian:
            if not np.iscomplexobj(self.h):
                # both of a pair of conjugates: real and imaginary part span them
                keep += bool(values[-1].imag > 0)
                values, vectors = ritz.values[:keep], ritz.vectors[:, :keep]
                vectors = np.hstack([vectors.real[:, values.imag >= 0], vectors.imag[:, values.imag > 0]])
            vectors = np.linalg.qr(vectors).Q
        core, coupling = self.h[: self.m, : self.m], self.h[self.m, : self.m]
        core, coupling = vectors.conj().T @ core @ vectors, coupling @ vectors
        self.basis[:keep], self.basis[keep] = self.combine_rows(vectors), self.basis[self.m]
        self.h[:] = 0.0
        self.h[:keep, :keep] = core
        if fresh:
            # pairs that have converged couple to nothing
            self.basis[keep], _ = unit(orthogonal(self.basis[:keep], self.draw())[0])
        else:
            self.h[keep, :keep] = coupling
        self.m = self.kept = keep

    def grow(self, size: int) -> None:
        """Make room for a basis of ``size`` rows."""
        before, core = self.basis, self.h
        shape = (size + 1, self.rows)
        self.basis = np.zeros(shape, before.dtype) if isinstance(before, np.ndarray) else before.new_zeros(shape)
        self.h = np.zeros((size + 1, size), core.dtype)
        self.basis[: len(before)], self.h[: len(core), : core.shape[1]] = before, core
        self.size = size

    def combine_rows(self, weights: Matrix) -> Columns:
        """Return sums of rows of the basis, one for each column of weights."""
        basis = self.basis[: self.m]
        if isinstance(basis, np.ndarray):
            return weights.T @ basis
        columns = torch.from_numpy(weights).to(basis.device)
        return gemm(1.0, columns, basis.to(columns.dtype), trans_a=True)


def _on_host(x: Columns) -> Matrix:
    return x if isinstance(x, np.ndarray) else to_numpy(x)


def find_pairs(op: str, space: Krylov, k: int, *, which: str, tol: float, most: int, stride: int) -> tuple[Ritz, bool]:
    """Restart a space until its ``k`` best pairs have converged and none better was missed; return whether that is so.

    Args:
        op: the solver, for errors.
        space: to start from.
        k: how many.
        which: as for `trnsolver.lanczos`.
        tol: of residuals, relative to the largest value.
        most: products.
        stride: products between two looks at the pairs, more than ``k`` in any case.
    """
    stride = max(stride, k + 1)
    guard, heights_of, locked, first, patience = Guard(k), heights_for(which), k, space.size, space.rows
    while True:
        space.extend(min(space.m + stride, space.size))
        ritz = space.ritz(op, heights_of)
        if space.m == space.rows:
            return ritz, True
        enough = tol * ritz.scale
        slack, fresh = enough + rounding(space.basis) * ritz.scale, False
        if (ritz.sizes[:k] <= enough).all():
            fresh, confirmed = guard.has_changed(ritz.heights, slack), False
            if not fresh:
                confirmed = guard.is_resolved(ritz.heights, ritz.sizes, locked, enough)
            elif space.hermitian:
                rows, width = space.combine_rows(ritz.vectors), float(np.ptp(ritz.values))
                known = Known(rows, ritz.heights, ritz.sizes, k, slack, width)
                missed, products = find_missed(space.apply, known, heights_of, space.draw, most - space.products)
                confirmed, space.products = missed is False, space.products + products
            if confirmed:
                return ritz, True
        if space.products >= most:
            return ritz, False
        if fresh:
            space.restart(ritz, k, fresh=True)
            locked = space.m
        elif space.m == space.size:
            space.restart(ritz, k + (space.size - k) // 3, fresh=False)
            if space.products >= patience:
                # as many products as rows: what has not converged in this room needs more of it
                space.grow(min(space.rows, space.size + first))
                patience += space.rows


def rounding(x: Columns) -> float:
    """Return the error of residuals that rounding leaves of rows of this dtype and length, relative to the operator."""
    return 10 * eps(x) * float(x.shape[-1]) ** 0.5
