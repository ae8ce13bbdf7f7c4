"""The selective scan of Mamba: a recurrence along the sequence for every channel and state."""

from trnsci.nki import N_TILE, P_MAX, jit, load, nisa, nl, store, tiles


def _everywhere(row_hbm, ones_sb):
    """A row of HBM on every partition: [P, S]."""
    _, S = row_hbm.shape
    row_sb = load(row_hbm)  # [1, S]
    wide_sb = nl.ndarray((P_MAX, S), dtype=row_hbm.dtype, buffer=nl.sbuf)  # [P, S]
    for s in tiles(S, N_TILE):
        wide_ps = nl.ndarray((P_MAX, s.size), dtype=nl.float32, buffer=nl.psum)  # [P, s]
        nisa.nc_matmul(dst=wide_ps, stationary=ones_sb, moving=row_sb[:, s.span])
        nisa.tensor_copy(dst=wide_sb[:, s.span], src=wide_ps)
    return wide_sb


@jit
def mamba(delta_hbm, u_hbm, a_hbm, b_hbm, c_hbm):
    """Sum over states of c * scan(exp(delta * a), delta * u * b): delta, u [C, S]; a [C, n]; b, c [n, S]."""
    C, S = delta_hbm.shape
    _, states = a_hbm.shape
    y_hbm = nl.ndarray((C, S), dtype=delta_hbm.dtype, buffer=nl.shared_hbm)  # [C, S]
    channels = tiles(C, P_MAX)
    ones_sb = nl.ndarray((1, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [1, P]
    nisa.memset(dst=ones_sb, value=1.0)
    sums = []
    for c in channels:
        sum_sb = nl.ndarray((c.size, S), dtype=nl.float32, buffer=nl.sbuf)  # [c, S]
        nisa.memset(dst=sum_sb, value=0.0)
        sums.append(sum_sb)
    for n in range(states):
        for c in channels:
            delta_sb = load(delta_hbm[c.span, :])  # [c, S]
            a_sb = load(a_hbm[c.span, n : n + 1])  # [c, 1]
            decay_sb = nl.ndarray((c.size, S), dtype=nl.float32, buffer=nl.sbuf)  # [c, S]
            nisa.activation(dst=decay_sb, op=nl.exp, data=delta_sb, scale=a_sb)
            u_sb = load(u_hbm[c.span, :])  # [c, S]
            in_sb = nl.ndarray((c.size, S), dtype=nl.float32, buffer=nl.sbuf)  # [c, S]
            nisa.tensor_tensor(dst=in_sb, data1=delta_sb, data2=u_sb, op=nl.multiply)
            nisa.tensor_tensor(dst=in_sb, data1=in_sb, data2=_everywhere(b_hbm[n : n + 1, :], ones_sb), op=nl.multiply)
            state_sb = nl.ndarray((c.size, S), dtype=nl.float32, buffer=nl.sbuf)  # [c, S]
            nisa.tensor_tensor_scan(dst=state_sb, data0=decay_sb, data1=in_sb, initial=0.0, op0=nl.multiply, op1=nl.add)
            nisa.tensor_tensor(
                dst=state_sb, data1=state_sb, data2=_everywhere(c_hbm[n : n + 1, :], ones_sb), op=nl.multiply
            )
            nisa.tensor_tensor(dst=sums[c.index], data1=sums[c.index], data2=state_sb, op=nl.add)
    for c in channels:
        store(y_hbm[c.span, :], sums[c.index])
    return y_hbm
