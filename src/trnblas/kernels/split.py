"""planes[G, B, M, N]: sums of products of integer slices aT[S, B, K, M] and b[S, B, K, N], exact in fp32 PSUM.

``layout`` lists, most significant first, ``(diagonal, pairs of slices)``: the pairs of one entry share one PSUM sum.
Entries of diagonals below ``exact`` become a plane each; the rest are so small that they are added up in fp32, weighted
relative to diagonal ``exact``, into one last plane. Bound by the Tensor Engine: one pass a pair, where fp32 takes four.
"""

from trnsci.nki import (
    K_TILE,
    M_TILE,
    N_TILE,
    QUEUES,
    WARM,
    Axis,
    load,
    mine,
    multiply_add,
    my_indices,
    nisa,
    nki,
    nl,
    require,
    store,
    tiles,
    warm_up,
)

# One digit of 7 bits further down.
STEP = 2.0**-7
ROW_TILES = 4
AXES = (
    Axis(1, {"aT_hbm": 1, "b_hbm": 1}, (1,), broadcasts=False),
    Axis(M_TILE, {"aT_hbm": 3}, (2,)),
    Axis(N_TILE, {"b_hbm": 3}, (3,)),
)
CHOICES = {"warm": WARM, "loads": QUEUES, "stores": QUEUES}


@nki.jit
def split(aT_hbm, b_hbm, layout=(), exact=1, warm=0, loads="compiler", stores="compiler"):
    S_a, B, K, M = aT_hbm.shape
    S_b, B_b, K_b, N = b_hbm.shape
    require(K_b == K and B_b == B, f"aT and b disagree on K or the batch: {K}, {B} and {K_b}, {B_b}")
    E = 0
    for entry in layout:
        E = E + (1 if entry[0] < exact else 0)
    G = E + (1 if len(layout) > E else 0)
    out_hbm = nl.ndarray((G, B, M, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [G, B, M, N]
    warm_up(warm)
    for i in my_indices(B, B > 1):
        for n in mine(tiles(N, N_TILE), B == 1 and N > N_TILE):
            b_sb = []
            for t in range(S_b):
                b_sb.append(_slice(b_hbm, t, i, n, loads))
            for rows in mine(tiles(M, ROW_TILES * M_TILE), B == 1 and N <= N_TILE):
                aT_sb = []
                for s in range(S_a):
                    aT_sb.append(_slice(aT_hbm, s, i, rows, loads))
                for m in tiles(rows.size, M_TILE):
                    _tile(
                        out_hbm, aT_sb, b_sb, layout=layout, exact=exact, E=E, i=i, rows=rows, m=m, n=n, stores=stores
                    )
    return out_hbm


def _slice(x_hbm, s, i, columns, loads):
    """Load all of K of one slice: a list of SBUF tiles."""
    tiles_sb = []
    for k in tiles(x_hbm.shape[2], K_TILE):
        tiles_sb.append(load(x_hbm[s, i, k.span, columns.span], loads))  # [k, columns]
    return tiles_sb


def _tile(out_hbm, aT_sb, b_sb, *, layout, exact, E, i, rows, m, n, stores):
    """Compute every plane of one tile of the result."""
    here = slice(rows.start + m.start, rows.start + m.stop)
    rest_sb = None
    for g in range(len(layout)):
        sum_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
        first = True
        for pair in layout[g][1]:
            left, right = aT_sb[pair[0]], b_sb[pair[1]]
            for k in range(len(left)):
                nisa.nc_matmul(dst=sum_ps, stationary=left[k][:, m.span], moving=right[k], accumulate=not first)
                first = False
        if g < E:
            store(out_hbm[g, i, here, n.span], sum_ps, stores)
        else:
            next_sb = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
            weight = STEP ** (layout[g][0] - exact)
            if rest_sb == None:
                nisa.tensor_scalar(dst=next_sb, data=sum_ps, op0=nl.multiply, operand0=weight)
            else:
                multiply_add(next_sb, sum_ps, weight, rest_sb)
            rest_sb = next_sb
    if rest_sb != None:
        store(out_hbm[E, i, here, n.span], rest_sb, stores)
