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
_ARGUMENTS = {"cholesky": 8, "lu": 9, "solve": 16, "qr": 11, "least": 14}
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
    found.argtypes = (ctypes.c_int64,) * _ARGUMENTS[stem] + (ctypes.c_double,) * (stem == "least")
    found.restype = ctypes.c_int64 if stem == "solve" else None
    return found


def _call(stem: str, like: Tensor, *args: Tensor | float) -> None:
    _loop(stem, like.dtype)(*[x.data_ptr() if isinstance(x, Tensor) else x for x in args])


def _strided(x: Tensor) -> tuple[Tensor, int, int, int]:
    """The batch in one axis, and the strides of its matrices, rows and columns: a copy only where it must be."""
    if x.ndim == 2:
        rows, columns = x.stride()
        return x, 0, rows, columns
    if x.ndim != 3:
        x = x.reshape(-1, *x.shape[-2:])
    step, rows, columns = x.stride()
    return x, step, rows, columns


def _columns(like: Tensor, m: int, n: int) -> Tensor:
    """Room for a batch of matrices stored by columns."""
    if like.ndim == 2:
        return torch.empty_strided((m, n), (1, m), dtype=like.dtype)
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
    return _solve(a, b, 0, lower=lower, unit=unit)[0]


def checked_triangular(a: Tensor, b: Tensor, lower: bool, unit: bool) -> Tensor | None:
    """Solve with triangles, or ``None`` where not all is well: a size, a dtype, a number that is not finite."""
    if a.dtype is not b.dtype or a.ndim < 2 or a.shape[-1] != a.shape[-2] or not solves(a, b):
        return None
    x, code = _solve(a, b, 0, lower=lower, unit=unit)
    return None if code else x


def checked_lu_solve(factors: Tensor, pivots: Tensor, b: Tensor, adjoint: bool) -> Tensor | None:
    """Solve with what `lu` returned, or ``None`` where not all is well."""
    shape = factors.shape
    if factors.dtype is not b.dtype or len(shape) < 2 or b.ndim < 2 or shape[-1] != shape[-2]:
        return None
    if pivots.dtype is not torch.int32 or pivots.shape != shape[:-1] or not pivots.is_cpu or not solves(factors, b):
        return None
    x, code = _solve(factors, b, 3 if adjoint else 2, pivots=pivots.contiguous())
    return None if code else x


def cholesky_solve(factor: Tensor, b: Tensor) -> Tensor:
    """Solve with lower factors."""
    return _solve(factor, b, 1)[0]


def lu_solve(factors: Tensor, pivots: Tensor, b: Tensor, adjoint: bool) -> Tensor:
    """Solve with what `lu` returned."""
    return _solve(factors, b, 3 if adjoint else 2, pivots=pivots.contiguous())[0]


def _solve(
    a: Tensor, b: Tensor, kind: int, *, lower: bool = True, unit: bool = False, pivots: Tensor | None = None
) -> tuple[Tensor, int]:
    *batch, n, k = b.shape
    out = _columns(b, n, k)
    a, *steps = _strided(a)
    b, *sides = _strided(b)
    sizes = (math.prod(batch), n, k, kind, lower, unit)
    exchanges = 0 if pivots is None else pivots.data_ptr()
    # not by `_call`: what it takes to look through the arguments is felt here
    loop = _loop("solve", a.dtype)
    code = loop(*sizes, a.data_ptr(), *steps, exchanges, b.data_ptr(), *sides, out.data_ptr())
    if code < 0:
        raise MemoryError(f"no room for {n} rows of a right-hand side")
    return out, code


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


def least_squares_serves(a: Tensor, b: Tensor) -> bool:
    """Whether tall systems are solved here: as many of ``b``, and columns of both in one row of vectors."""
    n, k = a.shape[-1], b.shape[-1]
    lanes = 64 // a.element_size()
    if a.shape[-2] < n or a.shape[:-1] != b.shape[:-1] or not 0 < -(-n // lanes) + -(-k // lanes) <= SMALL // lanes:
        return False
    return k > 0 and serves(a) and host.plain(b)


def least_squares(a: Tensor, b: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Solutions, and for which matrices they hold: every singular value exceeds ``least`` times the largest."""
    (m, n), k = a.shape[-2:], b.shape[-1]
    out, full = _columns(b, n, k), torch.empty(a.shape[:-2], dtype=torch.bool)
    _call("least", a, full.numel(), m, n, k, *_strided(a), *_strided(b), out, full, least)
    return out, full
