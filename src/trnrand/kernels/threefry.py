"""out[4, B] = Threefry4x32-20 of counters[4, B] and one key.  Bound by the Vector Engine; tiles are those of `bits`."""

from trnrand.kernels._engines import BLOCKS, _of_counters
from trnsci.nki import P_MAX, Axis, nki

# Both cores of a logical core can share the outermost loop.
CORES = 2
# How a launch that would be too long a program may be cut.
AXES = (Axis(P_MAX * BLOCKS, {"counters_hbm": 1}, (1,)),)


@nki.jit
def threefry(start_hbm, counters_hbm):
    return _of_counters(start_hbm, counters_hbm, "threefry4x32")
