"""Microscaling (MX) on trn3: quantising by the Vector Engine, products by the Tensor Engine.

A group is 8 partitions × 4 consecutive elements; its 32 elements share one scale, a power of two stored as its biased
exponent (e8m0). Four elements of a partition are packed into one element of an x4 dtype, the first in the lowest bits.
The scales of 32 partitions fill 4 partitions of the same quadrant: a tile of P > 32 partitions has scales in partitions
0–3, 32–35, … of its scale tile, which may start 0, 4, 8 or 12 partitions into a quadrant.
"""

import functools
from typing import Any

import numpy as np

from trnsim.isa import matmul_rules as rules, operands as check, psum
from trnsim.refusals import forbid, refuse
from trnsim.session import PSUM, SBUF, NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import (
    PACKED,
    ExtraDtype,
    bfloat16,
    float4_e2m1fn_x4,
    float8_e4m3fn_x4,
    float8_e5m2_x4,
    float8_e8m0fnu,
    float16,
    float32,
    to_f32,
    uint8,
)
from trnsim.tensors.tensor import NkiTensor

# largest exponent and value of the elements quantize_mx makes
_EMAX = {float8_e4m3fn_x4: 8, float8_e5m2_x4: 15}
_MOST = {float8_e4m3fn_x4: 448.0, float8_e5m2_x4: 57344.0}
_BIAS = 127


@instruction(since=4, hint="convert to float8 with tensor_copy and use nc_matmul")
def quantize_mx(s: Session, dst: Any, src: Any, dst_scale: Any) -> NkiInstruction:
    """Quantise ``src`` [P, F] to fp8: ``dst`` [P, F/4] packed by four, ``dst_scale`` one exponent per group of 8×4.

    With ``a`` the largest magnitude of a group and E the largest exponent of the element type (8 for e4m3fn, 15 for
    e5m2) the scale is 2^(⌊log2 a⌋ − (E − 1)), at least 2^−127, which is also the scale of zeros. Elements are divided
    by it and rounded to nearest even. Infinities saturate and NaNs stay; both count as exponent 128.

    Args:
        dst: SBUF tile of ``float8_e4m3fn_x4`` or ``float8_e5m2_x4``.
        src: SBUF tile of bf16 or fp16, P a multiple of 32, F of 4.
        dst_scale: SBUF tile of ``float8_e8m0fnu`` or ``uint8``, [P, F/4] ([4, F/4] will do for P = 32).
    """
    values = s.read(src, "src", (SBUF,))
    s.operand(dst, "dst", (SBUF,))
    s.operand(dst_scale, "dst_scale", (SBUF,), compute=False)
    p, f = src.shape[0], src.free_size
    if s.checks:
        _check_quantize(dst, src)
        _check_scale(dst_scale, "dst_scale", src, f // 4, exact=True)
    if not s.numerics:
        s.write(dst, values, "dst", (SBUF,))
        s.write(dst_scale, values, "dst_scale", (SBUF,), compute=False)
    else:
        packed, scales = _quantize(to_f32(values).reshape(p, f), dst.dtype)
        s.write(dst, packed, "dst", (SBUF,))
        bits = scales.view(float8_e8m0fnu) if dst_scale.dtype == float8_e8m0fnu else scales
        for q in range(p // 32):
            s.write(
                dst_scale.slice(0, 32 * q, 32 * q + 4), bits[4 * q : 4 * q + 4], "dst_scale", (SBUF,), compute=False
            )
    return s.done("vector", (dst, dst_scale), (src,), n=f)


@instruction(since=4, hint="use nc_matmul, with perf_mode double_row for fp8")
def nc_matmul_mx(
    s: Session,
    dst: Any,
    stationary: Any,
    moving: Any,
    stationary_scale: Any,
    moving_scale: Any,
    tile_position: Any = None,
    tile_size: Any = None,
    accumulate: Any = None,
) -> NkiInstruction:
    """``dst (+)= dequantised stationary.T @ dequantised moving``: [M, N] from x4 tiles [K, M] and [K, N].

    The contraction runs over the partitions and the four packed elements of each. K is a multiple of 32 up to 128, M is
    even and at most 128, N at most 4096 (fp32 ``dst``) or 8192 (bf16).

    Args:
        dst: PSUM tile, fp32 or bf16.
        stationary: SBUF tile of an x4 dtype.
        moving: SBUF tile of an x4 dtype, not necessarily the same.
        stationary_scale: SBUF tile of ``float8_e8m0fnu`` or ``uint8``, laid out as `quantize_mx` does.
        moving_scale: the same for moving.
        tile_position: first row of the array used, and 0.
        tile_size: rows used (32, 64 or 128), and 128.
        accumulate: as in `nc_matmul`.
    """
    adds = psum.flag(accumulate)
    a = s.read(stationary, "stationary", (SBUF,))
    b = s.read(moving, "moving", (SBUF,))
    s.operand(dst, "dst", (PSUM,))
    for t, role in ((stationary_scale, "stationary_scale"), (moving_scale, "moving_scale")):
        s.operand(t, role, (SBUF,), compute=False)
    k, m, n = stationary.shape[0], stationary.free_size, moving.free_size
    tile = rules.tiling(s, tile_position, tile_size) if tile_position or tile_size else None
    if s.checks:
        _check_matmul(s, dst, stationary, moving, tile, k, m, n)
        _check_scale(stationary_scale, "stationary_scale", stationary, m)
        _check_scale(moving_scale, "moving_scale", moving, n)
        _check_pair(stationary, stationary_scale, "stationary")
        _check_pair(moving, moving_scale, "moving")
        rules.check_indirection(dst, stationary, moving, tile, False, packed=True)
    exponents = [
        _read_scale(s, scale, f"{role}_scale", data)
        for scale, data, role in ((stationary_scale, stationary, "stationary"), (moving_scale, moving, "moving"))
    ]
    if not s.numerics:
        added = psum.store(s, dst, a, adds)
    else:
        left, right = unpack(a.reshape(k, m), stationary.dtype), unpack(b.reshape(k, n), moving.dtype)
        added = psum.store(s, dst, _product(left, right, *exponents), adds)
    position, size = tile or (None, None)
    cost = {"k": k, "m": m, "n": n, "mx": True, "is_transpose": False, "accumulate": added}
    reads = (stationary, moving, stationary_scale, moving_scale)
    return s.done("tensor", (dst,), reads, **cost, tile_position=position, tile_size=size)


def unpack(x: np.ndarray, dtype: ExtraDtype) -> np.ndarray:
    """Return the elements of an x4 tile [P, F] as fp32 [P, F, 4], lowest bits first."""
    element = dtype.element
    assert element is not None
    if dtype is float4_e2m1fn_x4:
        nibbles = (x[..., None] >> np.arange(0, 16, 4, dtype=np.uint16)) & np.uint16(15)
        return _table(element).take(nibbles)
    return _table(element).take(np.ascontiguousarray(x).view(np.uint8).reshape(*x.shape, 4))


@functools.cache
def _table(element: Any) -> np.ndarray:
    count = 16 if element.name == "float4_e2m1fn" else 256
    return np.arange(count, dtype=np.uint8).view(element).astype(np.float32)


def _quantize(x: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return packed elements [P, F/4] and biased scale exponents [P/8, F/4] of fp32 values [P, F]."""
    p, f = x.shape
    groups = np.abs(x).reshape(p // 8, 8, f // 4, 4)
    largest = groups.max(axis=(1, 3))
    # ⌊log2⌋ exactly: frexp's mantissa is in [½, 1)
    floor = np.where(np.isfinite(largest), np.frexp(largest)[1] - 1, 128)
    exponent = np.where(largest == 0, -_BIAS, np.maximum(floor - (_EMAX[dtype] - 1), -_BIAS))
    each = np.repeat(np.repeat(exponent, 8, axis=0), 4, axis=1)
    divided = np.clip(np.ldexp(x, -each), -_MOST[dtype], _MOST[dtype])
    packed = divided.astype(dtype.element).view(np.uint8).reshape(p, f // 4, 4)
    return packed.view(np.uint32)[..., 0], (exponent + _BIAS).astype(np.uint8)


def _product(left: np.ndarray, right: np.ndarray, left_scale: np.ndarray, right_scale: np.ndarray) -> np.ndarray:
    """[M, N] from elements [K, M, 4] and [K, N, 4] and exponents [K/8, M] and [K/8, N]."""
    # fp32 holds every scaled element unless scales are extreme; fp64 always does
    safe = all(x.min() >= 40 and x.max() <= 200 for x in (left_scale, right_scale))
    wide = np.float32 if safe else np.float64
    scaled = []
    for values, exponents in ((left, left_scale), (right, right_scale)):
        factor = np.ldexp(wide(1), exponents.astype(np.int32) - _BIAS)
        factor[exponents == 255] = np.nan
        full = values * np.repeat(factor, 8, axis=0)[..., None]
        # [K, F, 4] as [4K, F]
        scaled.append(np.ascontiguousarray(full.transpose(0, 2, 1)).reshape(-1, full.shape[1]))
    return np.asarray(np.matmul(scaled[0].T, scaled[1]), np.float32)


def _read_scale(s: Session, scale: NkiTensor, role: str, data: NkiTensor) -> np.ndarray:
    """Biased exponents [K/8, F] of a scale tile: 4 partitions of each quadrant, as many columns as the data."""
    if not s.numerics:
        return s.read(scale, role, (SBUF,), compute=False)
    columns = None
    tile = scale
    if scale.dynamic is not None:
        tile, columns = s._gather_columns(scale, role)
    elif scale.ndim == 2:
        tile = scale.slice(1, 0, data.free_size)
    rows = []
    for q in range(data.shape[0] // 32):
        part = s.read(tile.slice(0, 32 * q, 32 * q + 4), role, (SBUF,), compute=False).view(np.uint8).reshape(4, -1)
        if columns is not None:
            part = np.take_along_axis(part, columns[32 * q : 32 * q + 4], axis=1)
        rows.append(part[:, : data.free_size])
    return np.concatenate(rows)


def _check_quantize(dst: NkiTensor, src: NkiTensor) -> None:
    p, f = src.shape[0], src.free_size
    check.has_dtype(src, "src", frozenset({bfloat16, float16}), rule="mx-dtype", hint="convert it with tensor_copy")
    hint = "quantize_mx makes fp8; fp4 tiles are quantised before the kernel"
    check.has_dtype(dst, "dst", frozenset(_EMAX), rule="mx-dtype", hint=hint)
    _check_quadrants(f"src ({src.name}) has", p)
    forbid(f % 4, "mx-free", got=f, src=src)
    if (dst.shape[0], dst.free_size) != (p, f // 4):
        raise refuse("mx-dst", got=(dst.shape[0], dst.free_size), limit=(p, f // 4), dst=dst, p=p, f=f, quarter=f // 4)


def _check_quadrants(what: str, partitions: int) -> None:
    forbid(partitions % 32 or partitions > 128, "mx-partitions", got=partitions, limit=(32, 64, 96, 128), what=what)


def _check_scale(scale: NkiTensor, role: str, data: NkiTensor, columns: int, *, exact: bool = False) -> None:
    hint = "scales are biased exponents of 8 bits"
    check.has_dtype(scale, role, frozenset({float8_e8m0fnu, uint8}), rule="mx-scale-dtype", hint=hint)
    needed = data.shape[0] - 28
    if scale.shape[0] < needed:
        raise refuse("mx-scale-layout:partitions", got=scale.shape[0], limit=needed, role=role, scale=scale, data=data)
    if scale.free_size < columns or (exact and scale.free_size != columns):
        raise refuse("mx-scale-layout:count", got=scale.free_size, limit=columns, role=role, scale=scale)
    start = scale.partition_start
    if start % 32 not in (0, 4, 8, 12):
        raise refuse("mx-scale-start", got=start % 32, limit=(0, 4, 8, 12), role=role, scale=scale)
    # a tile the compiler places itself goes to the quadrant it is needed in
    if _has_fixed_start(scale) and _has_fixed_start(data) and start // 32 != data.partition_start // 32:
        raise refuse(
            "mx-scale-quadrant", got=start // 32, limit=data.partition_start // 32, role=role, scale=scale, data=data
        )


def _has_fixed_start(t: NkiTensor) -> bool:
    return t.storage.address is not None or t.storage.rows > 64


def _check_pair(data: NkiTensor, scale: NkiTensor, role: str) -> None:
    first = data.dynamic.index if data.dynamic is not None else None
    second = scale.dynamic.index if scale.dynamic is not None else None
    forbid(first is not second, "indirect-pair", got=(first is not None, second is not None), role=role)


def _check_matmul(
    s: Session, dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, tile: Any, k: int, m: int, n: int
) -> None:
    for t, role in ((stationary, "stationary"), (moving, "moving")):
        check.has_dtype(t, role, PACKED, rule="mx-dtype", hint="view packed bits as an x4 dtype, or use nc_matmul")
    check.has_dtype(dst, "dst", frozenset({float32, bfloat16}), rule="matmul-dst-dtype")
    if tile and (tile[1][1] != 128 or tile[0][1] != 0):
        raise refuse("mx-tiling", got=(tile[0][1], tile[1][1]), limit=(0, 128), tile=tile)
    rules.check_operands(s, stationary, moving, k, m, tile)
    _check_quadrants("the operands have", k)
    forbid(m % 2, "mx-even", got=m)
    psum.check_dst(s, dst, m, n)
