"""out[M, N] = a[M, K] @ b[K, N], a in compressed rows.

Rows go in buckets of one tile. The entries of a bucket, however they lie in its rows, are taken one tile at a
time: their rows of b are gathered by indirect DMA, and one matmul with a selection matrix (the value in the column of
its row) adds every one to its row in PSUM. No row is padded. ``bounds`` are the first entries of the buckets, known
when the kernel is compiled; columns and values are not. Bound by the gather.
"""

from trnsci.nki import K_TILE, M_TILE, N_TILE, PSUM_BANKS, QUEUES, Axis, load, mine, nisa, nki, nl, store, tiles

# Columns of b gathered at a time: half of the PSUM banks, so that one bucket drains while the next one fills.
WIDTH = PSUM_BANKS // 2 * N_TILE
# Tiles of entries that one load brings.
ENTRY_TILES = 64
AXES = (Axis(WIDTH, {"b_hbm": 1}, (1,)),)
# What a search may choose: queues of what is not gathered.
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def spmm(columns_hbm, local_hbm, values_hbm, b_hbm, rows=0, bounds=(), loads="compiler", stores="compiler"):
    N = b_hbm.shape[1]
    out_hbm = nl.ndarray((rows, N), dtype=b_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    count_sb = nl.ndarray((K_TILE, M_TILE), dtype=nl.int32, buffer=nl.sbuf)  # [p, m]
    nisa.iota(dst=count_sb, pattern=[[1, M_TILE]])
    place_sb = nl.ndarray((K_TILE, M_TILE), dtype=nl.float32, buffer=nl.sbuf)  # [p, m]
    nisa.tensor_copy(dst=place_sb, src=count_sb)
    for w in tiles(N, WIDTH):
        for m in mine(tiles(rows, M_TILE)):
            _bucket(
                out_hbm,
                (columns_hbm, local_hbm, values_hbm),
                b_hbm,
                place_sb,
                m=m,
                w=w,
                bounds=bounds,
                loads=loads,
                stores=stores,
            )
    return out_hbm


def _bucket(out_hbm, entries_hbm, b_hbm, place_sb, *, m, w, bounds, loads, stores):
    """Compute one tile of rows."""
    N, first, last = b_hbm.shape[1], bounds[m.index], bounds[m.index + 1]
    c_ps = []
    for n in tiles(w.size, N_TILE):
        c_ps.append(nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum))  # [m, n]
    for p in tiles(last - first, K_TILE):
        if p.index % ENTRY_TILES == 0:
            rest = last - first - p.start
            columns, locals_, values = _entries(entries_hbm, first + p.start, rest, loads)
        column_sb = columns[p.index % ENTRY_TILES]  # [p, 1]
        local_sb = locals_[p.index % ENTRY_TILES]  # [p, 1]
        value_sb = values[p.index % ENTRY_TILES]  # [p, 1]
        b_sb = nl.ndarray((p.size, w.size), dtype=b_hbm.dtype, buffer=nl.sbuf)  # [p, w]
        rows = b_hbm.ap([[N, p.size], [1, w.size]], offset=w.start, vector_offset=column_sb, indirect_dim=0)
        nisa.dma_copy(dst=b_sb, src=rows)
        select_sb = nl.ndarray((p.size, m.size), dtype=b_hbm.dtype, buffer=nl.sbuf)  # [p, m]
        nisa.tensor_scalar(
            dst=select_sb,
            data=place_sb[0 : p.size, 0 : m.size],
            op0=nl.equal,
            operand0=local_sb,
            op1=nl.multiply,
            operand1=value_sb,
        )
        for n in tiles(w.size, N_TILE):
            nisa.nc_matmul(
                dst=c_ps[n.index], stationary=select_sb, moving=b_sb[0 : p.size, n.span], accumulate=p.index > 0
            )
    for n in tiles(w.size, N_TILE):
        to_hbm = out_hbm[m.span, w.start + n.start : w.start + n.stop]
        if last > first:
            store(to_hbm, c_ps[n.index], stores)
        else:
            zero_sb = nl.ndarray((m.size, n.size), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [m, n]
            nisa.memset(dst=zero_sb, value=0.0)
            store(to_hbm, zero_sb, stores)


def _entries(entries_hbm, start, count, loads):
    """Load columns, local rows and values from entry ``start`` on: as many tiles [p, 1] of each as one load brings."""
    whole = min(count // K_TILE, ENTRY_TILES)
    lists = []
    for hbm in entries_hbm:
        held = []
        if whole > 0:
            many_sb = load(hbm.ap([[1, K_TILE], [K_TILE, whole]], offset=start), loads)  # [p, t]
            for t in range(whole):
                held.append(many_sb[:, t : t + 1])
        if whole < ENTRY_TILES and whole * K_TILE < count:
            held.append(load(hbm[start + whole * K_TILE : start + count, 0:1], loads))  # [p, 1]
        lists.append(held)
    return lists[0], lists[1], lists[2]
