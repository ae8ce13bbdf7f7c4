"""out[O, A, X] = sum over m, n of left[M, O] right[N, A] e[M, N, X]: two contractions, nothing between them in HBM.

For one tile of X at a time: tiles of e are the stationary operand against left, which gives half[x, n, i]; each i is
transposed to [n, x] on the Tensor Engine and contracted with right. Transposed, it takes N * O * 4 bytes of SBUF in
each partition, so O is cut into blocks where that exceeds HALF, and e is read once per block.
Bound by the Tensor Engine on trn2 and trn3; on trn1 by DMA, whose rows here are one tile of X long.
"""

from trnsci.nki import K_TILE, M_TILE, N_TILE, P_MAX, QUEUES, Axis, load, mine, nisa, nki, nl, require, store, tiles

# Bytes of SBUF in each partition for the half-transformed integrals of one tile of X.
HALF = P_MAX * 1024
# Bytes in each partition for the tiles of e of one step, all of M.
CHUNK = 16 * 1024
AXES = (
    Axis(P_MAX, {"e_hbm": 2}, (2,)),
    Axis(P_MAX, {"left_hbm": 1}, (0,), last=True),
    Axis(K_TILE, {"e_hbm": 1, "right_hbm": 0}, (None,), last=True),
)
# What a search may choose: queues of coefficients and results.
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def ao_to_mo_transform(e_hbm, left_hbm, right_hbm, loads="compiler", stores="compiler"):
    M, N, X = e_hbm.shape
    L, orbitals = left_hbm.shape
    R, A = right_hbm.shape
    require(L == M, f"e and left disagree on M: {M} and {L}")
    require(R == N, f"e and right disagree on N: {N} and {R}")
    out_hbm = nl.ndarray((orbitals, A, X), dtype=nl.float32, buffer=nl.shared_hbm)  # [O, A, X]
    left_sb = []
    for m in tiles(M, K_TILE):
        left_sb.append(load(left_hbm[m.span, 0:orbitals], loads))  # [m, O]
    right_sb = []
    for n in tiles(N, K_TILE):
        right_sb.append(load(right_hbm[n.span, 0:A], loads))  # [n, A]
    # Buffers for all tiles: new ones would hold back the loads behind them until the last are read.
    width = max(1, min(min(orbitals, N_TILE), HALF // (4 * P_MAX * len(tiles(N, K_TILE)))))
    half_sb = nl.ndarray((min(X, P_MAX), min(N, K_TILE), width), dtype=nl.float32, buffer=nl.sbuf)  # [x, n, width]
    halfT_sb = []
    for n in tiles(N, K_TILE):
        halfT_sb.append(nl.ndarray((n.size, width, min(X, P_MAX)), dtype=nl.float32, buffer=nl.sbuf))  # [n, width, x]
    before = None
    for i in tiles(orbitals, width):
        for x in mine(tiles(X, P_MAX)):
            for n in tiles(N, K_TILE):
                chunks = _chunks(M, i, n, x)
                groups = [] if before == None or n.index > 0 else _groups(before)
                # The second contraction of one tile keeps the Tensor Engine busy while the next tile is loaded.
                for piece in range(max(len(chunks), len(groups))):
                    if piece < len(groups):
                        _second(out_hbm, halfT_sb, right_sb, tile=before, some=groups[piece], stores=stores)
                    if piece < len(chunks):
                        _first(half_sb, e_hbm, left_sb, i=i, n=n, x=x, c=chunks[piece])
                _transpose_half(halfT_sb[n.index], half_sb, i, n, x)
            before = (i, x)
    for group in _groups(before) if before != None else []:
        _second(out_hbm, halfT_sb, right_sb, tile=before, some=group, stores=stores)
    return out_hbm


def _chunks(M, i, n, x):
    """Cut a tile of n into multiples of what one bank of results holds, as many as the tiles of e allow."""
    bank = max(1, N_TILE // i.size)
    room = max(1, CHUNK // (4 * x.size * len(tiles(M, K_TILE))))
    return tiles(n.size, bank * max(1, room // bank))


def _groups(tile):
    """Return the orbitals i that fill a bank together with one tile of x."""
    i, x = tile
    return tiles(i.size, max(1, N_TILE // x.size))


def _first(half_sb, e_hbm, left_sb, *, i, n, x, c):
    """Compute half[x, c, i] = sum over m of e[m, c, x] left[m, i], for a piece c of the tile n."""
    M = e_hbm.shape[0]
    rows = slice(n.start + c.start, n.start + c.stop)
    e_sb = []
    for m in tiles(M, K_TILE):
        tile_sb = nl.ndarray((m.size, c.size, x.size), dtype=e_hbm.dtype, buffer=nl.sbuf)  # [m, c, x]
        # Rows are short and many: descriptors written before the launch cost GpSimd nothing.
        nisa.dma_copy(dst=tile_sb, src=e_hbm[m.span, rows, x.span], dge_mode=nisa.dge_mode.none)
        e_sb.append(tile_sb)
    for g in tiles(c.size, max(1, N_TILE // i.size)):
        half_ps = nl.ndarray((x.size, g.size, i.size), dtype=nl.float32, buffer=nl.psum)  # [x, g, i]
        for k in range(g.size):
            for m in tiles(M, K_TILE):
                nisa.nc_matmul(
                    dst=half_ps[:, k, :],
                    stationary=e_sb[m.index][:, g.start + k, :],
                    moving=left_sb[m.index][:, i.span],
                    accumulate=m.index > 0,
                )
        into = slice(c.start + g.start, c.start + g.stop)
        _drain(half_sb[0 : x.size, into, 0 : i.size], half_ps, c.index + g.index)


def _transpose_half(halfT_sb, half_sb, i, n, x):
    """Transpose: halfT[n, i, x] = half[x, n, i], several i to a bank."""
    for some in tiles(i.size, max(1, N_TILE // x.size)):
        halfT_ps = nl.ndarray((n.size, some.size, x.size), dtype=nl.float32, buffer=nl.psum)  # [n, some, x]
        for s in range(some.size):
            nisa.nc_transpose(dst=halfT_ps[:, s, :], data=half_sb[0 : x.size, 0 : n.size, some.start + s])
        _drain(halfT_sb[:, some.span, 0 : x.size], halfT_ps, some.index)


def _second(out_hbm, halfT_sb, right_sb, *, tile, some, stores):
    """Compute out[i, a, x] = sum over n of right[n, a] halfT[n, i, x], for some i side by side."""
    A = out_hbm.shape[1]
    i, x = tile
    for a in tiles(A, M_TILE):
        out_ps = nl.ndarray((a.size, some.size, x.size), dtype=nl.float32, buffer=nl.psum)  # [a, some, x]
        for n in range(len(halfT_sb)):
            nisa.nc_matmul(
                dst=out_ps,
                stationary=right_sb[n][:, a.span],
                moving=halfT_sb[n][:, some.span, 0 : x.size],
                accumulate=n > 0,
            )
        out_sb = nl.ndarray((a.size, some.size, x.size), dtype=nl.float32, buffer=nl.sbuf)  # [a, some, x]
        _drain(out_sb, out_ps, a.index)
        for s in range(some.size):
            store(out_hbm[i.start + some.start + s, a.span, x.span], out_sb[:, s, :], stores)


def _drain(dst_sb, src_ps, turn):
    """Copy out of PSUM, on two engines in turn."""
    if turn % 2 == 0:
        nisa.activation(dst=dst_sb, op=nl.copy, data=src_ps)
    else:
        nisa.tensor_copy(dst=dst_sb, src=src_ps, engine=nisa.engine.vector)
