"""Transforms without rounding: operands and results are digits of base 256, each exact in bf16.

A number of at most 1 is ``sum_i d_i 2**(-7 - 8 i)`` with whole ``|d_i| <= 128``; digits are stored with their powers of
two. Products of one level ``i + j`` are whole multiples, at most 2**24, of one power of two, so that PSUM adds them
exactly; levels are carried into digits from the lowest up. A program is a tuple of steps, each a kind, where its table
begins, and sizes, which the step names in its first line; digits are in HBM between them:

* ``product``: one factor of an axis, by a table for each residue of what is left of it, its twiddles in the tables; or
  twiddles alone, whose tables are diagonal.
* ``multiply``: the spectrum of a chirp, digit by digit.

Bound by the Tensor and the Vector Engine alike. Below 150 KiB a partition.
"""

from trnsci.nki import N_TILE, P_MAX, WARM, is_first_core, move, nisa, nki, nl, tiles, warm_up

# Adding and subtracting this rounds to whole numbers, to nearest even.
ROUND = 1.5 * 2.0**23
# Tables of one load: 28 KiB of a partition for 7 digits.
TABLES = 16
# Columns up to which a product costs the same for more of them.
LEAST = 64
# Digits of a run below which writes are expensive.
SHORT = 256
# Transposed tiles that leave PSUM together.
TOGETHER = 8
# Dimensions of a view beside the partition.
FREE = 4

# What a search may choose: products of zeros while the first loads are on their way.
CHOICES = {"warm": WARM}


@nki.jit
def exact(x_hbm, tables_hbm, program=(), warm=0):
    """Digits x [plane, n, S, F] through the steps of a program."""
    _, points, S, F = x_hbm.shape
    warm_up(warm)
    for index in range(len(program)):
        kind, table, sizes = program[index]
        buffer = nl.shared_hbm if index == len(program) - 1 else nl.private_hbm
        y_hbm = nl.ndarray((2, points, S, F), dtype=nl.bfloat16, buffer=buffer)  # [plane, n, S, F]
        # a step reads all that the one before it wrote, in memory of one core
        if is_first_core() and kind == "product":
            _pass(y_hbm, x_hbm, tables_hbm, table, sizes)
        elif is_first_core():
            _multiply(y_hbm, x_hbm, tables_hbm, table, sizes)
        x_hbm = y_hbm
    return x_hbm


def _steps(sizes):
    """Return distances of elements along dimensions of these sizes, the last one in a run."""
    distances, step = [], 1
    for i in range(len(sizes)):
        distances.append(step)
        step *= sizes[len(sizes) - 1 - i]
    distances.reverse()
    return distances


def _move(dst, dst_at, src, src_at, rows, dims):
    """Copy ``rows`` rows of several dimensions; ``rows`` and ``dims`` are (size, distance in dst, distance in src).

    Dimensions that run into each other on both sides are one; more than a view has are copied one by one.
    """
    joined = []
    for i in range(len(dims)):
        size, to, of = dims[len(dims) - 1 - i]
        if size > 1:
            if len(joined) > 0:
                inner, inner_to, inner_of = joined[len(joined) - 1]
                if to == inner * inner_to and of == inner * inner_of:
                    joined.pop()
                    size, to, of = size * inner, inner_to, inner_of
            joined.append((size, to, of))
    # Here the last dimension comes first.
    starts = [(dst_at, src_at)]
    while len(joined) > FREE:
        size, to, of = joined.pop()
        more = []
        for start in starts:
            at, source = start
            for i in range(size):
                more.append((at + i * to, source + i * of))
        starts = more
    joined.reverse()
    count, row_to, row_of = rows
    dst_pattern, src_pattern = [[row_to, count]], [[row_of, count]]
    for dim in joined:
        size, to, of = dim
        dst_pattern.append([to, size])
        src_pattern.append([of, size])
    if len(joined) == 0:
        dst_pattern.append([1, 1])
        src_pattern.append([1, 1])
    for start in starts:
        at, source = start
        move(dst.ap(dst_pattern, offset=at), src.ap(src_pattern, offset=source))


def _pass(y_hbm, x_hbm, tables_hbm, table, sizes):
    """Compute y[k, u, n, e, g, d] = sum_r t[n][r, k] x[r, u, n, e, g, d] for every digit and column, in both planes.

    What is left of this axis is (u, n), other axes are e, and what is done is (g, d), of which g lies outside in x. In
    y k is part of what is done where that is ``transposed``, else outside. Small factors have blocks of columns
    above each other, with a table for each.
    """
    R, U, N, E, G, D, transposed = sizes
    transposed = transposed and U * N * E > 1
    _, _, S, F = x_hbm.shape
    lanes = P_MAX // (2 * R)
    total = U * E * G * D * F
    blocks, columns = _blocks((U, E, G, D, F), max(LEAST, (total + lanes - 1) // lanes))
    groups = _group_blocks(blocks, lanes)
    lanes = 1
    for group in groups:
        lanes = max(lanes, len(group))
    at_n = max(1, min(min(N, TABLES), N_TILE // columns))
    held = []
    for _ in range(min(2, (N + at_n - 1) // at_n) if lanes > 1 else 0):
        held_sb = nl.ndarray((lanes * 2 * R, at_n, S, lanes * 2 * R), dtype=nl.bfloat16, buffer=nl.sbuf)  # [r, n, S, k]
        nisa.memset(dst=held_sb, value=0.0)
        held.append(held_sb)
    for n in tiles(N, at_n):
        t_sb = _tables(tables_hbm, (table, 2 * R, N, S), held, n, lanes)
        for group in groups:
            rows = len(group) * 2 * R
            x_sb = _load_digits(x_hbm, n, group, sizes)
            y_sb = _product(x_sb, t_sb[0:rows, :, :, 0:rows], _shape(group[0], n, S))
            _store_digits(y_hbm, y_sb, n, group, (R, U, N, E, G, D, transposed))


def _shape(block, n, S):
    """Return sizes (u, n, c, S, f) of a block; c is e, g and d."""
    u, e, g, d, f = block
    return u.size, n.size, e.size * g.size * d.size, S, f.size


def _tables(tables_hbm, sizes, held, n, lanes):
    """Return [r, n, S, k]: tables along the diagonal, once for every lane, zero elsewhere."""
    table, rows, N, S = sizes
    pattern = [[N * S * rows, rows], [S * rows, n.size], [rows, S], [1, rows]]  # [r, n, S, k]
    here_hbm = tables_hbm.ap(pattern, offset=table + n.start * S * rows)
    if lanes == 1:
        t_sb = nl.ndarray((rows, n.size, S, rows), dtype=nl.bfloat16, buffer=nl.sbuf)  # [r, n, S, k]
        move(t_sb, here_hbm)
        return t_sb
    held_sb = held[n.index % 2]
    for s in range(lanes):
        here = slice(s * rows, (s + 1) * rows)
        move(held_sb[here, 0 : n.size, :, here], here_hbm)
    return held_sb[:, 0 : n.size]


def _blocks(extents, most):
    """Cut several dimensions into tiles of at most 512 and about ``most`` elements, last first; return their size."""
    sizes, columns = [], 1
    for i in range(len(extents)):
        extent = extents[len(extents) - 1 - i]
        count = max(1, min(most, N_TILE) // columns)
        # As equal as can be.
        pieces = (extent + count - 1) // count
        sizes.append((extent + pieces - 1) // pieces)
        columns *= sizes[i]
    blocks = [()]
    for i in range(len(extents)):
        longer = []
        for block in blocks:
            for tile in tiles(extents[i], sizes[len(extents) - 1 - i]):
                longer.append(block + (tile,))  # noqa: RUF005
        blocks = longer
    return blocks, columns


def _alike(one, other):
    """Return whether two blocks have one shape."""
    same = True
    for i in range(len(one)):
        mine, theirs = one[i], other[i]
        if mine.size != theirs.size:
            same = False
    return same


def _group_blocks(blocks, lanes):
    """Group up to ``lanes`` blocks of one shape."""
    full, begun = [], []
    for block in blocks:
        mine = -1
        for i in range(len(begun)):
            if _alike(begun[i][0], block):
                mine = i
        if mine < 0:
            mine = len(begun)
            begun.append([])
        begun[mine].append(block)
        if len(begun[mine]) == lanes:
            full.append(begun[mine])
            rest = []
            for i in range(len(begun)):
                if i != mine:
                    rest.append(begun[i])
            begun = rest
    return full + begun


def _load_digits(x_hbm, n, group, sizes):
    """Load [r, u n e g d S f]: blocks and their planes above each other."""
    R, U, N, E, G, D, _ = sizes
    _, points, S, F = x_hbm.shape
    of_g, of_r, of_u, of_n, of_e, of_d, of_s, _ = _steps((G, R, U, N, E, D, S, F))
    u, e, g, d, f = group[0]
    inside = (u.size, n.size, e.size, g.size, d.size, S, f.size)
    to = _steps(inside)
    free = u.size * to[0]
    x_sb = nl.ndarray((len(group) * 2 * R, free), dtype=nl.bfloat16, buffer=nl.sbuf)  # [r, u n e g d S f]
    of = (of_u, of_n, of_e, of_g, of_d, of_s, 1)
    dims = []
    for i in range(len(inside)):
        dims.append((inside[i], to[i], of[i]))
    # Where planes lie together, one transfer takes both.
    together = 2 if len(group) == 1 and G == 1 else 1
    for s in range(len(group)):
        u, e, g, d, f = group[s]
        start = u.start * of_u + n.start * of_n + e.start * of_e + g.start * of_g + d.start * of_d + f.start
        for p in range(2 // together):
            row = (2 * s + p) * R
            source = p * points * S * F + start
            _move(x_sb, row * free, x_hbm, source, (together * R, free, of_r), dims)
    return x_sb


def _store_digits(y_hbm, y_sb, n, group, sizes):
    """Store digits where they belong; where runs would be short, k is transposed next to what is done."""
    R, U, N, E, G, D, transposed = sizes
    _, points, S, F = y_hbm.shape
    u, e, g, d, f = group[0]
    run = g.size * d.size * S * f.size
    most = max(max(u.size, n.size), e.size)
    others = u.size * n.size * e.size // most
    if transposed and run == G * D * S * F and run < SHORT and most > 1 and others <= TABLES:
        for p in tiles(most, P_MAX):
            _store_transposed(y_hbm, y_sb, n, group, (R, N, E, run, p))
        return
    if transposed:
        to_u, to_n, to_e, to_k, to_g, to_d, to_s, _ = _steps((U, N, E, R, G, D, S, F))
    else:
        to_k, to_u, to_n, to_e, to_g, to_d, to_s, _ = _steps((R, U, N, E, G, D, S, F))
    inside = (u.size, n.size, e.size, g.size, d.size, S, f.size)
    of = _steps(inside)
    free = u.size * of[0]
    to = (to_u, to_n, to_e, to_g, to_d, to_s, 1)
    dims = []
    for i in range(len(inside)):
        dims.append((inside[i], to[i], of[i]))
    together = 2 if len(group) == 1 and not transposed else 1
    for s in range(len(group)):
        u, e, g, d, f = group[s]
        start = u.start * to_u + n.start * to_n + e.start * to_e + g.start * to_g + d.start * to_d + f.start
        for p in range(2 // together):
            row = (2 * s + p) * R
            _move(y_hbm, p * points * S * F + start, y_sb, row * free, (together * R, to_k, free), dims)


def _store_transposed(y_hbm, y_sb, n, group, sizes):
    """Store a tile p of the longest of u, n and e on the partitions, beside [k, q]: digits q of what is done."""
    R, N, E, Q, p = sizes
    _, points, S, F = y_hbm.shape
    rows, free = y_sb.shape
    u, e, _, _, _ = group[0]
    extents = (u.size, n.size, e.size)
    # Distances of u, n and e on chip and in HBM.
    of = (n.size * e.size * Q, e.size * Q, Q)
    to = (N * E * R * Q, E * R * Q, R * Q)
    order = (0, 1, 2)
    if n.size >= u.size and n.size >= e.size:
        order = (1, 0, 2)
    elif e.size >= u.size:
        order = (2, 0, 1)
    P, A, B = p.size, extents[order[1]], extents[order[2]]
    z_sb = nl.ndarray((P, A * B, rows, Q), dtype=nl.bfloat16, buffer=nl.sbuf)  # [p, i j, k, q]
    for i in range(A):
        for j in range(B):
            start = p.start * of[order[0]] + i * of[order[1]] + j * of[order[2]]
            for q in tiles(Q, TOGETHER):
                z_ps = nl.ndarray((P, q.size, rows), dtype=nl.bfloat16, buffer=nl.psum)  # [p, q, k]
                for at in range(q.size):
                    view = y_sb.ap([[free, rows], [of[order[0]], P]], offset=start + q.start + at)
                    nisa.nc_transpose(dst=z_ps[:, at, :], data=view)
                transposed = z_ps.ap([[q.size * rows, P], [1, rows], [rows, q.size]], offset=0)  # [p, k, q]
                nisa.activation(dst=z_sb[:, i * B + j, :, q.span], op=nl.copy, data=transposed)
    dims = [(A, to[order[1]], B * rows * Q), (B, to[order[2]], rows * Q), (R * Q, 1, 1)]
    for s in range(len(group)):
        u, e, _, _, _ = group[s]
        start = u.start * to[0] + n.start * to[1] + e.start * to[2] + p.start * to[order[0]]
        for part in range(2):
            source = (2 * s + part) * R * Q
            _move(y_hbm, part * points * S * F + start, z_sb, source, (P, to[order[0]], A * B * rows * Q), dims)


def _product(x_sb, t_sb, sizes):
    """Return [k, u n c S f]: digits of the product, the lowest level first."""
    U, N, C, S, F = sizes
    K = t_sb.shape[3]
    rows, free = x_sb.shape
    y_sb = nl.ndarray((K, free), dtype=nl.bfloat16, buffer=nl.sbuf)  # [k, u n c S f]
    up_sb = None
    for down in range(S + 1):
        level = S - down
        sum_ps = nl.ndarray((K, N, U, C, F), dtype=nl.float32, buffer=nl.psum)  # [k, n, u, c, f]
        first = max(0, level - S + 1)
        for i in range(first, min(level, S - 1) + 1):
            for n in range(N):
                pattern = [[free, rows], [N * C * S * F, U], [S * F, C], [1, F]]  # [r, u, c, f]
                nisa.nc_matmul(
                    dst=sum_ps[:, n],
                    stationary=t_sb[:, n, level - i, :],
                    moving=x_sb.ap(pattern, offset=n * C * S * F + i * F),
                    accumulate=i > first,
                )
        digit = None if level + 1 >= S else _digit(y_sb, level + 1, sizes)
        up_sb = _carry_digit(digit, sum_ps, up_sb, 1.0 / 2.0 ** (7 + 8 * level))
    nisa.tensor_copy(dst=_digit(y_sb, 0, sizes), src=up_sb)
    return y_sb


def _digit(y_sb, i, sizes):
    """Return [k, n, u, c, f]: one digit of all numbers."""
    U, N, C, S, F = sizes
    K, free = y_sb.shape
    return y_sb.ap([[free, K], [C * S * F, N], [N * C * S * F, U], [S * F, C], [1, F]], offset=i * F)


def _carry_digit(digit_sb, total, up_sb, unit):
    """Add the carry from below, keep what is no multiple of ``unit`` as a digit, return the rest."""
    if up_sb != None:
        sum_sb = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=sum_sb, data1=total, data2=up_sb, op=nl.add)
        total = sum_sb
    up_sb = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=up_sb, data=total, op0=nl.add, operand0=ROUND * unit, op1=nl.subtract, operand1=ROUND * unit)
    if digit_sb != None:
        nisa.tensor_tensor(dst=digit_sb, data1=total, data2=up_sb, op=nl.subtract, engine=nisa.engine.gpsimd)
    return up_sb


def _multiply(y_hbm, x_hbm, tables_hbm, table, sizes):
    """Compute y[g, k, c] = w[k] x[g, k, c] for complex numbers; k is dealt to P partitions."""
    G, P, Q, C = sizes
    _, points, S, F = x_hbm.shape
    in_g, in_p, in_q, in_c, in_s, _ = _steps((G, P, Q, C, S, F))
    blocks, _ = _blocks((Q, G, C, F), N_TILE)
    for block in blocks:
        q, g, c, f = block
        inside = (g.size, q.size, c.size, S, f.size)
        on_chip = _steps(inside)
        free = g.size * on_chip[0]
        in_hbm = (in_g, in_q, in_c, in_s, 1)
        start = g.start * in_g + q.start * in_q + c.start * in_c + f.start
        inward, outward = [], []
        for i in range(len(inside)):
            inward.append((inside[i], on_chip[i], in_hbm[i]))
            outward.append((inside[i], in_hbm[i], on_chip[i]))
        x_sb, w_sb = [], []
        for p in range(2):
            part_sb = nl.ndarray((P, free), dtype=nl.bfloat16, buffer=nl.sbuf)  # [p, g q c S f]
            _move(part_sb, 0, x_hbm, p * points * S * F + start, (P, free, in_p), inward)
            x_sb.append(part_sb)
            by_sb = nl.ndarray((P, q.size, S), dtype=nl.bfloat16, buffer=nl.sbuf)  # [p, q, S]
            at = table + p * P * Q * S + q.start * S
            move(by_sb, tables_hbm.ap([[Q * S, P], [S, q.size], [1, S]], offset=at))
            w_sb.append(by_sb)
        for part in range(2):
            y_sb = _multiply_elements(x_sb, (w_sb[part], w_sb[1 - part]), inside, nl.add if part == 1 else nl.subtract)
            _move(y_hbm, part * points * S * F + start, y_sb, 0, (P, in_p, free), outward)


def _multiply_elements(x_sb, w_sb, sizes, op):
    """Return [p, g q c S f]: digits of x[0] w[0] op x[1] w[1], products on the Vector Engine, sums on GpSimd."""
    G, Q, C, S, F = sizes
    P, free = x_sb[0].shape
    pattern = [[free, P], [Q * C * S * F, G], [C * S * F, Q], [S * F, C], [1, F]]  # [p, g, q, c, f]
    y_sb = nl.ndarray((P, free), dtype=nl.bfloat16, buffer=nl.sbuf)  # [p, g q c S f]
    up_sb = None
    for down in range(S + 1):
        level = S - down
        sums_sb = []
        for plane in range(2):
            sum_sb = nl.ndarray((P, G, Q, C, F), dtype=nl.float32, buffer=nl.sbuf)  # [p, g, q, c, f]
            first = max(0, level - S + 1)
            for i in range(first, min(level, S - 1) + 1):
                by = w_sb[plane].ap([[Q * S, P], [0, G], [S, Q], [0, C], [0, F]], offset=level - i)
                dst_sb = sum_sb
                if i > first:
                    dst_sb = nl.ndarray((P, G, Q, C, F), dtype=nl.float32, buffer=nl.sbuf)  # [p, g, q, c, f]
                digit = x_sb[plane].ap(pattern, offset=i * F)
                nisa.tensor_tensor(dst=dst_sb, data1=digit, data2=by, op=nl.multiply)
                if i > first:
                    nisa.tensor_tensor(dst=sum_sb, data1=sum_sb, data2=dst_sb, op=nl.add, engine=nisa.engine.gpsimd)
            sums_sb.append(sum_sb)
        total_sb = nl.ndarray((P, G, Q, C, F), dtype=nl.float32, buffer=nl.sbuf)  # [p, g, q, c, f]
        nisa.tensor_tensor(dst=total_sb, data1=sums_sb[0], data2=sums_sb[1], op=op, engine=nisa.engine.gpsimd)
        digit_sb = None
        if level + 1 < S:
            digit_sb = y_sb.ap(pattern, offset=(level + 1) * F)
        up_sb = _carry_digit(digit_sb, total_sb, up_sb, 1.0 / 2.0 ** (7 + 8 * level))
    nisa.tensor_copy(dst=y_sb.ap(pattern, offset=0), src=up_sb)
    return y_sb
