"""Half a spectrum of long rows: what stands for its conjugate is reversed on chip, by a reversed identity.

Long rows of real data have half of the rows of their first pass computed, and half a spectrum is read back into columns
of which half is given. Either way a quarter of the numbers belongs, conjugated, where both indices run backwards.
"""

from trnfft.kernels._common import _free, _planes, _table
from trnsci.nki import P_MAX, Tile, load, move, nisa, nl, store, tiles

# Bytes of a partition that one load takes.
MIRROR_BYTES = 16 * 1024


def _write_half(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, sizes):
    """Write out[A, k], k <= R M / 2, from z[m, A, n2, k1] = X[k1 + N1 n2 + R m], k1 <= N1 / 2, R = N1 N2."""
    A, M, N1, N2, flip = sizes
    R, kept = N1 * N2, N1 // 2 + 1
    written = R * M // 2 + 1
    planes = _planes(re_hbm, im_hbm, (M, A, N2, kept))
    outs = _planes(out_re_hbm, out_im_hbm, (A, written))
    flip_sb = load(_table(matrices_hbm, flip))  # [i, 127 - i]
    whole = written // R
    # The last row is not whole: its first element, or half of it.
    for m in tiles(whole, P_MAX) + [Tile(0, whole, 1)]:  # noqa: RUF005
        length = (min(m.stop * R, written) - m.start * R) // m.size
        for a in tiles(A, max(1, MIRROR_BYTES // (R * 4))):
            for p in range(2):
                x_sb = _mirrored_rows(planes[p], m, a, flip_sb, (p == 1, N1))  # [m, a, k]
                pattern = [[length, m.size], [written, a.size], [1, length]]  # [m, a, k]
                dst = outs[p].ap(pattern, offset=a.start * written + m.start * R)
                store(dst, x_sb[:, :, 0:length])


def _mirrored_rows(z_hbm, m, a, flip_sb, sizes):
    """Return [m, a, n2 k1] of one plane, all of k1: the upper half comes from the rows M - 1 - m, backwards."""
    negative, N1 = sizes
    M, _, N2, kept = z_hbm.shape
    R = N1 * N2
    x_sb = nl.ndarray((m.size, a.size, R), dtype=z_hbm.dtype, buffer=nl.sbuf)  # [m, a, n2 k1]
    given = x_sb.ap([[a.size * R, m.size], [R, a.size], [N1, N2], [1, kept]], offset=0)  # [m, a, n2, k1]
    move(given, z_hbm[m.span, a.span])
    beyond = N1 - kept
    if beyond > 0:
        high_sb = load(z_hbm[M - m.stop : M - m.start, a.span])  # [m, a, n2, k1]
        for j in range(a.size):
            for n in tiles(N2, max(1, P_MAX // beyond)):
                view = high_sb[:, j, N2 - n.stop : N2 - n.start, 1 : 1 + beyond]
                pattern = [[a.size * R, m.size], [N1, n.size], [1, beyond]]  # [m, n2, k1]
                dst = x_sb.ap(pattern, offset=j * R + n.start * N1 + kept)
                _write_flipped(dst, view, flip_sb, negative, (j + n.index) % 2 == 1)
    return x_sb


def _write_flipped(dst, src, flip_sb, negative, odd):
    """Write src [b, w] backwards in both indices, perhaps with its sign changed."""
    back_ps = _backwards(src, flip_sb)
    data = back_ps
    if len(dst.shape) > 2:
        rows, outer, inner = dst.shape
        data = back_ps.ap([[outer * inner, rows], [inner, outer], [1, inner]], offset=0)
    sign = -1.0 if negative else 1.0
    if odd:
        nisa.tensor_scalar(dst=dst, data=data, op0=nl.multiply, operand0=sign)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=data, scale=sign)


def _backwards(src, flip_sb):
    """Return [b, w] in PSUM: src [b, ...] of up to 512 elements a row, backwards in both indices."""
    rows, width = src.shape[0], _free(src)
    back_ps = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.psum)  # [b, w]
    if width <= P_MAX:
        _backwards_tile(back_ps, src, flip_sb)
    else:
        for w in tiles(width, P_MAX):
            _backwards_tile(back_ps[:, width - w.stop : width - w.start], src[:, w.span], flip_sb)
    return back_ps


def _backwards_tile(dst_ps, src, flip_sb):
    """Reverse at most 128 columns: transpose by the reversed identity, and back by it."""
    rows, width = src.shape[0], _free(src)
    by = flip_sb[0:rows, P_MAX - rows : P_MAX]
    down_ps = nl.ndarray((width, rows), dtype=nl.float32, buffer=nl.psum)  # [w, b]
    nisa.nc_matmul(dst=down_ps, stationary=src, moving=by, is_moving_onezero=True, accumulate=False)
    down_sb = nl.ndarray((width, rows), dtype=src.dtype, buffer=nl.sbuf)  # [w, b]
    nisa.activation(dst=down_sb, op=nl.copy, data=down_ps)
    by = flip_sb[0:width, P_MAX - width : P_MAX]
    nisa.nc_matmul(dst=dst_ps, stationary=down_sb, moving=by, is_moving_onezero=True, accumulate=False)


def _complete_columns(out_re_hbm, out_im_hbm, re_hbm, im_hbm, matrices_hbm, sizes):
    """Write out[r, A, b] = X[b + M r] for b <= M / 2 and all R rows, from X[A, k] with k <= R M / 2."""
    A, R, M, flip = sizes
    width, read = M // 2 + 1, R * M // 2 + 1
    planes = _planes(re_hbm, im_hbm, (A * read,))
    outs = _planes(out_re_hbm, out_im_hbm, (R, A, width))
    flip_sb = load(_table(matrices_hbm, flip))  # [i, 127 - i]
    pieces = (width + P_MAX - 1) // P_MAX
    for p in range(2):
        given = planes[p].ap([[M, (R + 1) // 2], [read, A], [1, width]], offset=0)
        move(outs[p][0 : (R + 1) // 2], given)
    for r in tiles(R // 2, P_MAX):
        for a in tiles(A, max(1, MIRROR_BYTES // (width * 4))):
            for p in range(2):
                # X[M (R - r) - b] is the conjugate: one run of a row and what follows it.
                x_sb = nl.ndarray((r.size, a.size, width), dtype=planes[p].dtype, buffer=nl.sbuf)  # [r, a, b]
                at = a.start * read + r.start * M + M - M // 2
                move(x_sb, planes[p].ap([[M, r.size], [read, a.size], [1, width]], offset=at))
                y_sb = nl.ndarray((r.size, a.size, width), dtype=planes[p].dtype, buffer=nl.sbuf)  # [r, a, b]
                for j in range(a.size):
                    for w in tiles(width, (width + pieces - 1) // pieces):
                        dst = y_sb[:, j, width - w.stop : width - w.start]
                        _write_flipped(dst, x_sb[:, j, w.span], flip_sb, p == 1, (j + w.index) % 2 == 1)
                store(outs[p][R - r.stop : R - r.start, a.span], y_sb)
