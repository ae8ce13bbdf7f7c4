"""c_g[M_g, N_g] = aT_g[K_g, M_g].T @ b_g[K_g, N_g] for a list of shapes, in one program.

Each product is the one of ``gemm``; products follow each other without a gap, so that one drains while the next loads.
"""

from trnblas.kernels.gemm import _product
from trnsci.nki import nki, nl


@nki.jit
def grouped(aT_hbm, b_hbm, half=False):
    found = []
    for g in range(len(aT_hbm)):
        M, N = aT_hbm[g].shape[2], b_hbm[g].shape[2]
        dtype = aT_hbm[g].dtype if half else nl.float32
        out_hbm = nl.ndarray((1, M, N), dtype=dtype, buffer=nl.shared_hbm)  # [1, M_g, N_g]
        _product(out_hbm, aT_hbm[g], b_hbm[g], (None, None, None, "none"), 0, 0, 0)
        found.append(out_hbm)
    return tuple(found)
