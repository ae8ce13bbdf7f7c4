"""out[M, N] = x[M, 1] * a[M, N].  Bound by DMA."""

from trnsci.nki import N_TILE, P_MAX, QUEUES, Axis, load, mine, nisa, nki, nl, store, tiles

WIDTH = 4 * N_TILE
AXES = (Axis(P_MAX, {"a_hbm": 0, "x_hbm": 0}, (0,)), Axis(WIDTH, {"a_hbm": 1}, (1,)))
CHOICES = {"width": (N_TILE, 2 * N_TILE, 4 * N_TILE, 8 * N_TILE, 16 * N_TILE), "loads": QUEUES, "stores": QUEUES}


@nki.jit
def dgmm(a_hbm, x_hbm, width=WIDTH, loads="compiler", stores="compiler"):
    M, N = a_hbm.shape
    out_hbm = nl.ndarray((M, N), dtype=a_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    for m in mine(tiles(M, P_MAX)):
        x_sb = load(x_hbm[m.span, 0:1], loads)  # [m, 1]
        for n in tiles(N, width):
            a_sb = load(a_hbm[m.span, n.span], loads)  # [m, n]
            out_sb = nl.ndarray((m.size, n.size), dtype=a_hbm.dtype, buffer=nl.sbuf)  # [m, n]
            nisa.tensor_scalar(dst=out_sb, data=a_sb, op0=nl.multiply, operand0=x_sb)
            store(out_hbm[m.span, n.span], out_sb, stores)
    return out_hbm
