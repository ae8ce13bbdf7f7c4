"""Batches of small matrices, and triangular systems, in host memory, by ``small.c``.

LAPACK's calls cost more than their arithmetic there.

Factors are those of LAPACK up to rounding, and lie as torch's do: by columns.
"""

from __future__ import annotations

import ctypes
import functools
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trnblas import host
from trnsci import native

SOURCE = Path(__file__).with_name("small.c")
# ROWS in small.c: beyond, LAPACK's blocks are faster.
SMALL = 64
# Matrices from which a batch is worth the call.
_MANY = 4
# Rows from which `lu` is the faster one.
PIVOTED = 16
# Triangular systems: rows to which, right-hand sides and multiply-adds from which they are faster here.
_TALL = 512
_FEW = 4
_WORK = 1 << 17
_ARGUMENTS = {"cholesky": 8, "lu": 9, "solve": 16, "qr": 11}
_NAMES = {torch.float32: "float32", torch.float64: "float64"}


def serves(a: Tensor, *, least: int = 8) -> bool:
    """Whether a batch is factored here: small, real, in host memory, not watched or differentiated."""
    shape = a.shape
    if len(shape) < 3 or not least <= max(shape[-2:]) <= SMALL or a.numel() < _MANY * shape[-2] * shape[-1]:
        return False
    return host.plain(a) and _loop("lu", a.dtype) is not None


def solves(a: Tensor, b: Tensor) -> bool:
    """Whether systems with triangles ``a`` [..., N, N] are solved here: one, or a batch with as many of ``b``."""
    n, k = b.shape[-2:]
    if not 8 <= n <= _TALL or (k < _FEW and n > SMALL) or b.numel() * n < _WORK or a.shape[:-1] != b.shape[:-1]:
        return False
    return host.plain(a, b) and _loop("solve", a.dtype) is not None


@functools.cache
def _loop(stem: str, dtype: torch.dtype) -> Any:
    library = native.load(SOURCE)
    if library is None:
        return None
    found = getattr(library, f"{stem}_{_NAMES[dtype]}")
    # sizes, strides and addresses are all of this width; declared, so that plain integers may be passed
    found.argtypes = (ctypes.c_int64,) * _ARGUMENTS[stem]
    found.restype = ctypes.c_int64 if stem == "solve" else None
    return found


def _call(stem: str, like: Tensor, *args: Tensor | int) -> None:
    if _loop(stem, like.dtype)(*[x.data_ptr() if isinstance(x, Tensor) else x for x in args]):
        raise MemoryError(f"no room for {args[1]} rows of a right-hand side")


def _strided(x: Tensor) -> tuple[Tensor, int, int, int]:
    """The batch in one axis, and the strides of its matrices, rows and columns: a copy only where it must be."""
    if x.ndim != 3:
        x = x.reshape(-1, *x.shape[-2:])
    step, rows, columns = x.stride()
    return x, step, rows, columns


def _columns(like: Tensor, m: int, n: int) -> Tensor:
    """Room for a batch of matrices stored by columns."""
    return torch.empty((*like.shape[:-2], n, m), dtype=like.dtype).mT


def cholesky(a: Tensor) -> tuple[Tensor, Tensor]:
    """The lower factor, and the first minor, from 1, that is not positive."""
    n = a.shape[-1]
    out, info = _columns(a, n, n), torch.empty(a.shape[:-2], dtype=torch.int32)
    _call("cholesky", a, info.numel(), n, *_strided(a), out, info)
    return out, info


def lu(a: Tensor) -> tuple[Tensor, Tensor]:
    """Factors and pivots of ``getrf``."""
    m, n = a.shape[-2:]
    out, pivots = _columns(a, m, n), torch.empty((*a.shape[:-2], min(m, n)), dtype=torch.int32)
    _call("lu", a, math.prod(a.shape[:-2]), m, n, *_strided(a), out, pivots)
    return out, pivots


def triangular(a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor:
    """Solve with triangles."""
    return _solve(a, b, 0, lower=lower, unit=unit)


def cholesky_solve(factor: Tensor, b: Tensor) -> Tensor:
    """Solve with lower factors."""
    return _solve(factor, b, 1)


def lu_solve(factors: Tensor, pivots: Tensor, b: Tensor, adjoint: bool) -> Tensor:
    """Solve with what `lu` returned."""
    return _solve(factors, b, 3 if adjoint else 2, pivots=pivots.contiguous())


def _solve(
    a: Tensor, b: Tensor, kind: int, *, lower: bool = True, unit: bool = False, pivots: Tensor | None = None
) -> Tensor:
    n, k = b.shape[-2:]
    out = _columns(b, n, k)
    sizes = (math.prod(b.shape[:-2]), n, k, kind, lower, unit)
    _call("solve", a, *sizes, *_strided(a), 0 if pivots is None else pivots, *_strided(b), out)
    return out


def qr(a: Tensor, mode: str) -> tuple[Tensor, Tensor]:
    """Factors of ``geqrf`` and ``orgqr``, in one of the modes of `trnsolver.qr`."""
    m, n = a.shape[-2:]
    k = min(m, n)
    columns = {"reduced": k, "complete": m, "r": 0}[mode]
    rows = m if mode == "complete" else k
    q = _columns(a, m, columns) if columns else a.new_empty((0,))
    r = _columns(a, rows, n)
    _call("qr", a, math.prod(a.shape[:-2]), m, n, *_strided(a), columns, q, rows, r)
    return q, r
