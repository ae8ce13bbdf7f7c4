"""Products of matrices that arrive in the wrong layout: batched, and with a low-rank update."""

from trnsci.nki import K_TILE, M_TILE, N_TILE, P_MAX, jit, load, nisa, nl, store, tiles


def _transposed(dst_sb, x_sb):
    """Dst = x.T through PSUM."""
    t_ps = nl.ndarray(dst_sb.shape, dtype=x_sb.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=t_ps, data=x_sb)
    nisa.tensor_copy(dst=dst_sb, src=t_ps)


@jit
def bmm(a_hbm, b_hbm):
    """a[B, M, K] @ b[B, K, N] with K <= 128: transposes of a are made again for every block of 1024 columns."""
    B, M, K = a_hbm.shape
    _, _, N = b_hbm.shape
    c_hbm = nl.ndarray((B, M, N), dtype=a_hbm.dtype, buffer=nl.shared_hbm)  # [B, M, N]
    for i in range(B):
        for nb in tiles(N, 2 * N_TILE):
            b_sb = load(b_hbm[i, :, nb.span], "compiler")  # [K, nb]
            for mb in tiles(M, 8 * M_TILE):
                aT_sb = nl.ndarray((K, mb.size), dtype=a_hbm.dtype, buffer=nl.sbuf)  # [K, mb]
                for m in tiles(mb.size, M_TILE):
                    a_sb = load(a_hbm[i, mb.start + m.start : mb.start + m.stop, :], "compiler")  # [m, K]
                    _transposed(aT_sb[:, m.span], a_sb)
                for m in tiles(mb.size, M_TILE):
                    c_sb = nl.ndarray((m.size, nb.size), dtype=a_hbm.dtype, buffer=nl.sbuf)  # [m, nb]
                    for n in tiles(nb.size, N_TILE):
                        c_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
                        nisa.nc_matmul(dst=c_ps, stationary=aT_sb[:, m.span], moving=b_sb[:, n.span])
                        nisa.tensor_copy(dst=c_sb[:, n.span], src=c_ps)
                    store(c_hbm[i, mb.start + m.start : mb.start + m.stop, nb.span], c_sb, "compiler")
    return c_hbm


@jit
def lora(x_hbm, w_hbm, a_hbm, b_hbm):
    """x[M, K] @ w[K, N] + (x @ a[K, R]) @ b[R, N] as its transpose, 1024 columns and a fifth of K at a time."""
    M, K = x_hbm.shape
    _, N = w_hbm.shape
    _, R = a_hbm.shape
    y_hbm = nl.ndarray((M, N), dtype=x_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    ks = tiles(K, K_TILE)
    blocks = tiles(M, N_TILE)
    a_sb = []
    for k in ks:
        a_sb.append(load(a_hbm[k.span, :], "compiler"))  # [k, R]
    low_hbm = nl.ndarray((R, M), dtype=x_hbm.dtype, buffer=nl.private_hbm)  # [R, M]
    for mb in blocks:
        low_ps = nl.ndarray((R, mb.size), dtype=nl.float32, buffer=nl.psum)  # [R, mb]
        for kb in tiles(K, 8 * K_TILE):
            xT_sb = _columns(x_hbm, mb, kb)
            for k in tiles(kb.size, K_TILE):
                at = kb.start // K_TILE + k.index
                nisa.nc_matmul(dst=low_ps, stationary=a_sb[at], moving=xT_sb[:, k.index, :], accumulate=at > 0)
        store(low_hbm[:, mb.span], low_ps, "compiler")
    for nb in tiles(N, 2 * N_TILE):
        b_sb = load(b_hbm[:, nb.span], "compiler")  # [R, nb]
        ns = tiles(nb.size, M_TILE)
        sums = []
        for mb in blocks:
            low_sb = load(low_hbm[:, mb.span], "compiler")  # [R, mb]
            row = []
            for n in ns:
                sum_sb = nl.ndarray((n.size, mb.size), dtype=nl.float32, buffer=nl.sbuf)  # [n, mb]
                sum_ps = nl.ndarray((n.size, mb.size), dtype=nl.float32, buffer=nl.psum)  # [n, mb]
                nisa.nc_matmul(dst=sum_ps, stationary=b_sb[:, n.span], moving=low_sb)
                nisa.tensor_copy(dst=sum_sb, src=sum_ps)
                row.append(sum_sb)
            sums.append(row)
        for kb in tiles(K, 8 * K_TILE):
            w_sb = []
            for k in tiles(kb.size, K_TILE):
                w_sb.append(load(w_hbm[kb.start + k.start : kb.start + k.stop, nb.span], "compiler"))  # [k, nb]
            for mb in blocks:
                xT_sb = _columns(x_hbm, mb, kb)  # [k, kb/k, mb]
                for n in ns:
                    part_ps = nl.ndarray((n.size, mb.size), dtype=nl.float32, buffer=nl.psum)  # [n, mb]
                    for k in tiles(kb.size, K_TILE):
                        nisa.nc_matmul(
                            dst=part_ps,
                            stationary=w_sb[k.index][:, n.span],
                            moving=xT_sb[:, k.index, :],
                            accumulate=k.index > 0,
                        )
                    sum_sb = sums[mb.index][n.index]
                    nisa.tensor_tensor(dst=sum_sb, data1=sum_sb, data2=part_ps, op=nl.add)
        for mb in blocks:
            for n in ns:
                for m in tiles(mb.size, P_MAX):
                    y_sb = nl.ndarray((m.size, n.size), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [m, n]
                    _transposed(y_sb, sums[mb.index][n.index][:, m.span])
                    store(
                        y_hbm[mb.start + m.start : mb.start + m.stop, nb.start + n.start : nb.start + n.stop],
                        y_sb,
                        "compiler",
                    )
    return y_hbm


def _columns(x_hbm, mb, kb):
    """x[mb, kb] transposed: [k, kb/k, mb]."""
    ks = tiles(kb.size, K_TILE)
    xT_sb = nl.ndarray((K_TILE, len(ks), mb.size), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [k, kb/k, mb]
    for m in tiles(mb.size, P_MAX):
        x_sb = load(x_hbm[mb.start + m.start : mb.start + m.stop, kb.span], "compiler")  # [m, kb]
        for k in ks:
            _transposed(xT_sb[:, k.index, m.span], x_sb[:, k.span])
    return xT_sb
