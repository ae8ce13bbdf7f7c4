"""Products by gathers from windows in SBUF: a pattern is counted to plan one, and arranged to run it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trnsci.arrays import Array
from trnsci.nki import P_MAX, launch
from trnsparse.kernels import sell_spmm as kernels

# Elements of a partition that one gather brings, and of the window it reads, at most.
MOST, WINDOW = kernels.GATHER * 3 // 2, 2 * kernels.GATHER
# Entries from which a row is summed over all partitions and a column broadcast to them, and how many at most.
HUB, HUBS = 512, 4096
# Widths of rows that one program knows at most.
SLICES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The counts a program is compiled for.

    Attributes:
        rows: of the matrix.
        run: rows of a partition, in ``chunks`` of ``chunk``.
        slices: (rows, width) of each chunk, its rows sorted by length.
        reach: columns below and above those of a chunk's rows that its window has; of a window that is exchanged none.
        room: elements that each partition sends each other for a chunk; 0 where windows are parts of x.
        hubs: columns that are broadcast.
        hub_slices: (rows, width in each partition) of those columns, and of rows summed over partitions.
    """

    rows: int
    run: int
    chunks: int
    chunk: int
    slices: tuple[tuple[int, int], ...]
    reach: tuple[int, int] = (0, 0)
    room: int = 0
    hubs: int = 0
    hub_slices: tuple[tuple[int, int], ...] = ()

    @property
    def partitions(self) -> int:
        """Partitions that have rows; all where they exchange."""
        return P_MAX if self.room else -(-self.rows // self.run)

    @property
    def gather_width(self) -> int:
        """Elements that a partition gathers for the rows of a chunk."""
        return sum(count * width for count, width in self.slices)

    @property
    def window(self) -> int:
        """Elements of a window, without the zero behind it."""
        return self.room * P_MAX + self.hubs if self.room else self.chunk + sum(self.reach)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Layout:
        """Return a layout from what JSON has made of it."""
        pairs = {name: tuple(map(tuple, fields[name])) for name in ("slices", "hub_slices")}
        return cls(**fields | pairs | {"reach": tuple(fields["reach"])})


class Arrangement(NamedTuple):
    """The pattern as a kernel reads it; ``values`` and ``hub_values`` are positions of entries, then 0 and 1.

    Attributes:
        indices: [T, P, G] where in its window an element is.
        values: [T, P, G]
        order: [T, P, C] where among the sorted rows, and the sums over partitions behind them, a row is.
        picks: [T, P, P * room] which elements of its block of x a partition sends.
        hub_indices: [P, G] where in its block of x a partition finds what is broadcast, and summed over partitions.
        hub_values: [P, G]
    """

    indices: Tensor
    values: Tensor
    order: Tensor
    picks: Tensor | None = None
    hub_indices: Tensor | None = None
    hub_values: Tensor | None = None


def count_near(indptr: Array, indices: Array) -> Layout | None:
    """Return the layout whose windows are parts of x around the rows; ``None`` where columns lie too far from them."""
    rows, entries = len(indptr) - 1, len(indices)
    lengths = np.diff(indptr)
    full = lengths.nonzero()[0]
    if not entries:
        return None
    reach = (
        max(0, int((full - indices[indptr[full]]).max())),
        max(0, int((indices[indptr[full + 1] - 1] - full).max())),
    )
    run = -(-rows // P_MAX)
    chunks = -(-entries // (P_MAX * MOST))
    while chunks <= run:
        chunk = -(-run // chunks)
        layout = Layout(
            rows=rows, run=run, chunks=-(-run // chunk), chunk=chunk, slices=_slices(lengths, run, chunk), reach=reach
        )
        if layout.gather_width <= MOST:
            return layout if layout.window <= WINDOW else None
        chunks += -(-chunks // 8)
    return None


def count_far(indptr: Array, indices: Array, columns: int) -> Layout | None:
    """Return the layout whose windows are exchanged between partitions; ``None`` where a block of x is too large."""
    rows, entries = len(indptr) - 1, len(indices)
    block, run = -(-columns // P_MAX), -(-rows // P_MAX)
    if not entries or block > WINDOW:
        return None
    lengths, hubs = np.diff(indptr), _hub_columns(indices, columns)
    row = np.repeat(np.arange(rows, dtype=np.int32), lengths)
    plain = lengths <= HUB
    hub_counts = _hub_counts(row, indices, lengths, block)
    kept = plain[row]
    if len(hubs):
        kept &= ~np.isin(indices, hubs)
    row, sent = row[kept], indices[kept] // block
    chunks = max(1, -(-len(row) * 5 // (4 * P_MAX * kernels.GATHER)))
    while chunks <= run:
        chunk = -(-run // chunks)
        bucket = ((row % run // chunk) * P_MAX + sent) * P_MAX + row // run
        room = int(np.bincount(bucket, minlength=1).max()) if len(bucket) else 1
        layout = Layout(
            rows=rows,
            run=run,
            chunks=-(-run // chunk),
            chunk=chunk,
            slices=_slices(np.where(plain, lengths, 0), run, chunk),
            room=max(1, room),
            hubs=len(hubs),
            hub_slices=((len(hubs), 1),) * (len(hubs) > 0) + _widths(np.sort(hub_counts.max(1))[::-1]),
        )
        if layout.gather_width <= MOST and layout.window <= kernels.GATHER * 3 // 2:
            sizes = [count * width for count, width in layout.hub_slices]
            return layout if max(sizes, default=0) <= MOST and len(hub_counts) <= HUBS else None
        chunks = 2 * chunks
    return None


def _hub_columns(indices: Array, columns: int) -> Array:
    """Return the columns of very many entries."""
    counts = np.bincount(indices, minlength=columns)
    hubs = (counts > HUB).nonzero()[0]
    return hubs[np.argsort(-counts[hubs], kind="stable")][:HUBS]


def _hub_counts(row: Array, indices: Array, lengths: Array, block: int) -> Array:
    """Return the entries of each row of very many in every block of x: [hub rows, P]."""
    hubs = (lengths > HUB).nonzero()[0]
    rank = np.full(len(lengths), -1)
    rank[hubs] = np.arange(len(hubs))
    at = rank[row]
    key = at[at >= 0] * P_MAX + indices[at >= 0] // block
    return np.bincount(key, minlength=len(hubs) * P_MAX).reshape(len(hubs), P_MAX)


def _split_chunks(per_row: Array, run: int, chunk: int) -> Array:
    """Return numbers of rows as [P * T, C], zeros for rows there are none of."""
    partitions, chunks = -(-len(per_row) // run), -(-run // chunk)
    whole = np.zeros((partitions, chunks * chunk), per_row.dtype)
    filled = np.zeros(partitions * run, per_row.dtype)
    filled[: len(per_row)] = per_row
    whole[:, :run] = filled.reshape(partitions, run)
    return whole.reshape(partitions * chunks, chunk)


def _slices(lengths: Array, run: int, chunk: int) -> tuple[tuple[int, int], ...]:
    """Return slices that hold the sorted rows of every chunk."""
    return _widths(np.sort(_split_chunks(lengths, run, chunk), axis=1).max(0)[::-1])


def _widths(falling: Array) -> tuple[tuple[int, int], ...]:
    """Return (rows, width) of slices that hold rows of these falling lengths, few of them."""
    exact = len(np.unique(falling)) <= SLICES
    slices: list[tuple[int, int]] = []
    for length in falling.tolist():
        width = slices[-1][1] if slices else -1
        if slices and (length == width if exact else length > 0.85 * width or length == width):
            slices[-1] = (slices[-1][0] + 1, width)
        else:
            slices.append((1, length))
    return tuple(slices)


def arrange(layout: Layout, indptr: Array, indices: Array, columns: int) -> Arrangement:
    """Return a pattern in compressed rows as its layout has it."""
    T, P, C, G = layout.chunks, layout.partitions, layout.chunk, layout.gather_width
    lengths, entries = np.diff(indptr), len(indices)
    hub = lengths > HUB if layout.room else np.zeros(len(lengths), bool)
    row = np.repeat(np.arange(len(lengths)), lengths)
    # rows by falling length in every chunk, and where each begins
    length = _split_chunks(np.where(hub, 0, lengths), layout.run, C)
    rank = np.argsort(np.argsort(-length, axis=1, kind="stable"), axis=1, kind="stable")
    start = np.cumsum([0, *(width for count, width in layout.slices for _ in range(count))])[:-1]
    order = rank.copy()
    partition, inside = np.divmod(np.arange(len(lengths)), layout.run)
    cell = partition * T + inside // C, inside % C
    plain = (~hub[row]).nonzero()[0]
    of = row[plain]
    group = cell[0][of]
    base = (group % T * P + group // T) * G
    slot = base + start[rank[cell[0][of], cell[1][of]]] + plain - indptr[of]
    more: dict[str, Array] = {}
    if layout.room:
        where, more = _exchange(layout, row, indices, columns, plain=plain, chunk=group % T)
        hub_rows, hub_more = _arrange_hubs(layout, row, indices, hub, columns)
        order[cell[0][hub_rows], cell[1][hub_rows]] = C + np.arange(len(hub_rows))
        more |= hub_more
    else:
        where = indices[plain] - (group // T * layout.run + group % T * C - layout.reach[0])

    def to_cells(values: Array, absent: int) -> Array:
        cells = np.full(T * P * G, absent)
        cells[slot] = values
        return cells.reshape(T, P, G)

    whole = np.zeros((P, T, C), order.dtype)
    whole[: len(order) // T] = order.reshape(-1, T, C)
    arrays = {"indices": to_cells(where, layout.window), "order": whole.transpose(1, 0, 2), **more}
    tensors = {name: torch.from_numpy(np.ascontiguousarray(x, np.int32)) for name, x in arrays.items()}
    kept = {name: tensors.pop(name).long() for name in ("hub_values",) if name in tensors}
    return Arrangement(**tensors, **kept, values=torch.from_numpy(to_cells(plain, entries)))


def _exchange(
    layout: Layout, row: Array, indices: Array, columns: int, *, plain: Array, chunk: Array
) -> tuple[Array, dict[str, Array]]:
    """Return where in its window each entry finds its element, and what partitions send."""
    block, room, T = -(-columns // P_MAX), layout.room, layout.chunks
    hubs = _hub_columns(indices, columns)
    column, receiver = indices[plain], row[plain] // layout.run
    rank = np.full(columns, -1)
    rank[hubs] = np.arange(len(hubs))
    where = P_MAX * room + rank[column]
    sent = (rank[column] < 0).nonzero()[0]
    bucket = (chunk[sent] * P_MAX + column[sent] // block) * P_MAX + receiver[sent]
    by_bucket = np.argsort(bucket, kind="stable")
    first = np.cumsum(np.bincount(bucket, minlength=T * P_MAX**2)) - np.bincount(bucket, minlength=T * P_MAX**2)
    turn = np.empty(len(sent), np.int64)
    turn[by_bucket] = np.arange(len(sent)) - first[bucket[by_bucket]]
    where[sent] = column[sent] // block * room + turn
    picks = np.zeros(T * P_MAX * P_MAX * room, np.int64)
    picks[bucket * room + turn] = column[sent] % block
    return where, {"picks": picks.reshape(T, P_MAX, -1)}


def _arrange_hubs(
    layout: Layout, row: Array, indices: Array, hub: Array, columns: int
) -> tuple[Array, dict[str, Array]]:
    """Return the rows summed over partitions, longest first, and where their elements and values are."""
    hubs, block = hub.nonzero()[0], -(-columns // P_MAX)
    if not layout.hub_slices:
        return hubs, {}
    counts = _hub_counts(row, indices, np.bincount(row, minlength=len(hub)), block)
    hubs = hubs[np.argsort(-counts.max(1), kind="stable")]
    rank = np.full(len(hub), -1)
    rank[hubs] = layout.hubs + np.arange(len(hubs))
    widths = [width for count, width in layout.hub_slices for _ in range(count)]
    start = np.cumsum([0, *widths])[:-1]
    at = hub[row].nonzero()[0]
    # entries of a row rise by column, so that those of one block follow each other
    key = rank[row[at]] * P_MAX + indices[at] // block
    fresh = np.r_[True, np.diff(key) != 0][: len(at)]
    turn = np.arange(len(at)) - np.maximum.accumulate(np.where(fresh, np.arange(len(at)), 0))
    where, values = np.full((P_MAX, sum(widths)), block), np.full((P_MAX, sum(widths)), len(indices))
    cells = key % P_MAX, start[key // P_MAX] + turn
    where[cells], values[cells] = indices[at] % block, at
    broadcast = _hub_columns(indices, columns)
    cells = broadcast // block, np.arange(len(broadcast))
    where[cells], values[cells] = broadcast % block, len(indices) + 1
    return hubs, {"hub_indices": where, "hub_values": values}


def shapes(layout: Layout) -> Arrangement:
    """Return an arrangement without data."""
    T, P, wide = layout.chunks, layout.partitions, sum(count * width for count, width in layout.hub_slices)

    def empty(*shape: int) -> Tensor:
        return torch.empty(shape, dtype=torch.int32, device="meta")

    return Arrangement(
        indices=empty(T, P, layout.gather_width),
        values=empty(T, P, layout.gather_width),
        order=empty(T, P, layout.chunk),
        picks=empty(T, P_MAX, P_MAX * layout.room) if layout.room else None,
        hub_indices=empty(P_MAX, wide) if wide else None,
        hub_values=empty(P_MAX, wide) if wide else None,
    )


def multiply_arranged(layout: Layout, pattern: Arrangement, values: Tensor, b: Tensor) -> Tensor:
    """Return the product [M, N] of values of entries, in the order of the rows, with b [K, N]."""
    padded = torch.cat([values.float(), values.new_tensor([0.0, 1.0], dtype=torch.float32)])

    def arrange_values(at: Tensor | None) -> Tensor | None:
        return None if at is None else padded.new_empty(at.shape) if padded.is_meta else padded[at]

    result: Tensor = launch(
        kernels.sell_spmm,
        b.float().mT.contiguous(),
        pattern.indices,
        arrange_values(pattern.values),
        pattern.order,
        pattern.picks,
        pattern.hub_indices,
        arrange_values(pattern.hub_values),
        rows=layout.rows,
        run=layout.run,
        slices=layout.slices,
        reach=layout.reach,
        room=layout.room,
        hubs=layout.hubs,
        hub_slices=layout.hub_slices,
    )
    return result.mT.to(b.dtype)
