"""out[H, Q, E] = softmax(qT[H, D, Q].T @ kT[G, D, K] over kept pairs) @ v[G, K, E], and the logarithm of the sums.

Rows of blocks are computed by `_shared`. Partial blocks get their inside added by a product with the identity. The
pattern is known when the kernel is compiled; ``lonely`` says that some query keeps no key. Bound by the Vector and
Scalar Engines.
"""

from trnsci.nki import P_MAX, WARM, Axis, Tile, full, load, mine, move, nisa, nki, nl, tiles, warm_up
from trnsparse.kernels._attention import FLOOR, _identity, _Rows, _TransposedHead
from trnsparse.kernels._shared import _Shared

# Bytes of SBUF in each partition that the keys and values of one head may take to stay.
RESIDENT = 64 * 1024
# Loads of what stays.
PIECES = 4
# Bytes of SBUF in each partition for the sums of some heads.
TABLES = 8 * 1024
AXES = (Axis(1, {"qT_hbm": 0, "kT_hbm": 0, "v_hbm": 0}, (0, 0)),)

# What a search may choose: of eighteen blocks how many DMA engines transpose (0: by the length of rows), warming up.
CHOICES = {"moved": (0, 10, 12, 14, 16, 17), "warm": WARM}


@nki.jit
def attention(qT_hbm, kT_hbm, v_hbm, hidden_hbm, pointers=(), columns=(), slots=(), lonely=True, moved=0, warm=WARM[1]):
    H, D, Q = qT_hbm.shape
    G, K, E = v_hbm.shape
    group = H // G
    out_hbm = nl.ndarray((H, Q, E), dtype=v_hbm.dtype, buffer=nl.shared_hbm)  # [H, Q, E]
    rows = len(pointers) - 1
    lse_hbm = nl.ndarray((H, P_MAX, rows), dtype=nl.float32, buffer=nl.shared_hbm)  # [H, p, n]
    identity_sb = _identity(hidden_hbm.dtype)
    hidden_sb = load(hidden_hbm, "compiler")  # [p, T * p]
    warm_up(warm)
    _exponentials()
    width = 2 if v_hbm.dtype in (nl.bfloat16, nl.float16) else 4
    keep = (K * len(tiles(D, P_MAX)) + len(tiles(K, P_MAX)) * E) * width <= RESIDENT
    shared = _Shared(H == 1 and keep, pointers, E, v_hbm.dtype, lonely=lonely, moved=moved)
    masks = (identity_sb, hidden_sb, pointers, columns, slots)
    # The Scalar Engine changes its table for the logarithms of many heads at once.
    first, last = H, 0
    for some in mine(tiles(H, group)):
        first, last = min(first, some.start), max(last, some.stop)
    for heads in tiles(max(0, last - first), max(1, TABLES // (4 * rows))):
        batch = Tile(heads.index, first + heads.start, heads.size)
        top_sb = nl.ndarray((P_MAX, batch.size * rows), dtype=nl.float32, buffer=nl.sbuf)  # [p, h * n]
        inverse_sb = nl.ndarray((P_MAX, batch.size * rows), dtype=nl.float32, buffer=nl.sbuf)  # [p, h * n]
        nisa.memset(dst=top_sb, value=FLOOR)
        nisa.memset(dst=inverse_sb, value=1.0)
        for h in range(batch.start, batch.stop):
            if h % group == 0:
                keys = _TransposedHead(kT_hbm, h // group, keep, PIECES)
                values = _Rows(v_hbm, h // group, keep, PIECES, True)
            queries = _TransposedHead(qT_hbm, h, Q * len(tiles(D, P_MAX)) * width <= RESIDENT // 2, PIECES)
            # The first row needs the first piece of each, and begins when it is there.
            for piece in range(PIECES):
                if h % group == 0:
                    keys.fetch(piece)
                queries.fetch(piece)
                if h % group == 0:
                    values.fetch(piece)
            own = slice((h - batch.start) * rows, (h - batch.start + 1) * rows)
            sums = (top_sb[:, own], inverse_sb[:, own])
            shared.head(out_hbm[h], sums[0], sums[1], queries, keys, values=values, masks=masks, last=h == last - 1)
        shared.finish()
        _logarithms(lse_hbm, batch, top_sb, inverse_sb)
    return out_hbm, lse_hbm


def _logarithms(lse_hbm, batch, top_sb, inverse_sb):
    """Store the logarithms of the sums less top of some heads, from the inverse sums.

    Those of the last two rows come when the Scalar Engine has nothing else to do, so that its table is there when they
    do.
    """
    rows, total = lse_hbm.shape[2], top_sb.shape[1]
    lse_sb = nl.ndarray((P_MAX, total), dtype=nl.float32, buffer=nl.sbuf)  # [p, h * n]
    early = max(0, total - 2)
    for part in (slice(0, early), slice(early, total)):
        if part.start < part.stop:
            log_sb = nl.ndarray((P_MAX, part.stop - part.start), dtype=nl.float32, buffer=nl.sbuf)  # [p, h * n]
            nisa.activation(dst=log_sb, op=nl.log, data=inverse_sb[:, part])
            nisa.scalar_tensor_tensor(
                dst=lse_sb[:, part],
                data=log_sb,
                op0=nl.multiply,
                operand0=-1.0,
                op1=nl.subtract,
                operand1=top_sb[:, part],
            )
    for h in range(batch.size):
        move(lse_hbm[batch.start + h], lse_sb[:, h * rows : (h + 1) * rows], "static")


def _exponentials():
    """Have the Scalar Engine load its table while the first operands are on their way."""
    one_sb = full((P_MAX, 1), 0.0)  # [p, 1]
    nisa.activation(dst=one_sb, op=nl.exp, data=one_sb)
