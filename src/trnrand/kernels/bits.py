"""out[4 B] = the words of B blocks of a stream, or of B counters given as counters[4, B] (then out[4, B]).

Bound by GpSimd for Philox and by the Vector Engine for Threefry. A tile is [128, 2048] blocks and holds 8 KiB a
partition for each of some twenty words alive at once.
"""

from trnrand.kernels._engines import _counters, _pieces, _words
from trnsci.nki import load, nisa, nki, nl, store


@nki.jit
def bits(start_hbm, counters_hbm=None, blocks=1, engine="philox4x32"):
    start_sb = load(start_hbm)  # [p, 4 + keys]
    shape = (4 * blocks,) if counters_hbm == None else (4, blocks)
    out_hbm = nl.ndarray(shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    for first, p, f in _pieces(blocks):
        here = slice(first, first + p * f)
        if counters_hbm == None:
            made = _words(_counters(start_sb, first, p, f), start_sb, p, f, engine)
            out_sb = nl.ndarray((p, 4 * f), dtype=nl.uint32, buffer=nl.sbuf)  # [p, 4 f]
            for i in range(4):
                nisa.tensor_copy(dst=out_sb[:, i : 4 * f : 4], src=made[i])
            store(out_hbm[4 * first : 4 * (first + p * f)].reshape((p, 4 * f)), out_sb)
        else:
            given = []
            for i in range(4):
                given.append(load(counters_hbm[i, here].reshape((p, f))))  # [p, f]
            made = _words(given, start_sb, p, f, engine)
            for i in range(4):
                store(out_hbm[i, here].reshape((p, f)), made[i])
    return out_hbm
