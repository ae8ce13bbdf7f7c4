"""z[B, N, N], the inverse square root of a[B, N, N] of norm at most 1, and defect[B, 1, 1] = norm(1 - z y)**2.

Newton-Schulz: with p = z y, y becomes y (3 - p) / 2 and z becomes (3 - p) z / 2; y goes to the root, z to its
inverse. In exact arithmetic all are symmetric and commute; in this order, and in no other, rounding errors do not
grow, so left factors are transposed for the array and not taken as they lie. The number of steps is fixed. Bound by
the Tensor Engine.
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
)
from trnsolver.kernels._divide import _square, _turn
from trnsolver.kernels._tiles import _accumulate

N_MAX = 8 * P_MAX
# A step multiplies a small eigenvalue of z y by 9/4: 24 bring 1e-7 near 1, and 6 more converge.
STEPS = 32
AXES = (Axis(1, {"a_hbm": 0}, (0, 0)),)
# What a search may choose: how often products are made again to keep the clock up, queues.
CHOICES = {"again": (0, 1, 2), "loads": QUEUES, "stores": QUEUES}


@nki.jit
def inv_sqrt_spd(a_hbm, masks_hbm, steps=STEPS, again=0, loads="compiler", stores="compiler"):
    B, N, _ = a_hbm.shape
    z_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    defect_hbm = nl.ndarray((B, 1, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, 1, 1]
    eye_sb = load(masks_hbm[masks_hbm.shape[0] - 1, 0:P_MAX, 0:P_MAX], loads)  # [k, m]
    for b in my_indices(B):
        y_sb = []
        z_sb = []
        for m in tiles(N, M_TILE):
            y_sb.append(load(a_hbm[b, m.span, 0:N], loads))  # [m, N]
            row_sb = full((m.size, N), 0.0)  # [m, N]
            nisa.tensor_copy(dst=row_sb[0 : m.size, m.span], src=eye_sb[0 : m.size, 0 : m.size])
            z_sb.append(row_sb)
        middle_sb = _square(N)
        other_sb = _square(N)
        transposed_sb = _square(N)
        for step in range(steps):
            _turn(transposed_sb, z_sb)
            _multiply(middle_sb, transposed_sb, y_sb, again)
            if step == steps - 1:
                _measure(defect_hbm, middle_sb, eye_sb, b)
            for m in tiles(N, M_TILE):
                nisa.tensor_scalar(dst=middle_sb[m.index], data=middle_sb[m.index], op0=nl.multiply, operand0=-0.5)
                here = middle_sb[m.index][0 : m.size, m.span]
                multiply_add(here, eye_sb[0 : m.size, 0 : m.size], 1.5, here)
            _turn(transposed_sb, y_sb)
            _multiply(other_sb, transposed_sb, middle_sb, again)
            _copy(y_sb, other_sb)
            _turn(transposed_sb, middle_sb)
            _multiply(other_sb, transposed_sb, z_sb, again)
            _copy(z_sb, other_sb)
        for m in tiles(N, M_TILE):
            store(z_hbm[b, m.span, 0:N], z_sb[m.index], stores)
    return z_hbm, defect_hbm


def _copy(dst_sb, src_sb):
    for i in range(len(dst_sb)):
        nisa.tensor_copy(dst=dst_sb[i], src=src_sb[i])


def _multiply(dst_sb, left_sb, right_sb, again):
    """Set dst to left.T right, repeated ``again`` times while others wait for it."""
    N = left_sb[0].shape[1]
    for m in tiles(N, M_TILE):
        for n in tiles(N, N_TILE):
            product_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
            _accumulate(product_ps, left_sb, right_sb, m.span, n.span)
            for _ in range(again):
                spare_ps = nl.ndarray((m.size, n.size), dtype=nl.float32, buffer=nl.psum)  # [m, n]
                _accumulate(spare_ps, left_sb, right_sb, m.span, n.span)
            # two engines empty PSUM
            if m.index % 2 == 0:
                nisa.tensor_copy(dst=dst_sb[m.index][0 : m.size, n.span], src=product_ps)
            else:
                nisa.activation(dst=dst_sb[m.index][0 : m.size, n.span], op=nl.copy, data=product_ps)


def _measure(defect_hbm, p_sb, eye_sb, b):
    """Return the sum of squares of 1 - p."""
    N = p_sb[0].shape[1]
    total_ps = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.psum)  # [1, 1]
    for m in tiles(N, M_TILE):
        off_sb = nl.ndarray((m.size, N), dtype=nl.float32, buffer=nl.sbuf)  # [m, N]
        nisa.tensor_copy(dst=off_sb, src=p_sb[m.index])
        here = off_sb[0 : m.size, m.span]
        nisa.tensor_tensor(dst=here, data1=here, data2=eye_sb[0 : m.size, 0 : m.size], op=nl.subtract)
        nisa.tensor_tensor(dst=off_sb, data1=off_sb, data2=off_sb, op=nl.multiply)
        rows_sb = nl.ndarray((m.size, 1), dtype=nl.float32, buffer=nl.sbuf)  # [m, 1]
        nisa.tensor_reduce(dst=rows_sb, op=nl.add, data=off_sb, axis=1)
        ones_sb = full((m.size, 1), 1.0)  # [m, 1]
        nisa.nc_matmul(dst=total_ps, stationary=ones_sb, moving=rows_sb, accumulate=m.index > 0)
    store(defect_hbm[b, 0:1, 0:1], total_ps)
