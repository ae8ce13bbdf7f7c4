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
from trnsolver.dense.lstsq import Driver
from trnsolver.dense.qr import Mode
from trnsolver.eigen.eig import Sort
from trnsolver.eigen.eigh import Method
from trnsolver.eigen.eigsh import Count, Which
from trnsolver.eigen.svd import Method as _svd_Method
from trnsolver.krylov.operators import Callback, LinearMap
from trnsolver.krylov.preconditioners import Preconditioner
from trnsolver.sparse_direct.compressed_rows import Stored
from trnsolver.sparse_direct.orderings import Ordering
from trnsolver.sparse_direct.sparse_factor import Kind, Method as _sparse_factor_Method, SparseFactor

A = TypeVar("A", default=Tensor)

class Bidiagonal(NamedTuple, Generic[A]):
    """``q.mH @ a @ p`` is real and bidiagonal: ``d`` on its diagonal, ``e`` beside it."""

    factors: A
    d: A
    e: A
    tauq: A
    taup: A
    def dense(self) -> A: ...

class Eig(NamedTuple, Generic[A]):
    """``a @ vectors = vectors * values``, complex."""

    values: A
    vectors: A
    @property
    def eigenvalues(self) -> A: ...
    @property
    def eigenvectors(self) -> A: ...

class Eigh(NamedTuple, Generic[A]):
    """``a @ vectors = vectors * values``; values ascend."""

    values: A
    vectors: A
    @property
    def eigenvalues(self) -> A: ...
    @property
    def eigenvectors(self) -> A: ...

class Hessenberg(NamedTuple, Generic[A]):
    """``a = q @ h @ q.mH``."""

    h: A
    q: A

class LDL(NamedTuple, Generic[A]):
    """``a[order][:, order] = l @ d @ l.mH`` (``l.mT`` when not Hermitian)."""

    l: A
    d: A
    order: A

class LU(NamedTuple, Generic[A]):
    """``a[permutation] = L @ U``: ``factors`` holds both, L without its diagonal; ``pivots`` are LAPACK's, from 1."""

    factors: A
    pivots: A
    @property
    def LU(self) -> A: ...

class LeastSquares(NamedTuple, Generic[A]):
    """The fields of `torch.linalg.lstsq`, the solution first."""

    solution: A
    residuals: A
    rank: A
    singular_values: A

@dataclass(frozen=True, slots=True, kw_only=True)
class LowRank(Answer, Generic[A]):
    """``a`` is about ``u * s @ vh``; for Hermitian matrices ``vh`` is ``u.mH`` and ``s`` holds eigenvalues."""

    u: A
    s: A
    vh: A
    error: A

class PLU(NamedTuple, Generic[A]):
    """``a = P @ L @ U``."""

    P: A
    L: A
    U: A

@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Answer, Generic[A]):
    """Eigenpairs found by iteration."""

    values: A
    vectors: A
    residuals: A
    converged: bool
    iterations: int
    def require(self) -> Pairs[A]: ...

class PivotedQR(NamedTuple, Generic[A]):
    """``a[:, order] = q @ r``, the diagonal of ``r`` of descending magnitude."""

    q: A
    r: A
    order: A

class Polar(NamedTuple, Generic[A]):
    """``a = u @ p`` (right) or ``a = p @ u`` (left)."""

    u: A
    p: A

class QR(NamedTuple, Generic[A]):
    """``a = q @ r``."""

    q: A
    r: A
    @property
    def Q(self) -> A: ...
    @property
    def R(self) -> A: ...

class Reflectors(NamedTuple, Generic[A]):
    """R on and above the diagonal of ``factors``, below it the vectors of the reflections ``1 - tau v v.mH``."""

    factors: A
    tau: A
    @property
    def a(self) -> A: ...

@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(Answer, Generic[A]):
    """Solution of an iterative solver, and how it converged."""

    x: A
    converged: bool
    iterations: int
    residuals: tuple[float, ...]
    op: str
    def __iter__(self) -> Iterator[Any]: ...
    def plot(self, axes: Axes | None = ...) -> Axes: ...
    def require(self) -> A: ...

class SVD(NamedTuple, Generic[A]):
    """``a = u * s @ vh``; the singular values ``s`` descend."""

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
    """``a = z @ t @ z.mH``."""

    t: A
    z: A

class SlogDet(NamedTuple, Generic[A]):
    """``det(a) = sign * exp(logabsdet)``."""

    sign: A
    logabsdet: A

class SortedSchur(NamedTuple, Generic[A]):
    """``a = z @ t @ z.mH`` with the ``sdim`` selected eigenvalues first."""

    t: A
    z: A
    sdim: A

@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEstimate(Answer, Generic[A]):
    """An estimate of a trace, and how far it may be off."""

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
) -> Pairs:
    """``k`` eigenpairs of a general operator, by Krylov-Schur restarts; values and vectors are complex."""

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
) -> Pairs[Array]:
    """``k`` eigenpairs of a general operator, by Krylov-Schur restarts; values and vectors are complex."""

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
) -> Result:
    """Solve ``a @ x = b`` with a general ``a`` in constant memory (van der Vorst); two products a step."""

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
) -> Result[Array]:
    """Solve ``a @ x = b`` with a general ``a`` in constant memory (van der Vorst); two products a step."""

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
) -> Result:
    """Solve ``a @ x = b`` with a general ``a`` in constant memory (van der Vorst); two products a step."""

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
) -> Result:
    """Conjugate gradients on all columns of ``b`` [N, K] at once (O'Leary): every column uses every search
    direction."""

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
) -> Result[Array]:
    """Conjugate gradients on all columns of ``b`` [N, K] at once (O'Leary): every column uses every search
    direction."""

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
) -> Result:
    """Conjugate gradients on all columns of ``b`` [N, K] at once (O'Leary): every column uses every search
    direction."""

def block_jacobi_preconditioner(a: Array, size: int) -> Preconditioner:
    """Solve with the diagonal blocks of ``size`` rows, factored once, all in one batch."""

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
) -> Result:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite."""

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
) -> Result[Array]:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite."""

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
) -> Result:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite."""

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
) -> Result:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite and eigenvalues between ``low`` and ``high``."""

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
) -> Result[Array]:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite and eigenvalues between ``low`` and ``high``."""

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
) -> Result:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite and eigenvalues between ``low`` and ``high``."""

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
) -> Preconditioner:
    """Return a polynomial in ``a`` [N, N] close to its inverse where eigenvalues lie between ``low`` and ``high``."""

@overload
def cholesky(a: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """Factor ``a = l @ l.mH``, or ``a = u.mH @ u``."""

@overload
def cholesky(a: Array, *, upper: bool = False, out: Array | None = None) -> Array:
    """Factor ``a = l @ l.mH``, or ``a = u.mH @ u``."""

@overload
def cholesky(a: Tensor | Array, *, upper: bool = False, out: Tensor | Array | None = None) -> Tensor:
    """Factor ``a = l @ l.mH``, or ``a = u.mH @ u``."""

@overload
def cholesky_inverse(factor: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of ``l @ l.mH`` from the factor `cholesky` returned: LAPACK's ``potri``. Exactly Hermitian."""

@overload
def cholesky_inverse(factor: Array, upper: bool = False, *, out: Array | None = None) -> Array:
    """Return the inverse of ``l @ l.mH`` from the factor `cholesky` returned: LAPACK's ``potri``. Exactly Hermitian."""

@overload
def cholesky_inverse(factor: Tensor | Array, upper: bool = False, *, out: Tensor | Array | None = None) -> Tensor:
    """Return the inverse of ``l @ l.mH`` from the factor `cholesky` returned: LAPACK's ``potri``. Exactly Hermitian."""

@overload
def cholesky_solve(b: Tensor, factor: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """Solve ``a @ x = b`` with the factor `cholesky` returned; the argument order is torch's."""

@overload
def cholesky_solve(b: Array, factor: Array, upper: bool = False, *, out: Array | None = None) -> Array:
    """Solve ``a @ x = b`` with the factor `cholesky` returned; the argument order is torch's."""

@overload
def cholesky_solve(
    b: Tensor | Array, factor: Tensor | Array, upper: bool = False, *, out: Tensor | Array | None = None
) -> Tensor:
    """Solve ``a @ x = b`` with the factor `cholesky` returned; the argument order is torch's."""

@overload
def cond(a: Tensor, p: int | float | str | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the condition number ``norm(a) * norm(inv(a))``."""

@overload
def cond(a: Array, p: int | float | str | None = None, *, out: Array | None = None) -> Array:
    """Return the condition number ``norm(a) * norm(inv(a))``."""

@overload
def cond(a: Tensor | Array, p: int | float | str | None = None, *, out: Tensor | Array | None = None) -> Tensor:
    """Return the condition number ``norm(a) * norm(inv(a))``."""

@overload
def cond_estimate(a: Tensor) -> Tensor:
    """Estimate the 1-norm condition number of ``a`` [N, N] from its LU factors, at the cost of a few solves."""

@overload
def cond_estimate(a: Array) -> Array:
    """Estimate the 1-norm condition number of ``a`` [N, N] from its LU factors, at the cost of a few solves."""

def count_eigenvalues(a: Stored | Array, interval: tuple[float, float], *, ordering: Ordering = "amd") -> Count:
    """Count the eigenvalues of a sparse Hermitian matrix in ``[low, high)`` by inertia, without computing any."""

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
) -> Pairs:
    """``k`` extreme eigenpairs: the block grows by residuals divided by ``diagonal - value``, and restarts when
    full."""

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
) -> Pairs[Array]:
    """``k`` extreme eigenpairs: the block grows by residuals divided by ``diagonal - value``, and restarts when
    full."""

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
) -> Pairs:
    """``k`` extreme eigenpairs: the block grows by residuals divided by ``diagonal - value``, and restarts when
    full."""

@overload
def det(a: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the determinant of ``a`` [..., N, N]; `slogdet` does not overflow."""

@overload
def det(a: Array, *, out: Array | None = None) -> Array:
    """Return the determinant of ``a`` [..., N, N]; `slogdet` does not overflow."""

@overload
def det(a: Tensor | Array, *, out: Tensor | Array | None = None) -> Tensor:
    """Return the determinant of ``a`` [..., N, N]; `slogdet` does not overflow."""

@overload
def eig(a: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> Eig:
    """Return eigenvalues and right eigenvectors, of unit length, of a general matrix; always complex."""

@overload
def eig(a: Array, *, out: tuple[Array, Array] | None = None) -> Eig[Array]:
    """Return eigenvalues and right eigenvectors, of unit length, of a general matrix; always complex."""

@overload
def eig(a: Tensor | Array, *, out: tuple[Tensor | Array, Tensor | Array] | None = None) -> Eig:
    """Return eigenvalues and right eigenvectors, of unit length, of a general matrix; always complex."""

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
) -> Eigh:
    """Return eigenvalues, ascending, and orthonormal eigenvectors of a Hermitian matrix."""

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
) -> Eigh[Array]:
    """Return eigenvalues, ascending, and orthonormal eigenvectors of a Hermitian matrix."""

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
) -> Eigh:
    """Return eigenvalues, ascending, and orthonormal eigenvectors of a Hermitian matrix."""

@overload
def eigh_generalized(a: Tensor, b: Tensor, *, kind: int = 1) -> Eigh:
    """Return eigenpairs with ``b`` positive definite: LAPACK's ``sygvd``."""

@overload
def eigh_generalized(a: Array, b: Array, *, kind: int = 1) -> Eigh[Array]:
    """Return eigenpairs with ``b`` positive definite: LAPACK's ``sygvd``."""

@overload
def eigh_generalized(a: Tensor | Array, b: Tensor | Array, *, kind: int = 1) -> Eigh:
    """Return eigenpairs with ``b`` positive definite: LAPACK's ``sygvd``."""

@overload
def eigh_randomized(
    a: Tensor, k: int, *, oversampling: int = 10, power_iterations: int = 2, probes: int = 6, seed: int = 0
) -> LowRank:
    """Find the ``k`` largest eigenpairs by magnitude of a Hermitian matrix [..., N, N]; as `svd_randomized`
    otherwise."""

@overload
def eigh_randomized(
    a: Array, k: int, *, oversampling: int = 10, power_iterations: int = 2, probes: int = 6, seed: int = 0
) -> LowRank[Array]:
    """Find the ``k`` largest eigenpairs by magnitude of a Hermitian matrix [..., N, N]; as `svd_randomized`
    otherwise."""

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
) -> Pairs:
    """``k`` eigenpairs of a sparse Hermitian matrix: the arguments of ``scipy.sparse.linalg.eigsh``."""

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
) -> Pairs[Array]:
    """``k`` eigenpairs of a sparse Hermitian matrix: the arguments of ``scipy.sparse.linalg.eigsh``."""

@overload
def eigvals(a: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return eigenvalues [..., N] of a general matrix [..., N, N], complex, on the host like `eig`."""

@overload
def eigvals(a: Array, *, out: Array | None = None) -> Array:
    """Return eigenvalues [..., N] of a general matrix [..., N, N], complex, on the host like `eig`."""

@overload
def eigvals(a: Tensor | Array, *, out: Tensor | Array | None = None) -> Tensor:
    """Return eigenvalues [..., N] of a general matrix [..., N, N], complex, on the host like `eig`."""

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
) -> Tensor:
    """Return eigenvalues of a Hermitian matrix [..., N, N], ascending; arguments as for `eigh`."""

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
) -> Array:
    """Return eigenvalues of a Hermitian matrix [..., N, N], ascending; arguments as for `eigh`."""

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
) -> Tensor:
    """Return eigenvalues of a Hermitian matrix [..., N, N], ascending; arguments as for `eigh`."""

@overload
def expm(a: Tensor) -> Tensor:
    """Return the matrix exponential, differentiable; products run on the backend."""

@overload
def expm(a: Array) -> Array:
    """Return the matrix exponential, differentiable; products run on the backend."""

def factor_sparse(
    a: Stored | Tensor | Array,
    *,
    kind: Kind = "lu",
    values: Tensor | Array | None = None,
    ordering: Ordering | Tensor | Array | None = None,
    method: _sparse_factor_Method = "auto",
) -> SparseFactor:
    """Factor a sparse matrix; the result solves for any number of right-hand sides."""

@overload
def fill_ordering(a: Stored | Tensor, *, method: Ordering = "amd") -> Tensor:
    """Return an order of rows and columns in which the factors of a sparse matrix have few entries."""

@overload
def fill_ordering(a: Stored | Array, *, method: Ordering = "amd") -> Array:
    """Return an order of rows and columns in which the factors of a sparse matrix have few entries."""

@overload
def gebrd(a: Tensor, *, out: tuple[Tensor, Tensor, Tensor, Tensor, Tensor] | None = None) -> Bidiagonal:
    """Reduce a matrix to bidiagonal form by reflections from both sides: LAPACK's ``gebrd``."""

@overload
def gebrd(a: Array, *, out: tuple[Array, Array, Array, Array, Array] | None = None) -> Bidiagonal[Array]:
    """Reduce a matrix to bidiagonal form by reflections from both sides: LAPACK's ``gebrd``."""

@overload
def gebrd(
    a: Tensor | Array,
    *,
    out: tuple[Tensor | Array, Tensor | Array, Tensor | Array, Tensor | Array, Tensor | Array] | None = None,
) -> Bidiagonal:
    """Reduce a matrix to bidiagonal form by reflections from both sides: LAPACK's ``gebrd``."""

@overload
def geqrf(a: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> Reflectors:
    """Factor ``a = q @ r`` and keep ``q`` as reflections: LAPACK's ``geqrf``, `torch.geqrf`."""

@overload
def geqrf(a: Array, *, out: tuple[Array, Array] | None = None) -> Reflectors[Array]:
    """Factor ``a = q @ r`` and keep ``q`` as reflections: LAPACK's ``geqrf``, `torch.geqrf`."""

@overload
def geqrf(a: Tensor | Array, *, out: tuple[Tensor | Array, Tensor | Array] | None = None) -> Reflectors:
    """Factor ``a = q @ r`` and keep ``q`` as reflections: LAPACK's ``geqrf``, `torch.geqrf`."""

def get_backend() -> BackendName:
    """Return the backend of trnsolver in force here."""

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
) -> Result:
    """Solve ``a @ x = b`` with a general ``a``, minimising the residual over ``restart`` directions at a time."""

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
) -> Result[Array]:
    """Solve ``a @ x = b`` with a general ``a``, minimising the residual over ``restart`` directions at a time."""

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
) -> Result:
    """Solve ``a @ x = b`` with a general ``a``, minimising the residual over ``restart`` directions at a time."""

@overload
def hessenberg(a: Tensor) -> Hessenberg:
    """Reduce ``a = q @ h @ q.mH`` with ``q`` unitary and ``h`` zero below its first subdiagonal."""

@overload
def hessenberg(a: Array) -> Hessenberg[Array]:
    """Reduce ``a = q @ h @ q.mH`` with ``q`` unitary and ``h`` zero below its first subdiagonal."""

@overload
def householder_product(factors: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the first N columns of ``q`` from what `geqrf` returned: LAPACK's ``orgqr`` and ``ungqr``."""

@overload
def householder_product(factors: Array, tau: Array, *, out: Array | None = None) -> Array:
    """Return the first N columns of ``q`` from what `geqrf` returned: LAPACK's ``orgqr`` and ``ungqr``."""

@overload
def householder_product(factors: Tensor | Array, tau: Tensor | Array, *, out: Tensor | Array | None = None) -> Tensor:
    """Return the first N columns of ``q`` from what `geqrf` returned: LAPACK's ``orgqr`` and ``ungqr``."""

def ic0_preconditioner(a: Array) -> Preconditioner:
    """Incomplete Cholesky without fill: the factor has the zeros of ``a``."""

def ilu0_preconditioner(a: Array) -> Preconditioner:
    """Incomplete LU without fill and without exchanges; `Singular` at a zero pivot."""

@overload
def inv(a: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Invert a matrix [..., N, N] by LU."""

@overload
def inv(a: Array, *, out: Array | None = None) -> Array:
    """Invert a matrix [..., N, N] by LU."""

@overload
def inv(a: Tensor | Array, *, out: Tensor | Array | None = None) -> Tensor:
    """Invert a matrix [..., N, N] by LU."""

@overload
def inv_spd(a: Tensor) -> Tensor:
    """Invert a Hermitian positive definite matrix by Cholesky; the result is exactly Hermitian."""

@overload
def inv_spd(a: Array) -> Array:
    """Invert a Hermitian positive definite matrix by Cholesky; the result is exactly Hermitian."""

@overload
def inv_sqrt_spd(a: Tensor, *, method: Literal["eigen", "newton_schulz"] = "eigen") -> Tensor:
    """Return ``x`` with ``x @ a @ x = 1`` for a Hermitian positive definite matrix."""

@overload
def inv_sqrt_spd(a: Array, *, method: Literal["eigen", "newton_schulz"] = "eigen") -> Array:
    """Return ``x`` with ``x @ a @ x = 1`` for a Hermitian positive definite matrix."""

@overload
def inv_triangular(a: Tensor, *, lower: bool = False, unit: bool = False) -> Tensor:
    """Invert a triangular matrix."""

@overload
def inv_triangular(a: Array, *, lower: bool = False, unit: bool = False) -> Array:
    """Invert a triangular matrix."""

def jacobi_preconditioner(a: Array) -> Preconditioner:
    """Divide by the diagonal of ``a`` [N, N], dense or sparse; `Singular` when an entry of it is zero."""

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
) -> Pairs:
    """``k`` extreme eigenpairs of a Hermitian operator, by thick-restart Lanczos with full orthogonalisation."""

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
) -> Pairs[Array]:
    """``k`` extreme eigenpairs of a Hermitian operator, by thick-restart Lanczos with full orthogonalisation."""

@overload
def larft(
    v: Tensor,
    tau: Tensor,
    *,
    direct: Literal["forward", "backward"] = "forward",
    storev: Literal["columns", "rows"] = "columns",
) -> Tensor:
    """Compute the triangular ``t`` of a product of reflections as one block, ``1 - v @ t @ v.mH``: LAPACK's
    ``larft``."""

@overload
def larft(
    v: Array,
    tau: Array,
    *,
    direct: Literal["forward", "backward"] = "forward",
    storev: Literal["columns", "rows"] = "columns",
) -> Array:
    """Compute the triangular ``t`` of a product of reflections as one block, ``1 - v @ t @ v.mH``: LAPACK's
    ``larft``."""

@overload
def larft(
    v: Tensor | Array,
    tau: Tensor | Array,
    *,
    direct: Literal["forward", "backward"] = "forward",
    storev: Literal["columns", "rows"] = "columns",
) -> Tensor:
    """Compute the triangular ``t`` of a product of reflections as one block, ``1 - v @ t @ v.mH``: LAPACK's
    ``larft``."""

@overload
def ldl(a: Tensor, *, hermitian: bool = True) -> LDL:
    """Factor an indefinite matrix with symmetric exchanges."""

@overload
def ldl(a: Array, *, hermitian: bool = True) -> LDL[Array]:
    """Factor an indefinite matrix with symmetric exchanges."""

@overload
def ldl_inverse(l: Tensor, d: Tensor, order: Tensor, *, hermitian: bool = True) -> Tensor:
    """Invert ``a`` from what `ldl` returned: LAPACK's ``sytri`` and ``hetri``. Exactly Hermitian, or symmetric."""

@overload
def ldl_inverse(l: Array, d: Array, order: Array, *, hermitian: bool = True) -> Array:
    """Invert ``a`` from what `ldl` returned: LAPACK's ``sytri`` and ``hetri``. Exactly Hermitian, or symmetric."""

@overload
def ldl_inverse(l: Tensor | Array, d: Tensor | Array, order: Tensor | Array, *, hermitian: bool = True) -> Tensor:
    """Invert ``a`` from what `ldl` returned: LAPACK's ``sytri`` and ``hetri``. Exactly Hermitian, or symmetric."""

@overload
def ldl_solve(l: Tensor, d: Tensor, order: Tensor, b: Tensor, *, hermitian: bool = True) -> Tensor:
    """Solve ``a @ x = b`` with what `ldl` returned: LAPACK's ``sytrs`` and ``hetrs``."""

@overload
def ldl_solve(l: Array, d: Array, order: Array, b: Array, *, hermitian: bool = True) -> Array:
    """Solve ``a @ x = b`` with what `ldl` returned: LAPACK's ``sytrs`` and ``hetrs``."""

@overload
def ldl_solve(
    l: Tensor | Array, d: Tensor | Array, order: Tensor | Array, b: Tensor | Array, *, hermitian: bool = True
) -> Tensor:
    """Solve ``a @ x = b`` with what `ldl` returned: LAPACK's ``sytrs`` and ``hetrs``."""

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
) -> Pairs:
    """Return extreme eigenpairs of ``a @ v = b @ v * w`` from a block ``x`` [N, K] of starts (Knyazev)."""

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
) -> Pairs[Array]:
    """Return extreme eigenpairs of ``a @ v = b @ v * w`` from a block ``x`` [N, K] of starts (Knyazev)."""

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
) -> Pairs:
    """Return extreme eigenpairs of ``a @ v = b @ v * w`` from a block ``x`` [N, K] of starts (Knyazev)."""

@overload
def logm(a: Tensor) -> Tensor:
    """Return the principal logarithm: square roots until the matrix is near 1, then a Gauss-Legendre (Padé)
    quotient."""

@overload
def logm(a: Array) -> Array:
    """Return the principal logarithm: square roots until the matrix is near 1, then a Gauss-Legendre (Padé)
    quotient."""

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
) -> Result:
    """As `lsqr`, but ``norm(a.mH @ r)`` decreases at every step (Fong and Saunders): safer to stop early."""

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
) -> Result[Array]:
    """As `lsqr`, but ``norm(a.mH @ r)`` decreases at every step (Fong and Saunders): safer to stop early."""

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
) -> Result:
    """As `lsqr`, but ``norm(a.mH @ r)`` decreases at every step (Fong and Saunders): safer to stop early."""

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
) -> Result:
    """Minimise ``norm(a @ x - b)**2 + damp**2 norm(x)**2`` (Paige and Saunders)."""

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
) -> Result[Array]:
    """Minimise ``norm(a @ x - b)**2 + damp**2 norm(x)**2`` (Paige and Saunders)."""

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
) -> Result:
    """Minimise ``norm(a @ x - b)**2 + damp**2 norm(x)**2`` (Paige and Saunders)."""

@overload
def lstsq(
    a: Tensor, b: Tensor, rcond: float | None = None, *, driver: Driver | None = None, target_error: float | None = None
) -> LeastSquares:
    """Find the ``x`` of least norm that minimises ``norm(a @ x - b)``: the arguments of `torch.linalg.lstsq`."""

@overload
def lstsq(
    a: Array, b: Array, rcond: float | None = None, *, driver: Driver | None = None, target_error: float | None = None
) -> LeastSquares[Array]:
    """Find the ``x`` of least norm that minimises ``norm(a @ x - b)``: the arguments of `torch.linalg.lstsq`."""

@overload
def lstsq(
    a: Tensor | Array,
    b: Tensor | Array,
    rcond: float | None = None,
    *,
    driver: Driver | None = None,
    target_error: float | None = None,
) -> LeastSquares:
    """Find the ``x`` of least norm that minimises ``norm(a @ x - b)``: the arguments of `torch.linalg.lstsq`."""

@overload
def lu(a: Tensor, *, pivot: bool = True, out: tuple[Tensor, Tensor, Tensor] | None = None) -> PLU:
    """Return P, L, U with ``a = P @ L @ U``: the convention of `torch.linalg.lu` and `scipy.linalg.lu`."""

@overload
def lu(a: Array, *, pivot: bool = True, out: tuple[Array, Array, Array] | None = None) -> PLU[Array]:
    """Return P, L, U with ``a = P @ L @ U``: the convention of `torch.linalg.lu` and `scipy.linalg.lu`."""

@overload
def lu(
    a: Tensor | Array, *, pivot: bool = True, out: tuple[Tensor | Array, Tensor | Array, Tensor | Array] | None = None
) -> PLU:
    """Return P, L, U with ``a = P @ L @ U``: the convention of `torch.linalg.lu` and `scipy.linalg.lu`."""

@overload
def lu_factor(a: Tensor, *, pivot: bool = True, out: tuple[Tensor, Tensor] | None = None) -> LU:
    """Factor ``a`` with row exchanges: LAPACK's ``getrf``."""

@overload
def lu_factor(a: Array, *, pivot: bool = True, out: tuple[Array, Array] | None = None) -> LU[Array]:
    """Factor ``a`` with row exchanges: LAPACK's ``getrf``."""

@overload
def lu_factor(a: Tensor | Array, *, pivot: bool = True, out: tuple[Tensor | Array, Tensor | Array] | None = None) -> LU:
    """Factor ``a`` with row exchanges: LAPACK's ``getrf``."""

@overload
def lu_inverse(factors: Tensor, pivots: Tensor) -> Tensor:
    """Return the inverse of ``a`` from what `lu_factor` returned: LAPACK's ``getri``."""

@overload
def lu_inverse(factors: Array, pivots: Array) -> Array:
    """Return the inverse of ``a`` from what `lu_factor` returned: LAPACK's ``getri``."""

@overload
def lu_inverse(factors: Tensor | Array, pivots: Tensor | Array) -> Tensor:
    """Return the inverse of ``a`` from what `lu_factor` returned: LAPACK's ``getri``."""

@overload
def lu_solve(
    factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool = True, adjoint: bool = False, out: Tensor | None = None
) -> Tensor:
    """Solve ``a @ x = b`` with what `lu_factor` returned; with ``adjoint``, ``a.mH @ x = b``."""

@overload
def lu_solve(
    factors: Array, pivots: Array, b: Array, *, left: bool = True, adjoint: bool = False, out: Array | None = None
) -> Array:
    """Solve ``a @ x = b`` with what `lu_factor` returned; with ``adjoint``, ``a.mH @ x = b``."""

@overload
def lu_solve(
    factors: Tensor | Array,
    pivots: Tensor | Array,
    b: Tensor | Array,
    *,
    left: bool = True,
    adjoint: bool = False,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Solve ``a @ x = b`` with what `lu_factor` returned; with ``adjoint``, ``a.mH @ x = b``."""

@overload
def matrix_rank(
    a: Tensor,
    *,
    rcond: float | None = None,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return the number of singular values of ``a`` [..., M, N] that do not count as zero; arguments as for `pinv`."""

@overload
def matrix_rank(
    a: Array,
    *,
    rcond: float | None = None,
    atol: float | Array | None = None,
    rtol: float | Array | None = None,
    hermitian: bool = False,
    out: Array | None = None,
) -> Array:
    """Return the number of singular values of ``a`` [..., M, N] that do not count as zero; arguments as for `pinv`."""

@overload
def matrix_rank(
    a: Tensor | Array,
    *,
    rcond: float | None = None,
    atol: float | Tensor | Array | None = None,
    rtol: float | Tensor | Array | None = None,
    hermitian: bool = False,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return the number of singular values of ``a`` [..., M, N] that do not count as zero; arguments as for `pinv`."""

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
) -> Result:
    """Solve ``a @ x = b`` with ``a`` Hermitian, indefinite or singular but consistent (Paige and Saunders)."""

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
) -> Result[Array]:
    """Solve ``a @ x = b`` with ``a`` Hermitian, indefinite or singular but consistent (Paige and Saunders)."""

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
) -> Result:
    """Solve ``a @ x = b`` with ``a`` Hermitian, indefinite or singular but consistent (Paige and Saunders)."""

@overload
def null_space(a: Tensor, rcond: float | None = None) -> Tensor:
    """Return an orthonormal basis [N, N - rank] of the vectors ``a`` [M, N] maps to zero."""

@overload
def null_space(a: Array, rcond: float | None = None) -> Array:
    """Return an orthonormal basis [N, N - rank] of the vectors ``a`` [M, N] maps to zero."""

@overload
def ormbr(
    form: Bidiagonal, other: Tensor, vect: Literal["q", "p"] = "q", *, left: bool = True, transpose: bool = False
) -> Tensor:
    """Multiply by the whole ``q`` [..., M, M] or ``p`` [..., N, N] without forming it: LAPACK's ``ormbr``."""

@overload
def ormbr(
    form: Bidiagonal[Array], other: Array, vect: Literal["q", "p"] = "q", *, left: bool = True, transpose: bool = False
) -> Array:
    """Multiply by the whole ``q`` [..., M, M] or ``p`` [..., N, N] without forming it: LAPACK's ``ormbr``."""

@overload
def ormqr(
    factors: Tensor,
    tau: Tensor,
    other: Tensor,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply by the complete ``q`` [..., M, M] without forming it: LAPACK's ``ormqr`` and ``unmqr``,
    `torch.ormqr`."""

@overload
def ormqr(
    factors: Array, tau: Array, other: Array, left: bool = True, transpose: bool = False, *, out: Array | None = None
) -> Array:
    """Multiply by the complete ``q`` [..., M, M] without forming it: LAPACK's ``ormqr`` and ``unmqr``,
    `torch.ormqr`."""

@overload
def ormqr(
    factors: Tensor | Array,
    tau: Tensor | Array,
    other: Tensor | Array,
    left: bool = True,
    transpose: bool = False,
    *,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Multiply by the complete ``q`` [..., M, M] without forming it: LAPACK's ``ormqr`` and ``unmqr``,
    `torch.ormqr`."""

@overload
def orth(a: Tensor, rcond: float | None = None) -> Tensor:
    """Return an orthonormal basis [M, rank] of the range of ``a`` [M, N]."""

@overload
def orth(a: Array, rcond: float | None = None) -> Array:
    """Return an orthonormal basis [M, rank] of the range of ``a`` [M, N]."""

@overload
def pinv(
    a: Tensor,
    rcond: float | None = None,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return the Moore-Penrose inverse [..., N, M] of ``a`` [..., M, N]."""

@overload
def pinv(
    a: Array,
    rcond: float | None = None,
    *,
    atol: float | Array | None = None,
    rtol: float | Array | None = None,
    hermitian: bool = False,
    out: Array | None = None,
) -> Array:
    """Return the Moore-Penrose inverse [..., N, M] of ``a`` [..., M, N]."""

@overload
def pinv(
    a: Tensor | Array,
    rcond: float | None = None,
    *,
    atol: float | Tensor | Array | None = None,
    rtol: float | Tensor | Array | None = None,
    hermitian: bool = False,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return the Moore-Penrose inverse [..., N, M] of ``a`` [..., M, N]."""

@overload
def polar(a: Tensor, side: Literal["right", "left"] = "right") -> Polar:
    """Polar decomposition by the SVD: ``a = u @ p``, or ``a = p @ u``, with ``p`` positive semidefinite."""

@overload
def polar(a: Array, side: Literal["right", "left"] = "right") -> Polar[Array]:
    """Polar decomposition by the SVD: ``a = u @ p``, or ``a = p @ u``, with ``p`` positive semidefinite."""

@overload
def qr(a: Tensor, mode: Mode = "reduced", *, out: tuple[Tensor, Tensor] | None = None) -> QR:
    """Factor ``a = q @ r`` with orthonormal columns in ``q`` and ``r`` upper triangular."""

@overload
def qr(a: Array, mode: Mode = "reduced", *, out: tuple[Array, Array] | None = None) -> QR[Array]:
    """Factor ``a = q @ r`` with orthonormal columns in ``q`` and ``r`` upper triangular."""

@overload
def qr(a: Tensor | Array, mode: Mode = "reduced", *, out: tuple[Tensor | Array, Tensor | Array] | None = None) -> QR:
    """Factor ``a = q @ r`` with orthonormal columns in ``q`` and ``r`` upper triangular."""

@overload
def qr_pivoted(a: Tensor, mode: Mode = "reduced") -> PivotedQR:
    """Factor ``a[..., order] = q @ r`` with column pivoting: at each step the longest remaining column goes first."""

@overload
def qr_pivoted(a: Array, mode: Mode = "reduced") -> PivotedQR[Array]:
    """Factor ``a[..., order] = q @ r`` with column pivoting: at each step the longest remaining column goes first."""

@overload
def schur(
    a: Tensor, output: Literal["real", "complex"] = "real", *, sort: Sort | Callable[..., bool] | None = None
) -> Schur | SortedSchur:
    """Return the Schur form ``a = z @ t @ z.mH``."""

@overload
def schur(
    a: Array, output: Literal["real", "complex"] = "real", *, sort: Sort | Callable[..., bool] | None = None
) -> Schur[Array] | SortedSchur[Array]:
    """Return the Schur form ``a = z @ t @ z.mH``."""

def set_backend(backend: BackendName | None, *, strict: bool = True) -> None:
    """Set the backend of trnsolver: ``auto``, ``nki``, ``simulator`` or ``pytorch``."""

@overload
def sign(a: Tensor) -> Tensor:
    """Return the matrix sign: eigenvalues become -1 or 1 by their real part; Newton's iteration scaled by
    determinants."""

@overload
def sign(a: Array) -> Array:
    """Return the matrix sign: eigenvalues become -1 or 1 by their real part; Newton's iteration scaled by
    determinants."""

@overload
def slogdet(a: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> SlogDet:
    """Sign (or phase) and logarithm of the modulus of the determinant of ``a`` [..., N, N]."""

@overload
def slogdet(a: Array, *, out: tuple[Array, Array] | None = None) -> SlogDet[Array]:
    """Sign (or phase) and logarithm of the modulus of the determinant of ``a`` [..., N, N]."""

@overload
def slogdet(a: Tensor | Array, *, out: tuple[Tensor | Array, Tensor | Array] | None = None) -> SlogDet:
    """Sign (or phase) and logarithm of the modulus of the determinant of ``a`` [..., N, N]."""

@overload
def solve(
    a: Tensor,
    b: Tensor,
    *,
    left: bool = True,
    assume: Literal["gen", "pos"] = "gen",
    target_error: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``a @ x = b``."""

@overload
def solve(
    a: Array,
    b: Array,
    *,
    left: bool = True,
    assume: Literal["gen", "pos"] = "gen",
    target_error: float | None = None,
    out: Array | None = None,
) -> Array:
    """Solve ``a @ x = b``."""

@overload
def solve(
    a: Tensor | Array,
    b: Tensor | Array,
    *,
    left: bool = True,
    assume: Literal["gen", "pos"] = "gen",
    target_error: float | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Solve ``a @ x = b``."""

@overload
def solve_banded(bands: tuple[int, int], ab: Tensor, b: Tensor) -> Tensor:
    """Solve ``a @ x = b`` with a band matrix: the arguments of `scipy.linalg.solve_banded`, in batches, with
    gradients."""

@overload
def solve_banded(bands: tuple[int, int], ab: Array, b: Array) -> Array:
    """Solve ``a @ x = b`` with a band matrix: the arguments of `scipy.linalg.solve_banded`, in batches, with
    gradients."""

@overload
def solve_banded(bands: tuple[int, int], ab: Tensor | Array, b: Tensor | Array) -> Tensor:
    """Solve ``a @ x = b`` with a band matrix: the arguments of `scipy.linalg.solve_banded`, in batches, with
    gradients."""

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
) -> Tensor:
    """Solve ``a @ x = b`` for a sparse ``a`` by its factors: arguments of `factor_sparse` and `SparseFactor.solve`."""

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
) -> Array:
    """Solve ``a @ x = b`` for a sparse ``a`` by its factors: arguments of `factor_sparse` and `SparseFactor.solve`."""

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
) -> Tensor:
    """Solve ``a @ x = b`` for a sparse ``a`` by its factors: arguments of `factor_sparse` and `SparseFactor.solve`."""

@overload
def solve_spd(a: Tensor, b: Tensor) -> Tensor:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite, by Cholesky."""

@overload
def solve_spd(a: Array, b: Array) -> Array:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite, by Cholesky."""

@overload
def solve_spd(a: Tensor | Array, b: Tensor | Array) -> Tensor:
    """Solve ``a @ x = b`` with ``a`` Hermitian positive definite, by Cholesky."""

@overload
def solve_triangular(
    a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Tensor | None = None
) -> Tensor:
    """Solve with a triangular matrix: the arguments of `torch.linalg.solve_triangular`."""

@overload
def solve_triangular(
    a: Array, b: Array, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Array | None = None
) -> Array:
    """Solve with a triangular matrix: the arguments of `torch.linalg.solve_triangular`."""

@overload
def solve_triangular(
    a: Tensor | Array,
    b: Tensor | Array,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Solve with a triangular matrix: the arguments of `torch.linalg.solve_triangular`."""

@overload
def solve_tridiagonal(lower: Tensor, diagonal: Tensor, upper: Tensor, b: Tensor) -> Tensor:
    """Solve ``a @ x = b`` with a tridiagonal matrix: LAPACK's and cuSPARSE's ``gtsv``, in batches, with gradients."""

@overload
def solve_tridiagonal(lower: Array, diagonal: Array, upper: Array, b: Array) -> Array:
    """Solve ``a @ x = b`` with a tridiagonal matrix: LAPACK's and cuSPARSE's ``gtsv``, in batches, with gradients."""

@overload
def solve_tridiagonal(
    lower: Tensor | Array, diagonal: Tensor | Array, upper: Tensor | Array, b: Tensor | Array
) -> Tensor:
    """Solve ``a @ x = b`` with a tridiagonal matrix: LAPACK's and cuSPARSE's ``gtsv``, in batches, with gradients."""

@overload
def sqrtm(a: Tensor) -> Tensor:
    """Principal square root by the Schur form (Björck and Hammarling), of Hermitian matrices by their eigenvectors."""

@overload
def sqrtm(a: Array) -> Array:
    """Principal square root by the Schur form (Björck and Hammarling), of Hermitian matrices by their eigenvectors."""

def ssor_preconditioner(a: Array, *, omega: float = 1.0) -> Preconditioner:
    """Precondition by symmetric successive over-relaxation: one sweep down and one up, with ``omega`` between 0 and
    2."""

@overload
def svd(
    a: Tensor,
    full_matrices: bool = True,
    *,
    method: _svd_Method = "auto",
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> SVD:
    """Return the singular value decomposition ``a = u @ diag(s) @ vh``."""

@overload
def svd(
    a: Array, full_matrices: bool = True, *, method: _svd_Method = "auto", out: tuple[Array, Array, Array] | None = None
) -> SVD[Array]:
    """Return the singular value decomposition ``a = u @ diag(s) @ vh``."""

@overload
def svd(
    a: Tensor | Array,
    full_matrices: bool = True,
    *,
    method: _svd_Method = "auto",
    out: tuple[Tensor | Array, Tensor | Array, Tensor | Array] | None = None,
) -> SVD:
    """Return the singular value decomposition ``a = u @ diag(s) @ vh``."""

@overload
def svd_randomized(
    a: Tensor, k: int, *, oversampling: int = 10, power_iterations: int = 2, probes: int = 6, seed: int = 0
) -> LowRank:
    """Find the ``k`` largest singular triplets, by products with a few random vectors (Halko, Martinsson and Tropp)."""

@overload
def svd_randomized(
    a: Array, k: int, *, oversampling: int = 10, power_iterations: int = 2, probes: int = 6, seed: int = 0
) -> LowRank[Array]:
    """Find the ``k`` largest singular triplets, by products with a few random vectors (Halko, Martinsson and Tropp)."""

@overload
def svdvals(a: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return singular values [..., min(M, N)] of ``a`` [..., M, N], descending."""

@overload
def svdvals(a: Array, *, out: Array | None = None) -> Array:
    """Return singular values [..., min(M, N)] of ``a`` [..., M, N], descending."""

@overload
def svdvals(a: Tensor | Array, *, out: Tensor | Array | None = None) -> Tensor:
    """Return singular values [..., min(M, N)] of ``a`` [..., M, N], descending."""

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
) -> TraceEstimate:
    """Estimate the trace of a square matrix from its products with random vectors of signs."""

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
) -> TraceEstimate[Array]:
    """Estimate the trace of a square matrix from its products with random vectors of signs."""

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
) -> TraceEstimate:
    """Estimate the trace of a square matrix from its products with random vectors of signs."""

@overload
def zero_free_diagonal(a: Stored | Tensor) -> Tensor:
    """Return an order of rows with which every diagonal entry is stored and their product is as large as possible."""

@overload
def zero_free_diagonal(a: Stored | Array) -> Array:
    """Return an order of rows with which every diagonal entry is stored and their product is as large as possible."""
