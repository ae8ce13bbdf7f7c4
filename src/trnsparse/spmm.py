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
from trnsparse import host
from trnsparse.arguments import (
    KERNEL_DTYPES,
    applied,
    bare,
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
from trnsparse.choice import FORMATS, arranged
from trnsparse.coo import COOMatrix
from trnsparse.csr import CSCMatrix, CSRMatrix
from trnsparse.direct import fits, prepare
from trnsparse.kernels import spmm as kernels
from trnsparse.matrix import SparseMatrix
from trnsparse.sddmm import sampled
from trnsparse.structure import expand, transposition


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

    A BSR matrix runs block by block, every other format row by row. Which of these, or a dense product, is chosen by
    predicted cost; the plan of a call says why.

    Args:
        a: sparse [M, K], or [K, M] when transposed.
        b: [..., K, N]
        alpha: a number.
        beta: a number. When it is 0, ``c`` is not read.
        c: [..., M, N]
        trans: ``False``/``"n"``, ``True``/``"t"`` or ``"c"`` (conjugate transpose).
        format: what to multiply in: ``"auto"`` takes compressed rows, blocks or dense, whichever is predicted fastest
            where the product runs; ``"csr"``, ``"bsr"`` or ``"dense"`` is that one; ``"stored"`` the matrix as it is.
        out: [..., M, N], memory for the result, shared with no operand.

    Error bound:
        ``g(r + 2) (|alpha| |a| |b| + |beta| |c|)`` elementwise with r the entries of the row, of its blocks for BSR.

    Example:
        >>> spmm(CSRMatrix.from_dense(torch.eye(2)), torch.ones(2, 1), alpha=3.0)
        tensor([[3.],
                [3.]])
    """
    if format == "auto" and isinstance(trans, bool):
        if out is None and bare(alpha, beta, c):
            made = straight(a, b, trans)
        else:
            made = _straight_sum(a, b, trans, alpha, beta, c, out)
        if made is not None:
            return made
    sparse("spmm", a=a)
    check.tensor("spmm", b=b)
    kind = operation("spmm", trans)
    check.option("spmm", "format", format, FORMATS)
    same_kind("spmm", a=a, b=b) if c is None else same_kind("spmm", a=a, b=b, c=c)
    check.ndim("spmm", 2, b=b)
    inner, outer = (a.shape[1], a.shape[0]) if kind == "n" else a.shape
    check.equal("spmm", "K", hint="Transpose a with trans=True?", a=inner, b=b.shape[-2])
    if out is not None:
        check.out("spmm", out, shape=(*b.shape[:-2], outer, b.shape[-1]), dtype=b.dtype, a=a.values, b=b, c=c)
    made = scaled("spmm", unfolded(_product(a, folded(b), kind, format), b), alpha, beta, c)
    return made if out is None else out.copy_(made)


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
    if format == "auto" and isinstance(trans, bool):
        if out is None and bare(alpha, beta, y):
            made = straight(a, x, trans)
        else:
            made = _straight_sum(a, x, trans, alpha, beta, y, out)
        if made is not None:
            return made
    sparse("spmv", a=a)
    check.tensor("spmv", x=x)
    kind = operation("spmv", trans)
    check.option("spmv", "format", format, FORMATS)
    same_kind("spmv", a=a, x=x) if y is None else same_kind("spmv", a=a, x=x, y=y)
    check.ndim("spmv", 1, x=x)
    inner, outer = (a.shape[1], a.shape[0]) if kind == "n" else a.shape
    check.equal("spmv", "K", hint="Transpose a with trans=True?", a=inner, x=x.shape[-1])
    if out is not None:
        check.out("spmv", out, shape=(*x.shape[:-1], outer), dtype=x.dtype, a=a.values, x=x, y=y)
    columns = x.unsqueeze(-1)
    made = unfolded(_product(a, folded(columns), kind, format), columns).squeeze(-1)
    made = scaled("spmv", made, alpha, beta, y)
    return made if out is None else out.copy_(made)


def _product(a: SparseMatrix, b: Tensor, kind: str, name: str) -> Tensor:
    """``op(a) @ b`` for b [K, N], in the format of this name."""
    matrix = arranged(a, b, name)
    if isinstance(matrix, Tensor):
        from trnblas import gemm

        return gemm(1.0, matrix, b, trans_a=kind)
    if isinstance(matrix, BSRMatrix):
        return block_product(applied(kind, matrix), b)
    if isinstance(matrix, CSCMatrix):
        rows, turned = matrix.transpose(), kind == "n"
    else:
        rows, turned = matrix.to_csr(), kind != "n"
    return _spmm(rows.indptr, rows.indices, _conjugated(rows, kind), b, rows.shape[1], turned)


_KINDS = frozenset((CSRMatrix, CSCMatrix, BSRMatrix))


def straight(a: SparseMatrix, b: Tensor, trans: bool, *others: Tensor | None) -> Tensor | None:
    """``a @ b``, or with ``trans`` ``a.T @ b``, by the compiled loop at once; ``None`` where it must go the long way.

    The loop over a few thousand entries takes microseconds, less than checks and dispatch take. A product that can be
    seen at a glance to be right, on one thread of the host, decided and without gradient needs none of them. The same
    must hold of ``others``, an addend and memory for the result, which has to be apart from all else.
    """
    if type(b) is not Tensor or not _spmm.straight():
        return None
    if type(a) is COOMatrix and a.settled:
        a = a.to_csr()
    if type(a) not in _KINDS or not a.settled:
        return None
    ready = None if a.ready is None else a.ready[trans].get(b.shape)
    if ready is None or ready.values is not a.values:
        ready = prepare(a, b.shape, trans)
        if ready is None:
            return None
    values = ready.values
    if b.dtype is not ready.dtype or not b.is_cpu or not b.is_contiguous() or b.is_neg():
        return None
    if (ready.complex and b.is_conj()) or torch._C._functorch.peek_interpreter_stack() is not None:
        return None
    if (b.requires_grad or values.requires_grad) and torch.is_grad_enabled():
        return None
    if ready.heavy and torch.get_num_threads() > 1:
        return None
    made = None
    if others:
        c, made = others
        if not fits(ready, b, c, made):
            return None
    if made is None:
        made = torch.empty_like(b) if ready.alike else host.empty(ready.sizes, b)
    ready.call(ready.address, b.data_ptr(), made.data_ptr())
    return made


def _straight_sum(
    a: SparseMatrix, b: Tensor, trans: bool, alpha: Any, beta: Any, c: Tensor | None, out: Tensor | None
) -> Tensor | None:
    """``alpha * op(a) @ b + beta * c`` as above."""
    if type(alpha) not in (int, float) or type(beta) not in (int, float) or (c is None and beta != 0):
        return None
    made = straight(a, b, trans, c, out)
    if made is not None:
        addend = None if c is None or beta == 0 else c.data_ptr()
        if alpha != 1 or addend is not None:
            count = made.numel() * (2 if made.is_complex() else 1)
            host.blend(made.dtype)(count, alpha, beta, addend, made.data_ptr())
    return made


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
    if host.loop("spmm", values, b) is not None:
        if torch.is_grad_enabled() and (values.requires_grad or b.requires_grad):
            made: Tensor = _Native.apply(  # type: ignore[no-untyped-call]
                indptr, indices, values, b, columns, trans
            )
            return made
        return _native(indptr, indices, values, b, columns, trans)
    work = torch.float32 if values.dtype in (torch.float16, torch.bfloat16) else values.dtype
    rows, cols = expand(indptr), indices
    taken, given = (rows, cols) if trans else (cols, rows)
    terms = values.to(work).unsqueeze(1) * b.to(work)[taken]
    height = columns if trans else indptr.numel() - 1
    return terms.new_zeros((height, b.shape[1])).index_add(0, given, terms).to(values.dtype)


class _Native(torch.autograd.Function):
    """The compiled loop with its gradient, which is made of the same products."""

    @staticmethod
    def forward(
        ctx: Any, indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, columns: int, trans: bool
    ) -> Tensor:
        ctx.save_for_backward(indptr, indices, values, b)
        ctx.columns, ctx.trans = columns, trans
        return _native(indptr, indices, values, b, columns, trans)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        indptr, indices, values, b = ctx.saved_tensors
        left, right = (b.conj(), grad) if ctx.trans else (grad, b.conj())
        of_values = sampled(indptr, indices, left, right) if ctx.needs_input_grad[2] else None
        of_b = None
        if ctx.needs_input_grad[3]:
            of_b = _spmm(indptr, indices, values.conj().resolve_conj(), grad, ctx.columns, not ctx.trans)
        return None, None, of_values, of_b, None, None


def _native(indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, columns: int, trans: bool) -> Tensor:
    rows, n = indptr.shape[0] - 1, b.shape[1]
    values, b = values.contiguous(), b.contiguous()
    made = host.zeros((columns, n), b) if trans else host.empty((rows, n), b)
    found = host.over_values(host.product(n, trans), values.dtype)
    places = host.at(indptr, indices, values, b, made)
    if trans:
        found(0, rows, n, *places)
    else:
        host.over_rows(lambda lo, hi: found(lo, hi, n, *places), indptr, indices.shape[0], n)
    return made


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
    local = expand(indptr) % M_TILE if not indptr.is_meta else indices
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
