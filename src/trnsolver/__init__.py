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

from trnsci import HAS_NKI as HAS_NKI, earlier, library_functions as _library_functions
from trnsim.lazy import export as _export
from trnsolver.dense.bidiagonal import (
    Bidiagonal as Bidiagonal,
    gebrd as gebrd,
    larft as larft,
    orgbr as orgbr,
    ormbr as ormbr,
)
from trnsolver.dense.cholesky import (
    cholesky as cholesky,
    cholesky_inverse as cholesky_inverse,
    cholesky_solve as cholesky_solve,
)
from trnsolver.dense.condition import cond as cond, cond_estimate as cond_estimate
from trnsolver.dense.expm import expm as expm
from trnsolver.dense.householder import (
    Reflectors as Reflectors,
    geqrf as geqrf,
    householder_product as householder_product,
    ormqr as ormqr,
)
from trnsolver.dense.inv_sqrt_spd import inv_sqrt_spd as inv_sqrt_spd
from trnsolver.dense.inv_triangular import inv_triangular as inv_triangular
from trnsolver.dense.ldl import LDL as LDL, ldl as ldl, ldl_inverse as ldl_inverse, ldl_solve as ldl_solve
from trnsolver.dense.lstsq import LeastSquares as LeastSquares, lstsq as lstsq
from trnsolver.dense.lu import (
    LU as LU,
    PLU as PLU,
    lu as lu,
    lu_factor as lu_factor,
    lu_inverse as lu_inverse,
    lu_solve as lu_solve,
)
from trnsolver.dense.pinv import matrix_rank as matrix_rank, null_space as null_space, orth as orth, pinv as pinv
from trnsolver.dense.polar import Polar as Polar, polar as polar, sign as sign
from trnsolver.dense.qr import QR as QR, PivotedQR as PivotedQR, qr as qr, qr_pivoted as qr_pivoted
from trnsolver.dense.roots import logm as logm, sqrtm as sqrtm
from trnsolver.dense.solve import SlogDet as SlogDet, det as det, inv as inv, slogdet as slogdet, solve as solve
from trnsolver.dense.solve_banded import solve_banded as solve_banded, solve_tridiagonal as solve_tridiagonal
from trnsolver.dense.solve_triangular import solve_triangular as solve_triangular
from trnsolver.dense.spd import inv_spd as inv_spd, solve_spd as solve_spd
from trnsolver.eigen.davidson import davidson as davidson
from trnsolver.eigen.eig import (
    Eig as Eig,
    Hessenberg as Hessenberg,
    Schur as Schur,
    SortedSchur as SortedSchur,
    eig as eig,
    eigvals as eigvals,
    hessenberg as hessenberg,
    schur as schur,
)
from trnsolver.eigen.eigenpairs import Pairs as Pairs
from trnsolver.eigen.eigh import Eigh as Eigh, eigh as eigh, eigvalsh as eigvalsh
from trnsolver.eigen.eigsh import Count as Count, count_eigenvalues as count_eigenvalues, eigsh as eigsh
from trnsolver.eigen.generalized import eigh_generalized as eigh_generalized
from trnsolver.eigen.lanczos import arnoldi as arnoldi, lanczos as lanczos, lobpcg as lobpcg
from trnsolver.eigen.randomized import (
    LowRank as LowRank,
    eigh_randomized as eigh_randomized,
    svd_randomized as svd_randomized,
)
from trnsolver.eigen.svd import SVD as SVD, svd as svd, svdvals as svdvals
from trnsolver.eigen.trace import TraceEstimate as TraceEstimate, trace as trace
from trnsolver.krylov.cg import block_cg as block_cg, cg as cg
from trnsolver.krylov.chebyshev import chebyshev as chebyshev, chebyshev_preconditioner as chebyshev_preconditioner
from trnsolver.krylov.gmres import bicgstab as bicgstab, gmres as gmres, minres as minres
from trnsolver.krylov.iteration import Result as Result
from trnsolver.krylov.lsqr import lsmr as lsmr, lsqr as lsqr
from trnsolver.krylov.preconditioners import (
    block_jacobi_preconditioner as block_jacobi_preconditioner,
    ic0_preconditioner as ic0_preconditioner,
    ilu0_preconditioner as ilu0_preconditioner,
    jacobi_preconditioner as jacobi_preconditioner,
    ssor_preconditioner as ssor_preconditioner,
)
from trnsolver.sparse_direct.orderings import fill_ordering as fill_ordering, zero_free_diagonal as zero_free_diagonal
from trnsolver.sparse_direct.sparse_factor import (
    SparseFactor as SparseFactor,
    factor_sparse as factor_sparse,
    solve_sparse as solve_sparse,
)

set_backend, get_backend = _library_functions("trnsolver")
earlier.spell(__name__)
_export(__name__)
