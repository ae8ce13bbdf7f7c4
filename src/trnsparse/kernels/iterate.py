"""Steps of conjugate gradients, of a two-term recurrence with given coefficients, or of power iteration, all on chip.

The blocks (256 at most: 128 KiB of a partition) and the vectors, one column for each block, stay in SBUF; HBM is read
once and written once however many steps there are. Sums over partitions are products with ones. Bound by the latency of
the steps, and by the Tensor Engine's loading of blocks when there are many.
"""

from trnsci.nki import (
    P_MAX,
    QUEUES,
    SPARE,
    elementwise,
    filled,
    is_first_core,
    keep_up,
    load,
    multiply_add,
    nisa,
    nki,
    nl,
    store,
)

# Keeps 0 / 0 at 0 once a solution is exact.
TINY = 1e-30
TINY_SQUARE = 1e-37
# What a search may choose: columns of products that keep the clock up, queues.
CHOICES = {"spare": SPARE, "loads": QUEUES, "stores": QUEUES}


@nki.jit
def iterate(
    tiles_hbm,
    x_hbm,
    r_hbm,
    p_hbm,
    coefficients_hbm,
    steps=1,
    method="cg",
    pointers=(),
    columns=(),
    spare=0,
    loads="compiler",
    stores="compiler",
):
    P, B = x_hbm.shape
    out = []
    for _ in range(3):
        out.append(nl.ndarray((P, B), dtype=nl.float32, buffer=nl.shared_hbm))  # [p, B]
    # columns are blocks of one vector, so that one core has them all
    if is_first_core():
        operands = (tiles_hbm, x_hbm, r_hbm, p_hbm, coefficients_hbm)
        results = _take_steps(
            operands, steps=steps, method=method, pointers=pointers, columns=columns, spare=spare, loads=loads
        )
        for i in range(3):
            store(out[i], results[i], stores)
    return out[0], out[1], out[2]


def _take_steps(operands, *, steps, method, pointers, columns, spare, loads):
    """Return x, r and p after the steps, in SBUF."""
    tiles_hbm, x_hbm, r_hbm, p_hbm, coefficients_hbm = operands
    a_sb = load(tiles_hbm, loads)  # [p, T * p]
    x_sb, r_sb, p_sb = load(x_hbm, loads), load(r_hbm, loads), load(p_hbm, loads)
    coefficients_sb = load(coefficients_hbm, loads)  # [p, 2 * steps]
    ones_sb = filled((P_MAX, P_MAX), 1.0)  # [p, p]
    if method == "power":
        for _ in range(steps):
            r_sb = _times(a_sb, x_sb, pointers, columns)
            x_sb = _scaled(r_sb, _dot(r_sb, r_sb, ones_sb, spare))
        r_sb = _times(a_sb, x_sb, pointers, columns)
    elif method == "cg":
        rr_ps = _dot(r_sb, r_sb, ones_sb, spare)
        for _ in range(steps):
            image_sb = _times(a_sb, p_sb, pointers, columns)
            alpha_sb = _ratio(rr_ps, _dot(p_sb, image_sb, ones_sb, spare))
            r_sb = _minus(image_sb, alpha_sb, r_sb)
            x_sb = _plus(p_sb, alpha_sb, x_sb)
            next_ps = _dot(r_sb, r_sb, ones_sb, spare)
            p_sb = _plus(p_sb, _ratio(next_ps, rr_ps), r_sb)
            rr_ps = next_ps
    else:
        for k in range(steps):
            p_sb = _plus(p_sb, coefficients_sb[:, 2 * k + 1 : 2 * k + 2], r_sb)
            alpha_sb = coefficients_sb[:, 2 * k : 2 * k + 1]
            x_sb = _plus(p_sb, alpha_sb, x_sb)
            r_sb = _minus(_times(a_sb, p_sb, pointers, columns), alpha_sb, r_sb)
    return x_sb, r_sb, p_sb


def _times(a_sb, y_sb, pointers, columns):
    """Multiply the matrix by a vector: one column of PSUM for each block row."""
    B = y_sb.shape[1]
    image_sb = nl.ndarray((P_MAX, B), dtype=nl.float32, buffer=nl.sbuf)  # [p, B]
    image_ps = nl.ndarray((P_MAX, B), dtype=nl.float32, buffer=nl.psum)  # [p, B]
    nisa.memset(dst=image_sb, value=0.0)
    for i in range(B):
        for q in range(pointers[i], pointers[i + 1]):
            nisa.nc_matmul(
                dst=image_ps[:, i : i + 1],
                stationary=a_sb[:, q * P_MAX : (q + 1) * P_MAX],
                moving=y_sb[:, columns[q] : columns[q] + 1],
                accumulate=q > pointers[i],
            )
    # Runs of rows that have blocks come out together.
    first = 0
    while first < B:
        last = first
        while last < B and pointers[last + 1] > pointers[last]:
            last += 1
        if last > first:
            nisa.tensor_copy(dst=image_sb[:, first:last], src=image_ps[:, first:last])
        first = last + 1
    return image_sb


def _dot(y_sb, z_sb, ones_sb, spare):
    """Return the inner product, in every partition."""
    product_sb = elementwise(y_sb, z_sb, nl.multiply)  # [p, B]
    part_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_reduce(dst=part_sb, op=nl.add, data=product_sb, axis=1)
    sum_ps = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.psum)  # [p, 1]
    nisa.nc_matmul(dst=sum_ps, stationary=ones_sb, moving=part_sb, accumulate=False)
    keep_up(ones_sb, part_sb, spare)
    return sum_ps


def _ratio(above_ps, below_ps):
    ratio_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_scalar(dst=ratio_sb, data=below_ps, op0=nl.maximum, operand0=TINY, op1=nl.power, operand1=-1.0)
    nisa.tensor_tensor(dst=ratio_sb, data1=ratio_sb, data2=above_ps, op=nl.multiply)
    return ratio_sb


def _scaled(y_sb, square_ps):
    """Divide a vector by its norm, of which the square is given."""
    inverse_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_scalar(
        dst=inverse_sb, data=square_ps, op0=nl.maximum, operand0=TINY_SQUARE, op1=nl.power, operand1=-0.5
    )
    out_sb = nl.ndarray(y_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [p, B]
    nisa.tensor_scalar(dst=out_sb, data=y_sb, op0=nl.multiply, operand0=inverse_sb)
    return out_sb


def _plus(y_sb, alpha_sb, z_sb):
    """Return alpha * y + z, as a new vector."""
    out_sb = nl.ndarray(y_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [p, B]
    multiply_add(out_sb, y_sb, alpha_sb, z_sb)
    return out_sb


def _minus(y_sb, alpha_sb, z_sb):
    """Return z - alpha * y, as a new vector."""
    out_sb = nl.ndarray(y_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [p, B]
    nisa.scalar_tensor_tensor(
        dst=out_sb, data=y_sb, op0=nl.multiply, operand0=alpha_sb, op1=nl.subtract, operand1=z_sb, reverse1=True
    )
    return out_sb
