"""trnsolver's factorisations and functions of matrices beside torch.linalg and scipy.linalg."""

from __future__ import annotations

from functools import partial as f

import numpy as np
import scipy.linalg
import torch
from scipy.linalg import lapack

import trnsolver
from benchmarks.counterparts import Cases, double

ALONE = {"get_backend": "a setting", "set_backend": "a setting"}
linalg = torch.linalg


def cases(n: int) -> Cases:
    """Calls of n by n matrices."""
    return {**_factors(n), **_systems(n), **_spectra(n), **_functions(n), **_reflectors(n), **_batches(n)}


def _factors(n: int) -> Cases:
    a, b = double(n, n) + 4 * torch.eye(n).double(), double(n, 2, seed=2)
    spd, symmetric = a @ a.mT + torch.eye(n).double(), a + a.mT
    lower, factors, pivots = linalg.cholesky(spd), *linalg.lu_factor(a)
    ldl, packed = trnsolver.ldl(symmetric), linalg.ldl_factor(symmetric)
    return {
        "cholesky": (f(trnsolver.cholesky, spd), "torch.linalg", f(linalg.cholesky, spd)),
        "cholesky_solve": (f(trnsolver.cholesky_solve, b, lower), "torch", f(torch.cholesky_solve, b, lower)),
        "cholesky_inverse": (f(trnsolver.cholesky_inverse, lower), "torch", f(torch.cholesky_inverse, lower)),
        "lu": (f(trnsolver.lu, a), "torch.linalg", f(linalg.lu, a)),
        "lu_factor": (f(trnsolver.lu_factor, a), "torch.linalg", f(linalg.lu_factor, a)),
        "lu_solve": (f(trnsolver.lu_solve, factors, pivots, b), "torch.linalg", f(linalg.lu_solve, factors, pivots, b)),
        "lu_inverse": (
            f(trnsolver.lu_inverse, factors, pivots),
            "torch.linalg",
            f(linalg.lu_solve, factors, pivots, torch.eye(n).double()),
        ),
        "ldl": (f(trnsolver.ldl, symmetric), "torch.linalg", f(linalg.ldl_factor, symmetric)),
        "ldl_solve": (f(trnsolver.ldl_solve, *ldl, b), "torch.linalg", f(linalg.ldl_solve, *packed, b)),
        "ldl_inverse": (
            f(trnsolver.ldl_inverse, *ldl),
            "torch.linalg",
            f(linalg.ldl_solve, *packed, torch.eye(n).double()),
        ),
        "qr": (f(trnsolver.qr, a), "torch.linalg", f(linalg.qr, a)),
        "qr_pivoted": (f(trnsolver.qr_pivoted, a), "scipy.linalg", f(scipy.linalg.qr, a.numpy(), pivoting=True)),
    }


def _systems(n: int) -> Cases:
    a, b, tall = double(n, n) + 4 * torch.eye(n).double(), double(n, 2, seed=2), double(2 * n, n)
    spd, right = a @ a.mT + torch.eye(n).double(), double(2 * n, 2)
    bands, diagonals = double(3, n) + 4 * torch.eye(3, n).double(), (double(n - 1), 4 + double(n).abs(), double(n - 1))
    arrays = bands.numpy(), b.numpy()
    target = {"target_error": 1e-8}
    return {
        "solve": (f(trnsolver.solve, a, b), "torch.linalg", f(linalg.solve, a, b)),
        "solve target_error": (f(trnsolver.solve, a, b, **target), "torch.linalg", f(linalg.solve, a, b)),
        "solve_spd": (
            f(trnsolver.solve_spd, spd, b),
            "torch, two calls",
            lambda: torch.cholesky_solve(b, linalg.cholesky(spd)),
        ),
        "solve_triangular": (
            f(trnsolver.solve_triangular, a, b, upper=True),
            "torch.linalg",
            f(linalg.solve_triangular, a, b, upper=True),
        ),
        "solve_banded": (
            f(trnsolver.solve_banded, (1, 1), bands, b),
            "scipy.linalg",
            f(scipy.linalg.solve_banded, (1, 1), *arrays),
        ),
        "solve_tridiagonal": (
            f(trnsolver.solve_tridiagonal, *diagonals, b),
            "scipy.linalg",
            f(lapack.dgtsv, *(x.numpy() for x in diagonals), arrays[1]),
        ),
        "inv": (f(trnsolver.inv, a), "torch.linalg", f(linalg.inv, a)),
        "inv_spd": (f(trnsolver.inv_spd, spd), "torch.linalg", f(linalg.inv, spd)),
        "inv_triangular": (
            f(trnsolver.inv_triangular, a),
            "torch.linalg",
            f(linalg.solve_triangular, a, torch.eye(n).double(), upper=True),
        ),
        "det": (f(trnsolver.det, a), "torch.linalg", f(linalg.det, a)),
        "slogdet": (f(trnsolver.slogdet, a), "torch.linalg", f(linalg.slogdet, a)),
        "lstsq": (f(trnsolver.lstsq, tall, right), "torch.linalg", f(linalg.lstsq, tall, right)),
        "lstsq target_error": (f(trnsolver.lstsq, tall, right, **target), "torch.linalg", f(linalg.lstsq, tall, right)),
        "pinv": (f(trnsolver.pinv, tall), "torch.linalg", f(linalg.pinv, tall)),
        "matrix_rank": (f(trnsolver.matrix_rank, tall), "torch.linalg", f(linalg.matrix_rank, tall)),
        "cond": (f(trnsolver.cond, a), "torch.linalg", f(linalg.cond, a)),
        "cond_estimate": (f(trnsolver.cond_estimate, a), "torch.linalg, exact", f(linalg.cond, a, 1)),
        "null_space": (
            f(trnsolver.null_space, tall.mT.contiguous()),
            "scipy.linalg",
            f(scipy.linalg.null_space, tall.mT.numpy()),
        ),
        "orth": (f(trnsolver.orth, tall), "scipy.linalg", f(scipy.linalg.orth, tall.numpy())),
    }


def _spectra(n: int) -> Cases:
    a = double(n, n)
    spd = a @ a.mT + torch.eye(n).double()
    array, definite = a.numpy(), spd.numpy()
    rank = min(4, n // 2)
    return {
        "svd": (f(trnsolver.svd, a), "torch.linalg", f(linalg.svd, a)),
        "svdvals": (f(trnsolver.svdvals, a), "torch.linalg", f(linalg.svdvals, a)),
        "svd_randomized": (f(trnsolver.svd_randomized, a, rank), "torch", f(torch.svd_lowrank, a, rank)),
        "eigh": (f(trnsolver.eigh, spd), "torch.linalg", f(linalg.eigh, spd)),
        "eigh target_error": (f(trnsolver.eigh, spd, target_error=1e-8), "torch.linalg", f(linalg.eigh, spd)),
        "eigvalsh": (f(trnsolver.eigvalsh, spd), "torch.linalg", f(linalg.eigvalsh, spd)),
        "eigh_generalized": (
            f(trnsolver.eigh_generalized, spd, spd),
            "scipy.linalg",
            f(scipy.linalg.eigh, definite, definite),
        ),
        "eigh_randomized": (
            f(trnsolver.eigh_randomized, spd, rank),
            "torch.svd_lowrank",
            f(torch.svd_lowrank, spd, rank),
        ),
        "eig": (f(trnsolver.eig, a), "torch.linalg", f(linalg.eig, a)),
        "eigvals": (f(trnsolver.eigvals, a), "torch.linalg", f(linalg.eigvals, a)),
        "schur": (f(trnsolver.schur, a), "scipy.linalg", f(scipy.linalg.schur, array)),
        "hessenberg": (f(trnsolver.hessenberg, a), "scipy.linalg", f(scipy.linalg.hessenberg, array, calc_q=True)),
    }


def _functions(n: int) -> Cases:
    a = double(n, n) / n**0.5
    spd = a @ a.mT + torch.eye(n).double()
    definite, array = spd.numpy(), a.numpy()
    # half of its eigenvalues are negative, and none near zero
    mixed = (
        spd * torch.where(torch.arange(n) % 2 == 0, 1.0, -1.0).double()
        + 2 * torch.diag((-1.0) ** torch.arange(n)).double()
    )
    return {
        "expm": (f(trnsolver.expm, a), "torch.linalg", f(linalg.matrix_exp, a)),
        "logm": (f(trnsolver.logm, spd), "scipy.linalg", f(scipy.linalg.logm, definite)),
        "sqrtm": (f(trnsolver.sqrtm, spd), "scipy.linalg", f(scipy.linalg.sqrtm, definite)),
        "inv_sqrt_spd": (
            f(trnsolver.inv_sqrt_spd, spd),
            "scipy.linalg, two calls",
            lambda: np.linalg.inv(scipy.linalg.sqrtm(definite)),
        ),
        "sign": (f(trnsolver.sign, mixed), "scipy.linalg.signm", f(scipy.linalg.signm, mixed.numpy())),
        "polar": (f(trnsolver.polar, a), "scipy.linalg", f(scipy.linalg.polar, array)),
    }


def _reflectors(n: int) -> Cases:
    a, other = double(n, n), double(n, 3, seed=2)
    factors, tau = torch.geqrf(a)
    form = trnsolver.gebrd(a)
    product = f(linalg.householder_product, factors, tau)
    return {
        "geqrf": (f(trnsolver.geqrf, a), "torch", f(torch.geqrf, a)),
        "ormqr": (f(trnsolver.ormqr, factors, tau, other), "torch", f(torch.ormqr, factors, tau, other)),
        "householder_product": (
            f(trnsolver.householder_product, factors, tau),
            "torch.linalg",
            product,
        ),
        "larft": (
            f(trnsolver.larft, factors.tril(-1) + torch.eye(n).double(), tau),
            "torch.linalg.householder_product",
            product,
        ),
        "gebrd": (f(trnsolver.gebrd, a), "torch.geqrf, twice", lambda: (torch.geqrf(a), torch.geqrf(a))),
        "orgbr": (f(trnsolver.orgbr, form), "torch.linalg.householder_product", product),
        "ormbr": (f(trnsolver.ormbr, form, other), "torch.ormqr", f(torch.ormqr, factors, tau, other)),
    }


def _batches(n: int) -> Cases:
    count, size = 4 * n, 8
    a, b = double(count, size, size) + 4 * torch.eye(size).double(), double(count, size, 2, seed=2)
    spd, symmetric = a @ a.mT + torch.eye(size).double(), a + a.mT
    return {
        "solve batch": (f(trnsolver.solve, a, b), "torch.linalg", f(linalg.solve, a, b)),
        "lstsq batch": (f(trnsolver.lstsq, a, b), "torch.linalg", f(linalg.lstsq, a, b)),
        "ldl batch": (f(trnsolver.ldl, symmetric), "torch.linalg", f(linalg.ldl_factor, symmetric)),
        "eigh batch": (f(trnsolver.eigh, spd), "torch.linalg", f(linalg.eigh, spd)),
        "svd batch": (f(trnsolver.svd, a), "torch.linalg", f(linalg.svd, a)),
        "expm batch": (f(trnsolver.expm, a), "torch.linalg", f(linalg.matrix_exp, a)),
        "sqrtm batch": (
            f(trnsolver.sqrtm, spd[:n]),
            "scipy.linalg, each",
            lambda: [scipy.linalg.sqrtm(one) for one in spd[:n].numpy()],
        ),
    }
