"""l[B, N, N] with a[B, N, N] = l l.T, block columns of 128, left on chip until stored.

A diagonal tile is factored row by row: the scaled row is a masked copy of the tile, and its outer product with itself
one matrix product. The rows below follow from the inverse of the tile's factor, corrected once with the residual, so
that errors do not grow with the condition of the tile. The rest is products. Bound by the chain of 128 steps of each
tile.
"""

from trnsci.nki import M_TILE, P_MAX, Axis, load, nisa, nki, nl, store, tiles
from trnsolver.kernels._tiles import _less, _product, _transposed, _upper_inverse

N_MAX = 16 * P_MAX
# How a launch that would be too long a program may be cut.
AXES = (Axis(1, {"a_hbm": 0}, (0,)),)


@nki.jit
def cholesky(a_hbm, masks_hbm):
    B, N, _ = a_hbm.shape
    l_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    masks_sb = []
    for i in range(masks_hbm.shape[0]):
        masks_sb.append(load(masks_hbm[i, 0:P_MAX, 0:P_MAX]))  # [k, m]
    for b in range(B):
        rows_sb = []
        for m in tiles(N, M_TILE):
            rows_sb.append(load(a_hbm[b, m.span, 0 : m.stop]))  # [m, M]
        for k in tiles(N, M_TILE):
            _column(l_hbm, rows_sb, masks_sb, b, k)
    return l_hbm


def _column(l_hbm, rows_sb, masks_sb, b, k):
    """Factor block column k, and take its product with itself off what lies right of it."""
    N = l_hbm.shape[1]
    tile_sb = rows_sb[k.index][0 : k.size, k.span]
    u_sb = _factor(tile_sb, masks_sb)
    store(l_hbm[b, k.span, k.span], _transposed(u_sb))
    if k.stop < N:
        zero_sb = nl.ndarray((k.size, N - k.stop), dtype=nl.float32, buffer=nl.sbuf)  # [k, N - k]
        nisa.memset(dst=zero_sb, value=0.0)
        store(l_hbm[b, k.span, k.stop : N], zero_sb)
    if k.stop < N:
        x_sb, _ = _upper_inverse(u_sb, masks_sb, False)
        belowT_sb = []
        for m in tiles(N, M_TILE):
            if m.index > k.index:
                rightT_sb = _transposed(rows_sb[m.index][0 : m.size, k.span])
                # l21.T = inv(l11) a21.T, then once more for the residual.
                solvedT_sb = _product(x_sb, rightT_sb)
                leftT_sb = _less(rightT_sb, u_sb, solvedT_sb)
                again_sb = _product(x_sb, leftT_sb)
                nisa.tensor_tensor(dst=solvedT_sb, data1=solvedT_sb, data2=again_sb, op=nl.add)
                belowT_sb.append(solvedT_sb)
                store(l_hbm[b, m.span, k.span], _transposed(solvedT_sb))
        _update(rows_sb, belowT_sb, k, N)


def _update(rows_sb, belowT_sb, k, N):
    """a22 - l21 l21.T, lower triangle of tiles."""
    first = k.index + 1
    for m in tiles(N, M_TILE):
        if m.index > k.index:
            for n in range(first, m.index + 1):
                width = belowT_sb[n - first].shape[1]
                product_ps = nl.ndarray((m.size, width), dtype=nl.float32, buffer=nl.psum)  # [m, n]
                nisa.nc_matmul(
                    dst=product_ps,
                    stationary=belowT_sb[m.index - first],
                    moving=belowT_sb[n - first],
                    accumulate=False,
                )
                here = rows_sb[m.index][0 : m.size, n * M_TILE : n * M_TILE + width]
                nisa.tensor_tensor(dst=here, data1=here, data2=product_ps, op=nl.subtract)


def _factor(tile_sb, masks_sb):
    """The upper factor of one tile: u.T u = tile. Reads the lower triangle; a pivot that is not positive leaves NaN."""
    m = tile_sb.shape[0]
    eye_sb = masks_sb[len(masks_sb) - 1][0:m, 0:m]
    # The other triangle may hold anything: mirror the lower one.
    lower_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
    nisa.affine_select(
        dst=lower_sb,
        pattern=[[-1, m]],
        channel_multiplier=1,
        offset=0,
        on_true_tile=tile_sb,
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
    )
    a_sb = _transposed(lower_sb)
    strict_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
    nisa.affine_select(
        dst=strict_sb,
        pattern=[[-1, m]],
        channel_multiplier=1,
        offset=-1,
        on_true_tile=tile_sb,
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
    )
    nisa.tensor_tensor(dst=a_sb, data1=a_sb, data2=strict_sb, op=nl.add)
    others_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
    nisa.tensor_scalar(dst=others_sb, data=eye_sb, op0=nl.multiply, operand0=-1.0, op1=nl.add, operand1=1.0)
    u_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
    nisa.memset(dst=u_sb, value=0.0)
    pivot_sb = nl.ndarray((m, 1), dtype=nl.float32, buffer=nl.sbuf)  # [m, 1]
    row_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
    for j in range(m):
        here = slice(j, m)
        # a[j, j] in partition j, 1 in the others; its inverse square root, and zero in the others.
        nisa.tensor_scalar(
            dst=pivot_sb,
            data=a_sb[0:m, j : j + 1],
            op0=nl.multiply,
            operand0=eye_sb[0:m, j : j + 1],
            op1=nl.add,
            operand1=others_sb[0:m, j : j + 1],
        )
        nisa.tensor_scalar(
            dst=pivot_sb,
            data=pivot_sb,
            op0=nl.power,
            operand0=-0.5,
            op1=nl.multiply,
            operand1=eye_sb[0:m, j : j + 1],
        )
        nisa.tensor_scalar(dst=row_sb[0:m, here], data=a_sb[0:m, here], op0=nl.multiply, operand0=pivot_sb)
        nisa.tensor_tensor(
            dst=u_sb[0:m, here],
            data1=u_sb[0:m, here],
            data2=row_sb[0:m, here],
            op=nl.add,
            engine=nisa.engine.gpsimd,
        )
        if j + 1 < m:
            # Columns before j hold zeros in partition j, so that rows that are done stay as they are.
            outer_ps = nl.ndarray((m, m - j), dtype=nl.float32, buffer=nl.psum)  # [m, m - j]
            nisa.nc_matmul(dst=outer_ps, stationary=row_sb, moving=row_sb[0:m, here], accumulate=False)
            nisa.tensor_tensor(dst=a_sb[0:m, here], data1=a_sb[0:m, here], data2=outer_ps, op=nl.subtract)
    return u_sb
