"""A block row [g | c] of at most 128 rows with g = u.T u: u, and inv(u.T) c beside it, blocks of 32 rows in turn.

A block's pivots and inverse come from one chain; with the inverse the block's rows of the result are a product. The
next block waits for its corrections until it is next, g - u.T u, which the Tensor Engine sums up in PSUM. What the next
chain needs comes first; the rest of the row is worked out while it runs.
"""

from trnsci.nki import N_TILE, P_MAX, nisa, nl, tiles
from trnsolver.kernels._pivots import QUADRANT, _eliminate_block


def _diagonal_blocks(row_sb, size, *, l_sb, at, eye_sb, minus_sb):
    """Factor the leading square of a block row, and solve with all its blocks but the last.

    Returns the last block and the transpose of its inverse, for `_solve`. Where ``l_sb`` is given, blocks on the
    diagonal of l go to its columns from ``at`` on.
    """
    blocks = tiles(size, QUADRANT)
    first = blocks[0].span
    a_sb = _working(row_sb[first, first])
    xT_sb = None
    for s in blocks:
        before_sb = xT_sb
        xT_sb = _block(a_sb, l_sb, at, eye_sb, s)
        if s.index > 0:
            _far(row_sb, before_sb, minus_sb, blocks[s.index - 1], s)
        if s.stop < size:
            t = blocks[s.index + 1]
            _solve(row_sb, xT_sb, s, t.span, True)
            a_sb = nl.ndarray((P_MAX, 3 * QUADRANT), dtype=nl.float32, buffer=nl.sbuf)  # [k, 3 w]
            _correct(a_sb[t.span, 0 : t.size], row_sb, minus_sb, t=t, c=t.span, on_chain=True)
    return blocks[len(blocks) - 1], xT_sb


def _working(block_sb):
    """Return a copy of a block with room for `_eliminate_block`."""
    w = block_sb.shape[0]
    a_sb = nl.ndarray((P_MAX, 3 * QUADRANT), dtype=nl.float32, buffer=nl.sbuf)  # [k, 3 w]
    nisa.tensor_copy(dst=a_sb[0:w, 0:w], src=block_sb)
    return a_sb


def _block(a_sb, l_sb, at, eye_sb, s):
    """Factor a, the block s of 32 rows on the diagonal, into l; return its inverse, transposed."""
    w = s.size
    p = s.span
    xT_sb = nl.ndarray((P_MAX, QUADRANT), dtype=nl.float32, buffer=nl.sbuf)  # [k, w]
    nisa.tensor_copy(dst=xT_sb[p, 0:w], src=eye_sb[p, p], engine=nisa.engine.gpsimd)
    root_sb = nl.ndarray((P_MAX, QUADRANT), dtype=nl.float32, buffer=nl.sbuf)  # [k, w]
    _eliminate_block(a_sb, xT_sb, root_sb, p)
    # A pivot that is not positive has left NaN in the roots.
    nisa.tensor_tensor(dst=xT_sb[p, 0:w], data1=xT_sb[p, 0:w], data2=root_sb[p, 0:w], op=nl.multiply)
    if l_sb != None:
        nisa.tensor_tensor(
            dst=l_sb[p, at + s.start : at + s.stop],
            data1=a_sb[p, 0:w],
            data2=root_sb[p, 0:w],
            op=nl.multiply,
            engine=nisa.engine.gpsimd,
        )
    return xT_sb


def _solve(row_sb, xT_sb, s, c, on_chain):
    """Return rows s of u in columns c."""
    for f in tiles(c.stop - c.start, N_TILE):
        here = slice(c.start + f.start, c.start + f.stop)
        solved_ps = nl.ndarray((P_MAX, f.size), dtype=nl.float32, buffer=nl.psum)  # [k, f]
        nisa.nc_matmul(
            dst=solved_ps[s.span, 0 : f.size],
            stationary=xT_sb[s.span, 0 : s.size],
            moving=row_sb[s.span, here],
            accumulate=False,
        )
        _copy_out(row_sb[s.span, here], solved_ps[s.span, 0 : f.size], 1.0, on_chain)


def _correct(dst_sb, row_sb, minus_sb, *, t, c, on_chain):
    """Rows t of a less what the rows above in the same block row of u account for, in columns c, at most `N_TILE`."""
    width = c.stop - c.start
    left_ps = nl.ndarray((P_MAX, width), dtype=nl.float32, buffer=nl.psum)  # [k, c]
    nisa.nc_matmul(
        dst=left_ps[t.span, 0:width], stationary=minus_sb[t.span, t.span], moving=row_sb[t.span, c], accumulate=False
    )
    nisa.nc_matmul(
        dst=left_ps[t.span, 0:width],
        stationary=row_sb[0 : t.start, t.span],
        moving=row_sb[0 : t.start, c],
        accumulate=True,
    )
    _copy_out(dst_sb, left_ps[t.span, 0:width], -1.0, on_chain)


def _copy_out(dst_sb, src_ps, scale, on_chain):
    """Copy a product: what the chain waits for on the Vector Engine, the rest where it does not disturb the chain."""
    if on_chain:
        nisa.tensor_scalar(dst=dst_sb, data=src_ps, op0=nl.multiply, operand0=scale)
    else:
        nisa.activation(dst=dst_sb, op=nl.copy, data=src_ps, scale=scale)


def _far(row_sb, xT_sb, minus_sb, s, t):
    """Return rows s of u right of the block t that follows, and rows t of a less what the rows above account for."""
    W = row_sb.shape[1]
    if t.stop < W:
        _solve(row_sb, xT_sb, s, slice(t.stop, W), False)
    for f in tiles(W - t.stop, N_TILE):
        here = slice(t.stop + f.start, t.stop + f.stop)
        _correct(row_sb[t.span, here], row_sb, minus_sb, t=t, c=here, on_chain=False)
