"""Matrix products found by search and by hand on trn2: everything resident, and what PSUM reuse costs."""

from trnsci.nki import K_TILE, M_TILE, N_TILE, jit, load, nisa, nl, store, tiles


@jit
def blocked_by_hand(aT_hbm, b_hbm, m_tiles=4, k_tiles=8):
    """N outermost, two blocks of K, partial sums added in SBUF through a copy of each PSUM tile."""
    K, M = aT_hbm.shape
    _, N = b_hbm.shape
    c_hbm = nl.ndarray((M, N), dtype=aT_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    ms = tiles(M, M_TILE)
    for n in tiles(N, N_TILE):
        c_sb = []
        for m in ms:
            tile_sb = nl.ndarray((m.size, n.size), dtype=aT_hbm.dtype, buffer=nl.sbuf)  # [m, n]
            nisa.memset(dst=tile_sb, value=0.0)
            c_sb.append(tile_sb)
        for kb in tiles(K, k_tiles * K_TILE):
            ks = tiles(kb.size, K_TILE)
            b_sb = []
            for k in ks:
                b_sb.append(load(b_hbm[kb.start + k.start : kb.start + k.stop, n.span], "compiler"))  # [k, n]
            for mb in tiles(M, m_tiles * M_TILE):
                aT_sb = []
                for k in ks:
                    aT_sb.append(load(aT_hbm[kb.start + k.start : kb.start + k.stop, mb.span], "compiler"))  # [k, mb]
                for m in tiles(mb.size, M_TILE):
                    c_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
                    part_sb = nl.ndarray((m.size, n.size), dtype=aT_hbm.dtype, buffer=nl.sbuf)  # [m, n]
                    nisa.memset(dst=c_ps, value=0.0)
                    for k in ks:
                        nisa.nc_matmul(
                            dst=c_ps, stationary=aT_sb[k.index][:, m.span], moving=b_sb[k.index], accumulate=k.index > 0
                        )
                    nisa.tensor_copy(dst=part_sb, src=c_ps)
                    tile_sb = c_sb[mb.index * m_tiles + m.index]
                    nisa.tensor_tensor(dst=tile_sb, data1=tile_sb, data2=part_sb, op=nl.add)
        for m in ms:
            store(c_hbm[m.span, n.span], c_sb[m.index], "compiler")
    return c_hbm


@jit
def resident(aT_hbm, b_hbm, banks=1):
    """Both operands in SBUF; ``banks`` accumulators of a row of output tiles, cleared, filled and drained in turn."""
    K, M = aT_hbm.shape
    _, N = b_hbm.shape
    c_hbm = nl.ndarray((M, N), dtype=aT_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    ks = tiles(K, K_TILE)
    ms = tiles(M, M_TILE)
    aT_sb = []
    b_sb = []
    for k in ks:
        aT_sb.append(load(aT_hbm[k.span, :], "compiler"))  # [k, M]
    for k in ks:
        b_sb.append(load(b_hbm[k.span, :], "compiler"))  # [k, N]
    c_ps = nl.ndarray((M_TILE, banks, N), dtype=nl.float32, buffer=nl.psum)  # [m, banks, N]
    c_sb = nl.ndarray((M_TILE, len(ms), N), dtype=aT_hbm.dtype, buffer=nl.sbuf)  # [m, M/m, N]
    for m in ms:
        row_ps = c_ps[:, m.index % banks, :]  # [m, N]
        nisa.memset(dst=row_ps, value=0.0)
        for n in tiles(N, N_TILE):
            for k in ks:
                nisa.nc_matmul(
                    dst=row_ps[:, n.span],
                    stationary=aT_sb[k.index][:, m.span],
                    moving=b_sb[k.index][:, n.span],
                    accumulate=k.index > 0,
                )
        nisa.tensor_copy(dst=c_sb[:, m.index, :], src=row_ps)
    for m in ms:
        store(c_hbm[m.span, :], c_sb[:, m.index, :], "compiler")
    return c_hbm


@jit
def transposed(aT_hbm, bT_hbm):
    """aT[K, M].T @ bT[N, K].T: b is transposed by DMA, and one PSUM tile serves all products."""
    K, M = aT_hbm.shape
    N, _ = bT_hbm.shape
    c_hbm = nl.ndarray((M, N), dtype=aT_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    ks = tiles(K, K_TILE)
    ms = tiles(M, M_TILE)
    ns = tiles(N, N_TILE)
    b_sb = []
    for k in ks:
        row = []
        for n in ns:
            tile_sb = nl.ndarray((k.size, n.size), dtype=bT_hbm.dtype, buffer=nl.sbuf)  # [k, n]
            nisa.dma_transpose(dst=tile_sb, src=bT_hbm[n.span, k.span])
            row.append(tile_sb)
        b_sb.append(row)
    aT_sb = []
    for k in ks:
        row = []
        for m in ms:
            row.append(load(aT_hbm[k.span, m.span], "compiler"))  # [k, m]
        aT_sb.append(row)
    c_ps = nl.ndarray((M_TILE, N_TILE), dtype=nl.float32, buffer=nl.psum)  # [m, n]
    c_sb = []
    for m in ms:
        row = []
        for n in ns:
            tile_sb = nl.ndarray((m.size, n.size), dtype=aT_hbm.dtype, buffer=nl.sbuf)  # [m, n]
            nisa.memset(dst=c_ps, value=0.0)
            for k in ks:
                nisa.nc_matmul(
                    dst=c_ps, stationary=aT_sb[k.index][m.index], moving=b_sb[k.index][n.index], accumulate=k.index > 0
                )
            nisa.tensor_copy(dst=tile_sb, src=c_ps)
            row.append(tile_sb)
        c_sb.append(row)
    for m in ms:
        for n in ns:
            store(c_hbm[m.span, n.span], c_sb[m.index][n.index], "compiler")
    return c_hbm
