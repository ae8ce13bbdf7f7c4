"""Float64 products as if in twice the precision, most of them on a GPU's int8 tensor cores.

Rows of ``a`` and columns of ``b`` are scaled below 1 and cut into six digits of 7 bits and what is left, below 2**-42.
Products of digits are summed exactly in int32, one matrix product for all pairs whose digits have the same weight; what
is left meets the whole of the other operand in float64, where one rounding is far below the last bit asked for.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from trnblas.split import normalise, rescale
from trnsci import cuda
from trnsci.torch_internals import int_mm

DIGITS = 6
# Below 2**-82, the square of float64's roundoff times a few thousand terms, nothing is asked for.
ENOUGH = 2.0**-13


@triton.jit
def _cut(x, digits, rest, whole, first, rows, depth, REVERSED: tl.constexpr, DIGITS: tl.constexpr, BLOCK: tl.constexpr):
    """Write digits [rows, DIGITS * depth] of x [rows, depth], and side by side the remainder of x and x less it."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < depth
    value = tl.load(x + row * depth + at, mask=inside, other=0.0)
    left = value * 64.0
    weight = value * 0.0 + 0.015625
    for s in tl.static_range(DIGITS):
        # adding and subtracting it rounds to an integer
        digit = (left + 6755399441055744.0) - 6755399441055744.0
        position = (DIGITS - 1 - s) if REVERSED else s
        tl.store(digits + row * DIGITS * depth + position * depth + at, digit.to(tl.int8), mask=inside)
        left = (left - digit) * 128.0
        weight = weight * 0.0078125
    left = left * weight
    tl.store(rest + row * 2 * depth + first * depth + at, left, mask=inside)
    other = value if REVERSED else value - left
    tl.store(whole + row * 2 * depth + (1 - first) * depth + at, other, mask=inside)


@triton.jit
def _sum(total, error, term):
    rounded = total + term
    part = rounded - total
    return rounded, error + ((total - (rounded - part)) + (term - part))


@triton.jit
def _join_planes(planes, low, out, count, PLANES: tl.constexpr, BLOCK: tl.constexpr):
    """Add up the sums of digits by weight, and the remainder, in pairs of float64."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    total = tl.load(planes + at, mask=inside, other=0).to(tl.float64) * 0.000244140625
    error = total * 0.0
    weight = total * 0.0 + 0.000244140625
    for d in tl.static_range(1, PLANES):
        weight = weight * 0.0078125
        term = tl.load(planes + d * count.to(tl.int64) + at, mask=inside, other=0).to(tl.float64) * weight
        total, error = _sum(total, error, term)
    total, error = _sum(total, error, tl.load(low + at, mask=inside, other=0.0))
    tl.store(out + at, total + error, mask=inside)


def exact_product(a: Tensor, b: Tensor) -> Tensor | None:
    """Return ``a @ b`` of float64 [M, K] and [K, N]; ``None`` where entries are not finite or too unlike in size."""
    (m, k), n = a.shape, b.shape[1]
    a_unit, a_exponent = normalise(a.contiguous(), -1)
    # columns as rows, so that digits lie along the sums
    bT_unit, bT_exponent = normalise(b.mT.contiguous(), -1)
    sizes = a_unit.abs().bfloat16() @ bT_unit.abs().bfloat16().mT
    # a comparison that NaN fails
    if not float(torch.where(sizes == 0, torch.inf, sizes).min()) >= 1.02 * k * ENOUGH:
        return None
    aH, bH = (a.new_empty((rows, DIGITS * k), dtype=torch.int8) for rows in (m, n))
    aL, bL = (a.new_empty((rows, 2 * k)) for rows in (m, n))
    planes = a.new_empty((2 * DIGITS - 1, m, n), dtype=torch.int32)
    block, across = 1024, -(-k // 1024)
    options = {"enable_fp_fusion": False}
    # [what is left of a, the rest of a] times [b, what is left of b]
    cuda.launch(_cut, (m, across, 1), a.device, (a_unit, aH, aL, aL, 0, m, k), (False, DIGITS, block), **options)
    cuda.launch(_cut, (n, across, 1), a.device, (bT_unit, bH, bL, bL, 1, n, k), (True, DIGITS, block), **options)
    for d in range(2 * DIGITS - 1):
        pairs = min(d, 2 * DIGITS - 2 - d) + 1
        start_a, start_b = max(0, d - DIGITS + 1) * k, max(0, DIGITS - 1 - d) * k
        left, right = aH[:, start_a : start_a + pairs * k], bH[:, start_b : start_b + pairs * k]
        int_mm(left, right.mT, out=planes[d])
    low, out, count = aL @ bL.mT, a.new_empty((m, n)), m * n
    cuda.launch(
        _join_planes, (-(-count // 512), 1, 1), a.device, (planes, low, out, count), (2 * DIGITS - 1, 512), **options
    )
    return rescale(out, a_exponent + bT_exponent.mT)
