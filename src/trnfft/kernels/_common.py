"""Parts of passes: tables, loading planes above each other, complex multiplication, and leaving PSUM.

A table is (offset, rows, columns) in a flat tensor; where it has two parts, the second one follows the first.
"""

from trnsci.nki import P_MAX, load, move, nisa, nl


def _table(tables_hbm, t):
    """Return a whole table."""
    offset, rows, columns = t
    return tables_hbm.ap([[columns, rows], [1, columns]], offset=offset)


def _table_rows(tables_hbm, t, first, count):
    """Return ``count`` rows of a table, from ``first`` on."""
    offset, _, columns = t
    return tables_hbm.ap([[columns, count], [1, columns]], offset=offset + first * columns)


def _load_part(tables_hbm, t, part):
    """Load one part of a table of two."""
    offset, rows, columns = t
    return load(tables_hbm.ap([[columns, rows], [1, columns]], offset=offset + part * rows * columns))


def _load_repeated(tables_hbm, t, part, copies, first, count):
    """Load ``count`` elements, from ``first`` on, of a part that is one row, on ``copies`` partitions."""
    offset, _, columns = t
    return load(tables_hbm.ap([[0, copies], [1, count]], offset=offset + part * columns + first))


def _planes(re_hbm, im_hbm, shape):
    """Return the planes there are, in a shape."""
    planes = [re_hbm.reshape(shape)]
    if im_hbm != None:
        planes.append(im_hbm.reshape(shape))
    return planes


def _free(view):
    """Return the elements of a partition."""
    count = 1
    for d in range(1, len(view.shape)):
        count *= view.shape[d]
    return count


def _load_lanes(lanes_hbm):
    """Load lanes and planes above each other in one tile, or a tile each where one lane of both does not fit.

    ``lanes_hbm`` holds a list of views, one per lane, for each plane.
    """
    planes, lanes = len(lanes_hbm), len(lanes_hbm[0])
    first = lanes_hbm[0][0]
    k = first.shape[0]
    if planes * k > P_MAX:
        return [load(lanes_hbm[0][0]), load(lanes_hbm[1][0])]
    tile_sb = nl.ndarray((lanes * planes * k,) + first.shape[1:], dtype=first.dtype, buffer=nl.sbuf)  # noqa: RUF005
    for s in range(lanes):
        for p in range(planes):
            at = (s * planes + p) * k
            move(tile_sb[at : at + k], lanes_hbm[p][s])
    return [tile_sb]


def _load_table(tables_hbm, t, k, both):
    """Load the rows of a table that meet the tiles of `_load_lanes`."""
    if both and 2 * k > P_MAX:
        return [load(_table_rows(tables_hbm, t, 0, k)), load(_table_rows(tables_hbm, t, k, k))]
    return [load(_table(tables_hbm, t))]


def _product(dst_ps, stationary, moving):
    """Sum the products of lists of tiles into one PSUM tile."""
    for index in range(len(stationary)):
        nisa.nc_matmul(dst=dst_ps, stationary=stationary[index], moving=moving[index], accumulate=index > 0)


def _leave(dst_sb, src_ps, odd):
    """Copy a result out of PSUM; even and odd ones leave through different engines."""
    if odd:
        nisa.activation(dst=dst_sb, op=nl.copy, data=src_ps)
    else:
        nisa.tensor_copy(dst=dst_sb, src=src_ps, engine=nisa.engine.vector)


def _rotate(dst_re, dst_im, re, im, w_re, w_im):
    """Write (re + i im) (w_re + i w_im); ``im`` is None for real data, ``dst_im`` where it is not wanted."""
    if im == None:
        nisa.tensor_tensor(dst=dst_re, data1=re, data2=w_re, op=nl.multiply)
        if dst_im != None:
            nisa.tensor_tensor(dst=dst_im, data1=re, data2=w_im, op=nl.multiply)
    else:
        _mix_products(dst_re, re, w_re, im, w_im, nl.subtract)
        if dst_im != None:
            _mix_products(dst_im, re, w_im, im, w_re, nl.add)


def _times(dst, src, w):
    """Multiply planes by a factor of two parts, or one where it is real; without a factor, only convert."""
    if len(w) == 2:
        _rotate(dst[0], dst[1] if len(dst) > 1 else None, src[0], src[1] if len(src) > 1 else None, w[0], w[1])
    else:
        for p in range(len(dst)):
            if len(w) == 1:
                nisa.tensor_tensor(dst=dst[p], data1=src[p], data2=w[0], op=nl.multiply)
            else:
                _leave(dst[p], src[p], p == 1)


def _mix_products(dst, a, b, c, d, op):
    """Write a b op c d: products on the Vector Engine, which reads PSUM, their sum on GpSimd."""
    first_sb = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    second_sb = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=first_sb, data1=a, data2=b, op=nl.multiply)
    nisa.tensor_tensor(dst=second_sb, data1=c, data2=d, op=nl.multiply)
    nisa.tensor_tensor(dst=dst, data1=first_sb, data2=second_sb, op=op, engine=nisa.engine.gpsimd)
