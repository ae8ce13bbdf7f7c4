"""Functions of trnsolver that call LAPACK and stand in no other table, each beside the call it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.linalg
import torch

import trnsolver
from benchmarks.called import Row, called
from trnsci.testing import gaussian

_N = 256
_Operands = tuple[torch.Tensor, ...]


def _general() -> _Operands:
    return (gaussian((_N, _N), 1, torch.float64),)


def _definite() -> _Operands:
    (a,) = _general()
    return (a @ a.mT / _N + torch.eye(_N, dtype=a.dtype),)


def _right() -> torch.Tensor:
    return gaussian((_N, 8), 2, torch.float64)


def _lu() -> _Operands:
    return *torch.linalg.lu_factor(*_general()), _right()


def _cholesky() -> _Operands:
    return _right(), torch.linalg.cholesky(*_definite())


def _reflectors() -> _Operands:
    return *torch.geqrf(*_general()), _right()


def _row(
    name: str,
    operands: Callable[[], _Operands],
    ours: Callable[..., Any],
    library: Callable[..., Any],
    flops: float,
    *,
    of_torch: bool = True,
) -> Row:
    """A row of so many operations: ``flops`` times N**3, or N**2 with the 8 right-hand sides."""
    count = flops * (8 * _N**2 if operands in (_lu, _cholesky) else _N**3)
    return Row(f"{name} {_N}x{_N} float64", ours, library, operands, round(count), 16 * _N * _N, of_torch)


BENCH = called(
    "trnsolver.on_host",
    "tests/trnsolver/test_every_function.py",
    (
        _row("inv", _general, trnsolver.inv, torch.linalg.inv, 2),
        _row("det", _general, trnsolver.det, torch.linalg.det, 2 / 3),
        _row("slogdet", _general, trnsolver.slogdet, torch.linalg.slogdet, 2 / 3),
        _row("lu_solve", _lu, trnsolver.lu_solve, torch.linalg.lu_solve, 2),
        _row("cholesky_solve", _cholesky, trnsolver.cholesky_solve, torch.cholesky_solve, 2),
        _row(
            "cholesky_inverse",
            _cholesky,
            lambda b, factor: trnsolver.cholesky_inverse(factor),
            lambda b, factor: torch.cholesky_inverse(factor),
            _N / 12,
        ),
        _row(
            "householder_product",
            _reflectors,
            lambda factors, tau, b: trnsolver.householder_product(factors, tau),
            lambda factors, tau, b: torch.linalg.householder_product(factors, tau),
            4 / 3,
        ),
        _row(
            "ormqr",
            _reflectors,
            trnsolver.ormqr,
            lambda factors, tau, b: scipy.linalg.lapack.dormqr("L", "N", factors, tau, b, 8)[0],
            16 / _N,
            of_torch=False,
        ),
        _row("eigvalsh", _definite, trnsolver.eigvalsh, torch.linalg.eigvalsh, 4 / 3),
        _row("svdvals", _general, trnsolver.svdvals, torch.linalg.svdvals, 8 / 3),
        _row("eig", _general, trnsolver.eig, torch.linalg.eig, 25),
        _row(
            "hessenberg",
            _general,
            lambda a: trnsolver.hessenberg(a).h,
            lambda a: scipy.linalg.hessenberg(a, calc_q=True)[0],
            14 / 3,
            of_torch=False,
        ),
        _row("schur", _general, lambda a: trnsolver.schur(a).t, scipy.linalg.schur, 25, of_torch=False),
        _row(
            "qr_pivoted",
            _general,
            trnsolver.qr_pivoted,
            lambda a: scipy.linalg.qr(a, pivoting=True),
            8 / 3,
            of_torch=False,
        ),
    ),
    notes="Ours look at every result, and say which operand or pivot is to blame where one is not finite.",
)
