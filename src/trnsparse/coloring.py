"""Colours of rows: rows of one colour share no entry, so that they can be worked on at the same time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import check
from trnsci.backends import on_host
from trnsci.errors import ArgumentError
from trnsparse import scipy_views
from trnsparse.arguments import sparse
from trnsparse.matrix import SparseMatrixLike


@dataclass(frozen=True, slots=True, eq=False)
class Coloring:
    """Colours of the rows of a symmetric pattern.

    Attributes:
        colors: [N], from 0.
        count: how many colours.
        order: [N], rows by colour: ``a[order][:, order]`` has diagonal blocks that are diagonal.
    """

    colors: Tensor
    count: int
    order: Tensor


def coloring(a: SparseMatrixLike, *, fraction: float = 1.0) -> Coloring:
    """Colour the rows of a matrix so that no two that an entry joins have the same colour.

    Rows are coloured in the order of falling degree, each with the first colour free (Welsh and Powell): at most one
    colour more than the entries of the fullest row. Gauss-Seidel, incomplete factors and sparse derivatives work on the
    rows of one colour at the same time.

    Args:
        a: sparse [N, N]; its pattern is taken as symmetric, that of ``a + a.T``.
        fraction: the share of rows to colour this way; every row that is left gets a colour of its own, as cuSPARSE
            does it.

    Example:
        >>> import torch
        >>> from trnsparse import CSRMatrix
        >>> coloring(CSRMatrix.from_dense(torch.ones(3, 3).tril().triu(-1))).count
        2
    """
    on_host("trnsparse.coloring")
    a = sparse("coloring", "a", a)
    check.data("coloring", a=a.values)
    check.equal("coloring", "N", rows=a.shape[0], columns=a.shape[1])
    if not 0.0 <= check.real("coloring", "fraction", fraction) <= 1.0:
        raise ArgumentError("coloring", "fraction", fraction, "0 to 1")
    n, rows = a.shape[0], a.detach().cpu().to_csr()
    pattern = scipy_views.view(rows.indptr, rows.indices, rows.indices.new_ones(rows.nnz, dtype=torch.int32), n).rows
    both = sp.csr_array(pattern + pattern.T)
    degree = np.diff(both.indptr)
    colours = _first_free(
        both.indptr.tolist(), both.indices.tolist(), np.argsort(-degree, kind="stable").tolist(), fraction
    )
    colors = torch.tensor(colours, dtype=torch.int64, device=a.device)
    return Coloring(colors, max(colours, default=-1) + 1, colors.argsort(stable=True))


def _first_free(indptr: list[int], indices: list[int], order: list[int], fraction: float) -> list[int]:
    colors = [-1] * len(order)
    wanted = round(fraction * len(order))
    for row in order[:wanted]:
        taken = {colors[j] for j in indices[indptr[row] : indptr[row + 1]] if j != row}
        color = 0
        while color in taken:
            color += 1
        colors[row] = color
    count = max(colors, default=-1) + 1
    for more, row in enumerate(order[wanted:]):
        colors[row] = count + more
    return colors
