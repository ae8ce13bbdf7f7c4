"""The selective scan of Mamba: a recurrence along the sequence for every channel and state.

Everything is written where it is used, as in the published source: rows are broadcast anew for every state, and
delta * u is multiplied anew. What the compiler makes of that is the model's to say.
"""

from trnsci.nki import P_MAX, jit, load, nisa, nl, store, tiles


def _tile(shape):
    return nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)


def _piece(delta_sb, u_sb, sum_sb, a_sb, rows, before):
    """Take one state of one piece of the sequence: sum += c * scan(exp(delta * a), delta * u * b), from ``before``."""
    b_hbm, c_hbm = rows
    P, S = delta_sb.shape
    decay_sb = _tile((P, S))  # [c, s]
    nisa.activation(dst=decay_sb, op=nl.exp, data=delta_sb, scale=a_sb)
    fed_sb = _tile((P, S))  # [c, s]
    nisa.tensor_tensor(dst=fed_sb, data1=delta_sb, data2=u_sb, op=nl.multiply)
    in_sb = _tile((P, S))  # [c, s]
    nisa.tensor_tensor(dst=in_sb, data1=fed_sb, data2=nl.broadcast_to(load(b_hbm, "compiler"), (P, S)), op=nl.multiply)
    state_sb = _tile((P, S))  # [c, s]
    nisa.tensor_tensor_scan(dst=state_sb, data0=decay_sb, data1=in_sb, initial=before, op0=nl.multiply, op1=nl.add)
    out_sb = _tile((P, S))  # [c, s]
    nisa.tensor_tensor(
        dst=out_sb, data1=state_sb, data2=nl.broadcast_to(load(c_hbm, "compiler"), (P, S)), op=nl.multiply
    )
    nisa.tensor_tensor(dst=sum_sb, data1=sum_sb, data2=out_sb, op=nl.add)
    return state_sb[:, S - 1 : S]  # [c, 1]


@jit
def mamba(delta_hbm, u_hbm, a_hbm, b_hbm, c_hbm, reused=False, columns=None):
    """Sum over states of c * scan(exp(delta * a), delta * u * b): delta, u [C, S]; a [C, n]; b, c [n, S].

    ``reused`` loads delta and u once for all states; the sequence is taken ``columns`` at a time.
    """
    C, S = delta_hbm.shape
    _, states = a_hbm.shape
    y_hbm = nl.ndarray((C, S), dtype=delta_hbm.dtype, buffer=nl.shared_hbm)  # [C, S]
    for c in tiles(C, P_MAX):
        sum_sb = _tile((c.size, S))  # [c, S]
        nisa.memset(dst=sum_sb, value=0.0)
        for n in range(states):
            if n == 0 or not reused:
                delta_sb = load(delta_hbm[c.span, :], "compiler")  # [c, S]
                u_sb = load(u_hbm[c.span, :], "compiler")  # [c, S]
            a_sb = load(a_hbm[c.span, n : n + 1], "compiler")  # [c, 1]
            before = 0.0
            for s in tiles(S, columns or S):
                rows = (b_hbm[n : n + 1, s.span], c_hbm[n : n + 1, s.span])
                before = _piece(delta_sb[:, s.span], u_sb[:, s.span], sum_sb[:, s.span], a_sb, rows, before)
        store(y_hbm[c.span, :], sum_sb, "compiler")
    return y_hbm
