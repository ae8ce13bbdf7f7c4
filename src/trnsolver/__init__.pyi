"""Types of trnsolver: written by ``python -m tools.stubs`` from the signatures in the source."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor
from typing_extensions import TypeVar

from trnsci.arrays import Answer, Array
from trnsci.config import BackendName
from trnsci.figures import Axes
from trnsci.nki import HAS_NKI as HAS_NKI
from trnsolver.dense.bidiagonal import orgbr as orgbr
from trnsolver.dense.lstsq import Driver
from trnsolver.dense.qr import Mode
from trnsolver.eigen.eig import Sort
from trnsolver.eigen.eigh import Method
from trnsolver.eigen.eigsh import Count as Count, Which
from trnsolver.eigen.svd import Method as _svd_Method
from trnsolver.krylov.operators import Callback, LinearMap
from trnsolver.krylov.preconditioners import Preconditioner
from trnsolver.sparse_direct.compressed_rows import Stored
from trnsolver.sparse_direct.orderings import Ordering
from trnsolver.sparse_direct.sparse_factor import Kind, Method as _sparse_factor_Method, SparseFactor as SparseFactor

A = TypeVar("A", default=Tensor)

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

class Bidiagonal(NamedTuple, Generic[A]):
    factors: A
    d: A
    e: A
    tauq: A
    taup: A
    def dense(self) -> A: ...

class Eig(NamedTuple, Generic[A]):
    values: A
    vectors: A
    @property
    def eigenvalues(self) -> A: ...
    @property
    def eigenvectors(self) -> A: ...

class Eigh(NamedTuple, Generic[A]):
    values: A
    vectors: A
    @property
    def eigenvalues(self) -> A: ...
    @property
    def eigenvectors(self) -> A: ...

class Hessenberg(NamedTuple, Generic[A]):
    h: A
    q: A

class LDL(NamedTuple, Generic[A]):
    l: A
    d: A
    order: A

class LU(NamedTuple, Generic[A]):
    factors: A
    pivots: A
    @property
    def LU(self) -> A: ...

class LeastSquares(NamedTuple, Generic[A]):
    solution: A
    residuals: A
    rank: A
    singular_values: A

@dataclass(frozen=True, slots=True, kw_only=True)
class LowRank(Answer, Generic[A]):
    u: A
    s: A
    vh: A
    error: A

class PLU(NamedTuple, Generic[A]):
    P: A
    L: A
    U: A

@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Answer, Generic[A]):
    values: A
    vectors: A
    residuals: A
    converged: bool
    iterations: int
    def require(self) -> Pairs[A]: ...

class PivotedQR(NamedTuple, Generic[A]):
    q: A
    r: A
    order: A

class Polar(NamedTuple, Generic[A]):
    u: A
    p: A

class QR(NamedTuple, Generic[A]):
    q: A
    r: A
    @property
    def Q(self) -> A: ...
    @property
    def R(self) -> A: ...

class Reflectors(NamedTuple, Generic[A]):
    factors: A
    tau: A
    @property
    def a(self) -> A: ...

@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(Answer, Generic[A]):
    x: A
    converged: bool
    iterations: int
    residuals: tuple[float, ...]
    op: str
    def __iter__(self) -> Iterator[Any]: ...
    def plot(self, axes: Axes | None = ...) -> Axes: ...
    def require(self) -> A: ...

class SVD(NamedTuple, Generic[A]):
    u: A
    s: A
    vh: A
    @property
    def U(self) -> A: ...
    @property
    def S(self) -> A: ...
    @property
    def Vh(self) -> A: ...

class Schur(NamedTuple, Generic[A]):
    t: A
    z: A

class SlogDet(NamedTuple, Generic[A]):
    sign: A
    logabsdet: A

class SortedSchur(NamedTuple, Generic[A]):
    t: A
    z: A
    sdim: A

@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEstimate(Answer, Generic[A]):
    value: A
    error: A
    products: int

@overload
def arnoldi(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    k: int,
    *,
    n: int | None = None,
    which: Literal["magnitude", "largest", "smallest"] = "magnitude",
    tol: float = 1e-06,
    maxiter: int | None = None,
    dtype: torch.dtype = ...,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Pairs: ...
@overload
def arnoldi(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    k: int,
    *,
    n: int | None = None,
    which: Literal["magnitude", "largest", "smallest"] = "magnitude",
    tol: float = 1e-06,
    maxiter: int | None = None,
    dtype: torch.dtype = ...,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Pairs[Array]: ...
@overload
def bicgstab(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
) -> Result: ...
@overload
def bicgstab(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    b: Array,
    *,
    x0: Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
) -> Result[Array]: ...
@overload
def bicgstab(
    a: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]],
    b: Tensor | Array,
    *,
    x0: Tensor | Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
) -> Result: ...
@overload
def block_cg(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
) -> Result: ...
@overload
def block_cg(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    b: Array,
    *,
    x0: Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
) -> Result[Array]: ...
@overload
def block_cg(
    a: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]],
    b: Tensor | Array,
    *,
    x0: Tensor | Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
) -> Result: ...
def block_jacobi_preconditioner(a: Array, size: int) -> Preconditioner: ...
@overload
def cg(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
) -> Result: ...
@overload
def cg(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    b: Array,
    *,
    x0: Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
) -> Result[Array]: ...
@overload
def cg(
    a: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]],
    b: Tensor | Array,
    *,
    x0: Tensor | Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
) -> Result: ...
@overload
def chebyshev(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    b: Tensor,
    *,
    low: float,
    high: float,
    x0: Tensor | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
) -> Result: ...
@overload
def chebyshev(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    b: Array,
    *,
    low: float,
    high: float,
    x0: Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
) -> Result[Array]: ...
@overload
def chebyshev(
    a: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]],
    b: Tensor | Array,
    *,
    low: float,
    high: float,
    x0: Tensor | Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
) -> Result: ...
def chebyshev_preconditioner(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    low: float,
    high: float,
    *,
    degree: int = 4,
) -> Preconditioner: ...
@overload
def cholesky(a: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor: ...
@overload
def cholesky(a: Array, *, upper: bool = False, out: Array | None = None) -> Array: ...
@overload
def cholesky(a: Tensor | Array, *, upper: bool = False, out: Tensor | Array | None = None) -> Tensor: ...
@overload
def cholesky_inverse(factor: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cholesky_inverse(factor: Array, upper: bool = False, *, out: Array | None = None) -> Array: ...
@overload
def cholesky_inverse(factor: Tensor | Array, upper: bool = False, *, out: Tensor | Array | None = None) -> Tensor: ...
@overload
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cholesky_solve(b: Array, factor: Array, upper: bool = False, *, out: Array | None = None) -> Array: ...
@overload
def cholesky_solve(
    b: Tensor | Array, factor: Tensor | Array, upper: bool = False, *, out: Tensor | Array | None = None
) -> Tensor: ...
@overload
def cond(a: Tensor, p: int | float | str | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def cond(a: Array, p: int | float | str | None = None, *, out: Array | None = None) -> Array: ...
@overload
def cond(a: Tensor | Array, p: int | float | str | None = None, *, out: Tensor | Array | None = None) -> Tensor: ...
@overload
def cond_estimate(a: Tensor) -> Tensor: ...
@overload
def cond_estimate(a: Array) -> Array: ...
def count_eigenvalues(a: Stored | Array, interval: tuple[float, float], *, ordering: Ordering = "amd") -> Count: ...
@overload
def davidson(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    k: int,
    *,
    diagonal: Tensor | None = None,
    x0: Tensor | None = None,
    which: Literal["smallest", "largest"] = "smallest",
    tol: float = 1e-06,
    maxiter: int = 200,
    space: int | None = None,
    callback: Callback | None = None,
) -> Pairs: ...
@overload
def davidson(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    k: int,
    *,
    diagonal: Array | None = None,
    x0: Array | None = None,
    which: Literal["smallest", "largest"] = "smallest",
    tol: float = 1e-06,
    maxiter: int = 200,
    space: int | None = None,
    callback: Callback | None = None,
) -> Pairs[Array]: ...
@overload
def davidson(
    a: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]],
    k: int,
    *,
    diagonal: Tensor | Array | None = None,
    x0: Tensor | Array | None = None,
    which: Literal["smallest", "largest"] = "smallest",
    tol: float = 1e-06,
    maxiter: int = 200,
    space: int | None = None,
    callback: Callback | None = None,
) -> Pairs: ...
@overload
def det(a: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def det(a: Array, *, out: Array | None = None) -> Array: ...
@overload
def det(a: Tensor | Array, *, out: Tensor | Array | None = None) -> Tensor: ...
@overload
def eig(a: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> Eig: ...
@overload
def eig(a: Array, *, out: tuple[Array, Array] | None = None) -> Eig[Array]: ...
@overload
def eig(a: Tensor | Array, *, out: tuple[Tensor | Array, Tensor | Array] | None = None) -> Eig: ...
@overload
def eigh(
    a: Tensor,
    UPLO: str = "L",
    *,
    uplo: str | None = None,
    subset: tuple[int, int] | None = None,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    target_error: float | None = None,
    method: Method = "auto",
    out: tuple[Tensor, Tensor] | None = None,
) -> Eigh: ...
@overload
def eigh(
    a: Array,
    UPLO: str = "L",
    *,
    uplo: str | None = None,
    subset: tuple[int, int] | None = None,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    target_error: float | None = None,
    method: Method = "auto",
    out: tuple[Array, Array] | None = None,
) -> Eigh[Array]: ...
@overload
def eigh(
    a: Tensor | Array,
    UPLO: str = "L",
    *,
    uplo: str | None = None,
    subset: tuple[int, int] | None = None,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    target_error: float | None = None,
    method: Method = "auto",
    out: tuple[Tensor | Array, Tensor | Array] | None = None,
) -> Eigh: ...
@overload
def eigh_generalized(a: Tensor, b: Tensor, *, kind: int = 1) -> Eigh: ...
@overload
def eigh_generalized(a: Array, b: Array, *, kind: int = 1) -> Eigh[Array]: ...
@overload
def eigh_generalized(a: Tensor | Array, b: Tensor | Array, *, kind: int = 1) -> Eigh: ...
@overload
def eigh_randomized(
    a: Tensor, k: int, *, oversampling: int = 10, power_iterations: int = 2, probes: int = 6, seed: int = 0
) -> LowRank: ...
@overload
def eigh_randomized(
    a: Array, k: int, *, oversampling: int = 10, power_iterations: int = 2, probes: int = 6, seed: int = 0
) -> LowRank[Array]: ...
@overload
def eigsh(
    a: Stored | Tensor,
    k: int = 6,
    *,
    sigma: float | None = None,
    which: Which = "LM",
    tol: float = 1e-10,
    maxiter: int | None = None,
    method: _sparse_factor_Method = "auto",
    seed: int = 0,
) -> Pairs: ...
@overload
def eigsh(
    a: Stored | Array,
    k: int = 6,
    *,
    sigma: float | None = None,
    which: Which = "LM",
    tol: float = 1e-10,
    maxiter: int | None = None,
    method: _sparse_factor_Method = "auto",
    seed: int = 0,
) -> Pairs[Array]: ...
@overload
def eigvals(a: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def eigvals(a: Array, *, out: Array | None = None) -> Array: ...
@overload
def eigvals(a: Tensor | Array, *, out: Tensor | Array | None = None) -> Tensor: ...
@overload
def eigvalsh(
    a: Tensor,
    UPLO: str = "L",
    *,
    uplo: str | None = None,
    subset: tuple[int, int] | None = None,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def eigvalsh(
    a: Array,
    UPLO: str = "L",
    *,
    uplo: str | None = None,
    subset: tuple[int, int] | None = None,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def eigvalsh(
    a: Tensor | Array,
    UPLO: str = "L",
    *,
    uplo: str | None = None,
    subset: tuple[int, int] | None = None,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def expm(a: Tensor) -> Tensor: ...
@overload
def expm(a: Array) -> Array: ...
def factor_sparse(
    a: Stored | Tensor | Array,
    *,
    kind: Kind = "lu",
    values: Tensor | Array | None = None,
    ordering: Ordering | Tensor | Array | None = None,
    method: _sparse_factor_Method = "auto",
) -> SparseFactor: ...
@overload
def fill_ordering(a: Stored | Tensor, *, method: Ordering = "amd") -> Tensor: ...
@overload
def fill_ordering(a: Stored | Array, *, method: Ordering = "amd") -> Array: ...
@overload
def gebrd(a: Tensor, *, out: tuple[Tensor, Tensor, Tensor, Tensor, Tensor] | None = None) -> Bidiagonal: ...
@overload
def gebrd(a: Array, *, out: tuple[Array, Array, Array, Array, Array] | None = None) -> Bidiagonal[Array]: ...
@overload
def gebrd(
    a: Tensor | Array,
    *,
    out: tuple[Tensor | Array, Tensor | Array, Tensor | Array, Tensor | Array, Tensor | Array] | None = None,
) -> Bidiagonal: ...
@overload
def geqrf(a: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> Reflectors: ...
@overload
def geqrf(a: Array, *, out: tuple[Array, Array] | None = None) -> Reflectors[Array]: ...
@overload
def geqrf(a: Tensor | Array, *, out: tuple[Tensor | Array, Tensor | Array] | None = None) -> Reflectors: ...
def get_backend() -> BackendName: ...
@overload
def gmres(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    restart: int = 30,
    flexible: bool = False,
    preconditioner: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
) -> Result: ...
@overload
def gmres(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    b: Array,
    *,
    x0: Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    restart: int = 30,
    flexible: bool = False,
    preconditioner: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
) -> Result[Array]: ...
@overload
def gmres(
    a: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]],
    b: Tensor | Array,
    *,
    x0: Tensor | Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    restart: int = 30,
    flexible: bool = False,
    preconditioner: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
) -> Result: ...
@overload
def hessenberg(a: Tensor) -> Hessenberg: ...
@overload
def hessenberg(a: Array) -> Hessenberg[Array]: ...
@overload
def householder_product(factors: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def householder_product(factors: Array, tau: Array, *, out: Array | None = None) -> Array: ...
@overload
def householder_product(
    factors: Tensor | Array, tau: Tensor | Array, *, out: Tensor | Array | None = None
) -> Tensor: ...
def ic0_preconditioner(a: Array) -> Preconditioner: ...
def ilu0_preconditioner(a: Array) -> Preconditioner: ...
@overload
def inv(a: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def inv(a: Array, *, out: Array | None = None) -> Array: ...
@overload
def inv(a: Tensor | Array, *, out: Tensor | Array | None = None) -> Tensor: ...
@overload
def inv_spd(a: Tensor) -> Tensor: ...
@overload
def inv_spd(a: Array) -> Array: ...
@overload
def inv_sqrt_spd(a: Tensor, *, method: Literal["eigen", "newton_schulz"] = "eigen") -> Tensor: ...
@overload
def inv_sqrt_spd(a: Array, *, method: Literal["eigen", "newton_schulz"] = "eigen") -> Array: ...
@overload
def inv_triangular(a: Tensor, *, lower: bool = False, unit: bool = False) -> Tensor: ...
@overload
def inv_triangular(a: Array, *, lower: bool = False, unit: bool = False) -> Array: ...
def jacobi_preconditioner(a: Array) -> Preconditioner: ...
@overload
def lanczos(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    k: int,
    *,
    n: int | None = None,
    which: Literal["largest", "smallest", "magnitude"] = "largest",
    tol: float = 1e-06,
    maxiter: int | None = None,
    dtype: torch.dtype = ...,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Pairs: ...
@overload
def lanczos(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    k: int,
    *,
    n: int | None = None,
    which: Literal["largest", "smallest", "magnitude"] = "largest",
    tol: float = 1e-06,
    maxiter: int | None = None,
    dtype: torch.dtype = ...,
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> Pairs[Array]: ...
@overload
def larft(
    v: Tensor,
    tau: Tensor,
    *,
    direct: Literal["forward", "backward"] = "forward",
    storev: Literal["columns", "rows"] = "columns",
) -> Tensor: ...
@overload
def larft(
    v: Array,
    tau: Array,
    *,
    direct: Literal["forward", "backward"] = "forward",
    storev: Literal["columns", "rows"] = "columns",
) -> Array: ...
@overload
def larft(
    v: Tensor | Array,
    tau: Tensor | Array,
    *,
    direct: Literal["forward", "backward"] = "forward",
    storev: Literal["columns", "rows"] = "columns",
) -> Tensor: ...
@overload
def ldl(a: Tensor, *, hermitian: bool = True) -> LDL: ...
@overload
def ldl(a: Array, *, hermitian: bool = True) -> LDL[Array]: ...
@overload
def ldl_inverse(l: Tensor, d: Tensor, order: Tensor, *, hermitian: bool = True) -> Tensor: ...
@overload
def ldl_inverse(l: Array, d: Array, order: Array, *, hermitian: bool = True) -> Array: ...
@overload
def ldl_inverse(l: Tensor | Array, d: Tensor | Array, order: Tensor | Array, *, hermitian: bool = True) -> Tensor: ...
@overload
def ldl_solve(l: Tensor, d: Tensor, order: Tensor, b: Tensor, *, hermitian: bool = True) -> Tensor: ...
@overload
def ldl_solve(l: Array, d: Array, order: Array, b: Array, *, hermitian: bool = True) -> Array: ...
@overload
def ldl_solve(
    l: Tensor | Array, d: Tensor | Array, order: Tensor | Array, b: Tensor | Array, *, hermitian: bool = True
) -> Tensor: ...
@overload
def lobpcg(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    x: Tensor,
    *,
    b: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
    preconditioner: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
    largest: bool = False,
    tol: float = 1e-06,
    maxiter: int = 200,
    callback: Callback | None = None,
) -> Pairs: ...
@overload
def lobpcg(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    x: Array,
    *,
    b: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
    preconditioner: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
    largest: bool = False,
    tol: float = 1e-06,
    maxiter: int = 200,
    callback: Callback | None = None,
) -> Pairs[Array]: ...
@overload
def lobpcg(
    a: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]],
    x: Tensor | Array,
    *,
    b: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
    preconditioner: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
    largest: bool = False,
    tol: float = 1e-06,
    maxiter: int = 200,
    callback: Callback | None = None,
) -> Pairs: ...
@overload
def logm(a: Tensor) -> Tensor: ...
@overload
def logm(a: Array) -> Array: ...
@overload
def lsmr(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    b: Tensor,
    *,
    x0: Tensor | None = None,
    damp: float = 0.0,
    tol: float = 1e-06,
    maxiter: int | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-06,
) -> Result: ...
@overload
def lsmr(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    b: Array,
    *,
    x0: Array | None = None,
    damp: float = 0.0,
    tol: float = 1e-06,
    maxiter: int | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-06,
) -> Result[Array]: ...
@overload
def lsmr(
    a: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]],
    b: Tensor | Array,
    *,
    x0: Tensor | Array | None = None,
    damp: float = 0.0,
    tol: float = 1e-06,
    maxiter: int | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-06,
) -> Result: ...
@overload
def lsqr(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    b: Tensor,
    *,
    x0: Tensor | None = None,
    damp: float = 0.0,
    tol: float = 1e-06,
    maxiter: int | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-06,
) -> Result: ...
@overload
def lsqr(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    b: Array,
    *,
    x0: Array | None = None,
    damp: float = 0.0,
    tol: float = 1e-06,
    maxiter: int | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-06,
) -> Result[Array]: ...
@overload
def lsqr(
    a: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]],
    b: Tensor | Array,
    *,
    x0: Tensor | Array | None = None,
    damp: float = 0.0,
    tol: float = 1e-06,
    maxiter: int | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-06,
) -> Result: ...
@overload
def lstsq(
    a: Tensor, b: Tensor, rcond: float | None = None, *, driver: Driver | None = None, target_error: float | None = None
) -> LeastSquares: ...
@overload
def lstsq(
    a: Array, b: Array, rcond: float | None = None, *, driver: Driver | None = None, target_error: float | None = None
) -> LeastSquares[Array]: ...
@overload
def lstsq(
    a: Tensor | Array,
    b: Tensor | Array,
    rcond: float | None = None,
    *,
    driver: Driver | None = None,
    target_error: float | None = None,
) -> LeastSquares: ...
@overload
def lu(a: Tensor, *, pivot: bool = True, out: tuple[Tensor, Tensor, Tensor] | None = None) -> PLU: ...
@overload
def lu(a: Array, *, pivot: bool = True, out: tuple[Array, Array, Array] | None = None) -> PLU[Array]: ...
@overload
def lu(
    a: Tensor | Array, *, pivot: bool = True, out: tuple[Tensor | Array, Tensor | Array, Tensor | Array] | None = None
) -> PLU: ...
@overload
def lu_factor(a: Tensor, *, pivot: bool = True, out: tuple[Tensor, Tensor] | None = None) -> LU: ...
@overload
def lu_factor(a: Array, *, pivot: bool = True, out: tuple[Array, Array] | None = None) -> LU[Array]: ...
@overload
def lu_factor(
    a: Tensor | Array, *, pivot: bool = True, out: tuple[Tensor | Array, Tensor | Array] | None = None
) -> LU: ...
@overload
def lu_inverse(factors: Tensor, pivots: Tensor) -> Tensor: ...
@overload
def lu_inverse(factors: Array, pivots: Array) -> Array: ...
@overload
def lu_inverse(factors: Tensor | Array, pivots: Tensor | Array) -> Tensor: ...
@overload
def lu_solve(
    factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def lu_solve(
    factors: Array, pivots: Array, b: Array, *, left: bool = True, adjoint: bool = False, out: Array | None = None
) -> Array: ...
@overload
def lu_solve(
    factors: Tensor | Array,
    pivots: Tensor | Array,
    b: Tensor | Array,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def matrix_rank(
    a: Tensor,
    *,
    rcond: float | None = None,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def matrix_rank(
    a: Array,
    *,
    rcond: float | None = None,
    atol: float | Array | None = None,
    rtol: float | Array | None = None,
    hermitian: bool = False,
    out: Array | None = None,
) -> Array: ...
@overload
def matrix_rank(
    a: Tensor | Array,
    *,
    rcond: float | None = None,
    atol: float | Tensor | Array | None = None,
    rtol: float | Tensor | Array | None = None,
    hermitian: bool = False,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def minres(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]
    | None = None,
) -> Result: ...
@overload
def minres(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    b: Array,
    *,
    x0: Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]]
    | None = None,
) -> Result[Array]: ...
@overload
def minres(
    a: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]],
    b: Tensor | Array,
    *,
    x0: Tensor | Array | None = None,
    tol: float = 1e-05,
    maxiter: int | None = None,
    preconditioner: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
    callback: Callback | None = None,
    rtol: float = 1e-05,
    M: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]]
    | None = None,
) -> Result: ...
@overload
def null_space(a: Tensor, rcond: float | None = None) -> Tensor: ...
@overload
def null_space(a: Array, rcond: float | None = None) -> Array: ...
@overload
def ormbr(
    form: Bidiagonal, other: Tensor, vect: Literal["q", "p"] = "q", *, left: bool = True, transpose: bool = False
) -> Tensor: ...
@overload
def ormbr(
    form: Bidiagonal[Array], other: Array, vect: Literal["q", "p"] = "q", *, left: bool = True, transpose: bool = False
) -> Array: ...
@overload
def ormqr(
    factors: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def ormqr(
    factors: Array, tau: Array, other: Array, left: bool = True, transpose: bool = False, *, out: Array | None = None
) -> Array: ...
@overload
def ormqr(
    factors: Tensor | Array,
    tau: Tensor | Array,
    other: Tensor | Array,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def orth(a: Tensor, rcond: float | None = None) -> Tensor: ...
@overload
def orth(a: Array, rcond: float | None = None) -> Array: ...
@overload
def pinv(
    a: Tensor,
    rcond: float | None = None,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def pinv(
    a: Array,
    rcond: float | None = None,
    *,
    atol: float | Array | None = None,
    rtol: float | Array | None = None,
    hermitian: bool = False,
    out: Array | None = None,
) -> Array: ...
@overload
def pinv(
    a: Tensor | Array,
    rcond: float | None = None,
    *,
    atol: float | Tensor | Array | None = None,
    rtol: float | Tensor | Array | None = None,
    hermitian: bool = False,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def polar(a: Tensor, side: Literal["right", "left"] = "right") -> Polar: ...
@overload
def polar(a: Array, side: Literal["right", "left"] = "right") -> Polar[Array]: ...
@overload
def qr(a: Tensor, mode: Mode = "reduced", *, out: tuple[Tensor, Tensor] | None = None) -> QR: ...
@overload
def qr(a: Array, mode: Mode = "reduced", *, out: tuple[Array, Array] | None = None) -> QR[Array]: ...
@overload
def qr(
    a: Tensor | Array, mode: Mode = "reduced", *, out: tuple[Tensor | Array, Tensor | Array] | None = None
) -> QR: ...
@overload
def qr_pivoted(a: Tensor, mode: Mode = "reduced") -> PivotedQR: ...
@overload
def qr_pivoted(a: Array, mode: Mode = "reduced") -> PivotedQR[Array]: ...
@overload
def schur(
    a: Tensor, output: Literal["real", "complex"] = "real", *, sort: Sort | Callable[..., bool] | None = None
) -> Schur | SortedSchur: ...
@overload
def schur(
    a: Array, output: Literal["real", "complex"] = "real", *, sort: Sort | Callable[..., bool] | None = None
) -> Schur[Array] | SortedSchur[Array]: ...
def set_backend(backend: BackendName | None, *, strict: bool = True) -> None: ...
@overload
def sign(a: Tensor) -> Tensor: ...
@overload
def sign(a: Array) -> Array: ...
@overload
def slogdet(a: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> SlogDet: ...
@overload
def slogdet(a: Array, *, out: tuple[Array, Array] | None = None) -> SlogDet[Array]: ...
@overload
def slogdet(a: Tensor | Array, *, out: tuple[Tensor | Array, Tensor | Array] | None = None) -> SlogDet: ...
@overload
def solve(
    a: Tensor,
    b: Tensor,
    *,
    left: bool = True,
    assume: Literal["gen", "pos"] = "gen",
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def solve(
    a: Array,
    b: Array,
    *,
    left: bool = True,
    assume: Literal["gen", "pos"] = "gen",
    target_error: float | None = None,
    out: Array | None = None,
) -> Array: ...
@overload
def solve(
    a: Tensor | Array,
    b: Tensor | Array,
    *,
    left: bool = True,
    assume: Literal["gen", "pos"] = "gen",
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def solve_banded(bands: tuple[int, int], ab: Tensor, b: Tensor) -> Tensor: ...
@overload
def solve_banded(bands: tuple[int, int], ab: Array, b: Array) -> Array: ...
@overload
def solve_banded(bands: tuple[int, int], ab: Tensor | Array, b: Tensor | Array) -> Tensor: ...
@overload
def solve_sparse(
    a: Stored | Tensor,
    b: Tensor,
    *,
    kind: Kind = "lu",
    values: Tensor | None = None,
    ordering: Ordering | Tensor | None = None,
    method: _sparse_factor_Method = "auto",
    target_error: float | None = None,
) -> Tensor: ...
@overload
def solve_sparse(
    a: Stored | Array,
    b: Array,
    *,
    kind: Kind = "lu",
    values: Array | None = None,
    ordering: Ordering | Array | None = None,
    method: _sparse_factor_Method = "auto",
    target_error: float | None = None,
) -> Array: ...
@overload
def solve_sparse(
    a: Stored | Tensor | Array,
    b: Tensor | Array,
    *,
    kind: Kind = "lu",
    values: Tensor | Array | None = None,
    ordering: Ordering | Tensor | Array | None = None,
    method: _sparse_factor_Method = "auto",
    target_error: float | None = None,
) -> Tensor: ...
@overload
def solve_spd(a: Tensor, b: Tensor) -> Tensor: ...
@overload
def solve_spd(a: Array, b: Array) -> Array: ...
@overload
def solve_spd(a: Tensor | Array, b: Tensor | Array) -> Tensor: ...
@overload
def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def solve_triangular(
    a: Array, b: Array, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Array | None = None
) -> Array: ...
@overload
def solve_triangular(
    a: Tensor | Array,
    b: Tensor | Array,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | Array | None = None,
) -> Tensor: ...
@overload
def solve_tridiagonal(lower: Tensor, diagonal: Tensor, upper: Tensor, b: Tensor) -> Tensor: ...
@overload
def solve_tridiagonal(lower: Array, diagonal: Array, upper: Array, b: Array) -> Array: ...
@overload
def solve_tridiagonal(
    lower: Tensor | Array, diagonal: Tensor | Array, upper: Tensor | Array, b: Tensor | Array
) -> Tensor: ...
@overload
def sqrtm(a: Tensor) -> Tensor: ...
@overload
def sqrtm(a: Array) -> Array: ...
def ssor_preconditioner(a: Array, *, omega: float = 1.0) -> Preconditioner: ...
@overload
def svd(
    a: Tensor,
    full_matrices: bool = True,
    *,
    method: _svd_Method = "auto",
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> SVD: ...
@overload
def svd(
    a: Array, full_matrices: bool = True, *, method: _svd_Method = "auto", out: tuple[Array, Array, Array] | None = None
) -> SVD[Array]: ...
@overload
def svd(
    a: Tensor | Array,
    full_matrices: bool = True,
    *,
    method: _svd_Method = "auto",
    out: tuple[Tensor | Array, Tensor | Array, Tensor | Array] | None = None,
) -> SVD: ...
@overload
def svd_randomized(
    a: Tensor, k: int, *, oversampling: int = 10, power_iterations: int = 2, probes: int = 6, seed: int = 0
) -> LowRank: ...
@overload
def svd_randomized(
    a: Array, k: int, *, oversampling: int = 10, power_iterations: int = 2, probes: int = 6, seed: int = 0
) -> LowRank[Array]: ...
@overload
def svdvals(a: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def svdvals(a: Array, *, out: Array | None = None) -> Array: ...
@overload
def svdvals(a: Tensor | Array, *, out: Tensor | Array | None = None) -> Tensor: ...
@overload
def trace(
    a: Tensor
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor], Tensor]
    | tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]],
    *,
    products: int = 60,
    method: Literal["hutch++", "hutchinson"] = "hutch++",
    like: Tensor | None = None,
    seed: int = 0,
) -> TraceEstimate: ...
@overload
def trace(
    a: Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Array], Array]
    | tuple[Callable[[Array], Array], Callable[[Array], Array]],
    *,
    products: int = 60,
    method: Literal["hutch++", "hutchinson"] = "hutch++",
    like: Array | None = None,
    seed: int = 0,
) -> TraceEstimate[Array]: ...
@overload
def trace(
    a: Tensor
    | Array
    | np.ndarray[Any, Any]
    | LinearMap
    | Callable[[Tensor | Array], Tensor | Array]
    | tuple[Callable[[Tensor | Array], Tensor | Array], Callable[[Tensor | Array], Tensor | Array]],
    *,
    products: int = 60,
    method: Literal["hutch++", "hutchinson"] = "hutch++",
    like: Tensor | Array | None = None,
    seed: int = 0,
) -> TraceEstimate: ...
@overload
def zero_free_diagonal(a: Stored | Tensor) -> Tensor: ...
@overload
def zero_free_diagonal(a: Stored | Array) -> Array: ...
