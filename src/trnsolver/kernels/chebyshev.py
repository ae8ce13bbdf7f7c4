"""Chebyshev steps on a[N, N] with x, r, d[N, K] on chip: x, r, d after the steps, and norm(r)**2 of each.

The coefficients of a step are known beforehand, so nothing waits for an inner product: a step is a product with the
matrix and three passes over the vectors. Coefficients come as a tensor, [P, 2 steps] the same in every partition, so
that one program serves every interval. Bound by the Tensor Engine.
"""

from trnsci.nki import M_TILE, N_TILE, P_MAX, QUEUES, even, load, mine, multiply_add, nisa, nki, nl, store, tiles
from trnsolver.kernels._tiles import _accumulate, _inner, _load_state, _store_state, _three_results

N_MAX = 16 * P_MAX
K_MAX = N_TILE
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def chebyshev(a_hbm, x_hbm, r_hbm, d_hbm, weights_hbm, loads="compiler", stores="compiler"):
    N, K = x_hbm.shape
    steps = weights_hbm.shape[1] // 2
    history_hbm = nl.ndarray((steps, K), dtype=nl.float32, buffer=nl.shared_hbm)  # [steps, K]
    weights_sb = load(weights_hbm, loads)  # [P, 2 steps]
    outs_hbm = _three_results(N, K)
    # columns are systems of their own: two cores share them
    for c in mine(tiles(K, even(K, K_MAX))):
        state = _load_state(a_hbm, x_hbm, r_hbm, d_hbm, c, loads)
        _iterate(history_hbm, state, weights_sb, c, stores)
        _store_state(outs_hbm, state[1], state[2], state[3], c, stores)
    return outs_hbm[0], outs_hbm[1], outs_hbm[2], history_hbm


def _iterate(history_hbm, state, weights_sb, c, stores):
    """Take the steps, in place."""
    a_sb, x_sb, r_sb, d_sb, ones_sb = state
    N, K = a_sb[0].shape[1], c.size
    for step in range(history_hbm.shape[0]):
        for m in tiles(N, M_TILE):
            q_ps = nl.ndarray((m.size, K), dtype=nl.float32, buffer=nl.psum)  # [m, K]
            _accumulate(q_ps, a_sb, d_sb, m.span, slice(0, K))
            nisa.tensor_tensor(dst=r_sb[m.index], data1=r_sb[m.index], data2=q_ps, op=nl.subtract)
        for m in tiles(N, M_TILE):
            here_sb = weights_sb[0 : m.size, 2 * step : 2 * step + 1]
            there_sb = weights_sb[0 : m.size, 2 * step + 1 : 2 * step + 2]
            nisa.tensor_tensor(
                dst=x_sb[m.index], data1=x_sb[m.index], data2=d_sb[m.index], op=nl.add, engine=nisa.engine.gpsimd
            )
            scaled_sb = nl.ndarray((m.size, K), dtype=nl.float32, buffer=nl.sbuf)  # [m, K]
            nisa.activation(dst=scaled_sb, op=nl.copy, data=d_sb[m.index], scale=here_sb)
            multiply_add(d_sb[m.index], r_sb[m.index], there_sb, scaled_sb)
        squares_sb = _inner(r_sb, r_sb, ones_sb)
        store(history_hbm[step : step + 1, c.span], squares_sb[0:1, 0:K], stores)
