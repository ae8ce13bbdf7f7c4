"""What passes share: loading planes above each other, complex multiplication, and leaving PSUM."""

from trnsci.nki import P_MAX, load, nisa, nl


def _load_lanes(re_hbm, im_hbm, lanes):
    """Lanes and planes above each other in one tile; where one lane of both planes does not fit, a tile for each.

    ``re_hbm`` and ``im_hbm`` are lists of views, one per lane.
    """
    k = re_hbm[0].shape[0]
    planes = 1 if im_hbm is None else 2
    if planes * k > P_MAX:
        return [load(re_hbm[0]), load(im_hbm[0])]
    tile_sb = nl.ndarray((lanes * planes * k,) + re_hbm[0].shape[1:], dtype=re_hbm[0].dtype, buffer=nl.sbuf)  # noqa: RUF005
    for s in range(lanes):
        nisa.dma_copy(dst=tile_sb[s * planes * k : (s * planes + 1) * k], src=re_hbm[s])
        if im_hbm is not None:
            nisa.dma_copy(dst=tile_sb[(s * planes + 1) * k : (s + 1) * planes * k], src=im_hbm[s])
    return [tile_sb]


def _load_table(table_hbm, k, both):
    """The rows of a table that meet the tiles of `_load_lanes`."""
    if both and 2 * k > P_MAX:
        return [load(table_hbm[0:k]), load(table_hbm[k : 2 * k])]
    return [load(table_hbm)]


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
    """Dst = (re + i im) (w_re + i w_im); ``im`` is None for real data, ``dst_im`` where it is not wanted."""
    if im is None:
        nisa.tensor_tensor(dst=dst_re, data1=re, data2=w_re, op=nl.multiply)
        if dst_im is not None:
            nisa.tensor_tensor(dst=dst_im, data1=re, data2=w_im, op=nl.multiply)
    else:
        _mixed(dst_re, re, w_re, im, w_im, nl.subtract)
        if dst_im is not None:
            _mixed(dst_im, re, w_im, im, w_re, nl.add)


def _mixed(dst, a, b, c, d, op):
    """Dst = a b op c d: products on the Vector Engine, which reads PSUM, their sum on GpSimd."""
    first_sb = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    second_sb = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=first_sb, data1=a, data2=b, op=nl.multiply)
    nisa.tensor_tensor(dst=second_sb, data1=c, data2=d, op=nl.multiply)
    nisa.tensor_tensor(dst=dst, data1=first_sb, data2=second_sb, op=op, engine=nisa.engine.gpsimd)
