"""out[B, N, N] = the lower triangle of xT[B, K, N].T @ yT[B, K, N], zeros above.  Bound by the Tensor Engine.

Row tiles end where their diagonal does, so half of a square product is never computed. A block of four row tiles of
``x`` stays in SBUF; left out, ``y`` is ``x``, and the block on the diagonal is both.
"""

from trnsci.nki import (
    K_TILE,
    M_TILE,
    N_TILE,
    P_MAX,
    QUEUES,
    Axis,
    full,
    load,
    mine,
    my_indices,
    nisa,
    nki,
    nl,
    store,
    tiles,
)

ROW_TILES = N_TILE // M_TILE
AXES = (Axis(1, {"xT_hbm": 0, "yT_hbm": 0}, (0,), broadcasts=False),)
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def syrk(xT_hbm, yT_hbm=None, loads="compiler", stores="compiler"):
    B, K, N = xT_hbm.shape
    out_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    zero_sb = full((P_MAX, N_TILE), 0.0)  # [p, n]
    for i in my_indices(B, B > 1):
        # rows of a triangle grow longer: every second block balances the cores
        for rows in mine(tiles(N, ROW_TILES * M_TILE), B == 1, alternate=True):
            x_sb = []
            for k in tiles(K, K_TILE):
                x_sb.append(load(xT_hbm[i, k.span, rows.span], loads))  # [k, rows]
            for n in tiles(N, N_TILE):
                if n.start >= rows.stop:
                    for m in tiles(rows.size, M_TILE):
                        here = slice(rows.start + m.start, rows.start + m.stop)
                        store(out_hbm[i, here, n.span], zero_sb[0 : m.size, 0 : n.size], stores)
                else:
                    _columns(out_hbm, x_sb, xT_hbm, yT_hbm, i=i, rows=rows, n=n, loads=loads, stores=stores)
    return out_hbm


def _columns(out_hbm, x_sb, xT_hbm, yT_hbm, *, i, rows, n, loads, stores):
    """Compute one column tile of the triangle, for all row tiles of a block."""
    K = xT_hbm.shape[1]
    y_hbm = xT_hbm if yT_hbm == None else yT_hbm
    diagonal = n.start == rows.start
    out_ps = []
    for m in tiles(rows.size, M_TILE):
        width = m.stop if diagonal else n.size
        out_ps.append(nl.ndarray((m.size, width), dtype=nl.float32, buffer=nl.psum))  # [m, width]
    for k in tiles(K, K_TILE):
        y_sb = x_sb[k.index] if diagonal and yT_hbm == None else load(y_hbm[i, k.span, n.span], loads)  # [k, n]
        for m in tiles(rows.size, M_TILE):
            width = m.stop if diagonal else n.size
            nisa.nc_matmul(
                dst=out_ps[m.index],
                stationary=x_sb[k.index][:, m.span],
                moving=y_sb[:, 0:width],
                accumulate=k.index > 0,
            )
    for m in tiles(rows.size, M_TILE):
        here = slice(rows.start + m.start, rows.start + m.stop)
        if not diagonal:
            store(out_hbm[i, here, n.span], out_ps[m.index], stores)
        else:
            out_sb = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
            if m.stop < n.size:
                nisa.memset(dst=out_sb[:, m.stop : n.size], value=0.0)
            nisa.tensor_copy(dst=out_sb[:, 0 : m.stop], src=out_ps[m.index])
            nisa.affine_select(
                dst=out_sb[:, m.span],
                pattern=[[-1, m.size]],
                channel_multiplier=1,
                on_true_tile=out_sb[:, m.span],
                on_false_value=0.0,
                cmp_op=nl.greater_equal,
            )
            store(out_hbm[i, here, n.span], out_sb, stores)
