"""Which pairs of atomic orbitals matter: Cauchy-Schwarz bounds of the three-index integrals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

import trnsparse

# Below this share of pairs the half transformation is faster as a sparse product: measured at 264 and 600 orbitals, in
# both precisions, on one core.
SPARSE_BELOW = 0.15


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Screen:
    """Pairs (m, n) for which some ``|(mn|P)|`` may exceed the threshold; ``|(mn|P)|**2 <= (mn|mn) (P|P)``.

    Attributes:
        threshold: integrals that cannot be larger than this are dropped.
        pairs: [nao, nao], the kept pairs as the pattern of a sparse matrix; values are the bounds.
        total: ``nao**2``.
        sparse: whether so few survive that the half transformation runs as a sparse product.
    """

    threshold: float
    pairs: trnsparse.CSRMatrix
    total: int
    sparse: bool

    @property
    def kept(self) -> int:
        """Pairs kept."""
        return self.pairs.nnz

    @property
    def fraction(self) -> float:
        """Kept over total."""
        return self.kept / self.total

    def __str__(self) -> str:
        how = "sparse" if self.sparse else "dense"
        return f"{self.kept} of {self.total} orbital pairs above {self.threshold:.0e} ({self.fraction:.0%}): {how}"

    def slab(self, packed: Tensor) -> trnsparse.CSRMatrix:
        """Return packed integrals [w, nao (nao + 1) / 2] as the matrix [w nao, nao] of the kept pairs."""
        width, nao = packed.shape[0], self.pairs.shape[0]
        row, column = self.pairs.majors, self.pairs.indices
        high, low = torch.maximum(row, column), torch.minimum(row, column)
        values = packed[:, high * (high + 1) // 2 + low]  # [w, kept]
        starts = self.pairs.indptr[:-1] + self.kept * torch.arange(width, device="cpu")[:, None]  # [w, nao]
        indptr = torch.cat([starts.flatten(), torch.tensor([self.kept * width], dtype=torch.int64, device="cpu")])
        return trnsparse.CSRMatrix(indptr, column.repeat(width), values.flatten(), (width * nao, nao))


def keep_pairs_above(equal: Tensor, strongest: float, threshold: float) -> Screen:
    """Bound every three-index integral and return the pairs of orbitals that can reach ``threshold``.

    Args:
        equal: the integrals (mn|mn), [nao, nao], of `equal_pairs`.
        strongest: the largest of ``sqrt((P|P))``.
        threshold: not negative; 0 keeps every pair that is not exactly zero.
    """
    bounds = trnsparse.schwarz_bounds(equal)  # [nao, nao]
    # density_screen keeps Q |P| max(Q) > threshold; this weight makes the product Q sqrt((P|P))
    weight = torch.full_like(bounds, strongest / float(bounds.max()))
    kept = trnsparse.density_screen(bounds, weight, threshold).to_csr()
    total = bounds.numel()
    return Screen(threshold=threshold, pairs=kept, total=total, sparse=kept.nnz < SPARSE_BELOW * total)


def equal_pairs(molecule: Any, shells: Iterable[int] | None = None) -> Tensor:
    """Return the integrals (mn|mn), [nao, nao]; of some ``shells`` those with the ones before them, and zeros."""
    starts = molecule.ao_loc_nr()
    integrals = np.zeros((starts[-1], starts[-1]))
    for i in range(molecule.nbas) if shells is None else shells:
        for j in range(i + 1):
            block = molecule.intor_by_shell("int2e", (i, j, i, j))
            rows, columns = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
            equal = np.abs(np.einsum("ijij->ij", block))
            integrals[rows, columns], integrals[columns, rows] = equal, equal.T
    return torch.from_numpy(integrals)
