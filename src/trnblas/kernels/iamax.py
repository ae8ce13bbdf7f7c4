"""Where |x| is largest, or smallest, in vectors cut over the partitions; bound by the Vector Engine.

x is [B, P, W]. Of every tile of every partition: the best |x| and the best NaN flag, and where they first occur.
"""

from trnsci.nki import N_TILE, P_MAX, QUEUES, Axis, load, my_indices, nisa, nki, nl, store, tiles

WIDTH = 4 * N_TILE
AXES = (Axis(1, {"x_hbm": 0}, (0, 0)), Axis(WIDTH, {"x_hbm": 2}, (3, 3)))
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def iamax(x_hbm, largest=True, loads="compiler", stores="compiler"):
    B, P, W = x_hbm.shape
    parts = tiles(W, WIDTH)
    T = len(parts)
    value_hbm = nl.ndarray((B, P, 2, T), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, P, 2, T]
    place_hbm = nl.ndarray((B, P, 2, T), dtype=nl.int32, buffer=nl.shared_hbm)  # [B, P, 2, T]
    for i in my_indices(B):
        value_sb = nl.ndarray((P, 2, T), dtype=nl.float32, buffer=nl.sbuf)  # [P, 2, T]
        place_sb = nl.ndarray((P, 2, T), dtype=nl.int32, buffer=nl.sbuf)  # [P, 2, T]
        for w in parts:
            x_sb = load(x_hbm[i, 0:P_MAX, w.span], loads)  # [P, w]
            flag_sb = nl.ndarray((P, w.size), dtype=nl.float32, buffer=nl.sbuf)  # [P, w]
            nisa.tensor_tensor(dst=flag_sb, data1=x_sb, data2=x_sb, op=nl.not_equal, engine=nisa.engine.gpsimd)
            size_sb = nl.ndarray((P, w.size), dtype=nl.float32, buffer=nl.sbuf)  # [P, w]
            nisa.activation(dst=size_sb, op=nl.abs, data=x_sb)
            # A flag marks a NaN; here it must not hide other elements. Comparing drops it.
            nisa.tensor_scalar(dst=size_sb, data=size_sb, op0=nl.maximum, operand0=0.0)
            if not largest:
                nisa.tensor_scalar(dst=size_sb, data=size_sb, op0=nl.multiply, operand0=-1.0)
            _best(value_sb, place_sb, 0, w.index, size_sb)
            _best(value_sb, place_sb, 1, w.index, flag_sb)
        store(value_hbm[i, 0:P_MAX, 0:2, 0:T], value_sb, stores)
        store(place_hbm[i, 0:P_MAX, 0:2, 0:T], place_sb, stores)
    return value_hbm, place_hbm


def _best(value_sb, place_sb, kind, column, data_sb):
    """Write the largest element of every partition and its index into one column."""
    P = data_sb.shape[0]
    best_sb = nl.ndarray((P, 8), dtype=nl.float32, buffer=nl.sbuf)  # [P, 8]
    nisa.max8(dst=best_sb, src=data_sb)
    where_sb = nl.ndarray((P, 8), dtype=nl.uint32, buffer=nl.sbuf)  # [P, 8]
    nisa.nc_find_index8(dst=where_sb, data=data_sb, vals=best_sb)
    nisa.tensor_copy(dst=value_sb[:, kind, column : column + 1], src=best_sb[:, 0:1])
    nisa.tensor_copy(dst=place_sb[:, kind, column : column + 1], src=where_sb[:, 0:1])
