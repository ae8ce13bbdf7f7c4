"""`matmul`: the product of NumPy and torch, of vectors, matrices and batches."""

from __future__ import annotations

from torch import Tensor

from trnblas.gemm import gemm
from trnsci import array_function, check
from trnsci.precision import Precision


@array_function
@check.hands_on("gemm")
def matmul(a: Tensor, b: Tensor, *, precision: Precision | None = None, out: Tensor | None = None) -> Tensor:
    """Return ``a @ b`` as ``numpy.matmul`` does: vectors are rows or columns, leading axes of batches broadcast.

    Args:
        a: [K] or [..., M, K].
        b: [K] or [..., K, N].
        precision: as for `gemm`.
        out: memory for the result, shared with no operand.

    Returns:
        [..., M, N] without the axis that a vector does not have; of two vectors a tensor without axes. Operands share
        one floating or complex dtype, which is the result's: nothing is promoted.

    Raises:
        ArgumentError: an operand has no axes, or shapes, devices or ``out`` do not fit.
        DtypeError: operands are not floating-point, or their dtypes differ.

    Error bound:
        That of `gemm` with ``alpha=1``.

    Example:
        >>> matmul(torch.ones(4, 2, 3), torch.ones(3)).shape
        torch.Size([4, 2])
    """
    dtype = check.floating("matmul", a=a, b=b)
    check.ndim("matmul", 1, a=a, b=b)
    left = a if a.ndim > 1 else a.unsqueeze(0)
    right = b if b.ndim > 1 else b.unsqueeze(-1)
    check.equal("matmul", "K", a=left.shape[-1], b=right.shape[-2])
    batch = check.broadcast("matmul", a=left.shape[:-2], b=right.shape[:-2])
    shape = (*batch, *left.shape[-2:-1][: a.ndim - 1], *right.shape[-1:][: b.ndim - 1])
    if out is None:
        return gemm(1.0, left, right, precision=precision).reshape(shape)
    check.out("matmul", out, shape=shape, dtype=dtype, a=a, b=b)
    memory = out if a.ndim > 1 else out.unsqueeze(-1 if b.ndim == 1 else -2)
    gemm(1.0, left, right, precision=precision, out=memory if b.ndim > 1 else memory.unsqueeze(-1))
    return out
