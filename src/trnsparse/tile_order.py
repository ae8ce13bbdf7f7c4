"""In which order a kernel multiplies the tiles of a pattern.

Sums have no order. Two choices keep the Tensor Engine from waiting for rows of the dense operand: block rows
that need the fewest rows not yet there come first, and the first few block rows, as many as PSUM holds, are taken
together by column, so that rows that arrive meet several tiles.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from trnsci.nki import K_TILE, PSUM_BANKS

Pieces = tuple[tuple[int, int], ...]  # (start, size) of each run of rows of the dense operand a tile meets
Steps = tuple[tuple[int, Pieces], ...]  # the block row of each tile and its pieces


def in_order(rows: Sequence[Sequence[Pieces]], banks: int = 1) -> tuple[Steps, list[int]]:
    """Return the tiles of all block rows in the order of their use, and the index of each, row by row.

    Args:
        rows: for each block row, the pieces of each of its tiles; pieces of no size meet nothing.
        banks: of PSUM that the sums of one block row take.
    """
    order = _fewest_new_first(rows)
    together = max(1, (PSUM_BANKS - 1) // banks)
    first = [0]
    for row in rows:
        first.append(first[-1] + len(row))
    tiles = [(row[at], i, first[i] + at) for i in order for row in (rows[i],) for at in range(len(row))]
    head = sum(len(rows[i]) for i in order[:together])
    tiles[:head] = sorted(tiles[:head])
    steps = tuple((i, tuple(piece for piece in pieces if piece[1] > 0)) for pieces, i, _ in tiles)
    return steps, [index for _, _, index in tiles]


def _fewest_new_first(rows: Sequence[Sequence[Pieces]]) -> list[int]:
    """Order block rows: next is one that needs the fewest tiles of the dense operand not needed before."""
    needs = [{start // K_TILE for pieces in row for start, _ in pieces} for row in rows]
    users: dict[int, list[int]] = {}
    for i, need in enumerate(needs):
        for tile in need:
            users.setdefault(tile, []).append(i)
    new = [len(need) for need in needs]
    heap = [(count, i) for i, count in enumerate(new)]
    heapq.heapify(heap)
    order: list[int] = []
    while heap:
        count, i = heapq.heappop(heap)
        if count != new[i]:
            continue
        order.append(i)
        new[i] = -1
        for tile in needs[i]:
            for other in users.pop(tile, ()):
                if new[other] > 0:
                    new[other] -= 1
                    heapq.heappush(heap, (new[other], other))
    return order
