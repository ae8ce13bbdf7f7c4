"""LU of a panel with partial pivoting, rows across partitions: no row moves, and no pass is longer than the panel.

A panel is held [p, w, T]: row p T + t of the matrix in partition p. The key of a row is its magnitude in the current
column, bits of a float32 moved right by one, with a leading one and the row's rank as its last bits: keys are positive
normal numbers in the order of magnitudes, and unique. The pivot of 1024 rows is within 2**-12 of the largest, and the
first of equals. Each partition knows its best row; a transposed, broadcast copy of their keys tells all partitions
which one it is, and while that is under way each has its candidate ready. A product with the winner's flag broadcasts
the pivot row. The next column is brought up to date ahead of the others, for its search is the chain. In place of a
column that is done grows the inverse of the unit triangle, as if an identity had been eliminated along.
"""

from trnsci.nki import P_MAX, elementwise, nisa, nl

# The key of 2**-100: a pivot with less, of entries near 1, counts as zero.
FLOOR = 24576.0


def _magnitude(rows):
    """Return bits of a key that are magnitude, those of a number that float32 holds; the last ones are the rank."""
    ranks = 1
    for _bit in range(24):
        if ranks < rows:
            ranks = 2 * ranks
    return (1 << 30) - ranks


def _pivot(p_sb, l_sb, one_sb, free_sb, rank_sb, *, kept, column_sb, j):
    """Eliminate column j of p [p, w, T], which is ``column`` in rows that are free; return the next column.

    ``l`` gets the multipliers and ``one`` the pivot, a one in column j; ``free`` loses its row. That row of p is left
    with row j of u from column j on, and of the unit triangle's inverse before.
    """
    rows = p_sb.shape[0]
    w = p_sb.shape[1]
    T = p_sb.shape[2]
    key_sb, best_sb = _keys(column_sb, free_sb, rank_sb, kept)
    hit_sb, candidate_sb = _candidates(p_sb, key_sb, best_sb, j)
    row_ps, flag_sb = _winner(candidate_sb, best_sb)
    if j + 1 < w:
        column_sb = _next_column(p_sb, row_ps, j)
    here = one_sb[0:rows, j, 0:T]
    flags = flag_sb.ap([[1, rows], [0, T]], offset=0)
    nisa.tensor_tensor(dst=here, data1=hit_sb, data2=flags, op=nl.multiply, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=free_sb, data1=free_sb, data2=here, op=nl.subtract, engine=nisa.engine.gpsimd)
    _take_row_off(p_sb, l_sb, free_sb, row_ps, j)
    return column_sb


def _keys(column_sb, free_sb, rank_sb, kept):
    """Return keys of all rows, less than 2 for those in use, and the largest of each partition."""
    rows = column_sb.shape[0]
    T = column_sb.shape[1]
    # The leading one and the rank, of free rows only.
    order_sb = nl.ndarray((rows, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
    nisa.tensor_tensor(dst=order_sb, data1=free_sb, data2=rank_sb, op=nl.multiply, engine=nisa.engine.gpsimd)
    key_sb = nl.ndarray((rows, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
    key_i32_sb = key_sb.view(nl.int32)  # [p, T]
    nisa.tensor_scalar(
        dst=key_i32_sb,
        data=column_sb.view(nl.int32),
        op0=nl.right_shift,
        operand0=1,
        op1=nl.bitwise_and,
        operand1=kept,
    )
    nisa.tensor_tensor(dst=key_i32_sb, data1=key_i32_sb, data2=order_sb.view(nl.int32), op=nl.bitwise_or)
    best_sb = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_reduce(dst=best_sb, op=nl.maximum, data=key_sb, axis=1)
    return key_sb, best_sb


def _candidates(p_sb, key_sb, best_sb, j):
    """Find the row of each partition with its largest key: its position, and the row, with one for a zero pivot."""
    rows = p_sb.shape[0]
    w = p_sb.shape[1]
    T = p_sb.shape[2]
    each_sb = nl.ndarray((rows, w, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, w, T]
    nisa.scalar_tensor_tensor(
        dst=each_sb,
        data=key_sb.ap([[T, rows], [0, w], [1, T]], offset=0),
        op0=nl.equal,
        operand0=best_sb,
        op1=nl.multiply,
        operand1=p_sb,
    )
    candidate_sb = nl.ndarray((rows, w), dtype=nl.float32, buffer=nl.sbuf)  # [p, w]
    nisa.tensor_reduce(dst=candidate_sb, op=nl.add, data=each_sb, axis=2)
    here = candidate_sb[0:rows, j : j + 1]
    nisa.scalar_tensor_tensor(dst=here, data=best_sb, op0=nl.less, operand0=FLOOR, op1=nl.add, operand1=here)
    hit_sb = nl.ndarray((rows, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
    nisa.tensor_tensor(
        dst=hit_sb,
        data1=key_sb,
        data2=best_sb.ap([[1, rows], [0, T]], offset=0),
        op=nl.equal,
        engine=nisa.engine.gpsimd,
    )
    return hit_sb, candidate_sb


def _winner(candidate_sb, best_sb):
    """Return the pivot row in every partition, and a flag for the partition it is from."""
    rows = candidate_sb.shape[0]
    w = candidate_sb.shape[1]
    all_ps = nl.ndarray((P_MAX, rows), dtype=nl.float32, buffer=nl.psum)  # [k, p]
    nisa.nc_transpose(dst=all_ps, data=best_sb.ap([[1, rows], [0, P_MAX]], offset=0))
    most_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [k, 1]
    nisa.tensor_reduce(dst=most_sb, op=nl.maximum, data=all_ps, axis=1)
    flag_sb = elementwise(best_sb, most_sb[0:rows, 0:1], nl.equal)  # [p, 1]
    row_ps = nl.ndarray((P_MAX, w), dtype=nl.float32, buffer=nl.psum)  # [k, w]
    nisa.nc_matmul(
        dst=row_ps, stationary=flag_sb.ap([[1, rows], [0, P_MAX]], offset=0), moving=candidate_sb, accumulate=False
    )
    return row_ps, flag_sb


def _next_column(p_sb, row_ps, j):
    """Return column j + 1 less column j times the ratio of the pivot row's entries there."""
    rows = p_sb.shape[0]
    T = p_sb.shape[2]
    ratio_sb = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_scalar(
        dst=ratio_sb,
        data=row_ps[0:rows, j : j + 1],
        op0=nl.power,
        operand0=-1.0,
        op1=nl.multiply,
        operand1=row_ps[0:rows, j + 1 : j + 2],
    )
    column_sb = nl.ndarray((rows, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
    nisa.scalar_tensor_tensor(
        dst=column_sb,
        data=p_sb[0:rows, j, 0:T],
        op0=nl.multiply,
        operand0=ratio_sb,
        op1=nl.subtract,
        operand1=p_sb[0:rows, j + 1, 0:T],
        reverse1=True,
    )
    return column_sb


def _take_row_off(p_sb, l_sb, free_sb, row_ps, j):
    """Multipliers of rows that are still free, and the pivot row times them off all columns; column j becomes -l."""
    rows = p_sb.shape[0]
    w = p_sb.shape[1]
    T = p_sb.shape[2]
    here = p_sb[0:rows, j, 0:T]
    over_sb = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_scalar(dst=over_sb, data=row_ps[0:rows, j : j + 1], op0=nl.power, operand0=-1.0)
    rest_sb = nl.ndarray((rows, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
    nisa.tensor_tensor(dst=rest_sb, data1=here, data2=free_sb, op=nl.multiply, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=here, data1=here, data2=rest_sb, op=nl.subtract, engine=nisa.engine.gpsimd)
    row_sb = nl.ndarray((rows, w), dtype=nl.float32, buffer=nl.sbuf)  # [p, w]
    nisa.activation(dst=row_sb, op=nl.copy, data=row_ps[0:rows, 0:w])
    nisa.memset(dst=row_sb[0:rows, j : j + 1], value=1.0, engine=nisa.engine.gpsimd)
    lower = l_sb[0:rows, j, 0:T]
    nisa.tensor_tensor(
        dst=lower,
        data1=rest_sb,
        data2=over_sb.ap([[1, rows], [0, T]], offset=0),
        op=nl.multiply,
        engine=nisa.engine.gpsimd,
    )
    each_sb = nl.ndarray((rows, w, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, w, T]
    nisa.tensor_tensor(
        dst=each_sb,
        data1=l_sb.ap([[w * T, rows], [0, w], [1, T]], offset=j * T),
        data2=row_sb.ap([[w, rows], [1, w], [0, T]], offset=0),
        op=nl.multiply,
        engine=nisa.engine.gpsimd,
    )
    nisa.tensor_tensor(dst=p_sb, data1=p_sb, data2=each_sb, op=nl.subtract, engine=nisa.engine.gpsimd)
