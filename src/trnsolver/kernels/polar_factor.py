"""u[B, N, N] orthogonal and h[B, N, N] symmetric with a[B, N, N] = u h: the polar factors, products alone.

Odd polynomials take the singular values of x, which starts from a between two random rotations, to 1; x rotated is
kept beside it, for the array multiplies by transposes. Singular values of zero start from what rounding makes of them,
so that u is orthogonal for a singular matrix as well. Steps are fixed. Bound by the Tensor Engine.
"""

from trnsci.nki import M_TILE, P_MAX, QUEUES, WARM, even, full, load, mine, move, nisa, nki, nl, store, tiles, warm_up
from trnsolver.kernels._divide import (
    LIFT,
    NEAR,
    TAYLOR,
    _add_diagonal,
    _multiply,
    _quadratic,
    _row_squares,
    _square,
    _symmetric,
    _total,
    _turn,
)

N_MAX = 8 * P_MAX
# The most rows of which the steps are a program that compiles.
ONE_PROGRAM = 4 * P_MAX
GROUP = 4
# Rounding leaves singular values near u / N**1.5 of the norm, which so many steps lift above 0.5.
LIFTS = 27
# What the diagonal of x starts with: of a zero matrix there is nothing else.
SEED = 1e-12
TINY = 1e-37
CHOICES = {"warm": WARM, "loads": QUEUES}


@nki.jit
def polar_factor(a_hbm, rotation_hbm, eye_hbm, warm=0, loads="compiler"):
    B, N, _ = a_hbm.shape
    u_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    h_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    left_hbm = nl.ndarray((B, 1, 2), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, 1, 2]
    warm_up(warm)
    eye_sb = load(eye_hbm[0:P_MAX, 0:P_MAX], loads)  # [k, m]
    ones_sb = full((P_MAX, P_MAX), 1.0)  # [k, m]
    constants = (eye_sb, ones_sb)
    g_sb = _square(N)
    _load(g_sb, rotation_hbm, loads)
    for b in mine(tiles(B, even(B, GROUP) if N <= P_MAX else 1)):
        x_sb, xT_sb, y_sb, q_sb = [], [], [], []
        for i in range(b.size):
            for square_sb in (x_sb, xT_sb, y_sb, q_sb):
                square_sb.append(_square(N))
            _start((x_sb[i], xT_sb[i], y_sb[i], q_sb[i]), g_sb, a_hbm[b.start + i], constants, loads)
        for step in range(LIFTS + 2):
            c = LIFT if step < LIFTS else NEAR if step == LIFTS else TAYLOR
            for i in range(b.size):
                _symmetric(y_sb[i], x_sb[i], x_sb[i], 1.0, False)
            for i in range(b.size):
                _quadratic(q_sb[i], y_sb[i], eye_sb, c)
            for i in range(b.size):
                _step(y_sb[i], xT_sb[i], q_sb[i], c[1])
            x_sb, y_sb = y_sb, x_sb
        for i in range(b.size):
            _polish(x_sb[i], xT_sb[i], y_sb[i], q_sb[i], eye_sb)
            # x between the rotations: g.T x g.
            _multiply(y_sb[i], xT_sb[i], g_sb)
            _multiply(x_sb[i], g_sb, y_sb[i])
            _turn(xT_sb[i], x_sb[i])
            _polish(x_sb[i], xT_sb[i], y_sb[i], q_sb[i], eye_sb)
            room = (x_sb[i], xT_sb[i], y_sb[i], q_sb[i])
            _finish((u_hbm, h_hbm, left_hbm), room, a_hbm, b.start + i, constants, loads=loads)
    return u_hbm, h_hbm, left_hbm


def _load(dst_sb, src_hbm, loads):
    N = dst_sb[0].shape[1]
    for m in tiles(N, M_TILE):
        move(dst_sb[m.index], src_hbm[m.span, 0:N], loads)


def _start(room, g_sb, a_hbm, constants, loads):
    """Set x to g a g.T over its norm, and xT to its transpose."""
    x_sb, xT_sb, y_sb, q_sb = room
    eye_sb, ones_sb = constants
    N = x_sb[0].shape[1]
    _load(x_sb, a_hbm, loads)
    _turn(y_sb, g_sb)
    # q = a.T g.T, and x = q.T g.T.
    _multiply(q_sb, x_sb, y_sb)
    _multiply(x_sb, q_sb, y_sb)
    total_ps = _total(_row_squares(x_sb), ones_sb, N)
    scale_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [n, 1]
    nisa.tensor_scalar(dst=scale_sb, data=total_ps, op0=nl.add, operand0=TINY, op1=nl.power, operand1=-0.5)
    for m in tiles(N, M_TILE):
        nisa.tensor_scalar(dst=x_sb[m.index], data=x_sb[m.index], op0=nl.multiply, operand0=scale_sb[0 : m.size, 0:1])
    _add_diagonal(x_sb, eye_sb, SEED)
    _turn(xT_sb, x_sb)


def _step(dst_sb, xT_sb, q_sb, scale):
    """Set dst to scale x q, and xT to its transpose."""
    _multiply(dst_sb, xT_sb, q_sb)
    n = dst_sb[0].shape[1]
    for m in tiles(n, M_TILE):
        nisa.tensor_scalar(dst=dst_sb[m.index], data=dst_sb[m.index], op0=nl.multiply, operand0=scale)
    _turn(xT_sb, dst_sb)


def _polish(x_sb, xT_sb, y_sb, q_sb, eye_sb):
    """Take a Newton-Schulz step: x becomes x (3 - x.T x) / 2."""
    _symmetric(q_sb, x_sb, x_sb, 1.0, False)
    _add_diagonal(q_sb, eye_sb, -3.0)
    _step(y_sb, xT_sb, q_sb, -0.5)
    n = x_sb[0].shape[1]
    for m in tiles(n, M_TILE):
        nisa.tensor_copy(dst=x_sb[m.index], src=y_sb[m.index])


def _finish(outs_hbm, room, a_hbm, b, constants, *, loads):
    """Store u, h the symmetric part of u.T a, and the squares of the other part and of 1 - u.T u."""
    u_hbm, h_hbm, left_hbm = outs_hbm
    x_sb, xT_sb, y_sb, q_sb = room
    eye_sb, ones_sb = constants
    N = x_sb[0].shape[1]
    for m in tiles(N, M_TILE):
        store(u_hbm[b, m.span, 0:N], x_sb[m.index])
    _symmetric(y_sb, x_sb, x_sb, 1.0, False)
    _add_diagonal(y_sb, eye_sb, -1.0)
    total_ps = _total(_row_squares(y_sb), ones_sb, N)
    store(left_hbm[b, 0:1, 1:2], total_ps[0:1, 0:1])
    _load(q_sb, a_hbm[b], loads)
    _multiply(y_sb, x_sb, q_sb)
    _turn(xT_sb, y_sb)
    for m in tiles(N, M_TILE):
        nisa.tensor_tensor(dst=q_sb[m.index], data1=y_sb[m.index], data2=xT_sb[m.index], op=nl.add)
        nisa.tensor_scalar(dst=q_sb[m.index], data=q_sb[m.index], op0=nl.multiply, operand0=0.5)
        store(h_hbm[b, m.span, 0:N], q_sb[m.index])
        nisa.tensor_tensor(dst=y_sb[m.index], data1=y_sb[m.index], data2=q_sb[m.index], op=nl.subtract)
    total_ps = _total(_row_squares(y_sb), ones_sb, N)
    store(left_hbm[b, 0:1, 0:1], total_ps[0:1, 0:1])
