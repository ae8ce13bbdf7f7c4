"""trnsparse beside scipy.sparse, torch's attention and NumPy."""

from __future__ import annotations

import tempfile
from functools import partial as f
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse import csgraph, linalg as theirs

import trnsparse
from benchmarks.counterparts import Cases, double
from tests import samples

ALONE = {
    "get_backend": "a setting",
    "set_backend": "a setting",
    "choose": "a prediction",
    "shard_rows": "needs ranks",
    "blocks": "a mask, which attention takes",
    "documents": "a mask, which attention takes",
    "full": "a mask, which attention takes",
    "function": "a mask, which attention takes",
    **dict.fromkeys(samples.MASKS, "a mask, which attention takes"),
    "ic0": "SciPy has none",
    "coloring": "SciPy has none",
    "chebyshev": "SciPy has no solver from bounds of a spectrum",
    "richardson": "SciPy has none",
}


def cases(n: int) -> Cases:
    """Calls of matrices with 4 n rows, five entries in each."""
    size = 4 * n
    rng = np.random.default_rng(1)
    a = sp.random_array((size, size), density=min(0.5, 5 / size), random_state=rng, format="csr")
    a = a + 9 * sp.eye_array(size)
    a = sp.csr_array(a)
    a.sort_indices()
    return {**_products(a), **_parts(a), **_solvers(a), **_screening(n), **_attention(n)}


def _products(a: sp.csr_array) -> Cases:
    own, size = trnsparse.CSRMatrix.from_scipy(a), a.shape[0]
    x, b, left = double(size), double(size, 4), double(size, 4, seed=2)
    vector, columns = x.numpy(), b.numpy()
    rows, cols = a.tocoo().coords
    small = a[:8, :8]

    def screened() -> np.ndarray:
        kept = np.where(np.abs(vector[rows] * vector[cols]) > 0.1, a.data, 0.0)
        return sp.csr_array((kept, a.indices, a.indptr), a.shape) @ columns

    return {
        "spmv": (f(trnsparse.spmv, own, x), "scipy.sparse", lambda: a @ vector),
        "spmm": (f(trnsparse.spmm, own, b), "scipy.sparse", lambda: a @ columns),
        "spmm_op": (f(trnsparse.spmm_op, own, b, add="amax"), "scipy.sparse, summed", lambda: a @ columns),
        "spgemm": (f(trnsparse.spgemm, own, own), "scipy.sparse", lambda: a @ a),
        "add": (f(trnsparse.add, own, own), "scipy.sparse", lambda: a + a),
        "multiply": (f(trnsparse.multiply, own, own), "scipy.sparse", f(a.multiply, a)),
        "kron": (
            f(trnsparse.kron, own[:8, :8], own),
            "scipy.sparse",
            f(sp.kron, small, a),
        ),
        "sddmm": (
            f(trnsparse.sddmm, own, left, b.mT.contiguous()),
            "numpy.einsum",
            lambda: np.einsum("ik,ik->i", left.numpy()[rows], columns[cols]),
        ),
        "screened_spmm": (f(trnsparse.screened_spmm, own, x.abs(), x.abs(), b, 0.1), "scipy.sparse", screened),
        "scale_rows": (f(trnsparse.scale_rows, own, x), "scipy.sparse", lambda: sp.diags_array(vector) @ a),
        "scale_columns": (f(trnsparse.scale_columns, own, x), "scipy.sparse", lambda: a @ sp.diags_array(vector)),
    }


def _parts(a: sp.csr_array) -> Cases:
    own, size = trnsparse.CSRMatrix.from_scipy(a), a.shape[0]
    folder = Path(tempfile.mkdtemp(prefix="walk-"))
    own.save(folder / "ours.npz")
    sp.save_npz(folder / "theirs.npz", a)
    return {
        "CSRMatrix[i, j]": (lambda: own[5, 5], "scipy.sparse", lambda: a[5, 5]),
        "CSRMatrix[i]": (lambda: own[5], "scipy.sparse", lambda: a[[5]]),
        "CSRMatrix.T": (lambda: own.T, "scipy.sparse", lambda: a.T),
        "triangle": (f(trnsparse.triangle, own), "scipy.sparse", f(sp.tril, a)),
        "norm": (f(trnsparse.norm, own), "scipy.sparse.linalg", f(theirs.norm, a)),
        "bandwidth": (f(trnsparse.bandwidth, own), "numpy", lambda: np.abs(np.subtract(*a.tocoo().coords)).max()),
        "eye": (f(trnsparse.eye, size), "scipy.sparse", f(sp.eye_array, size, format="csr")),
        "load": (f(trnsparse.load, folder / "ours.npz"), "scipy.sparse", f(sp.load_npz, folder / "theirs.npz")),
        "reverse_cuthill_mckee": (
            f(trnsparse.reverse_cuthill_mckee, own),
            "scipy.sparse.csgraph",
            f(csgraph.reverse_cuthill_mckee, a),
        ),
    }


def _solvers(a: sp.csr_array) -> Cases:
    spd = sp.csr_array(a + a.T)
    own, both, size = trnsparse.CSRMatrix.from_scipy(a), trnsparse.CSRMatrix.from_scipy(spd), a.shape[0]
    b, array = double(size), double(size).numpy()
    lower = sp.csr_array(sp.tril(a))
    triangle = trnsparse.CSRMatrix.from_scipy(lower)
    return {
        "cg": (f(trnsparse.cg, both, b), "scipy.sparse.linalg", f(theirs.cg, spd, array)),
        "power_iteration": (
            f(trnsparse.power_iteration, both),
            "scipy.sparse.linalg.eigsh",
            f(theirs.eigsh, spd, 1, tol=1e-4),
        ),
        "ilu0": (f(trnsparse.ilu0, own), "scipy.sparse.linalg.spilu", f(theirs.spilu, a.tocsc(), fill_factor=1.0)),
        "solve_triangular": (
            f(trnsparse.solve_triangular, triangle, b),
            "scipy.sparse.linalg",
            f(theirs.spsolve_triangular, lower, array),
        ),
    }


def _screening(n: int) -> Cases:
    k = min(n, 24)
    integrals, bounds, density = double(k, k, k, k), double(k, k).abs(), double(k, k, seed=2)
    return {
        "schwarz_bounds": (
            f(trnsparse.schwarz_bounds, integrals),
            "torch.einsum",
            lambda: torch.einsum("ijij->ij", integrals).abs().sqrt(),
        ),
        "density_screen": (
            f(trnsparse.density_screen, bounds, density, 0.5),
            "torch",
            lambda: ((bounds * density.abs()) > 0.5).nonzero(),
        ),
        "screen_quartets": (
            f(trnsparse.screen_quartets, bounds, 2.0),
            "torch",
            lambda: (bounds.view(-1, 1) * bounds.view(-1) >= 2.0).nonzero(),
        ),
    }


def _attention(n: int) -> Cases:
    q, k, v = (double(1, n, 16, seed=seed).float() for seed in (1, 2, 3))
    theirs_ = torch.nn.functional.scaled_dot_product_attention
    return {
        "attention": (f(trnsparse.attention, q, k, v), "torch SDPA", f(theirs_, q, k, v)),
        "attention causal": (
            f(trnsparse.attention, q, k, v, trnsparse.causal()),
            "torch SDPA",
            f(theirs_, q, k, v, is_causal=True),
        ),
        "attention window": (
            f(trnsparse.attention, q, k, v, trnsparse.window(8)),
            "torch SDPA",
            f(theirs_, q, k, v),
        ),
    }
