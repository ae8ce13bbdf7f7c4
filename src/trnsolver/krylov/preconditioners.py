"""Preconditioners: functions close to the inverse of a matrix, for `cg`, `gmres` and the others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, overload

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import NotPositiveDefinite, Singular, array_function, check, host, loops
from trnsci.arrays import Array, from_numpy, to_numpy
from trnsci.backends import on_host
from trnsolver.arguments import DTYPES, nonsingular, or_shapes, square
from trnsolver.dense.lu import lu_factor, lu_solve
from trnsolver.dense.solve_triangular import triangular
from trnsolver.krylov.operators import Apply, on_columns
from trnsolver.sparse_direct.compressed_rows import Compressed, compress_square

P = ParamSpec("P")


class Preconditioner:
    """A function of [N] or [N, K]. It is copied and pickled as its arguments, from which it is made again."""

    def __init__(self, apply: Apply, build: Callable[..., Any], args: Any, options: dict[str, Any]) -> None:
        self._apply, self._build = apply, functools.partial(build, *args, **options)
        functools.update_wrapper(self, build)

    @overload
    def __call__(self, r: Tensor) -> Tensor: ...
    @overload
    def __call__(self, r: Array) -> Array: ...
    def __call__(self, r: Any) -> Any:
        return to_numpy(self._apply(from_numpy(r))) if isinstance(r, np.ndarray) else self._apply(r)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._build, ()


def keep_arguments(make: Callable[P, Apply]) -> Callable[P, Apply]:
    """Let a preconditioner take arrays and keep what it was made from, so that it can be copied and pickled."""
    build = array_function(make)

    @functools.wraps(make)
    def wrapper(*args: P.args, **options: P.kwargs) -> Apply:
        return Preconditioner(build(*args, **options), wrapper, args, options)

    return wrapper


@keep_arguments
def jacobi_preconditioner(a: Tensor) -> Apply:
    """Divide by the diagonal of ``a`` [N, N], dense or sparse; `Singular` when an entry of it is zero.

    Example:
        >>> jacobi_preconditioner(torch.diag(torch.tensor([2.0, 4.0])))(torch.ones(2, 1))
        tensor([[0.5000],
                [0.2500]])
    """
    on_host("trnsolver.jacobi_preconditioner")
    stored = _sparse_rows("jacobi_preconditioner", a)
    diagonal = _dense("jacobi_preconditioner", a).diagonal().clone() if stored is None else _diagonal(stored)
    nonsingular("jacobi_preconditioner", diagonal)
    diagonal = diagonal.unsqueeze(-1)
    return on_columns("jacobi_preconditioner", len(diagonal), lambda r: r / diagonal)


@keep_arguments
def block_jacobi_preconditioner(a: Tensor, size: int) -> Apply:
    """Solve with the diagonal blocks of ``size`` rows, factored once, all in one batch.

    Example:
        >>> block_jacobi_preconditioner(torch.diag(torch.tensor([2.0, 4.0, 5.0])), 2)(torch.ones(3, 1)).T
        tensor([[0.5000, 0.2500, 0.2000]])
    """
    stored = _sparse_rows("block_jacobi_preconditioner", a)
    a = _dense("block_jacobi_preconditioner", a) if stored is None else a
    n = a.shape[-1]
    check.integer("block_jacobi_preconditioner", "size", size, 1, max(1, n))
    whole = n // size
    if stored is None:
        a = or_shapes(a)
        blocks = torch.stack([a[i * size : (i + 1) * size, i * size : (i + 1) * size] for i in range(whole)])
        corner = a[whole * size :, whole * size :]
    else:
        blocks, corner = map(or_shapes, _diagonal_blocks(stored, size))
    factors = lu_factor(blocks)
    nonsingular("block_jacobi_preconditioner", factors.factors.diagonal(dim1=-2, dim2=-1))
    rest = lu_factor(corner) if n % size else None
    if rest is not None:
        nonsingular("block_jacobi_preconditioner", rest.factors.diagonal())

    def apply(r: Tensor) -> Tensor:
        head = lu_solve(*factors, r[: whole * size].reshape(whole, size, -1)).reshape(whole * size, -1)
        return head if rest is None else torch.cat([head, lu_solve(*rest, r[whole * size :])])

    return on_columns("block_jacobi_preconditioner", n, apply)


@keep_arguments
def ssor_preconditioner(a: Tensor, *, omega: float = 1.0) -> Apply:
    """Precondition by symmetric successive over-relaxation: one sweep down and one up, with ``omega`` between 0 and 2.

    Example:
        >>> ssor_preconditioner(torch.diag(torch.tensor([2.0, 4.0])))(torch.ones(2, 1))
        tensor([[0.5000],
                [0.2500]])
    """
    stored = _sparse_rows("ssor_preconditioner", a)
    omega = check.real("ssor_preconditioner", "omega", omega)
    check.refuse(not 0 < omega < 2, "ssor_preconditioner", "omega", omega, "between 0 and 2")
    if stored is None:
        a = _dense("ssor_preconditioner", a)
    diagonal = a.diagonal().clone() if stored is None else _diagonal(stored)
    nonsingular("ssor_preconditioner", diagonal)
    scale = (diagonal * (2 - omega) / omega).unsqueeze(-1)
    if stored is None:
        middle = torch.diag(diagonal / omega)
        down, up = _dense_substitutions(a.tril(-1) + middle, a.triu(1) + middle)
    else:
        whole, inner = stored.scipy(stored.values.numpy()), sp.diags_array(diagonal.numpy() / omega)
        down, up = _substitution(sp.tril(whole, -1) + inner, True), _substitution(sp.triu(whole, 1) + inner, False)
    return on_columns("ssor_preconditioner", len(diagonal), lambda r: up(scale * down(r)))


@keep_arguments
def ic0_preconditioner(a: Tensor) -> Apply:
    """Incomplete Cholesky without fill: the factor has the zeros of ``a``.

    Raises:
        NotPositiveDefinite: a pivot is not positive, which may happen to definite matrices too.

    Example:
        >>> ic0_preconditioner(torch.diag(torch.tensor([2.0, 4.0])))(torch.ones(2, 1))
        tensor([[0.5000],
                [0.2500]])
    """
    stored = _sparse_rows("ic0_preconditioner", a)
    if stored is not None and loops.compiled is not None:
        part = stored.scipy(stored.values.numpy())
        lower = Compressed.of_scipy(sp.csr_array(sp.tril(part, format="csr")))
        values, bad = _factor_rows("ic0", lower)
        if bad >= 0:
            raise NotPositiveDefinite(op="ic0_preconditioner", index=bad, hint="Add a multiple of the diagonal")
        part = lower.scipy(values)
        return _both(
            "ic0_preconditioner", _substitution(part, True), _substitution(part.conj().T, False), part.shape[0]
        )
    a = _dense("ic0_preconditioner", a)
    check.data("ic0_preconditioner", a=a)
    factor = a.tril().clone()
    pattern = factor != 0
    for k in range(len(a)):
        pivot = factor[k, k].real
        if not float(pivot) > 0:
            raise NotPositiveDefinite(op="ic0_preconditioner", index=k, hint="Add a multiple of the diagonal")
        factor[k:, k] /= pivot.sqrt()
        below = factor[k + 1 :, k]
        rows = torch.nonzero(below).flatten()
        if len(rows):
            corner = (rows + k + 1).unsqueeze(1), (rows + k + 1).unsqueeze(0)
            update = torch.outer(below[rows], below[rows].conj())
            factor[corner] = torch.where(pattern[corner], factor[corner] - update, factor[corner])
    factor = factor.tril()
    return _both("ic0_preconditioner", *_dense_substitutions(factor, factor.mH), len(a))


@keep_arguments
def ilu0_preconditioner(a: Tensor) -> Apply:
    """Incomplete LU without fill and without exchanges; `Singular` at a zero pivot.

    Example:
        >>> ilu0_preconditioner(torch.diag(torch.tensor([2.0, 4.0])))(torch.ones(2, 1))
        tensor([[0.5000],
                [0.2500]])
    """
    stored = _sparse_rows("ilu0_preconditioner", a)
    if stored is not None and loops.compiled is not None:
        values, bad = _factor_rows("ilu0", stored, None)
        if bad >= 0:
            raise Singular(op="ilu0_preconditioner", index=bad)
        whole = stored.scipy(values)
        lower = sp.tril(whole, -1) + sp.eye_array(whole.shape[0], dtype=values.dtype)
        down, up = _substitution(lower, True), _substitution(sp.triu(whole), False)
        return _both("ilu0_preconditioner", down, up, whole.shape[0])
    a = _dense("ilu0_preconditioner", a)
    check.data("ilu0_preconditioner", a=a)
    factors = a.clone()
    pattern = a != 0
    for k in range(len(a)):
        nonsingular("ilu0_preconditioner", torch.cat([torch.ones_like(factors[0, :k]), factors[k, k : k + 1]]))
        rows = torch.nonzero(pattern[k + 1 :, k]).flatten() + k + 1
        columns = torch.nonzero(pattern[k, k + 1 :]).flatten() + k + 1
        factors[rows, k] /= factors[k, k]
        corner = rows.unsqueeze(1), columns.unsqueeze(0)
        update = torch.outer(factors[rows, k], factors[k, columns])
        factors[corner] = torch.where(pattern[corner], factors[corner] - update, factors[corner])

    return _both("ilu0_preconditioner", *_dense_substitutions(factors, factors, unit=True), len(a))


def _both(op: str, down: Apply, up: Apply, n: int) -> Apply:
    """Return a substitution down and one up."""
    return on_columns(op, n, lambda r: up(down(r)))


def _dense_substitutions(lower: Tensor, upper: Tensor, *, unit: bool = False) -> tuple[Apply, Apply]:
    """Return solutions with dense triangles, the lower one with ones on its diagonal where that is said."""
    return (
        lambda r: triangular(lower, r, lower=True, unit=unit),
        lambda r: triangular(upper, r, lower=False),
    )


def _substitution(triangle: Any, lower: bool) -> Apply:
    """Return solutions with a sparse triangle: SuperLU's, which finds nothing to eliminate in it."""
    from scipy.sparse.linalg import splu

    options = {"Equil": False, "SymmetricMode": False}
    factor = splu(triangle.tocsc(), permc_spec="NATURAL", diag_pivot_thresh=0.0, options=options)
    dtype = torch.from_numpy(np.empty(0, triangle.dtype)).dtype

    def apply(r: Tensor) -> Tensor:
        if r.dtype == dtype and host.refusal((r,)) is None:
            return torch.from_numpy(factor.solve(r.numpy()))
        # torch differentiates and moves dense triangles alone
        return triangular(torch.from_numpy(triangle.toarray()).to(r.device), r, lower=lower)

    return apply


def _factor_rows(name: str, rows: Compressed, *more: Any) -> tuple[Any, int]:
    """Factor a copy of the values by the compiled loops; return them and the row without a pivot, or -1."""
    values = rows.values.numpy().copy()
    kind = DTYPES.index(rows.values.dtype)
    return values, getattr(loops.compiled, name)(kind, rows.indptr, rows.indices, values, *more)


def _sparse_rows(op: str, a: Any) -> Compressed | None:
    """Return the rows of a sparse matrix in host memory; ``None`` for others, which only dense torch handles."""
    if not sp.issparse(a) and not hasattr(a, "to_csr") and (not isinstance(a, Tensor) or a.layout == torch.strided):
        return None
    if isinstance(a, Tensor) and (a.requires_grad or not a.is_cpu):
        return None
    values = a.values if hasattr(a, "to_csr") else None
    if isinstance(values, Tensor) and (values.dtype not in DTYPES or host.refusal((values,)) is not None):
        return None
    rows = compress_square(op, a)
    return rows if rows.values.ndim == 1 and host.refusal((rows.values,)) is None else None


def _diagonal(rows: Compressed) -> Tensor:
    """Return the diagonal, zeros where nothing is stored."""
    return torch.from_numpy(rows.scipy(rows.values.numpy()).diagonal())


def _diagonal_blocks(rows: Compressed, size: int) -> tuple[Tensor, Tensor]:
    """Return the diagonal blocks of ``size`` rows, and the smaller one that is left."""
    count = -(-rows.shape[0] // size)
    row, column = rows.rows, rows.indices
    inside = row // size == column // size
    blocks = rows.values.new_zeros((count, size, size))
    at = [torch.from_numpy(x[inside]) for x in (row // size, row % size, column % size)]
    blocks[at[0], at[1], at[2]] = rows.values[torch.from_numpy(inside)]
    whole, rest = divmod(rows.shape[0], size)
    return blocks[:whole], blocks[-1, :rest, :rest]


def _dense(op: str, a: Any) -> Tensor:
    if not isinstance(a, Tensor) and hasattr(a, "to_dense"):
        a = a.to_dense()
    if isinstance(a, Tensor) and a.layout != torch.strided:
        a = a.to_dense()
    square(op, a=a)
    check.refuse(a.ndim != 2, op, "shape of a", tuple(a.shape), "a matrix: 2 dimensions")
    return a
