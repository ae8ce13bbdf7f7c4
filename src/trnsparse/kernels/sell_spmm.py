"""out[n, i] = sum over the entries of row i of value * x[n, column], gathered on GpSimd from windows of x in SBUF.

A partition has a run of rows, in chunks. Rows of a chunk are sorted by length and padded to the widths of ``slices``:
one gather, one product and a sum for each slice do all of it, and a second gather restores their order. All that
depends on the pattern is data: what is compiled knows counts.

The window of a chunk is where the rows' columns lie, if they lie near the rows (``reach`` below and above). Otherwise
each partition has a block of x, and gathers ``room`` elements for every partition, which these exchange through HBM:
the window is what arrived. Columns of very many entries are broadcast to all instead, and rows of very many are summed
where x lies; both are sums over partitions, by a product with ones. Bound by GpSimd; a gather's cost is assumed.
"""

from trnsci.nki import N_TILE, P_MAX, QUEUES, Axis, Matrix, Tile, full, load, move, my_indices, nisa, nki, nl, tiles
from trnsparse.kernels._windows import _load_window, _store_window

# Elements of a partition that one gather brings, about; SBUF holds windows, indices, values and terms.
GATHER = 8192
# Values of a partition multiplied at a time.
PART = 4 * N_TILE
AXES = (Axis(1, {"xT_hbm": 0}, (0,)),)
# What a search may choose: queues.
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def sell_spmm(
    xT_hbm,
    indices_hbm,
    values_hbm,
    order_hbm,
    picks_hbm,
    hub_indices_hbm,
    hub_values_hbm,
    rows=0,
    run=1,
    slices=(),
    reach=(0, 0),
    room=0,
    hubs=0,
    hub_slices=(),
    loads="static",
    stores="static",
):
    """Multiply; ``indices``, ``values`` [T, P, G], ``order`` [T, P, C]; with ``room`` ``picks`` [T, P, P * room]."""
    N, K = xT_hbm.shape
    T, P, C = order_hbm.shape
    out_hbm = nl.ndarray((N, rows), dtype=xT_hbm.dtype, buffer=nl.shared_hbm)  # [N, M]
    for n in my_indices(N):
        x = Matrix(xT_hbm, n * K, K, 1)
        sent_hbm, totals_sb, sums_sb = None, None, None
        if room > 0:
            block = (K + P_MAX - 1) // P_MAX
            x_sb = _near(x, 0, block, P_MAX, block, loads)  # [p, block + 1, 1]
            sent_hbm = _send(x_sb, picks_hbm, loads, stores)
            if hub_indices_hbm != None:
                totals_sb = _total(x_sb, hub_indices_hbm, hub_values_hbm, hub_slices, loads)
                sums_sb = totals_sb[:, hubs : totals_sb.shape[1]]
        out, waiting_sb = Matrix(out_hbm, n * rows, rows, 1), None
        # engines run in order: GpSimd gathers for the next chunk while the Vector Engine sums this one
        for t in range(T + 1):
            terms_sb = None
            if t < T:
                if room > 0:
                    window_sb = _receive(sent_hbm, totals_sb, t, P, room=room, hubs=hubs, loads=loads)
                else:
                    window_sb = _near(x, t * C - reach[0], C + reach[0] + reach[1], P, run, loads)
                terms_sb = nl.ndarray((P, indices_hbm.shape[2]), dtype=nl.float32, buffer=nl.sbuf)  # [p, i]
                indices_sb = load(indices_hbm[t], loads)  # [p, i]
                nisa.nc_n_gather(dst=terms_sb, data=window_sb, indices=indices_sb.view(nl.uint32))
            if t > 0:
                out_sb = _sum_rows(waiting_sb, values_hbm, order_hbm, sums_sb, t=t - 1, slices=slices, loads=loads)
                size = min(C, run - (t - 1) * C)
                _store_window(out, out_sb[:, 0:size, :], (t - 1) * C, run, n=Tile(0, 0, 1), queue=stores)
            waiting_sb = terms_sb
    return out_hbm


def _sum_rows(terms_sb, values_hbm, order_hbm, extra_sb, *, t, slices, loads):
    """Return the rows of a chunk in order, [p, C, 1], from what was gathered for them."""
    P, G = terms_sb.shape
    C = order_hbm.shape[2]
    # in parts, so that the next chunk has room
    for v in tiles(G, PART):
        values_sb = load(values_hbm[t, 0:P, v.span], loads)  # [p, v]
        nisa.tensor_tensor(dst=terms_sb[:, v.span], data1=terms_sb[:, v.span], data2=values_sb, op=nl.multiply)
    more = 0 if extra_sb == None else extra_sb.shape[1]
    sums_sb = nl.ndarray((P, C + more), dtype=nl.float32, buffer=nl.sbuf)  # [p, C + hubs]
    _sum_slices(sums_sb, terms_sb, slices)
    if more > 0:
        nisa.tensor_copy(dst=sums_sb[:, C : C + more], src=extra_sb[0:P, :])
    out_sb = nl.ndarray((P, C, 1), dtype=nl.float32, buffer=nl.sbuf)  # [p, C, 1]
    nisa.nc_n_gather(dst=out_sb, data=sums_sb, indices=load(order_hbm[t], loads).view(nl.uint32))
    return out_sb


def _sum_slices(sums_sb, terms_sb, slices):
    """Sum the terms of rows: slices of some rows of one width each; those of width 0 are 0."""
    P, G = terms_sb.shape
    row, at = 0, 0
    for s in slices:
        count, width = s[0], s[1]
        if width == 0:
            nisa.memset(dst=sums_sb[:, row : row + count], value=0.0)
        else:
            terms = terms_sb.ap([[G, P], [width, count], [1, width]], offset=at)
            nisa.tensor_reduce(dst=sums_sb[:, row : row + count], op=nl.add, data=terms, axis=2)
        row, at = row + count, at + count * width


def _near(x, start, width, P, run, loads):
    """Return windows of x around the rows of a chunk, and a zero behind each."""
    window_sb = _load_window(x, start, width + 1, P, run, n=Tile(0, 0, 1), queue=loads)  # [p, w + 1, 1]
    nisa.memset(dst=window_sb[:, width : width + 1, :], value=0.0)
    return window_sb


def _send(x_sb, picks_hbm, loads, stores):
    """Gather what each partition needs of each block of x, into HBM [T, from, to * room]."""
    T, P, W = picks_hbm.shape
    sent_hbm = nl.ndarray((T, P, W), dtype=x_sb.dtype, buffer=nl.hbm)  # [T, p, W]
    for t in range(T):
        picked_sb = nl.ndarray((P, W), dtype=x_sb.dtype, buffer=nl.sbuf)  # [p, W]
        nisa.nc_n_gather(dst=picked_sb, data=x_sb, indices=load(picks_hbm[t], loads).view(nl.uint32))
        move(sent_hbm[t], picked_sb, stores)
    return sent_hbm


def _receive(sent_hbm, totals_sb, t, P, *, room, hubs, loads):
    """Return windows of what was sent to each partition, of broadcast columns, and a zero behind each."""
    senders, W = sent_hbm.shape[1], sent_hbm.shape[2]
    width = senders * room
    window_sb = nl.ndarray((P, width + hubs + 1), dtype=sent_hbm.dtype, buffer=nl.sbuf)  # [p, w + hubs + 1]
    nisa.memset(dst=window_sb[:, width + hubs : width + hubs + 1], value=0.0)
    arrived = sent_hbm.ap([[room, P], [W, senders], [1, room]], offset=t * senders * W)
    move(window_sb.ap([[width + hubs + 1, P], [room, senders], [1, room]]), arrived, loads)
    if hubs > 0:
        nisa.tensor_copy(dst=window_sb[:, width : width + hubs], src=totals_sb[0:P, 0:hubs])
    return window_sb


def _total(x_sb, indices_hbm, values_hbm, slices, loads):
    """Return broadcast columns and the sums of rows of many entries, in every partition [p, hubs + rows]."""
    P = indices_hbm.shape[0]
    count = 0
    for s in slices:
        count += s[0]
    parts_sb = nl.ndarray((P, count), dtype=nl.float32, buffer=nl.sbuf)  # [p, h]
    row, at, first = 0, 0, 0
    while first < len(slices):
        # as many slices as one gather brings
        last, rows, size = first, 0, 0
        while last < len(slices) and (last == first or size + slices[last][0] * slices[last][1] <= GATHER):
            rows, size = rows + slices[last][0], size + slices[last][0] * slices[last][1]
            last += 1
        terms_sb = nl.ndarray((P, size), dtype=x_sb.dtype, buffer=nl.sbuf)  # [p, i]
        indices_sb = load(indices_hbm[:, at : at + size], loads)  # [p, i]
        nisa.nc_n_gather(dst=terms_sb, data=x_sb, indices=indices_sb.view(nl.uint32))
        values_sb = load(values_hbm[:, at : at + size], loads)  # [p, i]
        nisa.tensor_tensor(dst=values_sb, data1=terms_sb, data2=values_sb, op=nl.multiply)
        _sum_slices(parts_sb[:, row : row + rows], values_sb, slices[first:last])
        row, at, first = row + rows, at + size, last
    sums_sb = nl.ndarray((P, count), dtype=nl.float32, buffer=nl.sbuf)  # [p, h]
    ones_sb = full((P, P), 1.0)  # [p, p]
    for h in tiles(count, N_TILE):
        sum_ps = nl.ndarray((P, h.size), dtype=nl.float32, buffer=nl.psum)  # [p, h]
        nisa.nc_matmul(dst=sum_ps, stationary=ones_sb, moving=parts_sb[:, h.span], accumulate=False)
        nisa.tensor_copy(dst=sums_sb[:, h.span], src=sum_ps)
    return sums_sb
