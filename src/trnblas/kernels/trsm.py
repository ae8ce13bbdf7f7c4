"""x[B, M, N] with a[B, M, M] x = b[B, M, N], a lower triangular, given transposed as aT.

Diagonal blocks are inverted once, all of them before they are needed: from inverses of neighbouring blocks of size s
follows that of the pair, X - X C X, where C is the block below and left of it. Seven doublings make 128. The transposed
inverse Y is built along, because both orders of the product need a transposed factor. The rest is products. Bound by
the Tensor Engine for wide right-hand sides, by the chain of row blocks for narrow ones.
"""

from trnsci.nki import M_TILE, N_TILE, QUEUES, WARM, Axis, load, nisa, nki, nl, store, tiles, warm_up

# How a launch that would be too long a program may be cut.
AXES = (Axis(1, {"aT_hbm": 0, "b_hbm": 0}, (0,)), Axis(N_TILE, {"b_hbm": 2}, (2,)))
# What a search may choose: queues.
CHOICES = {"warm": WARM, "loads": QUEUES, "stores": QUEUES}


@nki.jit
def trsm(aT_hbm, b_hbm, masks_hbm, unit=False, warm=0, loads="compiler", stores="compiler"):
    B_a, M = aT_hbm.shape[0], aT_hbm.shape[2]
    B, N = b_hbm.shape[0], b_hbm.shape[2]
    out_hbm = nl.ndarray((B, M, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, M, N]
    warm_up(warm)
    masks_sb = []
    for s in range(masks_hbm.shape[0]):
        masks_sb.append(load(masks_hbm[s, 0:M_TILE, 0:M_TILE], loads))  # [k, m]
    aT_sb = None
    inverses_sb = None
    for i in range(B):
        if i < B_a:
            aT_sb = []
            inverses_sb = []
            for k in tiles(M, M_TILE):
                aT_sb.append(load(aT_hbm[i, k.span, k.start : M], loads))  # [k, M - k]
                inverses_sb.append(_inverse(aT_sb[k.index][:, 0 : k.size], masks_sb, unit))
        for n in tiles(N, N_TILE):
            _solve(out_hbm, aT_sb, inverses_sb, b_hbm, i=i, n=n, loads=loads, stores=stores)
    return out_hbm


def _solve(out_hbm, aT_sb, inverses_sb, b_hbm, *, i, n, loads, stores):
    """Solve for one column tile, from the first row tile to the last."""
    x_sb = []
    for m in tiles(b_hbm.shape[1], M_TILE):
        right_sb = load(b_hbm[i, m.span, n.span], loads)  # [m, n]
        if m.index > 0:
            known_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
            for k in range(m.index):
                start = m.start - k * M_TILE
                nisa.nc_matmul(
                    dst=known_ps,
                    stationary=aT_sb[k][:, start : start + m.size],
                    moving=x_sb[k],
                    accumulate=k > 0,
                )
            left_sb = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
            nisa.tensor_tensor(dst=left_sb, data1=right_sb, data2=known_ps, op=nl.subtract)
            right_sb = left_sb
        x_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
        nisa.nc_matmul(dst=x_ps, stationary=inverses_sb[m.index], moving=right_sb, accumulate=False)
        solved_sb = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, n]
        nisa.tensor_copy(dst=solved_sb, src=x_ps)
        x_sb.append(solved_sb)
        store(out_hbm[i, m.span, n.span], solved_sb, stores)


def _inverse(aT_sb, masks_sb, unit):
    """Invert a triangular block; both are transposed."""
    m = aT_sb.shape[0]
    eye_sb = masks_sb[len(masks_sb) - 1][0:m, 0:m]
    x_sb = eye_sb
    # What lies on the other side of the diagonal is not to be read; even a NaN there must not meet a mask.
    kept_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
    nisa.affine_select(
        dst=kept_sb,
        pattern=[[1, m]],
        channel_multiplier=-1,
        offset=-1 if unit else 0,
        on_true_tile=aT_sb,
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
    )
    if not unit:
        scratch_sb = _product(kept_sb, eye_sb)
        diagonal_sb = nl.ndarray((m, 1), dtype=nl.float32, buffer=nl.sbuf)  # [m, 1]
        nisa.tensor_reduce(dst=diagonal_sb, op=nl.add, data=scratch_sb, axis=1)
        nisa.reciprocal(dst=diagonal_sb, data=diagonal_sb)
        x_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
        nisa.tensor_scalar(dst=x_sb, data=eye_sb, op0=nl.multiply, operand0=diagonal_sb)
    y_sb = x_sb
    size = 1
    for level in range(len(masks_sb) - 1):
        if size < m:
            below_sb = _product(kept_sb, masks_sb[level][0:m, 0:m])
            step_sb = _multiply(below_sb, x_sb)
            # The last doubling needs no further ones.
            if 2 * size < m:
                next_sb = _less(x_sb, y_sb, step_sb)
                y_sb = _less(y_sb, step_sb, y_sb)
                x_sb = next_sb
            else:
                y_sb = _less(y_sb, step_sb, y_sb)
        size = 2 * size
    return y_sb


def _product(x_sb, mask_sb):
    """Multiply element by element."""
    m = x_sb.shape[0]
    masked_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
    nisa.tensor_tensor(dst=masked_sb, data1=x_sb, data2=mask_sb, op=nl.multiply)
    return masked_sb


def _multiply(stationary_sb, moving_sb):
    m = moving_sb.shape[0]
    product_ps = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.psum)  # [m, m]
    nisa.nc_matmul(dst=product_ps, stationary=stationary_sb, moving=moving_sb, accumulate=False)
    product_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
    nisa.tensor_copy(dst=product_sb, src=product_ps)
    return product_sb


def _less(from_sb, stationary_sb, moving_sb):
    m = moving_sb.shape[0]
    product_ps = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.psum)  # [m, m]
    nisa.nc_matmul(dst=product_ps, stationary=stationary_sb, moving=moving_sb, accumulate=False)
    left_sb = nl.ndarray((m, m), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
    nisa.tensor_tensor(dst=left_sb, data1=from_sb, data2=product_ps, op=nl.subtract)
    return left_sb
