"""out[4 B] = B blocks of a stream as float32 in [0, 1): the upper 24 bits of every word times 2**-24, which is exact.

The words are those of `bits`; the Scalar Engine, idle otherwise, converts them.
"""

from trnrand.kernels._engines import BLOCKS, UNIT, WIDTHS, _bits, _counters, _pieces, _Start, _words
from trnsci.nki import QUEUES, mine, nisa, nki, nl, store

# What a search may choose: blocks of a partition, queues.
CHOICES = {"width": WIDTHS, "stores": QUEUES}


@nki.jit
def uniform(start_hbm, blocks=1, engine="philox4x32", width=BLOCKS, stores="compiler"):
    start = _Start(start_hbm, engine)
    out_hbm = nl.ndarray((4 * blocks,), dtype=nl.float32, buffer=nl.shared_hbm)  # [4 B]
    for piece in mine(_pieces(blocks, width)):
        first, p, f = piece
        words_sb = _words(_counters(start, first, p, f), start, p, f, engine)
        out_sb = nl.ndarray((p, 4 * f), dtype=nl.float32, buffer=nl.sbuf)  # [p, 4 f]
        for i in range(4):
            kept_sb = _bits(words_sb[i], nl.right_shift, 8)
            nisa.activation(dst=out_sb.ap([[4 * f, p], [4, f]], offset=i), op=nl.copy, data=kept_sb, scale=UNIT)
        store(out_hbm.ap([[4 * f, p], [1, 4 * f]], offset=4 * first), out_sb, stores)
    return out_hbm
