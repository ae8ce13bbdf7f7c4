"""Parts of the kernels for batches of small matrices: one matrix in a partition, several side by side in it.

Matrix ``start + 128 g + p`` of a batch lies in partition p, at position g. An instruction does one step of all of
them; operands that it repeats are views of stride 0. Work on whole matrices is shared between two engines, by g.
"""

from trnsci.nki import P_MAX, Tile, move, nisa, nl, tiles


def _tile(b, floats):
    """Return room for ``floats`` floats of each matrix."""
    rows = min(P_MAX, b.size)
    return nl.ndarray((rows, (b.size + P_MAX - 1) // P_MAX, floats), dtype=nl.float32, buffer=nl.sbuf)  # [p, g, E]


def _read(x_sb, x_hbm, b, loads):
    """Copy matrices of a batch [B, R, C] to their partitions; what is left of the last position is 0."""
    E = x_hbm.shape[1] * x_hbm.shape[2]
    for g in tiles(b.size, P_MAX):
        if g.size < x_sb.shape[0]:
            nisa.memset(dst=x_sb[0 : x_sb.shape[0], g.index, 0:E], value=0.0)
        src_hbm = x_hbm.ap([[E, g.size], [1, E]], offset=(b.start + g.start) * E)
        move(x_sb[0 : g.size, g.index, 0:E], src_hbm, loads)


def _write(x_hbm, x_sb, b, stores):
    """Copy results to a batch [B, R, C]."""
    E = x_hbm.shape[1] * x_hbm.shape[2]
    for g in tiles(b.size, P_MAX):
        dst_hbm = x_hbm.ap([[E, g.size], [1, E]], offset=(b.start + g.start) * E)
        move(dst_hbm, x_sb[0 : g.size, g.index, 0:E], stores)


def _at(x_sb, g, offset, dims):
    """Return a view of the positions g of a tile: in each matrix from ``offset`` on, along strides and counts."""
    E = x_sb.shape[2]
    pattern = [[x_sb.shape[1] * E, x_sb.shape[0]], [E, g.size]]
    for dim in dims:
        pattern.append(dim)
    return x_sb.ap(pattern, offset=g.start * E + offset)


def _parts(x_sb, vector, of):
    """Positions for the Vector Engine, ``vector`` of ``of``, and the rest for GpSimd; a single one is not shared."""
    G = x_sb.shape[1]
    first = max(1, (G * vector + of // 2) // of)
    if first >= G:
        return [Tile(0, 0, G)]
    return [Tile(0, 0, first), Tile(1, first, G - first)]


def _cut(G, count):
    """Cut positions into parts, as far as there are: one engine works on a part while the other does on the next."""
    return tiles(G, (G + count - 1) // count)


def _all(x_sb):
    """All positions."""
    return Tile(0, 0, x_sb.shape[1])


def _engine(part):
    """Pick the engine of a part: the Vector Engine has the first."""
    return nisa.engine.vector if part.index == 0 else nisa.engine.gpsimd


def _transpose_each(dst_sb, src_sb, rows, columns):
    """Set dst, [g, columns, rows], to src, [g, rows, columns], on the Scalar Engine."""
    whole = _all(src_sb)
    nisa.activation(
        dst=_at(dst_sb, whole, 0, [[rows, columns], [1, rows]]),
        op=nl.copy,
        data=_at(src_sb, whole, 0, [[1, columns], [columns, rows]]),
    )


def _multiply_elements(dst, data1, data2, engine):
    """Set dst to a product, element by element."""
    nisa.tensor_tensor(dst=dst, data1=data1, data2=data2, op=nl.multiply, engine=engine)


def _subtract_products(dst, products, engine):
    """Subtract from dst in place."""
    nisa.tensor_tensor(dst=dst, data1=dst, data2=products, op=nl.subtract, engine=engine)


def _times_i(dst_sb, dst_at, *, src_sb, src_at, g, count):
    """Set dst to i times src, both with ``count`` real parts and then the imaginary ones."""
    nisa.tensor_scalar(
        dst=_at(dst_sb, g, dst_at, [[1, count]]),
        data=_at(src_sb, g, src_at + count, [[1, count]]),
        op0=nl.multiply,
        operand0=-1.0,
    )
    nisa.tensor_copy(dst=_at(dst_sb, g, dst_at + count, [[1, count]]), src=_at(src_sb, g, src_at, [[1, count]]))


def _inverses(dst_sb, a_sb, scratch_sb, N, planes):
    """Inverses of the N diagonal entries, real parts first; the scratch tile has room for three times as many."""
    whole = _all(a_sb)
    step = planes * N + 1
    re = _at(dst_sb, whole, 0, [[1, N]])
    if planes == 1:
        nisa.reciprocal(dst=re, data=_at(a_sb, whole, 0, [[step, N]]))
        return
    im = _at(dst_sb, whole, N, [[1, N]])
    nisa.tensor_copy(dst=re, src=_at(a_sb, whole, 0, [[step, N]]))
    nisa.tensor_copy(dst=im, src=_at(a_sb, whole, N, [[step, N]]))
    _complex_inverse(re, im, scratch_sb, whole, N)


def _complex_inverse(re, im, scratch_sb, g, count):
    """Invert complex numbers in place, by way of ones of magnitude near 1; of zero it is infinite or NaN."""
    size = _at(scratch_sb, g, 0, [[1, count]])
    other = _at(scratch_sb, g, count, [[1, count]])
    nisa.tensor_scalar(dst=size, data=re, op0=nl.abs, operand0=None)
    nisa.tensor_scalar(dst=other, data=im, op0=nl.abs, operand0=None)
    nisa.tensor_tensor(dst=size, data1=size, data2=other, op=nl.maximum)
    nisa.reciprocal(dst=size, data=size)
    nisa.tensor_tensor(dst=re, data1=re, data2=size, op=nl.multiply)
    nisa.tensor_tensor(dst=im, data1=im, data2=size, op=nl.multiply)
    square = _at(scratch_sb, g, 2 * count, [[1, count]])
    nisa.tensor_tensor(dst=other, data1=re, data2=re, op=nl.multiply)
    nisa.tensor_tensor(dst=square, data1=im, data2=im, op=nl.multiply)
    nisa.tensor_tensor(dst=other, data1=other, data2=square, op=nl.add)
    nisa.reciprocal(dst=other, data=other)
    nisa.tensor_tensor(dst=other, data1=other, data2=size, op=nl.multiply)
    nisa.tensor_tensor(dst=re, data1=re, data2=other, op=nl.multiply)
    nisa.scalar_tensor_tensor(dst=im, data=im, op0=nl.multiply, operand0=-1.0, op1=nl.multiply, operand1=other)
