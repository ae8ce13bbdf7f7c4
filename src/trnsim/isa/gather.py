"""GpSimd Engine, instructions that pick elements: gathers, nonzero positions, the K largest."""

from typing import Any

import numpy as np

from trnsim.isa import operands as check
from trnsim.isa.gpsimd import as_int32
from trnsim.isa.operands import flat
from trnsim.refusals import forbid, refuse
from trnsim.session import SBUF, NkiInstruction, Session, instruction
from trnsim.tensors.dtypes import bfloat16, float32, int32, uint16, uint32
from trnsim.tensors.layout import as_index
from trnsim.tensors.tensor import NkiTensor

Array = np.ndarray
# partitions wired to one of the eight GpSimd processors
GROUP = 16


_CONVERT = "a gather converts nothing: gather into a tile of the same dtype, then convert it with tensor_copy"


def _groups(t: NkiTensor, role: str) -> None:
    forbid(t.shape[0] % GROUP, "partition-group", got=t.shape[0], limit=GROUP, role=role, t=t)


def _snake(s: Session, t: NkiTensor, n: int, role: str, *, exact: bool = False) -> Array:
    """Read only the first ``n`` elements of each group of 16 partitions, partition first: ``[groups, n]``."""
    whole, rest = divmod(n, GROUP)
    if t.ndim != 2 or n == t.free_size * GROUP:
        values = flat(s.read(t, role, (SBUF,), exact=exact))
    else:
        s.operand(t, role, (SBUF,))
        values = np.zeros((t.shape[0], whole + (rest > 0)), s.physical(t.dtype))
        if whole:
            values[:, :whole] = s.read(t[:, :whole], role, (SBUF,), exact=exact)
        if rest:
            for start in range(0, t.shape[0], GROUP):
                # the processor reads its sixteen partitions, not the engines' quadrants
                values[start : start + rest, whole:] = s.read(
                    t[start : start + rest, whole : whole + 1], role, (SBUF,), compute=False, exact=exact
                )
    if not s.numerics:
        return values
    return values.reshape(-1, GROUP, values.shape[1]).transpose(0, 2, 1).reshape(-1, values.shape[1] * GROUP)[:, :n]


_PER_INDEX = (1, 2, 4, 8, 16, 32)
_MOST_INDICES = 4096


@instruction
def local_gather(
    s: Session, dst: Any, src_buffer: Any, index: Any, num_elem_per_idx: int = 1, num_valid_indices: int | None = None
) -> NkiInstruction:
    """Each group of 16 partitions gathers columns of ``src_buffer`` by its own list of indices.

    A group's list is ``index[16 partitions]`` read partition first (``indices[i] = index[i % 16, i // 16]``), cut to
    ``num_valid_indices``. Every partition of the group takes ``num_elem_per_idx`` (1, 2, 4, 8, 16 or 32) contiguous
    elements of its flattened row from each index on. All tiles are in SBUF with the same multiple of 16 partitions;
    ``index`` is uint16, at most 4096 a group; ``dst`` has ``src_buffer``'s dtype and
    ``num_valid_indices * num_elem_per_idx`` elements per partition.
    """
    values = s.read(src_buffer, "src_buffer", (SBUF,))
    s.operand(index, "index", (SBUF,))
    s.operand(dst, "dst", (SBUF,))
    each = as_index(num_elem_per_idx)
    most = index.free_size * GROUP
    count = most if num_valid_indices is None else as_index(num_valid_indices)
    if s.checks:
        check.has_dtype(index, "index", frozenset({uint16}))
        check.one_dtype(dst, "dst", src_buffer, "src_buffer", hint=_CONVERT)
        _groups(src_buffer, "src_buffer")
        check.partitions(index, "index", src_buffer, "src_buffer")
        check.partitions(dst, "dst", src_buffer, "src_buffer")
        check.direct((dst, "dst"), (src_buffer, "src_buffer"), (index, "index"))
        _check_counts(each, count, most)
        what = f"num_valid_indices * num_elem_per_idx = {count} * {each} asks for"
        check.elements(dst, "dst", count * each, what, rule="free-size-mismatch")
    wanted = _snake(s, index, count, "index", exact=True)
    if s.numerics:
        values = _gather_groups(flat(values), wanted.astype(np.int64), each)
    s.write(dst, values, "dst", (SBUF,))
    return s.done("gpsimd", (dst,), (src_buffer, index), num_valid_indices=count, num_elem_per_idx=each)


def _check_counts(each: int, count: int, most: int) -> None:
    forbid(each not in _PER_INDEX, "num-elem-per-idx", got=each, limit=list(_PER_INDEX), _PER_INDEX=_PER_INDEX)
    forbid(not 1 <= count <= most, "num-valid-indices:check_counts-value", got=count, limit=most)
    forbid(count > _MOST_INDICES, "num-valid-indices:check_counts-limit", got=count, limit=_MOST_INDICES)


def _gather_groups(rows: Array, indices: Array, each: int) -> Array:
    out = np.empty((rows.shape[0], indices.shape[1] * each), rows.dtype)
    for group, first in enumerate(indices):
        span = slice(group * GROUP, (group + 1) * GROUP)
        columns = (first[:, None] + np.arange(each)).reshape(-1)
        if columns.max() >= rows.shape[1]:
            at = int(np.argmax(columns >= rows.shape[1])) // each
            got, row = int(first[at]), rows.shape[1]
            raise refuse("gather-index:gather_groups", got=got, limit=row - each, at=at, span=span, each=each, row=row)
        out[span] = rows[span, columns]
    return out


@instruction
def nc_n_gather(s: Session, dst: Any, data: Any, indices: Any) -> NkiInstruction:
    """``dst[p, i] = data[p, indices[p, i]]`` with free dimensions flattened; every partition on its own.

    All tiles are in SBUF with the same partitions; ``indices`` is uint32 and has ``dst``'s elements; ``dst`` has
    ``data``'s dtype.
    """
    values = s.read(data, "data", (SBUF,))
    wanted = s.read(indices, "indices", (SBUF,), exact=True)
    s.operand(dst, "dst", (SBUF,))
    if s.checks:
        check.has_dtype(indices, "indices", frozenset({uint32}))
        check.one_dtype(dst, "dst", data, "data", hint=_CONVERT)
        check.partitions(indices, "indices", data, "data")
        check.partitions(dst, "dst", data, "data")
        check.elements(dst, "dst", indices.free_size, "indices asks for", rule="free-size-mismatch")
        check.direct((dst, "dst"), (data, "data"), (indices, "indices"))
    if s.numerics:
        rows, columns = flat(values), flat(wanted).astype(np.int64)
        if columns.max() >= rows.shape[1]:
            p, i = (int(n) for n in np.argwhere(columns >= rows.shape[1])[0])
            raise refuse(
                "gather-index:nc_n_gather", got=int(columns[p, i]), limit=rows.shape[1] - 1, p=p, i=i, rows=rows
            )
        values = np.take_along_axis(rows, columns, axis=1)
    s.write(dst, values, "dst", (SBUF,))
    return s.done("gpsimd", (dst,), (data, indices), n=-(-indices.free_size // 512))


@instruction(since=3, hint="compare and scan on the Vector Engine, or find them on the host")
def nonzero_with_count(s: Session, dst: Any, src: Any, index_offset: Any = 0, padding_val: Any = -1) -> NkiInstruction:
    """Positions of nonzero elements, padding, and their number, in partitions 0, 16, 32, …; trn2 on.

    ``src [P, T]`` is fp32 or int32, ``dst [P, T + 1]`` int32, both in SBUF. Only the first partition of each group of
    16 is read and written: ``dst = [positions + index_offset …, padding_val …, count]``.
    """
    s.operand(src, "src", (SBUF,))
    s.operand(dst, "dst", (SBUF,))
    offset, padding = as_int32(index_offset, "index_offset"), as_int32(padding_val, "padding_val")
    if s.checks:
        check.has_dtype(src, "src", frozenset({float32, int32}))
        check.has_dtype(dst, "dst", frozenset({int32}))
        check.partitions(dst, "dst", src, "src")
        what = f"src with {src.free_size} elements and the count asks for"
        check.elements(dst, "dst", src.free_size + 1, what, rule="free-size-mismatch")
        check.direct((dst, "dst"), (src, "src"))
    read, written = (t if t.shape[0] == 1 else t.slice(0, 0, t.shape[0], GROUP) for t in (src, dst))
    # a processor reaches its own partitions, so that the engines' rule of consecutive ones does not apply
    values = s.read(read, "src", (SBUF,), compute=False)
    if s.numerics:
        rows = flat(values)
        positions = np.full((rows.shape[0], rows.shape[1] + 1), padding, np.int32)
        for p, row in enumerate(rows):
            (at,) = np.nonzero(row)
            positions[p, : at.size] = at + offset
            positions[p, -1] = at.size
        values = positions
    s.write(written, values, "dst", (SBUF,), compute=False)
    return s.done("gpsimd", (written,), (read,))


@instruction
def topk(s: Session, val_dst: Any, idx_dst: Any, src: Any, n: int) -> NkiInstruction:
    """Pick the K largest of ``n`` bf16 values held by each group of 16 partitions, ascending, with their positions.

    Element ``i`` of a group is ``src[i % 16, i // 16]``. ``val_dst [P, K]`` (bf16) and ``idx_dst [P, K]`` (uint32) get
    the same K values and positions in all 16 partitions of the group; of equal values the earlier positions are kept,
    the earliest last. ``8 <= n < 65536``, ``1 <= K < 32768``, ``K <= n``; P is a multiple of 16; all in SBUF.
    """
    s.operand(src, "src", (SBUF,))
    s.operand(val_dst, "val_dst", (SBUF,))
    s.operand(idx_dst, "idx_dst", (SBUF,))
    k = val_dst.free_size
    if s.checks:
        _check_topk(val_dst, idx_dst, src, n, k)
    values = indices = _snake(s, src, int(n), "src")
    if s.numerics:
        # stable, so that the earliest of equal values comes first and, reversed, last
        order = np.argsort(-values.astype(np.float32), axis=1, kind="stable")[:, :k][:, ::-1]
        values = np.take_along_axis(values, order, axis=1).repeat(GROUP, axis=0)
        indices = order.astype(np.uint32).repeat(GROUP, axis=0)
    s.write(val_dst, values, "val_dst", (SBUF,))
    s.write(idx_dst, indices, "idx_dst", (SBUF,))
    return s.done("gpsimd", (val_dst, idx_dst), (src,), n=int(n), k=k)


def _check_topk(val_dst: NkiTensor, idx_dst: NkiTensor, src: NkiTensor, n: Any, k: int) -> None:
    check.has_dtype(src, "src", frozenset({bfloat16}))
    check.has_dtype(val_dst, "val_dst", frozenset({bfloat16}))
    check.has_dtype(idx_dst, "idx_dst", frozenset({uint32}))
    _groups(src, "src")
    check.partitions(val_dst, "val_dst", src, "src")
    check.partitions(idx_dst, "idx_dst", src, "src")
    check.elements(idx_dst, "idx_dst", k, "val_dst asks for", rule="free-size-mismatch")
    check.direct((val_dst, "val_dst"), (idx_dst, "idx_dst"), (src, "src"))
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 8 <= n < 65536:
        raise refuse("topk-n:check_topk-value", got=n, limit=(8, 65535))
    if not 1 <= k < 32768 or k > n:
        raise refuse("topk-k", got=k, limit=min(n, 32767), n=n)
    if src.free_size * GROUP < n:
        raise refuse(
            "topk-n:check_topk-shape", got=src.free_size, limit=-(-n // GROUP), held=src.free_size * GROUP, n=n
        )
