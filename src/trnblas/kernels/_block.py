"""One column tile of a product, for all row tiles of a block whose stationary tiles are in SBUF."""

from trnsci.nki import K_TILE, M_TILE, load, nisa, nl, store, tiles


def _block_columns(out_hbm, a_sb, b_hbm, i, *, rows, n, loads, stores):
    """Multiply ``a_sb[m][k]``, tiles [k, m] or ``None`` for zeros, by matrix ``i`` of ``b_hbm``; store ``rows``."""
    out_ps = []
    begun = []
    for m in tiles(rows.size, M_TILE):
        out_ps.append(nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum))  # [m, n]
        begun.append(False)
    for k in tiles(b_hbm.shape[1], K_TILE):
        b_sb = None
        for m in tiles(rows.size, M_TILE):
            stationary = a_sb[m.index][k.index]
            if stationary != None:
                if b_sb == None:
                    b_sb = load(b_hbm[i, k.span, n.span], loads)  # [k, n]
                nisa.nc_matmul(dst=out_ps[m.index], stationary=stationary, moving=b_sb, accumulate=begun[m.index])
                begun[m.index] = True
    for m in tiles(rows.size, M_TILE):
        here = slice(rows.start + m.start, rows.start + m.stop)
        store(out_hbm[i, here, n.span], out_ps[m.index], stores)
