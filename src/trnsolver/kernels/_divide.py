"""Parts of spectral divide and conquer: products of symmetric matrices, and the matrix sign.

A matrix is a list of tiles of rows. The array computes stationary.T moving, so symmetric factors go in as they lie.
"""

from trnsci.nki import M_TILE, N_TILE, P_MAX, elementwise, full, multiply_add, nisa, nl, tiles, transpose_into
from trnsolver.kernels._tiles import _accumulate

# Odd polynomials of degree 5. The first takes [0, 1] into [0, 0.99], multiplies what is small by 3.6 and keeps what is
# above 0.15 above 0.5: no large value becomes a small one, which is what keeps rounding errors from growing. The
# second, the best on [0.51, 1], and the third, of Taylor, end the iteration with a cubic step.
LIFT = (3.6241, -8.1721, 5.5381)
NEAR = (2.6435, -3.2033, 1.5819)
TAYLOR = (1.875, -1.25, 0.375)


def _sign(x_sb, y_sb, q_sb, eye_sb, lifts):
    """Return the sign of every x, of norm at most 1, and two sets of tiles that are free again."""
    for step in range(lifts + 2):
        c = LIFT if step < lifts else NEAR if step == lifts else TAYLOR
        for g in range(len(x_sb)):
            _symmetric(y_sb[g], x_sb[g], x_sb[g], 1.0, False)
        for g in range(len(x_sb)):
            _quadratic(q_sb[g], y_sb[g], eye_sb, c)
        for g in range(len(x_sb)):
            _symmetric(y_sb[g], x_sb[g], q_sb[g], c[1], True)
        x_sb, y_sb = y_sb, x_sb
    for g in range(len(x_sb)):
        _symmetric(y_sb[g], x_sb[g], x_sb[g], 1.0, False)
        _add_diagonal(y_sb[g], eye_sb, -3.0)
    for g in range(len(x_sb)):
        _symmetric(q_sb[g], x_sb[g], y_sb[g], -0.5, True)
    return q_sb, y_sb, x_sb


def _symmetric(dst_sb, left_sb, right_sb, scale, average):
    """Set dst to scale left.T right, which is symmetric: the tiles on and above the diagonal, mirrored.

    Rounding makes the tiles on the diagonal a little unsymmetric, which would grow from step to step: on average they
    become the mean of the product and its transpose.
    """
    N = left_sb[0].shape[1]
    for m in tiles(N, M_TILE):
        own_ps = nl.ndarray((m.size, m.size), dtype=nl.float32, buffer=nl.psum)  # [m, m]
        own_sb = dst_sb[m.index][0 : m.size, m.span]
        _accumulate(own_ps, left_sb, right_sb, m.span, m.span)
        if average and N <= M_TILE:
            # The transpose by a second product: a shorter chain than turning the first.
            _accumulate(own_ps, right_sb, left_sb, m.span, m.span, True)
        nisa.activation(dst=own_sb, op=nl.copy, data=own_ps, scale=0.5 * scale if average else scale)
        if average and N > M_TILE:
            transposed_ps = nl.ndarray((m.size, m.size), dtype=nl.float32, buffer=nl.psum)  # [m, m]
            nisa.nc_transpose(dst=transposed_ps, data=own_sb)
            nisa.tensor_tensor(dst=own_sb, data1=own_sb, data2=transposed_ps, op=nl.add)
        for n in tiles(N - m.stop, N_TILE):
            span = slice(m.stop + n.start, m.stop + n.stop)
            part_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
            _accumulate(part_ps, left_sb, right_sb, m.span, span)
            nisa.activation(dst=dst_sb[m.index][0 : m.size, span], op=nl.copy, data=part_ps, scale=scale)
    _mirror(dst_sb)


def _quadratic(dst_sb, y_sb, eye_sb, c):
    """Set dst to (c[0] + c[1] y + c[2] y**2) / c[1]."""
    N = y_sb[0].shape[1]
    for m in tiles(N, M_TILE):
        base_sb = nl.ndarray((m.size, m.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
        multiply_add(base_sb, eye_sb[0 : m.size, 0 : m.size], c[0] / c[1], y_sb[m.index][0 : m.size, m.span])
        own_ps = nl.ndarray((m.size, m.size), dtype=nl.float32, buffer=nl.psum)  # [m, m]
        _accumulate(own_ps, y_sb, y_sb, m.span, m.span)
        multiply_add(dst_sb[m.index][0 : m.size, m.span], own_ps, c[2] / c[1], base_sb)
        for n in tiles(N - m.stop, N_TILE):
            span = slice(m.stop + n.start, m.stop + n.stop)
            part_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
            _accumulate(part_ps, y_sb, y_sb, m.span, span)
            multiply_add(dst_sb[m.index][0 : m.size, span], part_ps, c[2] / c[1], y_sb[m.index][0 : m.size, span])
    _mirror(dst_sb)


def _mirror(dst_sb):
    """Copy what is above the diagonal tiles below them."""
    N = dst_sb[0].shape[1]
    for m in tiles(N, M_TILE):
        for n in tiles(m.start, N_TILE):
            below_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
            for i in tiles(n.size, M_TILE):
                from_sb = dst_sb[(n.start + i.start) // M_TILE]
                nisa.nc_transpose(dst=below_ps[0 : m.size, i.span], data=from_sb[0 : i.size, m.span])
            nisa.tensor_copy(dst=dst_sb[m.index][0 : m.size, n.span], src=below_ps)


def _multiply(dst_sb, left_sb, right_sb):
    """Set dst to left.T right."""
    N = right_sb[0].shape[1]
    for m in tiles(N, M_TILE):
        for n in tiles(N, N_TILE):
            product_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
            _accumulate(product_ps, left_sb, right_sb, m.span, n.span)
            nisa.tensor_copy(dst=dst_sb[m.index][0 : m.size, n.span], src=product_ps)


def _turn(dst_sb, src_sb):
    """Set dst to src.T."""
    N = src_sb[0].shape[1]
    for m in tiles(N, M_TILE):
        for n in tiles(N, M_TILE):
            transpose_into(dst_sb[n.index][0 : n.size, m.span], src_sb[m.index][0 : m.size, n.span])


def _add_diagonal(x_sb, eye_sb, value):
    """Add a number, or a column [P, T] of them, to the diagonal."""
    n = x_sb[0].shape[1]
    for m in tiles(n, M_TILE):
        here = x_sb[m.index][0 : m.size, m.span]
        number = value if isinstance(value, float) else value[0 : m.size, m.index : m.index + 1]
        multiply_add(here, eye_sb[0 : m.size, 0 : m.size], number, here)


def _diagonal(dst_sb, x_sb, eye_sb):
    """Set a column [P, T] to the diagonal."""
    n = x_sb[0].shape[1]
    for m in tiles(n, M_TILE):
        own_sb = nl.ndarray((m.size, m.size), dtype=nl.float32, buffer=nl.sbuf)  # [m, m]
        nisa.tensor_tensor(
            dst=own_sb, data1=x_sb[m.index][0 : m.size, m.span], data2=eye_sb[0 : m.size, 0 : m.size], op=nl.multiply
        )
        nisa.tensor_reduce(dst=dst_sb[0 : m.size, m.index : m.index + 1], op=nl.add, data=own_sb, axis=1)


def _square(N):
    rows_sb = []
    for m in tiles(N, M_TILE):
        rows_sb.append(nl.ndarray((m.size, N), dtype=nl.float32, buffer=nl.sbuf))  # [m, N]
    return rows_sb


def _column(N):
    """One number for each row: column t holds those of tile t."""
    return full((P_MAX, len(tiles(N, M_TILE))), 1.0)  # [m, T]


def _total(rows_sb, ones_sb, N):
    """Return the sum of a column, in every partition."""
    total_ps = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.psum)  # [n, 1]
    for m in tiles(N, M_TILE):
        nisa.nc_matmul(
            dst=total_ps,
            stationary=ones_sb[0 : m.size, 0:P_MAX],
            moving=rows_sb[0 : m.size, m.index : m.index + 1],
            accumulate=m.index > 0,
        )
    return total_ps


def _row_squares(x_sb):
    """Sum squares of rows, and keep x."""
    N = x_sb[0].shape[1]
    rows_sb = _column(N)
    for m in tiles(N, M_TILE):
        own_sb = elementwise(x_sb[m.index], x_sb[m.index], nl.multiply)  # [m, N]
        nisa.tensor_reduce(dst=rows_sb[0 : m.size, m.index : m.index + 1], op=nl.add, data=own_sb, axis=1)
    return rows_sb
