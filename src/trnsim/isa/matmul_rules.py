"""What the Tensor Engine refuses: shapes, dtypes, tiles of the array, indirection, transposes."""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import HardwareLimit, WrongArgument, WrongBuffer, WrongDtype, WrongShape, wrong_pair
from trnsim.isa import operands as check
from trnsim.isa import psum
from trnsim.isa.enums import engine as eng
from trnsim.isa.operands import index_of, needs, not_run, same_start
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
            raise WrongArgument(
                f"tile_position is {tile_position} and tile_size is {tile_size}",
                rule="tiling",
                got=value,
                limit="two pairs (row, column)",
                hint=f"{role} is missing or no pair: tiling needs both, for example (64, 0) and (64, 128)",
            ) from None
        pairs.append((first, second))
    position, size = pairs
    sizes = (32, 64, 128) if s.target.generation >= 3 else (64, 128)
    for start, extent, what in zip(position, size, ("row", "column"), strict=True):
        if extent not in sizes:
            raise HardwareLimit(
                f"tile_size has {extent} {what}s, and {s.target.name} divides its array into tiles of {sizes}",
                rule="tile-size",
                got=extent,
                limit=sizes,
                hint=f"choose {what}s from {sizes}",
            )
        if start < 0 or start % extent or start + extent > 128:
            raise HardwareLimit(
                f"tile_position starts at {what} {start} with a tile of {extent} {what}s",
                rule="tile-position",
                got=start,
                limit=list(range(0, 128, extent)),
                hint=f"start at a multiple of {extent} and stay within 128 {what}s",
            )
    return position, size


def check_operands(s: Session, stationary: NkiTensor, moving: NkiTensor, k: int, m: int, tile: Any) -> None:
    """Equal partitions of both, within the rows and columns of the array or its tile."""
    rows, columns = tile[1] if tile else (s.target.partitions, s.target.stationary_max)
    if moving.shape[0] != k:
        hint = "the contraction is over partitions: both operands are [K, …]"
        raise wrong_pair("contraction", "moving", moving.shape[0], "stationary", k, hint, of="partitions")
    if k > rows:
        raise WrongShape(
            f"the operands have {k} partitions, and the tile of the array has {rows} rows",
            rule="contraction-limit",
            got=k,
            limit=rows,
            hint=f"split K into tiles of at most {rows} and accumulate",
        )
    if m > columns:
        hint = f"loop over tiles of at most {columns} columns, or swap stationary and moving"
        raise WrongShape(
            f"stationary has {m} columns, and the tile of the array has {columns}", "stationary-limit", m, columns, hint
        )


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
        raise WrongDtype(f"{both}: 32-bit operands mix with each other only", "matmul-mix", given, limit, hint)
    if {first, second} == {float8_e4m3, float8_e4m3fn}:
        limit, hint = "one of float8_e4m3 and float8_e4m3fn", "use one format for both, or float8_e5m2 for one"
        raise WrongDtype(f"{both}: the two e4m3 formats do not mix", "matmul-mix", given, limit, hint)
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
            raise WrongShape(
                f"{role} ({t.name}) has shape {t.shape}, and double_row takes [K, 2, …]",
                rule="double-row-shape",
                got=t.shape,
                limit=(t.shape[0], 2, "…"),
                hint="put the second half of the contraction behind the first: reshape to [K, 2, n]",
            )
    if tile and tile[1][1] != 128:
        hint = "use all 128 columns: tile_size=(rows, 128)"
        raise HardwareLimit(f"double_row with column tiles of {tile[1][1]}", "double-row-tiling", tile[1][1], 128, hint)
    if is_transpose:
        hint = "transpose without perf_mode"
        raise WrongArgument("double_row with is_transpose=True", "double-row-transpose", "double_row", "none", hint)


def check_indirection(
    dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, tile: Any, is_transpose: bool, *, packed: bool = False
) -> None:
    """Rules of ``.indirect()`` operands on trn3; ``packed`` for MX products, whose dtypes are checked elsewhere."""
    picked = [
        (t, role) for t, role in ((dst, "dst"), (stationary, "stationary"), (moving, "moving")) if t.addressed("tensor")
    ]
    if not picked:
        return
    if tile and tile[0] != (0, 0):
        hint = "leave tile_position out"
        raise HardwareLimit(
            f"{picked[0][1]} uses .indirect() and tile_position is {tile[0]}", "indirect-tiling", tile[0], (0, 0), hint
        )
    for t, role in picked:
        if role == "moving" and is_transpose:
            raise WrongArgument(
                "moving uses .indirect() with is_transpose=True",
                rule="indirect-transpose",
                got="moving",
                limit=("stationary", "dst"),
                hint="gather the stationary operand instead",
            )
        if role != "dst" and not packed:
            hint = "convert it to a 16-bit or 8-bit float"
            check.has_dtype(t, role, LOW_PRECISION, rule="indirect-dtype", why=" and uses .indirect()", hint=hint)
        partner, partner_role = (stationary, "stationary") if role == "dst" else (t, role)
        same_start(index_of(t, role), f"the index of {role}", partner, partner_role)


def check_onezero(values: np.ndarray | None, role: str, t: NkiTensor) -> None:
    """A promise of zeros and ones, which matters for fp32 only."""
    if values is None or t.dtype != float32:
        return
    wrong = (values != 0) & (values != 1)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise WrongArgument(
            f"is_{role}_onezero=True, and element {at} of {role} ({t.name}) is {float(values[at])!r}",
            rule="onezero",
            got=float(values[at]),
            limit=(0.0, 1.0),
            hint="the flag drops the passes that carry other values: leave it out",
        )


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
        raise WrongShape(
            f"data is [{rows}, {columns}] and dst ({dst.name}) is [{dst.shape[0]}, {dst.free_size}]",
            rule="transpose-shape",
            got=(dst.shape[0], dst.free_size),
            limit=(columns, rows),
            hint="dst has a partition for each free element of data",
        )
    if where is eng.tensor:
        for t, role, memory in ((data, "data", SBUF), (dst, "dst", PSUM)):
            if t.buffer.value != memory:
                raise WrongBuffer(
                    f"{role} ({t.name}) is in {t.buffer}, and the Tensor Engine "
                    + ("reads SBUF" if memory == SBUF else "writes PSUM"),
                    rule="buffer",
                    got=str(t.buffer),
                    limit=memory,
                    hint="put dst into PSUM and data into SBUF, or use the Vector Engine for 32×32",
                )
        psum.check_dst(s, dst, columns, rows)
    most = 128 if where is eng.tensor else 32
    if rows > most or columns > most:
        chosen = (
            "" if wanted is not eng.unknown else " (chosen because data and dst are not SBUF and PSUM)" * (most == 32)
        )
        raise WrongShape(
            f"data is [{rows}, {columns}], and the {where.name.capitalize()} Engine{chosen} "
            f"transposes up to {most}×{most}",
            rule="transpose-limit",
            got=(rows, columns),
            limit=(most, most),
            hint="transpose blocks in a loop" + ("" if most == 128 else ", or let the Tensor Engine write PSUM"),
        )
