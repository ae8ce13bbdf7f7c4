"""Eigenvalues that converged pairs may have missed: copies of a multiple one, or of a space the start had no part in.

A Krylov space holds one vector of each eigenspace, however often an eigenvalue is repeated, and residuals do not tell.
So a random vector, orthogonal to the pairs that have converged, searches for more before anything is claimed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from trnsolver.krylov.operators import Apply
from trnsolver.krylov.vectors import Columns, inner, norms, plus, project_out, unit

Reals = NDArray[Any]
Heights = Callable[[NDArray[Any]], Reals]
# Chance that a search ends before it meets an eigenvalue that is there.
MISS = 1e-6
# A pair resolved to this part of its distance from the pairs claimed is none of them.
RESOLVED = 1e-4
# Steps of a search before the first look at its values, and by which factor they grow until the next.
LOOK, GROWTH = 4, 1.15


def heights_for(which: str) -> Heights:
    """Return the function of eigenvalues that is largest at those that ``which`` asks for."""
    heights: dict[str, Heights] = {"largest": np.real, "smallest": lambda x: -x.real, "magnitude": np.abs}
    return heights[which]


@dataclass(slots=True)
class Guard:
    """Confirms ``k`` pairs after a search from a fresh random direction has left them unchanged."""

    k: int
    before: Reals | None = None

    def has_changed(self, heights: Reals, slack: float) -> bool:
        """Return whether the pairs, all converged, differ from those before the last fresh direction; note them."""
        if self.before is not None and bool((np.abs(heights[: self.k] - self.before) <= slack).all()):
            return False
        self.before = heights[: self.k].copy()
        return True

    def is_resolved(self, heights: Reals, sizes: Reals, pair: int, enough: float) -> bool:
        """Return whether a pair, the best of the fresh direction, is known well enough to be worse than those."""
        return bool(sizes[pair] <= max(enough, RESOLVED * float(heights[self.k - 1] - heights[pair])))


class Known(NamedTuple):
    """Ritz pairs of a Hermitian operator, best first, the first ``k`` of them converged up to ``slack``."""

    vectors: Columns  # [Q, N]
    heights: Reals  # [Q]
    sizes: Reals  # [Q], of residuals
    k: int
    slack: float
    width: float


def find_missed(
    apply: Apply, known: Known, heights: Heights, draw: Callable[[], Columns], most: int
) -> tuple[bool | None, int]:
    """Return whether a value better than the ``k``-th was missed, and the products used; ``None`` after ``most``.

    Let ``b`` bound the operator in the complement of the known vectors. At most ``k`` values of the operator itself are
    above ``t > b`` if the sum of ``sizes**2 / (t - value)`` over the known pairs after the ``k``-th is below ``t - b``:
    the inertia of the Schur complement. More known vectors lower ``b`` and shorten the search, where that sum is small.
    """
    gaps = known.heights[known.k - 1] - known.heights[known.k :]
    with np.errstate(all="ignore"):
        sums = np.cumsum(known.sizes[known.k :] ** 2 / gaps)
    used = 0
    # where values lie next to the k-th, a sum within the tolerance is small, and no other
    for small in (max(0.1 * gaps[0], known.slack), known.slack):
        more = int(np.append(sums <= small, False).argmin())
        lift = float(sums[more - 1]) if more else 0.0
        missed, products = _search(apply, known, heights, draw(), more, lift, most - used)
        used += products
        if missed is not None or used >= most or lift <= known.slack:
            break
    return missed, used


def _search(
    apply: Apply, known: Known, heights: Heights, start: Columns, more: int, lift: float, most: int
) -> tuple[bool | None, int]:
    """Follow the end of the spectrum in the complement, by Lanczos without a basis; ``None`` where it leaves it open.

    From a random start, after ``j`` steps the end is missed by more than a part ``e`` of the width with probability
    ``1.648 sqrt(N) exp(-(2 j - 1) sqrt(e))`` at most (Kuczynski and Wozniakowski 1992).
    """
    vectors, edge = known.vectors[: known.k + more], float(known.heights[known.k - 1])
    diagonal: list[float] = []
    beside: list[float] = []
    v, _ = unit(project_out(vectors, project_out(vectors, start)[0])[0])
    before, beta, look, small = 0.0 * v, 0.0, float(LOOK), 0.1 * known.slack
    chance = math.log(1.648 * len(v) ** 0.5 / MISS)
    for step in range(1, most + 1):
        # in new memory: a function may return its argument
        w = apply(v) - beta * before
        diagonal.append(float(inner(v, w).real))
        # orthogonal last: what rounding leaves along known vectors would grow as for an eigenvalue 0
        w, _ = project_out(vectors, plus(w, -diagonal[-1], v))
        beta = float(norms(w))
        if not math.isfinite(beta):
            return None, most
        if step >= look or beta <= small:
            best, last = _end(diagonal, beside, heights)
            gap = edge - best - lift
            if best > edge + known.slack:
                return True, step
            if gap <= 0.0 and lift > known.slack:
                return None, step
            needed = 0.5 + 0.5 * chance * math.sqrt(known.width / gap) if gap > 0.0 else math.inf
            if step >= needed or last * beta <= max(small, RESOLVED * gap):
                return False, step
            look = min(GROWTH * step + LOOK, max(needed, step + 1))
        beside.append(beta)
        before, v = v, w / beta
    return None, most


def _end(diagonal: list[float], beside: list[float], heights: Heights) -> tuple[float, float]:
    """Return the best value of a tridiagonal matrix as a height, and the last entry of its vector."""
    ends = {(0, 0), (len(diagonal) - 1,) * 2}
    pairs = [scipy.linalg.eigh_tridiagonal(diagonal, beside, select="i", select_range=end) for end in ends]
    return max((float(heights(values)[0]), abs(float(vectors[-1, 0]))) for values, vectors in pairs)
