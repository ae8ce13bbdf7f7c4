"""Refusals of the Tensor Engine: shapes, dtypes, tiles of the array, indirection, transposes."""

from typing import Any

import numpy as np

from trnsim.isa import operands as check, psum
from trnsim.isa.enums import engine as eng
from trnsim.isa.operands import index_of, needs, not_run, same_start
from trnsim.refusals import forbid, refuse
from trnsim.session import PSUM, SBUF, Session
from trnsim.tensors.dtypes import (
    FLOATS,
    FP8,
    LOW_PRECISION,
    bfloat16,
    float8_e4m3,
    float8_e4m3fn,
    float32,
    same_dtype,
    tfloat32,
)
from trnsim.tensors.layout import as_index
from trnsim.tensors.tensor import NkiTensor


def tiling(s: Session, tile_position: Any, tile_size: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    """Check ``tile_position`` and ``tile_size``; returns both as pairs of ints."""
    pairs = []
    for value, role in ((tile_position, "tile_position"), (tile_size, "tile_size")):
        try:
            first, second = (as_index(v) for v in value)
        except (TypeError, ValueError):
            raise refuse("tiling", got=value, tile_position=tile_position, tile_size=tile_size, role=role) from None
        pairs.append((first, second))
    position, size = pairs
    sizes = (32, 64, 128) if s.target.generation >= 3 else (64, 128)
    for start, extent, what in zip(position, size, ("row", "column"), strict=True):
        forbid(extent not in sizes, "tile-size", got=extent, limit=sizes, what=what, s=s)
        if start < 0 or start % extent or start + extent > 128:
            raise refuse("tile-position", got=start, limit=list(range(0, 128, extent)), what=what, extent=extent)
    return position, size


def check_operands(s: Session, stationary: NkiTensor, moving: NkiTensor, k: int, m: int, tile: Any) -> None:
    """Equal partitions of both, within the rows and columns of the array or its tile."""
    rows, columns = tile[1] if tile else (s.target.partitions, s.target.stationary_max)
    forbid(moving.shape[0] != k, "contraction", got=moving.shape[0], limit=k)
    forbid(k > rows, "contraction-limit", got=k, limit=rows)
    forbid(m > columns, "stationary-limit", got=m, limit=columns)


def check_dtypes(s: Session, dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, is_transpose: bool) -> None:
    """Which dtypes are multiplied, which mix, and what a product is written as."""
    first, second = stationary.dtype, moving.dtype
    for t, role in ((stationary, "stationary"), (moving, "moving")):
        dtype = t.dtype
        if dtype not in FLOATS:
            hint = "packed x4 types go to nc_matmul_mx; convert integers with tensor_copy"
            why = ", which the Tensor Engine does not multiply"
            check.has_dtype(t, role, FLOATS, rule="matmul-dtype", why=why, hint=hint)
        if dtype == float8_e4m3fn:
            needs(s, 4, f"{role} ({t.name}) is float8_e4m3fn", "use float8_e4m3")
    both, given = f"stationary is {first} and moving is {second}", (str(first), str(second))
    if (first == float32 or first is tfloat32) != (second == float32 or second is tfloat32):
        limit, hint = "both or neither of float32/tfloat32", "convert one of them with tensor_copy"
        raise refuse("matmul-mix:width", got=given, limit=limit, hint=hint, both=both)
    if {first, second} == {float8_e4m3, float8_e4m3fn}:
        limit, hint = "one of float8_e4m3 and float8_e4m3fn", "use one format for both, or float8_e5m2 for one"
        raise refuse("matmul-mix:format", got=given, limit=limit, hint=hint, both=both)
    _check_result(s, dst, stationary, is_transpose)


def _check_result(s: Session, dst: NkiTensor, stationary: NkiTensor, is_transpose: bool) -> None:
    given, data = dst.dtype, stationary.dtype
    if is_transpose and s.target.generation >= 3:
        check_kept(dst, stationary, "stationary")
        return
    if (given == float32 and given is not tfloat32) or (is_transpose and same_dtype(given, data)):
        return
    allowed = frozenset({float32, bfloat16}) if s.target.generation >= 4 else frozenset({float32})
    why = f", and {s.target.name} writes {' or '.join(sorted(map(str, allowed), reverse=True))} products"
    hint = "allocate dst as float32 and convert when you copy it out of PSUM"
    check.has_dtype(dst, "dst", allowed, rule="matmul-dst-dtype", why=why, hint=hint)


def check_kept(dst: NkiTensor, data: NkiTensor, role: str) -> None:
    """Check that a transpose keeps the dtype."""
    hint = f"allocate dst as {data.dtype}, and convert when you copy it on"
    check.one_dtype(dst, "dst", data, role, rule="transpose-dtype", why=": a transpose keeps the dtype", hint=hint)


def check_double_row(s: Session, stationary: NkiTensor, moving: NkiTensor, tile: Any, is_transpose: bool) -> None:
    """``double_row``: fp8 operands [K, 2, …] on trn2 and trn3, all columns of the array, no transpose."""
    needs(s, 3, "perf_mode double_row", "leave perf_mode out and contract K in two matmuls")
    for t, role in ((stationary, "stationary"), (moving, "moving")):
        hint = "convert both operands to fp8, or leave perf_mode out"
        check.has_dtype(t, role, FP8, rule="double-row-dtype", why=", and double_row takes fp8", hint=hint)
        if t.ndim < 3 or t.shape[1] != 2:
            raise refuse("double-row-shape", got=t.shape, limit=(t.shape[0], 2, "…"), role=role, t=t)
    if tile and tile[1][1] != 128:
        raise refuse("double-row-tiling", got=tile[1][1])
    forbid(is_transpose, "double-row-transpose", got="double_row")


def check_indirection(
    dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, tile: Any, is_transpose: bool, *, packed: bool = False
) -> None:
    """Rules of ``.indirect()`` operands on trn3; ``packed`` for MX products, whose dtypes are checked elsewhere."""
    picked = [
        (t, role)
        for t, role in ((dst, "dst"), (stationary, "stationary"), (moving, "moving"))
        if t.is_addressed("tensor")
    ]
    if not picked:
        return
    if tile and tile[0] != (0, 0):
        raise refuse("indirect-tiling", got=tile[0], limit=(0, 0), picked=picked)
    for t, role in picked:
        forbid(role == "moving" and is_transpose, "indirect-transpose", got="moving", limit=("stationary", "dst"))
        if role != "dst" and not packed:
            hint = "convert it to a 16-bit or 8-bit float"
            check.has_dtype(t, role, LOW_PRECISION, rule="indirect-dtype", why=" and uses .indirect()", hint=hint)
        partner, partner_role = (stationary, "stationary") if role == "dst" else (t, role)
        same_start(index_of(t, role), f"the index of {role}", partner, partner_role)


def check_onezero(values: np.ndarray | None, role: str, t: NkiTensor) -> None:
    """Check a promise of zeros and ones, which matters for fp32 only."""
    if values is None or t.dtype != float32:
        return
    wrong = (values != 0) & (values != 1)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise refuse("onezero", got=float(values[at]), limit=(0.0, 1.0), role=role, at=at, t=t)


def check_transpose(s: Session, dst: NkiTensor, data: NkiTensor, where: eng, wanted: eng) -> None:
    """Engines, dtypes, shapes and memories of nc_transpose."""
    given, kept = dst.dtype, data.dtype
    if where not in (eng.tensor, eng.vector):
        hint = "the Tensor and Vector Engines transpose"
        raise not_run(where.name, "nc_transpose", ("tensor", "vector", "unknown"), hint)
    # trn1 has no transpose mode: its Tensor Engine multiplies by an identity, which PSUM may keep as float32
    multiplies = s.target.generation < 3 and where is eng.tensor and given == float32 and kept.kind not in "iub"
    if not multiplies:
        check_kept(dst, data, "data")
    rows, columns = data.shape[0], data.free_size
    if dst.shape[0] != columns or dst.free_size != rows:
        got = dst.shape[0], dst.free_size
        raise refuse("transpose-shape:check_transpose", got=got, limit=(columns, rows), dst=dst)
    if where is eng.tensor:
        for t, role, memory in ((data, "data", SBUF), (dst, "dst", PSUM)):
            if t.buffer.value != memory:
                does = "reads SBUF" if memory == SBUF else "writes PSUM"
                raise refuse("buffer:check_transpose", got=str(t.buffer), limit=memory, role=role, t=t, does=does)
        psum.check_dst(s, dst, columns, rows)
    most = 128 if where is eng.tensor else 32
    if rows > most or columns > most:
        chosen = (
            "" if wanted is not eng.unknown else " (chosen because data and dst are not SBUF and PSUM)" * (most == 32)
        )
        name, instead = where.name.capitalize(), "" if most == 128 else ", or let the Tensor Engine write PSUM"
        raise refuse(
            "transpose-limit", got=(rows, columns), limit=(most, most), engine_name=name, chosen=chosen, instead=instead
        )
