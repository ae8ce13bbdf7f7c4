"""The matrix products of NKI's own tutorials: aT[K, M].T @ b[K, N], four ways to feed the Tensor Engine."""

from trnsci.nki import K_TILE, M_TILE, N_TILE, jit, load, nisa, nl, store, tiles


@jit
def tiled(aT_hbm, b_hbm):
    """Both operands are loaded again for every product of tiles."""
    K, M = aT_hbm.shape
    _, N = b_hbm.shape
    c_hbm = nl.ndarray((M, N), dtype=aT_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    for m in tiles(M, M_TILE):
        for n in tiles(N, N_TILE):
            c_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
            for k in tiles(K, K_TILE):
                aT_sb = load(aT_hbm[k.span, m.span], "compiler")  # [k, m]
                b_sb = load(b_hbm[k.span, n.span], "compiler")  # [k, n]
                nisa.nc_matmul(dst=c_ps, stationary=aT_sb, moving=b_sb, accumulate=k.index > 0)
            store(c_hbm[m.span, n.span], c_ps, "compiler")
    return c_hbm


@jit
def hoisted(aT_hbm, b_hbm):
    """A column of aT is loaded once per row of output tiles."""
    K, M = aT_hbm.shape
    _, N = b_hbm.shape
    c_hbm = nl.ndarray((M, N), dtype=aT_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    ks = tiles(K, K_TILE)
    for m in tiles(M, M_TILE):
        aT_sb = []
        for k in ks:
            aT_sb.append(load(aT_hbm[k.span, m.span], "compiler"))  # [k, m]
        for n in tiles(N, N_TILE):
            b_sb = []
            for k in ks:
                b_sb.append(load(b_hbm[k.span, n.span], "compiler"))  # [k, n]
            c_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
            for k in ks:
                nisa.nc_matmul(dst=c_ps, stationary=aT_sb[k.index], moving=b_sb[k.index], accumulate=k.index > 0)
            store(c_hbm[m.span, n.span], c_ps, "compiler")
    return c_hbm


@jit
def blocked(aT_hbm, b_hbm):
    """Blocks of 2x2 output tiles share what was loaded."""
    K, M = aT_hbm.shape
    _, N = b_hbm.shape
    c_hbm = nl.ndarray((M, N), dtype=aT_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    ks = tiles(K, K_TILE)
    for mb in tiles(M, 2 * M_TILE):
        ms = tiles(mb.size, M_TILE)
        aT_sb = []
        for m in ms:
            column = []
            for k in ks:
                column.append(load(aT_hbm[k.span, mb.start + m.start : mb.start + m.stop], "compiler"))  # [k, m]
            aT_sb.append(column)
        for nb in tiles(N, 2 * N_TILE):
            ns = tiles(nb.size, N_TILE)
            b_sb = []
            for n in ns:
                column = []
                for k in ks:
                    column.append(load(b_hbm[k.span, nb.start + n.start : nb.start + n.stop], "compiler"))  # [k, n]
                b_sb.append(column)
            for m in ms:
                for n in ns:
                    c_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
                    for k in ks:
                        nisa.nc_matmul(
                            dst=c_ps,
                            stationary=aT_sb[m.index][k.index],
                            moving=b_sb[n.index][k.index],
                            accumulate=k.index > 0,
                        )
                    store(
                        c_hbm[mb.start + m.start : mb.start + m.stop, nb.start + n.start : nb.start + n.stop],
                        c_ps,
                        "compiler",
                    )
    return c_hbm


@jit
def fully_blocked(aT_hbm, b_hbm, m_tiles=16, n_tiles=2, k_tiles=8):
    """Blocks in all three dimensions; partial sums are kept and added in SBUF."""
    K, M = aT_hbm.shape
    _, N = b_hbm.shape
    c_hbm = nl.ndarray((M, N), dtype=aT_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    mbs = tiles(M, m_tiles * M_TILE)
    for nb in tiles(N, n_tiles * N_TILE):
        ns = tiles(nb.size, N_TILE)
        c_sb = []
        for mb in mbs:
            block = []
            for m in tiles(mb.size, M_TILE):
                row = []
                for n in ns:
                    tile_sb = nl.ndarray((m.size, n.size), dtype=aT_hbm.dtype, buffer=nl.sbuf)  # [m, n]
                    nisa.memset(dst=tile_sb, value=0.0)
                    row.append(tile_sb)
                block.append(row)
            c_sb.append(block)
        for kb in tiles(K, k_tiles * K_TILE):
            ks = tiles(kb.size, K_TILE)
            b_sb = []
            for k in ks:
                b_sb.append(load(b_hbm[kb.start + k.start : kb.start + k.stop, nb.span], "compiler"))  # [k, nb]
            for mb in mbs:
                aT_sb = []
                for k in ks:
                    aT_sb.append(load(aT_hbm[kb.start + k.start : kb.start + k.stop, mb.span], "compiler"))  # [k, mb]
                for n in ns:
                    for m in tiles(mb.size, M_TILE):
                        c_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
                        for k in ks:
                            nisa.nc_matmul(
                                dst=c_ps,
                                stationary=aT_sb[k.index][:, m.span],
                                moving=b_sb[k.index][:, n.span],
                                accumulate=k.index > 0,
                            )
                        tile_sb = c_sb[mb.index][m.index][n.index]
                        nisa.tensor_tensor(dst=tile_sb, data1=tile_sb, data2=c_ps, op=nl.add)
        for mb in mbs:
            for m in tiles(mb.size, M_TILE):
                row_sb = nl.ndarray((m.size, nb.size), dtype=aT_hbm.dtype, buffer=nl.sbuf)  # [m, nb]
                for n in ns:
                    nisa.tensor_copy(dst=row_sb[:, n.span], src=c_sb[mb.index][m.index][n.index])
                store(c_hbm[mb.start + m.start : mb.start + m.stop, nb.span], row_sb, "compiler")
    return c_hbm
