"""Sparse matrix times dense matrix or vector: `spmm` and `spmv`."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci import array_function, check, op, programs, run
from trnsci.analogs import Given, as_number, given, replaces
from trnsci.arrays import to_numpy
from trnsci.errors import ArgumentError
from trnsci.gradient import saves
from trnsci.kernel_launcher import current
from trnsci.nki import K_TILE, M_TILE, launch
from trnsparse import scipy_views
from trnsparse.arguments import (
    HALF,
    KERNEL_DTYPES,
    apply_operation,
    bare,
    dense,
    evenly_spaced,
    fold_batch,
    only,
    operation,
    same_kind,
    scale_product,
    sparse,
    together,
    unfold_batch,
)
from trnsparse.bsr import BSRMatrix
from trnsparse.bsr_spmm import block_product
from trnsparse.coo import COOMatrix
from trnsparse.csr import CSCMatrix, CSRMatrix
from trnsparse.dia_spmm import multiply_diagonals, to_positions
from trnsparse.format_choice import FORMATS, arrange_operand, count_routes
from trnsparse.indices import expand, transposition
from trnsparse.kernels import spmm as kernels
from trnsparse.matrix import SparseMatrix, SparseMatrixLike
from trnsparse.scipy_views import Beside
from trnsparse.sddmm import apply_epilogue, sample_product, why_not_cusparse
from trnsparse.sell_spmm import Layout, arrange, multiply_arranged, shapes
from trnsparse.torch_operands import as_dense, as_matrix


@array_function
def spmm(
    a: SparseMatrixLike,
    b: Tensor,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    c: Tensor | None = None,
    trans: bool | int | str = False,
    format: str = "auto",  # noqa: A002
    epilogue: Callable[[Tensor], Tensor] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``epilogue(alpha * op(a) @ b + beta * c)``.

    A BSR matrix runs block by block, every other format row by row: on the host as it is stored, on a device in the
    format predicted fastest, and the plan of a call says why.

    Args:
        a: sparse [M, K], or [K, M] when transposed; of this library, SciPy or torch.
        b: [..., K, N]
        alpha: a number.
        beta: a number. When it is 0, ``c`` is not read.
        c: [..., M, N]
        trans: ``False``/``"n"``, ``True``/``"t"`` or ``"c"`` (conjugate transpose).
        format: what to multiply in: ``"auto"`` is the matrix as it is stored on the host, and on a device whichever of
            these is predicted fastest: ``"dia"`` (diagonals), ``"sell"`` (gathers on chip), ``"csr"`` (rows gathered by
            DMA), ``"bsr"`` or ``"dense"``, each of which may be asked for; ``"stored"`` the matrix as it is.
        epilogue: any function of PyTorch that keeps the shape, or `trnblas.Epilogue` (scale, bias, activation).
        out: [..., M, N], memory for the result, shared with no operand.

    Error bound:
        ``g(r + 2) (|alpha| |a| |b| + |beta| |c|)`` elementwise with r the entries of the row, of its blocks for BSR.

    Example:
        >>> spmm(CSRMatrix.from_dense(torch.eye(2)), torch.ones(2, 1), alpha=3.0)
        tensor([[3.],
                [3.]])
    """
    a, kind = _check_operands("spmm", a, trans, format, b_name="b", b=b, c_name="c", c=c)
    if b.ndim < 2:
        check.ndim("spmm", 2, b=b)
    inner, outer = (a.shape[1], a.shape[0]) if kind == "n" else a.shape
    if inner != b.shape[-2]:
        check.equal("spmm", "K", hint="Transpose a with trans=True?", a=inner, b=b.shape[-2])
    if out is not None:
        check.out("spmm", out, shape=(*b.shape[:-2], outer, b.shape[-1]), dtype=b.dtype, a=a.values, b=b, c=c)
    result = _scaled_product("spmm", a, b, kind, name=format, alpha=alpha, beta=beta, c=c)
    result = result if epilogue is None else apply_epilogue("spmm", epilogue, result)
    return result if out is None else out.copy_(result)


@array_function
def spmv(
    a: SparseMatrixLike,
    x: Tensor,
    *,
    alpha: complex = 1.0,
    beta: complex = 0.0,
    y: Tensor | None = None,
    trans: bool | int | str = False,
    format: str = "auto",  # noqa: A002
    epilogue: Callable[[Tensor], Tensor] | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``epilogue(alpha * op(a) @ x + beta * y)``.

    Args:
        a: sparse [M, K], or [K, M] when transposed.
        x: [..., K]
        alpha: a number.
        beta: a number. When it is 0, ``y`` is not read.
        y: [..., M]
        trans: ``False``/``"n"``, ``True``/``"t"`` or ``"c"`` (conjugate transpose).
        format: as for `spmm`.
        epilogue: as for `spmm`.
        out: [..., M], memory for the result, shared with no operand.

    Error bound:
        That of `spmm`.

    Example:
        >>> spmv(CSRMatrix.from_dense(torch.eye(2)), torch.ones(2))
        tensor([1., 1.])
    """
    a, kind = _check_operands("spmv", a, trans, format, b_name="x", b=x, c_name="y", c=y)
    if x.ndim == 0:
        check.ndim("spmv", 1, x=x)
    inner, outer = (a.shape[1], a.shape[0]) if kind == "n" else a.shape
    if inner != x.shape[-1]:
        check.equal("spmv", "K", hint="Transpose a with trans=True?", a=inner, x=x.shape[-1])
    if out is not None:
        check.out("spmv", out, shape=(*x.shape[:-1], outer), dtype=x.dtype, a=a.values, x=x, y=y)
    if x.ndim == 1:
        result = _scaled_product("spmv", a, x, kind, name=format, alpha=alpha, beta=beta, c=y)
    else:
        addend = None if y is None else y.unsqueeze(-1)
        result = _scaled_product(
            "spmv", a, x.unsqueeze(-1), kind, name=format, alpha=alpha, beta=beta, c=addend
        ).squeeze(-1)
    result = result if epilogue is None else apply_epilogue("spmv", epilogue, result)
    return result if out is None else out.copy_(result)


replaces("aten::mm", by=spmm, sparse=True)(lambda a, b: given(spmm, as_matrix(a), as_dense(b)))
replaces("aten::mv", by=spmv, sparse=True)(lambda a, x: given(spmv, as_matrix(a), as_dense(x)))


@replaces("aten::addmm", "aten::_sparse_addmm", by=spmm, sparse=True)
def _read_sum(c: Tensor, a: Tensor, b: Tensor, *, beta: complex = 1, alpha: complex = 1) -> Given:
    matrix, operand = as_matrix(a), as_dense(b)
    if beta == 0:
        return given(spmm, matrix, operand, alpha=as_number(alpha))
    addend = as_dense(c).expand(matrix.shape[0], operand.shape[1])
    return given(spmm, matrix, operand, alpha=as_number(alpha), beta=as_number(beta), c=addend)


_MATRICES = frozenset((COOMatrix, CSRMatrix, CSCMatrix, BSRMatrix))


def _check_operands(
    function: str, a: Any, trans: Any, name: str, *, b_name: str, b: Any, c_name: str, c: Any
) -> tuple[SparseMatrix, str]:
    """Check operands and options; return the matrix and the operation. What is plainly right costs nothing."""
    plain = type(a) in _MATRICES and type(b) is Tensor and c is None and b.layout is torch.strided and not b.is_nested
    if not plain or b.dtype is not a.values.dtype or b.device != a.values.device or b.dtype is torch.bool:
        present = {b_name: b} if c is None else {b_name: b, c_name: c}
        a = sparse(function, "a", a)
        dense(function, **present)
        same_kind(function, a=a, **present)
    if name != "auto":
        check.option(function, "format", name, FORMATS)
    return a, "n" if trans is False else operation(function, trans)


def _scaled_product(
    function: str, a: SparseMatrix, b: Tensor, kind: str, *, name: str, alpha: Any, beta: Any, c: Tensor | None
) -> Tensor:
    """Return ``alpha * op(a) @ b + beta * c``, rounded to half precision once."""
    if b.dtype in HALF and not bare(alpha, beta, c):
        options = {"name": name, "alpha": alpha, "beta": beta, "c": None if c is None else c.float()}
        return _scaled_product(function, a.to(torch.float32), b.float(), kind, **options).to(b.dtype)
    product = _product(a, b, kind, name) if b.ndim < 3 else unfold_batch(_product(a, fold_batch(b), kind, name), b)
    return product if bare(alpha, beta, c) else scale_product(function, product, alpha, beta, c)


def _product(a: SparseMatrix, b: Tensor, kind: str, name: str) -> Tensor:
    """Return ``op(a) @ b`` for b [K, N] or [K], in the format of this name."""
    matrix, name = arrange_operand(a, b, name)
    if type(matrix) is CSRMatrix:
        rows, trans = matrix, kind != "n"
    elif isinstance(matrix, Tensor | BSRMatrix):
        columns = b if b.ndim == 2 else b.unsqueeze(1)
        if isinstance(matrix, BSRMatrix):
            product = block_product(apply_operation(kind, matrix), columns)
        else:
            # by its module: the package may have another suite's names (`trnsci.earlier`)
            from trnblas.gemm import gemm

            product = gemm(1.0, matrix, columns, trans_a=kind)
        return product if b.ndim == 2 else product.squeeze(1)
    elif isinstance(matrix, CSCMatrix):
        rows, trans = matrix.transpose(), kind == "n"
    else:
        rows, trans = matrix.to_csr(), kind != "n"
    values = rows.values
    if values.is_complex():
        values, b = (values.conj() if kind == "c" else values).resolve_conj(), b.resolve_conj()
    return multiply_rows(rows.indptr, rows.indices, values, b, columns=rows.shape[1], trans=trans, name=name)


def multiply_rows(
    indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor, *, columns: int, trans: bool, name: str
) -> Tensor:
    """Return the product of compressed rows, or their transpose, with b, by diagonals or gathers if ``name`` says so.

    Raises:
        ArgumentError: the pattern has no such form.
    """
    route = ""
    if name in ("dia", "sell"):
        routes = {} if indptr.is_meta else count_routes(indptr, indices, columns, trans)
        if indices.shape[0] and name not in routes:
            expected = "few diagonals" if name == "dia" else "columns near their rows, or spread evenly"
            raise ArgumentError("spmm", "format", name, f"a pattern of {expected}", hint="Leave the format to 'auto'")
        route = routes.get(name, "")
    call = Spmm(indptr, indices, values, b, columns, trans, route)
    return run(together(call) if b.is_meta or values.is_meta else call)


@op("trnsparse::spmm")
class Spmm(NamedTuple):
    """Compressed rows times a dense matrix; ``trans`` multiplies by the transpose."""

    indptr: Tensor  # [rows + 1]
    indices: Tensor  # [entries]
    values: Tensor  # [entries]
    b: Tensor  # [columns, N] or [columns]; rows of them when transposed
    columns: int
    trans: bool
    # JSON of `format_choice.count_routes`; empty: rows gathered by DMA
    route: str = ""

    @property
    def height(self) -> int:
        """Rows of the result."""
        return self.columns if self.trans else self.indptr.shape[0] - 1

    def fake(self) -> Tensor:
        return self.b.new_empty((self.height, *self.b.shape[1:]))

    @property
    def width(self) -> int:
        """Columns of the result."""
        return self.b.shape[1] if self.b.ndim == 2 else 1

    def cost(self) -> int:
        return 2 * self.values.shape[0] * self.width * (4 if self.values.is_complex() else 1)

    def limits(self, implementation: str) -> str | None:
        if implementation == "host":
            return only(self.values.dtype, scipy_views.DTYPES)
        if implementation == "cuda":
            return why_not_cusparse(self.values.shape[0], self.columns, self.b)
        if implementation == "nki":
            if current().target == "trn1" and not self.route:
                return "trn1 cannot gather rows by DMA; diagonals, windows and BSR matrices run on every generation"
            return only(self.values.dtype, KERNEL_DTYPES if not self.route else (*KERNEL_DTYPES, torch.complex64))
        return None

    def calls(self, implementation: str) -> str:
        if implementation == "cuda":
            return "cusparse by torch.sparse_csr_tensor"
        by_torch = scipy_views.multiplies(self.values, self.columns, self.trans) == "torch"
        return "mkl by torch.sparse_csr_tensor" if by_torch else "scipy.sparse.csr_array.__matmul__"

    def cuda(self) -> Tensor:
        from trnsparse.cuda import spmm as gpu

        return gpu.product(self.indptr, self.indices, self.values, self.b, self.columns, self.trans)

    def host(self) -> Tensor:
        return scipy_views.product(self.indptr, self.indices, self.values, self.b, self.columns, self.trans)

    def pytorch(self) -> Tensor:
        dtype = self.values.dtype
        work = torch.float32 if dtype in HALF else dtype
        rows = expand(self.indptr, self.indices.shape[0])
        source, target = (rows, self.indices) if self.trans else (self.indices, rows)
        values = self.values if self.b.ndim == 1 else self.values.unsqueeze(1)
        terms = values.to(work) * self.b.to(work)[source]
        return terms.new_zeros((self.height, *terms.shape[1:])).index_add(0, target, terms).to(dtype)

    def workspace(self, implementation: str) -> int:
        if implementation == "host":
            # the pattern in 32 bits, which is kept
            return 4 * (self.indices.shape[0] + self.indptr.shape[0])
        width = 4 if self.values.dtype in HALF else self.values.element_size()
        return 2 * self.values.shape[0] * self.width * width if implementation == "pytorch" else 0

    def nki(self) -> Tensor:
        indptr, indices, values, b = self.indptr, self.indices, self.values, self._columns()
        if self.trans:
            indptr, indices, order = transposition(indptr, indices, self.columns)
            values = values[order]
        if self.route:
            across = self.indptr.shape[0] - 1 if self.trans else self.columns
            product = self._multiply_route(values, b, lambda: _arrange(self, indptr, indices, across))
        else:
            product = _launch_rows(indptr.tolist(), indptr, indices, values, b)
        return product if self.b.ndim == 2 else product.squeeze(1)

    def _multiply_route(self, values: Tensor, b: Tensor, pattern: Callable[[], Any]) -> Tensor:
        """Multiply by diagonals or gathers; parts of complex numbers are columns of two real products."""
        if values.is_complex():
            planes = torch.cat([b.real, b.imag], 1)
            left, right = (self._multiply_route(part, planes, pattern) for part in (values.real, values.imag))
            n = b.shape[1]
            return torch.complex(left[:, :n] - right[:, n:], left[:, n:] + right[:, :n])
        if b.numel() == 0:
            return b.new_zeros((self.height, b.shape[1]))
        kind, counts = json.loads(self.route)
        if kind == "sell":
            layout = Layout.from_json(counts)
            return multiply_arranged(layout, shapes(layout) if values.is_meta else pattern(), values, b)
        diagonals = values.new_zeros(len(counts) * self.height)
        if not values.is_meta:
            diagonals = diagonals.index_copy(0, pattern(), values)
        return multiply_diagonals(diagonals.reshape(len(counts), -1), b, tuple(counts))

    def _columns(self) -> Tensor:
        return self.b if self.b.ndim == 2 else self.b.unsqueeze(1)

    def prediction(self) -> Tensor:
        if self.route:
            return self._multiply_route(self.values, self._columns(), lambda: None)
        pointers = evenly_spaced(self.values.shape[0], self.height)
        empty = self.indptr.new_empty(self.height + 1)
        return _launch_rows(pointers, empty, self.indices, self.values, self._columns())

    @saves("indptr", "indices", "values", "b", host=True)
    def vjp(self, grad: Tensor, needs: frozenset[str]) -> dict[str, Tensor]:
        gradients = {}
        if "values" in needs:
            b, g = self._columns().conj(), grad if grad.ndim == 2 else grad.unsqueeze(1)
            left, right = (b, g) if self.trans else (g, b)
            gradients["values"] = sample_product(self.indptr, self.indices, left, right)
        if "b" in needs:
            gradients["b"] = multiply_rows(
                self.indptr,
                self.indices,
                self.values.conj().resolve_conj(),
                grad.resolve_conj(),
                columns=self.columns,
                trans=not self.trans,
                name=json.loads(self.route)[0] if self.route else "csr",
            )
        return gradients


_ARRANGED: Beside[Any] = Beside()


def _arrange(call: Spmm, indptr: Tensor, indices: Tensor, columns: int) -> Any:
    """Return a pattern as the kernel of a call's route reads it, built once; ``indptr`` may be of the transpose."""

    def build() -> Any:
        kind, counts = json.loads(call.route)
        if kind == "dia":
            return to_positions(indptr, indices, tuple(counts))
        return arrange(Layout.from_json(counts), to_numpy(indptr), to_numpy(indices), columns)

    return _ARRANGED.get(call.indptr, call.indices, (call.route, call.trans), build)


def _launch_rows(pointers: list[int], indptr: Tensor, indices: Tensor, values: Tensor, b: Tensor) -> Tensor:
    rows = len(pointers) - 1
    if rows == 0 or b.numel() == 0 or values.numel() == 0:
        return b.new_zeros((rows, b.shape[1]))
    check.refuse(b.shape[0] > 2**31 - 1, "spmm", "K", b.shape[0], "below 2**31 on a device")
    bounds = (*(pointers[first] for first in range(0, rows, M_TILE)), pointers[-1])
    local = expand(indptr, indices.shape[0]) % M_TILE if not indptr.is_meta else indices
    columns_hbm = indices.to(torch.int32).unsqueeze(1).contiguous()  # [nnz, 1]
    local_hbm = local.to(torch.float32).unsqueeze(1).contiguous()  # [nnz, 1]
    values_hbm = values.to(torch.float32).unsqueeze(1).contiguous()  # [nnz, 1]
    entries, b = (columns_hbm, local_hbm, values_hbm), b.contiguous()
    parts = []
    for some in programs.runs(
        lambda tiles: _bucket(b, tiles), [-(-(hi - lo) // K_TILE) for lo, hi in pairwise(bounds)]
    ):
        starts = bounds[some.start : some.stop + 1]
        here = slice(starts[0], max(starts[-1], starts[0] + 1))
        options = {
            "rows": min(rows, some.stop * M_TILE) - some.start * M_TILE,
            "bounds": tuple(start - starts[0] for start in starts),
        }
        parts.append(launch(kernels.spmm, *(x[here].contiguous() for x in entries), b, **options))
    return parts[0] if len(parts) == 1 else torch.cat(parts)  # [M, N]


def _bucket(b: Tensor, tiles: int) -> programs.Size:
    """Return the size of a program of one tile of rows with some tiles of entries, and of the columns cut together."""
    b = b[:, : kernels.WIDTH]
    entries = [b.new_empty((tiles * K_TILE, 1), dtype=dtype) for dtype in (torch.int32, torch.float32, torch.float32)]
    return programs.size_of(kernels.spmm, (*entries, b), {"rows": M_TILE, "bounds": (0, tiles * K_TILE)})
