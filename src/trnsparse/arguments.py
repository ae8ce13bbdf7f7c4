"""Arguments the operations share."""

import math
from itertools import pairwise
from typing import Any, TypeVar

import scipy.sparse as sp
import torch
from torch import Tensor

from trnsci import check
from trnsci.errors import ArgumentError, DtypeError
from trnsparse.bsr import BSRMatrix
from trnsparse.coo import COOMatrix
from trnsparse.csr import CSCMatrix, CSRMatrix
from trnsparse.matrix import SUPPORTED, SparseMatrix, is_sparse

HALF = (torch.float16, torch.bfloat16)
KERNEL_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def operation(op: str, trans: bool | int | str, argument: str = "trans") -> str:
    """Return ``n``, ``t`` or ``c`` for any spelling of an operation on a matrix."""
    kinds = {0: "n", 1: "t", 2: "c", "n": "n", "t": "t", "c": "c"}
    key = trans.lower() if isinstance(trans, str) else trans
    if not isinstance(key, bool | int | str) or key not in kinds:
        raise ArgumentError(op, argument, trans, "False/'n', True/'t' or 'c'")
    return kinds[key]


def apply_operation(kind: str, matrix: SparseMatrix) -> Any:
    """Return the matrix, its transpose or its conjugate transpose."""
    return matrix if kind == "n" else matrix.transpose() if kind == "t" else matrix.transpose().conj()


# What formats of SciPy and layouts of torch are here; any other becomes compressed rows.
_SCIPY: dict[str, Any] = {"coo": COOMatrix, "csc": CSCMatrix, "bsr": BSRMatrix}
_TORCH: dict[torch.layout, Any] = {
    torch.sparse_coo: COOMatrix,
    torch.sparse_csc: CSCMatrix,
    torch.sparse_bsr: BSRMatrix,
}


def sparse(op: str, argument: str, matrix: Any) -> SparseMatrix:
    """Return a sparse matrix of this library; those of SciPy and torch are converted, in the format they have."""
    if isinstance(matrix, SparseMatrix):
        return matrix
    result: SparseMatrix
    if sp.issparse(matrix):
        result = _SCIPY.get(matrix.format, CSRMatrix).from_scipy(matrix)
        return result
    if isinstance(matrix, Tensor) and is_sparse(matrix):
        result = _TORCH.get(matrix.layout, CSRMatrix).from_torch(matrix)
        return result
    raise DtypeError(
        op=op,
        argument=argument,
        got="a dense tensor" if isinstance(matrix, Tensor) else type(matrix),
        expected="a matrix of trnsparse (COOMatrix, CSRMatrix and others), or a sparse one of SciPy or torch",
        hint="Make one with CSRMatrix.from_dense",
    )


C = TypeVar("C", bound=tuple[Any, ...])


def together(call: C) -> C:
    """Return the call, with no data at all where an operand has none."""
    if not any(isinstance(x, Tensor) and x.is_meta for x in call):
        return call
    return type(call)._make(x.to("meta") if isinstance(x, Tensor) else x for x in call)  # type: ignore[attr-defined]


def only(dtype: torch.dtype, accepted: tuple[torch.dtype, ...]) -> str | None:
    """Return why an implementation refuses a dtype, or ``None``."""
    if dtype in accepted:
        return None
    names = [str(x).removeprefix("torch.") for x in (*accepted, dtype)]
    return f"takes {', '.join(names[:-1])}, not {names[-1]}"


def dense(op: str, **tensors: Any) -> None:
    """Check that every value is a dense tensor of a dtype the library computes with."""
    for name, value in tensors.items():
        if type(value) is not Tensor:
            check.tensor(op, **{name: value})
        if value.layout is not torch.strided or value.is_nested:
            layout = "nested" if value.is_nested else str(value.layout).removeprefix("torch.")
            raise DtypeError(op, f"layout of {name}", layout, "a dense tensor")
        if value.dtype not in SUPPORTED:
            listed = ", ".join(str(dtype).removeprefix("torch.") for dtype in SUPPORTED)
            raise DtypeError(op, f"dtype of {name}", value.dtype, f"one of {listed}")


def check_ndim(op: str, **shapes: tuple[Tensor, str]) -> None:
    """Check that every tensor has as many dimensions as its description, ``[M, N]``, has letters."""
    for name, (value, description) in shapes.items():
        if value.ndim != description.count(",") + 1:
            raise ArgumentError(op, f"shape of {name}", tuple(value.shape), description)


def same_kind(op: str, **operands: SparseMatrix | Tensor) -> torch.dtype:
    """Check that all operands have one dtype and device, and return the dtype."""
    first, *others = (x.values if isinstance(x, SparseMatrix) else x for x in operands.values())
    alike = all(x.dtype == first.dtype and x.device == first.device for x in others)
    if alike and first.dtype != torch.bool:
        return first.dtype
    dtypes = {name: x.dtype for name, x in operands.items()}
    if len(set(dtypes.values())) > 1:
        raise DtypeError(op, "dtype", dtypes, hint="Convert one side; nothing is promoted silently")
    # Planning runs on shapes: dense operands without data meet a matrix that has its own.
    devices = {name: x.device for name, x in operands.items() if x.device.type != "meta"}
    check.refuse(len(set(devices.values())) > 1, op, "device", devices, hint="Move one side with .to(device)")
    dtype = next(iter(dtypes.values()))
    if dtype == torch.bool:
        raise DtypeError(op, "dtype", dtype, "a numeric dtype", hint="Convert the operands to float32")
    return dtype


def bare(alpha: Any, beta: Any, c: Tensor | None) -> bool:
    """Return whether ``alpha * product + beta * c`` is the product itself."""
    return c is None and type(alpha) is float and alpha == 1.0 and type(beta) is float and beta == 0.0


def scale_product(op: str, product: Tensor, alpha: Any, beta: Any, c: Tensor | None) -> Tensor:
    """Return ``alpha * product + beta * c``; without a factor of 1 or an addend, those parts cost nothing."""
    if bare(alpha, beta, c):
        return product
    first = check.coefficient(op, "alpha", alpha, product.dtype)
    second = check.coefficient(op, "beta", beta, product.dtype)
    if c is None:
        if second != 0:
            raise ArgumentError(op, "c", None, f"a tensor, because beta is {second}")
    elif tuple(c.shape) != tuple(product.shape):
        raise ArgumentError(op, "shape of c", tuple(c.shape), f"{tuple(product.shape)}, that of the product")
    product = product if first == 1 else product * first
    return product if c is None or second == 0 else torch.add(product, c, alpha=second)


def fold_batch(b: Tensor) -> Tensor:
    """Return [..., K, N] as [K, batch * N]: a batch is more columns."""
    return b if b.ndim == 2 else b.movedim(-2, 0).reshape(b.shape[-2], math.prod(b.shape[:-2]) * b.shape[-1])


def unfold_batch(product: Tensor, b: Tensor) -> Tensor:
    """Return [M, batch * N] as [..., M, N] with the batch of ``b``."""
    if b.ndim == 2:
        return product
    return product.reshape(product.shape[0], *b.shape[:-2], b.shape[-1]).movedim(0, -2)


def evenly(entries: int, rows: int, across: int = 0) -> tuple[list[int], list[int]]:
    """Return pointers and columns of blocks spaced evenly over rows: what a prediction without data assumes.

    Those of a row follow each other, or with ``across`` columns lie as far apart as they can, each row one further on.
    """
    pointers = evenly_spaced(entries, rows)
    if not across:
        return pointers, [p - lo for lo, hi in pairwise(pointers) for p in range(lo, hi)]
    columns: list[int] = []
    for i, (lo, hi) in enumerate(pairwise(pointers)):
        columns += sorted((i + (p - lo) * across // (hi - lo)) % across for p in range(lo, hi))
    return pointers, columns


def evenly_spaced(entries: int, rows: int) -> list[int]:
    """Return row pointers of ``entries`` spaced evenly over ``rows``: what a prediction without data assumes."""
    return [math.ceil(entries * i / max(rows, 1)) for i in range(rows + 1)]
