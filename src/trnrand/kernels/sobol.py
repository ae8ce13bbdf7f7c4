"""out[R, F, D] = Sobol points as float32; row r begins at point r * F of an aligned stretch.

A point is the XOR of a part that depends on its index in the row and a part that depends on the row. The first is built
once on chip by doubling, the same in every partition; the second is a column. One instruction joins them and keeps 24
bits, one scales. Bound by DMA from two dimensions on.
"""

from trnsci.nki import P_MAX, QUEUES, Axis, load, mine, nisa, nki, nl, require, store, tiles

# dimensions together: their tables and one tile of points take 64 KiB of a partition at F = 512
GROUP = 16
AXES = (Axis(P_MAX, {"heads_hbm": 0}, (0,)), Axis(GROUP, {"heads_hbm": 1, "columns_hbm": 1}, (2,)))
CHOICES = {"loads": QUEUES, "stores": QUEUES}


@nki.jit
def sobol(columns_hbm, heads_hbm, row=1, loads="compiler", stores="compiler"):
    R, D = heads_hbm.shape
    steps = columns_hbm.shape[1] // D
    require(1 << steps >= row, f"{steps} direction numbers reach {1 << steps} points, and a row has {row}")
    out_hbm = nl.ndarray((R, row, D), dtype=nl.float32, buffer=nl.shared_hbm)  # [R, F, D]
    for d in tiles(D, GROUP):
        within = []
        for i in range(d.start, d.stop):
            within.append(_within_row(load(columns_hbm[:, i * steps : (i + 1) * steps], loads), row))
        for r in mine(tiles(R, P_MAX)):
            heads_sb = load(heads_hbm[r.span, d.span], loads)  # [r, d]
            out_sb = nl.ndarray((r.size, row, d.size), dtype=nl.float32, buffer=nl.sbuf)  # [r, F, d]
            for i in range(d.size):
                kept_sb = nl.ndarray((r.size, row), dtype=nl.uint32, buffer=nl.sbuf)  # [r, F]
                nisa.tensor_scalar(
                    dst=kept_sb,
                    data=within[i][0 : r.size, :],
                    op0=nl.bitwise_xor,
                    operand0=heads_sb[:, i : i + 1],
                    op1=nl.right_shift,
                    operand1=8,
                )
                nisa.activation(dst=out_sb[:, :, i], op=nl.copy, data=kept_sb, scale=2.0**-24)
            store(out_hbm[r.span, :, d.span], out_sb, stores)
    return out_hbm


def _within_row(columns_sb, row):
    """Return the part of a point that depends on its position in the row, by doubling."""
    points_sb = nl.ndarray((P_MAX, row), dtype=nl.uint32, buffer=nl.sbuf)  # [p, F]
    nisa.memset(dst=points_sb[:, 0:1], value=0)
    size = 1
    step = 0
    while size < row:
        nisa.tensor_scalar(
            dst=points_sb[:, size : 2 * size],
            data=points_sb[:, 0:size],
            op0=nl.bitwise_xor,
            operand0=columns_sb[:, step : step + 1],
        )
        size = 2 * size
        step = step + 1
    return points_sb
