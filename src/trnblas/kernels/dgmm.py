"""out[M, N] = x[M, 1] * a[M, N].  Bound by DMA."""

from trnsci.nki import N_TILE, P_MAX, Axis, load, mine, nisa, nki, nl, store, tiles

WIDTH = 4 * N_TILE
# Both cores of a logical core can share the outermost loop.
CORES = 2
# How a launch that would be too long a program may be cut.
AXES = (Axis(P_MAX, {"a_hbm": 0, "x_hbm": 0}, (0,)), Axis(WIDTH, {"a_hbm": 1}, (1,)))


@nki.jit
def dgmm(a_hbm, x_hbm):
    M, N = a_hbm.shape
    out_hbm = nl.ndarray((M, N), dtype=a_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    for m in mine(tiles(M, P_MAX)):
        x_sb = load(x_hbm[m.span, 0:1])  # [m, 1]
        for n in tiles(N, WIDTH):
            a_sb = load(a_hbm[m.span, n.span])  # [m, n]
            out_sb = nl.ndarray((m.size, n.size), dtype=a_hbm.dtype, buffer=nl.sbuf)  # [m, n]
            nisa.tensor_scalar(dst=out_sb, data=a_sb, op0=nl.multiply, operand0=x_sb)
            store(out_hbm[m.span, n.span], out_sb)
    return out_hbm
