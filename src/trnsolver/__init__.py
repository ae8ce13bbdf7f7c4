"""trnsolver: factorisations, eigenproblems and solvers for Trainium.

| names | what they compute |
|---|---|
| `cholesky` `lu` `lu_factor` `ldl` `qr` `qr_pivoted` `geqrf` | factorisations |
| `cholesky_solve` `cholesky_inverse` `lu_solve` `lu_inverse` `ldl_solve` `ldl_inverse` | solutions from factors |
| `householder_product` `ormqr` `larft` | Q from its reflections |
| `gebrd` `orgbr` `ormbr` | bidiagonal form, and its reflections |
| `solve` `solve_triangular` `solve_spd` `solve_banded` `solve_tridiagonal` `lstsq` | systems |
| `factor_sparse` `solve_sparse` `fill_ordering` `zero_free_diagonal` | sparse direct solvers |
| `inv` `inv_spd` `inv_triangular` `pinv` | inverses |
| `eigh` `eigvalsh` `eigh_generalized` `eig` `eigvals` `schur` `hessenberg` `svd` `svdvals` | spectra |
| `det` `slogdet` `trace` `matrix_rank` `cond` `cond_estimate` `null_space` `orth` | numbers and spaces |
| `expm` `logm` `sqrtm` `inv_sqrt_spd` `sign` `polar` | functions of matrices |
| `cg` `block_cg` `chebyshev` `minres` `bicgstab` `gmres` `lsqr` `lsmr` | iterative solvers; they return a `Result` |
| `lanczos` `arnoldi` `lobpcg` `davidson` `svd_randomized` `eigh_randomized` | a few eigenpairs; a low rank |
| `eigsh` `count_eigenvalues` | eigenvalues inside the spectrum of sparse matrices |
| `jacobi_preconditioner` `ssor_preconditioner` `ic0_preconditioner` `ilu0_preconditioner` ... | preconditioners |
"""

from typing import TYPE_CHECKING

from trnsci import HAS_NKI, earlier, library_functions
from trnsolver.dense.bidiagonal import Bidiagonal, gebrd, larft, orgbr, ormbr
from trnsolver.dense.cholesky import cholesky, cholesky_inverse, cholesky_solve
from trnsolver.dense.condition import cond, cond_estimate
from trnsolver.dense.expm import expm
from trnsolver.dense.householder import Reflectors, geqrf, householder_product, ormqr
from trnsolver.dense.inv_sqrt_spd import inv_sqrt_spd
from trnsolver.dense.inv_triangular import inv_triangular
from trnsolver.dense.ldl import LDL, ldl, ldl_inverse, ldl_solve
from trnsolver.dense.lstsq import LeastSquares, lstsq
from trnsolver.dense.lu import LU, PLU, lu, lu_factor, lu_inverse, lu_solve
from trnsolver.dense.pinv import matrix_rank, null_space, orth, pinv
from trnsolver.dense.polar import Polar, polar, sign
from trnsolver.dense.qr import QR, PivotedQR, qr, qr_pivoted
from trnsolver.dense.roots import logm, sqrtm
from trnsolver.dense.solve import SlogDet, det, inv, slogdet, solve
from trnsolver.dense.solve_banded import solve_banded, solve_tridiagonal
from trnsolver.dense.solve_triangular import solve_triangular
from trnsolver.dense.spd import inv_spd, solve_spd
from trnsolver.eigen.davidson import davidson
from trnsolver.eigen.eig import Eig, Hessenberg, Schur, SortedSchur, eig, eigvals, hessenberg, schur
from trnsolver.eigen.eigenpairs import Pairs
from trnsolver.eigen.eigh import Eigh, eigh, eigvalsh
from trnsolver.eigen.eigsh import Count, count_eigenvalues, eigsh
from trnsolver.eigen.generalized import eigh_generalized
from trnsolver.eigen.lanczos import arnoldi, lanczos, lobpcg
from trnsolver.eigen.randomized import LowRank, eigh_randomized, svd_randomized
from trnsolver.eigen.svd import SVD, svd, svdvals
from trnsolver.eigen.trace import TraceEstimate, trace
from trnsolver.krylov.cg import block_cg, cg
from trnsolver.krylov.chebyshev import chebyshev, chebyshev_preconditioner
from trnsolver.krylov.gmres import bicgstab, gmres, minres
from trnsolver.krylov.iteration import Result
from trnsolver.krylov.lsqr import lsmr, lsqr
from trnsolver.krylov.preconditioners import (
    block_jacobi_preconditioner,
    ic0_preconditioner,
    ilu0_preconditioner,
    jacobi_preconditioner,
    ssor_preconditioner,
)
from trnsolver.sparse_direct.orderings import fill_ordering, zero_free_diagonal
from trnsolver.sparse_direct.sparse_factor import SparseFactor, factor_sparse, solve_sparse

set_backend, get_backend = library_functions("trnsolver")

if not TYPE_CHECKING:
    __getattr__ = earlier.names(__name__)

__all__ = [
    "HAS_NKI",
    "LDL",
    "LU",
    "PLU",
    "QR",
    "SVD",
    "Bidiagonal",
    "Count",
    "Eig",
    "Eigh",
    "Hessenberg",
    "LeastSquares",
    "LowRank",
    "Pairs",
    "PivotedQR",
    "Polar",
    "Reflectors",
    "Result",
    "Schur",
    "SlogDet",
    "SortedSchur",
    "SparseFactor",
    "TraceEstimate",
    "arnoldi",
    "bicgstab",
    "block_cg",
    "block_jacobi_preconditioner",
    "cg",
    "chebyshev",
    "chebyshev_preconditioner",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "cond",
    "cond_estimate",
    "count_eigenvalues",
    "davidson",
    "det",
    "eig",
    "eigh",
    "eigh_generalized",
    "eigh_randomized",
    "eigsh",
    "eigvals",
    "eigvalsh",
    "expm",
    "factor_sparse",
    "fill_ordering",
    "gebrd",
    "geqrf",
    "get_backend",
    "gmres",
    "hessenberg",
    "householder_product",
    "ic0_preconditioner",
    "ilu0_preconditioner",
    "inv",
    "inv_spd",
    "inv_sqrt_spd",
    "inv_triangular",
    "jacobi_preconditioner",
    "lanczos",
    "larft",
    "ldl",
    "ldl_inverse",
    "ldl_solve",
    "lobpcg",
    "logm",
    "lsmr",
    "lsqr",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_inverse",
    "lu_solve",
    "matrix_rank",
    "minres",
    "null_space",
    "orgbr",
    "ormbr",
    "ormqr",
    "orth",
    "pinv",
    "polar",
    "qr",
    "qr_pivoted",
    "schur",
    "set_backend",
    "sign",
    "slogdet",
    "solve",
    "solve_banded",
    "solve_sparse",
    "solve_spd",
    "solve_triangular",
    "solve_tridiagonal",
    "sqrtm",
    "ssor_preconditioner",
    "svd",
    "svd_randomized",
    "svdvals",
    "trace",
    "zero_free_diagonal",
]
