"""out[M / R, N] of rank r = rows r of the sum over R ranks of aT[K, M].T @ b[K, N]: K is cut between them.

A panel is a few rows of every rank's share. Its partial product goes to HBM, where the ranks add it up and each keeps
its own rows, while the Tensor Engine works on the next panel (two buffers). Bound by the link until a rank's K
is long (one float32 crosses it for every 2 K FLOPs), then by the Tensor Engine.
"""

from trnsci.nki import (
    K_TILE,
    M_TILE,
    N_TILE,
    PSUM_BANKS,
    is_first_core,
    load,
    ncc,
    nisa,
    nki,
    nl,
    require,
    store,
    tiles,
)

ROW_TILES = PSUM_BANKS // 2
# Bytes of SBUF in each partition that all of b may take to be loaded once, and a panel of a to stay.
RESIDENT = 72 << 10
PANEL = 96 << 10


@nki.jit
def sharded_gemm(aT_hbm, b_hbm, ranks):
    K, M = aT_hbm.shape
    K_b, N = b_hbm.shape
    require(K_b == K, f"aT and b disagree on K: {K} and {K_b}")
    require(M % ranks == 0, f"M does not divide between ranks: {M} and {ranks}")
    share = M // ranks
    # as many rows of each share as fill the PSUM banks of a block
    height = max(1, ROW_TILES // ranks) * M_TILE
    width = 2 if b_hbm.dtype in (nl.bfloat16, nl.float16) else 4
    together = []
    for rank in range(ranks):
        together.append(rank)
    group = ncc.ReplicaGroup([together])
    out_hbm = nl.ndarray((share, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [M / R, N]
    partial_hbm = []
    for _ in range(min(2, len(tiles(share, height)))):
        partial_hbm.append(nl.ndarray((ranks * min(height, share), N), dtype=nl.float32, buffer=nl.hbm))  # [R h, N]
    b_sb = []
    if share > height and len(tiles(K, K_TILE)) * N * width <= RESIDENT:
        for k in tiles(K, K_TILE):
            b_sb.append(load(b_hbm[k.span, 0:N]))  # [k, N]
    # one core of a rank takes part in the sums over ranks
    for panel in tiles(share, height) if is_first_core() else []:
        sum_hbm = partial_hbm[panel.index % 2][0 : ranks * panel.size, 0:N]  # [R h, N]
        _panel(sum_hbm, aT_hbm, b_hbm, b_sb, panel=panel, ranks=ranks, width=width)
        ncc.reduce_scatter(
            srcs=[sum_hbm], dsts=[out_hbm[panel.span, 0:N]], replica_group=group, collective_dim=0, op=nl.add
        )
    return out_hbm


def _panel(sum_hbm, aT_hbm, b_hbm, b_sb, *, panel, ranks, width):
    """Multiply the same rows of every share, in blocks of as many row tiles as PSUM holds."""
    K, M = aT_hbm.shape
    N = b_hbm.shape[1]
    aT_sb = []
    # where K is so long that not even a panel of a stays, its tiles stream past like those of b
    if len(tiles(K, K_TILE)) * ranks * panel.size * width <= PANEL:
        for k in tiles(K, K_TILE):
            shares_sb = []
            for rank in range(ranks):
                start = rank * (M // ranks) + panel.start
                shares_sb.append(load(aT_hbm[k.span, start : start + panel.size]))  # [k, h]
            aT_sb.append(shares_sb)
    rows = []
    for rank in range(ranks):
        for m in tiles(panel.size, M_TILE):
            rows.append((rank, m))
    for block in tiles(len(rows), ROW_TILES):
        for n in tiles(N, N_TILE):
            _columns(sum_hbm, aT_hbm, aT_sb, b_hbm, b_sb, rows=rows[block.span], panel=panel, n=n, ranks=ranks)


def _columns(sum_hbm, aT_hbm, aT_sb, b_hbm, b_sb, *, rows, panel, n, ranks):
    """Compute one column tile of a block: each row tile has a bank of its own."""
    K, M = aT_hbm.shape
    c_ps = []
    for i in range(len(rows)):
        m = rows[i][1]
        c_ps.append(nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum))  # [m, n]
    for k in tiles(K, K_TILE):
        moving_sb = load(b_hbm[k.span, n.span]) if len(b_sb) == 0 else b_sb[k.index][:, n.span]  # [k, n]
        for i in range(len(rows)):
            rank, m = rows[i]
            if len(aT_sb) == 0:
                start = rank * (M // ranks) + panel.start + m.start
                fixed_sb = load(aT_hbm[k.span, start : start + m.size])  # [k, m]
            else:
                fixed_sb = aT_sb[k.index][rank][:, m.span]  # [k, m]
            # The first matmul of a tile must overwrite PSUM: a memset does not count on trn1 and trn2.
            nisa.nc_matmul(dst=c_ps[i], stationary=fixed_sb, moving=moving_sb, accumulate=k.index > 0)
    for i in range(len(rows)):
        rank, m = rows[i]
        start = rank * panel.size + m.start
        store(sum_hbm[start : start + m.size, n.span], c_ps[i])
