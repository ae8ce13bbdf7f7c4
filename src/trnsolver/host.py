"""LAPACK routines that torch has no call for: SciPy's when it is installed, our own in NumPy otherwise."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trnsolver import francis, reorder

Matrix = NDArray[Any]


@functools.cache
def _scipy() -> Any:
    try:
        import scipy.linalg
    except ImportError:
        return None
    return scipy.linalg


def hessenberg(a: Matrix) -> tuple[Matrix, Matrix]:
    """``h`` and ``q`` with ``a = q @ h @ q.H``."""
    library = _scipy()
    if library is None:
        return francis.reduce_to_hessenberg(_wide(a))
    h, q = library.hessenberg(a, calc_q=True, check_finite=False)
    return h, q


def real_schur(a: Matrix) -> tuple[Matrix, Matrix]:
    """Quasi-triangular ``t`` and orthogonal ``z``. Raises ``ArithmeticError`` with what did not split."""
    library = _scipy()
    return francis.real_schur(_wide(a)) if library is None else _gees(library, a, "real")


def complex_schur(a: Matrix) -> tuple[Matrix, Matrix]:
    """Triangular ``t`` and unitary ``z``, of real or complex matrices."""
    library = _scipy()
    if library is not None:
        return _gees(library, a, "complex")
    if np.iscomplexobj(a):
        return francis.complex_schur(_wide(a))
    return francis.real_to_complex(*francis.real_schur(_wide(a)))


def reordered(t: Matrix, z: Matrix, wanted: list[bool]) -> tuple[Matrix, Matrix]:
    """A Schur form, wanted rows' eigenvalues first. Raises ``ArithmeticError`` where two cannot be parted."""
    library = _scipy()
    if library is None:
        return reorder.reordered(t, z, wanted)
    trsen = library.get_lapack_funcs("trsen", (t,))
    made, turned, *_, info = trsen(np.array(wanted, dtype=np.int32), t, z, job="N")
    if info:
        raise ArithmeticError(0.0)
    return made, turned


def pivoted_qr(a: Matrix, mode: str) -> tuple[Matrix, Matrix, Matrix] | None:
    """``q``, ``r`` and the column order by ``geqp3``, ``q`` empty for mode ``r``; ``None`` without SciPy."""
    library = _scipy()
    if library is None:
        return None
    kinds = {"reduced": "economic", "complete": "full", "r": "r"}
    *q, r, order = library.qr(a, mode=kinds[mode], pivoting=True, check_finite=False)
    if q:
        return q[0], r, order
    return np.empty((0,), a.dtype), r[: min(a.shape)], order


def _gees(library: Any, a: Matrix, output: str) -> tuple[Matrix, Matrix]:
    try:
        t, z = library.schur(a, output=output, check_finite=False)
    except np.linalg.LinAlgError:
        raise ArithmeticError(float("nan")) from None
    return t, z


def _wide(a: Matrix) -> Matrix:
    return a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)
