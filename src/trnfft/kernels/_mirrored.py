"""Half a spectrum of long rows: what stands for its conjugate is reversed on chip, by a reversed identity.

Long rows of real data have half of the rows of their first pass computed, and half a spectrum is read back into columns
of which half is given. Either way a quarter of the numbers belongs, conjugated, where both indices run backwards.
"""

from trnsci.nki import P_MAX, Tile, load, nisa, nl, store, tiles

# Bytes of a partition that one load takes.
LOAD = 16 * 1024


def _unfolded(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables, sizes):
    """out[A, k] for k <= R M / 2, from z[m, A, n2, k1] = X[k1 + N1 n2 + R m] with k1 <= N1 / 2, where R = N1 N2."""
    A, M, N1, N2, flip = sizes
    R, kept = N1 * N2, N1 // 2 + 1
    written = R * M // 2 + 1
    planes = [re_hbm.reshape((M, A, N2, kept)), im_hbm.reshape((M, A, N2, kept))]
    outs = [out_re_hbm.reshape((A, written)), out_im_hbm.reshape((A, written))]
    flip_sb = load(tables[flip])  # [i, 127 - i]
    whole = written // R
    # The last row is not whole: its first element, or half of it.
    for m in tiles(whole, P_MAX) + [Tile(0, whole, 1)]:  # noqa: RUF005
        stop = min(m.stop * R, written)
        for a in tiles(A, max(1, LOAD // (R * 4))):
            for p in range(2):
                x_sb = _rows(planes[p][:, a.span], m, flip_sb, (p == 1, N1)).flatten_dims(2, 3)  # [m, a, k]
                here = outs[p][a.span, m.start * R : stop].reshape_dim(1, (m.size, (stop - m.start * R) // m.size))
                store(here.permute((1, 0, 2)), x_sb[:, :, 0 : here.shape[2]])


def _rows(z_hbm, m, flip_sb, sizes):
    """[m, a, n2, k1] of one plane, all of k1: the upper half comes from the rows M - 1 - m, backwards."""
    negative, N1 = sizes
    M, A, N2, kept = z_hbm.shape
    x_sb = nl.ndarray((m.size, A, N2, N1), dtype=z_hbm.dtype, buffer=nl.sbuf)  # [m, a, n2, k1]
    nisa.dma_copy(dst=x_sb[:, :, :, 0:kept], src=z_hbm[m.span])
    beyond = N1 - kept
    if beyond > 0:
        high_sb = load(z_hbm[M - m.stop : M - m.start])  # [m, a, n2, k1]
        for a in range(A):
            for n in tiles(N2, max(1, P_MAX // beyond)):
                view = high_sb[:, a, N2 - n.stop : N2 - n.start, 1 : 1 + beyond]
                _flipped(x_sb[:, a, n.span, kept:N1], view, flip_sb, negative, (a + n.index) % 2 == 1)
    return x_sb


def _flipped(dst, src, flip_sb, negative, odd):
    """Dst = src [b, w] backwards in both indices, perhaps with its sign changed."""
    back = _backwards(src, flip_sb)
    if len(dst.shape) > 2:
        back = back.reshape_dim(1, dst.shape[1:])
    sign = -1.0 if negative else 1.0
    if odd:
        nisa.tensor_scalar(dst=dst, data=back, op0=nl.multiply, operand0=sign)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=back, scale=sign)


def _backwards(src, flip_sb):
    """[b, w] in PSUM: src [b, ...] of up to 512 elements a row, backwards in both indices."""
    rows, width = src.shape[0], src.size // src.shape[0]
    back_ps = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.psum)  # [b, w]
    if width <= P_MAX:
        _backwards_tile(back_ps, src, flip_sb)
    else:
        for w in tiles(width, P_MAX):
            _backwards_tile(back_ps[:, width - w.stop : width - w.start], src[:, w.span], flip_sb)
    return back_ps


def _backwards_tile(dst_ps, src, flip_sb):
    """At most 128 columns: transposed by the reversed identity, and back by it."""
    rows, width = src.shape[0], src.size // src.shape[0]
    by = flip_sb[0:rows, P_MAX - rows : P_MAX]
    down_ps = nl.ndarray((width, rows), dtype=nl.float32, buffer=nl.psum)  # [w, b]
    nisa.nc_matmul(dst=down_ps, stationary=src, moving=by, is_moving_onezero=True, accumulate=False)
    down_sb = nl.ndarray((width, rows), dtype=src.dtype, buffer=nl.sbuf)  # [w, b]
    nisa.activation(dst=down_sb, op=nl.copy, data=down_ps)
    by = flip_sb[0:width, P_MAX - width : P_MAX]
    nisa.nc_matmul(dst=dst_ps, stationary=down_sb, moving=by, is_moving_onezero=True, accumulate=False)


def _completed(out_re_hbm, out_im_hbm, re_hbm, im_hbm, tables, sizes):
    """out[r, A, b] = X[b + M r] for b <= M / 2 and all R rows, from X[A, k] with k <= R M / 2."""
    A, R, M, flip = sizes
    width, read = M // 2 + 1, R * M // 2 + 1
    planes = [re_hbm.reshape((A * read,)), im_hbm.reshape((A * read,))]
    outs = [out_re_hbm.reshape((R, A, width)), out_im_hbm.reshape((R, A, width))]
    flip_sb = load(tables[flip])  # [i, 127 - i]
    pieces = (width + P_MAX - 1) // P_MAX
    for p in range(2):
        given = planes[p].ap([[M, (R + 1) // 2], [read, A], [1, width]], offset=0)
        nisa.dma_copy(dst=outs[p][0 : (R + 1) // 2], src=given)
    for r in tiles(R // 2, P_MAX):
        for a in tiles(A, max(1, LOAD // (width * 4))):
            for p in range(2):
                # X[M (R - r) - b] is the conjugate: one run of a row and what follows it.
                x_sb = nl.ndarray((r.size, a.size, width), dtype=planes[p].dtype, buffer=nl.sbuf)  # [r, a, b]
                at = a.start * read + r.start * M + M - M // 2
                nisa.dma_copy(dst=x_sb, src=planes[p].ap([[M, r.size], [read, a.size], [1, width]], offset=at))
                y_sb = nl.ndarray((r.size, a.size, width), dtype=planes[p].dtype, buffer=nl.sbuf)  # [r, a, b]
                for j in range(a.size):
                    for w in tiles(width, (width + pieces - 1) // pieces):
                        dst = y_sb[:, j, width - w.stop : width - w.start]
                        _flipped(dst, x_sb[:, j, w.span], flip_sb, p == 1, (j + w.index) % 2 == 1)
                store(outs[p][R - r.stop : R - r.start, a.span], y_sb)
