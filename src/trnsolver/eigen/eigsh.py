"""Eigenvalues inside the spectrum of sparse Hermitian matrices: shift and invert, and how many are in an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from trnsci import ArgumentError, NumericalError, array_function, check
from trnsci.analogs import Different, Given, given, refuse_options, replaces
from trnsci.arrays import to_numpy
from trnsci.backends import on_host
from trnsolver.arguments import double_dtype, or_shapes
from trnsolver.eigen.eigenpairs import Pairs, check_search, find
from trnsolver.eigen.lanczos import Lanczos
from trnsolver.krylov.vectors import norms
from trnsolver.sparse_direct.compressed_rows import Compressed, Sparse, compress_square
from trnsolver.sparse_direct.orderings import Ordering, order_of
from trnsolver.sparse_direct.refine_sparse import prove_inertia
from trnsolver.sparse_direct.sparse_factor import Method, factor_sparse
from trnsolver.sparse_direct.superlu import SuperLU, hermitian

Which = Literal["LM", "LA", "SA"]
_NAMES: dict[str, Literal["largest", "smallest", "magnitude"]] = {
    "LM": "magnitude",
    "LA": "largest",
    "SA": "smallest",
}


@dataclass(frozen=True, slots=True)
class Count:
    """How many eigenvalues are in an interval, and how near to its ends one may be without being counted right."""

    count: int
    slack: float


@array_function
@check.hands_on("lanczos", "factor_sparse")
def eigsh(
    a: Sparse,
    k: int = 6,
    *,
    sigma: float | None = None,
    which: Which = "LM",
    tol: float = 1e-10,
    maxiter: int | None = None,
    method: Method = "auto",
    seed: int = 0,
) -> Pairs:
    """``k`` eigenpairs of a sparse Hermitian matrix: the arguments of ``scipy.sparse.linalg.eigsh``.

    Args:
        a: sparse [N, N], of trnsparse, SciPy or torch; its lower triangle is read.
        k: how many, at most N.
        sigma: find those near this number, by Lanczos on the inverse of ``a - sigma``, which is factored once.
        which: ``LM``: nearest to ``sigma``, or without it largest in magnitude; ``LA``: the nearest above ``sigma``, or
            the largest; ``SA``: the nearest below, or the smallest.
        tol: residual of the iteration, relative to its largest eigenvalue.
        maxiter: steps of the iteration.
        method: of the factors, as for `factor_sparse`.
        seed: of the start vector.

    Returns:
        `Pairs`, nearest first; ``residuals`` are those of ``a`` itself, ``norm(a @ v - v * w)``.

    Raises:
        Singular: ``sigma`` is an eigenvalue to working precision. Move it a little.

    Error bound:
        every value is within its residual of an eigenvalue of ``a``.

    Example:
        >>> import scipy.sparse as sp
        >>> eigsh(sp.diags_array([1.0, 4.0, 6.0, 9.0, 12.0], format="csr"), 2, sigma=5.5).values.round(decimals=6)
        array([6., 4.])
    """
    check.option("eigsh", "which", which, tuple(_NAMES))
    rows = compress_square("eigsh", a, lower=True)
    n, dtype = rows.shape[0], rows.values.dtype
    check.refuse(rows.values.ndim != 1, "eigsh", "a", "a batch of values", "one matrix")
    if not 1 <= check.real("eigsh", "k", k) <= n:
        raise ArgumentError("eigsh", "k", k, f"1 to {n}")
    # of a Hermitian matrix the adjoint of compressed columns is the same in compressed rows
    matrix = hermitian(rows, rows.values).conj().T

    def apply(x: Tensor) -> Tensor:
        return torch.from_numpy(matrix @ to_numpy(x)).to(x.device)

    options: dict[str, Any] = {"n": n, "which": _NAMES[which], "tol": tol, "maxiter": maxiter}
    options["start"] = (dtype, "cpu", seed)
    if sigma is None:
        on_host("trnsolver.eigsh")
        return _on(rows.values.device, find(Lanczos(check_search("lanczos", matrix, k, **options))))
    check.refuse(not math.isfinite(check.real("eigsh", "sigma", sigma)), "eigsh", "sigma", sigma, "a finite number")
    shifted = sp.csr_array(matrix - sigma * sp.eye_array(n, dtype=matrix.dtype, format="csr"))
    engine = factor_sparse(shifted, method=method)._engine
    if not isinstance(engine, SuperLU):
        check.data("eigsh", a=or_shapes(rows.values))
    # checked once: the iteration would notice numbers that are none
    inverse: Any = lambda x: engine.solve(x.unsqueeze(0), "n")[0]  # noqa: E731
    if isinstance(engine, SuperLU) and engine.columns is None:
        solve = engine.factors[0].solve
        inverse = LinearOperator(matrix.shape, matvec=solve, matmat=solve, dtype=matrix.dtype)
    # a solve costs more than a look
    inner = find(Lanczos(check_search("lanczos", inverse, k, **options, stride=8)))
    if inner.vectors.is_meta:
        return _on(rows.values.device, inner)
    values = sigma + 1.0 / inner.values
    residuals = norms(apply(inner.vectors) - inner.vectors * values.to(dtype))
    return _on(rows.values.device, replace(inner, values=values, residuals=residuals))


def _ascending(pairs: Pairs, *_: Any, **__: Any) -> tuple[Any, Any]:
    """Return eigenpairs in the order of SciPy's."""
    order = np.argsort(pairs.values)
    return np.asarray(pairs.values)[order], np.asarray(pairs.vectors)[:, order]


@replaces("scipy.sparse.linalg.eigsh", by=eigsh, result=_ascending, order="CF")
def _read_scipy(
    A: Any, k: int, sigma: Any, which: str, tol: float, return_eigenvectors: bool, mode: str, **options: Any
) -> Given:
    refuse_options(**options)
    if not return_eigenvectors:
        raise Different("values alone come in ARPACK's order")
    if not hasattr(A, "tocsr") or A.dtype.kind not in "fc" or k >= A.shape[0] or mode != "normal":
        raise Different("no sparse matrix of floating-point numbers, or all its eigenvalues")
    if which not in (_NAMES if sigma is None else ("LM",)):
        raise Different(f"which={which!r} with sigma={sigma!r} has no counterpart")
    return given(eigsh, A, k, sigma=sigma, which=which, tol=tol or 10 * float(np.finfo(A.dtype).eps))


def _on(device: torch.device, pairs: Pairs) -> Pairs:
    """Return the pairs where the matrix is: they were computed on the host."""
    values, vectors, residuals = (x.to(device) for x in (pairs.values, pairs.vectors, pairs.residuals))
    return replace(pairs, values=values, vectors=vectors, residuals=residuals)


@array_function
def count_eigenvalues(a: Sparse, interval: tuple[float, float], *, ordering: Ordering = "amd") -> Count:
    """Count the eigenvalues of a sparse Hermitian matrix in ``[low, high)`` by inertia, without computing any.

    Args:
        a: sparse [N, N], of trnsparse, SciPy or torch; its lower triangle is read.
        interval: ``low`` and ``high``; infinite ends are left open.
        ordering: what keeps the factors sparse.

    Returns:
        `Count`. The count is exactly that of a matrix within ``slack`` of ``a`` in the 2-norm, which was computed from
        the factors: an eigenvalue farther than ``slack`` from both ends is counted right.

    Raises:
        NumericalError: factors without exchanges are not stable in any of several orders. Move the end a little.

    Cost:
        a factorisation for each finite end, and the product of its factors.

    Example:
        >>> import scipy.sparse as sp
        >>> count_eigenvalues(sp.diags_array([1.0, 4.0, 6.0, 9.0], format="csr"), (3.0, 7.0)).count
        2
    """
    op = "count_eigenvalues"
    on_host("trnsolver.count_eigenvalues")
    rows = compress_square("count_eigenvalues", a, lower=True)
    ends = [float(check.real(op, "interval", end)) for end in check.sequence(op, "interval", interval)]
    low, high = ends if len(ends) == 2 else (math.inf, -math.inf)
    check.refuse(not low <= high, op, "interval", interval, "low and high, low at most high")
    n = rows.shape[0]
    if n == 0 or low == high:
        return Count(0, 0.0)
    wide = double_dtype(rows.values.dtype)
    matrix = hermitian(rows, rows.values.to(wide))
    (before, slack), (until, other) = (_below(matrix, end, ordering) for end in (low, high))
    return Count(until - before, max(slack, other))


def _below(matrix: Any, end: float, ordering: Ordering) -> tuple[int, float]:
    """Return how many eigenvalues are below, and the slack."""
    n = matrix.shape[0]
    if math.isinf(end):
        return (n, 0.0) if end > 0 else (0, 0.0)
    scale = float(np.asarray(abs(matrix).sum(0)).max()) + abs(end)
    rng, start = np.random.default_rng(0), np.arange(n)
    # a pivot that is zero, or tiny, in one order is none in another; beside the end there is none in the last resort
    for nudge in (0.0, 0.0, 0.0, 0.0, -(2.0**-26), 2.0**-26):
        rows = sp.csr_array(matrix[start][:, start])
        order = start[order_of(Compressed.of_scipy(rows), ordering)]
        inertia = prove_inertia(sp.csc_array(matrix[order][:, order]), end + nudge * scale)
        if inertia is not None and inertia[1] <= 2.0**-22 * scale:
            return inertia[0], inertia[1] + abs(nudge) * scale
        start = rng.permutation(n)
    raise NumericalError(
        op="count_eigenvalues",
        message=f"factors without exchanges are not stable at {end}",
        hint="Move the end of the interval a little",
    )
