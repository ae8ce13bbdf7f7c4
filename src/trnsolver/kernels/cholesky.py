"""l[B, N, N] with a[B, N, N] = l l.T, block rows of 128 of the upper factor u = l.T, on chip until stored.

Within a block row, blocks of 32 are eliminated one after the other: pivots and inverse in one chain, and with the
inverse the block's rows of u by a product. Rows wait for their corrections until they are next, a - u.T u, which the
Tensor Engine sums up in PSUM. What the next block needs comes first; the rest of a row is worked out while the next
chain runs. Bound by the chain of pivots.
"""

from trnsci.nki import (
    M_TILE,
    N_TILE,
    P_MAX,
    QUEUES,
    Axis,
    full,
    load,
    my_indices,
    nisa,
    nki,
    nl,
    store,
    tiles,
    triangle,
)
from trnsolver.kernels._block_row import _copy_out, _diagonal_blocks, _solve
from trnsolver.kernels._pivots import QUADRANT

N_MAX = 16 * P_MAX
AXES = (Axis(1, {"a_hbm": 0}, (0,)),)
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def cholesky(a_hbm, eye_hbm, loads="compiler", stores="compiler"):
    B, N, _ = a_hbm.shape
    l_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    eye_sb = load(eye_hbm[0:P_MAX, 0:P_MAX], loads)  # [k, m]
    minus_sb = nl.ndarray((P_MAX, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [k, m]
    nisa.tensor_scalar(dst=minus_sb, data=eye_sb, op0=nl.multiply, operand0=-1.0)
    for b in my_indices(B):
        l_sb, u_sb = [], []
        for m in tiles(N, M_TILE):
            l_sb.append(load(a_hbm[b, m.span, 0 : m.stop], loads))  # [m, m.stop]
        _mirror(u_sb, l_sb)
        _factor(u_sb, l_sb, eye_sb, minus_sb)
        _store_lower(l_hbm, u_sb, l_sb, b, stores)
    return l_hbm


def _mirror(u_sb, l_sb):
    """Fill the upper block rows of a symmetric matrix from its lower ones, of which the lower triangle is read."""
    N = l_sb[len(l_sb) - 1].shape[1]
    for m in tiles(N, M_TILE):
        row_sb = nl.ndarray((m.size, N - m.start), dtype=nl.float32, buffer=nl.sbuf)  # [m, N - m]
        here = l_sb[m.index][0 : m.size, m.span]
        lower_sb = triangle(here, False)
        transposed_ps = nl.ndarray((m.size, m.size), dtype=nl.float32, buffer=nl.psum)  # [m, m]
        nisa.nc_transpose(dst=transposed_ps, data=lower_sb)
        nisa.tensor_tensor(
            dst=row_sb[0 : m.size, 0 : m.size], data1=triangle(here, False, -1), data2=transposed_ps, op=nl.add
        )
        u_sb.append(row_sb)
    for m in tiles(N, M_TILE):
        for n in tiles(N, M_TILE):
            if n.index > m.index:
                transposed_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
                nisa.nc_transpose(dst=transposed_ps, data=l_sb[n.index][0 : n.size, m.span])
                there = u_sb[m.index][0 : m.size, n.start - m.start : n.stop - m.start]
                nisa.activation(dst=there, op=nl.copy, data=transposed_ps)


def _factor(u_sb, l_sb, eye_sb, minus_sb):
    """Turn a into u, but for the blocks on the diagonal, which go to l."""
    N = u_sb[0].shape[1]
    rows = tiles(N, M_TILE)
    for m in rows:
        s, xT_sb = _diagonal_blocks(
            u_sb[m.index], m.size, l_sb=l_sb[m.index], at=m.start, eye_sb=eye_sb, minus_sb=minus_sb
        )
        if m.stop < N:
            _near_row(u_sb, xT_sb, minus_sb, m=m, s=s, n=rows[m.index + 1])
            _far_row(u_sb, xT_sb, minus_sb, m=m, s=s, n=rows[m.index + 1])


def _near_row(u_sb, xT_sb, minus_sb, *, m, s, n):
    """Compute the last rows of block row m of u, and bring the next block row, n, up to date on the diagonal."""
    _solve(u_sb[m.index], xT_sb, s, slice(m.size, m.size + n.size), True)
    _sum_up(u_sb, minus_sb, n, slice(0, n.size), True)


def _far_row(u_sb, xT_sb, minus_sb, *, m, s, n):
    """Do the same right of the diagonal."""
    W = u_sb[n.index].shape[1]
    if n.size < W:
        _solve(u_sb[m.index], xT_sb, s, slice(m.size + n.size, m.size + W), False)
        _sum_up(u_sb, minus_sb, n, slice(n.size, W), False)


def _sum_up(u_sb, minus_sb, n, c, on_chain):
    """Block row n of a less what all rows above account for, in columns c of it."""
    row_sb = u_sb[n.index]
    for f in tiles(c.stop - c.start, N_TILE):
        here = slice(c.start + f.start, c.start + f.stop)
        left_ps = nl.ndarray((n.size, f.size), dtype=nl.float32, buffer=nl.psum)  # [n, f]
        nisa.nc_matmul(
            dst=left_ps, stationary=minus_sb[0 : n.size, 0 : n.size], moving=row_sb[0 : n.size, here], accumulate=False
        )
        for k in range(n.index):
            above_sb = u_sb[k]
            back = (n.index - k) * M_TILE
            nisa.nc_matmul(
                dst=left_ps,
                stationary=above_sb[0:P_MAX, back : back + n.size],
                moving=above_sb[0:P_MAX, back + here.start : back + here.stop],
                accumulate=True,
            )
        _copy_out(row_sb[0 : n.size, here], left_ps, -1.0, on_chain)


def _store_lower(l_hbm, u_sb, l_sb, b, stores):
    """Transpose u into l, but for the blocks on the diagonal, which are there; what lies above is left as it is."""
    N = l_hbm.shape[1]
    for n in tiles(N, M_TILE):
        for m in tiles(N, M_TILE):
            if m.index < n.index:
                transposed_ps = nl.ndarray((n.size, m.size), dtype=nl.float32, buffer=nl.psum)  # [n, m]
                back = n.start - m.start
                nisa.nc_transpose(dst=transposed_ps, data=u_sb[m.index][0 : m.size, back : back + n.size])
                nisa.activation(dst=l_sb[n.index][0 : n.size, m.span], op=nl.copy, data=transposed_ps)
        transposed_ps = nl.ndarray((n.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [n, n]
        nisa.nc_transpose(dst=transposed_ps, data=u_sb[n.index][0 : n.size, 0 : n.size])
        for s in tiles(n.size, QUADRANT):
            if s.start > 0:
                there = l_sb[n.index][s.span, n.start : n.start + s.start]
                nisa.activation(dst=there, op=nl.copy, data=transposed_ps[s.span, 0 : s.start])
        store(l_hbm[b, n.span, 0 : n.stop], l_sb[n.index], stores)
        if n.stop < N:
            zero_sb = full((n.size, N - n.stop), 0.0)  # [n, N - n]
            store(l_hbm[b, n.span, n.stop : N], zero_sb, stores)
