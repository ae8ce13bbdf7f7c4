"""Functions of trnblas that call SciPy's BLAS and stand in no other table, each beside that call on the same memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from scipy.linalg import blas

import trnblas
from benchmarks.called import Row, called
from benchmarks.trnblas._common import F64, dominant
from trnsci.testing import gaussian

# Rows of triangles, diagonals beside the main one of bands, and rows of bands and vectors.
_N, _K, _LONG = 2048, 4, 1 << 17


def _vectors() -> tuple[torch.Tensor, ...]:
    return gaussian((_LONG,), 1, F64), gaussian((_LONG,), 2, F64)


def _matrix() -> tuple[torch.Tensor, ...]:
    return dominant(_N, F64), gaussian((_N,), 2, F64)


def _packed() -> tuple[torch.Tensor, ...]:
    # by rows, the lower triangle of a matrix is the upper one of its transpose packed by columns
    whole, x = _matrix()
    return whole[torch.ones(_N, _N, dtype=torch.bool).tril()], x


def _band() -> tuple[torch.Tensor, ...]:
    band = gaussian((_K + 1, _LONG), 1, F64)
    band[-1] += 8
    return band, gaussian((_LONG,), 2, F64)


# What each kind of operands is called, and its elements: all are read once, and take part in a product and a sum.
_KINDS = {
    _vectors: (f"{_LONG}", 2 * _LONG),
    _matrix: (f"{_N}", _N * _N // 2),
    _packed: (f"{_N}", _N * _N // 2),
    _band: (f"{_LONG}, {_K + 1} diagonals", (_K + 1) * _LONG),
}


def _row(
    name: str, operands: Callable[[], tuple[torch.Tensor, ...]], ours: Callable[..., Any], library: Callable[..., Any]
) -> Row:
    size, elements = _KINDS[operands]
    return Row(f"{name} {size} float64", ours, library, operands, 2 * elements, 8 * elements)


BENCH = called(
    "trnblas.host_blas",
    "tests/trnblas/test_host_blas.py",
    (
        _row("nrm2", _vectors, lambda x, y: trnblas.nrm2(x), lambda x, y: blas.dnrm2(x)),
        _row("rot", _vectors, lambda x, y: trnblas.rot(x, y, 0.6, 0.8), lambda x, y: blas.drot(x, y, 0.6, 0.8)),
        _row("spr", _packed, lambda ap, x: trnblas.spr(_N, 1.0, x, ap), lambda ap, x: blas.dspr(_N, 1.0, x, ap)),
        _row("tpmv", _packed, lambda ap, x: trnblas.tpmv(_N, ap, x), lambda ap, x: blas.dtpmv(_N, ap, x)),
        _row("tpsv", _packed, lambda ap, x: trnblas.tpsv(_N, ap, x), lambda ap, x: blas.dtpsv(_N, ap, x)),
        _row("symv", _matrix, lambda a, x: trnblas.symv(1.0, a, x), lambda a, x: blas.dsymv(1.0, a.T, x, lower=1)),
        _row("trmv", _matrix, trnblas.trmv, lambda a, x: blas.dtrmv(a.T, x, lower=1, trans=1)),
        _row("trsv", _matrix, trnblas.trsv, lambda a, x: blas.dtrsv(a.T, x, lower=1, trans=1)),
        _row("sbmv", _band, lambda a, x: trnblas.sbmv(_K, 1.0, a, x), lambda a, x: blas.dsbmv(_K, 1.0, a, x)),
        _row("tbmv", _band, lambda a, x: trnblas.tbmv(_K, a, x), lambda a, x: blas.dtbmv(_K, a, x)),
        _row("tbsv", _band, lambda a, x: trnblas.tbsv(_K, a, x), lambda a, x: blas.dtbsv(_K, a, x)),
    ),
    notes="SciPy copies diagonals that are contiguous by rows, as torch stores them; both columns include that. Checks "
    "and dispatch take 10 to 20 µs, and several times that beside operands that drive their code out of the caches. "
    "trsv, tpsv and tbsv also look whether the solution is finite.",
)
