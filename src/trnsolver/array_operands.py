"""Operands of NumPy's and SciPy's functions, as functions here take them."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import scipy.linalg

from trnsci.analogs import Different, Given, given, refuse_options, replaces

F = TypeVar("F", bound=Callable[..., Any])


def as_matrix(a: Any) -> Any:
    """Return a matrix or a stack of them; ours refuse what holds no floating-point numbers."""
    a = np.asarray(a)
    if a.ndim < 2:
        raise Different("its operand is no matrix")
    return a


def as_hermitian(a: Any) -> Any:
    """Return a matrix whose other triangle agrees: which one is read then does not matter."""
    a = as_matrix(a)
    if not np.array_equal(a, a.conj().swapaxes(-1, -2)):
        raise Different("its matrix is not Hermitian as stored")
    return a


def as_right_sides(a: Any, b: Any) -> Any:
    """Return right-hand sides that ours tells from stacks of them as NumPy and SciPy do."""
    b = np.asarray(b)
    if b.ndim != 1 and b.ndim < np.ndim(a):
        raise Different("vectors and stacks of matrices are told apart otherwise")
    if b.ndim == 1 and np.ndim(a) > 2:
        raise Different("one vector for a stack of matrices")
    return b


# SciPy warns below the roundoff; near it, its own estimate decides
INEXACT = 10.0
ILL_CONDITIONED = "its matrix is ill-conditioned, of which SciPy warns"


def refuse_ill_conditioned(a: Any, estimator: str, factors: Any, **options: Any) -> None:
    """Leave systems alone that SciPy warns of; LAPACK's ``gecon`` or ``pocon`` estimates their condition."""
    (estimate,) = scipy.linalg.get_lapack_funcs((estimator,), (a,))
    rcond, _ = estimate(factors, np.linalg.norm(a, 1), **options)
    if not rcond > INEXACT * np.finfo(a.dtype).eps:
        raise Different(ILL_CONDITIONED)


def replaces_arrays(*theirs: str, **traits: Any) -> Callable[[F], F]:
    """Declare that a function of one matrix replaces functions of NumPy and SciPy, at the defaults of their options."""

    def declare(function: F) -> F:
        @replaces(*theirs, by=function, **traits)
        def read_matrix(a: Any, **options: Any) -> Given:
            refuse_options(**options)
            return given(function, as_matrix(a))

        return function

    return declare


def replaces_krylov(function: F) -> F:
    """Declare that an iterative solver replaces SciPy's of its name, where it converges."""

    def convert(value: Any, A: Any, b: Any, *_: Any, **__: Any) -> tuple[Any, int]:
        if not value.converged:
            raise Different("it did not converge here")
        return np.asarray(value.x), 0

    @replaces(f"scipy.sparse.linalg.{function.__name__}", by=function, result=convert)
    def read_scipy(A: Any, b: Any, x0: Any, rtol: float, M: Any, **options: Any) -> Given:
        refuse_options(**options)
        if not all(x is None or hasattr(x, "tocsr") or isinstance(x, np.ndarray) for x in (A, M)):
            raise Different("its operator, or its preconditioner, is no matrix")
        if M is not None and function.__name__ == "minres":
            raise Different("its tolerance is one of preconditioned residuals")
        b = np.asarray(b)
        if b.ndim != 1 or (function.__name__ == "minres" and (b.dtype.kind == "c" or A.dtype.kind == "c")):
            raise Different("its right-hand side is no vector, or theirs takes real numbers alone")
        improve = None if M is None else lambda r: M @ r
        return given(function, A, b, tol=rtol, x0=x0, preconditioner=improve)

    return function
