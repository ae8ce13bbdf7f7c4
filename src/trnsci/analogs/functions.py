"""Functions of NumPy and SciPy, with the call of ours that does the same. Ours take and return arrays of NumPy."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from trnsci.analogs.analog import Analog, Different, Given, given

_MODULES = ("numpy", "scipy")
_KINDS = ("hfft", "ihfft", *(f"{kind}fft{axes}" for kind in ("", "i", "r", "ir") for axes in ("", "2", "n")))


# options that change nothing of a result
_WITHOUT_EFFECT = ("overwrite_a", "overwrite_b", "overwrite_x", "check_finite", "workers", "lwork", "lapack_driver")


@functools.cache
def _signature(theirs: str) -> inspect.Signature:
    path, _, name = theirs.rpartition(".")
    return inspect.signature(getattr(importlib.import_module(path), name))


def _by_name(theirs: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function have the arguments of a call as ``theirs`` binds them: the first, and the others by name."""

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = _signature(theirs).bind(*args, **kwargs)
        bound.apply_defaults()
        first, *others = bound.arguments.items()
        return fn(first[1], **{name: value for name, value in others if name not in _WITHOUT_EFFECT})

    return call


def _plain(**options: Any) -> None:
    """Leave calls alone that set options with no counterpart here."""
    for name, value in options.items():
        if value is not None and not (isinstance(value, bool | int | float) and value == 0):
            raise Different(f"{name}= has no counterpart")


def _matrix(a: Any) -> Any:
    """Return a matrix or a stack of them; ours refuse what holds no floating-point numbers."""
    a = np.asarray(a)
    if a.ndim < 2:
        raise Different("its operand is no matrix")
    return a


def _hermitian(a: Any) -> Any:
    """Return a matrix whose other triangle agrees: which one is read then does not matter."""
    a = _matrix(a)
    if not np.array_equal(a, a.conj().swapaxes(-1, -2)):
        raise Different("its matrix is not Hermitian as stored")
    return a


def _right_sides(a: Any, b: Any) -> Any:
    b = np.asarray(b)
    if b.ndim != 1 and b.ndim < a.ndim:
        raise Different("vectors and stacks of matrices are told apart otherwise")
    if b.ndim == 1 and a.ndim > 2:
        raise Different("one vector for a stack of matrices")
    return b


# options of transforms that ours have under the same name
_OF_TRANSFORMS = ("type", "n", "s", "axis", "axes", "norm", "orthogonalize")


def _transform(x: Any, **options: Any) -> Given:
    _plain(**{name: value for name, value in options.items() if name not in _OF_TRANSFORMS})
    return given(np.asarray(x), **{name: value for name, value in options.items() if name in _OF_TRANSFORMS})


def _dot(a: Any, b: Any, out: Any) -> Given:
    _plain(out=out)
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim != 2 or b.ndim not in (1, 2) or a.dtype != b.dtype:
        raise Different("not two matrices, or a matrix and a vector, of one dtype")
    return given(1.0, a, b)


def _einsum(operands: tuple[Any, ...], out: Any, optimize: Any, kwargs: dict[str, Any]) -> Given:
    _plain(out=out, **kwargs)
    if not operands or not isinstance(operands[0], str):
        raise Different("its subscripts are no string")
    return given(operands[0], *map(np.asarray, operands[1:]))


def _triangle(a: Any, UPLO: str) -> Given:
    return given(_matrix(a), UPLO)


def _numpy_solve(a: Any, b: Any) -> Given:
    a = _matrix(a)
    return given(a, _right_sides(a, b))


def _svd(a: Any, full_matrices: bool, compute_uv: bool, **rest: Any) -> Given:
    _plain(**rest)
    return given(_matrix(a), full_matrices) if compute_uv else given(_matrix(a))


def _qr(a: Any, mode: str, **rest: Any) -> Given:
    _plain(**rest)
    modes = {"reduced": "reduced", "economic": "reduced", "complete": "complete", "full": "complete"}
    if mode not in modes:
        raise Different(f"mode={mode!r} returns something else")
    return given(_matrix(a), modes[mode])


def _scipy_solve(a: Any, b: Any, assume_a: str | None, transposed: bool, **_: Any) -> Given:
    _plain(transposed=transposed)
    if assume_a not in (None, "gen", "general", "pos", "positive definite"):
        raise Different(f"assume_a={assume_a!r} has no counterpart")
    positive = assume_a in ("pos", "positive definite")
    a = _hermitian(a) if positive else _matrix(a)
    return given(a, _right_sides(a, b), assume="pos" if positive else "gen")


def _triangular(a: Any, b: Any, trans: Any, lower: bool, unit_diagonal: bool) -> Given:
    if trans not in (0, "N"):
        raise Different(f"trans={trans!r} has no counterpart")
    a, b = _matrix(a), np.asarray(b)
    if b.ndim == 1:
        raise Different("its right-hand side is a vector")
    return given(a, b, upper=not lower, unitriangular=unit_diagonal)


def _lone(a: Any, **rest: Any) -> Given:
    _plain(**rest)
    return given(_matrix(a))


def _lu_solve(lu_and_piv: Any, b: Any, trans: int) -> Given:
    _plain(trans=trans)
    factors, pivots = lu_and_piv
    b = np.asarray(b)
    if b.ndim == 1:
        raise Different("its right-hand side is a vector")
    return given(_matrix(factors), np.asarray(pivots, np.int32) + 1, b)


def _scipy_eigh(a: Any, lower: bool, type: int, eigvals_only: bool, **rest: Any) -> Given:  # noqa: A002
    _plain(type=type - 1, **rest)
    return given(_matrix(a), "L" if lower else "U")


def _krylov(A: Any, b: Any, x0: Any, rtol: float, **rest: Any) -> Given:
    _plain(**rest)
    if not hasattr(A, "tocsr") and not isinstance(A, np.ndarray):
        raise Different("its operator is no matrix")
    b = np.asarray(b)
    if b.ndim != 1:
        raise Different("its right-hand side is no vector")
    return given(A, b, tol=rtol, x0=x0)


def _solution(value: Any, A: Any, b: Any, *_: Any, **__: Any) -> tuple[Any, int]:
    if not value.converged:
        raise Different("it did not converge here")
    return np.asarray(value.x), 0


def _named(kind: str) -> Callable[..., Any]:
    """Make NumPy's named results, of scalars where an array has no axes."""

    def result(value: Any, *_: Any, **__: Any) -> Any:
        return getattr(np.linalg._linalg, kind)(*(part[()] for part in value))

    return result


def _tuple(value: Any, *_: Any, **__: Any) -> Any:
    return tuple(value)


def _svd_name(a: Any, compute_uv: bool, **_: Any) -> str:
    return "trnsolver.svd" if compute_uv else "trnsolver.svdvals"


def _eigh_name(a: Any, eigvals_only: bool, **_: Any) -> str:
    return "trnsolver.eigvalsh" if eigvals_only else "trnsolver.eigh"


def _values_too(make: Callable[..., Any]) -> Callable[..., Any]:
    """Make a result of several arrays, or pass on the values alone."""
    return lambda value, *args, **kwargs: make(value) if isinstance(value, tuple) else value


_TABLE: dict[str, Analog] = {
    **{f"{module}.fft.{kind}": Analog(f"trnfft.{kind}", _transform) for module in _MODULES for kind in _KINDS},
    **{f"scipy.fft.{name}": Analog(f"trnfft.{name}", _transform) for name in ("dct", "idct", "dst", "idst")},
    "numpy.dot": Analog(
        "trnblas.gemm", _dot, choose=lambda a, b, out: "trnblas.gemm" if np.ndim(b) == 2 else "trnblas.gemv"
    ),
    "numpy.einsum": Analog("trntensor.einsum", _einsum),
    "numpy.linalg.cholesky": Analog("trnsolver.cholesky", lambda a, upper: given(_hermitian(a), upper=upper)),
    "numpy.linalg.solve": Analog("trnsolver.solve", _numpy_solve),
    "numpy.linalg.inv": Analog("trnsolver.inv", _lone),
    "numpy.linalg.det": Analog("trnsolver.det", _lone, lambda value, a: value[()]),
    "numpy.linalg.slogdet": Analog("trnsolver.slogdet", _lone, _named("SlogdetResult")),
    "numpy.linalg.eigh": Analog("trnsolver.eigh", _triangle, _named("EighResult")),
    "numpy.linalg.eigvalsh": Analog("trnsolver.eigvalsh", _triangle),
    "numpy.linalg.qr": Analog("trnsolver.qr", _qr, _named("QRResult")),
    "numpy.linalg.svd": Analog("trnsolver.svd", _svd, _values_too(_named("SVDResult")), _svd_name),
    "scipy.linalg.cholesky": Analog("trnsolver.cholesky", lambda a, lower: given(_hermitian(a), upper=not lower)),
    "scipy.linalg.solve": Analog("trnsolver.solve", _scipy_solve),
    "scipy.linalg.solve_triangular": Analog("trnsolver.solve_triangular", _triangular),
    "scipy.linalg.inv": Analog("trnsolver.inv", _lone),
    "scipy.linalg.det": Analog("trnsolver.det", _lone, lambda value, *_, **__: value[()]),
    "scipy.linalg.lu_factor": Analog("trnsolver.lu_factor", _lone, lambda lu, *_, **__: (lu[0], lu[1] - 1)),
    "scipy.linalg.lu_solve": Analog("trnsolver.lu_solve", _lu_solve),
    "scipy.linalg.eigh": Analog("trnsolver.eigh", _scipy_eigh, _values_too(_tuple), _eigh_name),
    "scipy.linalg.svd": Analog("trnsolver.svd", _svd, _values_too(_tuple), _svd_name),
    "scipy.linalg.svdvals": Analog("trnsolver.svdvals", _lone),
    "scipy.linalg.qr": Analog("trnsolver.qr", _qr, _tuple),
    "scipy.linalg.expm": Analog("trnsolver.expm", _lone),
    **{
        f"scipy.sparse.linalg.{name}": Analog(f"trnsolver.{name}", _krylov, _solution)
        for name in ("cg", "bicgstab", "gmres", "minres")
    },
}
FUNCTIONS = {
    theirs: replace(
        analog,
        arguments=_by_name(theirs, analog.arguments),
        choose=None if analog.choose is None else _by_name(theirs, analog.choose),
    )
    for theirs, analog in _TABLE.items()
    if analog.arguments is not None
}
