"""The chain of a symmetric block of 32: its pivots and the inverse of its factor, eliminated together.

Columns are eliminated from one another, a = l d l.T, where l and its inverse are unit triangles. What decides is how
long a pivot waits for the one before, so two pivot rows at a time are spread over the block's partitions, and the
second is corrected in every partition alike: a pivot then costs two and a half dependent instructions of the Vector
Engine. The inverse follows on the Scalar Engine and GpSimd, which are idle otherwise.
"""

from trnsci.nki import P_MAX, nisa, nl

# Rows move freely among so many partitions.
QUADRANT = 32


def _eliminate_block(a_sb, xT_sb, root_sb, p):
    """Turn the block a[p, :w] into l d and xT[p], an identity at first, into inv(l).T; root[p] has 1 / sqrt(d) in rows.

    ``p`` is a slice of w partitions of one quadrant. Columns from `QUADRANT` on hold second pivot rows, two in turn.
    """
    w = p.stop - p.start
    for h in range((w + 1) // 2):
        j = 2 * h
        first_sb = nl.ndarray((P_MAX, QUADRANT), dtype=nl.float32, buffer=nl.sbuf)  # [k, w]
        _broadcast_row(first_sb, 0, a_sb=a_sb, p=p, i=j, j=j)
        if j + 1 < w:
            at = QUADRANT * (1 + h % 2)
            _broadcast_row(a_sb, at, a_sb=a_sb, p=p, i=j + 1, j=j)
            over_sb = _take_off_both(a_sb, at, first_sb, p, j)
            _follow(xT_sb, root_sb, first_sb, at=0, over_sb=over_sb, p=p, j=j)
            _take_off(a_sb, at, p, j + 1)
            over_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [k, 1]
            nisa.tensor_scalar(
                dst=over_sb[p, 0:1],
                data=a_sb[p, at + j + 1 : at + j + 2],
                op0=nl.power,
                operand0=-1.0,
                engine=nisa.engine.gpsimd,
            )
            _follow(xT_sb, root_sb, a_sb, at=at, over_sb=over_sb, p=p, j=j + 1)
        else:
            _follow(xT_sb, root_sb, first_sb, at=0, over_sb=None, p=p, j=j)


def _broadcast_row(dst_sb, at, *, a_sb, p, i, j):
    """Return row i of the block, from column j on, in all its partitions."""
    w = p.stop - p.start
    mask = []
    for _i in range(QUADRANT):
        mask.append(i)
    nisa.nc_stream_shuffle(dst=dst_sb[p, at + j : at + w], src=a_sb[p, j:w], shuffle_mask=mask)


def _take_off_both(a_sb, at, row_sb, p, j):
    """Subtract row j times column j over the pivot, from columns after j of the block and of the second row.

    Returns one over the pivot.
    """
    w = p.stop - p.start
    W = a_sb.shape[1]
    over_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [k, 1]
    nisa.tensor_scalar(dst=over_sb[p, 0:1], data=row_sb[p, j : j + 1], op0=nl.power, operand0=-1.0)
    each_sb = nl.ndarray((P_MAX, 2, QUADRANT), dtype=nl.float32, buffer=nl.sbuf)  # [k, 2, w]
    rest = w - j - 1
    nisa.tensor_tensor(
        dst=each_sb[p, 0:2, 0:rest],
        data1=a_sb.ap([[W, w], [at, 2], [0, rest]], offset=p.start * W + j),
        data2=row_sb.ap([[QUADRANT, w], [0, 2], [1, rest]], offset=p.start * QUADRANT + j + 1),
        op=nl.multiply,
    )
    here = a_sb.ap([[W, w], [at, 2], [1, rest]], offset=p.start * W + j + 1)
    nisa.scalar_tensor_tensor(
        dst=here,
        data=each_sb[p, 0:2, 0:rest],
        op0=nl.multiply,
        operand0=over_sb[p, 0:1],
        op1=nl.subtract,
        operand1=here,
        reverse1=True,
    )
    return over_sb


def _take_off(a_sb, at, p, j):
    """Subtract the second row times column j over its pivot, from columns after j of the block."""
    w = p.stop - p.start
    if j + 1 < w:
        weight_sb = nl.ndarray((P_MAX, 1), dtype=nl.float32, buffer=nl.sbuf)  # [k, 1]
        nisa.tensor_scalar(
            dst=weight_sb[p, 0:1],
            data=a_sb[p, at + j : at + j + 1],
            op0=nl.power,
            operand0=-1.0,
            op1=nl.multiply,
            operand1=a_sb[p, j : j + 1],
        )
        here = a_sb[p, j + 1 : w]
        nisa.scalar_tensor_tensor(
            dst=here,
            data=a_sb[p, at + j + 1 : at + w],
            op0=nl.multiply,
            operand0=weight_sb[p, 0:1],
            op1=nl.subtract,
            operand1=here,
            reverse1=True,
        )


def _follow(xT_sb, root_sb, row_sb, *, at, over_sb, p, j):
    """Eliminate the inverse's columns likewise; ``over`` is one over the pivot, whose inverse root comes with it."""
    w = p.stop - p.start
    nisa.tensor_scalar(
        dst=root_sb[p, j : j + 1],
        data=row_sb[p, at + j : at + j + 1],
        op0=nl.power,
        operand0=-0.5,
        engine=nisa.engine.gpsimd,
    )
    if j + 1 < w:
        W = xT_sb.shape[1]
        here = slice(j + 1, w)
        ratio_sb = nl.ndarray((P_MAX, QUADRANT), dtype=nl.float32, buffer=nl.sbuf)  # [k, w]
        nisa.activation(dst=ratio_sb[p, here], op=nl.copy, data=row_sb[p, at + j + 1 : at + w], scale=over_sb[p, 0:1])
        each_sb = nl.ndarray((P_MAX, QUADRANT), dtype=nl.float32, buffer=nl.sbuf)  # [k, w]
        nisa.tensor_tensor(
            dst=each_sb[p, here],
            data1=ratio_sb[p, here],
            data2=xT_sb.ap([[W, w], [0, w - j - 1]], offset=p.start * W + j),
            op=nl.multiply,
            engine=nisa.engine.gpsimd,
        )
        nisa.tensor_tensor(
            dst=xT_sb[p, here], data1=xT_sb[p, here], data2=each_sb[p, here], op=nl.subtract, engine=nisa.engine.gpsimd
        )
