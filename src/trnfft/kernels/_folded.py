"""Rows of two factors with twiddles folded into the first tables: a row stays on its partition from load to store.

Each of N2 residues has a table of its own for the first product, with the twiddles in it, so that only the Tensor
Engine multiplies. What a product sums over is transposed onto the partitions before it. Where half of a spectrum is the
conjugate of the other, reversed orders are columns of tables and positions of products, which cost nothing.
Below 170 KiB a partition.
"""

from trnfft.kernels._common import _leave, _rotate
from trnsci.nki import N_TILE, P_MAX, load, nisa, nl, store, tiles

# Transposed tiles that leave PSUM together.
TOGETHER = N_TILE // P_MAX


def _folded(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables, sizes):
    """out[A, k1 + N1 k2] = sum_n2 W^(N1 n2 k2) sum_n1 W^((N2 n1 + n2) k1) x[A, N2 n1 + n2].

    ``half`` is -1 where rows are half a spectrum, 1 where they become one, 0 otherwise. ``width`` elements of a row are
    read and ``written`` are written. ``group`` values of k1 share a second product. ``extra`` is the table for those k1
    of a half spectrum that have no partner; for whole rows, what the result is multiplied by, if anything.
    """
    A, width, written, N1, N2, half, group, first, second, extra = sizes
    planes = [re_hbm.reshape((A, width))]
    if im_hbm is not None:
        planes.append(im_hbm.reshape((A, width)))
    outs = [out_re_hbm.reshape((A, written))]
    if out_im_hbm is not None:
        outs.append(out_im_hbm.reshape((A, written)))
    held = [_load_wide(tables[first]), load(tables[second]), load(tables[extra]) if half == 1 else None]
    after_sb = []
    if half == 0 and extra >= 0:
        for part in range(2):
            after_sb.append(load(tables[extra][part].expand_dim(0).broadcast(0, min(A, P_MAX))))  # [b, k]
    parts = 2 if len(after_sb) > 0 else len(outs)
    blocks = tiles(A, P_MAX)
    ahead_sb = None
    for index in range(len(blocks) + 1):
        a_sb = ahead_sb
        if index < len(blocks):
            x_sb = _load_rows(planes, blocks[index], N1, N2, half)
            ahead_sb = _first_product(_slots(x_sb, N1, N2, half), _widths(N1, N2, half), held[0])
        if index == 0:
            continue
        b = blocks[index - 1]
        y_sb = _second_product(a_sb, held, (parts, N1, N2, half, group), outs[0].dtype)
        if len(after_sb) > 0:
            y_sb = _multiplied(y_sb[:, :, 0:written], after_sb, len(outs))
        for o in range(len(outs)):
            store(outs[o][b.span], y_sb[:, o, 0:written])


def _multiplied(y_sb, by_sb, parts):
    """[b, part, k]: rows times one row."""
    rows, _, width = y_sb.shape
    z_sb = nl.ndarray((rows, parts, width), dtype=y_sb.dtype, buffer=nl.sbuf)  # [b, part, k]
    im_sb = z_sb[:, 1] if parts > 1 else None
    _rotate(z_sb[:, 0], im_sb, y_sb[:, 0], y_sb[:, 1], by_sb[0][0:rows], by_sb[1][0:rows])
    return z_sb


def _load_wide(table_hbm):
    """A table in pieces, so that the first product can start before all of it has come."""
    table_sb = nl.ndarray(table_hbm.shape, dtype=table_hbm.dtype, buffer=nl.sbuf)  # [k, w]
    for w in tiles(table_hbm.shape[1], TOGETHER * N_TILE):
        nisa.dma_copy(dst=table_sb[:, w.span], src=table_hbm[:, w.span])
    return table_sb


def _load_rows(planes, b, N1, N2, half):
    """[b, plane, n], with zeros after short rows, or where an odd N1 makes half a spectrum look beyond its end."""
    width = planes[0].shape[1]
    padded = (N1 + 1) // 2 * N2 + 1 if half == -1 else N1 * N2
    x_sb = nl.ndarray((b.size, len(planes), padded), dtype=planes[0].dtype, buffer=nl.sbuf)  # [b, p, n]
    if padded > width:
        nisa.memset(dst=x_sb[:, :, width:padded], value=0.0)
    for p in range(len(planes)):
        nisa.dma_copy(dst=x_sb[:, p, 0:width], src=planes[p][b.span])
    return x_sb


def _slots(x_sb, N1, N2, half):
    """What each table of the first product multiplies: [b, plane, n1], one view per residue of N2.

    For half a spectrum there are N2 // 2 + 1 of [b, mirrored, plane, n1]: the other residues are their conjugates.
    """
    views = []
    if half == -1:
        planes, width = x_sb.shape[1], x_sb.shape[2]
        for s in range(N2 // 2 + 1):
            rows = [planes * width, x_sb.shape[0]]
            views.append(x_sb.ap([rows, [N2 - 2 * s, 2], [width, planes], [N2, (N1 + 1) // 2]], offset=s))
    else:
        split = x_sb.reshape_dim(2, (N1, N2))
        for s in range(N2):
            views.append(split[:, :, :, s])
    return views


def _widths(N1, N2, half):
    """Columns of each table of the first product."""
    found = []
    if half == -1:
        for s in range(N2 // 2 + 1):
            found.append(N1 if 2 * s % N2 == 0 else 2 * N1)
    else:
        for _ in range(N2):
            found.append(N1 if half == 1 else 2 * N1)
    return found


def _first_product(slots, widths, table_sb):
    """[b, w]: every slot, transposed, times its columns of the table."""
    rows = slots[0].shape[0]
    a_sb = nl.ndarray((rows, table_sb.shape[1]), dtype=table_sb.dtype, buffer=nl.sbuf)  # [b, w]
    done, start = 0, 0
    for s in tiles(len(slots), TOGETHER):
        xT_sb = _transposed(slots[s.start : s.stop], s.index % 2 == 1)  # [k, s, b]
        a_ps = nl.ndarray((rows, N_TILE), dtype=nl.float32, buffer=nl.psum)  # [b, w]
        for j in range(s.size):
            width = widths[s.start + j]
            if done + width - start > N_TILE:
                _leave(a_sb[:, start:done], a_ps[:, 0 : done - start], s.index % 2 == 1)
                start = done
                a_ps = nl.ndarray((rows, N_TILE), dtype=nl.float32, buffer=nl.psum)  # [b, w]
            nisa.nc_matmul(
                dst=a_ps[:, done - start : done - start + width],
                stationary=xT_sb[:, j, :],
                moving=table_sb[:, done : done + width],
                accumulate=False,
            )
            done += width
        _leave(a_sb[:, start:done], a_ps[:, 0 : done - start], s.index % 2 == 0)
        start = done
    return a_sb


def _transposed(views, odd):
    """[k, view, b] of views [b, ...] of k elements each."""
    rows, k = views[0].shape[0], views[0].size // views[0].shape[0]
    xT_ps = nl.ndarray((k, len(views), rows), dtype=views[0].dtype, buffer=nl.psum)  # [k, s, b]
    for j in range(len(views)):
        nisa.nc_transpose(dst=xT_ps[:, j, :], data=views[j])
    xT_sb = nl.ndarray((k, len(views), rows), dtype=views[0].dtype, buffer=nl.sbuf)  # [k, s, b]
    _leave(xT_sb, xT_ps, odd)
    return xT_sb


def _second_product(a_sb, held, sizes, dtype):
    """[b, part, k]: groups of k1, transposed, times one table for all of them."""
    parts, N1, N2, half, group = sizes
    unit = 1 if half == -1 else 2
    high = N2 // 2 if half == 1 else 0
    low = N2 - high
    # Of a half spectrum k1 = 0 and N1 / 2 are left to the end, and k1 stands for N1 - k1 as well.
    first, count = (1, (N1 - 1) // 2) if half == 1 else (0, N1)
    split = a_sb.reshape_dim(1, (N2, a_sb.shape[1] // N2))  # [b, n2, c]
    y_sb = nl.ndarray((a_sb.shape[0], parts, low * N1 + first), dtype=dtype, buffer=nl.sbuf)  # [b, part, k]
    low_sb = held[1][:, 0 : parts * low * group].reshape_dim(1, (parts * low, group))  # [k, part k2, i]
    low_y = y_sb[:, :, 0 : low * N1].reshape_dim(2, (low, N1))  # [b, part, k2, k1]
    runs = _equal(count, group)
    for index in range(len(runs)):
        start, size, many = runs[index]
        views = []
        for j in range(many):
            here = slice(unit * (start + j * size), unit * (start + (j + 1) * size))
            views.append(split[:, :, here].permute((0, 2, 1)))
        aT_sb = _transposed(views, index % 2 == 1)  # [k, j, b]
        at = first + start
        _spread(low_y[:, :, :, at : at + many * size], aT_sb, low_sb[:, :, 0:size], False, index % 2 == 0)
        if half == 1:
            high_sb = held[1][:, parts * low * group : parts * N2 * group].reshape_dim(1, (parts * high, group))
            high_y = y_sb[:, :, 0 : high * N1].reshape_dim(2, (high, N1))  # [b, part, k2, k1]
            at = N1 - start - many * size
            _spread(
                high_y[:, :, :, at : at + many * size], aT_sb, high_sb[:, :, group - size : group], True, index % 2 == 1
            )
    if half == 1:
        _unpaired(y_sb, split[:, :, 2 * count : N1].permute((0, 2, 1)), held[2], N1, N2)
    return y_sb


def _equal(count, group):
    """(start, size, many): ``many`` groups of ``size`` that are transposed together; the last may be smaller."""
    found = []
    for g in tiles(count // group, TOGETHER):
        found.append((g.start * group, group, g.size))
    if count % group > 0:
        found.append((count // group * group, count % group, 1))
    return found


def _spread(dst, aT_sb, table_sb, mirrored, odd):
    """dst[b, part, k2, (j i)] = aT[k, j, b].T @ table[k, (part k2), i]; ``mirrored`` takes j from the last on."""
    k, many, rows = aT_sb.shape
    size = table_sb.shape[2]
    y_ps = nl.ndarray((rows, many, table_sb.shape[1], size), dtype=nl.float32, buffer=nl.psum)  # [b, j, part k2, i]
    for j in range(many):
        at = many - 1 - j if mirrored else j
        nisa.nc_matmul(dst=y_ps[:, at], stationary=aT_sb[:, j, :], moving=table_sb[0:k], accumulate=False)
    parts = dst.shape[1]
    y_ps = y_ps.reshape_dim(2, (parts, dst.shape[2])).permute((0, 2, 3, 1, 4))  # [b, part, k2, j, i]
    _leave(dst.reshape_dim(3, (many, size)), y_ps, odd)


def _unpaired(y_sb, view, table_sb, N1, N2):
    """k1 = 0, and N1 / 2 where there is one, which have no partner."""
    aT_sb = _transposed([view], False)
    low, whole = (N2 + 1) // 2, N2 // 2 + 1
    y_ps = nl.ndarray((y_sb.shape[0], 2, table_sb.shape[1] // 2), dtype=nl.float32, buffer=nl.psum)  # [b, part, k2]
    nisa.nc_matmul(dst=y_ps, stationary=aT_sb[:, 0, :], moving=table_sb, accumulate=False)
    _leave(y_sb[:, :, 0 : (whole - 1) * N1 + 1 : N1], y_ps[:, :, 0:whole], False)
    if N1 % 2 == 0:
        at = N1 // 2
        _leave(y_sb[:, :, at : at + (low - 1) * N1 + 1 : N1], y_ps[:, :, whole : whole + low], True)
