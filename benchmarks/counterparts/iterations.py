"""trnsolver's iterative solvers, preconditioners and sparse factors beside scipy.sparse.linalg."""

from __future__ import annotations

from functools import partial as f

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph, linalg as theirs

import trnsolver
import trnsparse
from benchmarks.counterparts import Cases, double

ALONE = {
    "chebyshev": "SciPy has no solver from bounds of a spectrum",
    "davidson": "SciPy has no Davidson; `eigsh` is beside Lanczos",
    "chebyshev_preconditioner": "a function that calls are made with",
    "ssor_preconditioner": "SciPy has none",
    "block_jacobi_preconditioner": "SciPy has none",
    "ic0_preconditioner": "SciPy has none",
    "trace": "SciPy has no estimate of a trace",
}


def cases(n: int) -> Cases:
    """Calls of the Laplacian of a square grid of about 4 n points."""
    side = max(3, round((4 * n) ** 0.5))
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    a = sp.csr_array(sp.kronsum(line, line))
    return {**_systems(a), **_pairs(a), **_factors(a)}


def _systems(a: sp.csr_array) -> Cases:
    own, size = trnsparse.CSRMatrix.from_scipy(a), a.shape[0]
    b, array = double(size), double(size).numpy()
    several = double(size, 4)
    return {
        "cg": (f(trnsolver.cg, own, b), "scipy.sparse.linalg", f(theirs.cg, a, array)),
        "block_cg": (
            f(trnsolver.block_cg, own, several),
            "scipy.sparse.linalg, each",
            lambda: [theirs.cg(a, column) for column in several.T.numpy()],
        ),
        "minres": (f(trnsolver.minres, own, b), "scipy.sparse.linalg", f(theirs.minres, a, array)),
        "bicgstab": (f(trnsolver.bicgstab, own, b), "scipy.sparse.linalg", f(theirs.bicgstab, a, array)),
        "gmres": (f(trnsolver.gmres, own, b), "scipy.sparse.linalg", f(theirs.gmres, a, array, restart=30)),
        "lsqr": (f(trnsolver.lsqr, own, b), "scipy.sparse.linalg", f(theirs.lsqr, a, array)),
        "lsmr": (f(trnsolver.lsmr, own, b), "scipy.sparse.linalg", f(theirs.lsmr, a, array)),
        "jacobi_preconditioner": (f(trnsolver.jacobi_preconditioner, own), "scipy.sparse", a.diagonal),
        "ilu0_preconditioner": (
            f(trnsolver.ilu0_preconditioner, own),
            "scipy.sparse.linalg.spilu",
            f(theirs.spilu, a.tocsc(), fill_factor=1.0),
        ),
    }


def _pairs(a: sp.csr_array) -> Cases:
    own, size = trnsparse.CSRMatrix.from_scipy(a), a.shape[0]
    start, k = double(size, 2), 2
    top = {"which": "LA"}
    return {
        "lanczos": (f(trnsolver.lanczos, own, k), "scipy.sparse.linalg.eigsh", f(theirs.eigsh, a, k, **top)),
        "eigsh": (f(trnsolver.eigsh, own, k, which="LA"), "scipy.sparse.linalg", f(theirs.eigsh, a, k, **top)),
        "arnoldi": (f(trnsolver.arnoldi, own, k), "scipy.sparse.linalg.eigs", f(theirs.eigs, a, k)),
        "lobpcg": (
            f(trnsolver.lobpcg, own, start, largest=True),
            "scipy.sparse.linalg",
            f(theirs.lobpcg, a, start.numpy(), largest=True, tol=1e-6, maxiter=200),
        ),
        "count_eigenvalues": (
            f(trnsolver.count_eigenvalues, own, (1.03, 2.07)),
            "numpy.linalg.eigvalsh",
            f(np.linalg.eigvalsh, a.toarray()),
        ),
    }


def _factors(a: sp.csr_array) -> Cases:
    own, column = trnsparse.CSRMatrix.from_scipy(a), a.tocsc()
    b, array = double(a.shape[0]), double(a.shape[0]).numpy()
    return {
        "factor_sparse": (f(trnsolver.factor_sparse, own), "scipy.sparse.linalg.splu", f(theirs.splu, column)),
        "solve_sparse": (f(trnsolver.solve_sparse, own, b), "scipy.sparse.linalg", f(theirs.spsolve, column, array)),
        "fill_ordering": (
            f(trnsolver.fill_ordering, own),
            "scipy.sparse.linalg.spilu",
            f(theirs.spilu, column, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A"),
        ),
        "zero_free_diagonal": (
            f(trnsolver.zero_free_diagonal, own),
            "scipy.sparse.csgraph",
            f(csgraph.maximum_bipartite_matching, a),
        ),
    }
