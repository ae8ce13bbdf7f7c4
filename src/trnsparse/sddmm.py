"""Dense product sampled at the entries of a sparse matrix: `sddmm`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from trnsci import Op, array_function, check
from trnsci.gradient import Saved
from trnsci.launcher import current
from trnsci.nki import launch
from trnsparse import scipy_views
from trnsparse.arguments import HALF, KERNEL_DTYPES, coefficient, dense, same_kind, shaped, sparse
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_sddmm import sampled_blocks
from trnsparse.csr import CSCMatrix
from trnsparse.indices import expand
from trnsparse.kernels import sddmm as kernels
from trnsparse.matrix import SparseMatrix

# Elements gathered at a time where torch has no sampled product.
CHUNK = 1 << 22
SAMPLED = (torch.float32, torch.float64)


@array_function
def sddmm(pattern: SparseMatrix, a: Tensor, b: Tensor, *, alpha: complex = 1.0, beta: complex = 0.0) -> SparseMatrix:
    """Return ``alpha * (a @ b)`` at the entries of ``pattern``, plus ``beta * pattern``, as a matrix of its format.

    Args:
        pattern: sparse [M, N]; its values are read only when ``beta`` is not 0.
        a: [M, D]
        b: [D, N]
        alpha: a number.
        beta: a number.

    Error bound:
        ``g(D + 2) (|alpha| |a| |b| + |beta| |pattern|)`` at every entry.

    Example:
        >>> sddmm(CSRMatrix.from_dense(torch.eye(2)), torch.ones(2, 3), torch.ones(3, 2)).values
        tensor([3., 3.])
    """
    sparse("sddmm", pattern=pattern)
    dense("sddmm", a=a, b=b)
    dtype = same_kind("sddmm", pattern=pattern, a=a, b=b)
    shaped("sddmm", a=(a, "[M, D]"), b=(b, "[D, N]"))
    check.equal("sddmm", "D", a=a.shape[1], b=b.shape[0])
    check.equal("sddmm", "M", pattern=pattern.shape[0], a=a.shape[0])
    check.equal("sddmm", "N", pattern=pattern.shape[1], b=b.shape[1])
    alpha, beta = coefficient("sddmm", "alpha", alpha, dtype), coefficient("sddmm", "beta", beta, dtype)
    if dtype in HALF and (alpha != 1 or beta != 0):
        wide = sddmm(pattern.to(torch.float32), a.float(), b.float(), alpha=alpha, beta=beta)
        return wide.to(dtype)
    if isinstance(pattern, BSRMatrix):
        values = sampled_blocks(pattern.indptr, pattern.indices, a, b.mT, *pattern.block)
    else:
        if isinstance(pattern, CSCMatrix):
            columns = pattern.transpose()
            values = sampled(columns.indptr, columns.indices, b.mT, a)
        else:
            rows = pattern.to_csr()
            pattern = rows if pattern.format == "csr" else pattern.to_coo()
            values = sampled(rows.indptr, rows.indices, a, b.mT)
    values = values if alpha == 1 else values * alpha
    return pattern.with_values(values if beta == 0 else values + beta * pattern.values)


def sampled(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``out[p] = a[row of p] . b[indices[p]]`` without conjugation, for a [M, D] and b [N, D]."""
    made: Tensor = _sddmm(indptr, indices, a.resolve_conj(), b.resolve_conj())
    return made


def _fake(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(indices.shape[0])


def _cost(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor) -> int:
    return 2 * indices.shape[0] * a.shape[1] * (4 if a.is_complex() else 1)


_sddmm = Op("trnsparse::sddmm", fake=_fake, cost=_cost)


@_sddmm.impl("pytorch")
def _pytorch(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor) -> Tensor:
    recorded = torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)
    if a.dtype in SAMPLED and not recorded and scipy_views.usable(indptr, indices, a, b):
        pattern = scipy_views.torch_pattern(indptr, indices, a.new_zeros(indices.shape[0]), b.shape[0])
        return torch.sparse.sampled_addmm(pattern, a, b.mT, beta=0.0).values()
    work = torch.float32 if a.dtype in (torch.float16, torch.bfloat16) else a.dtype
    rows, step = expand(indptr, indices.shape[0]), max(1, CHUNK // max(a.shape[1], 1))
    a, b, dtype = a.to(work), b.to(work), a.dtype
    parts = [
        (a[rows[p : p + step]] * b[indices[p : p + step]]).sum(1, dtype=work) for p in range(0, indices.numel(), step)
    ]
    return torch.cat(parts).to(dtype) if parts else (a.sum() * 0 + b.sum() * 0).to(dtype).expand(0).clone()


def _limits(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor) -> str | None:
    if current().target == "trn1":
        return "trn1 cannot gather rows by DMA; BSR patterns run on every generation"
    return None


@_sddmm.impl("nki", dtypes=KERNEL_DTYPES, limits=_limits)
def _nki(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor) -> Tensor:
    if indices.numel() == 0 or a.shape[1] == 0:
        return a.new_zeros(indices.numel())
    rows = indices if indices.is_meta else expand(indptr, indices.shape[0])
    numbers = torch.stack([rows, indices], 1).to(torch.int32).contiguous()  # [nnz, 2]
    made: Tensor = launch(kernels.sddmm, numbers, a.contiguous(), b.contiguous())  # [nnz, 1]
    return made.squeeze(1).to(a.dtype)


@_sddmm.vjp(saves=("indptr", "indices", "a", "b"))
def _gradient(saved: Saved, grad: Tensor) -> Mapping[str, Any]:
    from trnsparse.spmm import _spmm

    found: dict[str, Any] = {}
    if saved.needs("a"):
        found["a"] = _spmm(saved.indptr, saved.indices, grad, saved.b.conj().resolve_conj(), saved.b.shape[0], False)
    if saved.needs("b"):
        found["b"] = _spmm(saved.indptr, saved.indices, grad, saved.a.conj().resolve_conj(), saved.b.shape[0], True)
    return found
