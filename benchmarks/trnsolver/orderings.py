"""Orders for sparse factors beside METIS; the entries of the factors are in the notes of sparse_factor."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.registry import Bench, Case, Peer
from benchmarks.trnsolver.sparse_factor import _grid
from trnsolver import fill_ordering


def _case(k: int, dimensions: int) -> Case:
    def inputs() -> tuple[Any, ...]:
        return (_grid(k, dimensions),)

    rows = k**dimensions
    name = f"grid {k}^{dimensions}"
    return Case(name=name, inputs=inputs, flops=0, bytes=8 * rows * (2 * dimensions + 1), devices=("cpu",))


def _nested(a: Any) -> np.ndarray:
    import pymetis

    edges = sp.csr_array(sp.tril(a, -1) + sp.triu(a, 1))
    order, _ = pymetis.nested_dissection(adjacency=pymetis.CSRAdjacency(edges.indptr, edges.indices))
    return np.asarray(order)


BENCH = Bench(
    op="trnsolver.orderings",
    run=fill_ordering,
    tests="tests/trnsolver/test_sparse_factor.py",
    cases=(_case(80, 2), _case(16, 3)),
    peers=(
        Peer(name="pymetis", run=_nested, requires="pymetis", devices=("cpu",)),
        Peer(
            name="SuperLU's order, scipy spilu",
            run=lambda a: sp.linalg.spilu(a, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A").perm_c,
            requires="scipy",
            devices=("cpu",),
            called=True,
        ),
    ),
    comparable=None,
    notes="Minimum degree. An order is a graph algorithm of dependent steps, which has no kernel.",
    devices=("cpu",),
)
