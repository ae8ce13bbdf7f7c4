"""out[4 B] = the words of B blocks of a stream.

Bound by GpSimd for Philox and by the Vector Engine for Threefry. A tile is [128, 2048] blocks and holds 8 KiB a
partition for each of some twenty words alive at once.
"""

from trnrand.kernels._engines import BLOCKS, WIDTHS, _counters, _pieces, _Start, _words
from trnsci.nki import QUEUES, mine, nisa, nki, nl, store

# What a search may choose: blocks of a partition, who brings words into the order of the stream, queues.
CHOICES = {"width": WIDTHS, "copies": ("vector", "gpsimd"), "stores": QUEUES}


@nki.jit
def bits(start_hbm, blocks=1, engine="philox4x32", width=BLOCKS, copies="vector", stores="compiler"):
    start = _Start(start_hbm, engine)
    out_hbm = nl.ndarray((4 * blocks,), dtype=nl.uint32, buffer=nl.shared_hbm)  # [4 B]
    for piece in mine(_pieces(blocks, width)):
        first, p, f = piece
        words_sb = _words(_counters(start, first, p, f), start, p, f, engine)
        out_sb = nl.ndarray((p, 4 * f), dtype=nl.uint32, buffer=nl.sbuf)  # [p, 4 f]
        for i in range(4):
            engine_of = nisa.engine.gpsimd if copies == "gpsimd" else nisa.engine.vector
            nisa.tensor_copy(dst=out_sb.ap([[4 * f, p], [4, f]], offset=i), src=words_sb[i], engine=engine_of)
        store(out_hbm.ap([[4 * f, p], [1, 4 * f]], offset=4 * first), out_sb, stores)
    return out_hbm
