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
| `det` `slogdet` `matrix_rank` `cond` `cond_estimate` `null_space` `orth` | numbers and spaces |
| `expm` `logm` `sqrtm` `inv_sqrt_spd` `sign` `polar` | functions of matrices |
| `cg` `block_cg` `chebyshev` `minres` `bicgstab` `gmres` `lsqr` `lsmr` | iterative solvers; they return a `Result` |
| `lanczos` `arnoldi` `lobpcg` `davidson` `svd_randomized` `eigh_randomized` | a few eigenpairs; a low rank |
| `eigsh` `count_eigenvalues` | eigenvalues inside the spectrum of sparse matrices |
| `jacobi_preconditioner` `ssor_preconditioner` `ic0_preconditioner` `ilu0_preconditioner` ... | preconditioners |
"""

from typing import TYPE_CHECKING

from trnsci import HAS_NKI, earlier, library_functions
from trnsolver.bidiagonal import Bidiagonal, gebrd, larft, orgbr, ormbr
from trnsolver.cg import block_cg, cg
from trnsolver.chebyshev import chebyshev, chebyshev_preconditioner
from trnsolver.cholesky import cholesky, cholesky_inverse, cholesky_solve
from trnsolver.davidson import davidson
from trnsolver.eig import Eig, Hessenberg, Schur, SortedSchur, eig, eigvals, hessenberg, schur
from trnsolver.eigh import Eigh, eigh, eigvalsh
from trnsolver.eigsh import Count, count_eigenvalues, eigsh
from trnsolver.expm import expm
from trnsolver.functions import Polar, polar, sign
from trnsolver.generalized import eigh_generalized
from trnsolver.householder import Reflectors, geqrf, householder_product, ormqr
from trnsolver.inv_sqrt_spd import inv_sqrt_spd
from trnsolver.inv_triangular import inv_triangular
from trnsolver.krylov import bicgstab, gmres, minres
from trnsolver.lanczos import arnoldi, lanczos, lobpcg
from trnsolver.ldl import LDL, ldl, ldl_inverse, ldl_solve
from trnsolver.lsqr import lsmr, lsqr
from trnsolver.lstsq import LeastSquares, lstsq
from trnsolver.lu import LU, PLU, lu, lu_factor, lu_inverse, lu_solve
from trnsolver.norms import cond, cond_estimate
from trnsolver.orderings import fill_ordering, zero_free_diagonal
from trnsolver.pinv import matrix_rank, null_space, orth, pinv
from trnsolver.preconditioners import (
    block_jacobi_preconditioner,
    ic0_preconditioner,
    ilu0_preconditioner,
    jacobi_preconditioner,
    ssor_preconditioner,
)
from trnsolver.problems import Result
from trnsolver.qr import QR, PivotedQR, qr, qr_pivoted
from trnsolver.randomized import LowRank, eigh_randomized, svd_randomized
from trnsolver.roots import logm, sqrtm
from trnsolver.searches import Pairs
from trnsolver.solve import SlogDet, det, inv, slogdet, solve
from trnsolver.solve_banded import solve_banded, solve_tridiagonal
from trnsolver.solve_triangular import solve_triangular
from trnsolver.sparse_factor import SparseFactor, factor_sparse, solve_sparse
from trnsolver.spd import inv_spd, solve_spd
from trnsolver.svd import SVD, svd, svdvals

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
    "zero_free_diagonal",
]
