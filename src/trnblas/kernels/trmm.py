"""out[B, M, N] = a[B, M, M] b[B, M, N] with a triangular, given transposed as aT.  Bound by the Tensor Engine.

Tiles on the wrong side of the diagonal are neither loaded nor multiplied; a tile on it is masked once.
"""

from trnsci.nki import K_TILE, M_TILE, N_TILE, PSUM_BANKS, QUEUES, Axis, load, nisa, nki, nl, store, tiles

ROW_TILES = PSUM_BANKS // 2
# How a launch that would be too long a program may be cut.
AXES = (Axis(1, {"aT_hbm": 0, "b_hbm": 0}, (0,)), Axis(N_TILE, {"b_hbm": 2}, (2,)))
# What a search may choose: row tiles of a block, and queues.
CHOICES = {"row_tiles": (1, 2, 3, 4, 6, 8), "loads": QUEUES, "stores": QUEUES}


@nki.jit
def trmm(aT_hbm, b_hbm, lower=True, unit=False, row_tiles=ROW_TILES, loads="compiler", stores="compiler"):
    B_a, M = aT_hbm.shape[0], aT_hbm.shape[2]
    B, N = b_hbm.shape[0], b_hbm.shape[2]
    out_hbm = nl.ndarray((B, M, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, M, N]
    for i in range(B):
        i_a = min(i, B_a - 1)
        for rows in tiles(M, row_tiles * M_TILE):
            aT_sb = []
            for m in tiles(rows.size, M_TILE):
                start, stop = rows.start + m.start, rows.start + m.stop
                aT_sb.append(_row_tile(aT_hbm, i_a, start, stop, lower, unit, loads))
            for n in tiles(N, N_TILE):
                _columns(out_hbm, aT_sb, b_hbm, i, rows, n, lower, loads, stores)
    return out_hbm


def _row_tile(aT_hbm, i, start, stop, lower, unit, loads):
    """The tiles of one row tile that are not zero; ``None`` stands for the others."""
    found = []
    for k in tiles(aT_hbm.shape[1], K_TILE):
        if k.start == start:
            found.append(_diagonal(load(aT_hbm[i, k.span, start:stop], loads), lower, unit))
        elif (k.start < start) == lower:
            found.append(load(aT_hbm[i, k.span, start:stop], loads))  # [k, m]
        else:
            found.append(None)
    return found


def _diagonal(aT_sb, lower, unit):
    """Zeros on the other side of the diagonal, and ones on it where it is not read. The tile is [k, m], transposed."""
    size = aT_sb.shape[0]
    kept_sb = nl.ndarray(aT_sb.shape, dtype=aT_sb.dtype, buffer=nl.sbuf)  # [k, m]
    nisa.affine_select(
        dst=kept_sb,
        pattern=[[1, size]],
        channel_multiplier=-1,
        on_true_tile=aT_sb,
        on_false_value=0.0,
        cmp_op=nl.greater_equal if lower else nl.less_equal,
    )
    if unit:
        nisa.affine_select(
            dst=kept_sb,
            pattern=[[1, size]],
            channel_multiplier=-1,
            on_true_tile=kept_sb,
            on_false_value=1.0,
            cmp_op=nl.not_equal,
        )
    return kept_sb


def _columns(out_hbm, aT_sb, b_hbm, i, rows, n, lower, loads, stores):
    """One column tile of the result, for all row tiles of a block."""
    out_ps = []
    begun = []
    for m in tiles(rows.size, M_TILE):
        out_ps.append(nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum))  # [m, n]
        begun.append(False)
    for k in tiles(b_hbm.shape[1], K_TILE):
        if (k.start < rows.stop) if lower else (k.start >= rows.start):
            b_sb = load(b_hbm[i, k.span, n.span], loads)  # [k, n]
            for m in tiles(rows.size, M_TILE):
                stationary = aT_sb[m.index][k.index]
                if stationary != None:
                    nisa.nc_matmul(dst=out_ps[m.index], stationary=stationary, moving=b_sb, accumulate=begun[m.index])
                    begun[m.index] = True
    for m in tiles(rows.size, M_TILE):
        here = slice(rows.start + m.start, rows.start + m.stop)
        store(out_hbm[i, here, n.span], out_ps[m.index], stores)
