"""Tensor Engine: a 128×128 array of multipliers that reads SBUF and writes PSUM.

The stationary operand [K, M] is loaded into the array, the moving operand [K, N] streams through it, and the products
are summed over K, the partition dimension of both. Sums are fp32, whatever the operands' dtypes.
"""

from typing import Any

import numpy as np

from trnsim.isa import matmul_rules as rules, psum
from trnsim.isa.enums import engine as eng, matmul_perf_mode, member
from trnsim.isa.operands import scratch
from trnsim.refusals import forbid, refuse
from trnsim.session import MATMUL, PSUM, SBUF, NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import DType, bfloat16, float32, round_tf32, tfloat32, to_f32
from trnsim.tensors.tensor import NkiTensor

_NONE = matmul_perf_mode.none


@instruction
def nc_matmul(
    s: Session,
    dst: Any,
    stationary: Any,
    moving: Any,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: Any = None,
    tile_position: Any = (),
    tile_size: Any = (),
    perf_mode: Any = _NONE,
) -> NkiInstruction:
    """``dst (+)= stationary.T @ moving``: [M, N] from [K, M] and [K, N]; free dimensions count as one.

    K and M are at most 128, N at most 512 (trn3: as many as PSUM holds, 4096 fp32 or 8192 bf16). fp32 and tfloat32 mix
    with each other only; the two fp8 e4m3 formats do not mix. ``dst`` is fp32, on trn3 also bf16.

    Args:
        dst: PSUM tile, in one bank before trn3.
        stationary: SBUF tile.
        moving: SBUF tile.
        is_stationary_onezero: promise that stationary holds zeros and ones only (fp32 then runs faster).
        is_moving_onezero: the same of moving.
        is_transpose: move the bits of stationary to ``dst`` transposed; moving selects rows (an identity). From trn2
            on this is exact for every bit pattern; trn1 multiplies as always.
        accumulate: add to what matmuls left in ``dst``, or overwrite it; ``None`` overwrites each element's first time.
        tile_position: first row and column of the array used, multiples of ``tile_size``.
        tile_size: rows and columns used: 128, 64, and from trn2 on 32.
        perf_mode: ``double_row`` contracts 2K rows of fp8: operands are [K, 2, M] and [K, 2, N].
    """
    mode = perf_mode if perf_mode is _NONE else member(matmul_perf_mode, perf_mode, "perf_mode")
    pair = 1 if mode is _NONE else 2
    adds = psum.flag(accumulate)
    a = s.read(stationary, "stationary", (SBUF,))
    b = s.read(moving, "moving", (SBUF,))
    s.operand(dst, "dst", (PSUM,))
    k, m, n = stationary.shape[0], stationary.free_size // pair, moving.free_size // pair
    passes = is_transpose and s.target.generation >= 3
    tile = rules.tiling(s, tile_position, tile_size) if tile_position or tile_size else None
    if s.checks:
        if mode is not _NONE:
            rules.check_double_row(s, stationary, moving, tile, bool(is_transpose))
        rules.check_operands(s, stationary, moving, k, m, tile)
        rules.check_dtypes(s, dst, stationary, moving, bool(is_transpose))
        psum.check_dst(s, dst, m, n)
        forbid(passes and adds, "transpose-accumulate", got=True, limit=(False, None))
        if stationary.dynamic is not None or moving.dynamic is not None or dst.dynamic is not None:
            rules.check_indirection(dst, stationary, moving, tile, bool(is_transpose))
    if not s.numerics:
        added = psum.store(s, dst, a, False if passes else adds)
    else:
        if s.checks and (is_stationary_onezero or is_moving_onezero):
            rules.check_onezero(a if is_stationary_onezero else None, "stationary", stationary)
            rules.check_onezero(b if is_moving_onezero else None, "moving", moving)
        if passes:
            s.write(dst.exact(), _select_rows(a.reshape(k, m), b.reshape(k, n), moving), "dst", (PSUM,), code=MATMUL)
            added = False
        else:
            left = _matrix(s, "matmul left", a, stationary.dtype, k * pair)
            right = _matrix(s, "matmul right", b, moving.dtype, k * pair)
            product = np.matmul(left.T, right, out=scratch(s, "matmul product", (m, n)))
            added = psum.store(s, dst, product, adds)
    position, size = tile or (None, None)
    cost = {"k": k, "m": m, "n": n, "is_transpose": bool(is_transpose), "accumulate": added, "perf_mode": mode.name}
    cost["tile_position"], cost["tile_size"] = position, size
    cost["onezero"] = (bool(is_stationary_onezero), bool(is_moving_onezero))
    return s.done("tensor", (dst,), (stationary, moving), cost)


@instruction
def nc_transpose(s: Session, dst: Any, data: Any, engine: Any = eng.unknown) -> NkiInstruction:
    """``dst = data.T``: [F, P] from [P, F], free dimensions counting as one; dtypes are equal.

    The Tensor Engine takes SBUF to PSUM up to 128×128, the Vector Engine any on-chip memory up to 32×32. Unless told,
    the Tensor Engine does what it can reach. Bits are moved as they are, except by trn1's Tensor Engine, which
    multiplies by an identity, so that a NaN or infinity spoils its column.
    """
    wanted = member(eng, engine, "engine")
    values = s.read(data, "data")
    s.operand(dst, "dst")
    where = wanted
    if wanted is eng.unknown:
        where = eng.tensor if data.buffer.value == SBUF and dst.buffer.value == PSUM else eng.vector
    if s.checks:
        rules.check_transpose(s, dst, data, where, wanted)
    if s.numerics:
        flipped = values.reshape(data.shape[0], -1).T
        if where is eng.tensor and s.target.generation < 3 and data.dtype.kind not in "iub":
            wide = to_f32(flipped)
            if not np.isfinite(wide).all():
                flipped = np.matmul(wide, np.eye(data.shape[0], dtype=np.float32))
        values = flipped
    s.write(dst.exact(), values, "dst", code=MATMUL if where is eng.tensor else 1)
    k, m = data.shape[0], data.free_size
    return s.done(where.name, (dst,), (data,), k=k, m=m, n=k, is_transpose=True, requested=wanted.name)


def _matrix(s: Session, name: str, x: np.ndarray, dtype: DType, rows: int) -> np.ndarray:
    """Return an operand as an fp32 matrix BLAS can read."""
    if x.dtype == float32:
        if dtype is tfloat32:
            x = round_tf32(x)
        if x.ndim == 2 and x.strides[1] == 4 and x.strides[0] >= x.shape[1] * 4:
            return x
    elif x.dtype != bfloat16 or not x.flags.c_contiguous:
        x = to_f32(x)
        if x.flags.c_contiguous:
            return x.reshape(rows, -1)
    out = scratch(s, name, x.shape)
    np.copyto(out, x)
    return out.reshape(rows, -1)


def _select_rows(data: np.ndarray, selector: np.ndarray, moving: NkiTensor) -> np.ndarray:
    """Transpose mode: column j of the selector holds at most one 1, in row i; row i of data becomes column j."""
    k, n = selector.shape
    chosen = selector == 1
    if k == n and np.count_nonzero(selector) == n and chosen.diagonal().all():
        return data.T
    used = chosen.sum(axis=0)
    if (used > 1).any() or ((selector != 0) & ~chosen).any():
        raise refuse("transpose-identity", got="columns with other values than a single 1", moving=moving)
    picked = data[chosen.argmax(axis=0)].T
    return np.where(used > 0, picked, np.zeros((), data.dtype))
