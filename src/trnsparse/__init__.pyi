"""Types of trnsparse: written by ``python -m tools.stubs`` from the signatures in the source."""

from collections.abc import Callable
from typing import Generic, NamedTuple, overload

from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from typing_extensions import TypeVar

from trnsci.arrays import Array, Numbers
from trnsci.config import BackendName
from trnsci.nki import HAS_NKI as HAS_NKI
from trnsparse import masks as masks, vectors as vectors
from trnsparse.bound_mask import BoundMask as BoundMask
from trnsparse.bsr import BSRMatrix as BSRMatrix
from trnsparse.coloring import Coloring as Coloring
from trnsparse.coo import COOMatrix as COOMatrix
from trnsparse.csr import CSCMatrix as CSCMatrix, CSRMatrix as CSRMatrix
from trnsparse.dia import DIAMatrix as DIAMatrix
from trnsparse.ell import ELL as ELL, HYB as HYB, BlockedELL as BlockedELL
from trnsparse.files import load as load
from trnsparse.format_choice import Choice as Choice
from trnsparse.mask_base import Mask as Mask
from trnsparse.matrix import Foreign, SparseMatrix as SparseMatrix
from trnsparse.products import eye as eye
from trnsparse.row_sharded import RowSharded as RowSharded
from trnsparse.screening import Quartets as Quartets
from trnsparse.sell import SELLMatrix as SELLMatrix
from trnsparse.semiring import Reduction

A = TypeVar("A", default=Tensor)

__all__ = [
    "ELL",
    "HAS_NKI",
    "HYB",
    "BSRMatrix",
    "BlockedELL",
    "BoundMask",
    "COOMatrix",
    "CSCMatrix",
    "CSRMatrix",
    "Choice",
    "Coloring",
    "DIAMatrix",
    "Eigenpair",
    "Mask",
    "Quartets",
    "RowSharded",
    "SELLMatrix",
    "Solution",
    "SparseMatrix",
    "add",
    "attention",
    "bandwidth",
    "blocks",
    "causal",
    "cg",
    "chebyshev",
    "choose",
    "coloring",
    "density_screen",
    "documents",
    "eye",
    "full",
    "function",
    "get_backend",
    "ic0",
    "ilu0",
    "kron",
    "load",
    "masks",
    "multiply",
    "norm",
    "power_iteration",
    "reverse_cuthill_mckee",
    "richardson",
    "scale_columns",
    "scale_rows",
    "schwarz_bounds",
    "screen_quartets",
    "screened_spmm",
    "sddmm",
    "set_backend",
    "shard_rows",
    "sink",
    "solve_triangular",
    "spgemm",
    "spmm",
    "spmm_op",
    "spmv",
    "triangle",
    "vectors",
    "window",
]

class Eigenpair(NamedTuple, Generic[A]):
    value: A
    vector: A
    iterations: int
    residual: float

class Solution(NamedTuple, Generic[A]):
    x: A
    iterations: int
    residual: float

def add(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: SparseMatrix | Foreign | Tensor | Array,
    *,
    alpha: complex = 1.0,
    beta: complex = 1.0,
) -> SparseMatrix: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | BoundMask | BSRMatrix | Tensor | Callable[..., Tensor] | None = None,
    scale: float | None = None,
    *,
    block: int = 128,
) -> Tensor: ...
@overload
def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Mask | BoundMask | BSRMatrix | Array | Callable[..., Array] | None = None,
    scale: float | None = None,
    *,
    block: int = 128,
) -> Array: ...
@overload
def attention(
    q: Tensor | Array,
    k: Tensor | Array,
    v: Tensor | Array,
    mask: Mask | BoundMask | BSRMatrix | Tensor | Array | Callable[..., Tensor | Array] | None = None,
    scale: float | None = None,
    *,
    block: int = 128,
) -> Tensor: ...
def bandwidth(a: SparseMatrix | Foreign | Array) -> int: ...
def blocks(pattern: Numbers, size: int = 128) -> Mask: ...
def causal(offset: int = 0) -> Mask: ...
@overload
def cg(
    a: SparseMatrix | Foreign | Tensor,
    b: Tensor,
    *,
    x0: Tensor | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution: ...
@overload
def cg(
    a: SparseMatrix | Foreign | Array,
    b: Array,
    *,
    x0: Array | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution[Array]: ...
@overload
def cg(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: Tensor | Array,
    *,
    x0: Tensor | Array | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution: ...
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
) -> Solution: ...
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
) -> Solution[Array]: ...
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
) -> Solution: ...
def choose(a: SparseMatrix | Foreign | Array, columns: int, *, where: str = "trn2", block: int = 128) -> Choice: ...
def coloring(a: SparseMatrix | Foreign | Array, *, fraction: float = 1.0) -> Coloring: ...
def density_screen(bounds: Tensor | Array, density: Tensor | Array, threshold: float) -> COOMatrix: ...
def documents(ids: Numbers) -> Mask: ...
def full() -> Mask: ...
def function(rule: Callable[..., Array]) -> Mask: ...
def get_backend() -> BackendName: ...
def ic0(a: SparseMatrix | Foreign | Array) -> CSRMatrix: ...
def ilu0(
    a: SparseMatrix | Foreign | Array, *, boost: tuple[float, complex] | None = None
) -> tuple[CSRMatrix, CSRMatrix]: ...
def kron(a: SparseMatrix | Foreign | Tensor | Array, b: SparseMatrix | Foreign | Tensor | Array) -> COOMatrix: ...
def multiply(
    a: SparseMatrix | Foreign | Tensor | Array, b: SparseMatrix | Foreign | Tensor | Array
) -> SparseMatrix: ...
@overload
def norm(a: SparseMatrix | Foreign | Tensor, ord: float | str = "fro") -> Tensor: ...
@overload
def norm(a: SparseMatrix | Foreign | Array, ord: float | str = "fro") -> Array: ...
@overload
def power_iteration(
    a: SparseMatrix | Foreign | Tensor, *, x0: Tensor | None = None, tol: float = 0.0001, max_iterations: int = 2000
) -> Eigenpair: ...
@overload
def power_iteration(
    a: SparseMatrix | Foreign | Array, *, x0: Array | None = None, tol: float = 0.0001, max_iterations: int = 2000
) -> Eigenpair[Array]: ...
@overload
def power_iteration(
    a: SparseMatrix | Foreign | Tensor | Array,
    *,
    x0: Tensor | Array | None = None,
    tol: float = 0.0001,
    max_iterations: int = 2000,
) -> Eigenpair: ...
@overload
def reverse_cuthill_mckee(a: SparseMatrix | Foreign | Tensor) -> Tensor: ...
@overload
def reverse_cuthill_mckee(a: SparseMatrix | Foreign | Array) -> Array: ...
@overload
def richardson(
    a: SparseMatrix | Foreign | Tensor,
    b: Tensor,
    *,
    omega: float,
    x0: Tensor | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution: ...
@overload
def richardson(
    a: SparseMatrix | Foreign | Array,
    b: Array,
    *,
    omega: float,
    x0: Array | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution[Array]: ...
@overload
def richardson(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: Tensor | Array,
    *,
    omega: float,
    x0: Tensor | Array | None = None,
    tol: float = 1e-05,
    max_iterations: int = 1000,
) -> Solution: ...
def scale_columns(a: SparseMatrix | Foreign | Tensor | Array, d: Tensor | Array) -> SparseMatrix: ...
def scale_rows(a: SparseMatrix | Foreign | Tensor | Array, d: Tensor | Array) -> SparseMatrix: ...
@overload
def schwarz_bounds(integrals: Tensor) -> Tensor: ...
@overload
def schwarz_bounds(integrals: Array) -> Array: ...
def screen_quartets(bounds: Array, threshold: float) -> Quartets: ...
@overload
def screened_spmm(a: SparseMatrix | Foreign | Tensor, u: Tensor, w: Tensor, b: Tensor, threshold: float) -> Tensor: ...
@overload
def screened_spmm(a: SparseMatrix | Foreign | Array, u: Array, w: Array, b: Array, threshold: float) -> Array: ...
@overload
def screened_spmm(
    a: SparseMatrix | Foreign | Tensor | Array,
    u: Tensor | Array,
    w: Tensor | Array,
    b: Tensor | Array,
    threshold: float,
) -> Tensor: ...
def sddmm(
    pattern: SparseMatrix | Foreign | Tensor | Array,
    a: Tensor | Array,
    b: Tensor | Array,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    epilogue: Callable[[Tensor | Array], Tensor | Array] | None = None,
) -> SparseMatrix: ...
def set_backend(backend: BackendName | None, *, strict: bool = True) -> None: ...
def shard_rows(matrix: SparseMatrix | Foreign | Array, mesh: DeviceMesh | tuple[int, ...]) -> RowSharded: ...
def sink(count: int) -> Mask: ...
@overload
def solve_triangular(
    a: SparseMatrix | Foreign | Tensor,
    b: Tensor,
    *,
    lower: bool = True,
    unit_diagonal: bool = False,
    trans: bool | int | str = False,
) -> Tensor: ...
@overload
def solve_triangular(
    a: SparseMatrix | Foreign | Array,
    b: Array,
    *,
    lower: bool = True,
    unit_diagonal: bool = False,
    trans: bool | int | str = False,
) -> Array: ...
@overload
def solve_triangular(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: Tensor | Array,
    *,
    lower: bool = True,
    unit_diagonal: bool = False,
    trans: bool | int | str = False,
) -> Tensor: ...
def spgemm(
    a: SparseMatrix | Foreign | Tensor | Array,
    b: SparseMatrix | Foreign | Tensor | Array,
    *,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
) -> SparseMatrix: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
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
) -> Tensor: ...
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
) -> Array: ...
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
) -> Tensor: ...
def triangle(a: SparseMatrix | Foreign | Array, *, lower: bool = True, offset: int = 0) -> SparseMatrix: ...
def window(width: int) -> Mask: ...
