"""Vector Engine: the eight largest values of each partition, where they are, and taking them out."""

from typing import Any

import numpy as np

from trnsim.isa import operands as check
from trnsim.isa.operands import as_fp32, flat
from trnsim.refusals import forbid, refuse
from trnsim.session import NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import cast, int16, int32, same_dtype, to_f32, uint16, uint32
from trnsim.tensors.tensor import NkiTensor

F32 = np.float32
MOST = 16384
_POSITION_DTYPES = frozenset({uint16, uint32})


def _sizes(t: NkiTensor, role: str, least: int, rank: int | None) -> None:
    n = t.free_size
    if not least <= n <= MOST:
        hint = "pad it with the least value" if n < least else "search pieces and merge their results"
        raise refuse("search-size", got=n, limit=(least, MOST), hint=hint, role=role, t=t)
    forbid(rank is not None and t.ndim > rank, "search-rank", got=t.ndim, limit=rank, role=role, t=t)


def _eight(t: NkiTensor, role: str, like: NkiTensor, rank: int) -> None:
    check.partitions(t, role, like, "data")
    if t.free_size != 8 or t.ndim > rank:
        raise refuse("eight", got=t.shape, limit=(like.shape[0], 8), role=role, t=t, rank=rank, like=like)


@instruction
def max8(s: Session, dst: Any, src: Any) -> NkiInstruction:
    """Find the 8 largest values of each partition, descending, on the Vector Engine (compared in fp32).

    ``src`` has at most 3 dimensions and 8 to 16384 elements per partition; ``dst`` is [P, 8].
    """
    x = s.read(src, "src")
    if s.checks:
        s.operand(dst, "dst")
        _sizes(src, "src", 8, 3)
        _eight(dst, "dst", src, 2)
        check.plain((src, "src"), (dst, "dst"))
    if s.numerics:
        values = to_f32(flat(x))
        n = values.shape[1]
        top = values if n == 8 else np.partition(values, n - 8, axis=1)[:, n - 8 :]
        x = np.sort(top, axis=1)[:, ::-1]
    s.write(dst, x, "dst")
    return s.done("vector", (dst,), (src,), op="max8")


def _match(data: np.ndarray, vals: np.ndarray, order: range) -> tuple[np.ndarray, np.ndarray]:
    """Return the index in ``data`` [P, n] of each of ``vals`` [P, 8], and which occur; a position is given out once.

    Equal values take successive positions in the order the slots are served.
    """
    left = data.copy()
    rows = np.arange(data.shape[0])
    index = np.zeros(vals.shape, np.int64)
    hits = np.zeros(vals.shape, bool)
    for j in order:
        equal = left == vals[:, j : j + 1]
        at = equal.argmax(axis=1)
        hit = equal[rows, at]
        index[:, j], hits[:, j] = at, hit
        # a NaN equals nothing, so this position is out of the search
        left[rows[hit], at[hit]] = np.nan
    return index, hits


def _indices(index: np.ndarray, hits: np.ndarray, dtype: Any) -> np.ndarray:
    """Return indices with the all-ones word where nothing was found."""
    words = np.where(hits, index, -1)
    return words.astype(f"i{dtype.itemsize}").view(dtype)


@instruction
def nc_find_index8(s: Session, dst: Any, data: Any, vals: Any) -> NkiInstruction:
    """Index of the first occurrence in ``data`` of each of 8 values per partition, on the Vector Engine.

    Equal values take successive occurrences in ascending order; a value that does not occur gives all ones. ``data``
    has at most 3 dimensions and 8 to 16384 elements per partition, ``dst`` is [P, 8] of uint16 or uint32.
    """
    x = s.read(data, "data")
    v = s.read(vals, "vals")
    if s.checks:
        s.operand(dst, "dst")
        _sizes(data, "data", 8, 3)
        _eight(vals, "vals", data, 3)
        _eight(dst, "dst", data, 2)
        check.plain((data, "data"), (vals, "vals"), (dst, "dst"))
        check.has_dtype(dst, "dst", _POSITION_DTYPES, rule="index-dtype", why=", and indices are uint16 or uint32")
    if s.numerics:
        index, hits = _match(to_f32(flat(x)), to_f32(flat(v)), range(8))
        x = _indices(index, hits, dst.dtype)
    s.write(dst, x, "dst")
    return s.done("vector", (dst,), (data, vals), op="find_index8")


_INDEX_DTYPES = frozenset({uint16, uint32, int16, int32})


@instruction
def nc_match_replace8(s: Session, dst: Any, data: Any, vals: Any, imm: Any, dst_idx: Any = None) -> NkiInstruction:
    """``dst = data`` with the first occurrence of each of 8 values per partition replaced by ``imm``.

    Vector Engine. Slots are served from 7 down to 0, so of equal values the highest slot gets the first occurrence.
    ``dst_idx`` (8 elements per partition) receives the positions, all ones for a value that does not occur. ``data``
    has at most 16384 elements per partition.
    """
    x = s.read(data, "data")
    v = s.read(vals, "vals")
    value = as_fp32(imm, "imm")
    if s.checks:
        check.alike(s, dst, "dst", (data, "data"))
        _sizes(data, "data", 1, None)
        _eight(vals, "vals", data, 3)
        check.plain((data, "data"), (vals, "vals"), (dst, "dst"))
        if dst_idx is not None:
            s.operand(dst_idx, "dst_idx")
            _eight(dst_idx, "dst_idx", data, 3)
            check.direct((dst_idx, "dst_idx"))
            check.has_dtype(dst_idx, "dst_idx", _INDEX_DTYPES, rule="index-dtype", hint="make it uint32")
    positions: Any = x
    if s.numerics:
        index, hits = _match(to_f32(flat(x)), to_f32(flat(v)), range(7, -1, -1))
        # untouched elements keep their bits when no conversion is asked for
        same = same_dtype(data.dtype, dst.dtype)
        x = flat(x).copy() if same else to_f32(flat(x)).copy()
        rows, slots = np.nonzero(hits)
        x[rows, index[rows, slots]] = cast(np.asarray(value), dst.dtype) if same and x.dtype.kind != "f" else value
        positions = None if dst_idx is None else _indices(index, hits, dst_idx.dtype)
    s.write(dst, x, "dst")
    if dst_idx is not None:
        s.write(dst_idx, positions, "dst_idx")
    writes = (dst,) if dst_idx is None else (dst, dst_idx)
    return s.done("vector", writes, (data, vals), op="match_replace8", indices=dst_idx is not None)
