"""Windows of rows: each partition has a run of the rows of a matrix in HBM, and takes a window of some around it."""

from trnsci.nki import move, nisa, nl


def _load_window(x, start, width, P, run, *, n, queue):
    """Load rows ``start`` to ``start + width`` of x after the first of every partition's run; zeros outside x."""
    x_sb = nl.ndarray((P, width, n.size), dtype=x.hbm.dtype, buffer=nl.sbuf)  # [p, w, n]
    pieces = _pieces(start, width, P, run, x.rows)
    if len(pieces) != 1 or pieces[0][1] < P or pieces[0][3] < width:
        nisa.memset(dst=x_sb, value=0.0)
    for piece in pieces:
        move(_part(x_sb, piece), _rows(x, piece, start, run, n), queue)
    return x_sb


def _store_window(x, x_sb, start, run, *, n, queue):
    """Store rows that `_load_window` would load, those that x has."""
    for piece in _pieces(start, x_sb.shape[1], x_sb.shape[0], run, x.rows):
        move(_rows(x, piece, start, run, n), _part(x_sb, piece), queue)


def _pieces(start, width, P, run, limit):
    """Return which parts of windows are rows below ``limit``: first partition, partitions, first row, rows of each."""
    pieces = []
    for p in range(P):
        low = max(0, -(start + p * run))
        high = min(width, limit - start - p * run)
        if high > low:
            last = len(pieces) - 1
            if last >= 0 and pieces[last][2] == low and pieces[last][3] == high - low:
                pieces[last] = (pieces[last][0], pieces[last][1] + 1, low, high - low)
            else:
                pieces.append((p, 1, low, high - low))
    return pieces


def _rows(x, piece, start, run, n):
    """Return a piece of the windows from row ``start`` on, as a view of HBM."""
    N = x.columns
    offset = x.start + (start + piece[0] * run + piece[2]) * N + n.start
    return x.hbm.ap([[run * N, piece[1]], [N, piece[3]], [1, n.size]], offset=offset)


def _part(x_sb, piece):
    return x_sb[piece[0] : piece[0] + piece[1], piece[2] : piece[2] + piece[3], :]
