"""out[B, M, N] = a[B, M, M] b[B, M, N] with a triangular, given transposed as aT.  Bound by the Tensor Engine.

Tiles on the wrong side of the diagonal are neither loaded nor multiplied; a tile on it is masked once.
"""

from trnblas.kernels._block import _block_columns
from trnsci.nki import (
    K_TILE,
    M_TILE,
    N_TILE,
    PSUM_BANKS,
    QUEUES,
    WARM,
    Axis,
    load,
    mine,
    my_indices,
    nisa,
    nki,
    nl,
    tiles,
    triangle,
    warm_up,
)

ROW_TILES = PSUM_BANKS // 2
AXES = (Axis(1, {"aT_hbm": 0, "b_hbm": 0}, (0,)), Axis(N_TILE, {"b_hbm": 2}, (2,)))
# What a search may choose: row tiles of a block, and queues.
CHOICES = {"row_tiles": (1, 2, 3, 4, 6, 8), "warm": WARM, "loads": QUEUES, "stores": QUEUES}


@nki.jit
def trmm(aT_hbm, b_hbm, lower=True, unit=False, row_tiles=ROW_TILES, warm=0, loads="compiler", stores="compiler"):
    B_a, M = aT_hbm.shape[0], aT_hbm.shape[2]
    B, N = b_hbm.shape[0], b_hbm.shape[2]
    out_hbm = nl.ndarray((B, M, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, M, N]
    warm_up(warm)
    for i in my_indices(B, B > 1):
        i_a = min(i, B_a - 1)
        for rows in mine(tiles(M, row_tiles * M_TILE), B == 1 and N <= N_TILE):
            aT_sb = []
            for m in tiles(rows.size, M_TILE):
                start, stop = rows.start + m.start, rows.start + m.stop
                aT_sb.append(_row_tile(aT_hbm, i_a, start, stop, lower=lower, unit=unit, loads=loads))
            for n in mine(tiles(N, N_TILE), B == 1 and N > N_TILE):
                _block_columns(out_hbm, aT_sb, b_hbm, i, rows=rows, n=n, loads=loads, stores=stores)
    return out_hbm


def _row_tile(aT_hbm, i, start, stop, *, lower, unit, loads):
    """Load the tiles of one row tile that are not zero; ``None`` stands for the others."""
    tiles_sb = []
    for k in tiles(aT_hbm.shape[1], K_TILE):
        if k.start == start:
            tiles_sb.append(_diagonal(load(aT_hbm[i, k.span, start:stop], loads), lower, unit))
        elif (k.start < start) == lower:
            tiles_sb.append(load(aT_hbm[i, k.span, start:stop], loads))  # [k, m]
        else:
            tiles_sb.append(None)
    return tiles_sb


def _diagonal(aT_sb, lower, unit):
    """Zero the other side of the diagonal of a transposed tile [k, m], and put ones on it where it is not read."""
    kept_sb = triangle(aT_sb, lower)  # [k, m]
    if unit:
        nisa.affine_select(
            dst=kept_sb,
            pattern=[[1, aT_sb.shape[0]]],
            channel_multiplier=-1,
            on_true_tile=kept_sb,
            on_false_value=1.0,
            cmp_op=nl.not_equal,
        )
    return kept_sb
