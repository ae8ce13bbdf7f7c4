"""out[r, P, W] = sum over c of values[r, c] * x[c, P, W].  Bound by DMA.

Coefficients of 0 and 1 are compile-time: a 0 does not read its vector and a 1 is not multiplied.
"""

from trnsci.nki import N_TILE, P_MAX, QUEUES, Axis, load, mine, multiply_add, nisa, nki, nl, store, tiles

WIDTH = 4 * N_TILE
AXES = (Axis(WIDTH, {"x_hbm": 2}, (2,)),)
CHOICES = {"width": (N_TILE, 2 * N_TILE, 4 * N_TILE, 8 * N_TILE, 16 * N_TILE), "loads": QUEUES, "stores": QUEUES}


@nki.jit
def axpy(x_hbm, values_hbm, kinds=(), width=WIDTH, loads="compiler", stores="compiler"):
    C, P, W = x_hbm.shape
    R = len(kinds)
    out_hbm = nl.ndarray((R, P, W), dtype=x_hbm.dtype, buffer=nl.shared_hbm)  # [R, P, W]
    values_sb = load(values_hbm, "compiler")  # [P, R * C]
    for w in mine(tiles(W, width)):
        x_sb = []
        for c in range(C):
            x_sb.append(load(x_hbm[c, 0:P_MAX, w.span], loads))  # [P, w]
        for r in range(R):
            sum_sb = None
            for c in range(C):
                if kinds[r][c] != "0":
                    sum_sb = _plus(sum_sb, x_sb[c], kinds[r][c], values_sb[:, r * C + c : r * C + c + 1])
            if sum_sb == None:
                sum_sb = nl.ndarray((P, w.size), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [P, w]
                nisa.memset(dst=sum_sb, value=0.0)
            store(out_hbm[r, 0:P_MAX, w.span], sum_sb, stores)
    return out_hbm


def _plus(sum_sb, x_sb, kind, value_sb):
    """Add one term to the sum so far."""
    if sum_sb == None and kind == "1":
        return x_sb
    next_sb = nl.ndarray(x_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [P, w]
    if sum_sb == None:
        nisa.tensor_scalar(dst=next_sb, data=x_sb, op0=nl.multiply, operand0=value_sb)
    elif kind == "1":
        nisa.tensor_tensor(dst=next_sb, data1=sum_sb, data2=x_sb, op=nl.add)
    else:
        multiply_add(next_sb, x_sb, value_sb, sum_sb)
    return next_sb
