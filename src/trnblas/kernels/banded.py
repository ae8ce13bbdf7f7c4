"""y[B, P, W] = sum over d of weights[B, d, P, W] * x[B, d, P, W], x shifted to every diagonal.  Bound by DMA."""

from trnsci.nki import N_TILE, P_MAX, QUEUES, Axis, elementwise, load, mine, nki, nl, store, tiles

WIDTH = 4 * N_TILE
AXES = (
    Axis(1, {"weights_hbm": 0, "x_hbm": 0}, (0,), broadcasts=False),
    Axis(WIDTH, {"weights_hbm": 3, "x_hbm": 3}, (2,)),
)
CHOICES = {"width": (N_TILE, 2 * N_TILE, 4 * N_TILE, 8 * N_TILE, 16 * N_TILE), "loads": QUEUES, "stores": QUEUES}


@nki.jit
def banded(weights_hbm, x_hbm, width=WIDTH, loads="compiler", stores="compiler"):
    B, D, P, W = weights_hbm.shape
    y_hbm = nl.ndarray((B, P, W), dtype=nl.float32, buffer=nl.shared_hbm)  # [B, P, W]
    for i in range(B):
        for w in mine(tiles(W, width)):
            sum_sb = None
            for d in range(D):
                weights_sb = load(weights_hbm[i, d, 0:P_MAX, w.span], loads)  # [P, w]
                x_sb = load(x_hbm[i, d, 0:P_MAX, w.span], loads)  # [P, w]
                term_sb = elementwise(weights_sb, x_sb, nl.multiply)  # [P, w]
                if sum_sb == None:
                    sum_sb = term_sb
                else:
                    next_sb = elementwise(sum_sb, term_sb, nl.add)  # [P, w]
                    sum_sb = next_sb
            store(y_hbm[i, 0:P_MAX, w.span], sum_sb, stores)
    return y_hbm
