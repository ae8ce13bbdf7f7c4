"""c_g[M_g, N_g] = aT_g[K_g, M_g].T @ b_g[K_g, N_g] for a list of shapes, in one program.

The matrices of either side lie one after the other in one tensor. Each product is the one of ``gemm``; products follow
each other without a gap, so that one drains while the next loads.
"""

from trnblas.kernels.gemm import ROW_TILES, _product
from trnsci.nki import QUEUES, WARM, Matrix, nki, nl, warm_up

# What a search may choose: row tiles of a block, and queues.
CHOICES = {"row_tiles": (1, 2, 3, 4, 6, 8), "warm": WARM, "loads": QUEUES, "stores": QUEUES}


@nki.jit
def grouped(aT_hbm, b_hbm, shapes=(), half=False, row_tiles=ROW_TILES, warm=0, loads="compiler", stores="compiler"):
    dtype = aT_hbm.dtype if half else nl.float32
    warm_up(warm)
    a_start = 0
    b_start = 0
    products = []
    for shape in shapes:
        M, K, N = shape
        out_hbm = nl.ndarray((1, M, N), dtype=dtype, buffer=nl.shared_hbm)  # [1, M_g, N_g]
        aT, b = Matrix(aT_hbm, a_start, K, M), Matrix(b_hbm, b_start, K, N)
        _product(out_hbm, aT, b, (None, None, None, "none"), i=0, row_tiles=row_tiles, loads=loads, stores=stores)
        products.append(out_hbm)
        a_start = a_start + K * M
        b_start = b_start + K * N
    return tuple(products)
