"""out[4 B] = B blocks of a stream as standard normals, by Box and Muller on chip.

The words are those of `bits`; logarithm, square root and sine are the Scalar Engine's, each once over a whole tile so
that its function table is loaded three times a tile. The angle is reduced to [-pi, pi] exactly, as an integer.
"""

from trnrand.kernels._engines import BLOCKS, WIDTHS, _counters, _normals, _pieces, _Start, _words
from trnsci.nki import QUEUES, mine, nki, nl, store

# What a search may choose: blocks of a partition, queues.
CHOICES = {"width": WIDTHS, "stores": QUEUES}


@nki.jit
def normal(start_hbm, blocks=1, engine="philox4x32", width=BLOCKS, stores="compiler"):
    start = _Start(start_hbm, engine)
    out_hbm = nl.ndarray((4 * blocks,), dtype=nl.float32, buffer=nl.shared_hbm)  # [4 B]
    for piece in mine(_pieces(blocks, width)):
        first, p, f = piece
        words_sb = _words(_counters(start, first, p, f), start, p, f, engine)
        out_sb = nl.ndarray((p, 4 * f), dtype=nl.float32, buffer=nl.sbuf)  # [p, 4 f]
        _normals(out_sb, words_sb, p, f)
        store(out_hbm.ap([[4 * f, p], [1, 4 * f]], offset=4 * first), out_sb, stores)
    return out_hbm
