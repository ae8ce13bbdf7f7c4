"""Types of trnsparse: written by ``python -m tools.stubs`` from the signatures in the source."""

from collections.abc import Callable
from typing import Generic, NamedTuple, overload

from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from typing_extensions import TypeVar

from trnsci.arrays import Array, Numbers
from trnsci.config import BackendName
from trnsparse.bound_mask import BoundMask
from trnsparse.bsr import BSRMatrix
from trnsparse.coloring import Coloring
from trnsparse.coo import COOMatrix
from trnsparse.csr import CSRMatrix
from trnsparse.format_choice import Choice
from trnsparse.mask_base import Mask
from trnsparse.matrix import Foreign, SparseMatrix
from trnsparse.row_sharded import RowSharded
from trnsparse.screening import Quartets
from trnsparse.semiring import Reduction

A = TypeVar("A", default=Tensor)

class Eigenpair(NamedTuple, Generic[A]):
    """The eigenvalue of largest magnitude, its vector, the iterations and the norm of ``a @ x - value * x``."""

    value: A
    vector: A
    iterations: int
    residual: float

class Solution(NamedTuple, Generic[A]):
    """A solution, the iterations it took and the norm of its residual ``b - a @ x``."""

    x: A
    iterations: int
    residual: float

def add(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: SparseMatrix | Foreign | Tensor | Array,
    *,
    alpha: complex = 1.0,
    beta: complex = 1.0,
) -> SparseMatrix:
    """Return ``alpha * a + beta * b`` on the union of their patterns, in the format of ``a``."""

@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | BoundMask | BSRMatrix | Tensor | Callable[..., Tensor] | None = None,
    scale: float | None = None,
    *,
    block: int = 128,
) -> Tensor:
    """Return ``softmax(scale * q @ k.mT, over kept pairs) @ v``; queries that keep no key give zeros."""

@overload
def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Mask | BoundMask | BSRMatrix | Array | Callable[..., Array] | None = None,
    scale: float | None = None,
    *,
    block: int = 128,
) -> Array:
    """Return ``softmax(scale * q @ k.mT, over kept pairs) @ v``; queries that keep no key give zeros."""

@overload
def attention(
    q: Tensor | Array,
    k: Tensor | Array,
    v: Tensor | Array,
    mask: Mask | BoundMask | BSRMatrix | Tensor | Array | Callable[..., Tensor | Array] | None = None,
    scale: float | None = None,
    *,
    block: int = 128,
) -> Tensor:
    """Return ``softmax(scale * q @ k.mT, over kept pairs) @ v``; queries that keep no key give zeros."""

def bandwidth(a: SparseMatrix | Foreign | Array) -> int:
    """Return the largest distance of an entry from the diagonal."""

def blocks(pattern: Numbers, size: int = 128) -> Mask:
    """Keep whole blocks: pair (q, k) where ``pattern[q // size, k // size]`` is true."""

def causal(offset: int = 0) -> Mask:
    """Keep keys that are not after their query: ``k <= q + offset``."""

@overload
def cg(
    a: SparseMatrix | Foreign | Tensor,
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution:
    """Solve ``a @ x = b`` by conjugate gradients, for symmetric positive definite ``a``."""

@overload
def cg(
    a: SparseMatrix | Foreign | Array,
    b: Array,
    *,
    x0: Array | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution[Array]:
    """Solve ``a @ x = b`` by conjugate gradients, for symmetric positive definite ``a``."""

@overload
def cg(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: Tensor | Array,
    *,
    x0: Tensor | Array | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution:
    """Solve ``a @ x = b`` by conjugate gradients, for symmetric positive definite ``a``."""

@overload
def chebyshev(
    a: SparseMatrix | Foreign | Tensor,
    b: Tensor,
    *,
    smallest: float,
    largest: float,
    x0: Tensor | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution:
    """Solve ``a @ x = b`` by Chebyshev iteration, for eigenvalues between ``smallest`` and ``largest``, both
    positive."""

@overload
def chebyshev(
    a: SparseMatrix | Foreign | Array,
    b: Array,
    *,
    smallest: float,
    largest: float,
    x0: Array | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution[Array]:
    """Solve ``a @ x = b`` by Chebyshev iteration, for eigenvalues between ``smallest`` and ``largest``, both
    positive."""

@overload
def chebyshev(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: Tensor | Array,
    *,
    smallest: float,
    largest: float,
    x0: Tensor | Array | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution:
    """Solve ``a @ x = b`` by Chebyshev iteration, for eigenvalues between ``smallest`` and ``largest``, both
    positive."""

def choose(a: SparseMatrix | Foreign | Array, columns: int, *, where: str = "trn2", block: int = 128) -> Choice:
    """Compare ``a @ b`` for b [K, columns] by diagonals, gathers, rows, blocks and dense, without computing it."""

def coloring(a: SparseMatrix | Foreign | Array, *, fraction: float = 1.0) -> Coloring:
    """Colour the rows of a matrix so that no two that an entry joins have the same colour."""

def density_screen(bounds: Tensor | Array, density: Tensor | Array, threshold: float) -> COOMatrix:
    """Return the density's entries that can matter: those with ``Q[k, l] |P[k, l]| max(Q) > threshold``."""

def documents(ids: Numbers) -> Mask:
    """Keep pairs of one document; ``ids`` [S] holds the document of every position."""

def full() -> Mask:
    """Keep every pair."""

def function(rule: Callable[..., Array]) -> Mask:
    """Keep pairs where ``rule(q, k)``, or FlexAttention's ``rule(b, h, q, k)``, is true."""

def get_backend() -> BackendName:
    """Return the backend of trnsparse in force here."""

def ic0(a: SparseMatrix | Foreign | Array) -> CSRMatrix:
    """Return the incomplete Cholesky factor L with ``(L @ L.H)[i, j] = a[i, j]`` on the lower pattern of ``a``."""

def ilu0(
    a: SparseMatrix | Foreign | Array, *, boost: tuple[float, complex] | None = None
) -> tuple[CSRMatrix, CSRMatrix]:
    """Return incomplete factors L (unit lower) and U (upper) with ``(L @ U)[i, j] = a[i, j]`` on the pattern of
    ``a``."""

def kron(a: SparseMatrix | Foreign | Tensor | Array, b: SparseMatrix | Foreign | Tensor | Array) -> COOMatrix:
    """Return the Kronecker product."""

def multiply(a: SparseMatrix | Foreign | Tensor | Array, b: SparseMatrix | Foreign | Tensor | Array) -> SparseMatrix:
    """Return the elementwise product on the intersection of the patterns, in the format of ``a``."""

@overload
def norm(a: SparseMatrix | Foreign | Tensor, ord: float | str = "fro") -> Tensor:
    """Return a norm: ``"fro"``, ``"max"``, 1 (largest column sum), inf (largest row sum) or 2 (spectral)."""

@overload
def norm(a: SparseMatrix | Foreign | Array, ord: float | str = "fro") -> Array:
    """Return a norm: ``"fro"``, ``"max"``, 1 (largest column sum), inf (largest row sum) or 2 (spectral)."""

@overload
def power_iteration(
    a: SparseMatrix | Foreign | Tensor, *, x0: Tensor | None = None, tol: float = 0.0001, max_iterations: int = 2000
) -> Eigenpair:
    """Return the eigenvalue of largest magnitude of a symmetric ``a``, by power iteration."""

@overload
def power_iteration(
    a: SparseMatrix | Foreign | Array, *, x0: Array | None = None, tol: float = 0.0001, max_iterations: int = 2000
) -> Eigenpair[Array]:
    """Return the eigenvalue of largest magnitude of a symmetric ``a``, by power iteration."""

@overload
def power_iteration(
    a: SparseMatrix | Foreign | Tensor | Array,
    *,
    x0: Tensor | Array | None = None,
    tol: float = 0.0001,
    max_iterations: int = 2000,
) -> Eigenpair:
    """Return the eigenvalue of largest magnitude of a symmetric ``a``, by power iteration."""

@overload
def reverse_cuthill_mckee(a: SparseMatrix | Foreign | Tensor) -> Tensor:
    """Return the order of rows and columns that brings the entries of ``a`` close to the diagonal."""

@overload
def reverse_cuthill_mckee(a: SparseMatrix | Foreign | Array) -> Array:
    """Return the order of rows and columns that brings the entries of ``a`` close to the diagonal."""

@overload
def richardson(
    a: SparseMatrix | Foreign | Tensor,
    b: Tensor,
    *,
    omega: float,
    x0: Tensor | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution:
    """Solve ``a @ x = b`` by ``x += omega * (b - a @ x)``; converges when ``|1 - omega * eigenvalue| < 1`` for all."""

@overload
def richardson(
    a: SparseMatrix | Foreign | Array,
    b: Array,
    *,
    omega: float,
    x0: Array | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution[Array]:
    """Solve ``a @ x = b`` by ``x += omega * (b - a @ x)``; converges when ``|1 - omega * eigenvalue| < 1`` for all."""

@overload
def richardson(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: Tensor | Array,
    *,
    omega: float,
    x0: Tensor | Array | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution:
    """Solve ``a @ x = b`` by ``x += omega * (b - a @ x)``; converges when ``|1 - omega * eigenvalue| < 1`` for all."""

def scale_columns(a: SparseMatrix | Foreign | Tensor | Array, d: Tensor | Array) -> SparseMatrix:
    """Return ``a @ diag(d)``."""

def scale_rows(a: SparseMatrix | Foreign | Tensor | Array, d: Tensor | Array) -> SparseMatrix:
    """Return ``diag(d) @ a``."""

@overload
def schwarz_bounds(integrals: Tensor) -> Tensor:
    """Return ``Q[i, j] = sqrt(|(ij|ij)|)``, with which ``|(ij|kl)| <= Q[i, j] Q[k, l]``."""

@overload
def schwarz_bounds(integrals: Array) -> Array:
    """Return ``Q[i, j] = sqrt(|(ij|ij)|)``, with which ``|(ij|kl)| <= Q[i, j] Q[k, l]``."""

def screen_quartets(bounds: Array, threshold: float) -> Quartets:
    """Return every distinct quartet with ``Q[i, j] Q[k, l] > threshold``, compared exactly: none above it is lost."""

@overload
def screened_spmm(a: SparseMatrix | Foreign | Tensor, u: Tensor, w: Tensor, b: Tensor, threshold: float) -> Tensor:
    """Return ``a' @ b`` with ``a'[i, k] = a[i, k]`` where ``u[i] w[k] > threshold`` and 0 elsewhere."""

@overload
def screened_spmm(a: SparseMatrix | Foreign | Array, u: Array, w: Array, b: Array, threshold: float) -> Array:
    """Return ``a' @ b`` with ``a'[i, k] = a[i, k]`` where ``u[i] w[k] > threshold`` and 0 elsewhere."""

@overload
def screened_spmm(
    a: SparseMatrix | Foreign | Tensor | Array,
    u: Tensor | Array,
    w: Tensor | Array,
    b: Tensor | Array,
    threshold: float,
) -> Tensor:
    """Return ``a' @ b`` with ``a'[i, k] = a[i, k]`` where ``u[i] w[k] > threshold`` and 0 elsewhere."""

def sddmm(
    pattern: SparseMatrix | Foreign | Tensor | Array,
    a: Tensor | Array,
    b: Tensor | Array,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    epilogue: Callable[[Tensor | Array], Tensor | Array] | None = None,
) -> SparseMatrix:
    """Return ``alpha * (a @ b)`` at the entries of ``pattern``, plus ``beta * pattern``, as a matrix of its format."""

def set_backend(backend: BackendName | None, *, strict: bool = True) -> None:
    """Set the backend of trnsparse: ``auto``, ``nki``, ``simulator`` or ``pytorch``."""

def shard_rows(matrix: SparseMatrix | Foreign | Array, mesh: DeviceMesh | tuple[int, ...]) -> RowSharded:
    """Cut a sparse matrix along its rows over the first axis of a mesh. Nothing is sent: each rank keeps its rows."""

def sink(count: int) -> Mask:
    """Keep the first ``count`` keys for every query."""

@overload
def solve_triangular(
    a: SparseMatrix | Foreign | Tensor,
    b: Tensor,
    *,
    lower: bool = True,
    unit_diagonal: bool = False,
    trans: bool | int | str = False,
) -> Tensor:
    """Return x with ``op(a) @ x = b``, reading only the lower (or upper) triangle of ``a``."""

@overload
def solve_triangular(
    a: SparseMatrix | Foreign | Array,
    b: Array,
    *,
    lower: bool = True,
    unit_diagonal: bool = False,
    trans: bool | int | str = False,
) -> Array:
    """Return x with ``op(a) @ x = b``, reading only the lower (or upper) triangle of ``a``."""

@overload
def solve_triangular(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: Tensor | Array,
    *,
    lower: bool = True,
    unit_diagonal: bool = False,
    trans: bool | int | str = False,
) -> Tensor:
    """Return x with ``op(a) @ x = b``, reading only the lower (or upper) triangle of ``a``."""

def spgemm(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: SparseMatrix | Foreign | Tensor | Array,
    *,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
) -> SparseMatrix:
    """Return ``op(a) @ op(b)`` as a sparse matrix: BSR when both are BSR with blocks that fit, CSR otherwise."""

@overload
def spmm(
    a: SparseMatrix | Foreign | Tensor,
    b: Tensor,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    format: str = "auto",
    epilogue: Callable[[Tensor], Tensor] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``epilogue(alpha * op(a) @ b + beta * c)``."""

@overload
def spmm(
    a: SparseMatrix | Foreign | Array,
    b: Array,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    c: Array | None = None,
    trans: bool | int | str = False,
    format: str = "auto",
    epilogue: Callable[[Array], Array] | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``epilogue(alpha * op(a) @ b + beta * c)``."""

@overload
def spmm(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: Tensor | Array,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    c: Tensor | Array | None = None,
    trans: bool | int | str = False,
    format: str = "auto",
    epilogue: Callable[[Tensor | Array], Tensor | Array] | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``epilogue(alpha * op(a) @ b + beta * c)``."""

@overload
def spmm_op(
    a: SparseMatrix | Foreign | Tensor,
    b: Tensor,
    *,
    multiply: Callable[[Tensor, Tensor], Tensor] = ...,
    add: Reduction = "sum",
    epilogue: Callable[[Tensor], Tensor] | None = None,
    empty: float | None = None,
    trans: bool | int | str = False,
) -> Tensor:
    """Return ``epilogue(add_k multiply(a[i, k], b[k, j]))`` over the entries of ``a``: a product over any semiring."""

@overload
def spmm_op(
    a: SparseMatrix | Foreign | Array,
    b: Array,
    *,
    multiply: Callable[[Array, Array], Array] = ...,
    add: Reduction = "sum",
    epilogue: Callable[[Array], Array] | None = None,
    empty: float | None = None,
    trans: bool | int | str = False,
) -> Array:
    """Return ``epilogue(add_k multiply(a[i, k], b[k, j]))`` over the entries of ``a``: a product over any semiring."""

@overload
def spmm_op(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: Tensor | Array,
    *,
    multiply: Callable[[Tensor | Array, Tensor | Array], Tensor | Array] = ...,
    add: Reduction = "sum",
    epilogue: Callable[[Tensor | Array], Tensor | Array] | None = None,
    empty: float | None = None,
    trans: bool | int | str = False,
) -> Tensor:
    """Return ``epilogue(add_k multiply(a[i, k], b[k, j]))`` over the entries of ``a``: a product over any semiring."""

@overload
def spmv(
    a: SparseMatrix | Foreign | Tensor,
    x: Tensor,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    y: Tensor | None = None,
    trans: bool | int | str = False,
    format: str = "auto",
    epilogue: Callable[[Tensor], Tensor] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``epilogue(alpha * op(a) @ x + beta * y)``."""

@overload
def spmv(
    a: SparseMatrix | Foreign | Array,
    x: Array,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    y: Array | None = None,
    trans: bool | int | str = False,
    format: str = "auto",
    epilogue: Callable[[Array], Array] | None = None,
    out: Array | None = None,
) -> Array:
    """Return ``epilogue(alpha * op(a) @ x + beta * y)``."""

@overload
def spmv(
    a: SparseMatrix | Foreign | Tensor | Array,
    x: Tensor | Array,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    y: Tensor | Array | None = None,
    trans: bool | int | str = False,
    format: str = "auto",
    epilogue: Callable[[Tensor | Array], Tensor | Array] | None = None,
    out: Tensor | Array | None = None,
) -> Tensor:
    """Return ``epilogue(alpha * op(a) @ x + beta * y)``."""

def triangle(a: SparseMatrix | Foreign | Array, *, lower: bool = True, offset: int = 0) -> SparseMatrix:
    """Return the entries on and below (or above) a diagonal, in the format of ``a``."""

def window(width: int) -> Mask:
    """Keep keys near their query: ``|q - k| <= width``."""
