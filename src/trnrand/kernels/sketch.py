"""out[R, N] = normals[M, R].T @ a[M, N]; the normals are drawn on chip and never leave it.

A consumer of random numbers in SBUF: each tile of 128 rows of normals is the stationary operand of a matmul as it is.
Blocks of four run along a row, so partition m of a tile holds blocks m * R / 4 onwards. All of the normals stay in
SBUF (4 M R / 128 bytes a partition) while the columns of ``a`` stream past. Bound by making the normals, or by the
Tensor Engine for large N.
"""

from trnrand.kernels._engines import BLOCKS, WIDTHS, _counters, _normals, _Start, _words
from trnsci.nki import K_TILE, M_TILE, N_TILE, QUEUES, Axis, load, mine, nisa, nki, nl, require, store, tiles

AXES = (Axis(N_TILE, {"a_hbm": 1}, (1,)),)
# What a search may choose: blocks of a partition, queues.
CHOICES = {"width": WIDTHS, "loads": QUEUES, "stores": QUEUES}


@nki.jit
def sketch(
    start_hbm,
    a_hbm,
    size=4,
    engine="philox4x32",
    width=BLOCKS,
    loads="compiler",
    stores="compiler",
):
    M, N = a_hbm.shape
    require(size % 4 == 0, f"size must be a multiple of 4, the normals of a block, and is {size}")
    start = _Start(start_hbm, engine)
    out_hbm = nl.ndarray((size, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [R, N]
    noise = _noise(start, M, size, engine, width)
    for n in mine(tiles(N, N_TILE), N > N_TILE):
        columns = []
        for m in tiles(M, K_TILE):
            columns.append(load(a_hbm[m.span, n.span], loads))  # [m, n]
        for r in mine(tiles(size, M_TILE), N <= N_TILE):
            out_ps = nl.ndarray((r.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [r, n]
            for m in tiles(M, K_TILE):
                nisa.nc_matmul(
                    dst=out_ps,
                    stationary=noise[m.index][:, r.span],
                    moving=columns[m.index],
                    accumulate=m.index > 0,
                )
            store(out_hbm[r.span, n.span], out_ps, stores)
    return out_hbm


def _noise(start, M, size, engine, width):
    """Compute the normals as tiles [m, R] of 128 rows, as many tiles at once as an instruction handles."""
    blocks = size // 4
    together = max(1, width // blocks)
    noise = []
    for rows in tiles(M // K_TILE, together):
        noise_sb = _draw(start, rows.start * K_TILE * blocks, K_TILE, blocks=blocks, groups=rows.size, engine=engine)
        for i in range(rows.size):
            noise.append(noise_sb[:, i * size : (i + 1) * size])
    done = M // K_TILE * K_TILE
    if done < M:
        noise.append(_draw(start, done * blocks, M - done, blocks=blocks, groups=1, engine=engine))
    return noise


def _draw(start, first, p, *, blocks, groups, engine):
    f = groups * blocks
    words = _words(_counters(start, first, p, f, groups), start, p, f, engine)
    noise_sb = nl.ndarray((p, 4 * f), dtype=nl.float32, buffer=nl.sbuf)  # [p, groups R]
    _normals(noise_sb, words, p, f)
    return noise_sb
