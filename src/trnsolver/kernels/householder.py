"""q[B, M, N], r[B, N, N] with a[B, M, N] = q r: Householder reflections, blocks of 128 columns in compact WY form.

A panel is held transposed, one column per partition, so that a reflection is one row against all others: a product
with a selector spreads it over the partitions, one pass of the Vector Engine gives all inner products, another
applies it. Blocks v of reflections act as 1 - v t v.T, with inv(t) the upper triangle of v.T v, diagonal halved.
Bound by the chain of M-long vector passes, one column after the other.
"""

from trnsci.nki import (
    M_TILE,
    N_TILE,
    P_MAX,
    QUEUES,
    SPARE,
    Axis,
    elementwise,
    full,
    keep_up,
    load,
    load_each,
    multiply_add,
    my_indices,
    nisa,
    nki,
    nl,
    product,
    store,
    tiles,
    transpose_into,
    transpose_tile,
    triangle,
    upper_inverse,
)
from trnsolver.kernels._tiles import _accumulate, _subtract_in_place

M_MAX = 8 * P_MAX
N_MAX = 8 * P_MAX
# Columns shorter than its root, with entries scaled to 1, count as zero: no reflection.
LEAST = 1e-30
AXES = (Axis(1, {"a_hbm": 0}, (0, 0)),)
# What a search may choose: columns of products that keep the clock up, queues.
CHOICES = {"spare": SPARE, "loads": QUEUES}


@nki.jit
def householder(a_hbm, masks_hbm, spare=0, loads="compiler"):
    B, M, N = a_hbm.shape
    q_hbm = nl.ndarray((B, M, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, M, N]
    r_hbm = nl.ndarray((B, N, N), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, N, N]
    masks_sb = load_each(masks_hbm, loads)
    for b in my_indices(B):
        rows_sb = []
        for m in tiles(M, M_TILE):
            rows_sb.append(load(a_hbm[b, m.span, 0:N], loads))  # [m, N]
        blocks = []
        for k in tiles(N, M_TILE):
            blocks.append(_panel(r_hbm, rows_sb, masks_sb, b, k, spare=spare))
        _form(q_hbm, blocks, masks_sb, b)
    return q_hbm, r_hbm


def _panel(r_hbm, rows_sb, masks_sb, b, k, *, spare):
    """Factor one block of columns and apply its reflections to those on its right."""
    N = r_hbm.shape[1]
    w = k.size
    eye_sb = masks_sb[len(masks_sb) - 1][0:w, 0:w]
    parts = []
    total = 0
    for m in range(k.index, len(rows_sb)):
        parts.append(rows_sb[m].shape[0])
        total = total + rows_sb[m].shape[0]
    p_sb = nl.ndarray((w, total), dtype=nl.float32, buffer=nl.sbuf)  # [w, M - k]
    start = 0
    for i in range(len(parts)):
        transpose_into(p_sb[0:w, start : start + parts[i]], rows_sb[k.index + i][0 : parts[i], k.span])
        start = start + parts[i]
    v0_sb, alpha_sb, flag_sb = _reflect(p_sb, eye_sb, spare)
    vT_sb = _vectors(p_sb, v0_sb, flag_sb, eye_sb)
    _store_triangle(r_hbm, p_sb, alpha_sb, eye_sb, b=b, k=k)
    v_sb = []
    start = 0
    for i in range(len(parts)):
        v_sb.append(transpose_tile(vT_sb[0:w, start : start + parts[i]]))
        start = start + parts[i]
    t_sb, tT_sb = _weights(v_sb, flag_sb, eye_sb, masks_sb)
    if k.stop < N:
        _apply(rows_sb, k.index, v_sb=v_sb, vT_sb=vT_sb, t_sb=t_sb, start=k.stop, stop=N)
        store(r_hbm[b, k.span, k.stop : N], rows_sb[k.index][0:w, k.stop : N])
    return v_sb, vT_sb, tT_sb


def _reflect(p_sb, eye_sb, spare):
    """Reflections of all columns of the panel. Column j keeps its tail; its head and the new diagonal are returned."""
    w = p_sb.shape[0]
    L = p_sb.shape[1]
    # after[p, j] = -1 where column p comes after j.
    ones_sb = full((w, w), -1.0)  # [w, w]
    after_sb = triangle(ones_sb, False, -1)  # [w, w]
    nisa.memset(dst=ones_sb, value=1.0)
    select_sb = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.sbuf)  # [w, w]
    x_sb = nl.ndarray((w, L), dtype=nl.float32, buffer=nl.sbuf)  # [w, L]
    each_sb = nl.ndarray((w, L), dtype=nl.float32, buffer=nl.sbuf)  # [w, L]
    v0_sb = nl.ndarray((w, 1), dtype=nl.float32, buffer=nl.sbuf)  # [w, 1]
    alpha_sb = nl.ndarray((w, 1), dtype=nl.float32, buffer=nl.sbuf)  # [w, 1]
    flag_sb = nl.ndarray((w, 1), dtype=nl.float32, buffer=nl.sbuf)  # [w, 1]
    nisa.memset(dst=v0_sb, value=0.0)
    nisa.memset(dst=alpha_sb, value=0.0)
    nisa.memset(dst=flag_sb, value=0.0)
    inner_sb = nl.ndarray((w, 1), dtype=nl.float32, buffer=nl.sbuf)  # [w, 1]
    one_sb = []
    for _i in range(7):
        one_sb.append(nl.ndarray((w, 1), dtype=nl.float32, buffer=nl.sbuf))  # [w, 1]
    root_sb, sign_sb, some_sb, head_sb, tau_sb, weight_sb, new_sb = one_sb
    for j in range(w):
        mine_sb = eye_sb[0:w, j : j + 1]
        nisa.tensor_scalar(dst=select_sb, data=ones_sb, op0=nl.multiply, operand0=mine_sb)
        for c in tiles(L - j, N_TILE):
            x_ps = nl.ndarray((w, c.size), dtype=nl.float32, buffer=nl.psum)  # [w, c]
            here = slice(j + c.start, j + c.stop)
            nisa.nc_matmul(dst=x_ps, stationary=select_sb, moving=p_sb[0:w, here], accumulate=False)
            nisa.tensor_tensor(dst=each_sb[0:w, here], data1=x_ps, data2=p_sb[0:w, here], op=nl.multiply)
            nisa.activation(dst=x_sb[0:w, here], op=nl.copy, data=x_ps)
        nisa.tensor_reduce(dst=inner_sb, op=nl.add, data=each_sb[0:w, j:L], axis=1)
        own_ps = nl.ndarray((w, 1), dtype=nl.float32, buffer=nl.psum)  # [w, 1]
        nisa.nc_matmul(dst=own_ps, stationary=select_sb, moving=inner_sb, accumulate=False)
        keep_up(ones_sb, inner_sb, spare)
        first_sb = x_sb[0:w, j : j + 1]
        # root = sign(x0) norm(x); v = x with x0 + root as head; tau = 1 / (norm**2 + x0 root).
        nisa.tensor_scalar(
            dst=sign_sb, data=first_sb, op0=nl.greater_equal, operand0=0.0, op1=nl.subtract, operand1=0.5
        )
        nisa.tensor_tensor(dst=sign_sb, data1=sign_sb, data2=sign_sb, op=nl.add)
        nisa.scalar_tensor_tensor(
            dst=root_sb, data=own_ps, op0=nl.power, operand0=0.5, op1=nl.multiply, operand1=sign_sb
        )
        multiply_add(tau_sb, first_sb, root_sb, own_ps)
        nisa.tensor_scalar(dst=tau_sb, data=tau_sb, op0=nl.maximum, operand0=LEAST, op1=nl.power, operand1=-1.0)
        nisa.tensor_scalar(dst=some_sb, data=own_ps, op0=nl.greater, operand0=LEAST)
        after = after_sb[0:w, j : j + 1]
        nisa.tensor_tensor(dst=after, data1=after, data2=some_sb, op=nl.multiply)
        multiply_add(weight_sb, p_sb[0:w, j : j + 1], root_sb, inner_sb)
        nisa.tensor_scalar(
            dst=weight_sb, data=weight_sb, op0=nl.multiply, operand0=tau_sb, op1=nl.multiply, operand1=after
        )
        nisa.tensor_tensor(dst=head_sb, data1=first_sb, data2=root_sb, op=nl.add)
        if j + 1 < L:
            multiply_add(p_sb[0:w, j + 1 : L], x_sb[0:w, j + 1 : L], weight_sb, p_sb[0:w, j + 1 : L])
        multiply_add(p_sb[0:w, j : j + 1], head_sb, weight_sb, p_sb[0:w, j : j + 1])
        # x0 - (x0 + root) is the new diagonal where there is a reflection, x0 where there is none.
        nisa.tensor_tensor(dst=new_sb, data1=head_sb, data2=some_sb, op=nl.multiply)
        _keep(v0_sb, new_sb, mine_sb)
        nisa.tensor_tensor(dst=new_sb, data1=first_sb, data2=new_sb, op=nl.subtract)
        _keep(alpha_sb, new_sb, mine_sb)
        _keep(flag_sb, some_sb, mine_sb)
    return v0_sb, alpha_sb, flag_sb


def _keep(dst_sb, value_sb, mine_sb):
    """Add the value in one partition."""
    multiply_add(dst_sb, value_sb, mine_sb, dst_sb)


def _vectors(p_sb, v0_sb, flag_sb, eye_sb):
    """v.T: tails from the panel, heads on the diagonal, zero before it, and zero where nothing is reflected."""
    w = p_sb.shape[0]
    vT_sb = triangle(p_sb, True, -1)  # [w, L]
    nisa.tensor_scalar(dst=vT_sb, data=vT_sb, op0=nl.multiply, operand0=flag_sb)
    multiply_add(vT_sb[0:w, 0:w], eye_sb, v0_sb, vT_sb[0:w, 0:w])
    return vT_sb


def _store_triangle(r_hbm, p_sb, alpha_sb, eye_sb, *, b, k):
    """Store the diagonal block of r, and zeros on its left."""
    w = p_sb.shape[0]
    below_sb = triangle(p_sb[0:w, 0:w], False, -1)  # [w, w]
    multiply_add(below_sb, eye_sb, alpha_sb, below_sb)
    store(r_hbm[b, k.span, k.span], transpose_tile(below_sb))
    if k.start > 0:
        zero_sb = full((w, k.start), 0.0)  # [w, k]
        store(r_hbm[b, k.span, 0 : k.start], zero_sb)


def _weights(v_sb, flag_sb, eye_sb, masks_sb):
    """Return t and its transpose."""
    w = v_sb[0].shape[1]
    gram_ps = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.psum)  # [w, w]
    _accumulate(gram_ps, v_sb, v_sb, slice(0, w), slice(0, w))
    gram_sb = nl.ndarray((w, w), dtype=nl.float32, buffer=nl.sbuf)  # [w, w]
    nisa.tensor_copy(dst=gram_sb, src=gram_ps)
    half_sb = elementwise(gram_sb, eye_sb, nl.multiply)  # [w, w]
    multiply_add(gram_sb, half_sb, -0.5, gram_sb)
    none_sb = nl.ndarray((w, 1), dtype=nl.float32, buffer=nl.sbuf)  # [w, 1]
    nisa.tensor_scalar(dst=none_sb, data=flag_sb, op0=nl.multiply, operand0=-1.0, op1=nl.add, operand1=1.0)
    multiply_add(gram_sb, eye_sb, none_sb, gram_sb)
    return upper_inverse(gram_sb, masks_sb, False)


def _apply(rows_sb, first, *, v_sb, vT_sb, t_sb, start, stop):
    """Subtract v t.T v.T rows from rows in columns start to stop; pass the transpose of t for v t v.T."""
    w = vT_sb.shape[0]
    for c in tiles(stop - start, N_TILE):
        here = slice(start + c.start, start + c.stop)
        inner_ps = nl.ndarray((w, c.size), dtype=nl.float32, buffer=nl.psum)  # [w, c]
        _accumulate(inner_ps, v_sb, rows_sb[first : first + len(v_sb)], slice(0, w), here)
        inner_sb = nl.ndarray((w, c.size), dtype=nl.float32, buffer=nl.sbuf)  # [w, c]
        nisa.tensor_copy(dst=inner_sb, src=inner_ps)
        weighted_sb = product(t_sb, inner_sb)  # [w, c]
        at = 0
        for i in range(len(v_sb)):
            size = v_sb[i].shape[0]
            _subtract_in_place(rows_sb[first + i][0:size, here], vT_sb[0:w, at : at + size], weighted_sb)
            at = at + size


def _form(q_hbm, blocks, masks_sb, b):
    """q: the reflections applied to the identity, last block first."""
    M = q_hbm.shape[1]
    N = q_hbm.shape[2]
    eye_sb = masks_sb[len(masks_sb) - 1]
    q_sb = []
    for m in tiles(M, M_TILE):
        row_sb = full((m.size, N), 0.0)  # [m, N]
        if m.start < N:
            width = min(m.size, N - m.start)
            nisa.tensor_copy(dst=row_sb[0 : m.size, m.start : m.start + width], src=eye_sb[0 : m.size, 0:width])
        q_sb.append(row_sb)
    count = len(blocks)
    for back in range(count):
        k = count - 1 - back
        v_sb, vT_sb, tT_sb = blocks[k]
        _apply(q_sb, k, v_sb=v_sb, vT_sb=vT_sb, t_sb=tT_sb, start=k * M_TILE, stop=N)
    for m in tiles(M, M_TILE):
        store(q_hbm[b, m.span, 0:N], q_sb[m.index])
