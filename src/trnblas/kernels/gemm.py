"""c[B, M, N] = alpha * aT[B, K, M].T @ b[B, K, N] + beta * c[B, M, N].

A block of up to four row tiles of ``a`` stays in SBUF while the columns of ``b`` stream past; each tile of ``b`` feeds
one matmul per row tile, every one into its own PSUM bank. Two sets of four banks alternate, so that one set drains
while the other fills. Bound by the Tensor Engine once K >= 4 * K_TILE.
"""

from trnsci.nki import K_TILE, M_TILE, N_TILE, PSUM_BANKS, jit, load, nisa, nl, require, store, tiles

ROW_TILES = PSUM_BANKS // 2


@jit
def gemm(aT_hbm, b_hbm, c_hbm=None, scale_hbm=None, half=False):
    B_a, K, M = aT_hbm.shape
    B_b, K_b, N = b_hbm.shape
    B = max(B_a, B_b)
    require(K_b == K, f"aT and b disagree on K: {K} and {K_b}")
    require(B_a in (1, B) and B_b in (1, B), f"aT and b disagree on the batch: {B_a} and {B_b}")
    out_hbm = nl.ndarray((B, M, N), dtype=aT_hbm.dtype if half else nl.float32, buffer=nl.shared_hbm)  # [B, M, N]
    scale_sb = None if scale_hbm is None else load(scale_hbm)  # [p, 2]
    for i in range(B):
        i_a, i_b = min(i, B_a - 1), min(i, B_b - 1)
        for rows in tiles(M, ROW_TILES * M_TILE):
            aT_sb = []
            for k in tiles(K, K_TILE):
                aT_sb.append(load(aT_hbm[i_a, k.span, rows.span]))  # [k, rows]
            for n in tiles(N, N_TILE):
                _columns(out_hbm, aT_sb, b_hbm, c_hbm, scale_sb, i, i_b, rows, n)
    return out_hbm


def _columns(out_hbm, aT_sb, b_hbm, c_hbm, scale_sb, i, i_b, rows, n):
    """One column tile of the result, for all row tiles of a block."""
    c_ps = []
    for m in tiles(rows.size, M_TILE):
        c_ps.append(nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum))  # [m, n]
    for k in tiles(b_hbm.shape[1], K_TILE):
        b_sb = load(b_hbm[i_b, k.span, n.span])  # [k, n]
        for m in tiles(rows.size, M_TILE):
            # The first matmul of a tile must overwrite PSUM: a memset does not count on trn1 and trn2.
            nisa.nc_matmul(dst=c_ps[m.index], stationary=aT_sb[k.index][:, m.span], moving=b_sb, accumulate=k.index > 0)
    for m in tiles(rows.size, M_TILE):
        here = slice(rows.start + m.start, rows.start + m.stop)
        if scale_sb is None:
            store(out_hbm[i, here, n.span], c_ps[m.index])
        else:
            scaled_sb = nl.ndarray((m.size, n.size), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [m, n]
            alpha, beta = scale_sb[0 : m.size, 0:1], scale_sb[0 : m.size, 1:2]
            if c_hbm is None:
                nisa.tensor_scalar(dst=scaled_sb, data=c_ps[m.index], op0=nl.multiply, operand0=alpha)
            else:
                product_sb = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
                nisa.tensor_scalar(dst=product_sb, data=c_ps[m.index], op0=nl.multiply, operand0=alpha)
                c_sb = load(c_hbm[i, here, n.span])  # [m, n]
                nisa.scalar_tensor_tensor(
                    dst=scaled_sb, data=c_sb, op0=nl.multiply, operand0=beta, op1=nl.add, operand1=product_sb
                )
            store(out_hbm[i, here, n.span], scaled_sb)
