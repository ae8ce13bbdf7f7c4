"""Sparse triangular solves, incomplete factors and a bandwidth-reducing order."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import array_function, check, host, loops
from trnsci.arrays import to_numpy
from trnsci.backends import on_host
from trnsci.errors import ArgumentError, NotPositiveDefinite, Singular
from trnsci.host import refusal
from trnsparse import scipy_views
from trnsparse.arguments import dense, operation, same_kind, sparse
from trnsparse.csr import CSRMatrix
from trnsparse.indices import expand
from trnsparse.matrix import SparseMatrixLike
from trnsparse.products import triangle
from trnsparse.sddmm import sample_product

NATIVE = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def factor_incomplete(name: str, indptr: Tensor, indices: Tensor, values: Tensor, *more: Tensor | None) -> int | None:
    """Factor in place; return the row without a pivot, -1 if all have one, or ``None`` where torch must do it."""
    if loops.compiled is None or values.dtype not in NATIVE or host.refusal((indptr, indices, values)):
        return None
    arrays: list[Any] = [x if x is None else x.numpy() for x in (indptr, indices, values, *more)]
    row: int = getattr(loops.compiled, name)(NATIVE.index(values.dtype), *arrays)
    return row


@array_function
def solve_triangular(
    a: SparseMatrixLike,
    b: Tensor,
    *,
    lower: bool = True,
    unit_diagonal: bool = False,
    trans: bool | int | str = False,
) -> Tensor:
    """Return x with ``op(a) @ x = b``, reading only the lower (or upper) triangle of ``a``.

    Args:
        a: sparse [N, N]
        b: [N] or [N, K]
        lower: which triangle of ``a`` holds the system.
        unit_diagonal: take the diagonal as 1 and do not read it.
        trans: ``False``/``"n"``, ``True``/``"t"`` or ``"c"``.

    Error bound:
        The result solves ``(a + e) x = b`` with ``|e| <= g(r + 4) |a|``, r the entries of a row (Higham, Theorem 8.5,
        and four roundings because SciPy scales columns by the diagonal).

    Raises:
        Singular: a diagonal entry is zero or absent; ``index`` is its row.

    Example:
        >>> solve_triangular(CSRMatrix.from_dense(torch.tensor([[2.0, 0.0], [1.0, 1.0]])), torch.tensor([2.0, 3.0]))
        tensor([1., 2.])
    """
    on_host("trnsparse.solve_triangular")
    a = sparse("solve_triangular", "a", a)
    dense("solve_triangular", b=b)
    dtype = same_kind("solve_triangular", a=a, b=b)
    check.floating("solve_triangular", b=b)
    check.equal("solve_triangular", "N", rows=a.shape[0], columns=a.shape[1], b=b.shape[0] if b.ndim else 1)
    check.refuse(b.ndim not in (1, 2), "solve_triangular", "shape of b", tuple(b.shape), "[N] or [N, K]")
    check.data("solve_triangular", a=a.values, b=b)
    check.flag("solve_triangular", lower=lower, unit_diagonal=unit_diagonal)
    kind = operation("solve_triangular", trans)
    rows = a.to_csr()
    if kind != "n":
        rows, lower = rows.transpose(), not lower
        rows = rows.conj() if kind == "c" else rows
    work = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    columns = (b if b.ndim == 2 else b.unsqueeze(1)).to(work)
    rows = triangle(rows.to(work), lower=lower).to_csr()
    parts = (rows.indptr, rows.indices, rows.values)
    x: Tensor = _Solve.apply(*parts, columns, lower, unit_diagonal)  # type: ignore[no-untyped-call]
    return (x if b.ndim == 2 else x.squeeze(1)).to(dtype)


class _Solve(torch.autograd.Function):
    """x = a⁻¹ b; the gradient of b is a solve with aᴴ, that of a its product with x sampled at the entries."""

    @staticmethod
    def forward(
        ctx: Any, indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, lower: bool, unit: bool
    ) -> Tensor:
        x = _solve(indptr, indices, values.resolve_conj(), b.resolve_conj(), lower=lower, unit=unit)
        ctx.save_for_backward(indptr, indices, values, x)
        ctx.lower, ctx.unit = lower, unit
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        indptr, indices, values, x = ctx.saved_tensors
        n = x.shape[0]
        a = CSRMatrix._rebuilt({"indptr": indptr, "indices": indices}, values, (n, n))
        adjoint = a.transpose().conj()
        parts = (adjoint.indptr, adjoint.indices, adjoint.values)
        of_b: Tensor = _Solve.apply(*parts, grad, not ctx.lower, ctx.unit)  # type: ignore[no-untyped-call]
        of_values = None
        if ctx.needs_input_grad[2]:
            of_values = -sample_product(indptr, indices, of_b, x.conj())
            if ctx.unit:
                of_values = torch.where(a.majors == indices, 0, of_values)
        return None, None, of_values, of_b, None, None


def _solve(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, *, lower: bool, unit: bool) -> Tensor:
    n = b.shape[0]
    rows = expand(indptr, indices.shape[0])
    diagonal = b.new_ones(n)
    if not unit:
        on = rows == indices
        diagonal = b.new_zeros(n).index_put((rows[on],), values[on])
        absent = (diagonal == 0).nonzero().flatten()
        if absent.numel():
            raise Singular(op="solve_triangular", index=int(absent[0 if lower else -1]))
    if refusal((values, b), recorded=True) is None and b.numel() and _in_range(values, diagonal):
        return _by_scipy(indptr, indices, values, b, lower=lower, unit=unit)
    return _substitute(indptr, indices, values, b, lower=lower, unit=unit)


def _in_range(values: Tensor, diagonal: Tensor) -> bool:
    """Return whether every entry over every diagonal entry is a normal float64, as SciPy's scaled solve needs."""
    size, pivots = values.detach().abs().double(), diagonal.detach().abs().double()
    size = size[size > 0]
    if size.numel() == 0:
        return True
    (low, high), (least, most) = torch.aminmax(size), torch.aminmax(pivots)
    return bool((high / least < 1e300) & (low / most > 1e-290) & (least > 1e-290) & (most < 1e290))


def _by_scipy(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, *, lower: bool, unit: bool) -> Tensor:
    wide = torch.complex128 if b.is_complex() else torch.float64
    a = scipy_views.view(indptr, indices, values.detach().to(wide), b.shape[0]).rows
    if unit:
        # SciPy's own option is slow where the diagonal is not stored, and what is stored there is not read
        a = (sp.tril(a, -1) if lower else sp.triu(a, 1)) + sp.eye_array(b.shape[0], format="csr")
    x = sp.linalg.spsolve_triangular(a, to_numpy(b.detach().to(wide)), lower=lower)
    return torch.from_numpy(x).to(b.dtype)


def _substitute(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, *, lower: bool, unit: bool) -> Tensor:
    """Solve row by row: the definition, on every device and for every range of values."""
    n = b.shape[0]
    starts = indptr.tolist()
    x = b.clone()
    for i in range(n) if lower else range(n - 1, -1, -1):
        cols, vals = indices[starts[i] : starts[i + 1]], values[starts[i] : starts[i + 1]]
        others = cols != i
        x[i] = b[i] - vals[others] @ x[cols[others]]
        if not unit:
            x[i] = x[i] / vals[~others][0]
    return x


@array_function
def ilu0(a: SparseMatrixLike, *, boost: tuple[float, complex] | None = None) -> tuple[CSRMatrix, CSRMatrix]:
    """Return incomplete factors L (unit lower) and U (upper) with ``(L @ U)[i, j] = a[i, j]`` on the pattern of ``a``.

    Args:
        a: sparse [N, N] with a full diagonal. Values must not require grad: the factors are not differentiated.
        boost: (tolerance, value): a pivot of magnitude at most the tolerance is replaced by the value.

    Raises:
        Singular: a pivot is zero or its entry absent; ``index`` is its row.
    """
    rows = _square("ilu0", a)
    if boost is not None:
        check.refuse(not isinstance(boost, tuple | list) or len(boost) != 2, "ilu0", "boost", boost, "two numbers")
        boost = check.real("ilu0", "boost", boost[0]), check.coefficient("ilu0", "boost", boost[1], rows.dtype)
    n = rows.shape[0]
    values = rows.values.detach().resolve_conj().clone()
    numbers = None if boost is None else torch.tensor(boost, dtype=values.dtype, device="cpu")
    bad = factor_incomplete("ilu0", rows.indptr, rows.indices, values, numbers)
    if bad is None:
        bad = _ilu0(rows, values, boost)
    if bad >= 0:
        raise Singular(op="ilu0", index=bad)
    both = rows.with_values(values)
    from trnsparse.products import add, eye

    lower = add(triangle(both, offset=-1), eye(n, dtype=rows.dtype, device=rows.device))
    return lower.to_csr(), triangle(both, lower=False).to_csr()


def _ilu0(a: CSRMatrix, values: Tensor, boost: tuple[float, complex] | None) -> int:
    starts, columns = a.indptr.tolist(), a.indices.tolist()
    entries: list[Any] = values.tolist()
    diagonal = [-1] * a.shape[0]
    for i in range(a.shape[0]):
        span = range(starts[i], starts[i + 1])
        position = {columns[p]: p for p in span}
        for p in span:
            j = columns[p]
            if j >= i:
                break
            entries[p] /= entries[diagonal[j]]
            for q in range(diagonal[j] + 1, starts[j + 1]):
                if columns[q] in position:
                    entries[position[columns[q]]] -= entries[p] * entries[q]
        diagonal[i] = position.get(i, -1)
        if diagonal[i] >= 0 and boost is not None and abs(entries[diagonal[i]]) <= boost[0]:
            entries[diagonal[i]] = boost[1]
        if diagonal[i] < 0 or entries[diagonal[i]] == 0:
            return i
    values.copy_(torch.tensor(entries, dtype=values.dtype, device="cpu"))
    return -1


@array_function
def ic0(a: SparseMatrixLike) -> CSRMatrix:
    """Return the incomplete Cholesky factor L with ``(L @ L.H)[i, j] = a[i, j]`` on the lower pattern of ``a``.

    Args:
        a: sparse Hermitian [N, N]; the lower triangle is read. Values must not require grad.

    Raises:
        NotPositiveDefinite: a pivot is not positive; ``index`` is its row.
    """
    rows = triangle(_square("ic0", a)).to_csr()
    values = rows.values.detach().resolve_conj().clone()
    bad = factor_incomplete("ic0", rows.indptr, rows.indices, values)
    if bad is None:
        bad = _ic0(rows, values)
    if bad >= 0:
        raise NotPositiveDefinite(op="ic0", index=bad)
    return rows.with_values(values)


def _ic0(a: CSRMatrix, values: Tensor) -> int:
    starts, columns = a.indptr.tolist(), a.indices.tolist()
    entries: list[Any] = values.tolist()
    for i in range(a.shape[0]):
        last = starts[i + 1] - 1
        if last < starts[i] or columns[last] != i:
            return i
        position = {columns[p]: p for p in range(starts[i], last)}
        for p in range(starts[i], last):
            end = starts[columns[p] + 1] - 1
            for q in range(starts[columns[p]], end):
                if columns[q] in position:
                    entries[p] -= entries[position[columns[q]]] * entries[q].conjugate()
            entries[p] /= entries[end]
        pivot = entries[last].real - sum(abs(entries[p]) ** 2 for p in range(starts[i], last))
        if not pivot > 0:
            return i
        entries[last] = pivot**0.5
    values.copy_(torch.tensor(entries, dtype=values.dtype, device="cpu"))
    return -1


def _square(op: str, a: SparseMatrixLike) -> CSRMatrix:
    on_host(f"trnsparse.{op}")
    a = sparse(op, "a", a)
    check.data(op, a=a.values)
    check.equal(op, "N", rows=a.shape[0], columns=a.shape[1])
    check.floating(op, a=a.values)
    if torch.is_grad_enabled() and a.requires_grad:
        raise ArgumentError(
            op=op,
            argument="a",
            got="a matrix that requires grad",
            expected="values without gradient",
            hint="Pass a.detach(): the factors are a preconditioner and are not differentiated",
        )
    if a.device.type != "cpu" or a.dtype not in NATIVE:
        raise ArgumentError(
            op=op,
            argument="a",
            got=f"{a.dtype} on {a.device}".removeprefix("torch."),
            expected="float32, float64, complex64 or complex128 in host memory",
        )
    return a.to_csr()


@array_function
def reverse_cuthill_mckee(a: SparseMatrixLike) -> Tensor:
    """Return the order of rows and columns that brings the entries of ``a`` close to the diagonal.

    The pattern is taken as symmetric (that of ``a + a.T``); ``a[order][:, order]`` has the smaller bandwidth.

    Args:
        a: sparse [N, N]
    """
    a = sparse("reverse_cuthill_mckee", "a", a)
    check.equal("reverse_cuthill_mckee", "N", rows=a.shape[0], columns=a.shape[1])
    if a.shape[0] == 0:
        return torch.empty(0, dtype=torch.int64, device=a.device)
    rows = a.detach().cpu().to_csr()
    ones = rows.indices.new_ones(rows.nnz, dtype=torch.int32)
    pattern = scipy_views.view(rows.indptr, rows.indices, ones, a.shape[1]).rows
    order = sp.csgraph.reverse_cuthill_mckee(pattern, symmetric_mode=False)
    return torch.from_numpy(order.astype(np.int64)).to(a.device)


def bandwidth(a: SparseMatrixLike) -> int:
    """Return the largest distance of an entry from the diagonal."""
    a = sparse("bandwidth", "a", a)
    coo = a.to_coo()
    return int((coo.row - coo.col).abs().max()) if coo.nnz else 0
