"""Frames of signals as rows of `_folded`: cut, windowed and transformed without a copy of them in HBM.

Frames overlap in HBM and are read where they lie. Those that reach beyond an end of a signal are read from short
signals that hold its padded ends.
"""

from trnfft.kernels._common import _load_repeated, _planes
from trnfft.kernels._folded import _first_product, _held, _second_product, _slots, _widths
from trnsci.nki import P_MAX, move, nisa, nl, store, tiles


def _frames(out_re_hbm, out_im_hbm, re_hbm, matrices_hbm, given_hbm, sizes):
    """Compute out[(a t), k] = sum_j W^(j k) window[j] x[a, t hop - pad + j].

    ``pieces`` are (whether from ``given_hbm``, length of its signals, first frame, frames, where the first one starts).
    """
    A, T, hop, written, N1, N2, half, group, first, second, unpaired, window, pieces = sizes
    outs = _planes(out_re_hbm, out_im_hbm, (A * T, written))
    held = _held(matrices_hbm, first, second, unpaired)
    window_sb = None
    if len(window) > 0:
        window_sb = _load_repeated(given_hbm, window, 0, min(A * T, P_MAX), 0, N1 * N2)  # [b, n]
    blocks = tiles(A * T, P_MAX)
    ahead_sb = None
    for index in range(len(blocks) + 1):
        a_sb = ahead_sb
        if index < len(blocks):
            b = blocks[index]
            x_sb = _cut(re_hbm, given_hbm, b, (T, hop, N1 * N2, pieces))
            if window_sb != None:
                nisa.tensor_tensor(dst=x_sb[:, 0], data1=x_sb[:, 0], data2=window_sb[0 : b.size], op=nl.multiply)
            ahead_sb = _first_product(_slots(x_sb, N1, N2, half), _widths(N1, N2, half), held[0])
        if index > 0:
            b = blocks[index - 1]
            y_sb = _second_product(a_sb, held, (2, N1, N2, half, group), out_re_hbm.dtype)
            for o in range(2):
                store(outs[o][b.span], y_sb[:, o, 0:written])


def _cut(re_hbm, given_hbm, b, sizes):
    """Load [b, 1, n]: a block of frames, in one load for each signal and piece that it meets."""
    T, hop, N, pieces = sizes
    x_sb = nl.ndarray((b.size, 1, N), dtype=re_hbm.dtype, buffer=nl.sbuf)  # [b, p, n]
    for a in range(b.start // T, (b.stop - 1) // T + 1):
        for piece in pieces:
            aside, length, begin, count, at = piece
            low = max(b.start, a * T + begin)
            high = min(b.stop, a * T + begin + count)
            if low < high:
                start = a * length + at + (low - a * T - begin) * hop
                source = given_hbm if aside else re_hbm
                move(x_sb[low - b.start : high - b.start, 0], source.ap([[hop, high - low], [1, N]], offset=start))
    return x_sb
