"""Element by element: rotary embedding, AdamW, SiLU."""

from trnsci.nki import N_TILE, P_MAX, jit, load, nisa, nl, store, tiles


@jit
def rope(x_hbm, cos_hbm, sin_hbm):
    """Rotate the halves of x [d, S] by the angles of each column; cos and sin are [d/2, S]."""
    d, S = x_hbm.shape
    half = d // 2
    y_hbm = nl.ndarray((d, S), dtype=x_hbm.dtype, buffer=nl.shared_hbm)  # [d, S]
    for s in tiles(S, N_TILE):
        x_sb = load(x_hbm[:, s.span], "compiler")  # [d, s]
        cos_sb = load(cos_hbm[:, s.span], "compiler")  # [d/2, s]
        sin_sb = load(sin_hbm[:, s.span], "compiler")  # [d/2, s]
        low_sb = x_sb[0:half, :]  # [d/2, s]
        # both inputs of a tensor_tensor start at the same partition
        high_sb = nl.ndarray((half, s.size), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [d/2, s]
        nisa.tensor_copy(dst=high_sb, src=x_sb[half:d, :])
        products = []
        for a_sb, b_sb in ((low_sb, cos_sb), (high_sb, cos_sb), (low_sb, sin_sb), (high_sb, sin_sb)):
            p_sb = nl.ndarray((half, s.size), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [d/2, s]
            nisa.tensor_tensor(dst=p_sb, data1=a_sb, data2=b_sb, op=nl.multiply)
            products.append(p_sb)
        y_sb = nl.ndarray((d, s.size), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [d, s]
        nisa.tensor_tensor(dst=y_sb[0:half, :], data1=products[0], data2=products[3], op=nl.subtract)
        nisa.tensor_tensor(dst=y_sb[half:d, :], data1=products[1], data2=products[2], op=nl.add)
        store(y_hbm[:, s.span], y_sb, "compiler")
    return y_hbm


def _scaled(x_sb, factor):
    y_sb = nl.ndarray(x_sb.shape, dtype=x_sb.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=y_sb, data=x_sb, op0=nl.multiply, operand0=factor)
    return y_sb


def _pair(a_sb, b_sb, op):
    y_sb = nl.ndarray(a_sb.shape, dtype=a_sb.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=y_sb, data1=a_sb, data2=b_sb, op=op)
    return y_sb


@jit
def adamw(theta_hbm, g_hbm, m_hbm, v_hbm):
    """One step of AdamW on [M, N]; weight decay is one multiplication."""
    M, N = theta_hbm.shape
    out_hbm = nl.ndarray((M, N), dtype=theta_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    for i in tiles(M, P_MAX):
        for j in tiles(N, 2 * N_TILE):
            theta_sb = load(theta_hbm[i.span, j.span], "compiler")  # [i, j]
            m_sb = load(m_hbm[i.span, j.span], "compiler")  # [i, j]
            v_sb = load(v_hbm[i.span, j.span], "compiler")  # [i, j]
            g_sb = load(g_hbm[i.span, j.span], "compiler")  # [i, j]
            out_sb = nl.ndarray((i.size, j.size), dtype=theta_hbm.dtype, buffer=nl.sbuf)  # [i, j]
            for k in tiles(j.size, N_TILE):
                decayed = _scaled(theta_sb[:, k.span], 1.0 - 1e-5)
                mean = _pair(_scaled(m_sb[:, k.span], 0.9), _scaled(g_sb[:, k.span], 0.1), nl.add)
                step = _scaled(mean, 0.01)
                square = _pair(_scaled(g_sb[:, k.span], 0.001), g_sb[:, k.span], nl.multiply)
                variance = _pair(_scaled(v_sb[:, k.span], 0.999), square, nl.add)
                root = nl.ndarray(variance.shape, dtype=variance.dtype, buffer=nl.sbuf)  # [i, k]
                nisa.activation(dst=root, op=nl.sqrt, data=variance, scale=1000.0)
                nisa.tensor_scalar(dst=root, data=root, op0=nl.add, operand0=1e-8)
                inverse = nl.ndarray(variance.shape, dtype=variance.dtype, buffer=nl.sbuf)  # [i, k]
                nisa.reciprocal(dst=inverse, data=root)
                update = _pair(step, inverse, nl.multiply)
                nisa.tensor_tensor(dst=out_sb[:, k.span], data1=decayed, data2=update, op=nl.subtract)
            store(out_hbm[i.span, j.span], out_sb, "compiler")
    return out_hbm


@jit
def silu(x_hbm):
    """X / (1 + exp(-x)) on [P, R, N]."""
    P, R, N = x_hbm.shape
    y_hbm = nl.ndarray((P, R, N), dtype=x_hbm.dtype, buffer=nl.shared_hbm)  # [P, R, N]
    for r in range(R):
        for j in tiles(N, 2 * N_TILE):
            x_sb = load(x_hbm[:, r, j.span], "compiler")  # [P, j]
            y_sb = nl.ndarray((P, j.size), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [P, j]
            for k in tiles(j.size, N_TILE):
                e_sb = nl.ndarray((P, k.size), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [P, k]
                nisa.activation(dst=e_sb, op=nl.exp, data=x_sb[:, k.span], scale=-1.0)
                nisa.tensor_scalar(dst=e_sb, data=e_sb, op0=nl.add, operand0=1.0)
                nisa.reciprocal(dst=e_sb, data=e_sb)
                nisa.tensor_tensor(dst=y_sb[:, k.span], data1=x_sb[:, k.span], data2=e_sb, op=nl.multiply)
            store(y_hbm[:, r, j.span], y_sb, "compiler")
    return y_hbm
