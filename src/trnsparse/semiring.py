"""Sparse products with a user's own multiplication, sum and epilogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from trnsci import array_function, check
from trnsci.backends import on_host
from trnsci.errors import ArgumentError
from trnsparse.arguments import apply_operation, dense, operation, same_kind, sparse
from trnsparse.matrix import SparseMatrix, SparseMatrixLike
from trnsparse.sddmm import CHUNK, apply_epilogue

Reduction = Literal["sum", "prod", "amax", "amin"]
Elementwise: TypeAlias = Callable[[Tensor], Tensor]


@array_function
def spmm_op(
    a: SparseMatrixLike,
    b: Tensor,
    *,
    multiply: Callable[[Tensor, Tensor], Tensor] = torch.mul,
    add: Reduction = "sum",
    epilogue: Elementwise | None = None,
    empty: float | None = None,
    trans: bool | int | str = False,
) -> Tensor:
    """Return ``epilogue(add_k multiply(a[i, k], b[k, j]))`` over the entries of ``a``: a product over any semiring.

    Shortest paths are ``multiply=torch.add, add="amin"``; reachability is ``add="amax"``.

    Args:
        a: sparse [M, K], or [K, M] when transposed.
        b: [K, N] or [K].
        multiply: of entries [E, 1] and rows [E, N], elementwise: any function of PyTorch.
        add: how the terms of a row are reduced.
        epilogue: any function of PyTorch, applied to the result.
        empty: the value of a row without entries, by default what is neutral: 0, 1, -inf or inf.
        trans: ``False``/``"n"``, ``True``/``"t"`` or ``"c"``.

    Returns:
        [M, N] or [M]. Gradients flow where those of the functions do.

    Error bound:
        sums: ``g(r)`` times the sum of the terms' sizes, r the entries of a row; ``amax`` and ``amin`` are exact.

    Example:
        >>> from trnsparse import CSRMatrix
        >>> steps = CSRMatrix.from_dense(torch.tensor([[1.0, 5.0]]))
        >>> spmm_op(steps, torch.tensor([2.0, 1.0]), multiply=torch.add, add="amin")
        tensor([3.])
    """
    on_host("trnsparse.spmm_op")
    a = sparse("spmm_op", "a", a)
    dense("spmm_op", b=b)
    dtype = same_kind("spmm_op", a=a, b=b)
    check.kind("spmm_op", "multiply", multiply, Callable, "a function of two tensors")
    check.option("spmm_op", "add", add, ("sum", "prod", "amax", "amin"))
    check.refuse(add != "sum" and dtype.is_complex, "spmm_op", "add", add, "'sum' for complex matrices")
    if empty is not None:
        check.coefficient("spmm_op", "empty", empty, dtype)
    check.refuse(b.ndim not in (1, 2), "spmm_op", "shape of b", tuple(b.shape), "[K] or [K, N]")
    if b.is_meta and not a.values.is_meta:
        check.data("spmm_op", b=b)
    check.same_device("spmm_op", a=a.values, b=b)
    rows = apply_operation(operation("spmm_op", trans), a).to_csr()
    check.equal("spmm_op", "K", hint="Transpose a with trans=True?", a=rows.shape[1], b=b.shape[0])
    if multiply is torch.mul and add == "sum" and empty is None:
        result = rows @ b
    else:
        result = _reduce_terms(rows, b if b.ndim == 2 else b.unsqueeze(1), multiply, add, empty)
        result = result if b.ndim == 2 else result.squeeze(1)
    return result if epilogue is None else apply_epilogue("spmm_op", epilogue, result)


def _reduce_terms(
    rows: SparseMatrix, b: Tensor, multiply: Callable[[Tensor, Tensor], Tensor], add: Reduction, empty: float | None
) -> Tensor:
    neutral = {"sum": 0.0, "prod": 1.0, "amax": float("-inf"), "amin": float("inf")}[add]
    m, n, coo = rows.shape[0], b.shape[1], rows.to_coo()
    result = b.new_full((m, n), neutral)
    step = max(1, CHUNK // max(1, n))
    for start in range(0, coo.nnz, step):
        part = slice(start, start + step)
        terms = multiply(coo.values[part].unsqueeze(1), b[coo.col[part]])
        wanted = (len(coo.col[part]), n)
        if not isinstance(terms, Tensor) or tuple(terms.shape) != wanted:
            got = tuple(terms.shape) if isinstance(terms, Tensor) else type(terms)
            raise ArgumentError("spmm_op", "shape of what multiply returns", got, str(wanted))
        row = coo.row[part].unsqueeze(1).expand(wanted)
        if add == "sum":
            result = result.index_add(0, coo.row[part], terms)
        else:
            result = result.scatter_reduce(0, row, terms, add)
    if empty is not None and m:
        bare = torch.bincount(coo.row, minlength=m) == 0
        result = torch.where(bare.unsqueeze(1), torch.full_like(result, empty), result)
    return result
