"""Parts that several kernels share: triangular inverses by doubling, products, transposes and inner products."""

from trnsci.nki import P_MAX, nisa, nl


def _product(stationary_sb, moving_sb):
    """stationary.T moving, in SBUF."""
    m = stationary_sb.shape[1]
    n = moving_sb.shape[1]
    product_ps = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)  # [m, n]
    nisa.nc_matmul(dst=product_ps, stationary=stationary_sb, moving=moving_sb, accumulate=False)
    product_sb = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
    nisa.tensor_copy(dst=product_sb, src=product_ps)
    return product_sb


def _transposed(x_sb):
    """x.T, in SBUF."""
    m = x_sb.shape[0]
    n = x_sb.shape[1]
    transposed_ps = nl.ndarray((n, m), dtype=nl.float32, buffer=nl.psum)  # [n, m]
    nisa.nc_transpose(dst=transposed_ps, data=x_sb)
    transposed_sb = nl.ndarray((n, m), dtype=nl.float32, buffer=nl.sbuf)  # [n, m]
    nisa.tensor_copy(dst=transposed_sb, src=transposed_ps)
    return transposed_sb


def _upper_inverse(u_sb, masks_sb, unit):
    """The inverse x of an upper triangle, and its transpose y.

    From the inverses of neighbouring blocks follows that of the pair, x - x c x, where c is the block above and right
    of the pair. Products need one factor transposed, so the transpose is carried along.
    """
    m = u_sb.shape[0]
    eye_sb = masks_sb[len(masks_sb) - 1][0:m, 0:m]
    # What lies on the other side of the diagonal is not to be read; even a NaN there must not meet a mask.
    kept_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
    nisa.affine_select(
        dst=kept_sb,
        pattern=[[1, m]],
        channel_multiplier=-1,
        offset=-1 if unit else 0,
        on_true_tile=u_sb,
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
    )
    x_sb = eye_sb
    if not unit:
        diagonal_sb = nl.ndarray((m, 1), dtype=nl.float32, buffer=nl.sbuf)  # [m, 1]
        scratch_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
        nisa.tensor_tensor(dst=scratch_sb, data1=kept_sb, data2=eye_sb, op=nl.multiply)
        nisa.tensor_reduce(dst=diagonal_sb, op=nl.add, data=scratch_sb, axis=1)
        nisa.reciprocal(dst=diagonal_sb, data=diagonal_sb)
        x_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
        nisa.tensor_scalar(dst=x_sb, data=eye_sb, op0=nl.multiply, operand0=diagonal_sb)
    y_sb = x_sb
    size = 1
    for level in range(len(masks_sb) - 1):
        if size < m:
            above_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
            nisa.tensor_tensor(dst=above_sb, data1=kept_sb, data2=masks_sb[level][0:m, 0:m], op=nl.multiply)
            # y c.T = (c x).T, of which both x c x and its transpose are products.
            step_sb = _product(above_sb, y_sb)
            next_sb = _less(x_sb, step_sb, x_sb)
            y_sb = _less(y_sb, x_sb, step_sb)
            x_sb = next_sb
        size = 2 * size
    return x_sb, y_sb


def _less(from_sb, stationary_sb, moving_sb):
    """Subtract stationary.T moving."""
    m = from_sb.shape[0]
    n = from_sb.shape[1]
    product_ps = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)  # [m, n]
    nisa.nc_matmul(dst=product_ps, stationary=stationary_sb, moving=moving_sb, accumulate=False)
    left_sb = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
    nisa.tensor_tensor(dst=left_sb, data1=from_sb, data2=product_ps, op=nl.subtract)
    return left_sb


def _inner(x_sb, y_sb, ones_sb):
    """Inner products of columns, in every partition."""
    K = x_sb[0].shape[1]
    sum_ps = nl.ndarray((P_MAX, K), dtype=nl.float32, buffer=nl.psum)  # [n, K]
    for i in range(len(x_sb)):
        m = x_sb[i].shape[0]
        each_sb = nl.ndarray((m, K), dtype=nl.float32, buffer=nl.sbuf)  # [m, K]
        nisa.tensor_tensor(dst=each_sb, data1=x_sb[i], data2=y_sb[i], op=nl.multiply)
        nisa.nc_matmul(dst=sum_ps, stationary=ones_sb[0:m, 0:P_MAX], moving=each_sb, accumulate=i > 0)
    sum_sb = nl.ndarray((P_MAX, K), dtype=nl.float32, buffer=nl.sbuf)  # [n, K]
    nisa.tensor_copy(dst=sum_sb, src=sum_ps)
    return sum_sb
