"""Sums over vectors cut over the partitions: sum(x y), sum|x| or sum x**2 at three scales.

x and y are [B, P, W]. Partial sums of each partition go to a column; one product with ones adds the partitions.
Bound by DMA, except that ``compensated`` (Ogita, Rump and Oishi's Dot2 as a tree) is bound by the Vector Engine.
"""

from trnsci.nki import N_TILE, P_MAX, QUEUES, Axis, elementwise, even, full, load, mine, nisa, nki, nl, store, tiles

WIDTH = 4 * N_TILE
# Veltkamp's constant for fp32: splits 24 bits into two halves of 12.
SPLITTER = 4097.0
DOWN = 2.0**-64
UP = 2.0**64
AXES = (
    Axis(P_MAX, {"x_hbm": 0, "y_hbm": 0}, (1,), broadcasts=False),
    Axis(WIDTH, {"x_hbm": 2, "y_hbm": 2}, (2,), last=True),
)
# What a search may choose: columns of a tile, of how many compensated tiles GpSimd takes one (0: none), and queues.
CHOICES = {
    "width": (N_TILE, 2 * N_TILE, 4 * N_TILE, 8 * N_TILE, 16 * N_TILE),
    "shared": (0, 2, 3),
    "loads": QUEUES,
    "stores": QUEUES,
}


@nki.jit
def dot(x_hbm, y_hbm=None, mode="dot", width=WIDTH, shared=2, loads="compiler", stores="compiler"):
    B, P = x_hbm.shape[0], x_hbm.shape[1]
    S = 3 if mode == "nrm2" else 2 if mode == "compensated" else 1
    out_hbm = nl.ndarray((S, B, 1), dtype=nl.float32, buffer=nl.shared_hbm)  # [S, B, 1]
    for b in mine(tiles(B, even(B, P_MAX))):
        sums_sb = []
        for _ in range(S):
            sums_sb.append(nl.ndarray((P, b.size), dtype=nl.float32, buffer=nl.sbuf))  # [P, b]
        for i in range(b.size):
            _vector(sums_sb, x_hbm, y_hbm, b.start + i, i, mode=mode, width=width, shared=shared, loads=loads)
        if mode == "compensated":
            total_sb, error_sb = _fold_partitions(sums_sb[0], sums_sb[1])
            store(out_hbm[0, b.span, 0:1], total_sb[:, 0:1], stores)
            store(out_hbm[1, b.span, 0:1], error_sb[:, 0:1], stores)
        else:
            for s in range(S):
                store(out_hbm[s, b.span, 0:1], _over_partitions(sums_sb[s]), stores)
    return out_hbm


def _vector(sums_sb, x_hbm, y_hbm, row, column, *, mode, width, shared, loads):
    """Sum one vector over each partition, into one column of every tile of sums."""
    P, W = x_hbm.shape[1], x_hbm.shape[2]
    parts = tiles(W, width)
    part_sb = []
    for _ in range(len(sums_sb)):
        part_sb.append(nl.ndarray((P, len(parts)), dtype=nl.float32, buffer=nl.sbuf))  # [P, T]
    for w in parts:
        x_sb = load(x_hbm[row, 0:P_MAX, w.span], loads)  # [P, w]
        into = slice(w.index, w.index + 1)
        if mode == "dot":
            y_sb = load(y_hbm[row, 0:P_MAX, w.span], loads)  # [P, w]
            product_sb = elementwise(x_sb, y_sb, nl.multiply)  # [P, w]
            nisa.tensor_reduce(dst=part_sb[0][:, into], op=nl.add, data=product_sb, axis=1)
        elif mode == "compensated":
            y_sb = load(y_hbm[row, 0:P_MAX, w.span], loads)  # [P, w]
            engine = nisa.engine.gpsimd if shared > 0 and w.index % max(shared, 1) == 1 else nisa.engine.vector
            total_sb, error_sb = _two_product(x_sb, y_sb, engine)
            total_sb, error_sb = _fold(total_sb, error_sb, engine)
            nisa.tensor_copy(dst=part_sb[0][:, into], src=total_sb)
            nisa.tensor_copy(dst=part_sb[1][:, into], src=error_sb)
        else:
            scales = (1.0,) if mode == "asum" else (DOWN, 1.0, UP)
            for s in range(len(scales)):
                scratch_sb = nl.ndarray((P, w.size), dtype=nl.float32, buffer=nl.sbuf)  # [P, w]
                nisa.activation_reduce(
                    dst=scratch_sb,
                    op=nl.abs if mode == "asum" else nl.square,
                    data=x_sb,
                    scale=scales[s],
                    reduce_op=nl.add,
                    reduce_res=part_sb[s][:, into],
                )
    column_of = slice(column, column + 1)
    if mode == "compensated":
        total_sb, error_sb = _fold(part_sb[0], part_sb[1], nisa.engine.vector)
        nisa.tensor_copy(dst=sums_sb[0][:, column_of], src=total_sb)
        nisa.tensor_copy(dst=sums_sb[1][:, column_of], src=error_sb)
    else:
        for s in range(len(sums_sb)):
            nisa.tensor_reduce(dst=sums_sb[s][:, column_of], op=nl.add, data=part_sb[s], axis=1)


def _over_partitions(column_sb):
    """Add the partitions: [P, b] to [b, 1], in PSUM."""
    P, b = column_sb.shape
    ones_sb = full((P, 1), 1.0)  # [P, 1]
    sum_ps = nl.ndarray((b, 1), dtype=nl.float32, buffer=nl.psum)  # [b, 1]
    nisa.nc_matmul(dst=sum_ps, stationary=column_sb, moving=ones_sb, accumulate=False)
    return sum_ps


def _two_sum(a_sb, b_sb, engine):
    """Return the rounded sum and exactly what rounding lost (Knuth)."""
    sum_sb = _op(a_sb, b_sb, nl.add, engine)
    b_part_sb = _op(sum_sb, a_sb, nl.subtract, engine)
    a_part_sb = _op(sum_sb, b_part_sb, nl.subtract, engine)
    a_lost_sb = _op(a_sb, a_part_sb, nl.subtract, engine)
    b_lost_sb = _op(b_sb, b_part_sb, nl.subtract, engine)
    return sum_sb, _op(a_lost_sb, b_lost_sb, nl.add, engine)


def _two_product(x_sb, y_sb, engine):
    """Return the rounded product and exactly what rounding lost (Dekker)."""
    product_sb = _op(x_sb, y_sb, nl.multiply, engine)
    x_high_sb, x_low_sb = _halves(x_sb, engine)
    y_high_sb, y_low_sb = _halves(y_sb, engine)
    rest_sb = _op(_op(x_high_sb, y_high_sb, nl.multiply, engine), product_sb, nl.subtract, engine)
    rest_sb = _op(rest_sb, _op(x_high_sb, y_low_sb, nl.multiply, engine), nl.add, engine)
    rest_sb = _op(rest_sb, _op(x_low_sb, y_high_sb, nl.multiply, engine), nl.add, engine)
    return product_sb, _op(rest_sb, _op(x_low_sb, y_low_sb, nl.multiply, engine), nl.add, engine)


def _halves(x_sb, engine):
    big_sb = nl.ndarray(x_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [P, w]
    nisa.tensor_scalar(dst=big_sb, data=x_sb, op0=nl.multiply, operand0=SPLITTER)
    high_sb = _op(big_sb, _op(big_sb, x_sb, nl.subtract, engine), nl.subtract, engine)
    return high_sb, _op(x_sb, high_sb, nl.subtract, engine)


def _op(a_sb, b_sb, op, engine):
    dst_sb = nl.ndarray(a_sb.shape, dtype=nl.float32, buffer=nl.sbuf)  # [P, w]
    nisa.tensor_tensor(dst=dst_sb, data1=a_sb, data2=b_sb, op=op, engine=engine)
    return dst_sb


def _fold(total_sb, error_sb, engine):
    """Add up the free dimension by halves, keeping what every sum loses."""
    width = total_sb.shape[1]
    while width > 1:
        half = width // 2
        odd = width - 2 * half
        sum_sb, lost_sb = _two_sum(total_sb[:, 0:half], total_sb[:, half : 2 * half], engine)
        errors_sb = _op(_op(error_sb[:, 0:half], error_sb[:, half : 2 * half], nl.add, engine), lost_sb, nl.add, engine)
        if odd == 1:
            # The one left over joins the first.
            last = slice(2 * half, width)
            first_sb, lost_sb = _two_sum(sum_sb[:, 0:1], total_sb[:, last], engine)
            more_sb = _op(_op(errors_sb[:, 0:1], error_sb[:, last], nl.add, engine), lost_sb, nl.add, engine)
            nisa.tensor_copy(dst=sum_sb[:, 0:1], src=first_sb)
            nisa.tensor_copy(dst=errors_sb[:, 0:1], src=more_sb)
        total_sb, error_sb, width = sum_sb, errors_sb, half
    return total_sb, error_sb


def _fold_partitions(total_sb, error_sb):
    """Add up over the partitions, after a transpose, which moves bits as they are."""
    transposed = []
    for part_sb in (total_sb, error_sb):
        P, b = part_sb.shape
        rows_ps = nl.ndarray((b, P), dtype=nl.float32, buffer=nl.psum)  # [b, P]
        nisa.nc_transpose(dst=rows_ps, data=part_sb)
        rows_sb = nl.ndarray((b, P), dtype=nl.float32, buffer=nl.sbuf)  # [b, P]
        nisa.tensor_copy(dst=rows_sb, src=rows_ps)
        transposed.append(rows_sb)
    return _fold(transposed[0], transposed[1], nisa.engine.vector)
