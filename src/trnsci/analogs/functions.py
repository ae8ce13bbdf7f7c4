"""Functions of NumPy and SciPy, with the call of ours that does the same. Ours take and return arrays of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trnsci.analogs.analog import Analog, Different, Given, given

_MODULES = ("numpy", "scipy")
_KINDS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


def _plain(**options: Any) -> None:
    """Leave calls alone that set options with no counterpart here."""
    for name, value in options.items():
        if value is not None and value is not False:
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


def _transform(
    a: Any, n: Any = None, axis: int = -1, norm: Any = None, overwrite_x: Any = None, workers: Any = None, **rest: Any
) -> Given:
    _plain(**rest)
    return given(np.asarray(a), n, axis=axis, norm=norm)


def _transforms(
    a: Any, s: Any = None, axes: Any = None, norm: Any = None, overwrite_x: Any = None, workers: Any = None, **rest: Any
) -> Given:
    _plain(**rest)
    return given(np.asarray(a), s, axes=axes, norm=norm)


def _transforms2(a: Any, s: Any = None, axes: Any = (-2, -1), *rest: Any, **options: Any) -> Given:
    return _transforms(a, s, axes, *rest, **options)


def _cosine(
    x: Any,
    type: int = 2,  # noqa: A002
    n: Any = None,
    axis: int = -1,
    norm: Any = None,
    overwrite_x: Any = None,
    workers: Any = None,
    orthogonalize: Any = None,
) -> Given:
    return given(np.asarray(x), type, n, axis=axis, norm=norm, orthogonalize=orthogonalize)


def _dot(a: Any, b: Any, out: Any = None) -> Given:
    _plain(out=out)
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim != 2 or b.ndim not in (1, 2) or a.dtype != b.dtype:
        raise Different("not two matrices, or a matrix and a vector, of one dtype")
    return given(1.0, a, b)


def _einsum(subscripts: Any, *operands: Any, out: Any = None, optimize: Any = False, **rest: Any) -> Given:
    _plain(out=out, **rest)
    if not isinstance(subscripts, str):
        raise Different("its subscripts are no string")
    return given(subscripts, *map(np.asarray, operands))


def _triangle(a: Any, UPLO: str = "L") -> Given:
    return given(_matrix(a), UPLO)


def _numpy_solve(a: Any, b: Any) -> Given:
    a = _matrix(a)
    return given(a, _right_sides(a, b))


def _numpy_svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Given:
    _plain(hermitian=hermitian)
    return given(_matrix(a), full_matrices) if compute_uv else given(_matrix(a))


def _numpy_qr(a: Any, mode: str = "reduced") -> Given:
    if mode not in ("reduced", "complete"):
        raise Different(f"mode={mode!r} returns something else")
    return given(_matrix(a), mode)


def _scipy_solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: Any = None,
    overwrite_b: Any = None,
    check_finite: Any = None,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Given:
    _plain(transposed=transposed)
    if assume_a not in (None, "gen", "general", "pos", "positive definite"):
        raise Different(f"assume_a={assume_a!r} has no counterpart")
    positive = assume_a in ("pos", "positive definite")
    a = _hermitian(a) if positive else _matrix(a)
    return given(a, _right_sides(a, b), assume="pos" if positive else "gen")


def _triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: Any = None,
    check_finite: Any = None,
) -> Given:
    if trans not in (0, "N"):
        raise Different(f"trans={trans!r} has no counterpart")
    a, b = _matrix(a), np.asarray(b)
    if b.ndim == 1:
        raise Different("its right-hand side is a vector")
    return given(a, b, upper=not lower, unitriangular=unit_diagonal)


def _lone(a: Any, overwrite_a: Any = None, check_finite: Any = None, **rest: Any) -> Given:
    _plain(**rest)
    return given(_matrix(a))


def _lu_solve(lu_and_piv: Any, b: Any, trans: int = 0, overwrite_b: Any = None, check_finite: Any = None) -> Given:
    _plain(trans=trans or None)
    factors, pivots = lu_and_piv
    b = np.asarray(b)
    if b.ndim == 1:
        raise Different("its right-hand side is a vector")
    return given(_matrix(factors), np.asarray(pivots, np.int32) + 1, b)


def _scipy_eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: Any = None,
    overwrite_b: Any = None,
    check_finite: Any = None,
    **rest: Any,
) -> Given:
    _plain(b=b, **{name: value for name, value in rest.items() if (name, value) != ("type", 1)})
    return given(_matrix(a), "L" if lower else "U")


def _scipy_svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: Any = None,
    check_finite: Any = None,
    lapack_driver: str = "gesdd",
) -> Given:
    return given(_matrix(a), full_matrices) if compute_uv else given(_matrix(a))


def _scipy_qr(
    a: Any,
    overwrite_a: Any = None,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: Any = None,
) -> Given:
    _plain(pivoting=pivoting)
    if mode not in ("full", "economic"):
        raise Different(f"mode={mode!r} returns something else")
    return given(_matrix(a), "complete" if mode == "full" else "reduced")


def _krylov(
    A: Any, b: Any, x0: Any = None, *, rtol: float = 1e-5, atol: float = 0.0, maxiter: Any = None, **rest: Any
) -> Given:
    _plain(atol=atol or None, maxiter=maxiter, **{name: value for name, value in rest.items() if value is not None})
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


def _svd_name(a: Any, full_matrices: bool = True, compute_uv: bool = True, *_: Any, **__: Any) -> str:
    return "trnsolver.svd" if compute_uv else "trnsolver.svdvals"


def _eigh_name(*_: Any, eigvals_only: bool = False, **__: Any) -> str:
    return "trnsolver.eigvalsh" if eigvals_only else "trnsolver.eigh"


def _values_too(make: Callable[..., Any]) -> Callable[..., Any]:
    """Make a result of several arrays, or pass on the values alone."""
    return lambda value, *args, **kwargs: make(value) if isinstance(value, tuple) else value


FUNCTIONS: dict[str, Analog] = {
    **{f"{module}.fft.{kind}": Analog(f"trnfft.{kind}", _transform) for module in _MODULES for kind in _KINDS},
    **{f"{module}.fft.{kind}n": Analog(f"trnfft.{kind}n", _transforms) for module in _MODULES for kind in _KINDS[:4]},
    **{f"{module}.fft.{kind}2": Analog(f"trnfft.{kind}2", _transforms2) for module in _MODULES for kind in _KINDS[:4]},
    **{f"scipy.fft.{name}": Analog(f"trnfft.{name}", _cosine) for name in ("dct", "idct", "dst", "idst")},
    "numpy.dot": Analog(
        "trnblas.gemm", _dot, choose=lambda a, b, out=None: "trnblas.gemm" if np.ndim(b) == 2 else "trnblas.gemv"
    ),
    "numpy.einsum": Analog("trntensor.einsum", _einsum),
    "numpy.linalg.cholesky": Analog("trnsolver.cholesky", lambda a, *, upper=False: given(_hermitian(a), upper=upper)),
    "numpy.linalg.solve": Analog("trnsolver.solve", _numpy_solve),
    "numpy.linalg.inv": Analog("trnsolver.inv", lambda a: given(_matrix(a))),
    "numpy.linalg.det": Analog("trnsolver.det", lambda a: given(_matrix(a)), lambda value, a: value[()]),
    "numpy.linalg.slogdet": Analog("trnsolver.slogdet", lambda a: given(_matrix(a)), _named("SlogdetResult")),
    "numpy.linalg.eigh": Analog("trnsolver.eigh", _triangle, _named("EighResult")),
    "numpy.linalg.eigvalsh": Analog("trnsolver.eigvalsh", _triangle),
    "numpy.linalg.qr": Analog("trnsolver.qr", _numpy_qr, _named("QRResult")),
    "numpy.linalg.svd": Analog("trnsolver.svd", _numpy_svd, _values_too(_named("SVDResult")), _svd_name),
    "scipy.linalg.cholesky": Analog(
        "trnsolver.cholesky", lambda a, lower=False, *_, **__: given(_hermitian(a), upper=not lower)
    ),
    "scipy.linalg.solve": Analog("trnsolver.solve", _scipy_solve),
    "scipy.linalg.solve_triangular": Analog("trnsolver.solve_triangular", _triangular),
    "scipy.linalg.inv": Analog("trnsolver.inv", _lone),
    "scipy.linalg.det": Analog("trnsolver.det", _lone, lambda value, *_, **__: value[()]),
    "scipy.linalg.lu_factor": Analog("trnsolver.lu_factor", _lone, lambda lu, *_, **__: (lu[0], lu[1] - 1)),
    "scipy.linalg.lu_solve": Analog("trnsolver.lu_solve", _lu_solve),
    "scipy.linalg.eigh": Analog("trnsolver.eigh", _scipy_eigh, _values_too(_tuple), _eigh_name),
    "scipy.linalg.svd": Analog("trnsolver.svd", _scipy_svd, _values_too(_tuple), _svd_name),
    "scipy.linalg.svdvals": Analog("trnsolver.svdvals", _lone),
    "scipy.linalg.qr": Analog("trnsolver.qr", _scipy_qr, _tuple),
    "scipy.linalg.expm": Analog("trnsolver.expm", lambda A: given(_matrix(A))),
    **{
        f"scipy.sparse.linalg.{name}": Analog(f"trnsolver.{name}", _krylov, _solution)
        for name in ("cg", "bicgstab", "gmres", "minres")
    },
}
