"""Products of 8-bit integers, exact: sums in 32 bits, on engines that multiply floating-point numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from trnblas.arguments import transpose_by, transposition
from trnblas.gemm import gemm
from trnsci import ArgumentError, DtypeError, array_function, check, op, run

DTYPES = (torch.int8, torch.uint8)
LARGEST = {torch.int8: 128, torch.uint8: 255}


@array_function
def gemm_int(
    a: Tensor,
    b: Tensor,
    *,
    zero_a: int = 0,
    zero_b: int = 0,
    bias: Tensor | None = None,
    c: Tensor | None = None,
    trans_a: bool | int | str = False,
    trans_b: bool | int | str = False,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply matrices of 8-bit integers exactly: ``(op(a) - zero_a) @ (op(b) - zero_b) + c + bias``, in int32.

    Args:
        a: int8 or uint8 [..., M, K], or [..., K, M] when transposed.
        b: int8 or uint8 [..., K, N], or [..., N, K] when transposed.
        zero_a: the number that stands for 0 in ``a``, as quantised data have it.
        zero_b: the same of ``b``.
        bias: int32 [N], added to every row.
        c: int32 [..., M, N].
        trans_a: ``False``/``"n"``, ``True``/``"t"``.
        trans_b: the same for ``b``.
        out: int32 [..., M, N], memory for the result, shared with no operand.

    Returns:
        int32 [..., M, N]; leading axes broadcast. Sums beyond 32 bits wrap around, as on a GPU.

    Raises:
        DtypeError: operands are not 8-bit integers, or addends not int32.

    Error bound:
        0. On the device operands are exact in bfloat16, and products are added up in fp32 over so few terms that no
        sum is beyond ``2**24``; those sums are added as integers.

    Cost:
        ``2MNK`` operations.

    Example:
        >>> gemm_int(torch.tensor([[100, 100]], dtype=torch.int8), torch.tensor([[100], [1]], dtype=torch.int8))
        tensor([[10100]], dtype=torch.int32)
    """
    a, b = _operand("a", a, trans_a), _operand("b", b, trans_b)
    check.same_device("gemm_int", a=a, b=b)
    check.equal("gemm_int", "K", a=a.shape[-1], b=b.shape[-2], hint="Transpose one of them with trans_a or trans_b?")
    shape = (*check.broadcast("gemm_int", a=a.shape[:-2], b=b.shape[:-2]), a.shape[-2], b.shape[-1])
    for name, x, wanted in (("bias", bias, shape[-1:]), ("c", c, shape)):
        if x is not None:
            _addend(name, x, wanted)
            check.same_device("gemm_int", a=a, **{name: x})
    for name, zero in (("zero_a", zero_a), ("zero_b", zero_b)):
        check.integer("gemm_int", name, zero, -256, 256)
    if out is not None:
        check.out("gemm_int", out, shape=shape, dtype=torch.int32, a=a, b=b, c=c, bias=bias)
    product = run(GemmInt(a, b))
    if zero_a or zero_b:
        rows, columns = (x.sum(axis, dtype=torch.int64, keepdim=True) for x, axis in ((a, -1), (b, -2)))
        whole = product.long() - zero_a * columns - zero_b * rows + a.shape[-1] * zero_a * zero_b
        product = _wrap_int32(whole)
    for addend in (c, bias):
        product = product if addend is None else product + addend
    return product if out is None else out.copy_(product)


def _operand(name: str, x: Tensor, trans: bool | int | str) -> Tensor:
    check.tensor("gemm_int", **{name: x})
    if x.dtype not in DTYPES:
        raise DtypeError("gemm_int", f"dtype of {name}", x.dtype, "int8 or uint8")
    check.ndim("gemm_int", 2, **{name: x})
    kind = transposition("gemm_int", trans, f"trans_{name}")
    return x if kind == "n" else transpose_by(kind, x)


def _addend(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    check.tensor("gemm_int", **{name: x})
    if x.dtype != torch.int32:
        raise DtypeError("gemm_int", f"dtype of {name}", x.dtype, "int32")
    if tuple(x.shape) != shape:
        raise ArgumentError("gemm_int", f"shape of {name}", tuple(x.shape), str(shape))


def _wrap_int32(x: Tensor) -> Tensor:
    """Return the low 32 bits of int64."""
    return (x & 0xFFFFFFFF).sub((x & 0x80000000) << 1).to(torch.int32)


def terms(a: torch.dtype, b: torch.dtype) -> int:
    """Return how many products of two such integers add up to at most ``2**24`` in magnitude."""
    return (1 << 24) // (LARGEST[a] * LARGEST[b])


@op("trnblas::gemm_int")
class GemmInt(NamedTuple):
    """``a @ b`` in int32, modulo ``2**32``."""

    a: Tensor  # [..., M, K]
    b: Tensor  # [..., K, N]

    def fake(self) -> Tensor:
        batch = check.broadcast("gemm_int", a=self.a.shape[:-2], b=self.b.shape[:-2])
        return self.a.new_empty((*batch, self.a.shape[-2], self.b.shape[-1]), dtype=torch.int32)

    def cost(self) -> int:
        return 2 * self.fake().numel() * self.a.shape[-1]

    def bound(self, implementation: str) -> float:
        return 0.0

    def pytorch(self) -> Tensor:
        k, exact = self.a.shape[-1], terms(self.a.dtype, self.b.dtype)
        if k <= exact:
            return (self.a.float() @ self.b.float()).int()
        # exact in float64 up to sums of 2**53, which no K of this memory reaches
        product = self.a.double() @ self.b.double()
        return product.int() if k < exact << 7 else _wrap_int32(product.long())

    def nki(self) -> Tensor:
        """Multiply pieces of K in bfloat16, each exact in fp32, and add them up as integers."""
        k = self.a.shape[-1]
        if self.fake().numel() == 0 or k == 0:
            return torch.zeros_like(self.fake())
        size = min(k, terms(self.a.dtype, self.b.dtype))
        pieces = math.ceil(k / size)
        pad = pieces * size - k
        a = torch.nn.functional.pad(self.a.float(), (0, pad))
        b = torch.nn.functional.pad(self.b.float(), (0, 0, 0, pad))
        a = a.unflatten(-1, (pieces, size)).movedim(-2, 0)  # [pieces, ..., M, size]
        b = b.unflatten(-2, (pieces, size)).movedim(-3, 0)  # [pieces, ..., size, N]
        # leading axes of both as a batch, the pieces first
        lead = max(a.ndim, b.ndim)
        a, b = (x.reshape(x.shape[0], *[1] * (lead - x.ndim), *x.shape[1:]) for x in (a, b))
        sums = gemm(1.0, a, b, precision="fast")
        return sums if sums.is_meta else _wrap_int32(sums.long().sum(0))
