"""out[B, M, N] = a[B, M, M] b[B, M, N] with a symmetric and its lower triangle stored.  Bound by the Tensor Engine.

The stationary operand is wanted transposed, and the transpose of a tile below the diagonal is what belongs above it:
tiles below the diagonal are used as they are for their columns, and are transposed once for their own rows.
"""

from trnblas.kernels._block import _block_columns
from trnsci.nki import (
    K_TILE,
    M_TILE,
    N_TILE,
    PSUM_BANKS,
    QUEUES,
    Axis,
    elementwise,
    load,
    mine,
    my_indices,
    nki,
    nl,
    tiles,
    transpose_tile,
    triangle,
)

ROW_TILES = PSUM_BANKS // 2
AXES = (Axis(1, {"a_hbm": 0, "b_hbm": 0}, (0,)), Axis(N_TILE, {"b_hbm": 2}, (2,)))
# What a search may choose: row tiles of a block, and queues.
CHOICES = {"row_tiles": (1, 2, 3, 4, 6, 8), "loads": QUEUES, "stores": QUEUES}


@nki.jit
def symm(a_hbm, b_hbm, row_tiles=ROW_TILES, loads="compiler", stores="compiler"):
    B_a, M = a_hbm.shape[0], a_hbm.shape[1]
    B, N = b_hbm.shape[0], b_hbm.shape[2]
    out_hbm = nl.ndarray((B, M, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, M, N]
    for i in my_indices(B, B > 1):
        i_a = min(i, B_a - 1)
        for rows in mine(tiles(M, row_tiles * M_TILE), B == 1 and N <= N_TILE):
            a_sb = []
            for m in tiles(rows.size, M_TILE):
                a_sb.append(_row_tile(a_hbm, i_a, rows.start + m.start, rows.start + m.stop, loads))
            for n in mine(tiles(N, N_TILE), B == 1 and N > N_TILE):
                _block_columns(out_hbm, a_sb, b_hbm, i, rows=rows, n=n, loads=loads, stores=stores)
    return out_hbm


def _row_tile(a_hbm, i, start, stop, loads):
    """Load rows ``start`` to ``stop`` of the whole matrix, transposed: a list of [k, m] tiles."""
    M = a_hbm.shape[1]
    strip_sb = load(a_hbm[i, start:stop, 0:stop], loads)  # [m, stop]
    tiles_sb = []
    for k in tiles(M, K_TILE):
        if k.start >= stop:
            tiles_sb.append(load(a_hbm[i, k.span, start:stop], loads))  # [k, m]
        elif k.start < start:
            tiles_sb.append(transpose_tile(strip_sb[:, k.span]))
        else:
            tiles_sb.append(_whole(strip_sb[:, k.span]))
    return tiles_sb


def _whole(x_sb):
    """Complete a tile on the diagonal: its lower triangle and the mirror image of what lies strictly below."""
    return elementwise(triangle(x_sb, False), transpose_tile(triangle(x_sb, False, -1)), nl.add)
