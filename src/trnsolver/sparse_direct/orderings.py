"""Orders of rows and columns that keep factors sparse, and rows that leave no zero on the diagonal."""

from __future__ import annotations

import importlib
import math
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import BackendUnavailable, Singular, array_function, check
from trnsci.arrays import to_numpy
from trnsci.backends import on_host
from trnsolver.sparse_direct.compressed_rows import Compressed, Index, Sparse, compress_square

Ordering = Literal["natural", "amd", "rcm", "colamd", "metis"]


@array_function
def fill_ordering(a: Sparse, *, method: Ordering = "amd") -> Tensor:
    """Return an order of rows and columns in which the factors of a sparse matrix have few entries.

    Args:
        a: sparse [N, N], of trnsparse, SciPy or torch; its pattern is taken as symmetric, that of ``a + a.T``.
        method: ``amd``, minimum degree (SuperLU's multiple minimum degree on ``a + a.T``); ``rcm``, reverse
            Cuthill-McKee, for a small bandwidth; ``colamd``, column minimum degree, for LU of unsymmetric patterns;
            ``metis``, nested dissection by METIS (``pip install pymetis``); ``natural``, as they are.

    Returns:
        [N] int64: factor ``a[order][:, order]``.

    Example:
        >>> import scipy.sparse as sp
        >>> arrow = sp.csr_array([[2.0, 1, 1], [1, 2, 0], [1, 0, 2]])
        >>> int(fill_ordering(arrow)[0]) != 0
        True
    """
    check.option("fill_ordering", "method", method, get_args(Ordering))
    on_host("trnsolver.fill_ordering")
    # of the transpose by rows, which lies as the matrix by columns does, unless the order is one of columns
    rows = a.T if getattr(a, "format", "") == "csc" and method != "colamd" else a  # type: ignore[union-attr]
    return torch.from_numpy(order_of(compress_square("fill_ordering", rows), method))


def order_of(a: Compressed, method: Ordering) -> Index:
    """Return the order by a method."""
    n = a.shape[0]
    if method == "natural" or n == 0:
        return np.arange(n)
    if method in ("rcm", "metis"):
        pattern = a.scipy()
        both = sp.csr_array(pattern + pattern.T)
        if method == "metis":
            return _metis(both)
        return np.array(sp.csgraph.reverse_cuthill_mckee(both, symmetric_mode=True), np.int64)
    # SuperLU orders before it factors: an incomplete factor of a dominant matrix costs nothing beside the order
    dominant = a.scipy(np.ones(len(a.indices), np.float32))
    diagonal = dominant.indices == np.repeat(np.arange(n, dtype=np.int32), np.diff(dominant.indptr))
    dominant.data[diagonal] = n + 1
    if np.count_nonzero(diagonal) < n:
        dominant = dominant + sp.diags_array(np.full(n, n + 1, np.float32), format="csr")
    # minimum degree is that of ``a + a.T``, whichever of the two it is given
    spec, columns = ("MMD_AT_PLUS_A", dominant.T) if method == "amd" else ("COLAMD", dominant.tocsc())
    columns.has_canonical_format = True
    rough = sp.linalg.spilu(columns, drop_tol=1.0, fill_factor=1.0, permc_spec=spec)
    order = np.empty(n, np.int64)
    order[rough.perm_c] = np.arange(n)
    return order


def _metis(both: Any) -> Index:
    try:
        pymetis = importlib.import_module("pymetis")
    except ImportError as error:
        raise BackendUnavailable(
            backend="metis", reason="pymetis is not installed", how="pip install pymetis, or use method='amd'"
        ) from error
    edges = sp.csr_array(sp.tril(both, -1) + sp.triu(both, 1))
    order, _ = pymetis.nested_dissection(adjacency=pymetis.CSRAdjacency(edges.indptr, edges.indices))
    return np.asarray(order, np.int64)


@array_function
def zero_free_diagonal(a: Sparse) -> Tensor:
    """Return an order of rows with which every diagonal entry is stored and their product is as large as possible.

    Args:
        a: sparse [N, N], of trnsparse, SciPy or torch.

    Returns:
        [N] int64: ``a[order]`` has no zero on its diagonal (Duff and Koster; cuSOLVER's ``csrzfd``).

    Raises:
        Singular: no order does; then the matrix is singular for every choice of its values.

    Example:
        >>> import scipy.sparse as sp
        >>> zero_free_diagonal(sp.csr_array([[0.0, 1.0], [1.0, 5.0]]))
        array([1, 0])
    """
    on_host("trnsolver.zero_free_diagonal")
    rows = compress_square("zero_free_diagonal", a)
    return torch.from_numpy(match_rows("zero_free_diagonal", rows, rows.values))


def match_rows(op: str, a: Compressed, values: Tensor) -> Index:
    """Return rows in the order of the columns they are matched with."""
    n = a.shape[0]
    if n == 0:
        return np.arange(0)
    many = values.detach().reshape(math.prod(values.shape[:-1]), values.shape[-1]).abs().double()
    size = to_numpy(many.amax(0)) if len(many) else np.ones(many.shape[-1])
    kept = size > 0
    rows, columns = a.rows[kept], a.indices[kept]
    largest = np.zeros(n)
    np.maximum.at(largest, columns, size[kept])
    # positive, because SciPy takes a weight of zero for no entry
    weights = 1.0 + np.log2(largest[columns]) - np.log2(size[kept])
    # SciPy's graphs count in 32 bits
    graph = sp.csr_array((weights, (rows.astype(np.int32), columns.astype(np.int32))), shape=a.shape)
    pairs = sp.csgraph.maximum_bipartite_matching(graph, perm_type="column")
    if (pairs < 0).any():
        index = int(np.flatnonzero(pairs < 0)[0])
        raise Singular(
            op=op, index=index, message="no order of rows fills the diagonal: the matrix is structurally singular"
        )
    row, column = sp.csgraph.min_weight_full_bipartite_matching(graph)
    order = np.empty(n, np.int64)
    order[column] = row
    return order
