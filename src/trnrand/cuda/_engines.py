"""Blocks of four words: Philox4x32-10 and Threefry4x32-20 on uint32, and counters of 128 bits."""

import triton
import triton.language as tl

from trnrand.engines import THREEFRY_ROTATIONS

ROTATIONS = tl.constexpr(THREEFRY_ROTATIONS)


@triton.jit
def counter(first, c0, c1, c2, c3, attempt):
    """Return the words of ``c + first + (attempt << 96)``, for int64 ``first``."""
    low = c0.to(tl.uint32, bitcast=True).to(tl.uint64) | (c1.to(tl.uint32, bitcast=True).to(tl.uint64) << 32)
    high = c2.to(tl.uint32, bitcast=True).to(tl.uint64) | (c3.to(tl.uint32, bitcast=True).to(tl.uint64) << 32)
    total = first.to(tl.uint64) + low
    high = (total < low).to(tl.uint64) + high + (attempt.to(tl.uint64) << 32)
    return total.to(tl.uint32), (total >> 32).to(tl.uint32), high.to(tl.uint32), (high >> 32).to(tl.uint32)


@triton.jit
def _philox(x0, x1, x2, x3, k0, k1):
    for _ in tl.static_range(10):
        low0, low2 = x0 * 0xD2511F53, x2 * 0xCD9E8D57
        high0 = tl.umulhi(x0, tl.full(x0.shape, 0xD2511F53, tl.uint32))
        high2 = tl.umulhi(x2, tl.full(x2.shape, 0xCD9E8D57, tl.uint32))
        x0, x1, x2, x3 = high2 ^ x1 ^ k0, low2, high0 ^ x3 ^ k1, low0
        k0, k1 = k0 + 0x9E3779B9, k1 + 0xBB67AE85
    return x0, x1, x2, x3


@triton.jit
def _mix(x, y, shift: tl.constexpr):
    x = x + y
    return x, ((y << shift) | (y >> (32 - shift))) ^ x


@triton.jit
def _threefry(x0, x1, x2, x3, k0, k1, k2, k3):
    k4 = k0 ^ k1 ^ k2 ^ k3 ^ 0x1BD11BDA
    x0, x1, x2, x3 = x0 + k0, x1 + k1, x2 + k2, x3 + k3
    for r in tl.static_range(20):
        if r % 2 == 0:
            x0, x1 = _mix(x0, x1, ROTATIONS[r % 8][0])
            x2, x3 = _mix(x2, x3, ROTATIONS[r % 8][1])
        else:
            x0, x3 = _mix(x0, x3, ROTATIONS[r % 8][0])
            x2, x1 = _mix(x2, x1, ROTATIONS[r % 8][1])
        if r % 4 == 3:
            k0, k1, k2, k3, k4 = k1, k2, k3, k4, k0
            x0, x1, x2, x3 = x0 + k0, x1 + k1, x2 + k2, x3 + (k3 + (r // 4 + 1))
    return x0, x1, x2, x3


@triton.jit
def words(first, attempt, k0, k1, k2, k3, c0, c1, c2, c3, ENGINE: tl.constexpr):
    """Return the blocks ``first`` of an attempt: four words for each."""
    x0, x1, x2, x3 = counter(first, c0, c1, c2, c3, attempt)
    k0, k1 = k0.to(tl.uint32, bitcast=True), k1.to(tl.uint32, bitcast=True)
    if ENGINE == 0:
        x0, x1, x2, x3 = _philox(x0, x1, x2, x3, k0, k1)
    else:
        k2, k3 = k2.to(tl.uint32, bitcast=True), k3.to(tl.uint32, bitcast=True)
        x0, x1, x2, x3 = _threefry(x0, x1, x2, x3, k0, k1, k2, k3)
    return x0, x1, x2, x3
