"""q[B, M, N], r[B, N, N] with a[B, M, N] = q r, and what says whether q can be trusted: products but for short chains.

Panels of 128 columns are orthogonalised in turn: with the Cholesky factor u of p.T p, q = p inv(u), whose transpose
follows the factor's elimination as further columns; the columns on the right lose their part along q. What
rounding leaves, e = q.T q - 1, grows with the squared condition of the panels and with that of all. Two sweeps over the
whole remove it, q (1 - h) with h + h.T = e and h upper triangular, each of which squares e; r is the triangle of q.T a.
The squares of e before the last sweep are returned: the caller keeps q where they are small, and reflects otherwise.
Bound by the chain of pivots, and by the Tensor Engine for tall matrices.
"""

from trnsci.nki import (
    M_TILE,
    N_TILE,
    P_MAX,
    QUEUES,
    Axis,
    full,
    load,
    multiply_add,
    my_indices,
    nisa,
    nki,
    nl,
    store,
    tiles,
    triangle,
)
from trnsolver.kernels._block_row import _copy_out, _diagonal_blocks, _solve
from trnsolver.kernels._tiles import _accumulate, _subtract_in_place

N_MAX = 8 * P_MAX
# q and its transpose stay on chip, 128 KiB of each partition for so many elements in whole tiles.
MN_MAX = 16 * P_MAX * N_MAX
SWEEPS = 2
AXES = (Axis(1, {"a_hbm": 0}, (0, 0, 0)),)
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def qr(a_hbm, eye_hbm, loads="compiler", stores="compiler"):
    B, M, N = a_hbm.shape
    q_hbm = nl.ndarray((B, M, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, M, N]
    r_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    square_hbm = nl.ndarray((B, N, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, 1]
    eye_sb = load(eye_hbm[0:P_MAX, 0:P_MAX], loads)  # [k, m]
    minus_sb = nl.ndarray((P_MAX, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [k, m]
    nisa.tensor_scalar(dst=minus_sb, data=eye_sb, op0=nl.multiply, operand0=-1.0)
    halves_sb = _halves(eye_sb)
    for b in my_indices(B):
        q_sb, qT_sb = [], []
        for m in tiles(M, M_TILE):
            q_sb.append(load(a_hbm[b, m.span, 0:N], loads))  # [m, N]
        for c in tiles(N, M_TILE):
            qT_sb.append(_panel(q_sb, eye_sb, minus_sb, c, M))
        h_sb = _upper_rows(N)
        for sweep in range(SWEEPS):
            last = sweep + 1 == SWEEPS
            _overlap(h_sb, q_sb, eye_sb, halves_sb)
            if last:
                _store_squares(square_hbm, h_sb, b)
            _sweep(q_sb, qT_sb, h_sb, last)
        for m in tiles(M, M_TILE):
            store(q_hbm[b, m.span, 0:N], q_sb[m.index], stores)
        _store_triangle_of(r_hbm, a_hbm, q_sb, b=b, loads=loads, stores=stores)
    return q_hbm, r_hbm, square_hbm


def _halves(eye_sb):
    """One above the diagonal, a half on it, zero below."""
    ones_sb = full((P_MAX, P_MAX), 1.0)  # [k, m]
    halves_sb = triangle(ones_sb, True)  # [k, m]
    multiply_add(halves_sb, eye_sb, -0.5, halves_sb)
    return halves_sb


def _panel(q_sb, eye_sb, minus_sb, c, M):
    """Orthogonalise columns c, and take them off those on their right. Returns [u | q.T] of the panel, [c, c + M]."""
    w = c.size
    N = q_sb[0].shape[1]
    row_sb = nl.ndarray((w, w + M), dtype=nl.float32, buffer=nl.sbuf)  # [c, c + M]
    gram_ps = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.psum)  # [c, c]
    _accumulate(gram_ps, q_sb, q_sb, c.span, c.span)
    nisa.tensor_copy(dst=row_sb[0:w, 0:w], src=gram_ps)
    for m in tiles(M, M_TILE):
        transposed_ps = nl.ndarray((w, m.size), dtype=nl.float32, buffer=nl.psum)  # [c, m]
        nisa.nc_transpose(dst=transposed_ps, data=q_sb[m.index][0 : m.size, c.span])
        _copy_out(row_sb[0:w, w + m.start : w + m.stop], transposed_ps, 1.0, False)
    s, xT_sb = _diagonal_blocks(row_sb, w, l_sb=None, at=0, eye_sb=eye_sb, minus_sb=minus_sb)
    _solve(row_sb, xT_sb, s, slice(w, w + M), True)
    for m in tiles(M, M_TILE):
        transposed_ps = nl.ndarray((m.size, w), dtype=nl.float32, buffer=nl.psum)  # [m, c]
        nisa.nc_transpose(dst=transposed_ps, data=row_sb[0:w, w + m.start : w + m.stop])
        _copy_out(q_sb[m.index][0 : m.size, c.span], transposed_ps, 1.0, m.index % 2 == 0)
    # The next panel first.
    near = min(N, c.stop + M_TILE)
    _project(q_sb, row_sb, c, slice(c.stop, near))
    _project(q_sb, row_sb, c, slice(near, N))
    return row_sb


def _project(q_sb, qT_sb, c, right):
    """Subtract q q.T x from columns x on the right of panel c."""
    w = c.size
    M = qT_sb.shape[1] - w
    for f in tiles(right.stop - right.start, N_TILE):
        here = slice(right.start + f.start, right.start + f.stop)
        inner_ps = nl.ndarray((w, f.size), dtype=nl.float32, buffer=nl.psum)  # [c, f]
        _accumulate(inner_ps, q_sb, q_sb, c.span, here)
        inner_sb = nl.ndarray((w, f.size), dtype=nl.float32, buffer=nl.sbuf)  # [c, f]
        nisa.tensor_copy(dst=inner_sb, src=inner_ps)
        for m in tiles(M, M_TILE):
            _subtract_in_place(q_sb[m.index][0 : m.size, here], qT_sb[0:w, w + m.start : w + m.stop], inner_sb)


def _upper_rows(N):
    """Block rows of zeros [k, N]."""
    rows_sb = []
    for k in tiles(N, M_TILE):
        row_sb = nl.ndarray((k.size, N), dtype=nl.float32, buffer=nl.sbuf)  # [k, N]
        nisa.memset(dst=row_sb, value=0.0, engine=nisa.engine.gpsimd)
        rows_sb.append(row_sb)
    return rows_sb


def _overlap(h_sb, q_sb, eye_sb, halves_sb):
    """Set h to the upper triangle of q.T q - 1, its diagonal halved."""
    N = q_sb[0].shape[1]
    for k in tiles(N, M_TILE):
        h_row_sb = h_sb[k.index]
        for f in tiles(N - k.start, N_TILE):
            here = slice(k.start + f.start, k.start + f.stop)
            inner_ps = nl.ndarray((k.size, f.size), dtype=nl.float32, buffer=nl.psum)  # [k, f]
            _accumulate(inner_ps, q_sb, q_sb, k.span, here)
            _copy_out(h_row_sb[0 : k.size, here], inner_ps, 1.0, False)
        corner_sb = h_row_sb[0 : k.size, k.span]
        nisa.tensor_tensor(dst=corner_sb, data1=corner_sb, data2=eye_sb[0 : k.size, 0 : k.size], op=nl.subtract)
        nisa.tensor_tensor(dst=corner_sb, data1=corner_sb, data2=halves_sb[0 : k.size, 0 : k.size], op=nl.multiply)


def _store_squares(square_hbm, h_sb, b):
    """Store the sum of squares of each row of h."""
    N = h_sb[0].shape[1]
    for k in tiles(N, M_TILE):
        scratch_sb = nl.ndarray((k.size, N), dtype=nl.float32, buffer=nl.sbuf)  # [k, N]
        sum_sb = nl.ndarray((k.size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [k, 1]
        nisa.activation_reduce(dst=scratch_sb, op=nl.square, data=h_sb[k.index], reduce_op=nl.add, reduce_res=sum_sb)
        store(square_hbm[b, k.span, 0:1], sum_sb, "compiler")


def _sweep(q_sb, qT_sb, h_sb, last):
    """Set q to q (1 - h), and its transpose unless this is the last sweep."""
    N = q_sb[0].shape[1]
    M = qT_sb[0].shape[1] - qT_sb[0].shape[0]
    for m in tiles(M, M_TILE):
        for f in tiles(N, N_TILE):
            part_ps = nl.ndarray((m.size, f.size), dtype=nl.float32, buffer=nl.psum)  # [m, f]
            for k in tiles(f.stop, M_TILE):
                nisa.nc_matmul(
                    dst=part_ps,
                    stationary=qT_sb[k.index][0 : k.size, k.size + m.start : k.size + m.stop],
                    moving=h_sb[k.index][0 : k.size, f.span],
                    accumulate=k.index > 0,
                )
            x_sb = q_sb[m.index][0 : m.size, f.span]
            nisa.tensor_tensor(dst=x_sb, data1=x_sb, data2=part_ps, op=nl.subtract)
    if not last:
        for m in tiles(M, M_TILE):
            for k in tiles(N, M_TILE):
                transposed_ps = nl.ndarray((k.size, m.size), dtype=nl.float32, buffer=nl.psum)  # [k, m]
                nisa.nc_transpose(dst=transposed_ps, data=q_sb[m.index][0 : m.size, k.span])
                there = qT_sb[k.index][0 : k.size, k.size + m.start : k.size + m.stop]
                _copy_out(there, transposed_ps, 1.0, (m.index + k.index) % 2 == 0)


def _store_triangle_of(r_hbm, a_hbm, q_sb, *, b, loads, stores):
    """Store q.T a on and right of the blocks on the diagonal, zeros on their left."""
    N = r_hbm.shape[1]
    M = a_hbm.shape[1]
    for f in tiles(N, N_TILE):
        a_sb = []
        for m in tiles(M, M_TILE):
            a_sb.append(load(a_hbm[b, m.span, f.span], loads))  # [m, f]
        for k in tiles(N, M_TILE):
            if k.start < f.stop:
                inner_ps = nl.ndarray((k.size, f.size), dtype=nl.float32, buffer=nl.psum)  # [k, f]
                _accumulate(inner_ps, q_sb, a_sb, k.span, slice(0, f.size))
                store(r_hbm[b, k.span, f.span], inner_ps, stores)
            else:
                zero_sb = full((k.size, f.size), 0.0)  # [k, f]
                store(r_hbm[b, k.span, f.span], zero_sb, stores)
