"""The host's own libraries where PyTorch has no call for an operation, or a slow one.

SciPy's BLAS takes products and solves with triangles, symmetric and packed matrices. An array
contiguous by rows is the transpose of one contiguous by columns, which is what BLAS takes, so nothing is copied: sides
and triangles are exchanged instead. NumPy's BLAS takes large products where PyTorch's is MKL on a CPU that is not
Intel's.
"""

from __future__ import annotations

import functools
from collections.abc import Container
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.linalg import blas
from torch import Tensor
from torch.compiler import is_compiling

_LETTERS = {torch.float32: "s", torch.float64: "d"}
_ALL_LETTERS = _LETTERS | {torch.complex64: "c", torch.complex128: "z"}
# Multiply-adds below which handing a product to NumPy costs more than it brings.
_LARGE_PRODUCT = 1 << 21
_LARGE_MATRIX = 1 << 16
_LARGE_RESULT = 1 << 21


@functools.cache
def _routine(name: str) -> Any:
    return getattr(blas, name)


@functools.cache
def prefers_numpy() -> bool:
    """Whether NumPy's BLAS beats PyTorch's: MKL keeps its best loops to Intel's CPUs."""
    info = Path("/proc/cpuinfo")
    if not torch.backends.mkl.is_available() or not info.exists():
        return False
    return b"GenuineIntel" not in info.read_bytes()


def plain(*tensors: Tensor, dtypes: Container[torch.dtype] = _LETTERS) -> bool:
    """Whether libraries beside torch may compute on these: real, in host memory, not watched or differentiated."""
    for t in tensors:
        if type(t) is not Tensor or t.dtype not in dtypes or not t.is_cpu or t.requires_grad:
            return False
        if t.is_neg() or t.is_conj() or t.numel() == 0:
            return False
    if torch._C._functorch.peek_interpreter_stack() is not None or torch._C._len_torch_dispatch_stack() > 0:
        return False
    return not is_compiling()


def serves(*tensors: Tensor) -> bool:
    """Whether SciPy's BLAS can take these matrices."""
    for t in tensors:
        if t.ndim != 2:
            return False
    return plain(*tensors)


def vectors(*xs: Tensor) -> bool:
    """Whether SciPy's BLAS can take these vectors."""
    for x in xs:
        if x.ndim != 1:
            return False
    return plain(*xs)


def takes(a: Tensor, x: Tensor) -> bool:
    """Whether SciPy's BLAS can take this matrix and this vector."""
    return plain(a, x)


def nonzero(values: np.ndarray[Any, Any]) -> bool:
    """Whether none of these is zero."""
    return np.count_nonzero(values) == values.size


def rotated(x: Tensor, y: Tensor, matrix: list[float]) -> tuple[Tensor, Tensor]:
    """``(m0 x + m1 y, m2 x + m3 y)``."""
    m0, m1, m2, m3 = matrix
    if m0 == m3 and m1 == -m2:
        made = call("rot", x, x.numpy(), y.numpy(), m0, m1)
    else:
        made = call("rotm", x, x.numpy(), y.numpy(), np.array([-1.0, m0, m2, m1, m3], x.numpy().dtype))
    return torch.from_numpy(made[0]), torch.from_numpy(made[1])


def call(name: str, like: Tensor, *args: Any, **options: Any) -> Any:
    """Run a routine of the precision of ``like``."""
    return _routine(_ALL_LETTERS[like.dtype] + name)(*args, **options)


def empty_like(x: Tensor) -> Tensor | None:
    """Memory for a large result from NumPy, which asks for huge pages and so is cheaper to touch first; or ``None``."""
    if x.numel() < _LARGE_RESULT or not plain(x):
        return None
    return torch.from_numpy(np.empty(tuple(x.shape), x.numpy().dtype))


def multiplies(a: Tensor, b: Tensor) -> bool:
    """Whether NumPy is the better place for a product of matrices, or of a matrix and a vector."""
    if a.ndim != 2:
        return False
    size = a.numel()
    large = size >= _LARGE_MATRIX if b.ndim == 1 else b.ndim == 2 and size * b.shape[1] >= _LARGE_PRODUCT
    return large and prefers_numpy() and plain(a, b)


def product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """``a @ b`` by NumPy: a matrix in memory of torch's, a vector in NumPy's, which costs less than asking torch."""
    if b.ndim == 1:
        return torch.from_numpy(a.numpy().dot(b.numpy()))
    made = a.new_empty((a.shape[0], *b.shape[1:])) if out is None else out
    np.matmul(a.numpy(), b.numpy(), out=made.numpy())
    return made


def by_columns(x: Tensor) -> tuple[np.ndarray[Any, Any], bool]:
    """Memory of ``x`` contiguous by columns, and whether it is then the transpose of ``x``."""
    array = x.numpy()
    if not x.is_contiguous() and array.flags.f_contiguous:
        return array, False
    return np.ascontiguousarray(array).T, True


def symmetric_product(alpha: float, a: Tensor, b: Tensor, lower: bool) -> Tensor:
    """``alpha * a @ b`` with one triangle of ``a`` stored."""
    matrix, turned = by_columns(a)
    stored = lower != turned
    if b.shape[1] == 1:
        return torch.from_numpy(call("symv", a, alpha, matrix, b.numpy()[:, 0], lower=stored)).unsqueeze(1)
    right, across = by_columns(b)
    made = torch.from_numpy(call("symm", a, alpha, matrix, right, side=int(across), lower=stored))
    return made.mT if across else made


def symmetric_square(alpha: float, x: Tensor, lower: bool) -> Tensor:
    """The triangle of ``alpha * x @ x.T``, zeros elsewhere."""
    matrix, turned = by_columns(x)
    # The result is symmetric, so reading it by rows is asking for the other triangle.
    return torch.from_numpy(call("syrk", x, alpha, matrix, trans=int(turned), lower=not lower)).mT


def symmetric_sum(alpha: float, x: Tensor, y: Tensor, lower: bool) -> Tensor:
    """The triangle of ``alpha * (x @ y.T + y @ x.T)``, zeros elsewhere."""
    left, turned = by_columns(x)
    right = np.ascontiguousarray(y.numpy()).T if turned else np.asfortranarray(y.numpy())
    return torch.from_numpy(call("syr2k", x, alpha, left, right, trans=int(turned), lower=not lower)).mT


def symmetric_vector(alpha: float, a: Tensor, x: Tensor, lower: bool) -> Tensor:
    """``alpha * a @ x`` with one triangle of ``a`` stored."""
    matrix, turned = by_columns(a)
    return torch.from_numpy(call("symv", a, alpha, matrix, x.numpy(), lower=lower != turned))


def triangular_vector(name: str, a: Tensor, x: Tensor, lower: bool, trans: bool, unit: bool) -> Tensor | None:
    """``op(a) @ x`` (trmv) or ``inv(op(a)) @ x`` (trsv) with ``a`` triangular; ``None`` where that is singular."""
    matrix, turned = by_columns(a)
    if name == "trsv" and not unit and not nonzero(matrix.diagonal()):
        return None
    made = call(name, a, matrix, x.numpy(), lower=lower != turned, trans=trans != turned, diag=unit)
    return torch.from_numpy(made)


def triangular_product(alpha: float, a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor:
    """``alpha * a @ b`` with ``a`` triangular."""
    matrix, turned = by_columns(a)
    flags = {"lower": lower != turned, "diag": int(unit)}
    if b.shape[1] == 1:
        made = call("trmv", a, matrix, b.numpy()[:, 0], trans=int(turned), **flags)
        return torch.from_numpy(made if alpha == 1 else alpha * made).unsqueeze(1)
    right, across = by_columns(b)
    # b.T @ a.T, when b comes transposed: what multiplies from the right is the transpose of a.
    made = call("trmm", a, alpha, matrix, right, side=int(across), trans_a=int(turned != across), **flags)
    found = torch.from_numpy(made)
    return found.mT if across else found


def triangular_solve(alpha: float, a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor:
    """``alpha * inv(a) @ b`` with ``a`` triangular, contiguous by columns as LAPACK leaves it."""
    matrix, turned = by_columns(a)
    flags = {"lower": lower != turned, "diag": int(unit)}
    if b.shape[1] == 1:
        made = call("trsv", a, matrix, b.numpy()[:, 0], trans=int(turned), **flags)
        return torch.from_numpy(made if alpha == 1 else alpha * made).unsqueeze(0).mT
    right = torch.empty_like(b.mT, memory_format=torch.contiguous_format).copy_(b.mT).mT
    call("trsm", a, alpha, matrix, right.numpy(), trans_a=int(turned), overwrite_b=True, **flags)
    return right


def rank_one(alpha: float, x: Tensor, y: Tensor | None, a: Tensor | None, lower: bool) -> Tensor:
    """One triangle of ``alpha * outer(x, x) + a``, or of ``alpha * (outer(x, y) + outer(y, x)) + a``."""
    # By columns the matrix is its transpose, so that the other triangle is meant.
    options = {"lower": not lower} | ({} if a is None else {"a": np.ascontiguousarray(a.numpy()).T})
    if y is None:
        return torch.from_numpy(call("syr", x, alpha, x.numpy(), **options).T)
    return torch.from_numpy(call("syr2", x, alpha, x.numpy(), y.numpy(), **options).T)


def takes_band(a: Tensor, x: Tensor, m: int, ku: int, form: str) -> bool:
    """Whether SciPy's BLAS can take this band and this vector: it has no complex symmetric band."""
    if a.ndim != 2 or x.ndim != 1 or (form == "symmetric" and a.is_complex()):
        return False
    # Bands wider than the matrix are legal, and nothing SciPy accepts.
    fits = m > a.shape[0] - 1 - ku and a.shape[1] > ku
    return fits and plain(a, x, dtypes=_ALL_LETTERS)


def takes_packed(op: str, ap: Tensor, x: Tensor) -> bool:
    """Whether SciPy's BLAS can take this packed triangle and this vector: it has no complex symmetric one."""
    if ap.ndim != 1 or x.ndim != 1 or (op == "spmv" and ap.is_complex()):
        return False
    return plain(ap, x, dtypes=_ALL_LETTERS)


def band_product(alpha: complex, a: Tensor, x: Tensor, m: int, ku: int, trans: str, unit: bool, form: str) -> Tensor:
    """``alpha * op(A) @ x`` with A stored by diagonals."""
    band, vector, k = a.numpy(), x.numpy(), a.shape[0] - 1
    if form == "symmetric":
        return torch.from_numpy(call("sbmv", a, k, alpha, band, vector, lower=ku == 0))
    if form == "hermitian":
        return torch.from_numpy(call("hbmv", a, k, alpha, band, vector, lower=ku == 0))
    if unit:
        made = call("tbmv", a, k, band, vector, lower=ku == 0, trans="ntc".index(trans), diag=1)
        return torch.from_numpy(made if alpha == 1 else alpha * made)
    return torch.from_numpy(call("gbmv", a, m, a.shape[1], k - ku, ku, alpha, band, vector, trans="ntc".index(trans)))


def band_solve(a: Tensor, x: Tensor, lower: bool, trans: str, unit: bool) -> Tensor:
    """``inv(op(A)) @ x`` with A triangular and stored by diagonals."""
    made = call("tbsv", a, a.shape[0] - 1, a.numpy(), x.numpy(), lower=lower, trans="ntc".index(trans), diag=unit)
    return torch.from_numpy(made)
