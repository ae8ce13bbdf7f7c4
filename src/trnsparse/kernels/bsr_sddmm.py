"""out[block] = aT[D, M].T @ bT[D, N] at the stored blocks of a pattern, which is known when the kernel is compiled.

The columns of bT stay in SBUF where they fit; a block row of aT is loaded once. Two queues issue stores by turns, since
one is slower than the DMA engines. Bound by the DMA that stores blocks.
"""

from trnsci.nki import K_TILE, M_TILE, N_TILE, QUEUES, load, move, my_indices, nisa, nki, nl, store, tiles

RESIDENT = 96 * 1024
# What a search may choose: queues of loads, and of every other store.
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def bsr_sddmm(aT_hbm, bT_hbm, pointers=(), columns=(), block=(), loads="static", stores="compiler"):
    D = aT_hbm.shape[0]
    N = bT_hbm.shape[1]
    bm, bn = block
    out_hbm = nl.ndarray((len(columns), bm, bn), dtype=aT_hbm.dtype, buffer=nl.shared_hbm)  # [blocks, bm, bn]
    width = 2 if bT_hbm.dtype in (nl.bfloat16, nl.float16) else 4
    whole = len(tiles(D, K_TILE)) * N * width <= RESIDENT
    kept = []
    if whole:
        for d in tiles(D, K_TILE):
            kept.append(load(bT_hbm[d.span, 0:N], loads))  # [d, N]
    for i in my_indices(len(pointers) - 1):
        if pointers[i + 1] > pointers[i]:
            aT_sb = []
            for d in tiles(D, K_TILE):
                aT_sb.append(load(aT_hbm[d.span, i * bm : (i + 1) * bm], loads))  # [d, bm]
            for p in range(pointers[i], pointers[i + 1]):
                _block(out_hbm, aT_sb, bT_hbm, kept, p=p, first=columns[p] * bn, stores=stores)
    return out_hbm


def _block(out_hbm, aT_sb, bT_hbm, kept, *, p, first, stores):
    """Compute one block of the result."""
    bm, bn = out_hbm.shape[1], out_hbm.shape[2]
    for n in tiles(bn, N_TILE):
        bT_sb = []
        for d in tiles(bT_hbm.shape[0], K_TILE):
            here = slice(first + n.start, first + n.stop)
            bT_sb.append(load(bT_hbm[d.span, here]) if len(kept) == 0 else kept[d.index][:, here])  # [d, n]
        for m in tiles(bm, M_TILE):
            c_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
            for d in tiles(bT_hbm.shape[0], K_TILE):
                nisa.nc_matmul(
                    dst=c_ps, stationary=aT_sb[d.index][:, m.span], moving=bT_sb[d.index], accumulate=d.index > 0
                )
            if p % 2 == 0:
                store(out_hbm[p, m.span, n.span], c_ps, stores)
            else:
                c_sb = nl.ndarray(c_ps.shape, dtype=out_hbm.dtype, buffer=nl.sbuf)  # [m, n]
                nisa.tensor_copy(dst=c_sb, src=c_ps)
                move(out_hbm[p, m.span, n.span], c_sb, "static")
