"""y[B, N, N], wT[B, N, N] with y = wT x[B, N, N] and orthogonal rows in y: one-sided Jacobi for batches.

A matrix in each partition, each row with one of the identity behind it, which collects the rotations. Bound by two
engines that share the rotations.
"""

from trnsci.nki import P_MAX, QUEUES, even, mine, nisa, nki, nl, tiles
from trnsolver.kernels._batches import _all, _at, _read, _tile, _write
from trnsolver.kernels._rotations import _room, _sweep

N_MAX = 64
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def batched_svd(x_hbm, sweeps=8, group=8, loads="compiler", stores="compiler"):
    B, N, _ = x_hbm.shape
    y_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    wT_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    for b in mine(tiles(B, even(B, P_MAX * group))):
        x_sb = _tile(b, 2 * N * N)  # [p, g, 2NN]
        room = _room(b, N, 2 * N)
        staged_sb = room[0]
        whole = _all(x_sb)
        staged = _at(staged_sb, whole, 0, [[N, N], [1, N]])
        left = _at(x_sb, whole, 0, [[2 * N, N], [1, N]])
        right = _at(x_sb, whole, N, [[2 * N, N], [1, N]])
        _read(staged_sb, x_hbm, b, loads)
        nisa.memset(dst=x_sb, value=0.0)
        nisa.memset(dst=_at(x_sb, whole, N, [[2 * N + 1, N]]), value=1.0)
        nisa.tensor_copy(dst=left, src=staged)
        for index in range(sweeps):
            _sweep(room, x_sb, N=N, length=2 * N, width=N, index=index)
        nisa.tensor_copy(dst=staged, src=left)
        _write(y_hbm, staged_sb, b, stores)
        nisa.tensor_copy(dst=_at(staged_sb, whole, N * N, [[N, N], [1, N]]), src=right)
        nisa.tensor_copy(dst=staged, src=_at(staged_sb, whole, N * N, [[N, N], [1, N]]))
        _write(wT_hbm, staged_sb, b, stores)
    return y_hbm, wT_hbm
