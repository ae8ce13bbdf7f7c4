"""Sparse matrix times dense matrix or vector: `spmm` and `spmv`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnsci import Op, array_function, check
from trnsci.errors import ArgumentError
from trnsci.gradient import Saved
from trnsci.launcher import current
from trnsci.nki import M_TILE, launch
from trnsparse import scipy_views
from trnsparse.arguments import (
    HALF,
    KERNEL_DTYPES,
    applied,
    bare,
    dense,
    folded,
    operation,
    same_kind,
    scaled,
    sparse,
    spread,
    unfolded,
)
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_spmm import block_product
from trnsparse.coo import COOMatrix
from trnsparse.csr import CSCMatrix, CSRMatrix
from trnsparse.format_choice import FORMATS, arranged
from trnsparse.indices import expand, transposition
from trnsparse.kernels import spmm as kernels
from trnsparse.matrix import SparseMatrix
from trnsparse.sddmm import sampled


@array_function
def spmm(
    a: SparseMatrix,
    b: Tensor,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    format: str = "auto",  # noqa: A002
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(a) @ b + beta * c``.

    A BSR matrix runs block by block, every other format row by row: on the host as it is stored, by SciPy; on a device
    in the format predicted fastest, and the plan of a call says why.

    Args:
        a: sparse [M, K], or [K, M] when transposed.
        b: [..., K, N]
        alpha: a number.
        beta: a number. When it is 0, ``c`` is not read.
        c: [..., M, N]
        trans: ``False``/``"n"``, ``True``/``"t"`` or ``"c"`` (conjugate transpose).
        format: what to multiply in: ``"auto"`` is the matrix as it is stored on the host, and on a device compressed
            rows, blocks or dense, whichever is predicted fastest; ``"csr"``, ``"bsr"`` or ``"dense"`` is that one;
            ``"stored"`` the matrix as it is.
        out: [..., M, N], memory for the result, shared with no operand.

    Error bound:
        ``g(r + 2) (|alpha| |a| |b| + |beta| |c|)`` elementwise with r the entries of the row, of its blocks for BSR.

    Example:
        >>> spmm(CSRMatrix.from_dense(torch.eye(2)), torch.ones(2, 1), alpha=3.0)
        tensor([[3.],
                [3.]])
    """
    kind = _checked("spmm", a, trans, format, b=b, c=c)
    check.ndim("spmm", 2, b=b)
    inner, outer = (a.shape[1], a.shape[0]) if kind == "n" else a.shape
    if inner != b.shape[-2]:
        check.equal("spmm", "K", hint="Transpose a with trans=True?", a=inner, b=b.shape[-2])
    if out is not None:
        check.out("spmm", out, shape=(*b.shape[:-2], outer, b.shape[-1]), dtype=b.dtype, a=a.values, b=b, c=c)
    result = _scaled_product("spmm", a, b, kind, format, alpha, beta, c)
    return result if out is None else out.copy_(result)


@array_function
def spmv(
    a: SparseMatrix,
    x: Tensor,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    y: Tensor | None = None,
    trans: bool | int | str = False,
    format: str = "auto",  # noqa: A002
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(a) @ x + beta * y``.

    Args:
        a: sparse [M, K], or [K, M] when transposed.
        x: [..., K]
        alpha: a number.
        beta: a number. When it is 0, ``y`` is not read.
        y: [..., M]
        trans: ``False``/``"n"``, ``True``/``"t"`` or ``"c"`` (conjugate transpose).
        format: as for `spmm`.
        out: [..., M], memory for the result, shared with no operand.

    Error bound:
        That of `spmm`.

    Example:
        >>> spmv(CSRMatrix.from_dense(torch.eye(2)), torch.ones(2))
        tensor([1., 1.])
    """
    kind = _checked("spmv", a, trans, format, x=x, y=y)
    check.ndim("spmv", 1, x=x)
    inner, outer = (a.shape[1], a.shape[0]) if kind == "n" else a.shape
    if inner != x.shape[-1]:
        check.equal("spmv", "K", hint="Transpose a with trans=True?", a=inner, x=x.shape[-1])
    if out is not None:
        check.out("spmv", out, shape=(*x.shape[:-1], outer), dtype=x.dtype, a=a.values, x=x, y=y)
    addend = None if y is None else y.unsqueeze(-1)
    result = _scaled_product("spmv", a, x.unsqueeze(-1), kind, format, alpha, beta, addend).squeeze(-1)
    return result if out is None else out.copy_(result)


_MATRICES = frozenset((COOMatrix, CSRMatrix, CSCMatrix, BSRMatrix))


def _checked(op: str, a: SparseMatrix, trans: Any, name: str, **operands: Any) -> str:
    """Check operands and options and return the operation. What can be seen at a glance to be right costs nothing."""
    (b_name, b), (_, c) = operands.items()
    if type(a) not in _MATRICES or type(b) is not Tensor or c is not None or b.dtype is not a.values.dtype:
        sparse(op, a=a)
        dense(op, **{b_name: b} if c is None else operands)
        same_kind(op, a=a, **{b_name: b} if c is None else operands)
    elif b.device != a.values.device or b.dtype is torch.bool or b.is_nested:
        dense(op, **{b_name: b})
        same_kind(op, a=a, **{b_name: b})
    if name != "auto":
        check.option(op, "format", name, FORMATS)
    return "n" if trans is False else operation(op, trans)


def _scaled_product(
    op: str, a: SparseMatrix, b: Tensor, kind: str, name: str, alpha: Any, beta: Any, c: Tensor | None
) -> Tensor:
    """``alpha * op(a) @ b + beta * c``, rounded to half precision once."""
    if b.dtype in HALF and not bare(alpha, beta, c):
        wide = a.to(torch.float32), b.float(), kind, name, alpha, beta, None if c is None else c.float()
        return _scaled_product(op, *wide).to(b.dtype)
    return scaled(op, unfolded(_product(a, folded(b), kind, name), b), alpha, beta, c)


def _product(a: SparseMatrix, b: Tensor, kind: str, name: str) -> Tensor:
    """``op(a) @ b`` for b [K, N], in the format of this name."""
    matrix = arranged(a, b, name)
    if isinstance(matrix, Tensor):
        from trnblas import gemm

        return gemm(1.0, matrix, b, trans_a=kind)
    if isinstance(matrix, BSRMatrix):
        return block_product(applied(kind, matrix), b)
    if isinstance(matrix, CSCMatrix):
        rows, trans = matrix.transpose(), kind == "n"
    else:
        rows, trans = matrix.to_csr(), kind != "n"
    return _spmm(rows.indptr, rows.indices, _conjugated(rows, kind), b, rows.shape[1], trans)


def _conjugated(a: SparseMatrix, kind: str) -> Tensor:
    return a.conj().values if kind == "c" else a.values


def _fake(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, columns: int, trans: bool) -> Tensor:
    return b.new_empty((columns if trans else indptr.shape[0] - 1, b.shape[1]))


def _cost(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, columns: int, trans: bool) -> int:
    return 2 * values.shape[0] * b.shape[1] * (4 if values.is_complex() else 1)


# ``columns`` is the width of the matrix as stored; ``trans`` multiplies by its transpose.
_spmm = Op("trnsparse::spmm", fake=_fake, cost=_cost)


@_spmm.impl("pytorch")
def _pytorch(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, columns: int, trans: bool) -> Tensor:
    recorded = torch.is_grad_enabled() and (values.requires_grad or b.requires_grad)
    if values.dtype in scipy_views.DTYPES and scipy_views.usable(indptr, indices, values, b):
        if recorded:
            result: Tensor = _Recorded.apply(  # type: ignore[no-untyped-call]
                indptr, indices, values, b, columns, trans
            )
            return result
        return scipy_views.product(indptr, indices, values, b, columns, trans)
    work = torch.float32 if values.dtype in (torch.float16, torch.bfloat16) else values.dtype
    rows = expand(indptr, indices.shape[0])
    source, target = (rows, indices) if trans else (indices, rows)
    terms = values.to(work).unsqueeze(1) * b.to(work)[source]
    height = columns if trans else indptr.shape[0] - 1
    return terms.new_zeros((height, b.shape[1])).index_add(0, target, terms).to(values.dtype)


class _Recorded(torch.autograd.Function):
    """SciPy's product with its gradient, which consists of the same products."""

    @staticmethod
    def forward(
        ctx: Any, indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, columns: int, trans: bool
    ) -> Tensor:
        ctx.save_for_backward(indptr, indices, values, b)
        ctx.columns, ctx.trans = columns, trans
        return scipy_views.product(indptr, indices, values, b, columns, trans)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        indptr, indices, values, b = ctx.saved_tensors
        left, right = (b.conj(), grad) if ctx.trans else (grad, b.conj())
        of_values = sampled(indptr, indices, left, right) if ctx.needs_input_grad[2] else None
        of_b = None
        if ctx.needs_input_grad[3]:
            of_b = _spmm(indptr, indices, values.conj().resolve_conj(), grad, ctx.columns, not ctx.trans)
        return None, None, of_values, of_b, None, None


def _limits(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, columns: int, trans: bool) -> str | None:
    if current().target == "trn1":
        return "trn1 cannot gather rows by DMA; BSR matrices run on every generation"
    return None


@_spmm.impl("nki", dtypes=KERNEL_DTYPES, limits=_limits)
def _nki(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, columns: int, trans: bool) -> Tensor:
    if trans:
        rows = indptr.shape[0] - 1
        indptr, indices, order = transposition(indptr, indices, columns)
        values, columns = values[order], rows
    return _launched(indptr.tolist(), indptr, indices, values, b)


@_spmm.prediction
def _predicted(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, columns: int, trans: bool) -> Tensor:
    rows = columns if trans else indptr.shape[0] - 1
    return _launched(spread(values.shape[0], rows), indptr.new_empty(rows + 1), indices, values, b)


def _launched(pointers: list[int], indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor) -> Tensor:
    rows = len(pointers) - 1
    if rows == 0 or b.numel() == 0 or values.numel() == 0:
        return b.new_zeros((rows, b.shape[1]))
    if b.shape[0] > 2**31 - 1:
        raise ArgumentError(op="spmm", argument="K", got=b.shape[0], expected="below 2**31 on a device")
    bounds = (*(pointers[first] for first in range(0, rows, M_TILE)), pointers[-1])
    local = expand(indptr, indices.shape[0]) % M_TILE if not indptr.is_meta else indices
    columns_hbm = indices.to(torch.int32).unsqueeze(1).contiguous()  # [nnz, 1]
    local_hbm = local.to(torch.float32).unsqueeze(1).contiguous()  # [nnz, 1]
    values_hbm = values.to(torch.float32).unsqueeze(1).contiguous()  # [nnz, 1]
    made: Tensor = launch(
        kernels.spmm, columns_hbm, local_hbm, values_hbm, b.contiguous(), rows=rows, bounds=bounds
    )  # [M, N]
    return made


@_spmm.vjp(saves=("indptr", "indices", "values", "b"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    if saved.needs("values"):
        left, right = (saved.b.conj(), grad) if saved.trans else (grad, saved.b.conj())
        found["values"] = sampled(saved.indptr, saved.indices, left, right)
    if saved.needs("b"):
        values = saved.values.conj().resolve_conj()
        found["b"] = _spmm(saved.indptr, saved.indices, values, grad, saved.columns, not saved.trans)
    return found
