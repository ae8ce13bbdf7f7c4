"""What the Tensor Engine refuses: shapes, dtypes, tiles of the array, indirection, transposes."""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.errors import HardwareLimit, WrongArgument, WrongBuffer, WrongDtype, WrongEngine, WrongShape
from trnsim.isa import psum
from trnsim.isa.enums import engine as eng
from trnsim.language.dtypes import (
    FP8,
    bfloat16,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    tfloat32,
)
from trnsim.language.layout import as_index
from trnsim.language.tensor import NkiTensor
from trnsim.session import PSUM, SBUF, Session

_NARROW = (float8_e4m3, float8_e4m3fn, float8_e5m2, bfloat16, float16)


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
        raise WrongShape(
            f"stationary has {k} partitions and moving has {moving.shape[0]}",
            rule="contraction",
            got=moving.shape[0],
            limit=k,
            hint="the contraction is over partitions: both operands are [K, …]",
        )
    if k > rows:
        raise WrongShape(
            f"the operands have {k} partitions, and the tile of the array has {rows} rows",
            rule="contraction-limit",
            got=k,
            limit=rows,
            hint=f"split K into tiles of at most {rows} and accumulate",
        )
    if m > columns:
        raise WrongShape(
            f"stationary has {m} columns, and the tile of the array has {columns}",
            rule="stationary-limit",
            got=m,
            limit=columns,
            hint=f"loop over tiles of at most {columns} columns, or swap stationary and moving",
        )


def check_dtypes(s: Session, dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, is_transpose: bool) -> None:
    """Which dtypes are multiplied, which mix, and what a product is written as."""
    first, second = stationary.dtype, moving.dtype
    for t, role in ((stationary, "stationary"), (moving, "moving")):
        dtype = t.dtype
        if dtype not in _NARROW and dtype is not tfloat32 and dtype != float32:
            raise WrongDtype(
                f"{role} ({t.name}) is {dtype}, which the Tensor Engine does not multiply",
                rule="matmul-dtype",
                got=str(dtype),
                limit=[str(d) for d in (*_NARROW, tfloat32, float32)],
                hint="packed x4 types go to nc_matmul_mx; convert integers with tensor_copy",
            )
        if dtype == float8_e4m3fn and s.target.generation < 4:
            raise WrongEngine(
                f"{role} ({t.name}) is float8_e4m3fn, which {s.target.name} lacks",
                rule="generation",
                got=s.target.name,
                limit="trn3",
                hint="use float8_e4m3",
            )
    if (first == float32 or first is tfloat32) != (second == float32 or second is tfloat32):
        raise WrongDtype(
            f"stationary is {first} and moving is {second}: 32-bit operands mix with each other only",
            rule="matmul-mix",
            got=(str(first), str(second)),
            limit="both or neither of float32/tfloat32",
            hint="convert one of them with tensor_copy",
        )
    if {first, second} == {float8_e4m3, float8_e4m3fn}:
        raise WrongDtype(
            f"stationary is {first} and moving is {second}: the two e4m3 formats do not mix",
            rule="matmul-mix",
            got=(str(first), str(second)),
            limit="one of float8_e4m3 and float8_e4m3fn",
            hint="use one format for both, or float8_e5m2 for one",
        )
    _check_result(s, dst, stationary, is_transpose)


def _check_result(s: Session, dst: NkiTensor, stationary: NkiTensor, is_transpose: bool) -> None:
    given, data = dst.dtype, stationary.dtype
    same = given is data or (type(given) is type(data) and given == data)
    if is_transpose and s.target.generation >= 3:
        if not same:
            raise WrongDtype(
                f"dst ({dst.name}) is {given} and stationary is {data}: a transpose keeps the dtype",
                rule="transpose-dtype",
                got=str(given),
                limit=str(data),
                hint=f"allocate dst as {data}, and convert when you copy it out of PSUM",
            )
        return
    if (given == float32 and given is not tfloat32) or (is_transpose and same):
        return
    if given == bfloat16 and s.target.generation >= 4:
        return
    allowed = ("float32", "bfloat16") if s.target.generation >= 4 else ("float32",)
    raise WrongDtype(
        f"dst ({dst.name}) is {given}, and {s.target.name} writes {' or '.join(allowed)} products",
        rule="matmul-dst-dtype",
        got=str(given),
        limit=allowed,
        hint="allocate dst as float32 and convert when you copy it out of PSUM",
    )


def check_double_row(s: Session, stationary: NkiTensor, moving: NkiTensor, tile: Any, is_transpose: bool) -> None:
    """``double_row``: fp8 operands [K, 2, …] on trn2 and trn3, all columns of the array, no transpose."""
    if s.target.generation < 3:
        raise WrongEngine(
            f"perf_mode double_row, which {s.target.name} lacks",
            rule="generation",
            got=s.target.name,
            limit="trn2",
            hint="leave perf_mode out and contract K in two matmuls",
        )
    for t, role in ((stationary, "stationary"), (moving, "moving")):
        if t.dtype not in FP8:
            raise WrongDtype(
                f"{role} ({t.name}) is {t.dtype}, and double_row takes fp8",
                rule="double-row-dtype",
                got=str(t.dtype),
                limit=sorted(str(d) for d in FP8),
                hint="convert both operands to fp8, or leave perf_mode out",
            )
        if t.ndim < 3 or t.shape[1] != 2:
            raise WrongShape(
                f"{role} ({t.name}) has shape {t.shape}, and double_row takes [K, 2, …]",
                rule="double-row-shape",
                got=t.shape,
                limit=(t.shape[0], 2, "…"),
                hint="put the second half of the contraction behind the first: reshape to [K, 2, n]",
            )
    if tile and tile[1][1] != 128:
        raise HardwareLimit(
            f"double_row with column tiles of {tile[1][1]}",
            rule="double-row-tiling",
            got=tile[1][1],
            limit=128,
            hint="use all 128 columns: tile_size=(rows, 128)",
        )
    if is_transpose:
        raise WrongArgument(
            "double_row with is_transpose=True",
            rule="double-row-transpose",
            got="double_row",
            limit="none",
            hint="transpose without perf_mode",
        )


def check_indirection(
    dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, tile: Any, is_transpose: bool, *, packed: bool = False
) -> None:
    """Rules of ``.indirect()`` operands on trn3; ``packed`` for MX products, whose dtypes are checked elsewhere."""
    picked = [
        (t, role)
        for t, role in ((dst, "dst"), (stationary, "stationary"), (moving, "moving"))
        if t.dynamic is not None and t.dynamic.kind == "tensor"
    ]
    if not picked:
        return
    if tile and tile[0] != (0, 0):
        raise HardwareLimit(
            f"{picked[0][1]} uses .indirect() and tile_position is {tile[0]}",
            rule="indirect-tiling",
            got=tile[0],
            limit=(0, 0),
            hint="leave tile_position out",
        )
    for t, role in picked:
        assert t.dynamic is not None
        index = t.dynamic.index
        if role == "moving" and is_transpose:
            raise WrongArgument(
                "moving uses .indirect() with is_transpose=True",
                rule="indirect-transpose",
                got="moving",
                limit=("stationary", "dst"),
                hint="gather the stationary operand instead",
            )
        if role != "dst" and not packed and t.dtype not in _NARROW:
            raise WrongDtype(
                f"{role} ({t.name}) uses .indirect() and is {t.dtype}",
                rule="indirect-dtype",
                got=str(t.dtype),
                limit=[str(d) for d in _NARROW],
                hint="convert it to a 16-bit or 8-bit float",
            )
        partner, partner_role = (stationary, "stationary") if role == "dst" else (t, role)
        if index.partition_start % 32:
            raise HardwareLimit(
                f"the index of {role} ({index.name}) starts at partition {index.partition_start}",
                rule="indirect-start",
                got=index.partition_start,
                limit=(0, 32, 64, 96),
                hint="an index starts at a quadrant of 32 partitions",
            )
        # the compiler aligns tiles it places itself
        placed = index.storage.address is not None and partner.storage.address is not None
        if placed and index.partition_start != partner.partition_start:
            raise HardwareLimit(
                f"the index of {role} starts at partition {index.partition_start} "
                f"and {partner_role} at {partner.partition_start}",
                rule="indirect-start",
                got=index.partition_start,
                limit=partner.partition_start,
                hint="allocate both at the same first partition",
            )


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
        raise WrongEngine(
            f"engine is {where.name}",
            rule="engine",
            got=where.name,
            limit=("tensor", "vector", "unknown"),
            hint="the Tensor and Vector Engines transpose",
        )
    # trn1 has no transpose mode: its Tensor Engine multiplies by an identity, which PSUM may keep as float32
    multiplies = s.target.generation < 3 and where is eng.tensor and given == float32 and kept.kind not in "iub"
    if not (given is kept or multiplies or (type(given) is type(kept) and given == kept)):
        raise WrongDtype(
            f"dst ({dst.name}) is {given} and data ({data.name}) is {kept}: a transpose keeps the dtype",
            rule="transpose-dtype",
            got=str(given),
            limit=str(kept),
            hint=f"allocate dst as {kept}, and convert when you copy it on",
        )
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
