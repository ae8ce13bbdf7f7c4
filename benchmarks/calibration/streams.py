"""Load, one instruction, store: what moving data costs by itself."""

from trnsci.nki import P_MAX, jit, load, nisa, nl, store, tiles


@jit
def exp(x_hbm):
    """Exp of one tile."""
    y_hbm = nl.ndarray(x_hbm.shape, dtype=x_hbm.dtype, buffer=nl.shared_hbm)  # [p, f]
    x_sb = load(x_hbm, "compiler")  # [p, f]
    y_sb = nl.ndarray(x_sb.shape, dtype=x_hbm.dtype, buffer=nl.sbuf)  # [p, f]
    nisa.activation(dst=y_sb, op=nl.exp, data=x_sb)
    store(y_hbm, y_sb, "compiler")
    return y_hbm


@jit
def add_rows(a_hbm, b_hbm, rows=P_MAX):
    """Sum of two columns, ``rows`` elements at a time, one per partition."""
    M, _ = a_hbm.shape
    c_hbm = nl.ndarray((M, 1), dtype=a_hbm.dtype, buffer=nl.shared_hbm)  # [M, 1]
    for m in tiles(M, rows):
        a_sb = load(a_hbm[m.span, :], "compiler")  # [m, 1]
        b_sb = load(b_hbm[m.span, :], "compiler")  # [m, 1]
        c_sb = nl.ndarray((m.size, 1), dtype=a_hbm.dtype, buffer=nl.sbuf)  # [m, 1]
        nisa.tensor_scalar(dst=c_sb, data=a_sb, op0=nl.add, operand0=b_sb)
        store(c_hbm[m.span, :], c_sb, "compiler")
    return c_hbm


@jit
def add_tiles(a_hbm, b_hbm, width=512):
    """Sum of two [128, F] matrices, ``width`` columns at a time."""
    P, F = a_hbm.shape
    c_hbm = nl.ndarray((P, F), dtype=a_hbm.dtype, buffer=nl.shared_hbm)  # [P, F]
    for f in tiles(F, width):
        a_sb = load(a_hbm[:, f.span], "compiler")  # [P, f]
        b_sb = load(b_hbm[:, f.span], "compiler")  # [P, f]
        c_sb = nl.ndarray((P, f.size), dtype=a_hbm.dtype, buffer=nl.sbuf)  # [P, f]
        nisa.tensor_tensor(dst=c_sb, data1=a_sb, data2=b_sb, op=nl.add)
        store(c_hbm[:, f.span], c_sb, "compiler")
    return c_hbm
