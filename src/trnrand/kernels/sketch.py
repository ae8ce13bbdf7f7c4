"""out[R, N] = normals[M, R].T @ a[M, N]; the normals are made on chip and never leave it.

A consumer of random numbers in SBUF: each tile of 128 rows of normals is the stationary operand of a matmul as it is.
Blocks of four run along a row, so partition m of a tile holds blocks m * R / 4 onwards. All of the normals stay in
SBUF (4 M R / 128 bytes a partition) while the columns of ``a`` stream past. Bound by making the normals, or by the
Tensor Engine for large N.
"""

from trnrand.kernels._engines import _counters, _normals, _words
from trnsci.nki import K_TILE, M_TILE, N_TILE, jit, load, nisa, nl, require, store, tiles


@jit
def sketch(start_hbm, a_hbm, size=4, engine="philox4x32"):
    M, N = a_hbm.shape
    require(size % 4 == 0, f"size must be a multiple of 4, the normals of a block, and is {size}")
    blocks = size // 4
    start_sb = load(start_hbm)  # [p, 4 + keys]
    out_hbm = nl.ndarray((size, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [R, N]
    noise = []
    for m in tiles(M, K_TILE):
        words = _words(_counters(start_sb, m.start * blocks, m.size, blocks), start_sb, m.size, blocks, engine)
        noise_sb = nl.ndarray((m.size, size), dtype=nl.float32, buffer=nl.sbuf)  # [m, R]
        _normals(noise_sb, words, m.size, blocks)
        noise.append(noise_sb)
    for n in tiles(N, N_TILE):
        columns = []
        for m in tiles(M, K_TILE):
            columns.append(load(a_hbm[m.span, n.span]))  # [m, n]
        for r in tiles(size, M_TILE):
            out_ps = nl.ndarray((r.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [r, n]
            for m in tiles(M, K_TILE):
                nisa.nc_matmul(
                    dst=out_ps,
                    stationary=noise[m.index][:, r.span],
                    moving=columns[m.index],
                    accumulate=m.index > 0,
                )
            store(out_hbm[r.span, n.span], out_ps)
    return out_hbm
