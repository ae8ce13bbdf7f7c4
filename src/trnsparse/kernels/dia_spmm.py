"""out[i, :] = sum over d of diagonals[d, i] * x[i + offsets[d], :]: shifted products, no gather.

A partition has a run of rows, taken in chunks: the chunk of every diagonal and the windows of x that it meets come by
DMA, offsets that lie close share a window. The Vector Engine and GpSimd take half of the diagonals each. Offsets are
known when the kernel is compiled, diagonals are data. Bound by DMA for one column, by these two engines for many.
"""

from trnsci.nki import P_MAX, QUEUES, Axis, Matrix, Tile, mine, nisa, nki, nl, tiles
from trnsparse.kernels._windows import _load_window, _store_window

# Bytes of SBUF in each partition for one chunk, of which some are under way at a time, and columns taken together.
CHUNK = 48 * 1024
WIDTH = P_MAX
AXES = (Axis(WIDTH, {"x_hbm": 1}, (1,)),)
# What a search may choose: queues.
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def dia_spmm(diagonals_hbm, x_hbm, rows=0, offsets=(), loads="static", stores="static"):
    N = x_hbm.shape[1]
    out_hbm = nl.ndarray((rows, N), dtype=x_hbm.dtype, buffer=nl.shared_hbm)  # [M, N]
    run = (rows + P_MAX - 1) // P_MAX
    for n in tiles(N, WIDTH):
        # a diagonal and its product for each engine, two windows, two sums and the result
        words = 4 + 7 * n.size
        for c in mine(tiles(run, max(1, min(run, CHUNK // 4 // words)))):
            out_sb = _chunk(diagonals_hbm, x_hbm, out_hbm, run, c=c, n=n, offsets=offsets, loads=loads)
            _store_window(Matrix(out_hbm, 0, rows, N), out_sb, c.start, run, n=n, queue=stores)
    return out_hbm


def _chunk(diagonals_hbm, x_hbm, out_hbm, run, *, c, n, offsets, loads):
    """Return rows ``c`` of every partition's run, in SBUF."""
    M, D, length = out_hbm.shape[0], len(offsets), diagonals_hbm.shape[1]
    P, x = (M + run - 1) // run, Matrix(x_hbm, 0, x_hbm.shape[0], x_hbm.shape[1])
    engines = (nisa.engine.vector, nisa.engine.gpsimd)
    sums = [None, None]
    x_sb = None
    first = 0
    for d in range(D):
        if d == 0 or offsets[d] - offsets[first] > c.size:
            first = d
            last = d
            while last + 1 < D and offsets[last + 1] - offsets[first] <= c.size:
                last += 1
            width = c.size + offsets[last] - offsets[first]
            x_sb = _load_window(x, c.start + offsets[first], width, P, run, n=n, queue=loads)  # [p, w, n]
        diagonal = Matrix(diagonals_hbm, d * length, length, 1)
        a_sb = _load_window(diagonal, c.start, c.size, P, run, n=Tile(0, 0, 1), queue=loads)  # [p, c, 1]
        at = offsets[d] - offsets[first]
        dtype = nl.float32 if D > 1 else out_hbm.dtype
        term_sb = nl.ndarray((P, c.size, n.size), dtype=dtype, buffer=nl.sbuf)  # [p, c, n]
        factor = a_sb.ap([[c.size, P], [1, c.size], [0, n.size]])
        engine = engines[d % 2]
        nisa.tensor_tensor(dst=term_sb, data1=x_sb[:, at : at + c.size, :], data2=factor, op=nl.multiply, engine=engine)
        if sums[d % 2] == None:
            sums[d % 2] = term_sb
        else:
            nisa.tensor_tensor(dst=sums[d % 2], data1=sums[d % 2], data2=term_sb, op=nl.add, engine=engine)
    if D == 1:
        return sums[0]
    out_sb = nl.ndarray((P, c.size, n.size), dtype=out_hbm.dtype, buffer=nl.sbuf)  # [p, c, n]
    nisa.tensor_tensor(dst=out_sb, data1=sums[0], data2=sums[1], op=nl.add)
    return out_sb
