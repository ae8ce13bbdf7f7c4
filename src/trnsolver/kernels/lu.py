"""lT[B, K, M], u[B, K, N], rows[B, K, 1] with a[rows] = l u: LU with partial pivoting, K = min(M, N).

No row moves. A panel of 128 columns is held transposed, so that a column's pivot is a maximum along the free
dimension; the pivot's place is a row of zeros with a one, used rows are masked, and the pivot rows of a panel are
gathered by one product with the rows of ones. The host puts rows in order at the end. Bound by the Vector Engine's
passes over a column.
"""

from trnsci.nki import M_TILE, N_TILE, P_MAX, load, nisa, nki, nl, store, tiles
from trnsolver.kernels._tiles import _less, _product, _transposed, _upper_inverse

N_MAX = 8 * P_MAX
# The least number whose reciprocal is finite, as a power of two; matrices come scaled to entries near 1.
LEAST = 2.0**-126


@nki.jit
def lu(a_hbm, rank_hbm, masks_hbm):
    B, M, N = a_hbm.shape
    K = min(M, N)
    lT_hbm = nl.ndarray((B, K, M), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, K, M]
    u_hbm = nl.ndarray((B, K, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, K, N]
    rows_hbm = nl.ndarray((B, K, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, K, 1]
    masks_sb = []
    for i in range(masks_hbm.shape[0]):
        masks_sb.append(load(masks_hbm[i, 0:P_MAX, 0:P_MAX]))  # [k, m]
    rank_sb = _spread(load(rank_hbm), min(K, P_MAX))  # [w, M]
    for b in range(B):
        rows_sb = []
        for m in tiles(M, M_TILE):
            rows_sb.append(load(a_hbm[b, m.span, 0:N]))  # [m, N]
        free_sb = nl.ndarray(rank_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [w, M]
        nisa.memset(dst=free_sb, value=1.0)
        for k in tiles(K, M_TILE):
            _panel(lT_hbm, u_hbm, rows_hbm, rows_sb, free_sb, rank_sb, masks_sb, b, k)
    return lT_hbm, u_hbm, rows_hbm


def _spread(row_sb, w):
    """One row in every partition."""
    L = row_sb.shape[1]
    ones_sb = nl.ndarray((1, w), dtype=nl.float32, buffer=nl.sbuf)  # [1, w]
    nisa.memset(dst=ones_sb, value=1.0)
    all_sb = nl.ndarray((w, L), dtype=nl.float32, buffer=nl.sbuf)  # [w, L]
    for c in tiles(L, N_TILE):
        all_ps = nl.ndarray((w, c.size), dtype=nl.float32, buffer=nl.psum)  # [w, c]
        nisa.nc_matmul(dst=all_ps, stationary=ones_sb, moving=row_sb[0:1, c.span], accumulate=False)
        nisa.tensor_copy(dst=all_sb[0:w, c.span], src=all_ps)
    return all_sb


def _panel(lT_hbm, u_hbm, rows_hbm, rows_sb, free_sb, rank_sb, masks_sb, b, k):
    """Factor one block of columns, and update those on its right."""
    M = lT_hbm.shape[2]
    N = u_hbm.shape[2]
    w = k.size
    eye_sb = masks_sb[len(masks_sb) - 1][0:w, 0:w]
    p_sb = nl.ndarray((w, M), dtype=nl.float32, buffer=nl.sbuf)  # [w, M]
    for m in tiles(M, M_TILE):
        turned_ps = nl.ndarray((w, m.size), dtype=nl.float32, buffer=nl.psum)  # [w, m]
        nisa.nc_transpose(dst=turned_ps, data=rows_sb[m.index][0 : m.size, k.span])
        nisa.tensor_copy(dst=p_sb[0:w, m.span], src=turned_ps)
    lT_sb, picks_sb, uT_sb, place_sb = _eliminate(p_sb, free_sb[0:w, 0:M], rank_sb[0:w, 0:M], eye_sb)
    store(lT_hbm[b, k.span, 0:M], lT_sb)
    store(rows_hbm[b, k.span, 0:1], place_sb)
    store(u_hbm[b, k.span, k.span], _transposed(uT_sb))
    if k.start > 0:
        zero_sb = nl.ndarray((w, k.start), dtype=nl.float32, buffer=nl.sbuf)  # [w, k]
        nisa.memset(dst=zero_sb, value=0.0)
        store(u_hbm[b, k.span, 0 : k.start], zero_sb)
    if k.stop < N:
        _update(u_hbm, rows_sb, lT_sb, picks_sb, masks_sb, b, k)


def _eliminate(p_sb, free_sb, rank_sb, eye_sb):
    """The panel's multipliers [w, M], pivots as rows with a one [w, M], its triangle transposed, and pivot places."""
    w = p_sb.shape[0]
    M = p_sb.shape[1]
    lT_sb = nl.ndarray((w, M), dtype=nl.float32, buffer=nl.sbuf)  # [w, M]
    picks_sb = nl.ndarray((w, M), dtype=nl.float32, buffer=nl.sbuf)  # [w, M]
    uT_sb = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.sbuf)  # [w, w]
    place_sb = nl.ndarray((w, 1), dtype=nl.float32, buffer=nl.sbuf)  # [w, 1]
    nisa.memset(dst=lT_sb, value=0.0)
    nisa.memset(dst=picks_sb, value=0.0)
    nisa.memset(dst=place_sb, value=0.0)
    ones_sb = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.sbuf)  # [w, w]
    nisa.memset(dst=ones_sb, value=-1.0)
    # after[p, j] = -1 where column p comes after j.
    after_sb = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.sbuf)  # [w, w]
    nisa.affine_select(
        dst=after_sb,
        pattern=[[-1, w]],
        channel_multiplier=1,
        offset=-1,
        on_true_tile=ones_sb,
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
    )
    nisa.memset(dst=ones_sb, value=1.0)
    select_sb = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.sbuf)  # [w, w]
    x_sb = nl.ndarray((w, M), dtype=nl.float32, buffer=nl.sbuf)  # [w, M]
    y_sb = nl.ndarray((w, M), dtype=nl.float32, buffer=nl.sbuf)  # [w, M]
    pick_sb = nl.ndarray((w, M), dtype=nl.float32, buffer=nl.sbuf)  # [w, M]
    one_sb = []
    for _i in range(6):
        one_sb.append(nl.ndarray((w, 1), dtype=nl.float32, buffer=nl.sbuf))  # [w, 1]
    most_sb, best_sb, pivot_sb, some_sb, across_sb, weight_sb = one_sb
    for j in range(w):
        mine_sb = eye_sb[0:w, j : j + 1]
        nisa.tensor_scalar(dst=select_sb, data=ones_sb, op0=nl.multiply, operand0=mine_sb)
        for c in tiles(M, N_TILE):
            x_ps = nl.ndarray((w, c.size), dtype=nl.float32, buffer=nl.psum)  # [w, c]
            nisa.nc_matmul(dst=x_ps, stationary=select_sb, moving=p_sb[0:w, c.span], accumulate=False)
            nisa.activation(dst=x_sb[0:w, c.span], op=nl.copy, data=x_ps)
        # The largest magnitude among free rows; of equals, the first.
        nisa.tensor_tensor(dst=y_sb, data1=x_sb, data2=free_sb, op=nl.multiply)
        nisa.scalar_tensor_tensor(dst=y_sb, data=y_sb, op0=nl.multiply, operand0=-1.0, op1=nl.maximum, operand1=y_sb)
        nisa.tensor_reduce(dst=most_sb, op=nl.maximum, data=y_sb, axis=1)
        nisa.scalar_tensor_tensor(
            dst=pick_sb, data=y_sb, op0=nl.equal, operand0=most_sb, op1=nl.multiply, operand1=rank_sb
        )
        nisa.tensor_tensor(dst=pick_sb, data1=pick_sb, data2=free_sb, op=nl.multiply)
        nisa.tensor_reduce(dst=best_sb, op=nl.maximum, data=pick_sb, axis=1)
        nisa.tensor_scalar(dst=pick_sb, data=pick_sb, op0=nl.equal, operand0=best_sb)
        nisa.tensor_tensor(dst=free_sb, data1=free_sb, data2=pick_sb, op=nl.subtract)
        nisa.tensor_tensor(dst=y_sb, data1=x_sb, data2=pick_sb, op=nl.multiply)
        nisa.tensor_reduce(dst=pivot_sb, op=nl.add, data=y_sb, axis=1)
        # A pivot of zero, or too small to have a reciprocal: multipliers as small.
        nisa.tensor_scalar(dst=some_sb, data=most_sb, op0=nl.less, operand0=LEAST)
        nisa.tensor_tensor(dst=pivot_sb, data1=pivot_sb, data2=some_sb, op=nl.add)
        nisa.reciprocal(dst=pivot_sb, data=pivot_sb)
        nisa.tensor_tensor(dst=y_sb, data1=p_sb, data2=pick_sb, op=nl.multiply)
        nisa.tensor_reduce(dst=across_sb, op=nl.add, data=y_sb, axis=1)
        nisa.tensor_copy(dst=uT_sb[0:w, j : j + 1], src=across_sb)
        nisa.tensor_tensor(dst=weight_sb, data1=across_sb, data2=after_sb[0:w, j : j + 1], op=nl.multiply)
        nisa.scalar_tensor_tensor(
            dst=x_sb, data=x_sb, op0=nl.multiply, operand0=pivot_sb, op1=nl.multiply, operand1=free_sb
        )
        nisa.scalar_tensor_tensor(dst=p_sb, data=x_sb, op0=nl.multiply, operand0=weight_sb, op1=nl.add, operand1=p_sb)
        _keep(lT_sb, x_sb, mine_sb)
        _keep(picks_sb, pick_sb, mine_sb)
        _keep(place_sb, best_sb, mine_sb)
    return lT_sb, picks_sb, uT_sb, place_sb


def _keep(dst_sb, value_sb, mine_sb):
    """Add the value in one partition."""
    nisa.scalar_tensor_tensor(dst=dst_sb, data=value_sb, op0=nl.multiply, operand0=mine_sb, op1=nl.add, operand1=dst_sb)


def _update(u_hbm, rows_sb, lT_sb, picks_sb, masks_sb, b, k):
    """u12 = inv(l11) a[pivots], corrected once with its residual; then a - l u12."""
    N = u_hbm.shape[2]
    w = k.size
    M = lT_sb.shape[1]
    eye_sb = masks_sb[len(masks_sb) - 1][0:w, 0:w]
    pick_sb = []
    corner_ps = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.psum)  # [w, w]
    for m in tiles(M, M_TILE):
        pick_sb.append(_transposed(picks_sb[0:w, m.span]))
        l_sb = _transposed(lT_sb[0:w, m.span])
        nisa.nc_matmul(dst=corner_ps, stationary=l_sb, moving=pick_sb[m.index], accumulate=m.index > 0)
    corner_sb = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.sbuf)  # [w, w]
    nisa.tensor_tensor(dst=corner_sb, data1=eye_sb, data2=corner_ps, op=nl.add)
    x_sb, _ = _upper_inverse(corner_sb, masks_sb, True)
    for c in tiles(N - k.stop, N_TILE):
        here = slice(k.stop + c.start, k.stop + c.stop)
        right_ps = nl.ndarray((w, c.size), dtype=nl.float32, buffer=nl.psum)  # [w, c]
        for m in tiles(M, M_TILE):
            nisa.nc_matmul(
                dst=right_ps,
                stationary=pick_sb[m.index],
                moving=rows_sb[m.index][0 : m.size, here],
                accumulate=m.index > 0,
            )
        right_sb = nl.ndarray((w, c.size), dtype=nl.float32, buffer=nl.sbuf)  # [w, c]
        nisa.tensor_copy(dst=right_sb, src=right_ps)
        u_sb = _product(x_sb, right_sb)
        again_sb = _product(x_sb, _less(right_sb, corner_sb, u_sb))
        nisa.tensor_tensor(dst=u_sb, data1=u_sb, data2=again_sb, op=nl.add)
        store(u_hbm[b, k.span, here], u_sb)
        for m in tiles(M, M_TILE):
            product_ps = nl.ndarray((m.size, c.size), dtype=nl.float32, buffer=nl.psum)  # [m, c]
            nisa.nc_matmul(dst=product_ps, stationary=lT_sb[0:w, m.span], moving=u_sb, accumulate=False)
            tile_sb = rows_sb[m.index][0 : m.size, here]
            nisa.tensor_tensor(dst=tile_sb, data1=tile_sb, data2=product_ps, op=nl.subtract)
