"""Transforms without rounding: operands and results are digits of base 256, each exact in bf16.

A number of at most 1 is ``sum_i d_i 2**(-7 - 8 i)`` with whole ``|d_i| <= 128``; digits are stored with their powers of
two. Products of one level ``i + j`` are whole multiples, at most 2**24, of one power of two, so that PSUM adds them
exactly; levels are carried into digits from the lowest up. A program is a tuple of steps, digits being in HBM between
them:

* ``product``: one factor of an axis, by a table for each residue of what is left of it, its twiddles in the tables; or
  twiddles alone, whose tables are diagonal.
* ``multiply``: the spectrum of a chirp, digit by digit.

Bound by the Tensor and the Vector Engine alike. Below 150 KiB a partition.
"""

from trnsci.nki import N_TILE, P_MAX, jit, load, nisa, nl, require, store, tiles

# Adding and subtracting this rounds to whole numbers, to nearest even.
ROUND = 1.5 * 2.0**23
# Tables of one load: 28 KiB of a partition for 7 digits.
TABLES = 16
# Columns from which on a product is not dearer for more of them.
LEAST = 64
# Digits of a run below which writes are dear.
SHORT = 256
# Transposed tiles that leave PSUM together.
TOGETHER = 8


@jit
def exact(x_hbm, tables, program=()):
    """Digits x [plane, n, S, F] through the steps of a program."""
    for index in range(len(program)):
        step = program[index]
        t_hbm = tables[step[1]]
        S, S_t = x_hbm.shape[2], t_hbm.shape[2]
        require(S_t == S, f"x and its table disagree on digits: {S} and {S_t}")
        buffer = nl.shared_hbm if index == len(program) - 1 else nl.private_hbm
        y_hbm = nl.ndarray(x_hbm.shape, dtype=nl.bfloat16, buffer=buffer)  # [plane, n, S, F]
        if step[0] == "product":
            _pass(y_hbm, x_hbm, t_hbm, step[2:])
        else:
            _multiply(y_hbm, x_hbm, t_hbm, step[2:])
        x_hbm = y_hbm
    return x_hbm


def _pass(y_hbm, x_hbm, t_hbm, sizes):
    """y[k, u, n, e, g, d] = sum_r t[n][r, k] x[r, u, n, e, g, d] for every digit and column; k and r hold both planes.

    What is left of this axis is (u, n), other axes are e, and what is done is (g, d), of which g lies outside in x. In
    y k is part of what is done where that is ``turned``, and outside otherwise. Small factors have blocks of columns
    above each other, with a table for each.
    """
    R, U, N, E, G, D, turned = sizes
    turned = turned and U * N * E > 1
    _, _, S, F = x_hbm.shape
    x_hbm = x_hbm.reshape((2, G, R, U, N, E, D, S, F)).permute((0, 2, 3, 4, 5, 1, 6, 7, 8))
    y_hbm = y_hbm.reshape((2, U, N, E, R, G, D, S, F) if turned else (2, R, U, N, E, G, D, S, F))
    lanes = P_MAX // (2 * R)
    total = U * E * G * D * F
    blocks, columns = _blocks((U, E, G, D, F), max(LEAST, (total + lanes - 1) // lanes))
    groups = _grouped(blocks, lanes)
    lanes = 1
    for group in groups:
        lanes = max(lanes, len(group))
    at_n = max(1, min(N, TABLES, N_TILE // columns))
    held = []
    for _ in range(min(2, (N + at_n - 1) // at_n) if lanes > 1 else 0):
        t_sb = nl.ndarray((lanes * 2 * R, at_n, S, lanes * 2 * R), dtype=nl.bfloat16, buffer=nl.sbuf)  # [r, n, S, k]
        nisa.memset(dst=t_sb, value=0.0)
        held.append(t_sb)
    for n in tiles(N, at_n):
        t_sb = _tables(t_hbm[:, n.span], held, n, lanes)
        for group in groups:
            rows = len(group) * 2 * R
            y_sb = _product(_loaded(x_hbm, n, group), t_sb[0:rows, :, :, 0:rows])
            _stored(y_hbm, y_sb, n, group, turned)


def _tables(t_hbm, held, n, lanes):
    """[r, n, S, k]: tables along the diagonal, once for every lane, of tiles that are zero elsewhere."""
    if lanes == 1:
        return load(t_hbm)
    t_sb, rows = held[n.index % 2][:, 0 : n.size], t_hbm.shape[0]
    for s in range(lanes):
        here = slice(s * rows, (s + 1) * rows)
        nisa.dma_copy(dst=t_sb[here, :, :, here], src=t_hbm)
    return t_sb


def _blocks(extents, most):
    """Tiles of several dimensions with at most 512 and about ``most`` elements, the last filled first; their size."""
    sizes, columns = [], 1
    for i in range(len(extents)):
        extent = extents[len(extents) - 1 - i]
        count = max(1, min(most, N_TILE) // columns)
        # As equal as can be.
        pieces = (extent + count - 1) // count
        sizes.append((extent + pieces - 1) // pieces)
        columns *= sizes[i]
    found = [()]
    for i in range(len(extents)):
        longer = []
        for block in found:
            for tile in tiles(extents[i], sizes[len(extents) - 1 - i]):
                longer.append(block + (tile,))  # noqa: RUF005
        found = longer
    return found, columns


def _grouped(blocks, lanes):
    """Up to ``lanes`` blocks of one shape together."""
    full, begun = [], []
    for block in blocks:
        mine = None
        for group in begun:
            same = True
            for i in range(len(block)):
                same = same and group[0][i].size == block[i].size
            if same:
                mine = group
        if mine is None:
            mine = []
            begun.append(mine)
        mine.append(block)
        if len(mine) == lanes:
            full.append(mine)
            begun.remove(mine)
    return full + begun


def _loaded(x_hbm, n, group):
    """[r, u, n, e, g, d, S, f]: blocks and their planes above each other."""
    R, S = x_hbm.shape[1], x_hbm.shape[7]
    u, e, g, d, f = group[0]
    shape = (len(group) * 2 * R, u.size, n.size, e.size, g.size, d.size, S, f.size)
    x_sb = nl.ndarray(shape, dtype=nl.bfloat16, buffer=nl.sbuf)  # [r, u, n, e, g, d, S, f]
    if len(group) == 1 and x_hbm.shape[5] == 1:
        # Planes lie together, so that one transfer takes both.
        here = x_hbm.flatten_dims(0, 1)[:, u.span, n.span, e.span, g.span, d.span, :, f.span]
        nisa.dma_copy(dst=x_sb, src=here)
        return x_sb
    for s in range(len(group)):
        u, e, g, d, f = group[s]
        for p in range(2):
            here = x_hbm[p, :, u.span, n.span, e.span, g.span, d.span, :, f.span]
            nisa.dma_copy(dst=x_sb[(2 * s + p) * R : (2 * s + p + 1) * R], src=here)
    return x_sb


def _stored(y_hbm, y_sb, n, group, turned):
    """Digits to where they belong; where runs would be short, k is transposed next to what is done."""
    u, e, g, d, f = group[0]
    run = g.size * d.size * y_hbm.shape[7] * f.size
    whole = run == y_hbm.shape[5] * y_hbm.shape[6] * y_hbm.shape[7] * y_hbm.shape[8]
    most = max(u.size, n.size, e.size)
    others = u.size * n.size * e.size // most
    if turned and whole and run < SHORT and most > 1 and others <= TABLES:
        for p in tiles(most, P_MAX):
            _stored_turned(y_hbm, y_sb.flatten_dims(4, 7), n, group, p)
        return
    R = y_hbm.shape[4] if turned else y_hbm.shape[1]
    if len(group) == 1 and not turned:
        store(y_hbm.flatten_dims(0, 1)[:, u.span, n.span, e.span, g.span, d.span, :, f.span], y_sb)
        return
    for s in range(len(group)):
        u, e, g, d, f = group[s]
        for p in range(2):
            if turned:
                here = y_hbm[p, u.span, n.span, e.span, :, g.span, d.span, :, f.span].permute((3, 0, 1, 2, 4, 5, 6, 7))
            else:
                here = y_hbm[p, :, u.span, n.span, e.span, g.span, d.span, :, f.span]
            store(here, y_sb[(2 * s + p) * R : (2 * s + p + 1) * R])


def _stored_turned(y_hbm, y_sb, n, group, p):
    """A tile p of the longest of u, n and e on the partitions, [k, q] beside it: q are the digits of what is done."""
    rows, U, N, E, Q = y_sb.shape
    order = (0, 1, 2)
    if N >= U and N >= E:
        order = (1, 0, 2)
    elif E >= U:
        order = (2, 0, 1)
    y_sb = y_sb.permute((0, 1 + order[0], 1 + order[1], 1 + order[2], 4))[:, p.span]  # [k, p, i, j, q]
    _, P, A, B, _ = y_sb.shape
    z_sb = nl.ndarray((P, A, B, rows, Q), dtype=nl.bfloat16, buffer=nl.sbuf)  # [p, i, j, k, q]
    for i in range(A):
        for j in range(B):
            for q in tiles(Q, TOGETHER):
                z_ps = nl.ndarray((P, q.size, rows), dtype=nl.bfloat16, buffer=nl.psum)  # [p, q, k]
                for at in range(q.size):
                    nisa.nc_transpose(dst=z_ps[:, at, :], data=y_sb[:, :, i, j, q.start + at])
                nisa.activation(dst=z_sb[:, i, j, :, q.span], op=nl.copy, data=z_ps.permute((0, 2, 1)))
    R = y_hbm.shape[4]
    for s in range(len(group)):
        u, e, _, _, _ = group[s]
        for part in range(2):
            here = y_hbm[part, u.span, n.span, e.span].flatten_dims(4, 7)  # [u, n, e, k, q]
            here = here.permute((order[0], order[1], order[2], 3, 4))[p.span]
            store(here, z_sb[:, :, :, (2 * s + part) * R : (2 * s + part + 1) * R])


def _product(x_sb, t_sb):
    """[k, u, n, e, g, d, S, f]: digits of the product, the lowest level first."""
    _, U, N, E, G, D, S, F = x_sb.shape
    K, C = t_sb.shape[3], E * G * D
    x_sb = x_sb.flatten_dims(3, 5)  # [r, u, n, c, S, f]
    y_sb = nl.ndarray((K, U, N, C, S, F), dtype=nl.bfloat16, buffer=nl.sbuf)  # [k, u, n, c, S, f]
    up_sb = None
    for down in range(S + 1):
        level = S - down
        sum_ps = nl.ndarray((K, N, U, C, F), dtype=nl.float32, buffer=nl.psum)  # [k, n, u, c, f]
        first = max(0, level - S + 1)
        for i in range(first, min(level, S - 1) + 1):
            for n in range(N):
                nisa.nc_matmul(
                    dst=sum_ps[:, n],
                    stationary=t_sb[:, n, level - i, :],
                    moving=x_sb[:, :, n, :, i, :],
                    accumulate=i > first,
                )
        up_sb = _carried(_digit(y_sb, level + 1), sum_ps, up_sb, 2.0 ** (-7 - 8 * level))
    nisa.tensor_copy(dst=_digit(y_sb, 0), src=up_sb)
    return y_sb.reshape_dim(3, (E, G, D))


def _digit(y_sb, i):
    """[k, n, u, c, f]: one digit of all numbers, None beyond the last."""
    if i >= y_sb.shape[4]:
        return None
    return y_sb[:, :, :, :, i, :].permute((0, 2, 1, 3, 4))


def _carried(digit_sb, total, up_sb, unit):
    """Add the carry from below, keep what is no multiple of ``unit`` as a digit, return the rest."""
    if up_sb is not None:
        sum_sb = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=sum_sb, data1=total, data2=up_sb, op=nl.add)
        total = sum_sb
    up_sb = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=up_sb, data=total, op0=nl.add, operand0=ROUND * unit, op1=nl.subtract, operand1=ROUND * unit)
    if digit_sb is not None:
        nisa.tensor_tensor(dst=digit_sb, data1=total, data2=up_sb, op=nl.subtract, engine=nisa.engine.gpsimd)
    return up_sb


def _multiply(y_hbm, x_hbm, w_hbm, sizes):
    """y[g, k, c] = w[k] x[g, k, c] for complex numbers; k is dealt to P partitions."""
    G, P, Q, C = sizes
    _, _, S, F = x_hbm.shape
    x_hbm = x_hbm.reshape((2, G, P, Q, C, S, F)).permute((0, 2, 1, 3, 4, 5, 6))
    y_hbm = y_hbm.reshape((2, G, P, Q, C, S, F)).permute((0, 2, 1, 3, 4, 5, 6))
    w_hbm = w_hbm.reshape((2, P, Q, S))
    blocks, _ = _blocks((Q, G, C, F), N_TILE)
    for block in blocks:
        q, g, c, f = block
        x_sb, w_sb = [], []
        for p in range(2):
            x_sb.append(load(x_hbm[p, :, g.span, q.span, c.span, :, f.span]))  # [p, g, q, c, S, f]
            w_sb.append(load(w_hbm[p, :, q.span]))  # [p, q, S]
        for part in range(2):
            y_sb = _multiplied(x_sb, (w_sb[part], w_sb[1 - part]), nl.add if part == 1 else nl.subtract)
            store(y_hbm[part, :, g.span, q.span, c.span, :, f.span], y_sb)


def _multiplied(x_sb, w_sb, op):
    """[p, g, q, c, S, f]: digits of x[0] w[0] op x[1] w[1]; products on the Vector Engine, sums on GpSimd."""
    P, G, Q, C, S, F = x_sb[0].shape
    y_sb = nl.ndarray(x_sb[0].shape, dtype=nl.bfloat16, buffer=nl.sbuf)  # [p, g, q, c, S, f]
    up_sb = None
    for down in range(S + 1):
        level = S - down
        sums_sb = []
        for plane in range(2):
            sum_sb = nl.ndarray((P, G, Q, C, F), dtype=nl.float32, buffer=nl.sbuf)  # [p, g, q, c, f]
            first = max(0, level - S + 1)
            for i in range(first, min(level, S - 1) + 1):
                by_sb = w_sb[plane][:, :, level - i].expand_dim(1).broadcast(1, G)
                by_sb = by_sb.expand_dim(3).broadcast(3, C).expand_dim(4).broadcast(4, F)
                dst_sb = sum_sb if i == first else nl.ndarray(sum_sb.shape, dtype=nl.float32, buffer=nl.sbuf)
                nisa.tensor_tensor(dst=dst_sb, data1=x_sb[plane][:, :, :, :, i, :], data2=by_sb, op=nl.multiply)
                if i > first:
                    nisa.tensor_tensor(dst=sum_sb, data1=sum_sb, data2=dst_sb, op=nl.add, engine=nisa.engine.gpsimd)
            sums_sb.append(sum_sb)
        total_sb = nl.ndarray((P, G, Q, C, F), dtype=nl.float32, buffer=nl.sbuf)  # [p, g, q, c, f]
        nisa.tensor_tensor(dst=total_sb, data1=sums_sb[0], data2=sums_sb[1], op=op, engine=nisa.engine.gpsimd)
        digit_sb = y_sb[:, :, :, :, level + 1, :] if level + 1 < S else None
        up_sb = _carried(digit_sb, total_sb, up_sb, 2.0 ** (-7 - 8 * level))
    nisa.tensor_copy(dst=y_sb[:, :, :, :, 0, :], src=up_sb)
    return y_sb
