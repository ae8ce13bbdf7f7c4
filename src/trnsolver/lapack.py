"""One matrix in host memory, by SciPy's LAPACK: faster than PyTorch's where that is MKL on a CPU not Intel's.

Results lie by columns, as torch's do. Operands are copied once, into the memory LAPACK overwrites.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnblas import host

_LETTERS = {torch.float32: "s", torch.float64: "d", torch.complex64: "c", torch.complex128: "z"}
# Columns of a block, and rows from which SciPy's call pays.
_BLOCK = 64
_LEAST = 32
# Right-hand sides from which SciPy's triangular solver is the faster one.
_WIDE = 16


@functools.cache
def _library() -> Any:
    try:
        from scipy.linalg import blas, lapack
    except ImportError:
        return None
    return lapack, blas


@functools.cache
def _routine(name: str, dtype: torch.dtype) -> Any:
    lapack, blas = _library()
    whole = _LETTERS[dtype] + name
    return getattr(lapack, whole, None) or getattr(blas, whole)


def serves(a: Tensor, *others: Tensor) -> bool:
    """Whether these matrices are taken here: single, in host memory, not watched or differentiated."""
    if a.ndim != 2 or a.shape[0] < _LEAST or not host.plain(a, *others, dtypes=_LETTERS):
        return False
    for other in others:
        if other.ndim != 2:
            return False
    return host.prefers_numpy() and _library() is not None


def _copied(a: Tensor) -> Any:
    """A copy by columns."""
    return a.mT.clone(memory_format=torch.contiguous_format).mT.numpy()


def _by_columns(a: Tensor) -> tuple[Any, bool]:
    """The matrix, or its transpose, stored by columns: without a copy where it is stored one way or the other."""
    if a.is_contiguous():
        return a.mT.numpy(), True
    return (a if a.mT.is_contiguous() else a.mT.contiguous().mT).numpy(), False


def getrf(a: Tensor) -> tuple[Tensor, Tensor]:
    """LU factors and pivots, from 1."""
    # SciPy copies what is not to be overwritten; only rows must become columns before
    by_columns = a.mT.is_contiguous()
    factors, pivots, _ = _routine("getrf", a.dtype)(a.numpy() if by_columns else _copied(a), overwrite_a=not by_columns)
    return torch.from_numpy(factors), torch.from_numpy(pivots + 1)


def det(a: Tensor) -> tuple[complex, complex]:
    """The determinant and the sum of pivots, of the matrix or its transpose: whichever lies by columns."""
    factors, pivots, _ = _routine("getrf", a.dtype)(_by_columns(a)[0])
    exchanged = np.count_nonzero(pivots != np.arange(len(pivots), dtype=np.int32))
    diagonal = factors.diagonal()
    with np.errstate(all="ignore"):
        product = diagonal.prod().item()
        return -product if exchanged % 2 else product, diagonal.sum().item()


def getrs(factors: Tensor, pivots: Tensor, b: Tensor, adjoint: bool) -> Tensor:
    """Solve with LU factors."""
    x, _ = _routine("getrs", b.dtype)(
        _stored(factors), pivots.numpy() - 1, _copied(b), trans=2 if adjoint else 0, overwrite_b=1
    )
    return torch.from_numpy(x)


def getri(factors: Tensor, pivots: Tensor) -> Tensor:
    """The inverse from LU factors."""
    n = factors.shape[-1]
    x, _ = _routine("getri", factors.dtype)(_copied(factors), pivots.numpy() - 1, lwork=_BLOCK * n, overwrite_lu=1)
    return torch.from_numpy(x)


def potrf(a: Tensor) -> tuple[Tensor, Tensor]:
    """The lower Cholesky factor, and the first minor, from 1, that is not positive."""
    factor, info = _routine("potrf", a.dtype)(_copied(a), lower=1, clean=1, overwrite_a=1)
    return torch.from_numpy(factor), torch.tensor(info, dtype=torch.int32)


def potrs(factor: Tensor, b: Tensor) -> Tensor:
    """Solve with a lower Cholesky factor."""
    stored, turned = _by_columns(factor)
    if turned and factor.is_complex():
        stored, turned = _copied(factor), False
    x, _ = _routine("potrs", b.dtype)(stored, _copied(b), lower=not turned, overwrite_b=1)
    return torch.from_numpy(x)


def trsm_pays(b: Tensor) -> bool:
    """Whether a triangular system has columns enough."""
    return b.shape[-1] >= _WIDE


def trsm(a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor:
    """Solve with a triangle."""
    stored, turned = _by_columns(a)
    x = _routine("trsm", b.dtype)(
        1.0, stored, _copied(b), lower=lower != turned, trans_a=int(turned), diag=int(unit), overwrite_b=1
    )
    return torch.from_numpy(x)


def trtri(a: Tensor, unit: bool) -> Tensor:
    """The inverse of a lower triangle, stored by rows."""
    x, _ = _routine("trtri", a.dtype)(
        a.clone(memory_format=torch.contiguous_format).mT.numpy(), lower=0, unitdiag=unit, overwrite_c=1
    )
    made = torch.from_numpy(x).mT
    if unit:
        made.diagonal().fill_(1.0)
    return made.tril_()


def geqrf(a: Tensor) -> tuple[Tensor, Tensor]:
    """R above the reflectors, and their factors."""
    packed, tau, _, _ = _routine("geqrf", a.dtype)(_copied(a), lwork=_BLOCK * a.shape[-1], overwrite_a=1)
    return torch.from_numpy(packed), torch.from_numpy(tau)


def orgqr(packed: Tensor, tau: Tensor) -> Tensor:
    """The leading columns of Q from what `geqrf` returned; overwrites ``packed``."""
    name = "ungqr" if packed.is_complex() else "orgqr"
    q, _, _ = _routine(name, packed.dtype)(packed.numpy(), tau.numpy(), lwork=_BLOCK * packed.shape[-1], overwrite_a=1)
    return torch.from_numpy(q)


def least_squares(a: Tensor, b: Tensor, least: float) -> Tensor | None:
    """Solve with a tall matrix by QR; ``None`` unless singular values are found to exceed ``least`` of the largest."""
    (m, n), k = a.shape, b.shape[-1]
    packed, tau = (x.numpy() for x in geqrf(a))
    name, turn, trans = ("unmqr", "C", 2) if a.is_complex() else ("ormqr", "T", 1)
    c, _, _ = _routine(name, a.dtype)("L", turn, packed, tau, _copied(b), _BLOCK * k, overwrite_c=1)
    r = packed if m == n else np.asfortranarray(packed[:n])
    if not r.diagonal().all():
        return None
    trsm, trmm, start = _routine("trsm", a.dtype), _routine("trmm", a.dtype), probes(n, a.dtype).numpy()
    # the probes go through the triangle with the solution
    both = np.empty((n, k + start.shape[1]), c.dtype, order="F")
    both[:, :k], both[:, k:] = c[:n], start
    both = trsm(1.0, r, both, overwrite_b=1)
    down, up = both[:, k:], trmm(1.0, r, start)
    inverse = trsm(1.0, r, down / np.sqrt(_squares(down)), trans_a=trans)
    most = trmm(1.0, r, up / np.sqrt(_squares(up)), trans_a=trans)
    found = float(_squares(inverse).max()) * float(_squares(most).max()) * least * least < 1.0
    return torch.from_numpy(both[:, :k]) if found else None


def _squares(x: Any) -> Any:
    return np.einsum("ij,ij->j", x.conj(), x).real


@functools.lru_cache(maxsize=64)
def probes(n: int, dtype: torch.dtype) -> Tensor:
    """Columns that no singular vector is likely to be orthogonal to, from which one step of iteration finds norms."""
    return torch.from_numpy(np.random.default_rng(n).standard_normal((4, n))).to(dtype).mT


@functools.lru_cache(maxsize=64)
def _work(name: str, dtype: torch.dtype, sizes: tuple[int, ...], **flags: int) -> dict[str, int]:
    """The workspaces LAPACK asks for."""
    *found, _ = _routine(f"{name}_lwork", dtype)(*sizes, **flags)
    # told as a number of the routine's precision, which may have been rounded down
    return {key: int(1.000001 * x.real) + 1 for key, x in zip(("lwork", "liwork", "lrwork"), found, strict=False)}


def gesdd(a: Tensor, vectors: bool, full: bool) -> tuple[Tensor, Tensor, Tensor] | None:
    """Singular values and vectors; ``None`` where the iteration did not converge."""
    flags = {"compute_uv": int(vectors), "full_matrices": int(full)}
    work = _work("gesdd", a.dtype, tuple(a.shape), **flags)
    u, s, vh, info = _routine("gesdd", a.dtype)(_copied(a), **flags, **work, overwrite_a=1)
    return None if info else (torch.from_numpy(u), torch.from_numpy(s), torch.from_numpy(vh))


def syevd(a: Tensor, vectors: bool) -> tuple[Tensor, Tensor] | None:
    """Eigenvalues and vectors from the lower triangle; ``None`` where the iteration did not converge."""
    name = "heevd" if a.is_complex() else "syevd"
    work = _work(name, a.dtype, (a.shape[-1],), compute_v=int(vectors), lower=1)
    values, basis, info = _routine(name, a.dtype)(_copied(a), compute_v=int(vectors), lower=1, overwrite_a=1, **work)
    return None if info else (torch.from_numpy(values), torch.from_numpy(basis))


def _stored(a: Tensor) -> np.ndarray[Any, Any]:
    stored: np.ndarray[Any, Any] = a.numpy() if a.mT.is_contiguous() else _copied(a)
    return stored
