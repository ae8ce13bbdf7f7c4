"""l[B, M, K], u[B, K, N], rows[B, K, 1] with a[rows] = l u: LU with partial pivoting, K = min(M, N).

No row moves: row p T + t of the matrix stays in partition p, T of them in each, and the host puts rows in order at the
end. Panels of 32 columns are eliminated with their pivots and the inverse of their unit triangle; the pivot rows of
the other columns are gathered by products with the pivots' ones, u follows from the inverse, and what it accounts for
is taken off, of the next panel first. Bound by the chain of pivot searches, some ten dependent instructions each.
"""

from trnsci.nki import (
    N_TILE,
    P_MAX,
    QUEUES,
    Axis,
    full,
    load,
    move,
    my_indices,
    nisa,
    nki,
    nl,
    product,
    store,
    tiles,
    triangle,
)
from trnsolver.kernels._pivoting import _magnitude, _pivot
from trnsolver.kernels._tiles import _subtract_in_place

N_MAX = 8 * P_MAX
M_MAX = 16 * N_MAX
# Entries of the matrix that a partition holds.
HELD = 8 * N_MAX
# Columns of a panel, fewer where a partition has many rows: passes over the panel are what a pivot waits for.
PANEL = 32
LEAST = 8
WIDE = 4 * P_MAX
# Pivots between two shares of the products that can wait.
EVERY = 10
AXES = (Axis(1, {"a_hbm": 0}, (0, 0, 0)),)
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def lu(a_hbm, rank_hbm, index_hbm, live_hbm, eye_hbm, rows=1, loads="compiler", stores="compiler"):
    """Factor the first ``rows`` of ``a`` [B, P T, N]; at its end are zeros, where ``live`` [P, T] is zero.

    ``rank`` and ``index`` [P, T] hold each row's rank, descending, as `_pivoting` wants it, and its index.
    """
    B, _, N = a_hbm.shape
    P, T = rank_hbm.shape
    K = min(rows, N)
    l_hbm = nl.ndarray((B, P * T, K), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, P T, K]
    u_hbm = nl.ndarray((B, K, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, K, N]
    rows_hbm = nl.ndarray((B, K, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, K, 1]
    rank_sb = load(rank_hbm, loads)  # [p, T]
    index_sb = load(index_hbm, loads)  # [p, T]
    eye_sb = load(eye_hbm, loads)  # [k, m]
    panel = max(LEAST, min(PANEL, WIDE // T))
    kept = _magnitude(P * T)
    for b in my_indices(B):
        a_sb = nl.ndarray((P, T, N), dtype=nl.float32, buffer=nl.sbuf)  # [p, T, N]
        move(a_sb, a_hbm.ap([[T * N, P], [N, T], [1, N]], offset=b * P * T * N), loads)
        all_sb = nl.ndarray((P, T, K), dtype=nl.float32, buffer=nl.sbuf)  # [p, T, K]
        free_sb = load(live_hbm, loads)  # [p, T]
        search = (free_sb, rank_sb, kept)
        before = None
        for c in tiles(K, panel):
            parts = _panel_columns(a_sb, all_sb, search, eye_sb, before=before, u_hbm=u_hbm, b=b, c=c, panel=panel)
            near = min(N, c.stop + panel)
            _columns(u_hbm, a_sb, parts, b=b, c=c, right=slice(c.stop, near))
            _store_panel(u_hbm, rows_hbm, parts, index_sb, b=b, c=c)
            before = (c, parts)
        if before != None:
            _columns(u_hbm, a_sb, before[1], b=b, c=before[0], right=slice(min(N, K + panel), N))
        move(l_hbm.ap([[T * K, P], [K, T], [1, K]], offset=b * P * T * K), all_sb, stores)
    return l_hbm, u_hbm, rows_hbm


def _panel_columns(a_sb, all_sb, search, eye_sb, *, before, u_hbm, b, c, panel):
    """Eliminate columns c; meanwhile the panel before is taken off the columns that it has not reached."""
    free_sb, rank_sb, kept = search
    P, T, N = a_sb.shape
    w = c.size
    p_sb = nl.ndarray((P, w, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, c, T]
    l_sb = nl.ndarray((P, w, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, c, T]
    one_sb = nl.ndarray((P, w, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, c, T]
    nisa.tensor_copy(dst=p_sb, src=a_sb.ap([[T * N, P], [1, w], [N, T]], offset=c.start))
    column_sb = nl.ndarray((P, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
    nisa.tensor_copy(dst=column_sb, src=p_sb[0:P, 0, 0:T])
    done = min(N, c.start + panel)
    for j in range(w):
        column_sb = _pivot(p_sb, l_sb, one_sb, free_sb, rank_sb, kept=kept, column_sb=column_sb, j=j)
        if before != None and (j % EVERY == EVERY - 1 or j + 1 == w):
            # Shares of the work that waits, so that it and the chain take turns with PSUM.
            stop = N if j + 1 == w else min(N, done + N_TILE)
            _columns(u_hbm, a_sb, before[1], b=b, c=before[0], right=slice(done, stop))
            done = stop
    # What the products want: a tile [p, c] for each t, and its transpose.
    ones_sb = []
    lT_sb = []
    for t in range(T):
        tile_sb = nl.ndarray((P, w), dtype=nl.float32, buffer=nl.sbuf)  # [p, c]
        nisa.tensor_copy(dst=tile_sb, src=one_sb[0:P, 0:w, t], engine=nisa.engine.gpsimd)
        ones_sb.append(tile_sb)
        part_sb = all_sb[0:P, t, c.span]
        nisa.activation(dst=part_sb, op=nl.copy, data=l_sb[0:P, 0:w, t])
        transposed_ps = nl.ndarray((w, P), dtype=nl.float32, buffer=nl.psum)  # [c, p]
        nisa.nc_transpose(dst=transposed_ps, data=part_sb)
        transposed_sb = nl.ndarray((w, P), dtype=nl.float32, buffer=nl.sbuf)  # [c, p]
        nisa.activation(dst=transposed_sb, op=nl.copy, data=transposed_ps)
        lT_sb.append(transposed_sb)
    return p_sb, ones_sb, lT_sb, _inverse(p_sb, one_sb, eye_sb)


def _inverse(p_sb, one_sb, eye_sb):
    """Return the transpose of the unit triangle's inverse, out of the pivot rows."""
    P, w, T = p_sb.shape
    transposed_ps = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.psum)  # [k, j]
    for t in range(T):
        nisa.nc_matmul(dst=transposed_ps, stationary=p_sb[0:P, 0:w, t], moving=one_sb[0:P, 0:w, t], accumulate=t > 0)
    all_sb = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.sbuf)  # [k, j]
    nisa.tensor_copy(dst=all_sb, src=transposed_ps)
    inverseT_sb = triangle(all_sb, True, -1)  # [k, j]
    nisa.tensor_tensor(dst=inverseT_sb, data1=inverseT_sb, data2=eye_sb[0:w, 0:w], op=nl.add)
    return inverseT_sb


def _columns(u_hbm, a_sb, parts, *, b, c, right):
    """Return rows c of u in columns on the right, and what they account for off the others."""
    P, T, _ = a_sb.shape
    w = c.size
    _, ones_sb, lT_sb, inverseT_sb = parts
    for f in tiles(right.stop - right.start, N_TILE):
        here = slice(right.start + f.start, right.start + f.stop)
        gathered_ps = nl.ndarray((w, f.size), dtype=nl.float32, buffer=nl.psum)  # [c, f]
        for t in range(T):
            nisa.nc_matmul(dst=gathered_ps, stationary=ones_sb[t], moving=a_sb[0:P, t, here], accumulate=t > 0)
        gathered_sb = nl.ndarray((w, f.size), dtype=nl.float32, buffer=nl.sbuf)  # [c, f]
        nisa.tensor_copy(dst=gathered_sb, src=gathered_ps)
        u_sb = product(inverseT_sb, gathered_sb)  # [c, f]
        store(u_hbm[b, c.span, here], u_sb)
        for t in range(T):
            _subtract_in_place(a_sb[0:P, t, here], lT_sb[t], u_sb)


def _store_panel(u_hbm, rows_hbm, parts, index_sb, *, b, c):
    """Store the block of u on the diagonal with zeros on its left, and the pivots' rows."""
    p_sb, ones_sb, _, _ = parts
    P, w, T = p_sb.shape
    own_ps = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.psum)  # [c, c]
    for t in range(T):
        nisa.nc_matmul(dst=own_ps, stationary=ones_sb[t], moving=p_sb[0:P, 0:w, t], accumulate=t > 0)
    store(u_hbm[b, c.span, c.span], own_ps)
    if c.start > 0:
        zero_sb = full((w, c.start), 0.0)  # [c, c]
        store(u_hbm[b, c.span, 0 : c.start], zero_sb)
    row_ps = nl.ndarray((w, 1), dtype=nl.float32, buffer=nl.psum)  # [c, 1]
    for t in range(T):
        nisa.nc_matmul(dst=row_ps, stationary=ones_sb[t], moving=index_sb[0:P, t : t + 1], accumulate=t > 0)
    store(rows_hbm[b, c.span, 0:1], row_ps)
