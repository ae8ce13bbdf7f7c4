"""out[M, N] = a[M, K] @ b[K, N], a in blocks: one matmul for each stored block, nothing for the others.

``tiles_hbm`` [k, T * height] holds the transposed blocks side by side, so that one DMA brings several. ``chunks`` is
the pattern, known when the kernel is compiled: for each block row, for each tile, the runs of rows of b it meets. Rows
of b lie in SBUF, loaded when first met, as long as they fit. Bound by the Tensor Engine in fp32 and, from four blocks
in a block row on, in bf16.
"""

from trnsci.nki import K_TILE, M_TILE, N_TILE, P_MAX, jit, load, nisa, nl, store, tiles

# Bytes of SBUF in each partition: all of b in one column tile may take so much to stay, one load of blocks so much.
RESIDENT = 1 << 17
GROUP = 8 * 1024


@jit
def bsr_spmm(tiles_hbm, b_hbm, rows=0, height=0, chunks=()):
    K, N = b_hbm.shape
    out_hbm = nl.ndarray((rows, N), dtype=b_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    width = 2 if b_hbm.dtype in (nl.bfloat16, nl.float16) else 4
    keep = len(tiles(K, K_TILE)) * min(N, N_TILE) * width <= RESIDENT
    for n in tiles(N, N_TILE):
        _columns(out_hbm, tiles_hbm, b_hbm, n, height, chunks, keep, max(1, GROUP // (height * width)))
    return out_hbm


def _columns(out_hbm, tiles_hbm, b_hbm, n, height, chunks, keep, group):
    """One column tile of the result."""
    depth, total = tiles_hbm.shape
    kept = [None] * (len(tiles(b_hbm.shape[0], K_TILE)) if keep else 0)
    at, loaded, a_sb = 0, -1, None
    for i in range(len(chunks)):
        size = min(height, out_hbm.shape[0] - i * height)
        met = False
        c_ps = []
        for m in tiles(size, M_TILE):
            c_ps.append(nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum))  # [m, n]
        for chunk in chunks[i]:
            if at // group != loaded:
                loaded = at // group
                a_sb = load(tiles_hbm[0:depth, loaded * group * height : min((loaded + 1) * group * height, total)])
            if len(chunk) > 0:
                b_sb, k = _moving(b_hbm, chunk, kept, n, depth)
                first = (at % group) * height
                for m in tiles(size, M_TILE):
                    nisa.nc_matmul(
                        dst=c_ps[m.index],
                        stationary=a_sb[0:k, first + m.start : first + m.stop],
                        moving=b_sb[0:k, 0 : n.size],
                        accumulate=met,
                    )
                met = True
            at += 1
        for m in tiles(size, M_TILE):
            here = slice(i * height + m.start, i * height + m.stop)
            if met:
                store(out_hbm[here, n.span], c_ps[m.index])
            else:
                zero_sb = nl.ndarray((m.size, n.size), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [m, n]
                nisa.memset(dst=zero_sb, value=0.0)
                store(out_hbm[here, n.span], zero_sb)


def _moving(b_hbm, chunk, kept, n, depth):
    """The rows of b one tile meets, stacked over the partitions, and how many."""
    start, k = chunk[0]
    whole = len(chunk) == 1 and start % K_TILE == 0
    if whole and len(kept) > 0:
        place = start // K_TILE
        if kept[place] is None:
            kept[place] = load(b_hbm[start : min(start + P_MAX, b_hbm.shape[0]), n.span])  # [k, n]
        return kept[place], k
    b_sb = nl.ndarray((depth, n.size), dtype=b_hbm.dtype, buffer=nl.sbuf)  # [k, n]
    k = 0
    for run in chunk:
        nisa.dma_copy(dst=b_sb[k : k + run[1], 0 : n.size], src=b_hbm[run[0] : run[0] + run[1], n.span])
        k += run[1]
    return b_sb, k
