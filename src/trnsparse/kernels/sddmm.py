"""out[p] = a[entries[p, 0], :] . b[entries[p, 1], :], one partition for each sampled entry.

Rows of a and b are gathered by indirect DMA; the Vector Engine multiplies and adds. Bound by the gathers.
"""

from trnsci.nki import N_TILE, P_MAX, QUEUES, Axis, elementwise, load, mine, nisa, nki, nl, store, tiles

WIDTH = 4 * N_TILE
AXES = (Axis(P_MAX, {"entries_hbm": 0}, (0,)),)
# What a search may choose: queues of what is not gathered.
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def sddmm(entries_hbm, a_hbm, b_hbm, loads="compiler", stores="compiler"):
    count = entries_hbm.shape[0]
    D = a_hbm.shape[1]
    out_hbm = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [nnz, 1]
    for p in mine(tiles(count, P_MAX)):
        row_sb = load(entries_hbm[p.span, 0:1], loads)  # [p, 1]
        column_sb = load(entries_hbm[p.span, 1:2], loads)  # [p, 1]
        parts = tiles(D, WIDTH)
        part_sb = nl.ndarray((p.size, len(parts)), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
        for d in parts:
            a_sb = _gather_rows(a_hbm, row_sb, p, d)
            b_sb = _gather_rows(b_hbm, column_sb, p, d)
            product_sb = elementwise(a_sb, b_sb, nl.multiply)  # [p, d]
            nisa.tensor_reduce(dst=part_sb[:, d.index : d.index + 1], op=nl.add, data=product_sb, axis=1)
        sum_sb = nl.ndarray((p.size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
        nisa.tensor_reduce(dst=sum_sb, op=nl.add, data=part_sb, axis=1)
        store(out_hbm[p.span, 0:1], sum_sb, stores)
    return out_hbm


def _gather_rows(x_hbm, row_sb, p, d):
    """Load a part of one row of x for each partition."""
    x_sb = nl.ndarray((p.size, d.size), dtype=x_hbm.dtype, buffer=nl.sbuf)  # [p, d]
    rows = x_hbm.ap([[x_hbm.shape[1], p.size], [1, d.size]], offset=d.start, vector_offset=row_sb, indirect_dim=0)
    nisa.dma_copy(dst=x_sb, src=rows)
    return x_sb
