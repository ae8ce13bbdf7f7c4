"""Vector Engine: moving data. Copies, constants, predicated copies and the shuffle across partitions.

The engine has 128 lanes, one per partition; each reads a stream of elements, computes in fp32 and writes a stream.
Arithmetic is in `vector_math`, reductions in `vector_reduce`, selection and search in `vector_select`.
"""

import functools
from typing import Any

import numpy as np

from trnsim.isa import operands as check
from trnsim.isa.enums import engine as eng
from trnsim.isa.operands import flat, not_run, pick
from trnsim.refusals import forbid, refuse
from trnsim.session import WRITTEN, NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import INT_RANGE, PACKED, bool_, cast, float32, same_dtype, to_f32, uint8, uint16, uint32
from trnsim.tensors.tensor import NkiTensor


@instruction
def tensor_copy(s: Session, dst: Any, src: Any, engine: Any = eng.unknown) -> NkiInstruction:
    """``dst = src`` within SBUF and PSUM, on the Vector (default), Scalar or GpSimd Engine.

    ``dst`` and ``src`` have the same partitions and elements per partition. Equal dtypes copy bits; different dtypes go
    through fp32. GpSimd cannot reach PSUM; trn1's Scalar Engine has no copy.
    """
    where = "vector" if engine is eng.unknown else _copy_engine(s, engine)
    values = s.read(src, "src")
    if s.checks:
        check.alike(s, dst, "dst", (src, "src"))
        if where == "gpsimd":
            check.no_psum(where, (src, "src"), (dst, "dst"))
        if src.dynamic is not None or dst.dynamic is not None:
            if where == "gpsimd" and (src.is_addressed("tensor") or dst.is_addressed("tensor")):
                raise not_run(where, "tensor_copy with .indirect()", ("vector", "scalar"), "use the Vector Engine")
            check.indirect(s, dst, src, "src", where)
    same = same_dtype(src.dtype, dst.dtype)
    if not same:
        if s.checks:
            check.no_packed((src, "src"), (dst, "dst"))
        if s.numerics:
            values = to_f32(values)
    s.write(dst, values, "dst")
    return s.done(where, (dst,), (src,), op="copy", cast=not same, free=engine is eng.unknown)


def _copy_engine(s: Session, engine: Any) -> str:
    where = pick(s, engine, ("vector", "scalar", "gpsimd"), "vector")
    if where == "scalar" and s.target.generation < 3 and s.checks:
        hint = "use nisa.activation(op=nl.copy) there, which goes through fp32"
        raise not_run(where, f"tensor_copy on {s.target.name}", ("vector", "gpsimd"), hint)
    return where


def constant(value: Any, dtype: Any, role: str, *, strict: bool) -> np.ndarray:
    """Convert a compile-time constant to ``dtype``; ``strict`` refuses floats for integer tiles."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, (bool, int, float, np.number, np.bool_)):
        hint = "copy a tile with tensor_copy" if type(value) is NkiTensor else "pass a Python number"
        raise refuse("constant", got=type(value).__name__, hint=hint, role=role, value=value)
    if dtype in PACKED:
        forbid(value != 0, "packed-constant", got=value, role=role, dtype=dtype)
        return np.zeros((), dtype.storage)
    limits = INT_RANGE.get(dtype)
    if limits is not None:
        exact = value == value and abs(value) != float("inf") and value == int(value)
        if not exact or (strict and isinstance(value, (float, np.floating)) and value != 0):
            hint = f"write {int(value)}" if exact else "integer tiles take integers"
            raise refuse(
                "constant-dtype", got=repr(value), limit=str(dtype), hint=hint, role=role, value=value, dtype=dtype
            )
        value = int(value)
        if not limits[0] <= value <= limits[1]:
            hint = _same_bits(value, dtype)
            raise refuse("constant-range", got=value, limit=limits, hint=hint, role=role, dtype=dtype)
    return np.asarray(value)


def _same_bits(value: int, dtype: Any) -> str:
    """Return how to write a constant that overflows its dtype, if its bits fit."""
    width = 8 * int(dtype.itemsize)
    if not -(1 << (width - 1)) <= value < 1 << width:
        return "use a wider dtype"
    return f"for the same bits write {value - (1 << width) if value > 0 else value + (1 << width)}"


@instruction
def memset(s: Session, dst: Any, value: Any, engine: Any = eng.unknown) -> NkiInstruction:
    """Fill ``dst`` with the constant ``value``, on the Vector (default) or GpSimd Engine.

    Integer tiles take integers (and 0.0); the packed x4 types take only 0.
    """
    where = "vector" if engine is eng.unknown else pick(s, engine, ("vector", "gpsimd"), "vector")
    s.operand(dst, "dst")
    filling = constant(value, dst.dtype, "value", strict=True)
    if s.checks:
        check.no_psum(where, (dst, "dst"))
        check.direct((dst, "dst"))
        check.reachable(s, dst, "dst", dst.free_size)
    s.write(dst, filling, "dst")
    return s.done(where, (dst,), (), op="memset", zero=not value)


_PREDICATES = frozenset({uint8, uint16, uint32, bool_})


@instruction
def tensor_copy_predicated(
    s: Session, dst: Any, src: Any, predicate: Any, reverse_pred: bool = False
) -> NkiInstruction:
    """Where ``predicate`` is nonzero (zero with ``reverse_pred``), ``dst = src``; the rest of ``dst`` stays.

    ``src`` is a tile of ``dst``'s dtype or a number; ``predicate`` is uint8, uint16 or uint32. All have the same
    partitions and elements per partition. ``src`` and ``predicate`` are not both in PSUM.
    """
    tile = type(src) is NkiTensor
    s.operand(dst, "dst")
    values = s.read(src, "src") if tile else constant(src, dst.dtype, "src", strict=False)
    chosen = s.read(predicate, "predicate")
    if s.checks:
        check.alike(s, dst, "dst", (predicate, "predicate"), *([(src, "src")] if tile else ()))
        check.has_dtype(predicate, "predicate", _PREDICATES, rule="predicate-dtype", hint="compare into a uint8 tile")
        if tile:
            hint = "nothing is converted here: convert with tensor_copy first, or use select_reduce"
            check.one_dtype(src, "src", dst, "dst", hint=hint)
            check.one_psum(src, "src", predicate, "predicate")
            check.direct((src, "src"))
        check.indirect(s, dst, predicate, "predicate")
    if s.numerics:
        mask = (chosen == 0) if reverse_pred else (chosen != 0)
        write_where(s, dst, values, mask)
    else:
        s.write(dst, values, "dst")
    reads = (src, predicate, dst) if tile else (predicate, dst)
    return s.done("vector", (dst,), reads, op="copy_predicated", scalar=not tile)


def write_where(s: Session, dst: NkiTensor, values: np.ndarray, mask: np.ndarray) -> None:
    """Write ``values`` to the elements of ``dst`` chosen by ``mask``; only those count as written."""
    s.use(dst, True)
    shape = dst.shape
    mask = mask if mask.shape == shape else mask.reshape(shape)
    storage = dst.storage
    physical = storage.physical
    if values.dtype != physical:
        values = cast(values, dst.dtype if physical.itemsize == storage.itemsize else float32)
    values = np.broadcast_to(values if values.ndim == 0 or values.shape == shape else values.reshape(shape), shape)
    if dst.is_addressed("tensor"):
        base: Any
        base, columns = s._gather_columns(dst, "dst")
        rows, at = np.nonzero(mask)
        if s.garbage is not None:
            s.garbage.keep(base)
        base.array[rows, columns[rows, at]] = values[rows, at]
        if s.checks:
            base.mark_window(base.offset)[rows, columns[rows, at]] = WRITTEN
        return
    offset = dst.offset if dst.dynamic is None else s.resolve(dst, "dst")
    if s.garbage is not None:
        s.garbage.keep(dst.at(offset))
    np.copyto(dst.window(offset), values, where=mask)
    if s.checks:
        marks = storage.arena.marks
        if not (type(marks) is int and marks == WRITTEN):
            if dst.dynamic is None and mask.all():
                s.mark(dst)
            else:
                dst.mark_window(offset)[mask] = WRITTEN


KEEP = 255


@instruction
def nc_stream_shuffle(s: Session, dst: Any, src: Any, shuffle_mask: Any) -> NkiInstruction:
    """Move rows within every quadrant of 32 partitions: row ``i`` of ``dst`` gets row ``shuffle_mask[i]`` of ``src``.

    A mask entry of 255 leaves that row of ``dst`` alone. ``dst`` and ``src`` have one dtype and the same elements per
    partition, may be the same tile, and start where their (rounded up) number of partitions allows.
    """
    values = s.read(src, "src", compute=False)
    s.operand(dst, "dst", compute=False)
    mask = _shuffle_mask(shuffle_mask)
    if s.checks:
        _shuffle_rules(s, dst, src)
    rows = dst.shape[0]
    limit = src.shape[0]
    moved, origin = _moves(mask, rows)
    if moved.size and int(origin.max()) >= limit:
        at = int(np.argmax(origin >= limit))
        to, source = int(moved[at]), int(origin[at])
        raise refuse("shuffle-bounds", got=source, limit=limit, row=to % 32, source=mask[to % 32], to=to, src=src)
    if s.numerics:
        taken = flat(values)[origin]
        if len(moved) == rows:
            s.write(dst, taken, "dst", compute=False)
        elif moved.size:
            whole = np.zeros((rows, dst.free_size), taken.dtype)
            whole[moved] = taken
            chosen = np.zeros((rows, 1), bool)
            chosen[moved] = True
            write_where(s, dst, whole, np.broadcast_to(chosen, whole.shape))
    else:
        s.write(dst, values, "dst", compute=False)
    reads = (src,) if len(moved) == rows else (src, dst)
    return s.done("vector", (dst,), reads, op="shuffle")


@functools.lru_cache(maxsize=256)
def _moves(mask: tuple[int, ...], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which of ``rows`` partitions are written, and the partition each comes from."""
    lanes = np.arange(rows)
    picked = np.array(mask)[lanes % 32]
    moved = lanes[picked != KEEP]
    return moved, (lanes - lanes % 32 + picked)[moved]


def _shuffle_mask(mask: Any) -> tuple[int, ...]:
    try:
        indices = tuple(int(m.__index__()) for m in mask)
    except (TypeError, AttributeError):
        raise refuse("shuffle-mask:form", got=mask) from None
    forbid(len(indices) != 32, "shuffle-mask:count", got=len(indices))
    for i, m in enumerate(indices):
        forbid(m != KEEP and not 0 <= m < 32, "shuffle-mask:entry", got=m, limit=(0, 31, KEEP), i=i)
    return indices


_STARTS = {32: (0, 32, 64, 96), 64: (0, 64), 96: (0,), 128: (0,)}


def _shuffle_rules(s: Session, dst: NkiTensor, src: NkiTensor) -> None:
    check.direct((dst, "dst"), (src, "src"))
    check.one_dtype(dst, "dst", src, "src", hint="convert with tensor_copy before or after")
    check.elements(dst, "dst", src.free_size, f"src ({src.name}) has", rule="free-size-mismatch")
    check.reachable(s, src, "src", src.free_size)
    active = -(-max(src.shape[0], dst.shape[0]) // 32) * 32
    for t, role in ((src, "src"), (dst, "dst")):
        if t.partition_start not in _STARTS[active]:
            start, limit = t.partition_start, _STARTS[active]
            raise refuse("start-partition:shuffle_rules", got=start, limit=limit, role=role, t=t, active=active)
