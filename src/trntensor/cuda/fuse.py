"""Fused programs on a GPU: products by cuBLAS, and function and sum in one pass that torch's compiler writes."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from trnsci import cuda
from trntensor.expression import Instruction, evaluate

# Elements of a product that exist at once.
BLOCK = 1 << 25


@functools.lru_cache(maxsize=256)
def _compile_epilogue(code: tuple[Instruction, ...], dims: tuple[int, ...]) -> cuda.Compiled:
    """Return the epilogue of a program, compiled once for all sizes."""

    def epilogue(product: Tensor, *extras: Tensor) -> list[Tensor]:
        value = evaluate(code, [product, *extras]).expand(product.shape)
        return [value.sum(dims, keepdim=True) if dims else value.clone()]

    return cuda.Compiled(epilogue, dynamic=True)


def _epilogue(compiled: cuda.Compiled, *operands: Tensor) -> Tensor:
    key = (operands[0].dtype, operands[0].device, *((x.shape, x.stride()) for x in operands))
    return compiled(key, *operands)[0]


def run_fused(a: Tensor, b: Tensor, extras: Sequence[Tensor], code: tuple[Instruction, ...], keep: str) -> Tensor:
    """Return ``sum of f(a @ b, extras)`` over the axes of [B, M, N] that ``keep`` lacks."""
    (batch, m, _), n = a.shape, b.shape[2]
    dims = tuple(axis for axis, name in enumerate("bmn") if name not in keep)
    run = functools.partial(_epilogue, _compile_epilogue(code, dims)) if code else functools.partial(_sum_product, dims)
    if batch * m * n <= BLOCK:
        return run(_product(a, b), *extras)
    out = a.new_zeros(tuple(1 if axis in dims else size for axis, size in enumerate((batch, m, n))))
    height = max(1, BLOCK // n)
    for i in range(batch):
        for start in range(0, m, height):
            rows = slice(start, start + height)
            parts = [x[i : i + 1] if x.shape[0] > 1 else x for x in extras]
            parts = [x[:, rows] if x.shape[1] > 1 else x for x in parts]
            where = (slice(i, i + 1) if "b" in keep else slice(None), rows if "m" in keep else slice(None))
            out[where] += run(_product(a[i : i + 1, rows], b[i : i + 1]), *parts)
    return out


def _sum_product(dims: tuple[int, ...], values: Tensor) -> Tensor:
    return values.sum(dims, keepdim=True) if dims else values


def _product(a: Tensor, b: Tensor) -> Tensor:
    # one product is faster as one matrix than as a batch of one
    return torch.mm(a.squeeze(0), b.squeeze(0)).unsqueeze(0) if a.shape[0] == 1 else torch.bmm(a, b)
