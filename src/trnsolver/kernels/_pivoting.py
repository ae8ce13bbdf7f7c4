"""LU of a panel with partial pivoting, rows across partitions: no row moves, and no pass is longer than the panel.

A panel is held [p, w, T]: row p T + t of the matrix in partition p. The key of a row is its magnitude in the current
column with the last ten bits replaced by its rank, so that keys are unique: the pivot is within 2**-13 of the largest,
of equals the first. Each partition knows its best row; a transposed, spread copy of their keys tells all partitions
which one it is, and while that is under way each has its candidate ready. A product with the winner's flag spreads the
pivot row. The next column is brought up to date ahead of the others, for its search is the chain. In the place of a
column that is done grows the inverse of the unit triangle, as if an identity had been eliminated along.
"""

from trnsci.nki import P_MAX, nisa, nl

# Magnitude bits of a key, 0x7FFFFC00, a number that float32 holds; the others are the rank.
MAGNITUDE = 2147482624.0
# What is less, of entries near 1, counts as zero.
FLOOR = 2.0**-100


def _pivot(p_sb, l_sb, one_sb, free_sb, rank_sb, constants, column_sb, j):
    """Eliminate column j of p [p, w, T], which is ``column`` in rows that are free; return the next column.

    ``l`` gets the multipliers and ``one`` the pivot, a one in column j; ``free`` loses its row. That row of p is left
    with row j of u from column j on, and of the unit triangle's inverse before.
    """
    rows = p_sb.shape[0]
    w = p_sb.shape[1]
    T = p_sb.shape[2]
    floor_sb, magnitude_sb = constants
    key_sb, best_sb = _keys(column_sb, free_sb, rank_sb, magnitude_sb)
    hit_sb, candidate_sb = _candidates(p_sb, key_sb, best_sb)
    row_ps, flag_sb, tiny_sb = _winner(candidate_sb, best_sb, floor_sb)
    over_sb = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_scalar(
        dst=over_sb, data=row_ps[0:rows, j : j + 1], op0=nl.add, operand0=tiny_sb, op1=nl.power, operand1=-1.0
    )
    if j + 1 < w:
        column_sb = _next_column(p_sb, row_ps, over_sb, j)
    here = one_sb[0:rows, j, 0:T]
    nisa.tensor_tensor(dst=here, data1=hit_sb, data2=flag_sb[0:rows, 0:T], op=nl.multiply, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=free_sb, data1=free_sb, data2=here, op=nl.subtract, engine=nisa.engine.gpsimd)
    _take_row_off(p_sb, l_sb, free_sb, row_ps, over_sb, j)
    return column_sb


def _constants(rows, T):
    """What pivots are compared with, and the bits of a key that are magnitude."""
    floor_sb = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.memset(dst=floor_sb, value=2.0 * FLOOR)
    magnitude_sb = nl.ndarray((rows, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
    nisa.memset(dst=magnitude_sb, value=MAGNITUDE)
    return floor_sb, magnitude_sb


def _keys(column_sb, free_sb, rank_sb, magnitude_sb):
    """Keys of all rows, next to nothing for those in use, and the largest of each partition."""
    rows = column_sb.shape[0]
    T = column_sb.shape[1]
    # Bits to keep: none of a row in use.
    bits_sb = nl.ndarray((rows, T), dtype=nl.int32, buffer=nl.sbuf)  # [p, T]
    nisa.tensor_tensor(dst=bits_sb, data1=free_sb, data2=magnitude_sb, op=nl.multiply, engine=nisa.engine.gpsimd)
    size_sb = nl.ndarray((rows, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
    nisa.tensor_scalar(dst=size_sb, data=column_sb, op0=nl.abs, operand0=None, op1=nl.add, operand1=FLOOR)
    key_sb = nl.ndarray((rows, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
    key_i32_sb = key_sb.view(nl.int32)  # [p, T]
    nisa.tensor_tensor(dst=key_i32_sb, data1=size_sb.view(nl.int32), data2=bits_sb, op=nl.bitwise_and)
    nisa.tensor_tensor(dst=key_i32_sb, data1=key_i32_sb, data2=rank_sb, op=nl.bitwise_or)
    best_sb = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_reduce(dst=best_sb, op=nl.maximum, data=key_sb, axis=1)
    return key_sb, best_sb


def _candidates(p_sb, key_sb, best_sb):
    """The row of each partition that has its largest key: its position, and the row."""
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
    hit_sb = nl.ndarray((rows, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
    nisa.tensor_tensor(
        dst=hit_sb,
        data1=key_sb,
        data2=best_sb.ap([[1, rows], [0, T]], offset=0),
        op=nl.equal,
        engine=nisa.engine.gpsimd,
    )
    return hit_sb, candidate_sb


def _winner(candidate_sb, best_sb, floor_sb):
    """The pivot row in every partition, a flag for the partition it is from, and one where the pivot counts as zero."""
    rows = candidate_sb.shape[0]
    w = candidate_sb.shape[1]
    all_ps = nl.ndarray((P_MAX, rows), dtype=nl.float32, buffer=nl.psum)  # [k, p]
    nisa.nc_transpose(dst=all_ps, data=best_sb.ap([[1, rows], [0, P_MAX]], offset=0))
    most_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [k, 1]
    nisa.tensor_reduce(dst=most_sb, op=nl.maximum, data=all_ps, axis=1)
    flag_sb = nl.ndarray((rows, P_MAX), dtype=nl.float32, buffer=nl.sbuf)  # [p, k]
    nisa.tensor_scalar(
        dst=flag_sb, data=best_sb.ap([[1, rows], [0, P_MAX]], offset=0), op0=nl.equal, operand0=most_sb[0:rows, 0:1]
    )
    tiny_sb = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_tensor(dst=tiny_sb, data1=most_sb[0:rows, 0:1], data2=floor_sb, op=nl.less, engine=nisa.engine.gpsimd)
    row_ps = nl.ndarray((P_MAX, w), dtype=nl.float32, buffer=nl.psum)  # [k, w]
    nisa.nc_matmul(dst=row_ps, stationary=flag_sb, moving=candidate_sb, accumulate=False)
    return row_ps, flag_sb, tiny_sb


def _next_column(p_sb, row_ps, over_sb, j):
    """Column j + 1 less column j times the ratio of the pivot row's entries there."""
    rows = p_sb.shape[0]
    T = p_sb.shape[2]
    ratio_sb = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, 1]
    nisa.tensor_tensor(dst=ratio_sb, data1=over_sb, data2=row_ps[0:rows, j + 1 : j + 2], op=nl.multiply)
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


def _take_row_off(p_sb, l_sb, free_sb, row_ps, over_sb, j):
    """Multipliers of rows that are still free, and the pivot row times them off all columns; column j becomes -l."""
    rows = p_sb.shape[0]
    w = p_sb.shape[1]
    T = p_sb.shape[2]
    here = p_sb[0:rows, j, 0:T]
    rest_sb = nl.ndarray((rows, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, T]
    nisa.tensor_tensor(dst=rest_sb, data1=here, data2=free_sb, op=nl.multiply, engine=nisa.engine.gpsimd)
    nisa.tensor_tensor(dst=here, data1=here, data2=rest_sb, op=nl.subtract, engine=nisa.engine.gpsimd)
    row_sb = nl.ndarray((rows, w), dtype=nl.float32, buffer=nl.sbuf)  # [p, w]
    nisa.activation(dst=row_sb, op=nl.copy, data=row_ps[0:rows, 0:w])
    nisa.memset(dst=row_sb[0:rows, j : j + 1], value=1.0, engine=nisa.engine.gpsimd)
    each_sb = nl.ndarray((rows, w, T), dtype=nl.float32, buffer=nl.sbuf)  # [p, w, T]
    nisa.tensor_tensor(
        dst=each_sb,
        data1=rest_sb.ap([[T, rows], [0, w], [1, T]], offset=0),
        data2=row_sb.ap([[w, rows], [1, w], [0, T]], offset=0),
        op=nl.multiply,
        engine=nisa.engine.gpsimd,
    )
    nisa.scalar_tensor_tensor(
        dst=p_sb, data=each_sb, op0=nl.multiply, operand0=over_sb, op1=nl.subtract, operand1=p_sb, reverse1=True
    )
    nisa.tensor_tensor(
        dst=l_sb[0:rows, j, 0:T],
        data1=rest_sb,
        data2=over_sb.ap([[1, rows], [0, T]], offset=0),
        op=nl.multiply,
        engine=nisa.engine.gpsimd,
    )
