"""x[B, M, N] with a[B, M, M] x = b[B, M, N], a lower triangular, given transposed as aT.

Diagonal blocks are inverted once, all of them before they are needed: from inverses of neighbouring blocks of size s
follows that of the pair, X - X C X, where C is the block below and left of it. Seven doublings make 128. The transposed
inverse Y is built along, because both orders of the product need a transposed factor. The rest is products. Bound by
the Tensor Engine for wide right-hand sides, by the chain of row blocks for narrow ones.
"""

from trnsci.nki import (
    M_TILE,
    N_TILE,
    QUEUES,
    WARM,
    Axis,
    elementwise,
    load,
    load_each,
    mine,
    my_indices,
    nisa,
    nki,
    nl,
    product,
    store,
    tiles,
    upper_inverse,
    warm_up,
)

AXES = (Axis(1, {"aT_hbm": 0, "b_hbm": 0}, (0,)), Axis(N_TILE, {"b_hbm": 2}, (2,)))
CHOICES = {"warm": WARM, "loads": QUEUES, "stores": QUEUES}


@nki.jit
def trsm(aT_hbm, b_hbm, masks_hbm, unit=False, warm=0, loads="compiler", stores="compiler"):
    B_a, M = aT_hbm.shape[0], aT_hbm.shape[2]
    B, N = b_hbm.shape[0], b_hbm.shape[2]
    out_hbm = nl.ndarray((B, M, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, M, N]
    warm_up(warm)
    masks_sb = load_each(masks_hbm, loads)
    aT_sb = None
    inverses_sb = None
    for i in my_indices(B, B > 1):
        if aT_sb == None or B_a > 1:
            aT_sb = []
            inverses_sb = []
            for k in tiles(M, M_TILE):
                aT_sb.append(load(aT_hbm[i, k.span, k.start : M], loads))  # [k, M - k]
                inverse_sb, _ = upper_inverse(aT_sb[k.index][:, 0 : k.size], masks_sb, unit, both=False)
                inverses_sb.append(inverse_sb)
        for n in mine(tiles(N, N_TILE), B == 1):
            _solve(out_hbm, aT_sb, inverses_sb, b_hbm, i=i, n=n, loads=loads, stores=stores)
    return out_hbm


def _solve(out_hbm, aT_sb, inverses_sb, b_hbm, *, i, n, loads, stores):
    """Solve for one column tile, from the first row tile to the last."""
    x_sb = []
    for m in tiles(b_hbm.shape[1], M_TILE):
        right_sb = load(b_hbm[i, m.span, n.span], loads)  # [m, n]
        if m.index > 0:
            known_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
            for k in range(m.index):
                start = m.start - k * M_TILE
                nisa.nc_matmul(
                    dst=known_ps,
                    stationary=aT_sb[k][:, start : start + m.size],
                    moving=x_sb[k],
                    accumulate=k > 0,
                )
            left_sb = elementwise(right_sb, known_ps, nl.subtract)  # [m, n]
            right_sb = left_sb
        solved_sb = product(inverses_sb[m.index], right_sb)  # [m, n]
        x_sb.append(solved_sb)
        store(out_hbm[i, m.span, n.span], solved_sb, stores)
