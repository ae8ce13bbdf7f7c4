"""Dense product sampled at the entries of a sparse matrix: `sddmm`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci import array_function, check, op, run
from trnsci.analogs import Different, Given, as_number, given, replaces
from trnsci.errors import ArgumentError
from trnsci.gradient import saves
from trnsci.kernel_launcher import current
from trnsci.nki import launch
from trnsparse import scipy_views
from trnsparse.arguments import HALF, KERNEL_DTYPES, check_ndim, dense, only, same_kind, sparse, together
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_sddmm import sampled_blocks
from trnsparse.csr import CSCMatrix
from trnsparse.indices import expand
from trnsparse.kernels import sddmm as kernels
from trnsparse.matrix import SparseMatrix, SparseMatrixLike
from trnsparse.torch_operands import as_dense, as_matrix

# Elements gathered at a time where torch has no sampled product.
CHUNK = 1 << 22
SAMPLED = (torch.float32, torch.float64)


@array_function
def sddmm(
    pattern: SparseMatrixLike,
    a: Tensor,
    b: Tensor,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    epilogue: Callable[[Tensor], Tensor] | None = None,
) -> SparseMatrix:
    """Return ``alpha * (a @ b)`` at the entries of ``pattern``, plus ``beta * pattern``, as a matrix of its format.

    Args:
        pattern: sparse [M, N]; its values are read only when ``beta`` is not 0.
        a: [M, D]
        b: [D, N]
        alpha: a number.
        beta: a number.
        epilogue: any function of PyTorch that keeps the shape, applied to the values.

    Error bound:
        ``g(D + 2) (|alpha| |a| |b| + |beta| |pattern|)`` at every entry.

    Example:
        >>> sddmm(CSRMatrix.from_dense(torch.eye(2)), torch.ones(2, 3), torch.ones(3, 2)).values
        tensor([3., 3.])
    """
    pattern = sparse("sddmm", "pattern", pattern)
    dense("sddmm", a=a, b=b)
    dtype = same_kind("sddmm", pattern=pattern, a=a, b=b)
    check_ndim("sddmm", a=(a, "[M, D]"), b=(b, "[D, N]"))
    check.equal("sddmm", "D", a=a.shape[1], b=b.shape[0])
    check.equal("sddmm", "M", pattern=pattern.shape[0], a=a.shape[0])
    check.equal("sddmm", "N", pattern=pattern.shape[1], b=b.shape[1])
    alpha, beta = (check.coefficient("sddmm", *each, dtype) for each in (("alpha", alpha), ("beta", beta)))
    if dtype in HALF and (alpha != 1 or beta != 0):
        wide = sddmm(pattern.to(torch.float32), a.float(), b.float(), alpha=alpha, beta=beta, epilogue=epilogue)
        return wide.to(dtype)
    kind = type(pattern)
    if isinstance(pattern, BSRMatrix):
        values = sampled_blocks(pattern.indptr, pattern.indices, a, b.mT, pattern.block)
    else:
        if isinstance(pattern, CSCMatrix):
            columns = pattern.transpose()
            values = sample_product(columns.indptr, columns.indices, b.mT, a)
        else:
            rows = pattern.to_csr()
            pattern = rows if pattern.format == "csr" else pattern.to_coo()
            values = sample_product(rows.indptr, rows.indices, a, b.mT)
    values = values if alpha == 1 else values * alpha
    values = values if beta == 0 else values + beta * pattern.values
    result = pattern.with_values(values if epilogue is None else apply_epilogue("sddmm", epilogue, values))
    return kind._from(result) if kind.format in ("dia", "sell") else result


def _to_torch(value: SparseMatrix, pattern: Tensor, *_: Any, **__: Any) -> Tensor:
    rows, columns = pattern.crow_indices().clone(), pattern.col_indices().clone()
    # theirs says nothing of its invariants
    return torch.sparse_csr_tensor(
        rows, columns, value.values, pattern.shape, device=value.values.device, check_invariants=False
    )


@replaces("aten::sparse_sampled_addmm", by=sddmm, sparse=True, result=_to_torch)
def _read_torch(pattern: Tensor, a: Tensor, b: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Given:
    if pattern.layout != torch.sparse_csr or pattern.ndim != 2:
        raise Different("its pattern is no matrix in compressed rows")
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        raise Different("the gradient of a sparse tensor is torch's")
    return given(sddmm, as_matrix(pattern), as_dense(a), as_dense(b), alpha=as_number(alpha), beta=as_number(beta))


def apply_epilogue(op: str, epilogue: Callable[[Tensor], Tensor], result: Tensor) -> Tensor:
    """Apply an epilogue, which keeps shape and dtype."""
    check.kind(op, "epilogue", epilogue, Callable, "a function")
    changed = epilogue(result)
    if not isinstance(changed, Tensor) or changed.shape != result.shape or changed.dtype != result.dtype:
        got = f"{changed.dtype} {tuple(changed.shape)}" if isinstance(changed, Tensor) else type(changed)
        raise ArgumentError(op, "what epilogue returns", got, f"{result.dtype} {tuple(result.shape)}")
    return changed


def sample_product(indptr: Tensor, indices: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return ``result[p] = a[row of p] . b[indices[p]]``, not conjugated, for a [M, D] and b [N, D]."""
    return run(together(Sddmm(indptr, indices, a.resolve_conj(), b.resolve_conj())))


def why_not_cusparse(entries: int, columns: int, dense: Tensor) -> str | None:
    """Return why cuSPARSE does not multiply a matrix of these entries and columns by a dense operand."""
    if entries == 0 or dense.numel() == 0:
        return "there is nothing to multiply"
    if max(entries, columns) >= 1 << 31:
        return "indices need more than 32 bits"
    return only(dense.dtype, (*SAMPLED, torch.complex64, torch.complex128))


@op("trnsparse::sddmm", calls="torch.sparse.sampled_addmm")
class Sddmm(NamedTuple):
    """Dot products of rows of ``a`` and ``b`` at the entries of a pattern, without conjugation."""

    indptr: Tensor  # [M + 1]
    indices: Tensor  # [entries]
    a: Tensor  # [M, D]
    b: Tensor  # [N, D]

    def fake(self) -> Tensor:
        return self.a.new_empty(self.indices.shape[0])

    def cost(self) -> int:
        return 2 * self.indices.shape[0] * self.a.shape[1] * (4 if self.a.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        if implementation == "host":
            return only(self.a.dtype, SAMPLED)
        if implementation == "cuda":
            return why_not_cusparse(self.indices.shape[0], self.b.shape[0], self.a)
        if implementation == "nki":
            if current().target == "trn1":
                return "trn1 cannot gather rows by DMA; BSR patterns run on every generation"
            return only(self.a.dtype, KERNEL_DTYPES)
        return None

    def cuda(self) -> Tensor:
        from trnsparse.cuda import spmm as gpu

        return gpu.sample_product(self.indptr, self.indices, self.a, self.b)

    def host(self) -> Tensor:
        zeros = self.a.new_zeros(self.indices.shape[0])
        pattern = scipy_views.torch_pattern(self.indptr, self.indices, zeros, self.b.shape[0])
        result: Tensor = torch.sparse.sampled_addmm(pattern, self.a.detach(), self.b.detach().mT, beta=0.0).values()
        return result

    def pytorch(self) -> Tensor:
        indices, dtype = self.indices, self.a.dtype
        work = torch.float32 if dtype in HALF else dtype
        rows, step = expand(self.indptr, indices.shape[0]), max(1, CHUNK // max(self.a.shape[1], 1))
        a, b = self.a.to(work), self.b.to(work)
        parts = [
            (a[rows[p : p + step]] * b[indices[p : p + step]]).sum(1, dtype=work)
            for p in range(0, indices.shape[0], step)
        ]
        return torch.cat(parts).to(dtype) if parts else (a.sum() * 0 + b.sum() * 0).to(dtype).expand(0).clone()

    def nki(self) -> Tensor:
        indices, a = self.indices, self.a
        if indices.shape[0] == 0 or a.shape[1] == 0:
            return a.new_zeros(indices.shape[0])
        rows = indices if indices.is_meta else expand(self.indptr, indices.shape[0])
        pairs = torch.stack([rows, indices], 1).to(torch.int32).contiguous()  # [nnz, 2]
        result: Tensor = launch(kernels.sddmm, pairs, a.contiguous(), self.b.contiguous())  # [nnz, 1]
        return result.squeeze(1).to(a.dtype)

    @saves("indptr", "indices", "a", "b", host=True)
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        from trnsparse.spmm import Spmm

        gradients = {}
        grad, rows = grad.resolve_conj(), self.b.shape[0]
        if "a" in needs:
            b = self.b.conj().resolve_conj()
            gradients["a"] = run(Spmm(self.indptr, self.indices, grad, b, columns=rows, trans=False))
        if "b" in needs:
            a = self.a.conj().resolve_conj()
            gradients["b"] = run(Spmm(self.indptr, self.indices, grad, a, columns=rows, trans=True))
        return gradients
