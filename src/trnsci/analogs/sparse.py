"""Products of torch's sparse tensors, with the call of ours that does the same."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from trnsci.analogs.analog import Analog, Different, Given

_LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def _matrix(a: Any) -> Any:
    """Return a sparse tensor as a matrix of trnsparse."""
    if a.layout not in _LAYOUTS:
        raise Different(f"its first operand has the layout {str(a.layout).removeprefix('torch.')}")
    if a.requires_grad and torch.is_grad_enabled():
        raise Different("the gradient of a sparse tensor is torch's")
    if a.ndim != 2 or a.dense_dim():
        raise Different("its sparse operand is no matrix of numbers")
    return importlib.import_module("trnsparse").CSRMatrix.from_torch(a)


def _dense(b: Any) -> Any:
    if b.layout != torch.strided:
        raise Different("what a product of sparse matrices stores is torch's choice")
    return b


def _product(a: Any, b: Any) -> Given:
    return (_matrix(a), _dense(b)), {}


def _sum_and_product(c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Given:
    matrix, dense = _matrix(a), _dense(b)
    if beta == 0:
        return (matrix, dense), {"alpha": float(alpha)}
    c = _dense(c).expand(matrix.shape[0], dense.shape[1])
    return (matrix, dense), {"alpha": float(alpha), "beta": float(beta), "c": c}


def _sampled(pattern: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Given:
    if pattern.layout != torch.sparse_csr or pattern.ndim != 2:
        raise Different("its pattern is no matrix in compressed rows")
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        raise Different("the gradient of a sparse tensor is torch's")
    return (_matrix(pattern), _dense(a), _dense(b)), {"alpha": float(alpha), "beta": float(beta)}


def _as_torch(value: Any, pattern: Tensor, *_: Any, **__: Any) -> Tensor:
    rows, columns = pattern.crow_indices().clone(), pattern.col_indices().clone()
    return torch.sparse_csr_tensor(rows, columns, value.values, pattern.shape)


# by the operator and the word that tells them from those of dense tensors
SPARSE = {
    "_sparse_addmm (sparse)": Analog("trnsparse.spmm", _sum_and_product),
    "_sparse_sparse_matmul (sparse)": Analog("trnsparse.spgemm"),
    "mm (sparse)": Analog("trnsparse.spmm", _product),
    "addmm (sparse)": Analog("trnsparse.spmm", _sum_and_product),
    "mv (sparse)": Analog("trnsparse.spmv", _product),
    "sparse_sampled_addmm (sparse)": Analog("trnsparse.sddmm", _sampled, _as_torch),
}
