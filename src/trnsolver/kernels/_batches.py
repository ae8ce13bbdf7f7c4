"""Parts of the kernels for batches of small matrices: one matrix in a partition, several side by side in it.

Matrix ``start + 128 g + p`` of a batch lies in partition p, at position g. An instruction does one step of all of
them; operands that it repeats are views of stride 0. Work on whole matrices is shared between two engines, by g.
"""

from trnsci.nki import P_MAX, Tile, nisa, nl, tiles


def _tile(b, floats):
    """Room for so many floats of each matrix."""
    rows = min(P_MAX, b.size)
    return nl.ndarray((rows, (b.size + P_MAX - 1) // P_MAX, floats), dtype=nl.float32, buffer=nl.sbuf)  # [p, g, E]


def _read(x_sb, x_hbm, b):
    """Copy matrices of a batch [B, R, C] to their partitions; what is left of the last position is 0."""
    E = x_hbm.shape[1] * x_hbm.shape[2]
    for g in tiles(b.size, P_MAX):
        if g.size < x_sb.shape[0]:
            nisa.memset(dst=x_sb[0 : x_sb.shape[0], g.index, 0:E], value=0.0)
        src_hbm = x_hbm.ap([[E, g.size], [1, E]], offset=(b.start + g.start) * E)
        nisa.dma_copy(dst=x_sb[0 : g.size, g.index, 0:E], src=src_hbm)


def _write(x_hbm, x_sb, b):
    """Copy results to a batch [B, R, C]."""
    E = x_hbm.shape[1] * x_hbm.shape[2]
    for g in tiles(b.size, P_MAX):
        dst_hbm = x_hbm.ap([[E, g.size], [1, E]], offset=(b.start + g.start) * E)
        nisa.dma_copy(dst=dst_hbm, src=x_sb[0 : g.size, g.index, 0:E])


def _at(x_sb, g, offset, dims):
    """A view of the positions g of a tile: in each matrix from ``offset`` on, along strides and counts."""
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


def _all(x_sb):
    """All positions."""
    return Tile(0, 0, x_sb.shape[1])


def _engine(part):
    """The first part is the Vector Engine's."""
    return nisa.engine.vector if part.index == 0 else nisa.engine.gpsimd


def _turned(dst_sb, src_sb, rows, columns):
    """Set dst, [g, columns, rows], to src, [g, rows, columns], on the Scalar Engine."""
    whole = _all(src_sb)
    nisa.activation(
        dst=_at(dst_sb, whole, 0, [[rows, columns], [1, rows]]),
        op=nl.copy,
        data=_at(src_sb, whole, 0, [[1, columns], [columns, rows]]),
    )


def _multiplied(dst, data1, data2, engine):
    """Set dst to a product, element by element."""
    nisa.tensor_tensor(dst=dst, data1=data1, data2=data2, op=nl.multiply, engine=engine)


def _subtracted(dst, products, engine):
    """Subtract from dst in place."""
    nisa.tensor_tensor(dst=dst, data1=dst, data2=products, op=nl.subtract, engine=engine)
