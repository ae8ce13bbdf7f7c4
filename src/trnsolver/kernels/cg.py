"""Conjugate-gradient steps on a[N, N] with x, r, d[N, K] on chip: x, r, d after the steps, and norm(r)**2 of each.

The matrix and all vectors stay in SBUF. Inner products over partitions are products with a matrix of ones, which leave
the sum in every partition, where the next instruction wants it. Bound by the chain of a step, not by the products.
"""

from trnsci.nki import M_TILE, N_TILE, P_MAX, QUEUES, SPARE, even, keep_up, mine, nisa, nki, nl, store, tiles
from trnsolver.kernels._tiles import _accumulate, _inner, _load_state, _store_state, _three_results

N_MAX = 16 * P_MAX
K_MAX = N_TILE
# Added to denominators: a column that is done has 0 / 0 steps to go.
TINY = 1e-37
# What a search may choose: columns of products that keep the clock up, queues.
CHOICES = {"spare": SPARE, "loads": QUEUES, "stores": QUEUES}


@nki.jit
def cg(a_hbm, x_hbm, r_hbm, d_hbm, steps=16, spare=0, loads="compiler", stores="compiler"):
    N, K = x_hbm.shape
    history_hbm = nl.ndarray((steps, K), dtype=nl.float32, buffer=nl.shared_hbm)  # [steps, K]
    outs_hbm = _three_results(N, K)
    # columns are systems of their own: two cores share them
    for c in mine(tiles(K, even(K, K_MAX))):
        state = _load_state(a_hbm, x_hbm, r_hbm, d_hbm, c, loads)
        _iterate(history_hbm, state, c, steps=steps, spare=spare, stores=stores)
        _store_state(outs_hbm, state[1], state[2], state[3], c, stores)
    return outs_hbm[0], outs_hbm[1], outs_hbm[2], history_hbm


def _iterate(history_hbm, state, c, *, steps, spare, stores):
    """Take the steps, in place."""
    a_sb, x_sb, r_sb, d_sb, ones_sb = state
    N, K = a_sb[0].shape[1], c.size
    q_sb = []
    for m in tiles(N, M_TILE):
        q_sb.append(nl.ndarray((m.size, K), dtype=nl.float32, buffer=nl.sbuf))  # [m, K]
    rr_ps = _inner(r_sb, r_sb, ones_sb)
    for step in range(steps):
        for m in tiles(N, M_TILE):
            q_ps = nl.ndarray((m.size, K), dtype=nl.float32, buffer=nl.psum)  # [m, K]
            _accumulate(q_ps, a_sb, d_sb, m.span, slice(0, K))
            nisa.tensor_copy(dst=q_sb[m.index], src=q_ps)
        alpha_sb = _quotient(rr_ps, _inner(d_sb, q_sb, ones_sb))
        keep_up(ones_sb, alpha_sb, spare)
        for m in tiles(N, M_TILE):
            _add(r_sb[m.index], alpha_sb, q_sb[m.index], nl.subtract, nisa.engine.vector)
            # nothing waits for x
            _add(x_sb[m.index], alpha_sb, d_sb[m.index], nl.add, nisa.engine.gpsimd)
        next_ps = _inner(r_sb, r_sb, ones_sb)
        store(history_hbm[step : step + 1, c.span], next_ps[0:1, 0:K], stores)
        beta_sb = _quotient(next_ps, rr_ps)
        rr_ps = next_ps
        for m in tiles(N, M_TILE):
            nisa.tensor_tensor(dst=d_sb[m.index], data1=d_sb[m.index], data2=beta_sb[0 : m.size, 0:K], op=nl.multiply)
            nisa.tensor_tensor(dst=d_sb[m.index], data1=d_sb[m.index], data2=r_sb[m.index], op=nl.add)


def _quotient(x_ps, y_ps):
    K = x_ps.shape[1]
    quotient_sb = nl.ndarray((P_MAX, K), dtype=nl.float32, buffer=nl.sbuf)  # [n, K]
    nisa.tensor_scalar(dst=quotient_sb, data=y_ps, op0=nl.add, operand0=TINY, op1=nl.power, operand1=-1.0)
    nisa.tensor_tensor(dst=quotient_sb, data1=quotient_sb, data2=x_ps, op=nl.multiply)
    return quotient_sb


def _add(x_sb, factor_sb, d_sb, op, engine):
    """Add factor d to x, or subtract it."""
    m = x_sb.shape[0]
    K = x_sb.shape[1]
    step_sb = nl.ndarray((m, K), dtype=nl.float32, buffer=nl.sbuf)  # [m, K]
    nisa.tensor_tensor(dst=step_sb, data1=d_sb, data2=factor_sb[0:m, 0:K], op=nl.multiply, engine=engine)
    nisa.tensor_tensor(dst=x_sb, data1=x_sb, data2=step_sb, op=op, engine=engine)
